"""How a model family marks reasoning and tool calls in its output: data, read by one parser.

A ``FormatSpec`` is derived from a chat template or written by hand (``cognition.parsing.formats``). It is frozen,
prints as what it is, and goes through JSON and back (``cognition.codec``).
"""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from cognition.errors import ConfigError

CallShape = Literal[
    "json_object", "name_as_key", "named_json", "tagged_parameters", "nested_tags", "pythonic", "named_object"
]
"""How one call is written between its markers; N is the name, K a parameter's name, V its value.

====================  ===============================================  =======================
json_object           ``{"name": N, "arguments": {K: V, ...}}``        Hermes, Qwen3, Llama 3
name_as_key           ``{N: {K: V, ...}}``                             Apertus
named_json            ``N`` *name_end* ``{K: V, ...}``                 Mistral, DeepSeek, Kimi
tagged_parameters     ``N`` *name_end* (*key* ``K`` *value* ``V``)*    Qwen3-Coder, GLM
nested_tags           the same, objects and lists as tags in tags      MiniMax-M3
pythonic              ``[N(K=V, ...), ...]``, values as in Python      LFM2, Llama 4
named_object          ``N{K:V, ...}``, strings in *quotes*             Gemma 4, FunctionGemma
====================  ===============================================  =======================
"""


@frozen
class ReasoningMarkers:
    """What stands around the model's reasoning."""

    start: str
    end: str
    opened: bool = False
    """The generation prompt already wrote ``start``: the reply begins inside the reasoning."""


@frozen
class JsonFields:
    """The keys of a call written as a JSON object; other keys are read over."""

    name: str = "name"
    arguments: str = "arguments"


@frozen
class ParameterMarkers:
    """What stands around the parameters of a call with tagged parameters.

    One parameter is ``key_start K key_end value_start V value_end``. A line break on either side of a value is the
    template's, as is white space between parameters.
    """

    key_start: str
    key_end: str
    value_start: str
    """Empty when the value follows ``key_end`` directly."""
    value_end: str
    string_mark: str = ""
    """Stands between ``key_end`` and ``value_start`` where the value is text (``string="true"``); any other value is
    JSON. Empty: the format has no types, and the tool's schema says what a value is."""
    text_start: str = ""
    """Around a value that is text, where a format marks these (``<![CDATA[``), within the value's own markers."""
    text_end: str = ""


@frozen
class CallFormat:
    """How calls are marked and what one looks like. Empty texts stand for markers that a family does without."""

    shape: CallShape
    start: str = ""
    """Before each call. Empty: a call begins with the ``{`` of its JSON, in the section if there is one, or the list of
    pythonic calls with its ``[``."""
    more_starts: tuple[str, ...] = ()
    """Other texts that a call may begin with. ``name_start`` may be one: the name then follows directly."""
    end: str = ""
    """After each call. Empty: a call ends where its JSON ends."""
    section_start: str = ""
    """Before all calls of a reply."""
    section_end: str = ""
    """After all calls of a reply. Empty: the section ends with its JSON, or with the reply."""
    separator: str = ""
    """Between two calls. The parser reads over it and does without it too."""
    anywhere: bool = False
    """Without start markers: a call may stand in the middle of text. Otherwise text ends the search for calls."""
    fields: JsonFields = JsonFields()
    """The keys of a call of the shape ``json_object``."""
    name_start: str = ""
    """Between ``start`` and the name, for the shapes ``named_json``, ``tagged_parameters`` and ``named_object``. What
    stands before it, such as an id, is read over."""
    name_end: str = ""
    """After the name, for the same shapes. Empty with tagged parameters: the name ends where the first key starts."""
    id_start: str = ""
    """After the name and before an id of the model's own making, which is read over (``[CALL_ID]``)."""
    more_id_starts: tuple[str, ...] = ()
    """Other texts that end the name and are read over with what follows them."""
    body_end: str = ""
    """After the arguments and before ``end``, read over (``</function>``)."""
    escaped: bool = False
    """Names of tools and parameters are written as in an XML attribute: ``&quot;`` and ``&amp;`` for these signs."""
    parameters: ParameterMarkers | None = None
    """Of the shapes ``tagged_parameters`` and ``nested_tags``; there, ``value_end`` is followed by the key again."""
    quotes: tuple[str, ...] = ("'", '"')
    """Around strings, for the shapes ``pythonic`` (with backslashes as in Python) and ``named_object`` (without)."""

    def __attrs_post_init__(self) -> None:
        tagged = self.shape in ("tagged_parameters", "nested_tags")
        if tagged and self.parameters is None:
            raise ConfigError("a format with tagged parameters needs the markers of a parameter")
        if tagged and not (self.start and self.end):
            raise ConfigError("a format with tagged parameters needs a marker before and after each call")
        if self.shape == "named_json" and not (self.start and self.name_end):
            raise ConfigError("a call whose name stands before its JSON needs a marker before and after the name")
        bare = self.shape == "pythonic" and not (self.start or self.section_start or self.end)
        if self.shape in ("pythonic", "named_object") and not (
            (bare or (self.start and self.end)) and all(self.quotes)
        ):
            raise ConfigError("a call whose values are not JSON needs a marker before and after it, and around strings")
        if "" in self.more_starts + self.more_id_starts:
            raise ConfigError("a marker must not be empty")
        if self.section_end and not self.section_start:
            raise ConfigError("a section that ends has to start")


@frozen(cache_hash=True)
class FormatSpec:
    """How to read what a model writes."""

    name: str
    reasoning: ReasoningMarkers | None = None
    calls: CallFormat | None = None
    dropped: tuple[str, ...] = field(default=())
    """Other markers that are no part of the text, such as those around content."""
    stops: tuple[str, ...] = field(default=())
    """Texts that end the reply, should a runtime let them through: nothing after them is read."""
    answers: tuple[str, ...] = field(default=())
    """Those of ``dropped`` that stand before text for the user: reasoning that is still open ends there."""
    prompted: str = ""
    """A marker, or the beginning of one, that the generation prompt has already written: the reply is read as if it
    began with it."""
    lead: str = ""
    """What the model writes before an answer in place of a marker (``助手：``). It is taken off where the visible text
    begins, and is text like any other everywhere else."""

    @dropped.validator
    @stops.validator
    def _not_empty(self, _attribute: object, value: tuple[str, ...]) -> None:
        if "" in value:
            raise ConfigError(f"format {self.name!r}: a marker must not be empty")

    @answers.validator
    def _among_dropped(self, _attribute: object, value: tuple[str, ...]) -> None:
        if not set(value) <= set(self.dropped):
            raise ConfigError(f"format {self.name!r}: a marker before answers has to be one of those dropped")

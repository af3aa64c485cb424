"""How a model family marks reasoning and tool calls in its output: data, read by one parser.

A ``FormatSpec`` is derived from a chat template or handwritten (``cognition.parsing.formats``). It is frozen, and
converts to JSON and back (``cognition.steps.codec``).
"""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from cognition.base.errors import ConfigError

CallShape = Literal[
    "json_object", "name_as_key", "named_json", "tagged_parameters", "nested_tags", "pythonic", "named_object"
]
"""The syntax of one call between its markers. N is the name, K a parameter's name, V its value:

- ``json_object``: ``{"name": N, "arguments": {K: V, ...}}`` (Hermes, Qwen3, Llama 3)
- ``name_as_key``: ``{N: {K: V, ...}}`` (Apertus)
- ``named_json``: ``N``, ``name_end``, ``{K: V, ...}`` (Mistral, DeepSeek, Kimi)
- ``tagged_parameters``: ``N``, ``name_end``, then ``K`` and ``V`` between tags for each parameter (Qwen3-Coder, GLM)
- ``nested_tags``: the same, with objects and lists as nested tags (MiniMax-M3)
- ``pythonic``: ``[N(K=V, ...), ...]``, values as in Python (LFM2, Llama 4)
- ``named_object``: ``N{K:V, ...}``, strings between ``quotes`` (Gemma 4, FunctionGemma)
"""


@frozen
class ReasoningMarkers:
    """The markers around the model's reasoning."""

    start: str
    end: str
    opened: bool = False
    """Whether the generation prompt already wrote ``start``: the reply then begins inside the reasoning."""


@frozen
class JsonFields:
    """The keys of a call written as a JSON object; other keys are skipped."""

    name: str = "name"
    arguments: str = "arguments"


@frozen
class ParameterMarkers:
    """The markers around the parameters of a call with tagged parameters.

    One parameter is ``key_start K key_end value_start V value_end``. A line break on either side of a value belongs to
    the template, as does white space between parameters.
    """

    key_start: str
    key_end: str
    value_start: str
    """Empty if the value follows ``key_end`` directly."""
    value_end: str
    string_mark: str = ""
    """Between ``key_end`` and ``value_start`` if the value is text (``string="true"``); any other value is JSON. Empty:
    the format has no types, and the tool's schema decides.
    """
    text_start: str = ""
    """Around a text value, within the value's own markers, if a format has such markers (``<![CDATA[``)."""
    text_end: str = ""


@frozen
class CallFormat:
    """The markers and the shape of calls. An empty text: the family has no such marker."""

    shape: CallShape
    start: str = ""
    """Before each call. Empty: a call begins with the ``{`` of its JSON, in the section if there is one, or with the
    ``[`` of a list of pythonic calls.
    """
    more_starts: tuple[str, ...] = ()
    """Alternative start markers. ``name_start`` may be one: the name then follows directly."""
    end: str = ""
    """After each call. Empty: a call ends with its JSON."""
    section_start: str = ""
    """Before all calls of a reply."""
    section_end: str = ""
    """After all calls of a reply. Empty: the section ends with its JSON, or with the reply."""
    separator: str = ""
    """Between two calls. The parser skips it, and does not require it."""
    anywhere: bool = False
    """Without start markers: whether a call may come after text. Otherwise text ends the search for calls."""
    fields: JsonFields = JsonFields()
    """The keys of a call of the shape ``json_object``."""
    name_start: str = ""
    """Between ``start`` and the name, for the shapes ``named_json``, ``tagged_parameters`` and ``named_object``. Text
    before it, such as an id, is skipped.
    """
    name_end: str = ""
    """After the name, for the same shapes. Empty with tagged parameters: the name ends where the first key starts."""
    id_start: str = ""
    """After the name and before an id that the model generates, which is skipped (``[CALL_ID]``)."""
    more_id_starts: tuple[str, ...] = ()
    """Other texts that end the name; they are skipped together with the text after them."""
    body_end: str = ""
    """After the arguments and before ``end``; skipped (``</function>``)."""
    escaped: bool = False
    """Whether names of tools and parameters are escaped as in an XML attribute: ``&quot;`` and ``&amp;``."""
    parameters: ParameterMarkers | None = None
    """For the shapes ``tagged_parameters`` and ``nested_tags``. In ``nested_tags``, the key follows ``value_end``
    again.
    """
    quotes: tuple[str, ...] = ("'", '"')
    """Around strings, for the shapes ``pythonic`` (with backslashes as in Python) and ``named_object`` (without)."""
    spaced: bool = False
    """Whether white space or a token ends the name. The words behind it are skipped, as an id is."""

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


@frozen
class HeaderMarkers:
    """The markers of messages that each begin with a header (Harmony).

    The other markers of the format contain the usual headers. These ones serve to read any other header.
    """

    starts: tuple[str, ...]
    """Each begins a header, or the next part of one."""
    end: str
    """Between the header and the message's text."""
    recipient: str
    """Before the name of the message's recipient, which is a tool if it is not one of ``people``."""
    reasoning: str
    """The channel of reasoning."""
    answers: tuple[str, ...]
    """The channels of text for the user."""
    people: tuple[str, ...]
    """Who writes and receives messages besides tools."""
    tokens: tuple[str, ...] = ()
    """Other markers within a header."""


@frozen(cache_hash=True)
class FormatSpec:
    """How to read a model's output."""

    name: str
    reasoning: ReasoningMarkers | None = None
    calls: CallFormat | None = None
    dropped: tuple[str, ...] = field(default=())
    """Other markers that do not belong to the text, such as those around content."""
    stops: tuple[str, ...] = field(default=())
    """Texts that end the reply if a runtime lets them through: text after them is not read."""
    answers: tuple[str, ...] = field(default=())
    """Those of ``dropped`` that precede text for the user: they also end open reasoning."""
    prompted: str = ""
    """A marker, or the beginning of one, that the generation prompt has already written. The reply is read as if it
    began with it.
    """
    lead: str = ""
    """A text (``助手：``) that the model writes before an answer instead of a marker. The parser removes it where the
    visible text begins; it is ordinary text elsewhere.
    """
    headers: HeaderMarkers | None = None
    """Set if the reply consists of messages with headers."""

    @dropped.validator
    @stops.validator
    def _check_not_empty(self, _attribute: object, value: tuple[str, ...]) -> None:
        if "" in value:
            raise ConfigError(f"format {self.name!r}: a marker must not be empty")

    @answers.validator
    def _check_dropped(self, _attribute: object, value: tuple[str, ...]) -> None:
        if not set(value) <= set(self.dropped):
            raise ConfigError(f"format {self.name!r}: a marker before answers has to be one of those dropped")

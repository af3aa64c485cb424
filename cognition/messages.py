"""Messages of a conversation, tool calls and their results: the values that history is made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from attrs import field, frozen

from cognition.content import Image, Part, text_of
from cognition.counts import Tokens
from cognition.errors import ConfigError
from cognition.strict_json import DECODER, NUMBERS, StrictDecoder

ResultStatus = Literal["ok", "error", "refused", "cancelled"]
"""How a tool call ended. Everything but ``ok`` is shown to the model as an error it can react to."""


def json_object_text(value: str | Mapping[str, Any]) -> str:
    """The text of a JSON object; a mapping is encoded, a text is kept to the byte.

    Raises:
        ConfigError: a mapping that JSON can't carry.
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"tool arguments must be JSON values: {error}") from error


def read_arguments(name: str, text: str, decoder: StrictDecoder) -> dict[str, Any]:
    """The arguments of a call of the tool ``name``, as far as the decoder takes them.

    Raises:
        ValueError: it does not, or the text is no JSON object.
        RecursionError: they are nested thousands deep.
    """
    value = decoder.decode(text)
    if not isinstance(value, dict):
        raise ValueError(f"the arguments of {name!r} are no JSON object")
    return value


def schema_text(value: str | Mapping[str, Any]) -> str:
    """A JSON Schema as text, in which form it is immutable and can be compared.

    Raises:
        ConfigError: it is no JSON object.
    """
    text = value
    try:
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False, allow_nan=False)
        if text and not isinstance(NUMBERS.decode(text), dict):
            raise ValueError("it is no object")
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"a JSON Schema has to be a JSON object: {error}") from error
    return text


@frozen
class ToolCall:
    """A call of one tool, as the model asked for it.

    The arguments are kept as the JSON text of an object, so that what runs is to the byte what was judged and approved,
    and so that the value is immutable. A mapping given to the constructor is encoded.
    """

    id: str
    """Unique within a session, of our own making: ``call-<turn>-<step>-<position>``."""
    name: str
    arguments_json: str = field(converter=json_object_text, default="{}")

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, decoded afresh at each access.

        Raises:
            ValueError: the text is no JSON object, or a number in it is none (never so for calls that an engine made).
        """
        return read_arguments(self.name, self.arguments_json, NUMBERS)


def unusable(call: ToolCall) -> str:
    """What is wrong with arguments that somebody else than the model gave; empty if nothing is."""
    try:
        DECODER.decode(call.arguments_json)
        # Written anew, since half a character may stand there as itself or as an escape, and two escapes may make one.
        json.dumps(call.arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "they hold half a character (a lone surrogate, as in \\ud800); write whole characters"
    except (ValueError, RecursionError) as error:
        return str(error) or type(error).__name__
    return ""


@frozen
class ProposedCall:
    """A tool call as it stands in a model's reply, before the engine gives it an id."""

    name: str
    arguments_json: str = field(converter=json_object_text, default="{}")
    repairs: tuple[str, ...] = ()
    """What had to be mended to read it, such as ``"trailing comma"``; empty for a well-formed call."""
    confirm: bool = False
    """Whether the model itself wants the user to be asked."""


@frozen
class MalformedToolCall:
    """Something that was meant as a tool call and can't be read. It goes back to the model, which may mend it."""

    raw: str
    reason: str


@frozen
class ToolResult:
    """What a call gave: text for the model, and how it ended."""

    content: str
    status: ResultStatus = "ok"
    tokens: Tokens = field(default=(), repr=False)
    """As in ``ToolReturned``, of this text; empty where nobody has counted."""
    images: tuple[Image, ...] = ()
    """As there."""


@frozen
class UserMessage:
    """What the user said, or (``origin="engine"``) a note of the engine's to the model in the user's role."""

    tag: ClassVar[str] = "user"
    id: str
    text: str
    """All that was said in words; of a message in parts, their texts, whatever was given here."""
    origin: Literal["user", "engine"] = "user"
    parts: tuple[Part, ...] = ()
    """Texts and pictures in their order; empty for a message of nothing but text."""
    tokens: Tokens = field(default=(), repr=False)
    """What it adds to a prompt, as ``counts`` says; empty where sizes are estimated. So in each kind of message."""

    def __attrs_post_init__(self) -> None:
        if self.parts:
            object.__setattr__(self, "text", text_of(self.parts))


@frozen
class AssistantMessage:
    """A model's reply as it stands in history."""

    tag: ClassVar[str] = "assistant"
    id: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    interrupted: bool = False
    """Whether the reply was cut by a cancellation or a failure; the text is then what had arrived."""
    tokens: Tokens = field(default=(), repr=False)
    continuation: str = field(default="", repr=False)
    """What the server that made the reply wants back beside it, such as signed thoughts (``cognition.wire``)."""


@frozen
class ToolMessage:
    """The result of one call; its call stands in the nearest assistant message before it."""

    tag: ClassVar[str] = "tool"
    id: str
    call_id: str
    name: str
    content: str
    status: ResultStatus = "ok"
    tokens: Tokens = field(default=(), repr=False)


Message = UserMessage | AssistantMessage | ToolMessage


@frozen
class Usage:
    """Tokens of one or more model calls, and what they cost. Adding two gives the sum."""

    input_tokens: int = 0
    """All tokens of the prompt, the reused ones too."""
    output_tokens: int = 0
    reused_tokens: int = 0
    """How many of ``input_tokens`` were not computed again because a cache held them."""
    cost: float = 0.0
    """In the currency of the provider's price list; 0 for local models."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.reused_tokens + other.reused_tokens,
            self.cost + other.cost,
        )

"""Builds a request: its body field by field, and a warning for each option that the format can't express."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

from cognition.base.encoding import encoder
from cognition.base.errors import CogstepError
from cognition.steps.requests import ModelRequest
from cognition.values.content import Image, Part
from cognition.values.outcomes import Failure
from cognition.values.tools import ToolSpec
from cognition.wire._conversation import Turn, turns_of
from cognition.wire._fields import without_halves
from cognition.wire._names import Names, names_of
from cognition.wire._quirks import PENALTIES, Quirks

ENCODE = encoder(ascii_only=False, allow_nan=False)

WHOLE_SAMPLING = ("temperature", "top_p", "seed", "top_k", "min_p", "typical_p", "repeat_penalty")
"""Options that are None by default."""
STRICT_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "description", "anyOf"}
)
"""Schema keywords that all models with ``strict`` accept (https://platform.openai.com/docs/guides/structured-outputs).
"""


DEEPEST_STRICT = 5
"""Depth of nested objects that all of them accept."""


class UnsupportedRequestError(CogstepError):
    """The server can't process this request at all.

    Attributes:
        failure: the same as a model call's failure.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@frozen
class WireRequest:
    """An HTTP request to send."""

    path: str
    """The path after the base URL, such as ``/chat/completions``."""
    headers: tuple[tuple[str, str], ...]
    """Headers of the format itself. Never API keys."""
    body: str
    """JSON text. Equal requests always give equal text."""
    warnings: tuple[str, ...] = ()
    """Options that the format can't express, one sentence each."""


@define
class RequestBuilder:
    """The body of a request under construction, and warnings for options that it can't express."""

    request: ModelRequest
    quirks: Quirks
    model: str
    stream: bool
    names: Names = field(init=False)
    body: dict[str, Any] = field(init=False, factory=dict)
    warnings: list[str] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.names = names_of(self.request, self.quirks)
        self.body["model"] = self.model

    def turns(self) -> list[Turn]:
        return turns_of(self.request, self.quirks, self.names, self.model)

    def put(self, path: str, value: Any) -> None:
        """Set a field; a dot in ``path`` leads into an object."""
        *outer, name = path.split(".")
        target = self.body
        for key in outer:
            target = target.setdefault(key, {})
        target[name] = value

    def warn(self, sentence: str) -> None:
        """Add a warning about an omitted part of the request."""
        self.warnings.append(sentence)

    def refuse(self, option: str) -> None:
        self.warn(f"this server takes no {option}: it is left out")

    # ------------------------------------------------------------------------------------------------------ options

    def sampling(self) -> None:
        options, quirks = self.request.options, self.quirks
        asked: dict[str, Any] = {
            name: value for name in WHOLE_SAMPLING if (value := getattr(options, name)) is not None
        }
        asked |= {name: value for name in PENALTIES if (value := getattr(options, name))}
        if options.logit_bias:
            asked["logit_bias"] = {
                str(token): int(bias) if bias == int(bias) else bias for token, bias in options.logit_bias
            }
        fields = dict(quirks.sampling)
        for name, value in asked.items():
            if name not in fields:
                self.refuse(name)
            elif options.thinking and not quirks.thinking_takes_sampling:
                self.warn(f"while it thinks, the model takes no {name}: it is left out")
            else:
                self.put(fields[name], value)
        most = options.max_tokens if options.max_tokens is not None else quirks.most_tokens
        if most is not None:
            self.put(quirks.max_tokens, most)
        if options.stop and not quirks.stop:
            self.refuse("stop")
        elif options.stop:
            if quirks.most_stops is not None and quirks.most_stops < len(options.stop):
                self.warn(f"this server takes {quirks.most_stops} stop texts and no more: the others are left out")
            self.put(quirks.stop, list(options.stop[: quirks.most_stops]))

    def thinking(self) -> None:
        """Set whether the model reasons first."""
        wish = self.request.options.thinking
        if wish is None:
            return
        said = json.loads(self.quirks.thinking_on if wish else self.quirks.thinking_off)
        if not said:
            self.refuse(f"thinking={wish}")
        merge(self.body, said)

    # -------------------------------------------------------------------------------------------------------- tools

    def offered_tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools to send.

        No tools if calls are disabled and ``tool_choice`` can't express that. Only the tool to call if ``tool_choice``
        can't express a name.
        """
        request, quirks = self.request, self.quirks
        if request.protocol != "native" or not request.tools:
            return ()
        if not quirks.tools:
            self.warn("this server takes no tools: they are left out")
            return ()
        choice = request.options.tool_choice
        if choice == "none" and quirks.tool_choice in ("names", "none"):
            return ()
        if choice not in ("auto", "none", "required") and quirks.tool_choice in ("words", "none"):
            return tuple(tool for tool in request.tools if tool.name == choice)
        return request.tools

    def choice(self) -> str:
        """Return ``auto``, ``none``, ``required``, or the wire name of a tool, as far as the server supports it."""
        choice, quirks = self.request.options.tool_choice, self.quirks
        forced = choice not in ("auto", "none")
        unsayable = quirks.tool_choice == "none" or (quirks.tool_choice == "names" and choice == "required")
        thinks = self.request.options.thinking and not self.quirks.thinking_takes_sampling
        if forced and (unsayable or thinks):
            self.warn("a call can't be forced here: the model may answer without one")
            return "auto"
        if forced and choice != "required":
            return "required" if quirks.tool_choice == "words" else self.names.to_wire.get(choice, choice)
        return choice

    def put_choice(self, named: Callable[[str], dict[str, Any]]) -> None:
        """Set the choice of tools as OpenAI's formats do; ``named`` returns the field that names one tool."""
        choice = self.choice()
        if choice in ("none", "required"):
            self.body["tool_choice"] = choice
        elif choice != "auto":
            self.body["tool_choice"] = {"type": "function", **named(choice)}
        if self.one_call():
            self.body["parallel_tool_calls"] = False

    def one_call(self) -> bool:
        """Return whether to limit the reply to one call, if the server supports that limit."""
        if self.request.options.parallel_calls:
            return False
        if not self.quirks.parallel_field:
            self.refuse("parallel_calls=False")
        return self.quirks.parallel_field

    def reply_schema(self) -> Any:
        """Return the schema of ``response_format``, for a format with no weaker constraint; None without one, or if the
        server supports none.
        """
        text = self.request.options.response_format
        if not text or self.quirks.response_format == "schema":
            return json.loads(text) if text else None
        self.refuse("response_format")
        return None

    def strict(self, schema: Mapping[str, Any]) -> bool:
        """Return whether to send ``strict`` with this schema."""
        return self.quirks.strict and self.request.options.constrain and fits_strict(schema)

    # ------------------------------------------------------------------------------------------------------- images

    def check_image(self, part: Part) -> None:
        """Check that an image can be sent.

        Raises:
            UnsayableError: the server accepts only text.
        """
        if isinstance(part, Image) and not self.quirks.images:
            raise UnsupportedRequestError(
                Failure(
                    f"the conversation holds {part}, and this server takes text alone; use a model that takes images",
                    kind="modality",
                )
            )

    # ------------------------------------------------------------------------------------------------------ the end

    def build(self, path: str) -> WireRequest:
        merge(self.body, json.loads(self.quirks.extra))
        accept = "application/x-ndjson" if self.quirks.dialect == "ollama" else "text/event-stream"
        headers = (
            ("content-type", "application/json"),
            ("accept", accept if self.stream else "application/json"),
            *self.quirks.headers,
        )
        body = without_halves(ENCODE(self.body))  # UTF-8 can't encode unpaired surrogates
        return WireRequest(path, headers, body, tuple(dict.fromkeys(self.warnings)))


def merge(body: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        here = body.get(key)
        if isinstance(here, dict) and isinstance(value, Mapping):
            merge(here, value)
        else:
            body[key] = value


def fits_strict(schema: Any, depth: int = 0) -> bool:
    """Return whether all models with ``strict`` accept a schema: closed objects with all properties required."""
    if not isinstance(schema, dict) or not schema.keys() <= STRICT_KEYWORDS or depth > DEEPEST_STRICT:
        return False
    if "anyOf" in schema:
        members = schema["anyOf"]
        alone = schema.keys() <= {"anyOf", "description"} and isinstance(members, list)
        return alone and depth > 0 and all(fits_strict(one, depth + 1) for one in members)
    if schema.get("type") == "object":
        properties, required = schema.get("properties"), schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            return False
        closed = schema.get("additionalProperties") is False and set(map(str, required)) == properties.keys()
        return closed and all(fits_strict(one, depth + 1) for one in properties.values())
    return (
        depth > 0 and "properties" not in schema and ("items" not in schema or fits_strict(schema["items"], depth + 1))
    )

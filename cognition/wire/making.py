"""A request in the making: its body field by field, and a warning for each wish that the format has no word for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from cognition.content import Image, Part
from cognition.encoding import encoder
from cognition.errors import CogstepError
from cognition.outcomes import Failure
from cognition.requests import ModelRequest
from cognition.tools import ToolSpec
from cognition.wire.conversation import Turn, turns_of
from cognition.wire.fields import without_halves
from cognition.wire.habits import Habits
from cognition.wire.names import Names, names_of

ENCODE = encoder(ascii_only=False, allow_nan=False)

WHOLE_SAMPLING = ("temperature", "top_p", "seed", "top_k", "min_p", "typical_p", "repeat_penalty")
"""Options that are None where nothing is asked for."""
PENALTIES = ("frequency_penalty", "presence_penalty")
"""Options that are 0 where nothing is asked for."""

STRICT_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "description", "anyOf"}
)
"""Keywords of the schemas that ``strict`` takes, as far as all models take them
(https://platform.openai.com/docs/guides/structured-outputs)."""


DEEPEST_STRICT = 5
"""Objects within objects that all of them take."""


class UnsayableError(CogstepError):
    """A request that the server can't be asked at all.

    Attributes:
        failure: the same as a model call's failure.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@frozen
class WireRequest:
    """A request as it is sent."""

    path: str
    """What stands behind the base URL, such as ``/chat/completions``."""
    headers: tuple[tuple[str, str], ...]
    """Those of the format itself. Never keys."""
    body: str
    """JSON text: the same for the same request, always."""
    warnings: tuple[str, ...] = ()
    """What was asked for and the format can't say, one sentence each."""


@define
class Making:
    """The body of a request, and what it can't say."""

    request: ModelRequest
    habits: Habits
    model: str
    stream: bool
    names: Names = field(init=False)
    body: dict[str, Any] = field(init=False, factory=dict)
    warnings: list[str] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.names = names_of(self.request, self.habits)

    def turns(self) -> list[Turn]:
        """The messages."""
        return turns_of(self.request, self.habits, self.names, self.model)

    def put(self, path: str, value: Any) -> None:
        """Set a field; a dot in its name leads into an object."""
        *outer, name = path.split(".")
        target = self.body
        for key in outer:
            target = target.setdefault(key, {})
        target[name] = value

    def warn(self, sentence: str) -> None:
        """Say what is not said."""
        self.warnings.append(sentence)

    def refuse(self, option: str) -> None:
        """Say that an option is not said."""
        self.warn(f"this server takes no {option}: it is left out")

    # ------------------------------------------------------------------------------------------------------ options

    def sampling(self) -> None:
        """Every option of sampling that was asked for."""
        options, habits = self.request.options, self.habits
        asked: dict[str, Any] = {
            name: value for name in WHOLE_SAMPLING if (value := getattr(options, name)) is not None
        }
        asked |= {name: value for name in PENALTIES if (value := getattr(options, name))}
        if options.logit_bias:
            asked["logit_bias"] = {
                str(token): int(bias) if bias == int(bias) else bias for token, bias in options.logit_bias
            }
        fields = dict(habits.sampling)
        for name, value in asked.items():
            if name not in fields:
                self.refuse(name)
            elif options.thinking and not habits.thinking_takes_sampling:
                self.warn(f"while it thinks, the model takes no {name}: it is left out")
            else:
                self.put(fields[name], value)
        most = options.max_tokens if options.max_tokens is not None else habits.most_tokens
        if most is not None:
            self.put(habits.max_tokens, most)
        if options.stop:
            self._stop(options.stop)

    def _stop(self, stop: tuple[str, ...]) -> None:
        habits = self.habits
        if not habits.stop:
            self.refuse("stop")
            return
        most = len(stop) if habits.most_stops is None else habits.most_stops
        if most < len(stop):
            self.warn(f"this server takes {most} stop texts and no more: the others are left out")
        self.put(habits.stop, list(stop[:most]))

    def thinking(self) -> None:
        """Whether the model reasons first."""
        wish = self.request.options.thinking
        if wish is None:
            return
        said = json.loads(self.habits.thinking_on if wish else self.habits.thinking_off)
        if not said:
            self.refuse(f"thinking={wish}")
        merge(self.body, said)

    # -------------------------------------------------------------------------------------------------------- tools

    def offered(self) -> tuple[ToolSpec, ...]:
        """The tools that are told: none where none may be called and that can't be said otherwise, and only the one to
        call where names can't be said.
        """
        request, habits = self.request, self.habits
        if request.protocol != "native" or not request.tools:
            return ()
        if not habits.tools:
            self.warn("this server takes no tools: they are left out")
            return ()
        choice = request.options.tool_choice
        if choice == "none" and habits.tool_choice in ("names", "none"):
            return ()
        if choice not in ("auto", "none", "required") and habits.tool_choice in ("words", "none"):
            return tuple(tool for tool in request.tools if tool.name == choice)
        return request.tools

    def choice(self) -> str:
        """``auto``, ``none``, ``required``, or the name of a tool as on the wire: as far as that can be said."""
        choice, habits = self.request.options.tool_choice, self.habits
        forced = choice not in ("auto", "none")
        unsayable = habits.tool_choice == "none" or (habits.tool_choice == "names" and choice == "required")
        if forced and (unsayable or (self.request.options.thinking and not self._may_force)):
            self.warn("a call can't be forced here: the model may answer without one")
            return "auto"
        if forced and choice != "required":
            return "required" if habits.tool_choice == "words" else self.names.to_wire.get(choice, choice)
        return choice

    @property
    def _may_force(self) -> bool:
        return self.habits.thinking_takes_sampling

    def one_call(self) -> bool:
        """Whether a reply may have one call and no more, and that can be said."""
        if self.request.options.parallel_calls:
            return False
        if not self.habits.parallel_field:
            self.refuse("parallel_calls=False")
        return self.habits.parallel_field

    def strict(self, schema: Mapping[str, Any]) -> bool:
        """Whether a schema is of the kind that ``strict`` takes, and the server knows the word."""
        return self.habits.strict and self.request.options.constrain and fits_strict(schema)

    # ------------------------------------------------------------------------------------------------------- images

    def check_image(self, part: Part) -> None:
        """See that a picture can be sent.

        Raises:
            UnsayableError: it can't.
        """
        if isinstance(part, Image) and not self.habits.images:
            raise UnsayableError(
                Failure(
                    f"the conversation holds {part}, and this server takes text alone; use a model that takes images",
                    kind="modality",
                )
            )

    # ------------------------------------------------------------------------------------------------------ the end

    def sent(self, path: str) -> WireRequest:
        """The request as it is sent."""
        merge(self.body, json.loads(self.habits.extra))
        accept = "application/x-ndjson" if self.habits.dialect == "ollama" else "text/event-stream"
        headers = (
            ("content-type", "application/json"),
            ("accept", accept if self.stream else "application/json"),
            *self.habits.headers,
        )
        return WireRequest(path, headers, written(self.body), tuple(dict.fromkeys(self.warnings)))


def written(body: Any) -> str:
    """A body as JSON text, with half characters, which have no form in UTF-8, as replacement characters."""
    return without_halves(ENCODE(body))


def merge(body: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Put the members of an object into another one, objects within it too."""
    for key, value in more.items():
        here = body.get(key)
        if isinstance(here, dict) and isinstance(value, Mapping):
            merge(here, value)
        else:
            body[key] = value


def fits_strict(schema: Any, depth: int = 0) -> bool:
    """Whether all models that know ``strict`` take a schema: closed objects, all of whose properties are required."""
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

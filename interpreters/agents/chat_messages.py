"""Import and export of conversations in the format of OpenAI's chat API, which many programs store.

    imported = import_messages(json.loads(row))
    agent = Agent(model, tools, imported.system, state=imported.state)
    ...
    row = json.dumps(export_messages(agent.state, system=imported.system))

https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from cognition import (
    AgentState,
    AssistantMessage,
    CodecError,
    ConfigError,
    Image,
    Message,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cognition.base.checking import show
from cognition.base.strict_json import DECODER
from cognition.steps.phases import Acting, Settled
from cognition.values.content import MEDIA_TYPES, check_parts, text_of
from interpreters.agents._state_restore import conversation_of
from interpreters.recording.sessions.export import openai_messages

KNOWN: Mapping[str, tuple[str, ...]] = {
    "system": (),
    "developer": (),
    "user": (),
    "assistant": ("tool_calls", "reasoning_content", "refusal"),
    "tool": ("tool_call_id",),
}
"""The fields of a message by its role, apart from ``role`` and ``content``."""


class MessagesError(CodecError):
    """Messages that are not a conversation: each problem with its path, such as ``$[3].tool_call_id``."""


@frozen
class ImportedMessages:
    """An imported conversation."""

    state: AgentState
    """An idle state before its first turn, with the messages as its history."""
    system: str
    """The text of the ``system`` and ``developer`` messages before all others; may be empty."""
    left_out: tuple[str, ...]
    """The parts that a session can't represent, one sentence each; empty if all of it was imported."""


def import_messages(messages: Iterable[Mapping[str, Any]]) -> ImportedMessages:
    """Import messages of OpenAI's chat API as a state to start a session with.

    Each call needs exactly one result, after the reply with the call and before the next message of another role.
    Results may be in any order; they are sorted by their calls. Ids are replaced. Content that a session can't
    represent, such as audio parts or the field ``name``, is dropped and listed in ``left_out``.

    Raises:
        MessagesError: the messages are invalid: an unknown role, a result without a call or a call without a result, a
            missing id, arguments that are not a JSON object. The error lists each path.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise MessagesError(("$", f"expected a list of messages, got {show(messages)}; decode it with json.loads"))
    reader = _MessageReader()
    for number, message in enumerate(messages):
        reader.read(f"$[{number}]", message)
    reader.close_calls()
    if reader.problems:
        raise MessagesError(*reader.problems)
    return ImportedMessages(conversation_of(reader.messages), "\n\n".join(reader.system), tuple(reader.left_out))


def export_messages(
    state: AgentState | Iterable[Message], *, system: str = "", reasoning: bool = False
) -> list[dict[str, Any]]:
    """Export a conversation as messages of OpenAI's chat API.

    Exactly one ``tool`` message with the call's id follows each call, directly after the reply; for a call that still
    waits, its text reports that. The format has no fields for a call's status, a reply's cut, or state that is not a
    message (plan, tasks, mode, remembered approvals, budgets): ``to_data(state)`` contains all of it.

    Args:
        state: the value of ``agent.state``; or messages, such as ``result.messages``.
        system: the system prompt. If empty, the state's own is used: the one sent with the newest message, if any.
        reasoning: whether to add the model's reasoning as ``reasoning_content``. Several servers accept that field;
            OpenAI's own rejects it.
    """
    given: Any = state.history if isinstance(state, AgentState) else state
    if not isinstance(given, Iterable):
        raise ConfigError(f"export_messages takes a state or messages, not {show(given)}; give agent.state")
    messages: list[Message] = list(given)
    for message in messages:
        if not isinstance(message, Message):
            raise ConfigError(f"export_messages takes a state or messages of the core, and {show(message)} is none")
    if isinstance(state, AgentState):
        system = system or state.system or ""
        for slot in state.phase.slots if isinstance(state.phase, Acting) else ():
            if isinstance(slot.status, Settled):  # a result that waits for those of other calls
                result = slot.status.result
                messages.append(ToolMessage("", slot.call.id, slot.call.name, result.content, result.status))
    first = [{"role": "system", "content": system}] if system else []
    return [*first, *openai_messages(messages, reasoning)]


@define
class _MessageReader:
    messages: list[Message] = field(factory=list)
    system: list[str] = field(factory=list)
    problems: list[tuple[str, str]] = field(factory=list)
    left_out: list[str] = field(factory=list)
    _open: dict[str, str] = field(factory=dict)
    """The calls of the newest reply without a result yet: id to path."""
    _answered: set[str] = field(factory=set)
    _names: dict[str, str] = field(factory=dict)

    def read(self, path: str, message: Any) -> None:
        if not isinstance(message, Mapping):
            self._note_problem(path, f"expected an object, got {show(message)}; of an SDK's object, give model_dump()")
            return
        role = message.get("role")
        if not isinstance(role, str) or role not in KNOWN:
            what = "the field is missing" if "role" not in message else f"unknown role {show(role)}"
            self._note_problem(f"{path}.role", f"{what}; expected one of: {', '.join(KNOWN)}")
            return
        self._note_rest(path, message, role)
        if role == "tool":
            self._read_result(path, message)
            return
        self.close_calls()
        if role == "assistant":
            self._read_reply(path, message)
        elif role == "user":
            self._read_instructions(path, message)
        elif self.messages:
            self.messages.append(UserMessage("", self._text(path, message), "engine"))
            self._note_omission(path, "a system message amid the conversation is carried over as a note to the model")
        else:
            self.system.append(self._text(path, message))

    def close_calls(self) -> None:
        """Report every call of the newest reply without a result: another message follows, or the conversation ends."""
        for call, path in self._open.items():
            self._note_problem(path, f"the call {show(call)} has no result; a message of the role 'tool' has to follow")
        self._open, self._answered, self._names = {}, set(), {}

    def _read_instructions(self, path: str, message: Mapping[str, Any]) -> None:
        parts = self._parts(path, message, pictures=True)
        if not any(isinstance(part, Image) for part in parts):
            self.messages.append(UserMessage("", text_of(parts)))
            return
        try:
            check_parts(parts)
        except ConfigError as error:
            self._note_problem(f"{path}.content", str(error))
        self.messages.append(UserMessage("", "", "user", parts))

    def _read_reply(self, path: str, message: Mapping[str, Any]) -> None:
        calls = message.get("tool_calls")
        calls = [] if calls is None else calls
        if not isinstance(calls, list | tuple):
            self._note_problem(f"{path}.tool_calls", f"expected an array, got {show(calls)}")
            calls = []
        refusal = self._optional_text(path, message, "refusal")
        text = self._text(path, message, may_miss=bool(calls) or bool(refusal)) or refusal
        if refusal and text == refusal:
            self._note_omission(f"{path}.refusal", "a refusal is carried over as an answer")
        read = [self._read_call(f"{path}.tool_calls[{number}]", call) for number, call in enumerate(calls)]
        reasoning = self._optional_text(path, message, "reasoning_content")
        self.messages.append(AssistantMessage("", text, reasoning, tuple(call for call in read if call is not None)))

    def _read_call(self, path: str, call: Any) -> ToolCall | None:
        if not isinstance(call, Mapping):
            self._note_problem(path, f"expected an object, got {show(call)}")
            return None
        function, kind = call.get("function"), call.get("type", "function")
        if kind != "function" or not isinstance(function, Mapping):
            self._note_problem(
                path, "only calls of functions can be carried over: {'type': 'function', 'function': {...}}"
            )
            return None
        call_id = self._required_text(path, call, "id")
        name = self._required_text(f"{path}.function", function, "name")
        arguments = self._arguments(f"{path}.function.arguments", function.get("arguments", ""))
        if not call_id:
            return None
        if call_id in self._open:
            self._note_problem(f"{path}.id", f"two calls of this reply have the id {show(call_id)}")
            return None
        self._open[call_id], self._names[call_id] = path, name
        return ToolCall(call_id, name, arguments)

    def _arguments(self, path: str, arguments: Any) -> str:
        """Return the arguments as text: a string unchanged, an object (as several servers send) as JSON."""
        if isinstance(arguments, Mapping):
            try:
                arguments = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                self._note_problem(path, f"the arguments have no form in JSON: {error}")
                return "{}"
        if not isinstance(arguments, str):
            self._note_problem(path, f"expected a text of JSON, got {show(arguments)}")
            return "{}"
        if not arguments.strip():  # of a call without any
            return "{}"
        try:
            if isinstance(DECODER.decode(arguments), dict):
                return arguments
            self._note_problem(path, "the arguments are no JSON object")
        except (ValueError, RecursionError) as error:
            self._note_problem(path, f"the arguments can't be read: {error}")
        return "{}"

    def _read_result(self, path: str, message: Mapping[str, Any]) -> None:
        text = self._text(path, message)
        call_id = self._required_text(path, message, "tool_call_id")
        if not call_id:
            return
        if call_id in self._answered:
            self._note_problem(f"{path}.tool_call_id", f"the call {show(call_id)} has a result already")
        elif call_id not in self._open:
            self._note_problem(
                f"{path}.tool_call_id", f"no call {show(call_id)} stands open: a result follows the reply that asked"
            )
        else:
            del self._open[call_id]
            self._answered.add(call_id)
            self.messages.append(ToolMessage("", call_id, self._names[call_id], text))

    # ------------------------------------------------------------------------------------------------------- fields

    def _text(self, path: str, message: Mapping[str, Any], *, may_miss: bool = False) -> str:
        """Return the content as text; the texts of a list of parts are separated by an empty line."""
        return text_of(self._parts(path, message, may_miss=may_miss))

    def _parts(
        self, path: str, message: Mapping[str, Any], *, may_miss: bool = False, pictures: bool = False
    ) -> tuple[Part, ...]:
        """Return the parts that can be imported; a plain text is a single part."""
        content, path = message.get("content"), f"{path}.content"
        if isinstance(content, str):
            return (TextPart(content),)
        if isinstance(content, list | tuple):
            read = [self._part(f"{path}[{number}]", part, pictures) for number, part in enumerate(content)]
            return tuple(part for part in read if part is not None)
        if content is not None:
            self._note_problem(path, f"expected a text or a list of parts, got {show(content)}")
        elif not may_miss:
            self._note_problem(
                path, "the field is missing" if "content" not in message else "expected a text, got None"
            )
        return ()

    def _part(self, path: str, part: Any, pictures: bool) -> Part | None:
        if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            self._note_problem(path, "expected a part: an object with a 'type', such as {'type': 'text', 'text': ...}")
            return None
        if part["type"] in ("text", "refusal"):
            return TextPart(self._required_text(path, part, part["type"], may_be_empty=True))
        if part["type"] == "image_url" and pictures:
            return self._picture(f"{path}.image_url", part.get("image_url"))
        self._note_omission(path, f"a part of the type {show(part['type'])} can't be carried over")
        return None

    def _picture(self, path: str, image: Any) -> Image | None:
        url = image.get("url") if isinstance(image, Mapping) else image
        if not isinstance(url, str):
            self._note_problem(path, f"expected an object with a 'url', got {show(image)}")
            return None
        head, comma, data = url.partition(",")
        kind = head.removeprefix("data:").removesuffix(";base64").lower()
        if not (url.startswith("data:") and head.endswith(";base64") and comma):
            self._note_omission(path, "a picture whose URL does not hold it (data:...;base64,) can't be carried over")
            return None
        if kind not in MEDIA_TYPES:
            self._note_omission(path, f"a picture of the type {show(kind)} can't be carried over")
            return None
        if isinstance(image, Mapping) and image.get("detail") not in (None, "auto"):
            self._note_omission(f"{path}.detail", "the field 'detail' can't be carried over")
        try:
            return Image(kind, data)
        except ConfigError as error:
            self._note_problem(path, str(error))
            return None

    def _required_text(self, path: str, data: Mapping[str, Any], name: str, *, may_be_empty: bool = False) -> str:
        value = data.get(name)
        if isinstance(value, str) and (value or may_be_empty):
            return value
        what = "the field is missing" if name not in data else f"expected a text, got {show(value)}"
        self._note_problem(f"{path}.{name}", what)
        return ""

    def _optional_text(self, path: str, data: Mapping[str, Any], name: str) -> str:
        return "" if data.get(name) is None else self._required_text(path, data, name, may_be_empty=True)

    def _note_rest(self, path: str, message: Mapping[str, Any], role: str) -> None:
        for name, value in message.items():
            if name in ("role", "content", *KNOWN[role]) or value in (None, "", [], {}):
                continue
            if name in ("function_call", "tool_calls", "tool_call_id"):
                hint = "; write it as tool_calls" if name == "function_call" else ""
                self._note_problem(f"{path}.{name}", f"a message of the role {role!r} can't have this field{hint}")
            else:
                self._note_omission(f"{path}.{name}", f"the field {show(name)} can't be carried over")

    def _note_problem(self, path: str, problem: str) -> None:
        self.problems.append((path, problem))

    def _note_omission(self, path: str, what: str) -> None:
        self.left_out.append(f"{what} @ {path}")

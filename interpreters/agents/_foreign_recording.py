"""The conversation of a recording that another user wrote, turned into the start of a new session.

It takes over only the conversation. The other user chose the policy, limits, tools, remembered approvals, mode, plan,
counters and open effects, so none of them can be trusted. The new state has its own message ids and exactly one result
for each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import evolve

from cognition import AgentState, AssistantMessage, Message, ToolCall, ToolMessage
from cognition.base.strict_json import DECODER
from cognition.context.window import message_size
from cognition.steps.state import Counters, Window
from cognition.values.history import History

NO_RESULT = "The recording has no result of this call. It may have happened: look before you call it again."


def conversation_of(messages: Iterable[Message]) -> AgentState:
    """Return an idle state before its first turn, with these messages as its history."""
    history = History(_rename_calls(messages))
    size = sum((message_size(message) for message in history), 0.0)
    return AgentState(history, counters=Counters(messages=len(history)), window=Window(size=size))


def _rename_calls(messages: Iterable[Message]) -> Iterator[Message]:
    for number, message in enumerate(_order_results(messages), 1):
        yield evolve(message, id=f"m{number}")


def _order_results(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages; the results of each reply's calls follow it directly, in the order of the calls."""
    calls: dict[str, ToolCall] = {}
    """The open calls of the newest reply, by their ids in the recording."""
    results: dict[str, ToolMessage] = {}
    replies = 0
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.call_id, message)
            continue
        yield from _results(calls, results)
        calls, results = {}, {}
        if isinstance(message, AssistantMessage):
            replies += 1
            for call in filter(is_readable, message.calls):
                # Of turn 0, which no session has: no call of the new one gets such an id.
                calls.setdefault(call.id, evolve(call, id=f"call-0-{replies}-{len(calls) + 1}"))
            message = evolve(message, calls=tuple(calls.values()))
        yield message
    yield from _results(calls, results)


def _results(calls: dict[str, ToolCall], results: dict[str, ToolMessage]) -> Iterator[Message]:
    for recorded, call in calls.items():
        result = results.get(recorded, ToolMessage("", call.id, call.name, NO_RESULT, "cancelled"))
        yield evolve(result, call_id=call.id, name=call.name)


def is_readable(call: ToolCall) -> bool:
    """Whether the call's arguments are the text of a JSON object without duplicate keys, as an engine requires."""
    try:
        return isinstance(DECODER.decode(call.arguments_json), dict)
    except (ValueError, RecursionError):
        return False

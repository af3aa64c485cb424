"""A request's messages as any wire can say them: in turns, every call answered right behind the reply that made it.

Histories are sound as an engine makes them; they may be cut by trimming, or come from other programs. Servers refuse a
result without its call, and a call without its result: the one is told as text, the other gets a result that says so.
"""

from __future__ import annotations

from attrs import frozen

from cognition.content import Part, TextPart
from cognition.messages import AssistantMessage, Message, ToolMessage, UserMessage
from cognition.requests import ModelRequest
from cognition.wire.habits import Habits
from cognition.wire.names import Ids, Names

NO_RESULT = "(no result: the call was interrupted)"
"""The result of a call that has none in the messages."""
RESULT_NOTE = "Result of {name}:\n{content}"
"""How a result is told as text of the user."""


@frozen
class Said:
    """Something in the user's role."""

    parts: tuple[Part, ...]


@frozen
class Called:
    """A call in a reply, as it stands on the wire."""

    id: str
    name: str
    arguments: str
    """JSON text of an object."""


@frozen
class Replied:
    """A reply of the model."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Called, ...] = ()


@frozen
class Resulted:
    """The result of a call of the reply before it."""

    id: str
    name: str
    content: str
    failed: bool = False


Turn = Said | Replied | Resulted


def turns_of(request: ModelRequest, habits: Habits, names: Names) -> list[Turn]:
    """The messages of a request in order. With a text protocol, calls and results are texts."""
    if request.protocol != "native":
        return [_as_text(message) for message in request.messages]
    turns: list[Turn] = []
    ids = Ids(habits)
    waiting: dict[str, Called] = {}  # calls of the newest reply, by their own ids, that have no result yet
    for message in request.messages:
        if isinstance(message, ToolMessage) and message.call_id in waiting:
            call = waiting.pop(message.call_id)
            turns.append(Resulted(call.id, call.name, message.content, message.status != "ok"))
            continue
        turns += _unanswered(waiting)
        if isinstance(message, AssistantMessage):
            calls = {
                call.id: Called(ids[call.id], names.to_wire[call.name], call.arguments_json) for call in message.calls
            }
            waiting = dict(calls)
            turns.append(Replied(message.text, message.reasoning, tuple(calls.values())))
        else:
            turns.append(_as_text(message))
    return turns + _unanswered(waiting)


def _unanswered(waiting: dict[str, Called]) -> list[Turn]:
    """Results of the calls that have none."""
    left: list[Turn] = [Resulted(call.id, call.name, NO_RESULT, failed=True) for call in waiting.values()]
    waiting.clear()
    return left


def _as_text(message: Message) -> Turn:
    if isinstance(message, UserMessage):
        return Said(message.parts or (TextPart(message.text),))
    if isinstance(message, ToolMessage):
        return Said((TextPart(RESULT_NOTE.format(name=message.name, content=message.content)),))
    told = (f"Call of {call.name}: {call.arguments_json}" for call in message.calls)
    return Replied(message.text or "\n".join(told), message.reasoning)

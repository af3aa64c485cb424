"""Contracts: assertions on a session's tool calls, their arguments and their order.

    assert_calls(
        agent,
        called("search", query=matching("weather")),
        in_any_order(called("look", city="Oslo"), called("look", city="Rome")),
        called("pay", amount=about(3.0)).with_others().ended("refused"),
    )

The session may be a live agent, the result of a turn, a journal or a cassette. A broken contract fails with both
sequences side by side.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from cognition import AssistantMessage, Message, ToolMessage
from cognition.base.strict_json import LENIENT
from cognition.values.messages import ResultStatus
from interpreters.agents.base_agent import BaseAgent
from interpreters.agents.results import RunResult
from interpreters.recording.recorder import Recorder
from interpreters.recording.sessions import read_transcript
from interpreters.testing.cassettes import Cassette
from interpreters.testing.cassettes.tape import FORMAT, reply_of_data
from interpreters.testing.matchers import about, anything, matching, of_type, one_of
from runtime.files import open_regular

if TYPE_CHECKING:
    from cognition import ProposedCall, ToolCall

__all__ = [
    "Called",
    "ContractError",
    "MadeCall",
    "about",
    "anything",
    "assert_calls",
    "called",
    "calls_of",
    "in_any_order",
    "matching",
    "of_type",
    "one_of",
]


class ContractError(AssertionError):
    """The calls of a session differ from the contract. It is an assertion error, since it fails a test."""


@frozen
class MadeCall:
    """A call that a model made."""

    name: str
    arguments: Any
    """An object; the text itself if it is not JSON."""
    status: ResultStatus | None = None
    """The call's status; None if the session does not contain it, such as a cassette."""
    content: str | None = None
    """The call's result; None as above."""

    def __str__(self) -> str:
        status = "" if self.status in (None, "ok") else f" {self.status}"
        return f"{self.name}({_format_arguments(self.arguments)}){status}"


@frozen
class Called:
    """A call that a contract expects. Created by ``called``."""

    name: Any
    arguments: dict[str, Any]
    others: bool = False
    """Whether the call may have further arguments."""
    status: Any = field(default=anything)
    content: Any = field(default=anything)

    def ended(self, status: Any, content: Any = anything) -> Called:
        """Return the same call with a status (``ok``, ``error``, ``refused`` or ``cancelled``) and a result."""
        return evolve(self, status=status, content=content)

    def with_others(self) -> Called:
        """Return the same call with further arguments allowed."""
        return evolve(self, others=True)

    def objections(self, call: MadeCall) -> list[str]:
        """Return the differences between a made call and this one; empty if it fits."""
        if self.name != call.name:
            return [f"the tool: expected {self.name!r}, made {call.name!r}"]
        if not isinstance(call.arguments, dict):
            return [f"the arguments are no object: {call.arguments!r}"]
        found = []
        for name, value in self.arguments.items():
            if name not in call.arguments:
                found.append(f"{name}: expected {value!r}, made without it")
            elif value != call.arguments[name]:
                found.append(f"{name}: expected {value!r}, made {call.arguments[name]!r}")
        if not self.others:
            more = call.arguments.keys() - self.arguments.keys()
            found += [f"{name}: not expected, made {call.arguments[name]!r}" for name in sorted(more)]
        for what, expected, made in (("status", self.status, call.status), ("result", self.content, call.content)):
            if expected != made:
                found.append(f"the {what}: expected {expected!r}, made {made!r}")
        return found

    def __str__(self) -> str:
        inside = [_format_arguments(self.arguments)] if self.arguments else []
        text = f"{self.name}({', '.join([*inside, *(['...'] if self.others else [])])})"
        return text if self.status is anything else f"{text} {self.status}"


@frozen
class AnyOrder:
    """Calls that a contract expects together, in any order. Created by ``in_any_order``."""

    calls: tuple[Called, ...]


Expected = Called | AnyOrder


def called(name: Any, /, **arguments: Any) -> Called:
    """Return a call of this tool with exactly these arguments; ``with_others`` allows more.

    Name and arguments may be matchers (``interpreters.testing.matchers``).
    """
    return Called(name, arguments)


def in_any_order(*calls: Called) -> AnyOrder:
    """Expect these calls in any order, as for concurrent calls."""
    return AnyOrder(calls)


Session = BaseAgent | RunResult | Cassette | str | os.PathLike[str] | Recorder | Iterable[Message]
"""A source of calls: an agent (its history), the result of a turn, a cassette, the path of a journal or of a cassette,
the recorder of a session, or messages.
"""


def calls_of(session: Session) -> tuple[MadeCall, ...]:
    """Return the model's calls in a session, in order, including calls that never ran.

    Raises:
        JournalError, CassetteError: the file can't be read.
    """
    match session:
        case BaseAgent():
            return tuple(_calls(session.state.history))
        case RunResult():
            return tuple(_calls(session.messages))
        case Cassette():
            replies = (reply_of_data(exchange.reply)[0] for exchange in session.exchanges)
            return tuple(_make_call(call) for reply in replies for call in reply.calls)
        case str() | os.PathLike() if _is_cassette(session):
            return calls_of(Cassette(session))
        case str() | os.PathLike() | Recorder():
            return tuple(_calls(chain.from_iterable(read_transcript(session).messages())))
        case _:
            return tuple(_calls(session))


def assert_calls(session: Session, *expected: Expected, others_allowed: bool = False) -> tuple[MadeCall, ...]:
    """Assert that a session fulfils a contract, and return its calls.

    Args:
        session: see ``Session``.
        expected: the calls, in order.
        others_allowed: whether other calls may come before, between and after.

    Raises:
        ContractError: the calls differ. The message shows both sequences side by side.
    """
    made = calls_of(session)
    groups = [item.calls if isinstance(item, AnyOrder) else (item,) for item in expected]
    pairs = _pairs(groups, made, others_allowed)
    if any(left is None or right is None for left, right in pairs if left is not None or not others_allowed):
        raise ContractError(_side_by_side(pairs, groups, made))
    return made


# ----------------------------------------------------------------------------------------------------------- reading


def _calls(messages: Iterable[Message]) -> Iterator[MadeCall]:
    open_calls: list[ToolCall] = []  # of the newest reply; their results come in their order
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from (_make_call(call) for call in open_calls)
            open_calls = list(message.calls)
        elif isinstance(message, ToolMessage) and open_calls:
            yield evolve(_make_call(open_calls.pop(0)), status=message.status, content=message.content)
    yield from (_make_call(call) for call in open_calls)


def _make_call(call: ToolCall | ProposedCall) -> MadeCall:
    try:
        return MadeCall(call.name, LENIENT.decode(call.arguments_json))
    except (ValueError, RecursionError):
        return MadeCall(call.name, call.arguments_json)


def _is_cassette(path: str | os.PathLike[str]) -> bool:
    try:
        with open_regular(path) as file:
            return FORMAT.encode() in file.read(200)
    except OSError:
        return False  # whoever reads it as a journal says what is wrong


# ---------------------------------------------------------------------------------------------------------- comparing

Pair = tuple[Called | None, MadeCall | None]


def _pairs(groups: Sequence[tuple[Called, ...]], made: Sequence[MadeCall], others_allowed: bool) -> list[Pair]:
    """Pair each expected call with a made call; None on a side without a counterpart.

    Without other calls each group is compared with the calls at its own place; with them, with the earliest that fit.
    """
    pairs: list[Pair] = []
    position = 0
    for number, group in enumerate(groups):
        later = sum(map(len, groups[number + 1 :]))
        reach = len(made) - later if others_allowed else min(position + len(group), len(made))
        found = _assign(group, made, range(position, max(reach, position)))
        if not others_allowed:
            pairs += ((wanted, made[at] if at is not None else None) for wanted, at in zip(group, found, strict=True))
            taken = {at for at in found if at is not None}
            end = min(position + len(group), len(made))
            pairs += ((None, made[at]) for at in range(position, end) if at not in taken)
            position = end
            continue
        end = max((at + 1 for at in found if at is not None), default=position)
        taken_by = {at: wanted for wanted, at in zip(group, found, strict=True) if at is not None}
        pairs += ((taken_by.get(at), made[at]) for at in range(position, end))
        pairs += ((wanted, None) for wanted, at in zip(group, found, strict=True) if at is None)
        position = end
    return pairs + [(None, call) for call in made[position:]]


def _assign(group: Sequence[Called], made: Sequence[MadeCall], places: range) -> list[int | None]:
    """Assign to each member a different place with a call that it accepts, for as many members as possible.

    Kuhn's algorithm for bipartite matching (https://doi.org/10.1002/nav.3800020109): if a place is taken, its owner
    tries to move.
    """
    owners: dict[int, int] = {}

    def place(member: int, tried: set[int]) -> bool:
        for at in places:
            if at in tried or group[member].objections(made[at]):
                continue
            tried.add(at)
            if at not in owners or place(owners[at], tried):
                owners[at] = member
                return True
        return False

    for member in range(len(group)):
        place(member, set())
    found: list[int | None] = [None] * len(group)
    for at, member in owners.items():
        found[member] = at
    return found


def _side_by_side(pairs: Sequence[Pair], groups: Sequence[tuple[Called, ...]], made: Sequence[MadeCall]) -> str:
    missing = [left for left, right in pairs if left is not None and right is None]
    rows: list[tuple[str, str, str, list[str]]] = []
    for left, right in pairs:
        if left is not None and right is not None:
            rows.append((str(left), "=", str(right), []))
        elif right is not None:
            rival = next((wanted for wanted in missing if wanted.name == right.name), None)
            if rival is None:
                rows.append(("", "+", str(right), ["made, and not expected here"]))
            else:  # the same tool with something else about it: shown as one row that differs
                missing = [wanted for wanted in missing if wanted is not rival]
                rows.append((str(rival), "≠", str(right), rival.objections(right)))
    rows += [(str(wanted), "-", "", ["expected, and not made here"]) for wanted in missing]
    width = max([len("expected"), *(len(row[0]) for row in rows)])
    lines = [f"  {'expected':<{width}}     made"]
    for expected, mark, found, notes in rows:
        lines.append(f"  {expected:<{width}}  {mark}  {found}".rstrip())
        lines += [f"      {note}" for note in notes]
    wanted = sum(map(len, groups))
    return f"the calls are not those of the contract ({wanted} expected, {len(made)} made)\n" + "\n".join(lines)


def _format_arguments(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return repr(arguments)
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())

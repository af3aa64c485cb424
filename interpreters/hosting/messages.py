"""What handle and host say to each other: frozen values, each of which is one line of JSON. ``docs/embedding.md`` has
the table.

    {"type": "run_turn", "session": "a", "turn": 1, "text": "What is 17 * 23?"}
    {"type": "event", "session": "a", "turn": 1, "event": {..., "value": {"type": "text_delta", "text": "It is"}}}
    {"type": "perform", "session": "a", "turn": 1, "owner": "a", "effect": {"type": "call_tool", ...}}
    {"type": "performed", "session": "a", "turn": 1, "owner": "a", "effect_id": "1.1.1", "input": {...}}
    {"type": "turn_ended", "session": "a", "turn": 1, "outcome": {"type": "completed", "text": "It is 391."}, ...}

What a session does and what happens to it crosses as the core's own effects and inputs, by the core's own codec: a host
forwards an effect, and the handle's side answers with the input that an interpreter would have given. Classes of their
own are for what the core has no word for: models, sessions and turns as handles count them.

Rules that both sides keep:

- A turn's number is given by the handle and is higher than that of any turn of the session before.
- Each turn is ended by exactly one ``turn_ended`` or ``turn_broken``, whatever happens, and nothing that carries its
  number comes after that. What comes late for a turn, from either side, is dropped.
- What has an ``id`` is answered by exactly one ``done``, ``ready``, ``started`` or ``refused`` with that id.
- What a handle says and can't be read changes nothing; it is answered by ``faulted``, or as above where its id or its
  turn can be read. A host that says what can't be read, or what can't be, is not spoken to any more.
- A message names nothing of the host's but what the host has named beforehand (``host.Host``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import field, frozen, validators

from cognition import (
    AgentConfig,
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
    AskUser,
    CallTool,
    CancelAsked,
    EffectId,
    HookReturned,
    Message,
    Outcome,
    PlanReviewed,
    QuestionAnswered,
    ReviewPlan,
    RunHook,
    ToolFailed,
    ToolReturned,
    Usage,
    from_data,
)
from cognition.features import Mode
from interpreters.hosting.settings import ModelChoice as ModelChoice, Secrets as Secrets, Settings as Settings
from interpreters.observing.events import TAGS, Event
from runtime.children.lines import NARROW, WIDE, ProtocolError as ProtocolError, check_usage, line_of as line_of, read

VERSION = 2
"""Of these messages. A host refuses to be started with another one."""

Forwarded = CallTool | AskApproval | AskUser | ReviewPlan | RunHook
"""The effects that are carried out on the handle's side."""

Answer = (
    ToolReturned
    | ToolFailed
    | ApprovalGiven
    | ApprovalRefused
    | QuestionAnswered
    | PlanReviewed
    | HookReturned
    | CancelAsked
)
"""The inputs that answer them; ``CancelAsked`` where the user will not answer the model's questions."""


# ------------------------------------------------------------------------------------------- what a handle says


@frozen
class Start:
    """Load the model; the first message. A host that was given a model takes no other."""

    tag: ClassVar = "start"
    id: str
    version: int = 1
    """Of the messages. Said always but by the first version, which left it out."""
    model: ModelChoice | None = None


@frozen
class Init:
    """Begin a session. Its tools, approvals, questions, plans and hooks are the handle's side's."""

    tag: ClassVar = "init"
    id: str
    session: str
    config: AgentConfig = AgentConfig()
    settings: Settings = Settings()
    resume: bool = False
    """Go on with the session in ``journal``; of ``config`` only the tools and the hooks count then."""


@frozen
class Fork:
    """Begin a session where another one of this host, which has a journal, stood after a turn."""

    tag: ClassVar = "fork"
    id: str
    origin: str
    session: str
    config: AgentConfig = AgentConfig()
    """Of it the tools and the hooks count, and ``system`` if it is not empty."""
    settings: Settings = Settings()
    after: int | None = None
    """The turn, as the session counts them; None for the newest that has ended."""
    foreign: bool = False
    """Whether the journal may be one that the host's user did not write: then all of ``config`` counts, and of the
    journal its conversation."""


@frozen
class RunTurn:
    """Say something to the model."""

    tag: ClassVar = "run_turn"
    session: str
    turn: int
    text: str


@frozen
class GoOn:
    """Carry the turn of a resumed session to its end that a crash had interrupted."""

    tag: ClassVar = "go_on"
    session: str
    turn: int


@frozen
class Performed:
    """An effect was carried out, and this came of it. Answers ``perform``."""

    tag: ClassVar = "performed"
    session: str
    turn: int
    owner: str
    effect_id: EffectId
    input: Answer


@frozen
class ToolProgress:
    """What a running tool says of itself."""

    tag: ClassVar = "tool_progress"
    session: str
    turn: int
    owner: str
    effect_id: EffectId
    text: str


@frozen
class Read:
    """So many more events of this turn were read. Said now and then where the session has a ``window``."""

    tag: ClassVar = "read"
    session: str
    turn: int
    count: int = field(validator=validators.ge(0))


@frozen
class Cancel:
    """Stop this turn and no other; one that is over or was never begun is left alone."""

    tag: ClassVar = "cancel"
    session: str
    turn: int
    reason: str = ""


@frozen
class SetMode:
    """Let more or less happen without being asked, from now on."""

    tag: ClassVar = "set_mode"
    id: str
    session: str
    mode: Mode


@frozen
class Reset:
    """Cancel the turn under way and forget the conversation."""

    tag: ClassVar = "reset"
    id: str
    session: str


@frozen
class Dispose:
    """Cancel the turn under way and end the session."""

    tag: ClassVar = "dispose"
    id: str
    session: str


@frozen
class Ping:
    """Say that you live, at once and whatever your sessions do."""

    tag: ClassVar = "ping"
    id: str


@frozen
class Shutdown:
    """End all sessions, free the model, and end the host. So does the end of the connection."""

    tag: ClassVar = "shutdown"


Request = (
    Start
    | Init
    | Fork
    | RunTurn
    | GoOn
    | Performed
    | ToolProgress
    | Read
    | Cancel
    | SetMode
    | Reset
    | Dispose
    | Ping
    | Shutdown
)


# --------------------------------------------------------------------------------------------- what a host says


@frozen
class Started:
    """The model is there."""

    tag: ClassVar = "started"
    id: str
    model: str
    backend: str
    context_tokens: int


@frozen
class Ready:
    """A session has begun."""

    tag: ClassVar = "ready"
    id: str
    session: str
    unfinished: bool = False
    """Whether a crash interrupted a turn of it: ``go_on`` ends that."""


@frozen
class Accepted:
    """What was asked under this id is done."""

    tag: ClassVar = "done"
    id: str


@frozen
class Refused:
    """What was asked under this id was not done, and nothing changed."""

    tag: ClassVar = "refused"
    id: str
    error: str
    """The error's class, such as ``"ConfigError"``."""
    message: str


@frozen
class Happened:
    """What observers are told."""

    tag: ClassVar = "event"
    session: str
    turn: int
    event: dict[str, Any]
    """An ``events.Event``; see ``event_of``."""


@frozen
class Perform:
    """Carry an effect out, and answer with ``performed``. Several may be under way."""

    tag: ClassVar = "perform"
    session: str
    turn: int
    owner: str
    """The session that decided it: this one, or that of a worker. With its id it names the effect."""
    effect: Forwarded


@frozen
class Dropped:
    """Nobody waits any more for what comes of this effect."""

    tag: ClassVar = "dropped"
    session: str
    turn: int
    owner: str
    effect_id: EffectId


@frozen
class TurnEnded:
    """The turn is over."""

    tag: ClassVar = "turn_ended"
    session: str
    turn: int
    outcome: Outcome
    usage: Usage
    messages: tuple[Message, ...]
    """What it added to the history."""
    number: int
    """The turn as the session counts them."""


@frozen
class TurnBroken:
    """There is no turn any more, and no outcome: the program's own fault, such as a full disk or a closed session."""

    tag: ClassVar = "turn_broken"
    session: str
    turn: int
    error: str
    message: str


@frozen
class Faulted:
    """A message could not be read, or belongs to nothing that there is."""

    tag: ClassVar = "faulted"
    message: str


Notice = Started | Ready | Accepted | Refused | Happened | Perform | Dropped | TurnEnded | TurnBroken | Faulted


# --------------------------------------------------------------------------------------------------- as lines of JSON

KNOWN = frozenset(TAGS.values())
"""The tags of what may have happened."""

LONGEST = 1 << 26
"""Bytes of a line, either way: a turn's end holds all messages that it added."""

LONGEST_CONTEXT = 2**31


def read_request(line: str) -> Request:
    """What a handle said; raises ProtocolError."""
    request: Request = read(line, Request, WIDE)
    return request


def read_notice(line: str) -> Notice:
    """What a host said, its numbers looked at; raises ProtocolError."""
    notice: Notice = read(line, Notice, NARROW)
    match notice:
        case Started(context_tokens=number) if not 0 < number < LONGEST_CONTEXT:
            raise ProtocolError(f"a model of {number} tokens")
        case TurnEnded(usage=usage, number=number):
            check_usage(usage)
            if number < 0:
                raise ProtocolError(f"a turn {number}")
        case _:
            pass
    return notice


def event_of(data: Mapping[str, Any]) -> Event | None:
    """The event that these are the data of; None for one that this version doesn't know: a newer host does no harm."""
    value = data.get("value")
    if isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] not in KNOWN:
        return None
    event: Event = from_data(data, Event)
    return event

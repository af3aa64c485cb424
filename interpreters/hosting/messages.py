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
- A turn that waits for answers is ended as ``suspended``; the ``answer`` that goes on with it has a number of its own.
- Each turn is ended by exactly one ``turn_ended`` or ``turn_broken``, whatever happens, and nothing that carries its
  number comes after that. What comes late for a turn, from either side, is dropped.
- What has an ``id`` is answered by exactly one ``done``, ``ready``, ``started``, ``remembered`` or ``refused`` with
  that id.
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
    Part,
    PlanReviewed,
    QuestionAnswered,
    ReviewPlan,
    Rule,
    RunHook,
    ToolFailed,
    ToolReturned,
    Usage,
    from_data,
)
from cognition.candidates import Candidate
from cognition.features import Mode
from interpreters.agents.results import Suspended
from interpreters.hosting.settings import ModelChoice as ModelChoice, Secrets as Secrets, Settings as Settings
from interpreters.observing.events import TAGS, Event
from interpreters.program.later import Postponable
from runtime.children.lines import NARROW, WIDE, ProtocolError as ProtocolError, check_usage, line_of as line_of, read

VERSION = 5
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
    parts: tuple[Part, ...] = ()
    """As of ``UserSpoke``: texts and pictures in their order."""
    system: str | None = None
    """The system prompt from here on, where a function of the handle's side makes it."""
    context: tuple[Candidate, ...] = ()


@frozen
class GoOn:
    """Carry the turn of a resumed session to its end that a crash had interrupted."""

    tag: ClassVar = "go_on"
    session: str
    turn: int


@frozen
class Compact:
    """Summarise the conversation; what comes of it is an event."""

    tag: ClassVar = "compact"
    session: str
    turn: int


@frozen
class GiveAnswer:
    """Hand in what the session waits for, and go on with its turn. ``cancel_asked`` gives all of it up."""

    tag: ClassVar = "answer"
    session: str
    turn: int
    """A new one, as every run of the session has."""
    effect_id: EffectId
    """Of something that is pending."""
    input: Answer


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
class Postponed:
    """What comes of an effect will be handed in by ``answer``, once the turn has ended as ``suspended``. Answers
    ``perform``, but for a hook's and for those of workers: they are refused then.
    """

    tag: ClassVar = "postponed"
    session: str
    turn: int
    owner: str
    effect_id: EffectId


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
    keep: bool = False
    """Whether what a person or the program outside is asked stays pending: the turn ends as ``suspended`` then."""


@frozen
class SetMode:
    """Let more or less happen without being asked, from now on."""

    tag: ClassVar = "set_mode"
    id: str
    session: str
    mode: Mode


@frozen
class Forget:
    """Take back what the user said "from now on": the rules with these patterns, or all of them."""

    tag: ClassVar = "forget"
    id: str
    session: str
    rules: tuple[str, ...] = ()


@frozen
class AskRemembered:
    """Say what the user said "from now on"."""

    tag: ClassVar = "ask_remembered"
    id: str
    session: str


@frozen
class Reset:
    """Cancel the turn under way, give up what is pending, and forget the conversation."""

    tag: ClassVar = "reset"
    id: str
    session: str


@frozen
class Dispose:
    """End the turn under way and the session. What is pending stays so in its journal."""

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
    """End all sessions as ``dispose`` does, free the model, and end the host. So does the end of the connection."""

    tag: ClassVar = "shutdown"


Request = (
    Start
    | Init
    | Fork
    | RunTurn
    | GoOn
    | Compact
    | GiveAnswer
    | Performed
    | Postponed
    | ToolProgress
    | Read
    | Cancel
    | SetMode
    | Forget
    | AskRemembered
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
    """Whether a turn of it is open: a crash interrupted it, which ``go_on`` ends, or it waits for answers."""
    pending: tuple[Postponable, ...] = ()
    """What a resumed session waits for, oldest first."""


@frozen
class Remembered:
    """What the user said "from now on", oldest first. Answers ``ask_remembered``."""

    tag: ClassVar = "remembered"
    id: str
    rules: tuple[Rule, ...] = ()


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
    """The turn is over; or, where its outcome is ``suspended``, it waits for answers."""

    tag: ClassVar = "turn_ended"
    session: str
    turn: int
    outcome: Outcome | Suspended
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
    pending: tuple[Postponable, ...] = ()
    """What the session waits for all the same, such as the turn before where a new message was refused."""


@frozen
class Faulted:
    """A message could not be read, or belongs to nothing that there is."""

    tag: ClassVar = "faulted"
    message: str


Notice = (
    Started | Ready | Remembered | Accepted | Refused | Happened | Perform | Dropped | TurnEnded | TurnBroken | Faulted
)


# --------------------------------------------------------------------------------------------------- as lines of JSON

KNOWN = frozenset(TAGS.values())
"""The tags of what may have happened."""

LONGEST = 1 << 26
"""Bytes of a line, either way: a turn's end holds all messages that it added."""
LONGEST_CONTEXT, MOST_PENDING = 2**31, 1000


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
    pending = pending_in(notice)
    if len({effect.effect_id for effect in pending}) < len(pending) or len(pending) > MOST_PENDING:
        raise ProtocolError(f"{len(pending)} effects that wait, more than may or one of them twice")
    if isinstance(notice, TurnEnded) and isinstance(notice.outcome, Suspended) and not pending:
        raise ProtocolError("a turn that waits for nothing")
    return notice


def pending_in(notice: Notice) -> tuple[Postponable, ...]:
    """What a session waits for, as far as this says so."""
    match notice:
        case Ready(pending=pending) | TurnBroken(pending=pending) | TurnEnded(outcome=Suspended(pending=pending)):
            return pending
        case _:
            return ()


def event_of(data: Mapping[str, Any]) -> Event | None:
    """The event that these are the data of; None for one that this version doesn't know: a newer host does no harm."""
    value = data.get("value")
    if isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] not in KNOWN:
        return None
    event: Event = from_data(data, Event)
    return event

"""The messages between handle and host: frozen values, each a line of JSON.

``docs/reference/host-messages.md`` has the table.

    {"type": "run_turn", "session": "a", "turn": 1, "text": "What is 17 * 23?"}
    {"type": "event", "session": "a", "turn": 1, "event": {..., "value": {"type": "text_delta", "text": "It is"}}}
    {"type": "perform", "session": "a", "turn": 1, "owner": "a", "effect": {"type": "call_tool", ...}}
    {"type": "performed", "session": "a", "turn": 1, "owner": "a", "effect_id": "1.1.1", "input": {...}}
    {"type": "turn_ended", "session": "a", "turn": 1, "outcome": {"type": "completed", "text": "It is 391."}, ...}

Effects and inputs of a session are the core's own types, encoded by the core's codec. A host forwards an effect, and
the handle's side answers with the input that an interpreter would produce. This module defines classes only for
concepts that the core lacks: models, sessions, and turns as handles count them.

Rules for both sides:

- The handle numbers the turns; a number is higher than that of any earlier turn of the session.
- A turn that waits for answers ends as ``suspended``; the ``answer`` that continues it has a new number.
- Each turn ends with exactly one ``turn_ended`` or ``turn_broken``. No message with its number follows. A late message
  for a turn, from either side, is dropped.
- A request with an ``id`` gets exactly one ``done``, ``ready``, ``started``, ``remembered`` or ``refused`` with it.
- An unreadable message of a handle changes nothing. The answer is ``faulted``, or as above if its id or its turn is
  readable. After an unreadable or impossible message of a host, the handle's side closes the connection.
- A message may use only names on the host's side that the host has set at its start (``host.Host``).
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
from cognition.values.candidates import Candidate
from cognition.values.features import Mode
from interpreters.agents.results import Suspended
from interpreters.hosting._settings import ModelChoice as ModelChoice, Secrets as Secrets, Settings as Settings
from interpreters.loop.program.pending import Postponable
from interpreters.observing.events import TAGS, Event
from runtime.children.line_pipe import (
    NARROW,
    WIDE,
    ProtocolError as ProtocolError,
    check_usage,
    line_of as line_of,
    read_message,
)

VERSION = 5
"""The version of these messages. A host refuses to start with another version."""

Forwarded = CallTool | AskApproval | AskUser | ReviewPlan | RunHook
"""The effects carried out on the handle's side."""

Judged = ApprovalGiven | ApprovalRefused | PlanReviewed
Answer = ToolReturned | ToolFailed | Judged | QuestionAnswered | HookReturned | CancelAsked
"""The inputs that answer them; ``CancelAsked`` if the user will not answer the model's questions."""


@frozen
class Identified:
    """The beginning of a request with an id, and of the answer to it."""

    id: str


@frozen
class SessionRequest(Identified):
    """The beginning of a request to an open session."""

    session: str


@frozen
class TurnMessage:
    """The beginning of a message about a turn, as the handle counts turns."""

    session: str
    turn: int


@frozen
class EffectMessage(TurnMessage):
    """The beginning of a message about an effect that the handle's side carries out."""

    owner: str
    """The session that decided the effect: this one, or a worker's. Owner and effect id together identify it."""
    effect_id: EffectId


# ------------------------------------------------------------------------------------------- what a handle says


@frozen
class Start(Identified):
    """Load the model; the first message. A host that was started with a model ignores the choice."""

    tag: ClassVar[str] = "start"
    version: int = 1
    """The version of the messages. Always present, except in the first version."""
    model: ModelChoice | None = None


@frozen
class Init(Identified):
    """Start a session. Its tools, approvals, questions, plans and hooks run on the handle's side."""

    tag: ClassVar[str] = "init"
    session: str
    config: AgentConfig = AgentConfig()
    settings: Settings = Settings()
    resume: bool = False
    """Resume the session in ``journal``; of ``config`` only the tools and hooks are used."""


@frozen
class Fork(Identified):
    """Start a session from the state of another session of this host after a turn. That session must have a journal."""

    tag: ClassVar[str] = "fork"
    origin: str
    session: str
    config: AgentConfig = AgentConfig()
    """Only its tools and hooks are used, and ``system`` if it is not empty."""
    settings: Settings = Settings()
    after: int | None = None
    """The turn, as the session counts them; None for the newest that has ended."""
    foreign: bool = False
    """Whether the host's user may not have written the journal: then only its conversation is used, and all of
    ``config``.
    """


@frozen
class RunTurn(TurnMessage):
    """Send a user message to the session."""

    tag: ClassVar[str] = "run_turn"
    text: str
    parts: tuple[Part, ...] = ()
    """As in ``UserSpoke``: texts and pictures in their order."""
    system: str | None = None
    """The system prompt from now on, if a function on the handle's side makes it."""
    context: tuple[Candidate, ...] = ()


@frozen
class GoOn(TurnMessage):
    """Continue the turn of a resumed session that a crash interrupted, to its end."""

    tag: ClassVar[str] = "go_on"


@frozen
class Compact(TurnMessage):
    """Summarise the conversation; an event reports the outcome."""

    tag: ClassVar[str] = "compact"


@frozen
class GiveAnswer(TurnMessage):
    """Answer a pending effect and continue the turn, under a new number, as every run of the session.

    ``cancel_asked`` abandons all pending effects.
    """

    tag: ClassVar[str] = "answer"
    effect_id: EffectId
    """The id of a pending effect."""
    input: Answer


@frozen
class Performed(EffectMessage):
    """The result of an effect. Answers ``perform``."""

    tag: ClassVar[str] = "performed"
    input: Answer


@frozen
class EffectPostponed(EffectMessage):
    """The result of an effect will follow in an ``answer``, after the turn has ended as ``suspended``.

    Answers ``perform``. For effects of hooks and of workers, this is treated as a refusal.
    """

    tag: ClassVar[str] = "postponed"


@frozen
class ProgressReport(EffectMessage):
    """A progress report of a running tool."""

    tag: ClassVar[str] = "tool_progress"
    text: str


@frozen
class Read(TurnMessage):
    """The reader has read ``count`` more events of this turn. Sent now and then if the session has a ``window``."""

    tag: ClassVar[str] = "read"
    count: int = field(validator=validators.ge(0))


@frozen
class Cancel(TurnMessage):
    """Stop only this turn; does nothing if it is over or was never started."""

    tag: ClassVar[str] = "cancel"
    reason: str = ""
    keep: bool = False
    """Whether open questions stay pending: the turn then ends as ``suspended``."""


@frozen
class SetMode(SessionRequest):
    """Set how much may happen without approval, from now on."""

    tag: ClassVar[str] = "set_mode"
    mode: Mode


@frozen
class Forget(SessionRequest):
    """Remove approvals and refusals given "from now on": the rules with these patterns, or all of them."""

    tag: ClassVar[str] = "forget"
    rules: tuple[str, ...] = ()


@frozen
class AskRemembered(SessionRequest):
    """Request the approvals and refusals that the user gave "from now on"."""

    tag: ClassVar[str] = "ask_remembered"


@frozen
class Reset(SessionRequest):
    """Cancel the running turn, abandon pending effects, and forget the conversation."""

    tag: ClassVar[str] = "reset"


@frozen
class Dispose(SessionRequest):
    """End the running turn and the session. Pending effects stay pending in its journal."""

    tag: ClassVar[str] = "dispose"


@frozen
class Ping(Identified):
    """Answer immediately to show that the host lives, even while its sessions are busy."""

    tag: ClassVar[str] = "ping"


@frozen
class Shutdown:
    """End all sessions as ``dispose`` does, free the model, and end the host; as does the connection's end."""

    tag: ClassVar[str] = "shutdown"


Run = RunTurn | GoOn | Compact | GiveAnswer
"""The requests that begin a turn, as handles count turns."""

TurnNews = Performed | EffectPostponed | ProgressReport | Read
"""The news about a running turn."""

Change = SetMode | Forget | AskRemembered | Reset | Dispose
"""The requests to an open session that begin no turn."""

Request = Start | Init | Fork | Run | TurnNews | Cancel | Change | Ping | Shutdown


# --------------------------------------------------------------------------------------------- what a host says


@frozen
class Started(Identified):
    """The model is loaded."""

    tag: ClassVar[str] = "started"
    model: str
    backend: str
    context_tokens: int


@frozen
class Ready(Identified):
    """A session has started."""

    tag: ClassVar[str] = "ready"
    session: str
    unfinished: bool = False
    """Whether a turn is open: a crash interrupted it (``go_on`` ends it), or it waits for answers."""
    pending: tuple[Postponable, ...] = ()
    """The pending effects of a resumed session, oldest first."""


@frozen
class Remembered(Identified):
    """The approvals and refusals that the user gave "from now on", oldest first. Answers ``ask_remembered``."""

    tag: ClassVar[str] = "remembered"
    rules: tuple[Rule, ...] = ()


@frozen
class Accepted(Identified):
    """The request with this id was carried out."""

    tag: ClassVar[str] = "done"


@frozen
class Refused(Identified):
    """The request with this id was refused, and nothing changed."""

    tag: ClassVar[str] = "refused"
    error: str
    """The error's class, such as ``"ConfigError"``."""
    message: str


@frozen
class EventHappened(TurnMessage):
    """An event for the observers."""

    tag: ClassVar[str] = "event"
    event: dict[str, Any]
    """The data of an ``events.Event``; see ``event_of``."""


@frozen
class Perform(TurnMessage):
    """Carry an effect out, and answer with ``performed``. Several may run at a time."""

    tag: ClassVar[str] = "perform"
    owner: str
    """The session that decided the effect: this one, or a worker's. Owner and effect id together identify it."""
    effect: Forwarded


@frozen
class Dropped(EffectMessage):
    """Nothing awaits the result of this effect any longer."""

    tag: ClassVar[str] = "dropped"


@frozen
class TurnEnded(TurnMessage):
    """The turn is over; or, if its outcome is ``suspended``, it waits for answers."""

    tag: ClassVar[str] = "turn_ended"
    outcome: Outcome | Suspended
    usage: Usage
    messages: tuple[Message, ...]
    """The messages the turn added to the history."""
    number: int
    """The turn's number as the session counts them."""


@frozen
class TurnBroken(TurnMessage):
    """The turn ended without an outcome, by an error of the program itself, such as a full disk or a closed session."""

    tag: ClassVar[str] = "turn_broken"
    error: str
    message: str
    pending: tuple[Postponable, ...] = ()
    """The effects the session still waits for, such as those of the previous turn if a new message was refused."""


@frozen
class Faulted:
    """A message could not be read, or refers to an unknown object."""

    tag: ClassVar[str] = "faulted"
    message: str


Reply = Started | Ready | Remembered | Accepted | Refused
"""The answers to a request with an ``id``."""

Notice = Reply | EventHappened | Perform | Dropped | TurnEnded | TurnBroken | Faulted


# --------------------------------------------------------------------------------------------------- as lines of JSON

KNOWN = frozenset(TAGS.values())
"""The tags of known event values."""

LONGEST = 1 << 26
"""Maximum bytes of a line, in both directions: a turn's end contains all messages that it added."""
LONGEST_CONTEXT, MOST_PENDING = 2**31, 1000


def read_request(line: str) -> Request:
    """Read a message of a handle.

    Raises:
        ProtocolError: it is invalid.
    """
    request: Request = read_message(line, Request, WIDE)
    return request


def read_notice(line: str) -> Notice:
    """Read a message of a host and check its numbers.

    Raises:
        ProtocolError: it is invalid.
    """
    notice: Notice = read_message(line, Notice, NARROW)
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
    """Return the pending effects in this message, if it contains any."""
    match notice:
        case Ready(pending=pending) | TurnBroken(pending=pending) | TurnEnded(outcome=Suspended(pending=pending)):
            return pending
        case _:
            return ()


def event_of(data: Mapping[str, Any]) -> Event | None:
    """Return the event of these data; None for an event type unknown to this version, which a newer host may send."""
    value = data.get("value")
    if isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] not in KNOWN:
        return None
    event: Event = from_data(data, Event)
    return event

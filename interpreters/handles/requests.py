"""What a handle says to its host. See ``messages`` for the rules."""

from __future__ import annotations

from typing import Any, Literal

from attrs import Attribute, field, frozen

from cognition import ConfigError, GenerationOptions, Limits, Policy, RetryPolicy, ToolSpec
from cognition.features import Feature, HookPoint, Mode
from cognition.text_protocol import TextProtocol
from interpreters.journal import Fsync
from interpreters.redaction import SHAPES, Redaction, Shape

VERSION = 1
"""Of these messages. A host refuses to be started with another one."""

TOOL_WAIT = 300.0
"""Seconds that a call waits for its result from the handle's side, unless it is said otherwise."""


@frozen
class ModelChoice:
    """A model that the host makes itself: ``load_model(load)``, or what a function of its own gives."""

    load: str | None = None
    """For ``runtime.load_model``; None for the small model that ships with cogstep."""
    factory: str = ""
    """``"package.module:function"``, called with ``arguments``; it gives a ``runtime.Runtime``."""
    arguments: dict[str, Any] = field(factory=dict)


@frozen
class Start:
    """Load the model; the first message. A host that was given a model takes no other."""

    id: str
    version: int = VERSION
    model: ModelChoice | None = None


@frozen
class ToolOffer:
    """A tool that runs on the handle's side."""

    spec: ToolSpec
    timeout: float | None = None
    """As ``@tool(timeout=...)``: seconds."""


@frozen
class Secrets:
    """What is kept out of the recording, as data: a ``Redaction`` without its function."""

    secrets: dict[str, str] = field(factory=dict, repr=False)
    patterns: dict[str, str] = field(factory=dict)
    shapes: tuple[Shape, ...] | None = None
    """None for those that every version knows of itself, ``redaction.SHAPES``."""

    @classmethod
    def of(cls, redaction: Redaction) -> Secrets:
        """As data.

        Raises:
            ConfigError: it has a function, which can't cross.
        """
        if redaction.find is not None:
            raise ConfigError("redact: find= is a function, and what crosses to a host is JSON; use patterns=")
        shapes = None if redaction.shapes == SHAPES else redaction.shapes
        return cls(dict(redaction.secrets), dict(redaction.patterns), shapes)

    def redaction(self) -> Redaction:
        """As an agent takes it; raises ConfigError for a name or a pattern that can't be used."""
        return Redaction(self.secrets, self.patterns, shapes=SHAPES if self.shapes is None else self.shapes)


@frozen
class Settings:
    """What a session is made of, apart from its tools and its place on file; see ``AgentOptions``."""

    system: str = ""
    options: GenerationOptions = field(factory=GenerationOptions)
    limits: Limits = field(factory=Limits)
    policy: Policy = field(factory=Policy)
    retry: RetryPolicy = field(factory=RetryPolicy)
    context_tokens: int | None = None
    features: tuple[Feature, ...] = ()
    protocol: TextProtocol = "native"
    hooks: tuple[HookPoint, ...] = ()
    """Asked on the handle's side, as are approvals, questions and plans."""
    recall_first: bool = False
    worker_patience: float | None = 300.0
    approvals: bool = False
    """Whether the handle's side is asked for approvals; without it they are refused."""
    notes: str = ""
    """The file of the model's notes, on the host's side; ``":memory:"`` keeps them as long as the session."""
    tool_wait: float = TOOL_WAIT
    """Seconds after which a call that got no result has failed."""
    redact: Secrets | None = Secrets()
    """What is kept out of the recording; None: everything is recorded as it is."""
    window: int | None = field(default=None)
    """How many events of a turn may be unread: the session waits then for ``read``. None: any number."""

    @window.validator
    def _check_window(self, _attribute: Attribute[int | None], value: int | None) -> None:
        if value is not None and value < 1:
            raise ConfigError(f"window must be above 0, not {value}; None is for any number of unread events")


@frozen
class Init:
    """Begin a session."""

    id: str
    session: str
    settings: Settings = Settings()
    tools: tuple[ToolOffer, ...] = ()
    journal: str | None = None
    """A file on the host's side."""
    fsync: Fsync = "turn"
    resume: bool = False
    """Go on with the session in ``journal``; of the settings, only what is not recorded counts."""


@frozen
class Fork:
    """Begin a session where another one of this host, which has a journal, stood after a turn."""

    id: str
    origin: str
    session: str
    settings: Settings = Settings()
    """Of these, ``system`` counts if it is not empty, and all that is not recorded."""
    tools: tuple[ToolOffer, ...] = ()
    after: int | None = None
    """The turn, as the session counts them; None for the newest that has ended."""
    journal: str | None = None
    fsync: Fsync = "turn"


@frozen
class RunTurn:
    """Say something to the model."""

    session: str
    turn: int
    text: str


@frozen
class GoOn:
    """Carry the turn of a resumed session to its end that a crash had interrupted."""

    session: str
    turn: int


@frozen
class ToolResult:
    """What a call gave."""

    session: str
    turn: int
    number: int
    """Of its ``tool_called``."""
    content: str
    failed: bool = False


@frozen
class ToolProgress:
    """What a running tool says of itself."""

    session: str
    turn: int
    number: int
    text: str


@frozen
class Read:
    """So many more events of this turn were read. Said now and then where the session has a ``window``."""

    session: str
    turn: int
    count: int


@frozen
class ApprovalAnswer:
    """Answers ``approval_asked``."""

    session: str
    turn: int
    number: int
    allowed: bool
    reason: str = ""
    always: bool = False


@frozen
class Choice:
    """Answers ``questions_asked``: for each question the chosen options. ``declined``: the user will not answer."""

    session: str
    turn: int
    number: int
    chosen: tuple[tuple[str, ...], ...] = ()
    declined: bool = False


@frozen
class PlanVerdict:
    """Answers ``plan_asked``."""

    session: str
    turn: int
    number: int
    approved: bool
    feedback: str = ""


@frozen
class HookVerdict:
    """Answers ``hook_asked``."""

    session: str
    turn: int
    number: int
    verdict: Literal["continue", "refuse", "go_on"] = "continue"
    reason: str = ""
    arguments: dict[str, Any] | None = None
    context: str = ""


@frozen
class NoAnswer:
    """Nobody could be asked; what was asked is refused."""

    session: str
    turn: int
    number: int
    reason: str


@frozen
class Cancel:
    """Stop this turn and no other; one that is over or was never begun is left alone."""

    session: str
    turn: int
    reason: str = ""


@frozen
class SetMode:
    """Let more or less happen without being asked, from now on."""

    id: str
    session: str
    mode: Mode


@frozen
class Reset:
    """Cancel the turn under way and forget the conversation."""

    id: str
    session: str


@frozen
class Dispose:
    """Cancel the turn under way and end the session."""

    id: str
    session: str


@frozen
class Shutdown:
    """End all sessions, free the model, and end the host. So does the end of the connection."""

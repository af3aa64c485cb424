"""The state of an agent between two inputs: one frozen value."""

from __future__ import annotations

from attrs import frozen

from cognition.policy import Rule
from cognition.steps.phases import IDLE, Phase
from cognition.values.candidates import Briefing
from cognition.values.counts import TemplateCosts, Tokens
from cognition.values.features import Mode, Plan, Task
from cognition.values.history import History
from cognition.values.messages import Usage
from cognition.values.routing import HealthOf


@frozen(weakref_slot=False)  # one in each state that is kept
class Counters:
    """Sources of ids. They only grow."""

    turn: int = 0
    step: int = 0
    index: int = 0
    """The number of effects decided in this step, and so the index of the next effect."""
    messages: int = 0


@frozen(weakref_slot=False)  # one in each state that is kept
class Spent:
    """The current turn's use of its budgets, and the memory of its guards."""

    started_at: float = 0.0
    steps: int = 0
    tool_calls: int = 0
    refusals: int = 0
    """Tool calls in a row that policy or the user refused."""
    nudges: int = 0
    """How often an empty reply was answered with a reminder."""
    repairs: int = 0
    """How often in a row an unreadable reply was sent back."""
    workers: int = 0
    hook_continuations: int = 0
    usage: Usage = Usage()
    """The usage of the turn's own model calls and its workers."""
    recent: tuple[str, ...] = ()
    """Fingerprints of the latest calls, oldest first, for the loop guard."""
    called: bool = False
    """Whether a reply of this turn contained a call. ``tool_choice`` forces only the first call."""
    corrections: int = 0
    """How often an answer of the wrong type was sent back."""
    given_up: tuple[str, ...] = ()
    """Models that the turn has abandoned after failures."""


@frozen(weakref_slot=False)
class Summary:
    """The part of a request before the window, in place of summarised messages."""

    text: str = ""
    """The model's summary; empty without a summary, or without room for it."""
    messages: int = 0
    """How many of the first messages of history it replaces, including messages left out earlier."""
    asked: int | None = None
    """Index of the turn's user message if the window begins in the middle of the turn. It is then shown before the
    window, with the engine's notes directly after it. None if the window begins with a turn.
    """
    tried: int | None = None
    """The length of history at the latest attempt at a summary, successful or not; None if never."""
    tokens: Tokens = ()
    """Tokens of the message that shows ``text``, as in ``UserMessage``."""
    skipped: int = 0
    """How many messages of the turn, after ``asked`` and its notes, a note replaces."""
    skipped_tokens: Tokens = ()
    """Tokens of that note."""
    failures: int = 0
    """How many attempts at a summary have failed since the latest one that succeeded."""
    scale: float = 0.0
    """Corrects the estimated size of a request to a model that writes only summaries, once it has refused one as too
    long; 0 before, for the window's own correction.
    """


NO_SUMMARY = Summary()


@frozen(weakref_slot=False)  # one in each state that is kept
class Window:
    """The part of history that a request shows, and its size.

    Sizes are sums of counted tokens if ``AgentState.costs`` is set. Otherwise they are estimated from characters, and
    ``scale`` corrects the estimate by the runtime's latest measurement.
    """

    first: int = 0
    """Index of the first message shown: the start of a turn, or, after a summary, the reply that begins a step of the
    turn.
    """
    size: float = 0.0
    """Tokens of all messages in their shown form: an upper bound, or an unscaled estimate."""
    scale: float = 1.0
    cuts: tuple[tuple[int, int], ...] = ()
    """Limits for shortened tool results: pairs of a message index (exclusive) and a number of characters. The first row
    beyond a message applies to it.
    """
    summary: Summary = NO_SUMMARY
    """The text shown before the message ``first``."""
    turns: int = 0
    """How many turns before ``first`` are left out."""
    slack: float = 0.0
    """By how many tokens the counted sum exceeded the runtime's latest report of a prompt; 0 for estimates, which
    ``scale`` corrects.
    """


@frozen
class AgentState:
    """A session between two inputs. Compare, keep, fork and store it freely: it is immutable and has no handles."""

    history: History = History()
    phase: Phase = IDLE
    counters: Counters = Counters()
    spent: Spent = Spent()
    window: Window = Window()
    remembered: tuple[Rule, ...] = ()
    """The user's approvals and refusals "from now on"."""
    total: Usage = Usage()
    """The usage of all turns."""
    mode: Mode = "default"
    resume_mode: Mode = "default"
    """The mode to return to when planning ends."""
    tasks: tuple[Task, ...] = ()
    plan: Plan | None = None
    returns: str = ""
    """The JSON Schema of this turn's answer, as text; empty for free text."""
    system: str | None = None
    """The system prompt of the newest message that had one; None for the configured prompt."""
    briefing: Briefing | None = None
    """The sections in this turn's requests; None if the newest message brought no candidates."""
    costs: TemplateCosts | None = None
    """Tokens of prompts outside their messages, measured by an interpreter; None: sizes are estimated."""
    model: str | None = None
    """The name of the model chosen to answer; empty for the agent's own, None without a choice."""
    health: HealthOf = ()
    """The failures of an agent's models, if it has several."""

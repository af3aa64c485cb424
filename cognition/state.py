"""Everything an agent knows between two inputs: one frozen value."""

from __future__ import annotations

from attrs import frozen

from cognition.candidates import Briefing
from cognition.counts import TemplateCosts, Tokens
from cognition.features import Mode, Plan, Task
from cognition.history import History
from cognition.messages import Usage
from cognition.phases import IDLE, Phase
from cognition.policy import Rule
from cognition.routing import HealthOf


@frozen(weakref_slot=False)  # one in each state that is kept
class Counters:
    """Sources of ids. They only grow."""

    turn: int = 0
    step: int = 0
    index: int = 0
    """The number of effects decided in this step, and so the index of the next one."""
    messages: int = 0


@frozen(weakref_slot=False)  # one in each state that is kept
class Spent:
    """What the current turn has used of its budgets, and the memory of its guards."""

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
    """What the turn's own model calls and its workers used together."""
    recent: tuple[str, ...] = ()
    """Fingerprints of the latest calls, oldest first, by which the loop guard sees a loop."""
    called: bool = False
    """Whether a reply of this turn held a call. Where ``tool_choice`` forces a call, only the first one is forced."""
    corrections: int = 0
    """How often an answer that is not of the type asked for was sent back."""
    given_up: tuple[str, ...] = ()
    """Models that the turn has turned away from, since they failed."""


@frozen(weakref_slot=False)
class Summary:
    """What a request shows before the window, in place of messages that the model has summarised."""

    text: str = ""
    """What the model wrote; empty where there is no summary, or no room for it."""
    messages: int = 0
    """How many messages of history it stands for, the first ones; those that had been left out before among them."""
    asked: int | None = None
    """Index of the user's message where the window begins in the middle of its turn: it is shown before the window,
    with the engine's notes that stand right behind it. None where the window begins with a turn."""
    tried: int | None = None
    """How many messages history had when a summary was last asked for, whatever came of it; None for never."""
    tokens: Tokens = ()
    """Of the message that shows ``text``, as in ``UserMessage``."""
    skipped: int = 0
    """How many messages of the turn, behind what stands with ``asked``, are left out with nothing in their place but a
    note that says so."""
    skipped_tokens: Tokens = ()
    """Of that note."""


NO_SUMMARY = Summary()


@frozen(weakref_slot=False)  # one in each state that is kept
class Window:
    """Which part of history a request shows, and how large it is.

    Sizes are added up from counted tokens, where ``AgentState.costs`` says so; else they are estimated from characters,
    and ``scale`` corrects the estimate by what the runtime last measured.
    """

    first: int = 0
    """Index of the first message that is shown: the start of a turn, or, behind a summary, the reply that begins a step
    of the turn."""
    size: float = 0.0
    """Tokens of all messages that are shown, as they are shown: at most, or estimated and unscaled."""
    scale: float = 1.0
    cuts: tuple[tuple[int, int], ...] = ()
    """Where tool results are shown shortened: up to which message of history, itself not included, and to how many
    characters. For a message the first row that goes beyond it holds."""
    summary: Summary = NO_SUMMARY
    """What is shown before the message ``first``."""
    turns: int = 0
    """How many turns stand before ``first`` and are left out."""
    slack: float = 0.0
    """Tokens by which the sum of what is shown was too high when the runtime last reported a prompt; 0 for estimates,
    which ``scale`` corrects."""


@frozen
class AgentState:
    """A session between two inputs. Compare, keep, fork and store it freely: nothing in it changes or is a handle."""

    history: History = History()
    phase: Phase = IDLE
    counters: Counters = Counters()
    spent: Spent = Spent()
    window: Window = Window()
    remembered: tuple[Rule, ...] = ()
    """The user's approvals and refusals "from now on"."""
    total: Usage = Usage()
    """What all turns used together."""
    mode: Mode = "default"
    resume_mode: Mode = "default"
    """The mode to return to when planning ends."""
    tasks: tuple[Task, ...] = ()
    plan: Plan | None = None
    returns: str = ""
    """The JSON Schema that the answer of this turn has to follow, as text; empty for free text."""
    system: str | None = None
    """The system prompt that came with the newest message that had one; None for the configuration's."""
    briefing: Briefing | None = None
    """The sections that stand in this turn's requests; None where the newest message brought no candidates."""
    costs: TemplateCosts | None = None
    """What prompts have beside their messages, as an interpreter measured it; None: sizes are estimated."""
    model: str | None = None
    """The name of the model that somebody chose to answer; empty for the agent's own, None where nobody chose one."""
    health: HealthOf = ()
    """What is known of models that have failed, of an agent that has several."""

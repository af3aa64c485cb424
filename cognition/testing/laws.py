"""The ten laws of the agent core, as checks that any engine can be held to.

    >>> from cognition import LLMEngine
    >>> from cognition.testing import laws
    >>> [law.name for law in laws(LLMEngine())][:2]
    ['L1', 'L2']

``law.check()`` searches with Hypothesis; ``explore`` and ``machine`` hold every step they take to the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from cognition.engine import CognitiveEngine
from cognition.errors import CogstepError
from cognition.inputs import Input
from cognition.testing import budget_laws, edge_laws, permission_laws, state_laws
from cognition.testing.story import Story, story_of
from cognition.testing.subject import Found, Problem, Subject
from cognition.testing.world import Edge, World

Probe = Callable[[Subject, World, Input], Found]
"""Looks at a step that is about to be taken."""
EdgeCheck = Callable[[Subject, Edge], Found]
"""Looks at a step that was taken."""
StateCheck = Callable[[Subject, World], Found]
"""Looks at a situation and at what would come of it."""


@frozen
class Law:
    """One law, for one engine."""

    name: str
    title: str
    statement: str
    subject: Subject
    probes: tuple[Probe, ...] = ()
    edges: tuple[EdgeCheck, ...] = ()
    states: tuple[StateCheck, ...] = ()
    alphabet: tuple[Input, ...] | None = None
    """What ``check`` draws inputs from; None for all that Hypothesis can think of."""

    def check(self, *, max_examples: int = 200, max_inputs: int = 12, derandomize: bool = True) -> None:
        """Search for a run that breaks this law: ``max_examples`` runs of up to ``max_inputs`` inputs.

        The same search every time, unless ``derandomize`` is False. Needs Hypothesis.

        Raises:
            LawViolation: with the shortest such run that was found, as a story.
        """
        from cognition.testing.search import find_violation  # Hypothesis is no dependency of the laws themselves

        violation = find_violation(
            self, max_examples=max_examples, max_inputs=max_inputs, derandomize=derandomize, alphabet=self.alphabet
        )
        if violation is not None:
            raise violation

    def before(self, world: World, event: Input) -> Problem | None:
        """What is wrong with the step that this input would make."""
        return next((found for check in self.probes if (found := check(self.subject, world, event))), None)

    def step(self, edge: Edge) -> Problem | None:
        """What is wrong with a step. Where the engine raised, only L2 has something to say."""
        if edge.error is not None and self.name != "L2":
            return None
        return next((found for check in self.edges if (found := check(self.subject, edge))), None)

    def state(self, world: World) -> Problem | None:
        """What is wrong with a situation."""
        return next((found for check in self.states if (found := check(self.subject, world))), None)

    def __str__(self) -> str:
        return f"{self.name} ({self.title}): {self.statement}"


class LawViolation(CogstepError, AssertionError):  # noqa: N818 - it is a finding about an engine, as in a test
    """An engine breaks a law.

    Attributes:
        law: the law.
        problem: what is wrong, in a sentence.
        story: the run that shows it. ``story.inputs`` fed to a fresh session lead there again.
    """

    def __init__(self, law: Law, problem: str, story: Story) -> None:
        super().__init__(f"{law.name} ({law.title}) is broken: {problem}\n\n{story}\n\nThe law: {law.statement}")
        self.law, self.problem, self.story = law, problem, story


STATEMENTS: tuple[tuple[str, str, str], ...] = (
    ("L1", "pure", "Equal state and input give equal transitions, and arguments are never changed."),
    (
        "L2",
        "total",
        "Any input in any reachable state gives a transition, never an exception. An input that does not belong "
        "(stale, foreign, duplicate, out of phase) leaves the state equal and yields one Rejected.",
    ),
    (
        "L3",
        "answered",
        "Before the next model call every tool call of the reply has exactly one result, directly after it and in call "
        "order; any arrival order of the results gives the same history.",
    ),
    (
        "L4",
        "ordered",
        "Calls run in the order given, unless a contiguous run of them is read-only; those may run together.",
    ),
    (
        "L5",
        "permitted",
        "Nothing runs that policy did not allow or the user did not approve; what runs is, to the byte, what was "
        "proposed and approved; adding a deny rule never permits more.",
    ),
    (
        "L6",
        "bounded",
        "Every turn ends with exactly one TurnFinished, its last decision, with nothing left in flight. Steps, tool "
        "calls, refusals, tokens, cost and wall time are budgets that nothing overdraws.",
    ),
    (
        "L7",
        "cancellable",
        'Cancelling reaches idle in one step, cancels each effect in flight, gives each open call a "cancelled" '
        "result, and leaves a history that the next model call accepts.",
    ),
    (
        "L8",
        "faithful",
        "Every state, input and decision comes back equal from its JSON, and a stored state goes on as the live one.",
    ),
    (
        "L9",
        "fits",
        "A request never exceeds the context's budget, begins at a turn, leaves nothing out after that, and has the "
        "system prompt and the newest user message whole.",
    ),
    (
        "L10",
        "alive",
        "From every reachable state benign answers lead to idle, something is in flight until then, a model that "
        "says nothing is nudged at most twice, and after a reset a message reaches the model as in a new session.",
    ),
)
"""Name, title and statement of each law."""

CHECKS: dict[str, tuple[tuple[Probe, ...], tuple[EdgeCheck, ...], tuple[StateCheck, ...]]] = {
    "L1": ((edge_laws.purity,), (), ()),
    "L2": ((), (edge_laws.totality,), (state_laws.nothing_happened,)),
    "L3": ((), (edge_laws.answered,), (state_laws.any_arrival_order,)),
    "L4": ((), (edge_laws.ordered,), ()),
    "L5": ((), (permission_laws.permitted,), ()),
    "L6": ((), (budget_laws.bounded,), ()),
    "L7": ((), (edge_laws.cancels_what_is_open,), (state_laws.cancellable,)),
    "L8": ((), (edge_laws.recorded_input, edge_laws.recorded_decisions), (state_laws.stored_and_read,)),
    "L9": ((), (edge_laws.fitting,), ()),
    "L10": ((), (), (state_laws.alive, state_laws.nudged_at_most_twice, state_laws.begins_anew)),
}
"""How each law is checked: before a step, of a step, of a situation."""


def laws(engine: CognitiveEngine, *, alphabet: Sequence[Input] | None = None) -> list[Law]:
    """The ten laws for this engine, in order.

    Laws that speak of tools, policy, limits or the context (L4, L5, L6, L9) use the engine's attribute ``config`` if it
    is an ``AgentConfig``, and otherwise check what can be told without.

    ``alphabet``: the inputs to search with, as in ``explore``; without it, all that the strategies can make.
    """
    subject, letters = Subject.of(engine), None if alphabet is None else tuple(alphabet)
    return [Law(name, title, text, subject, *CHECKS[name], letters) for name, title, text in STATEMENTS]


def violation_of(law: Law, problem: Problem, edges: Sequence[Edge]) -> LawViolation:
    """The error for a problem that was found at the end of these steps."""
    return LawViolation(law, problem.text, story_of((*edges, *problem.more)))

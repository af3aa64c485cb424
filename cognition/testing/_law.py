"""A law of the agent core, for one engine, and the errors of its check."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from cognition.base.errors import CogstepError
from cognition.steps.inputs import Input
from cognition.testing._engine_under_test import EngineUnderTest, Found, Problem
from cognition.testing._trace import Trace, trace_of
from cognition.testing._world import Edge, World

Probe = Callable[[EngineUnderTest, World, Input], Found]
"""Checks a step before it is taken."""
EdgeCheck = Callable[[EngineUnderTest, Edge], Found]
"""Checks a step that was taken."""
StateCheck = Callable[[EngineUnderTest, World], Found]
"""Checks a situation and its possible continuations."""


Search = Callable[["Law", int, int, bool], "LawViolation | None"]
"""Searches for a run that breaks a law, as ``Law.check`` says; returns the shortest one found, or None."""


@frozen
class Law:
    """One law, for one engine."""

    name: str
    title: str
    statement: str
    subject: EngineUnderTest
    search: Search
    """The search that ``check`` uses for a run that breaks the law."""
    probes: tuple[Probe, ...] = ()
    edges: tuple[EdgeCheck, ...] = ()
    states: tuple[StateCheck, ...] = ()
    alphabet: tuple[Input, ...] | None = None
    """The inputs that ``check`` draws from; None: all that the strategies generate."""

    def check(self, *, max_examples: int = 200, max_inputs: int = 12, derandomize: bool = True) -> None:
        """Search for a run that breaks this law: ``max_examples`` runs of up to ``max_inputs`` inputs.

        The search is the same every time, unless ``derandomize`` is False. Needs Hypothesis.

        Raises:
            LawViolation: with the shortest such run found, as a story.
            InconclusiveError: the engine raised in every run, so the search shows nothing about this law.
            ConfigError: Hypothesis is not installed.
        """
        if violation := self.search(self, max_examples, max_inputs, derandomize):
            raise violation

    def before(self, world: World, event: Input) -> Problem | None:
        """Return a problem with the step that this input would cause."""
        return next((found for check in self.probes if (found := check(self.subject, world, event))), None)

    def step(self, edge: Edge) -> Problem | None:
        """Return a problem with a step. If the engine raised, only L2 checks it."""
        if edge.error is not None and self.name != "L2":
            return None
        return next((found for check in self.edges if (found := check(self.subject, edge))), None)

    def state(self, world: World) -> Problem | None:
        return next((found for check in self.states if (found := check(self.subject, world))), None)

    def __str__(self) -> str:
        return f"{self.name} ({self.title}): {self.statement}"


class LawViolation(CogstepError, AssertionError):  # noqa: N818 - it is a finding about an engine, as in a test
    """An engine breaks a law.

    Attributes:
        law: the law.
        problem: the problem, in a sentence.
        story: the run that shows it. ``story.inputs`` fed to a fresh session reproduce it.
    """

    lines = True

    def __init__(self, law: Law, problem: str, story: Trace) -> None:
        super().__init__(f"{law.name} ({law.title}) is broken: {problem}\n\n{story}\n\nThe law: {law.statement}")
        self.law: Law = law
        self.problem: str = problem
        self.story: Trace = story


class InconclusiveError(CogstepError, AssertionError):
    """A law can't be checked: the engine raises too early in every run.

    Attributes:
        law: the law.
        story: a run in which the engine raised.
    """

    lines = True

    def __init__(self, law: Law, runs: int, story: Trace) -> None:
        super().__init__(
            f"{law.name} ({law.title}) is inconclusive: step raised in each of the {runs} runs in which anything "
            f"happened, so that nothing was seen of this law\n\n{story}\n\nMend that first (L2 is the law about it); "
            "an engine with a state class of its own needs its first state: laws(engine, start=...)"
        )
        self.law: Law = law
        self.story: Trace = story


def violation_of(law: Law, problem: Problem, edges: Sequence[Edge]) -> LawViolation:
    return LawViolation(law, problem.text, trace_of((*edges, *problem.more)))

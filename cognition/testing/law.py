"""One law of the agent core, for one engine, and what is raised where it is broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import frozen

from cognition.errors import CogstepError
from cognition.inputs import Input
from cognition.testing.story import Story, story_of
from cognition.testing.subject import Found, Problem, Subject
from cognition.testing.world import Edge, World

Probe = Callable[[Subject, World, Input], Found]
"""Looks at a step that is about to be taken."""
EdgeCheck = Callable[[Subject, Edge], Found]
"""Looks at a step that was taken."""
StateCheck = Callable[[Subject, World], Found]
"""Looks at a situation and at what would come of it."""


class Search(Protocol):
    """Looks for a run that breaks a law: the shortest one found, or None."""

    def __call__(
        self, law: Law, *, max_examples: int, max_inputs: int, derandomize: bool, alphabet: Sequence[Input] | None
    ) -> LawViolation | None: ...


@frozen
class Law:
    """One law, for one engine."""

    name: str
    title: str
    statement: str
    subject: Subject
    search: Search
    """How ``check`` looks for a run that breaks it."""
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
            InconclusiveError: the engine raised in every run, so that nothing was seen of this law.
            ConfigError: Hypothesis is not installed.
        """
        violation = self.search(
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

    lines = True

    def __init__(self, law: Law, problem: str, story: Story) -> None:
        super().__init__(f"{law.name} ({law.title}) is broken: {problem}\n\n{story}\n\nThe law: {law.statement}")
        self.law, self.problem, self.story = law, problem, story


class InconclusiveError(CogstepError, AssertionError):
    """A law can't be checked: the engine raises before anything comes of a run.

    Attributes:
        law: the law.
        story: a run in which the engine raised.
    """

    lines = True

    def __init__(self, law: Law, runs: int, story: Story) -> None:
        super().__init__(
            f"{law.name} ({law.title}) is inconclusive: step raised in each of the {runs} runs in which anything "
            f"happened, so that nothing was seen of this law\n\n{story}\n\nMend that first (L2 is the law about it); "
            "an engine with a state class of its own needs its first state: laws(engine, start=...)"
        )
        self.law, self.story = law, story


def violation_of(law: Law, problem: Problem, edges: Sequence[Edge]) -> LawViolation:
    """The error for a problem that was found at the end of these steps."""
    return LawViolation(law, problem.text, story_of((*edges, *problem.more)))

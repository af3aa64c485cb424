"""A law of the agent core, for one engine, the report of its check, and the errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from attrs import frozen

from cognition.base.errors import CogstepError
from cognition.steps.inputs import Input
from cognition.steps.state import AgentState
from cognition.testing._engine_under_test import EngineUnderTest, Found, Problem
from cognition.testing._premises import Premise
from cognition.testing._trace import Trace, trace_of
from cognition.testing._world import Edge, World

Probe = Callable[[EngineUnderTest, World, Input], Found]
"""Checks a step before it is taken."""
EdgeCheck = Callable[[EngineUnderTest, Edge], Found]
"""Checks a step that was taken."""
StateCheck = Callable[[EngineUnderTest, World], Found]
"""Checks a situation and its possible continuations."""


Search = Callable[["Law", int, int, bool], "LawReport"]
"""Searches for a run that breaks a law, as ``Law.report`` says."""


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
    premises: tuple[Premise, ...] = ()
    """What a search must reach, so that it says anything about this law."""
    without: frozenset[str] = frozenset()
    """The parts that the engine lacks, and the laws that do not apply to it."""

    @property
    def required(self) -> tuple[Premise, ...]:
        """The premises that this engine can reach."""
        if self.name in self.without:
            return ()
        return tuple(premise for premise in self.premises if self.without.isdisjoint(premise.needs))

    def check(self, *, max_examples: int = 200, max_inputs: int = 12, derandomize: bool = True) -> LawReport:
        """Search for a run that breaks this law, as ``report`` does, and return the report of one that holds.

        Raises:
            LawViolation: with the shortest such run found, as a story.
            InconclusiveError: no run broke the law, and one of its premises was never reached. What the engine lacks
                is named by ``laws(engine, without=...)``.
            ConfigError: Hypothesis is not installed; or the engine has a part that ``without`` names.
        """
        report = self.report(max_examples=max_examples, max_inputs=max_inputs, derandomize=derandomize)
        if report.violation is not None:
            raise report.violation
        if report.status == "inconclusive":
            raise InconclusiveError(report)
        return report

    def report(self, *, max_examples: int = 200, max_inputs: int = 12, derandomize: bool = True) -> LawReport:
        """Search for a run that breaks this law: ``max_examples`` runs of up to ``max_inputs`` inputs.

        If these runs do not reach a premise of the law, further runs try to: calls of each of the configuration's
        tools, refusals, endless calls, long messages; or all short runs of the alphabet. The search is the same every
        time, unless ``derandomize`` is False. Needs Hypothesis.

        Raises:
            ConfigError: Hypothesis is not installed; or the engine has a part that ``without`` names.
        """
        return self.search(self, max_examples, max_inputs, derandomize)

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


Status = Literal["held", "broken", "inconclusive", "not applicable"]


@frozen
class LawReport:
    """What a search found out about a law."""

    law: Law
    counts: tuple[int, ...]
    """How often each of ``law.premises`` was reached, in that order."""
    violation: LawViolation | None = None
    """The shortest run found that breaks the law."""
    raised: int = 0
    """The number of runs in which the engine raised, if it raised in each in which anything happened; else 0."""
    story: Trace = Trace()
    """The first of those runs."""

    @property
    def unreached(self) -> tuple[Premise, ...]:
        """The premises that were never reached, though the engine has the parts for them."""
        reached = [premise for premise, count in zip(self.law.premises, self.counts, strict=True) if count]
        return tuple(premise for premise in self.law.required if premise not in reached)

    @property
    def status(self) -> Status:
        """``"held"`` only if every premise was reached that the engine has the parts for."""
        if self.violation is not None:
            return "broken"
        if self.raised or self.unreached:
            return "inconclusive"
        return "held" if self.law.required else "not applicable"

    def __str__(self) -> str:
        """Return a line for the law, and one for each premise with its count."""
        required = self.law.required
        lines = [f"{self.law.name} {self.law.title}: {self.status}"]
        for premise, count in zip(self.law.premises, self.counts, strict=True):
            lines.append(f"{count if count or premise in required else '-':>8}  {premise.text}")
        return "\n".join(lines)


class InconclusiveError(CogstepError, AssertionError):
    """A search says nothing about a law: it never reached what the law is about, or the engine raises too early.

    Attributes:
        law: the law.
        report: the report, with ``unreached`` premises.
        story: a run in which the engine raised; empty if it did not.
    """

    lines = True

    def __init__(self, report: LawReport) -> None:
        law = report.law
        super().__init__(f"{law.name} ({law.title}) is inconclusive: {_reason(report)}")
        self.law: Law = law
        self.report: LawReport = report
        self.story: Trace = report.story


def _reason(report: LawReport) -> str:
    law, unreached = report.law, report.unreached
    if report.raised:
        return (
            f"step raised in each of the {report.raised} runs in which anything happened, so that nothing was seen of "
            f"this law\n\n{report.story}\n\nMend that first (L2 is the law about it); "
            "an engine with a state class of its own needs its first state: laws(engine, start=...)"
        )
    missing = "".join(f"\n  - {premise.text}" for premise in unreached)
    parts = sorted({part for premise in unreached for part in premise.needs})
    words = " or ".join(map(repr, (*parts, law.name)))
    unread = ""
    if law.name in ("L4", "L5") and not isinstance(law.subject.start, AgentState):
        unread = " (This law reads nothing from a state that is not an AgentState.)"
    return (
        f"no run broke it, and no run reached this:{missing}\n\nPass the inputs that lead there, "
        "laws(engine, alphabet=[...]), or give the engine an attribute `config` with tools. If the engine can't reach "
        f"it, name the part that it lacks, or the law: laws(engine, without=[...]) with {words}.{unread}"
    )


def violation_of(law: Law, problem: Problem, edges: Sequence[Edge]) -> LawViolation:
    return LawViolation(law, problem.text, trace_of((*edges, *problem.more)))

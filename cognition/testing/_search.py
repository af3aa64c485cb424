"""The search of ``Law.check``: Hypothesis draws runs, others are made on purpose to reach the law's premises, and a
violation is reduced to the shortest story.
"""

from __future__ import annotations

import cognition.testing.needs_hypothesis  # noqa: F401  # before Hypothesis itself: it names the extra

# isort: split
from collections.abc import Iterator, Sequence
from itertools import chain

from attrs import evolve
from hypothesis import HealthCheck, Phase, Verbosity, given, settings, strategies as st

from cognition.base.ids import EffectId
from cognition.policy import Rule
from cognition.steps.inputs import Input, ModelReplied
from cognition.testing._breadth import explore_breadth
from cognition.testing._law import Law, LawReport, LawViolation, violation_of
from cognition.testing._premises import Coverage, Premise
from cognition.testing._sample_inputs import ANY
from cognition.testing._scouting import Plan, equal_calls, plans, settings as settings_of, stricter_law
from cognition.testing._situations import default_alphabet
from cognition.testing._trace import describe, trace_of
from cognition.testing._world import Edge, is_rejected, readdress, take
from cognition.testing.strategies import inputs
from cognition.values.messages import ProposedCall

NEAR = 300
"""The number of situations near the beginning that are searched for a shorter story; it takes less than a second."""


class Walk:
    """A run in progress; each step is checked against some laws."""

    def __init__(self, laws: Sequence[Law], coverage: Coverage | None = None) -> None:
        self.laws, self.world, self.edges = laws, laws[0].subject.beginning, list[Edge]()
        self.coverage = coverage
        self._look_around()

    def take(self, event: Input) -> Edge:
        """Take a step.

        Raises:
            LawViolation: the step, or the situation after it, breaks one of the laws.
        """
        problems = [(law, law.before(self.world, event)) for law in self.laws]
        edge = take(self.laws[0].subject.engine, self.world, event)
        self.edges.append(edge)
        if self.coverage is not None:
            self.coverage.see(edge)
        problems += [(law, law.step(edge)) for law in self.laws]
        for law, problem in problems:
            if problem is not None:
                raise violation_of(law, problem, self.edges)
        self.world = edge.after
        self._look_around()
        return edge

    def _look_around(self) -> None:
        for law in self.laws:
            if problem := law.state(self.world):
                raise violation_of(law, problem, self.edges)


def report_on(law: Law, max_examples: int, max_inputs: int, derandomize: bool) -> LawReport:
    """Return the report of a search: the shortest run found that breaks a law, after ``max_examples`` runs, and how
    often they reached the law's premises.

    Hypothesis finds a run, which is then reduced input by input. A search of all situations near the beginning of a
    session may find a shorter run. Premises that the runs did not reach are then looked for on purpose.
    """
    searched, tally = variants(law), Tally(law)
    for variant in searched:
        if violation := _search(variant, max(max_examples // len(searched), 1), max_inputs, derandomize, tally):
            return tally.report(_shorter(variant, violation))
    return tally.report(_scout(law, tally))


def _shorter(law: Law, violation: LawViolation) -> LawViolation:
    found, subject = shortest(law, violation), law.subject
    letters = default_alphabet(subject.config) if law.alphabet is None else law.alphabet
    near = explore_breadth(subject.engine, [law], letters, NEAR, start=subject.start).violation
    return near if near is not None and len(near.story.inputs) < len(found.story.inputs) else found


def _scout(law: Law, tally: Tally) -> LawViolation | None:
    """Look for the premises that were not reached, and return a violation if one is met on the way."""
    for variant, plan in equal_calls(law):
        if violation := _carry_out(variant, plan, tally):
            return _shorter(variant, violation)
    for variant in settings_of(law, [part for premise in tally.missing for part in premise.needs]):
        if not tally.missing:
            return None
        if law.alphabet is not None:
            found = explore_breadth(variant.subject.engine, [variant], law.alphabet, NEAR, start=law.subject.start)
            tally.coverage.add(found.reports[0].counts)
            if found.violation is not None:
                return found.violation
            continue
        for plan in plans(variant.subject):
            if not tally.missing:
                return None
            if violation := _carry_out(variant, plan, tally):
                return _shorter(variant, violation)
    return None


def _carry_out(law: Law, plan: Plan, tally: Tally) -> LawViolation | None:
    try:
        walk = Walk([law], tally.coverage)
        for event in plan.inputs(lambda: walk.world):
            if walk.take(event).error is not None:
                break
    except LawViolation as violation:
        return violation
    return None


class Tally:
    """Counts how often runs reach the premises of a law, and the runs in which the engine raised."""

    def __init__(self, law: Law) -> None:
        self.law, self.coverage = law, Coverage(law.premises, law.without)
        self.conclusive = self.raised = 0
        """Runs in which a message was accepted and the engine never raised; and runs in which it raised."""
        self.first: Sequence[Edge] = ()
        """The first run in which the engine raised."""

    @property
    def missing(self) -> tuple[Premise, ...]:
        """The premises that must be reached, and were not."""
        return self.report(None).unreached

    def count(self, edges: Sequence[Edge]) -> None:
        if any(edge.error is not None for edge in edges):
            self.raised, self.first = self.raised + 1, self.first or edges
            return
        self.conclusive += any(not is_rejected(edge.transition) for edge in edges)

    def report(self, violation: LawViolation | None) -> LawReport:
        raised = 0 if self.conclusive else self.raised
        return LawReport(self.law, tuple(self.coverage.counts), violation, raised, trace_of(self.first))


def variants(law: Law) -> list[Law]:
    """Return the law. For L5, also with the engine and one more deny rule, which must not permit more than before."""
    found = [law]
    if law.name == "L5" and law.subject.config is not None:
        for name in ("*", *(tool.name for tool in law.subject.config.tools)):
            if stricter := law.subject.stricter(Rule("deny", name)):
                found.append(stricter_law(law, stricter))
    return found


def _search(law: Law, max_examples: int, max_inputs: int, derandomize: bool, tally: Tally) -> LawViolation | None:
    found: list[LawViolation] = []

    @settings(
        max_examples=max_examples,
        derandomize=derandomize,
        database=None,  # nothing is written: the same search finds the same again
        deadline=None,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate,),  # ``shortest`` is a hundred times as fast: it knows what a run is made of
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(st.data())
    def keeps(data: st.DataObject) -> None:
        try:
            walk = Walk([law], tally.coverage)
            for _ in range(data.draw(st.integers(0, max_inputs))):
                walk.take(data.draw(inputs(walk.world, law.subject.config, law.alphabet)))
            tally.count(walk.edges)
        except LawViolation as violation:
            found.append(violation)
            raise

    try:
        keeps()
    except Exception:  # the violation, or what Hypothesis makes of an engine that does not break the law twice
        if not found:
            raise
    return found[0] if found else None


def shortest(law: Law, violation: LawViolation) -> LawViolation:
    """Remove inputs that the violation does not need, and simplify the others.

    An answer is redirected to the effect at the same place among those in flight. Each change makes the story easier to
    read, by ``_burden``, so this terminates.
    """
    letters = default_alphabet(law.subject.config) if law.alphabet is None else law.alphabet
    best, place = violation, 0
    while place < len(best.story.inputs):
        burden = _burden(best, letters)
        found = next((v for v in _simpler(law, best, place, letters) if _burden(v, letters) < burden), None)
        best, place = (best, place + 1) if found is None else (found, 0)
    return LawViolation(law, best.problem, best.story)  # without the notes and frames of the search


def _simpler(law: Law, violation: LawViolation, place: int, letters: Sequence[Input]) -> Iterator[LawViolation]:
    steps = _answered_places(violation)
    event, answers = steps[place]
    candidates = (letter for letter in (*letters, *_parts(event)) if type(letter) is type(event))
    replaced = ([(_to(event, candidate), answers)] for candidate in candidates)
    for middle in chain([[]], replaced):
        if found := _again(law, [*steps[:place], *middle, *steps[place + 1 :]]):
            yield found


def _burden(violation: LawViolation, letters: Sequence[Input]) -> tuple[int, int, float, int]:
    """Return how hard a story is to read: its length, inputs outside of the alphabet, elapsed time, its words."""
    events = [_to(None, event) for event in violation.story.inputs]
    strange = sum(event not in letters for event in events)
    return len(events), strange, sum(event.at for event in events), sum(len(describe(event)) for event in events)


def _to(event: Input | None, answer: Input) -> Input:
    """Return ``answer`` redirected to the effect that ``event`` answers, or to ``ANY``; unchanged if it is not an
    answer.
    """
    if not hasattr(answer, "effect_id"):
        return answer
    return readdress(answer, ANY if event is None else getattr(event, "effect_id", ANY))


def _parts(event: Input) -> list[Input]:
    """Return the input without delay; and a reply that calls tools also with its calls only, and with one call only."""
    at_once: Input = evolve(event, at=0.0)
    if not isinstance(event, ModelReplied) or not event.calls:
        return [at_once]
    alone = [(ProposedCall(call.name),) for call in event.calls]
    return [ModelReplied(event.effect_id, calls=calls) for calls in (*alone, event.calls)] + [at_once]


def _answered_places(violation: LawViolation) -> list[tuple[Input, int | None]]:
    """Return each input of a story with the place in flight of the effect that it answers, if any."""
    engine, world = violation.law.subject.engine, violation.law.subject.beginning
    found: list[tuple[Input, int | None]] = []
    for event in violation.story.inputs:
        effect_id = getattr(event, "effect_id", None)
        place = next((place for place, effect in enumerate(world.open) if effect.effect_id == effect_id), None)
        found.append((event, place))
        world = take(engine, world, event).after
    return found


def _again(law: Law, steps: Sequence[tuple[Input, int | None]]) -> LawViolation | None:
    try:
        walk = Walk([law])
        for event, place in steps:
            if place is not None:
                open_ = walk.world.open
                event = readdress(event, open_[place].effect_id if place < len(open_) else EffectId("0.0.0"))
            walk.take(event)
    except LawViolation as violation:
        return violation
    return None

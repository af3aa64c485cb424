"""The search of ``Law.check``: Hypothesis draws runs, and a violation is reduced to the shortest story."""

from __future__ import annotations

import cognition.testing.needs_hypothesis  # noqa: F401  # before Hypothesis itself: it names the extra

# isort: split
from collections.abc import Iterator, Sequence
from itertools import chain

from attrs import evolve
from hypothesis import HealthCheck, Phase, Verbosity, given, settings, strategies as st

from cognition.base.ids import EffectId
from cognition.policy import Rule
from cognition.steps.inputs import Input, ModelReplied, UserSpoke
from cognition.testing._breadth import explore_breadth
from cognition.testing._law import InconclusiveError, Law, LawViolation, violation_of
from cognition.testing._permission_laws import check_permitted
from cognition.testing._sample_inputs import ANY
from cognition.testing._situations import default_alphabet
from cognition.testing._trace import describe, trace_of
from cognition.testing._world import Edge, is_rejected, readdress, take
from cognition.testing.strategies import inputs
from cognition.values.messages import ProposedCall

NEAR = 300
"""The number of situations near the beginning that are searched for a shorter story; it takes less than a second."""


class Walk:
    """A run in progress; each step is checked against some laws."""

    def __init__(self, laws: Sequence[Law]) -> None:
        self.laws, self.world, self.edges = laws, laws[0].subject.beginning, list[Edge]()
        self._look_around()

    def take(self, event: Input) -> Edge:
        """Take a step.

        Raises:
            LawViolation: the step, or the situation after it, breaks one of the laws.
        """
        problems = [(law, law.before(self.world, event)) for law in self.laws]
        edge = take(self.laws[0].subject.engine, self.world, event)
        self.edges.append(edge)
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


def find_violation(law: Law, max_examples: int, max_inputs: int, derandomize: bool) -> LawViolation | None:
    """Return the shortest run found that breaks a law, or None, after ``max_examples`` runs.

    Hypothesis finds a run, which is then reduced input by input. A search of all situations near the beginning of a
    session may find a shorter run.

    Raises:
        InconclusiveError: no violation was found, and the engine raised in every run.
    """
    searched, tally = variants(law), Tally()
    for variant in searched:
        if violation := _search(variant, max(max_examples // len(searched), 1), max_inputs, derandomize, tally):
            found, subject = shortest(variant, violation), variant.subject
            letters = default_alphabet(subject.config) if law.alphabet is None else law.alphabet
            near = explore_breadth(subject.engine, [variant], letters, NEAR, start=subject.start).violation
            return near if near is not None and len(near.story.inputs) < len(found.story.inputs) else found
    if tally.raised and not tally.conclusive:
        raise InconclusiveError(law, tally.raised, trace_of(tally.first))
    return None


class Tally:
    """Counts the runs that show something about a law: a message was accepted and the engine never raised."""

    def __init__(self) -> None:
        self.conclusive = self.raised = 0
        self.first: Sequence[Edge] = ()
        """The first run in which the engine raised."""

    def count(self, edges: Sequence[Edge], alphabet: Sequence[Input] | None) -> None:
        """Count a run. If the alphabet has no user message, any accepted input counts."""
        if any(edge.error is not None for edge in edges):
            self.raised, self.first = self.raised + 1, self.first or edges
            return
        spoken = alphabet is None or any(isinstance(letter, UserSpoke) for letter in alphabet)
        begins = UserSpoke if spoken else object
        self.conclusive += any(isinstance(edge.input, begins) and not is_rejected(edge.transition) for edge in edges)


def variants(law: Law) -> list[Law]:
    """Return the law. For L5, also with the engine and one more deny rule, which must not permit more than before."""
    found = [law]
    if law.name == "L5" and law.subject.config is not None:
        for name in ("*", *(tool.name for tool in law.subject.config.tools)):
            if stricter := law.subject.stricter(Rule("deny", name)):
                by_both = (check_permitted, lambda _subject, edge: check_permitted(law.subject, edge))
                found.append(evolve(law, subject=stricter, edges=by_both))
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
            walk = Walk([law])
            for _ in range(data.draw(st.integers(0, max_inputs))):
                walk.take(data.draw(inputs(walk.world, law.subject.config, law.alphabet)))
            tally.count(walk.edges, law.alphabet)
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
    letters = default_alphabet(law.subject.config)
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

"""How ``Law.check`` searches: Hypothesis draws runs, and what it finds is cut down to the shortest story."""

from __future__ import annotations

import cognition.testing.needs_hypothesis  # noqa: F401  # before Hypothesis itself: it names the extra

# isort: split
from collections.abc import Iterator, Sequence
from itertools import chain

from attrs import evolve
from hypothesis import HealthCheck, Phase, Verbosity, given, settings, strategies as st

from cognition.ids import EffectId
from cognition.inputs import Input, ModelReplied, UserSpoke
from cognition.messages import ProposedCall
from cognition.policy import Rule
from cognition.testing.breadth import spread_out
from cognition.testing.law import InconclusiveError, Law, LawViolation, violation_of
from cognition.testing.letters import ANY
from cognition.testing.permission_laws import permitted
from cognition.testing.situations import default_alphabet
from cognition.testing.story import describe, story_of
from cognition.testing.strategies import inputs
from cognition.testing.world import Edge, addressed, is_rejected, take

NEAR = 300
"""The number of situations near the beginning that are searched for a shorter story; it takes less than a second."""


class Walk:
    """A run under way, each step of which is held to some laws."""

    def __init__(self, laws: Sequence[Law]) -> None:
        self.laws, self.world, self.edges = laws, laws[0].subject.beginning, list[Edge]()
        self._look_around()

    def take(self, event: Input) -> Edge:
        """Take a step.

        Raises:
            LawViolation: the step, or where it led, breaks one of the laws.
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
            problem = law.state(self.world)
            if problem is not None:
                raise violation_of(law, problem, self.edges)


def find_violation(
    law: Law, *, max_examples: int, max_inputs: int, derandomize: bool, alphabet: Sequence[Input] | None
) -> LawViolation | None:
    """The shortest run found that breaks a law, or None, after ``max_examples`` runs.

    Hypothesis finds; what it found is cut down input by input; and a look at all that is near the beginning of a
    session may find something shorter yet.

    Raises:
        InconclusiveError: nothing was found, and the engine raised in every run.
    """
    searched, tally = variants(law), Tally()
    for variant in searched:
        violation = _search(variant, max(max_examples // len(searched), 1), max_inputs, derandomize, alphabet, tally)
        if violation is not None:
            found = shortest(variant, violation)
            letters = default_alphabet(variant.subject.config) if alphabet is None else alphabet
            start = variant.subject.start
            near = spread_out(variant.subject.engine, [variant], letters, NEAR, start=start).violation
            return near if near is not None and len(near.story.inputs) < len(found.story.inputs) else found
    if tally.raised and not tally.told:
        raise InconclusiveError(law, tally.raised, story_of(tally.first))
    return None


class Tally:
    """How many runs say anything about a law: those in which a message was taken and the engine never raised."""

    def __init__(self) -> None:
        self.told = self.raised = 0
        self.first: Sequence[Edge] = ()
        """The first run in which the engine raised."""

    def count(self, edges: Sequence[Edge], alphabet: Sequence[Input] | None) -> None:
        """Count a run. Where an alphabet has no message of the user, any input that was taken will do."""
        if any(edge.error is not None for edge in edges):
            self.raised, self.first = self.raised + 1, self.first or edges
            return
        spoken = alphabet is None or any(isinstance(letter, UserSpoke) for letter in alphabet)
        begins = UserSpoke if spoken else object
        self.told += any(isinstance(edge.input, begins) and not is_rejected(edge.transition) for edge in edges)


def variants(law: Law) -> list[Law]:
    """The law itself; and L5 also for the engine with a deny rule more, which must permit nothing that was not."""
    found = [law]
    if law.name == "L5" and law.subject.config is not None:
        for name in ("*", *(tool.name for tool in law.subject.config.tools)):
            stricter = law.subject.stricter(Rule("deny", name))
            if stricter is not None:
                by_both = (permitted, lambda _subject, edge: permitted(law.subject, edge))
                found.append(evolve(law, subject=stricter, edges=by_both))
    return found


def _search(
    law: Law, max_examples: int, max_inputs: int, derandomize: bool, alphabet: Sequence[Input] | None, tally: Tally
) -> LawViolation | None:
    config = law.subject.config

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
                walk.take(data.draw(inputs(walk.world, config, alphabet)))
            tally.count(walk.edges, alphabet)
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
    """The violation without the inputs that it does not need, and with simple ones where they do as well.

    Answers are readdressed to the effect that then stands where the one they answered stood. Each step makes the story
    easier to read, by ``_burden``, so this comes to an end.
    """
    letters = default_alphabet(law.subject.config)
    best, place = violation, 0
    while place < len(best.story.inputs):
        burden = _burden(best, letters)
        found = next((v for v in _simpler(law, best, place, letters) if _burden(v, letters) < burden), None)
        best, place = (best, place + 1) if found is None else (found, 0)
    return LawViolation(law, best.problem, best.story)  # without the notes and frames of the search


def _simpler(law: Law, violation: LawViolation, place: int, letters: Sequence[Input]) -> Iterator[LawViolation]:
    """Violations with no input at this place, or another one of the same type."""
    steps = _answered(violation)
    event, answers = steps[place]
    candidates = (letter for letter in (*letters, *_parts(event)) if type(letter) is type(event))
    replaced = ([(_to(event, candidate), answers)] for candidate in candidates)
    for middle in chain([[]], replaced):
        found = _again(law, [*steps[:place], *middle, *steps[place + 1 :]])
        if found is not None:
            yield found


def _burden(violation: LawViolation, letters: Sequence[Input]) -> tuple[int, int, float, int]:
    """How hard a story is to read: its length, inputs that are not in the alphabet, time that passes, its words."""
    events = [_to(None, event) for event in violation.story.inputs]
    strange = sum(event not in letters for event in events)
    return len(events), strange, sum(event.at for event in events), sum(len(describe(event)) for event in events)


def _to(event: Input | None, answer: Input) -> Input:
    """The same answer to the effect that another one answers, or to any; the input itself if it answers none."""
    if not hasattr(answer, "effect_id"):
        return answer
    return addressed(answer, ANY if event is None else getattr(event, "effect_id", ANY))


def _parts(event: Input) -> list[Input]:
    """The same input at once; and a reply that calls tools without all else, and with one call only."""
    at_once: Input = evolve(event, at=0.0)
    if not isinstance(event, ModelReplied) or not event.calls:
        return [at_once]
    alone = [(ProposedCall(call.name),) for call in event.calls]
    return [ModelReplied(event.effect_id, calls=calls) for calls in (*alone, event.calls)] + [at_once]


def _answered(violation: LawViolation) -> list[tuple[Input, int | None]]:
    """Each input of a story with the place in flight of the effect that it answers, where it answers one."""
    engine, world = violation.law.subject.engine, violation.law.subject.beginning
    found: list[tuple[Input, int | None]] = []
    for event in violation.story.inputs:
        effect_id = getattr(event, "effect_id", None)
        places = [place for place, effect in enumerate(world.open) if effect.effect_id == effect_id]
        found.append((event, places[0] if places else None))
        world = take(engine, world, event).after
    return found


def _again(law: Law, steps: Sequence[tuple[Input, int | None]]) -> LawViolation | None:
    """Whether these inputs break the law too."""
    try:
        walk = Walk([law])
        for event, place in steps:
            if place is not None:
                open_ = walk.world.open
                effect_id = open_[place].effect_id if place < len(open_) else EffectId("0.0.0")
                event = addressed(event, effect_id)
            walk.take(event)
    except LawViolation as violation:
        return violation
    return None

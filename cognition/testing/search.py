"""How ``Law.check`` searches: Hypothesis draws runs, and what it finds is cut down to the shortest story."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st

from cognition.ids import EffectId
from cognition.inputs import Input
from cognition.policy import Rule
from cognition.testing.laws import Law, LawViolation, violation_of
from cognition.testing.permission_laws import permitted
from cognition.testing.strategies import inputs
from cognition.testing.world import Edge, World, addressed, take


class Walk:
    """A run under way, each step of which is held to some laws."""

    def __init__(self, laws: Sequence[Law]) -> None:
        self.laws, self.world, self.edges = laws, World(), list[Edge]()
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
    """The shortest run found that breaks a law, or None. ``max_examples`` runs for each variant of the law."""
    for variant in variants(law):
        violation = _search(variant, max_examples, max_inputs, derandomize, alphabet)
        if violation is not None:
            return violation
    return None


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
    law: Law, max_examples: int, max_inputs: int, derandomize: bool, alphabet: Sequence[Input] | None
) -> LawViolation | None:
    config = law.subject.config

    @settings(
        max_examples=max_examples,
        derandomize=derandomize,
        database=None,  # nothing is written: the same search finds the same again
        deadline=None,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(st.data())
    def keeps(data: st.DataObject) -> None:
        walk = Walk([law])
        for _ in range(data.draw(st.integers(0, max_inputs))):
            walk.take(data.draw(inputs(walk.world, config, alphabet)))

    try:
        keeps()
    except LawViolation as violation:
        return shortest(law, violation)
    return None


def shortest(law: Law, violation: LawViolation) -> LawViolation:
    """The violation without the inputs that it does not need; answers are readdressed to what they then answer."""
    best, place = violation, 0
    while place < len(best.story.inputs):
        events = best.story.inputs
        shorter = _again(law, _answered(best), (*range(place), *range(place + 1, len(events))))
        if shorter is not None and len(shorter.story.inputs) < len(events):
            best, place = shorter, 0
        else:
            place += 1
    return LawViolation(law, best.problem, best.story)  # without the notes and frames of the search


def _answered(violation: LawViolation) -> list[tuple[Input, int | None]]:
    """Each input of a story with the place in flight of the effect that it answers, where it answers one."""
    engine, world = violation.law.subject.engine, World()
    found: list[tuple[Input, int | None]] = []
    for event in violation.story.inputs:
        identity = getattr(event, "effect_id", None)
        places = [place for place, effect in enumerate(world.open) if effect.effect_id == identity]
        found.append((event, places[0] if places else None))
        world = take(engine, world, event).after
    return found


def _again(law: Law, events: list[tuple[Input, int | None]], chosen: Sequence[int]) -> LawViolation | None:
    """Whether these of the inputs break the law too."""
    try:
        walk = Walk([law])
        for number in chosen:
            event, place = events[number]
            if place is not None:
                open_ = walk.world.open
                identity = open_[place].effect_id if place < len(open_) else EffectId("0.0.0")
                event = addressed(event, identity)
            walk.take(event)
    except LawViolation as violation:
        return violation
    return None

"""The search of ``explore``: level by level, each situation once, with every step from it checked against the laws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from cognition.steps.inputs import Input, UserSpoke
from cognition.steps.transition import Transition
from cognition.testing._edge_laws import check_decisions_encoding
from cognition.testing._engine_under_test import EngineUnderTest, Problem
from cognition.testing._law import Law, LawReport, LawViolation, violation_of
from cognition.testing._moves import Move, Moves, copy_of
from cognition.testing._premises import Coverage
from cognition.testing._purity import PurityProbe
from cognition.testing._situations import situation
from cognition.testing._state_laws import check_continuation
from cognition.testing._world import AnyEngine, Edge, World, is_rejected, step_on, take

CHUNK = 64
"""Worlds expanded in one piece of work, which may go to another process."""

THE_WORLD_ITSELF = -1
"""The move of a violation that is in a situation rather than in a step."""


@frozen
class Exploration:
    """The result of a search."""

    states: int
    """Distinct situations checked against every law, together with every step from them."""
    transitions: int
    """Steps taken from them, including misplaced inputs."""
    depth: int
    """Inputs on the shortest way to the farthest of them."""
    complete: bool
    """Whether the search reached every situation that the alphabet leads to."""
    violation: LawViolation | None = None
    """The first broken law, with a shortest way to it. The search ends there."""
    raised: int = 0
    """The number of those steps that made the engine raise."""
    spoken: bool = False
    """Whether the engine accepted a user message without raising."""
    reports: tuple[LawReport, ...] = ()
    """For each law whether it held, and how often the search reached its premises; only at the end of the search."""

    @property
    def inconclusive(self) -> bool:
        """Whether the search shows nothing about the laws, because the engine raised before any turn began.

        Only L2 covers exceptions: without L2, an engine that always raises breaks no law.
        """
        return self.raised > 0 and not self.spoken and self.violation is None


@define
class Chunk:
    """The result of expanding some worlds of a level. It contains plain values, so that another process can send it."""

    worlds: int = 0
    transitions: int = 0
    steps: list[tuple[int, int, bytes]] = field(factory=list)
    """Each step to a new situation: the world's index in its level, the move, the situation."""
    raised: int = 0
    spoken: bool = False
    reached: Sequence[int] = ()
    """How often the steps reached each premise of each law."""
    broken: tuple[int, int, str] | None = None
    """A broken law: the world's index, the move or ``THE_WORLD_ITSELF``, and the law's name."""


Spread = Callable[[Callable[[range], Chunk], Sequence[range]], Iterable[Chunk]]
"""Like ``map``: applies the function to each range and returns the results in order."""


def explore_breadth(
    engine: AnyEngine,
    laws: Sequence[Law],
    alphabet: Sequence[Input],
    limit: int,
    *,
    on_progress: Callable[[Exploration], None] | None = None,
    spread: Spread = map,
    start: Any = None,
) -> Exploration:
    """Visit every situation that the alphabet leads to, as ``explore`` does, and check these laws."""
    search = _Search(EngineUnderTest.of(engine, start), laws, tuple(alphabet), limit)
    level: list[_ReachedWorld] = [_ReachedWorld(search.subject.beginning, 0)]
    search.seen.add(situation(level[0].world))
    states = transitions = depth = raised = 0
    spoken = False
    coverage = search.coverage()
    while level:
        following: list[_ReachedWorld] = []
        parts = [range(start, min(start + CHUNK, len(level))) for start in range(0, len(level), CHUNK)]
        for chunk in spread(lambda part, level=level: search.expand(level, part), parts):  # type: ignore[misc]  # bound
            states, transitions = states + chunk.worlds, transitions + chunk.transitions
            raised, spoken = raised + chunk.raised, spoken or chunk.spoken
            coverage.add(chunk.reached)
            if chunk.broken is not None:
                violation = search.violation(level, *chunk.broken)
                reports = search.reports(coverage, violation)
                return Exploration(states, transitions, depth, False, violation, raised, spoken, reports)
            following += search.take_up(level, chunk)
            if on_progress is not None:
                on_progress(Exploration(states, transitions, depth, False, None, raised, spoken))
        level, depth = following, depth + bool(following)
    reports = search.reports(coverage, None)
    return Exploration(states, transitions, depth, not search.full, None, raised, spoken, reports)


@frozen
class _ReachedWorld:
    """A world with its number among all worlds and the step that reached it first."""

    world: World
    number: int
    edge: Edge | None = None
    move: Move | None = None


def _same(one: Transition, other: Transition) -> bool:
    """Return whether two transitions are equal. Identical states, as after a rejection, are a fast path."""
    same_state = one.next_state is other.next_state or one.next_state == other.next_state
    return same_state and one.decisions == other.decisions


class _Search:
    """The state of a running exploration: the situations found, and the way to each."""

    def __init__(self, subject: EngineUnderTest, laws: Sequence[Law], alphabet: tuple[Input, ...], limit: int) -> None:
        self.engine, self.subject, self.limit = subject.engine, subject, limit
        self.tried = Moves(alphabet)
        self.laws = {law.name: law for law in laws}
        # L8 is left out of the steps: it is checked once a situation, on the step by which it was found.
        self.step_checks = [(law, check) for law in laws for check in law.edges if law.name != "L8"]
        self.totality = [(law, check) for law, check in self.step_checks if law.name == "L2"]
        self.state_checks = [(law, check) for law in laws for check in law.states if law.name != "L8"]
        self.watched: set[tuple[type[Input], str]] = set()
        self.seen: set[bytes] = set()
        self.parents: list[int] = [0]
        self.taken: list[int] = [THE_WORLD_ITSELF]
        self.full = False

    def coverage(self) -> Coverage:
        """Return counts of the premises of all laws, in order, which begin at 0."""
        laws = list(self.laws.values())
        without = laws[0].without if laws else frozenset[str]()
        return Coverage([premise for law in laws for premise in law.premises], without)

    def reports(self, coverage: Coverage, violation: LawViolation | None) -> tuple[LawReport, ...]:
        counts = iter(coverage.counts)
        return tuple(
            LawReport(
                law,
                tuple(next(counts) for _ in law.premises),
                violation if violation is not None and violation.law is law else None,
            )
            for law in self.laws.values()
        )

    def take_up(self, level: Sequence[_ReachedWorld], chunk: Chunk) -> Iterator[_ReachedWorld]:
        """Return the new situations of a chunk, with their worlds. Repeating the steps is cheaper than sending the
        worlds.
        """
        for place, move, digest in chunk.steps:
            if digest in self.seen:
                continue
            if len(self.seen) >= self.limit:
                self.full = True
                continue
            self.seen.add(digest)
            before = level[place]
            tried = self.tried(before.world)[move]
            edge = take(self.engine, before.world, tried.input)
            self.parents.append(before.number)
            self.taken.append(move)
            yield _ReachedWorld(edge.after, len(self.parents) - 1, edge, tried)

    def expand(self, level: Sequence[_ReachedWorld], part: range) -> Chunk:
        """Check the worlds of a part of a level, and every step from them, against all laws."""
        chunk, coverage = Chunk(), self.coverage()
        chunk.reached = coverage.counts
        for place in part:
            chunk.worlds += 1
            if broken := self._expand_world(chunk, level[place], place, coverage):
                chunk.broken = (place, *broken)
                return chunk
        for place in part if "L1" in self.laws and self.tried.has_changed() else ():
            if (move := self._changing(level[place].world, None)) != THE_WORLD_ITSELF:
                chunk.broken = (place, move, "L1")
                return chunk
        return chunk

    def _expand_world(
        self, chunk: Chunk, found: _ReachedWorld, place: int, coverage: Coverage
    ) -> tuple[int, str] | None:
        """Add the steps from a world to the chunk, and return the move and the name of a law that is broken."""
        world = found.world
        twin = copy_of(world.state, type(world.state))
        if name := self._find_broken_situation(found, twin):
            return THE_WORLD_ITSELF, name
        for move, tried in enumerate(self.tried(world)):
            chunk.transitions += 1
            edge = take(self.engine, world, tried.input)
            chunk.raised += edge.error is not None
            coverage.see(edge)
            spoke = type(edge.input) is UserSpoke and edge.error is None and not is_rejected(edge.transition)
            chunk.spoken = chunk.spoken or spoke
            if name := self._find_broken_step(edge):
                return move, name
            if edge.after is not world and not self.full and (digest := situation(edge.after)) not in self.seen:
                chunk.steps.append((place, move, digest))
        if twin is not None and world.state != twin and "L1" in self.laws:
            return self._changing(world, twin), "L1"
        if twin is not None and "L8" in self.laws and check_continuation(self.subject, world, twin) is not None:
            return THE_WORLD_ITSELF, "L8"
        return None

    def _find_broken_step(self, edge: Edge) -> str | None:
        """Return the law that a step breaks. Changed arguments are checked once per world."""
        if "L1" in self.laws and self._asks(edge):
            return "L1"
        rejected = edge.error is not None or is_rejected(edge.transition)
        for law, check in self.totality if rejected else self.step_checks:
            if check(self.subject, edge) is not None:
                return law.name
        if "L1" in self.laws and edge.error is None:
            return None if _same(self.engine.step(edge.before.state, edge.input), edge.transition) else "L1"
        return None

    def _asks(self, edge: Edge) -> bool:
        """Return whether a step uses outside sources; checked once for each type of input in each phase."""
        key = type(edge.input), edge.before.phase_name
        if key in self.watched:
            return False
        self.watched.add(key)
        with PurityProbe() as watch:
            take(self.engine, edge.before, edge.input)
        return watch.asked is not None

    def _find_broken_situation(self, found: _ReachedWorld, twin: Any) -> str | None:
        """Return the law that a situation breaks; ``twin`` is its state after encoding and decoding."""
        if "L8" in self.laws and (twin is None or twin != found.world.state):
            return "L8"
        for law, state_check in self.state_checks:
            if state_check(self.subject, found.world) is not None:
                return law.name
        if "L8" in self.laws and found.edge is not None and found.move is not None:
            recordable = found.move.copy is not None  # as seen when the input was made
            return None if recordable and check_decisions_encoding(self.subject, found.edge) is None else "L8"
        return None

    def _changing(self, world: World, state: Any) -> int:
        """Return the move whose step changes its arguments. Each move gets a copy of the original state."""
        for move, tried in enumerate(self.tried(world)):
            copied = None if state is None else copy_of(state, type(state))
            fresh = world if copied is None else evolve(world, state=copied)
            if self.laws["L1"].before(fresh, tried.afresh()) is not None:
                return move
        return THE_WORLD_ITSELF

    def violation(self, level: Sequence[_ReachedWorld], place: int, move: int, name: str) -> LawViolation:
        """Return the error for a violation that ``expand`` found, with its steps repeated from the beginning."""
        law, edges = self.laws[name], self._way(level[place].number)
        world = edges[-1].after if edges else self.subject.beginning
        problem: Problem | None = None
        if move == THE_WORLD_ITSELF:
            problem = law.state(world) or (law.step(edges[-1]) if edges else None)
        else:
            event = self.tried(world)[move].afresh()
            problem = law.before(world, event)
            edges.append(take(self.engine, world, event))
            problem = problem or law.step(edges[-1])
        return violation_of(law, problem or Problem("the same steps do not lead to the same again"), edges)

    def _way(self, number: int) -> list[Edge]:
        chosen: list[int] = []
        while number:
            chosen.append(self.taken[number])
            number = self.parents[number]
        edges: list[Edge] = []
        world = self.subject.beginning
        for move in reversed(chosen):
            world = step_on(self.engine, world, self.tried(world)[move].afresh(), edges)
        return edges

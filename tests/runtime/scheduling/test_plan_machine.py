"""The plan against a simple model of the cache: whatever is asked, cancelled and aborted, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from attrs import define
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.scheduling.plan import (
    BatchPiece,
    Copy,
    Cut,
    Drop,
    Limits,
    Request,
    Schedule,
    Start,
    admit,
    adopt,
    compose,
    cut,
    keep,
    take_back,
)
from runtime.scheduling.reservation import evict
from runtime.scheduling.tokens import Tokens
from tests.runtime.scheduling.model import Cells, shared

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=30)
"""Few different ones, so that prompts begin alike."""

BOUNDARIES = st.sets(st.integers(1, 40), max_size=3)


def says(tokens: list[int]) -> int:
    """A model: what comes behind these tokens."""
    return (sum(tokens) + len(tokens)) % 3


@st.composite
def all_limits(draw: st.DrawFn) -> Limits:
    sequences = draw(st.integers(1, 5))
    batch = draw(st.integers(sequences, 16))
    can_cut = draw(st.booleans())
    return Limits(
        cells=draw(st.integers(max(sequences, 40), 120)),
        sequences=sequences,
        batch=batch,
        chunk=draw(st.integers(1, batch)),
        tile=draw(st.integers(1, 8)),
        whole_tiles=draw(st.booleans()),
        copies_share=draw(st.booleans()),
        can_cut=can_cut,
        guesses=draw(st.sampled_from([6, 2, 0])) if can_cut else 0,
        worth_waiting=draw(st.integers(1, 8)),
        overtaken=draw(st.integers(0, 3)),
        charged=draw(st.sampled_from([0, 2, 256])),
    )


@define
class Oldest:
    """The oldest request of an owner that waits, since it was that."""

    request: int
    lead: int
    """How much its owner was ahead of the one whose turn it was."""
    given: Counter[int]
    """How much each owner had been given."""
    overtaken: int = 0
    """How many began before it though their owners had been given more since."""


class Planning(RuleBasedStateMachine):
    """Carries plans out in ``Cells`` and looks at every one of them."""

    @initialize(limits=all_limits())
    def begin(self, limits: Limits) -> None:
        self.limits = limits
        self.schedule = Schedule(limits)
        self.cells = Cells(copies_share=limits.copies_share)
        self.known: dict[int, list[int]] = {}
        """The tokens of each request that is not over: prompt and reply."""
        self.left: dict[int, int] = {}
        """How long the reply may still get."""
        self.sequences: dict[int, int] = {}
        """Which one each running request has."""
        self.boundaries: dict[int, tuple[int, ...]] = {}
        """Of each prompt."""
        self.passed: dict[int, int] = {}
        """How many batches of prompts each prompt was not in since it was in one, or began."""
        self.replies_waited = 0
        """Batches since replies last went on, where there are any."""
        self.submitted = 0
        self.owners: dict[int, int] = {}
        """Of all requests that there ever were."""
        self.given = Counter[int]()
        """What each owner was charged: tokens of prompts and a few of each reply beforehand, then what is more."""
        self.prepaid: dict[int, int] = {}
        """Up to which place the tokens of each request were charged when it began."""
        self.paid = Counter[int]()
        """Up to which place the tokens of each request were charged before it was last pushed out."""
        self.given_at_turn = Counter[int]()
        """How many that were when a request of it last began in its turn."""
        self.oldest: dict[int, Oldest] = {}
        """The oldest request of each owner that waits."""

    # ----------------------------------------------------------------------------------------------------- what happens

    @rule(prompt=TOKENS, reply=st.integers(1, 12), boundaries=BOUNDARIES, owner=st.integers(0, 3))
    def submit(self, prompt: list[int], reply: int, boundaries: set[int], owner: int = 0) -> None:
        """Anything is asked, by anybody."""
        prompt = prompt[: self.limits.cells - reply]
        if prompt:
            self._submit(prompt, reply, boundaries, owner)

    @rule(prompt=TOKENS, reply=st.integers(1, 12), number=st.integers(2, 9))
    def submit_many(self, prompt: list[int], reply: int, number: int) -> None:
        """One of them asks for much at once."""
        for _ in range(number):
            self.submit(prompt, reply, set(), 0)

    @rule(
        choice=st.integers(0, 9), keep=st.integers(0, 60), more=TOKENS, reply=st.integers(1, 12), boundaries=BOUNDARIES
    )
    def submit_what_goes_on(self, choice: int, keep: int, more: list[int], reply: int, boundaries: set[int]) -> None:
        """Something is asked that begins like what the cache holds: a conversation goes on, or is forked."""
        held = sorted(self.cells.sequences)
        beginning = self.cells.held(held[choice % len(held)])[:keep] if held else []
        self.submit((beginning + more)[: self.limits.cells - reply], reply, boundaries)

    def _submit(self, prompt: list[int], reply: int, boundaries: set[int], owner: int) -> None:
        self.submitted += 1
        self.owners[self.submitted] = owner
        self.known[self.submitted], self.left[self.submitted] = prompt, reply
        ends = self.boundaries[self.submitted] = tuple(sorted(end for end in boundaries if end < len(prompt)))
        self.schedule = self.schedule.submit(
            Request(self.submitted, Tokens(prompt), len(prompt) + reply - 1, ends, owner)
        )
        self._note_oldest()

    @rule(tokens=TOKENS)
    def adopt(self, tokens: list[int]) -> None:
        """A sequence comes from elsewhere: it is there afterwards, or nothing has changed."""
        room = self.limits.cells - self._promised()
        adopted = adopt(self.schedule, Tokens(tokens))
        if adopted is None:
            idle = self.cells.sequences.keys() - self.sequences.values()
            kept = {cell for one, cells in self.cells.sequences.items() if one not in idle for cell in cells}
            assert len(self.sequences) == self.limits.sequences or len(kept) + len(tokens) > room
            return
        self.schedule, sequence, changes = adopted
        for change in changes:
            assert isinstance(change, Drop)
            assert change.sequence not in self.sequences.values()
            self.cells.change(change)
        self.cells.put(sequence, tokens)

    @rule(choice=st.integers(0, 9))
    def cancel(self, choice: int) -> None:
        """A request is over before its time."""
        if self.known:
            self._end(sorted(self.known)[choice % len(self.known)])

    def _end(self, request: int) -> None:
        del self.known[request], self.left[request]
        self.passed.pop(request, None)
        self.sequences.pop(request, None)
        self.schedule = self.schedule.end(request)
        self._note_oldest()

    @rule(choice=st.integers(0, 9))
    def push_out(self, choice: int) -> None:
        """A request that runs has to wait again, with what it has said; a backend does so to replies only."""
        if not self.sequences:
            return
        request = sorted(self.sequences)[choice % len(self.sequences)]
        held = self.cells.sequences.get(self.sequences.pop(request), [])
        self.paid[request] = max(self.prepaid[request], len(held))
        self.passed.pop(request, None)
        self.schedule = evict(self.schedule, request)
        self._note_oldest()

    @rule(
        aborted=st.booleans(),
        ends=st.sets(st.integers(0, 4)),
        hopes=st.tuples(*[st.integers(0, 4)] * 5),
        wrong=st.integers(0, 5),
    )
    def step(
        self,
        aborted: bool = False,
        ends: set[int] = frozenset(),  # type: ignore[assignment]
        hopes: Sequence[int] = (),
        wrong: int = 0,
    ) -> None:
        """Plan, and carry it out; an aborted batch leaves nothing behind.

        Args:
            aborted: whether it is.
            ends: which of the replies that get a token end by it.
            hopes: how many tokens are guessed, for each request that runs.
            wrong: which of those guesses is wrong.
        """
        # When nothing runs, the one whose turn it is begins.
        idle = self.schedule.waiting and not self.schedule.running
        first = self.schedule.shares.order(self.schedule.waiting)[0].id if idle else None
        while (admitted := admit(self.schedule)) is not None:
            before = self.schedule
            self.schedule, start = admitted
            assert first in (None, start.request)
            first = None
            self._check_turn(start, before)
            self._check_start(start)
        assert first is None
        guesses = {
            request: self._guessed(self.known[request], hope, wrong)
            for request, hope in zip(self.sequences, hopes, strict=False)
        }
        batch = compose(self.schedule, guesses)
        self._check_batch(batch, guesses)
        if aborted or not batch:
            return
        self._note_turns(batch)
        for piece in batch:
            places = range(piece.start, piece.start + len(piece.tokens))
            self.given[self.owners[piece.request]] += sum(place >= self.prepaid[piece.request] for place in places)
        self.cells.evaluate(batch)
        self.schedule = self.schedule.record_batch(batch)
        self._keep()
        self._sample([piece for piece in batch if piece.last], ends)

    @rule(steps=st.integers(2, 6), hopes=st.tuples(*[st.integers(1, 4)] * 5), wrong=st.integers(0, 5))
    def go_on(self, steps: int, hopes: Sequence[int], wrong: int) -> None:
        """For a while nothing comes between, so that replies get going, and guesses with them."""
        for _ in range(steps):
            self.step(hopes=hopes, wrong=wrong)

    def _sample(self, lasts: list[BatchPiece], ends: set[int]) -> None:
        """What the model says, as far as guesses came true and one further; then the guesses that did not go."""
        sampled: dict[int, list[int]] = {}
        for piece in lasts:
            said = sampled[piece.request] = list[int]()
            for guess in (*piece.tokens[len(piece.tokens) - piece.guesses :], None):
                said.append(says([*self.known[piece.request], *said]))
                if said[-1] != guess or len(said) == self.left[piece.request]:
                    break
        self.schedule = self.schedule.record_tokens(sampled)
        for place, (request, tokens) in enumerate(sampled.items()):
            self.known[request] = [*self.known[request], *tokens]
            self.left[request] -= len(tokens)
            if place in ends or not self.left[request]:
                self._end(request)
        for change in take_back(self.schedule):
            self.cells.change(change)
            self.schedule = cut(self.schedule, change)
        assert all(self.schedule.behind(run) >= 1 for run in self.schedule.running.values())

    def _guessed(self, known: list[int], hope: int, wrong: int) -> list[int]:
        guessed = list[int]()
        for place in range(hope):
            guessed.append((says([*known, *guessed]) + (place == wrong)) % 3)
        return guessed

    def _keep(self) -> None:
        """Snapshots are taken of what stands at a boundary, and cost nobody anything but the oldest."""
        while (kept := keep(self.schedule)) is not None:
            self.schedule, changes = kept
            *drops, copy = changes
            assert isinstance(copy, Copy)
            for drop in drops:
                assert isinstance(drop, Drop)
                idle = self.cells.sequences.keys() - self.sequences.values()
                assert not self._fits_a_snapshot(copy.length)
                assert drop.sequence == min(idle, key=lambda one: (self.cells.used[one], one))
                self.cells.change(drop)
            assert not self.limits.can_cut
            (request,) = (request for request, sequence in self.sequences.items() if sequence == copy.source)
            assert copy.length in self.boundaries[request]
            assert self.cells.held(copy.source) == self.known[request][: copy.length]
            self.cells.change(copy)
            self.cells.snapshots.add(copy.target)
        if self.limits.can_cut:
            return
        snapshots = [self.cells.held(one) for one in self.cells.snapshots]
        idle = self.cells.sequences.keys() - self.sequences.values()
        oldest = min((self.cells.used[one] for one in idle), default=self.cells.batches)
        for request, sequence in self.sequences.items():
            held = self.cells.held(sequence)
            if len(held) in self.boundaries[request] and held not in snapshots:
                assert not self._fits_a_snapshot(len(held))
                # Where copies take cells, all that may be dropped for one may be too little.
                assert oldest == self.cells.batches or not self.limits.copies_share

    def _fits_a_snapshot(self, length: int) -> bool:
        """Whether there is a sequence for it, and room."""
        taken = self.cells.in_use + self._promised() + (0 if self.limits.copies_share else length)
        used = self.cells.sequences.keys() | self.sequences.values()
        return len(used) < self.limits.sequences and taken <= self.limits.cells

    @rule(choice=st.integers(0, 9))
    def lose(self, choice: int) -> None:
        """The real cache turns out to hold nothing of a sequence that is kept."""
        idle = sorted(self.cells.sequences.keys() - self.sequences.values())
        if idle:
            sequence = idle[choice % len(idle)]
            self.cells.change(Drop(sequence))
            self.schedule = self.schedule.record_loss(sequence)

    # ------------------------------------------------------------------------------------------------------- what holds

    def _note_oldest(self) -> None:
        """Who waits, and how much their owners are ahead, from when nobody of their own is before them."""
        shares, oldest = self.schedule.shares, dict[int, Oldest]()
        for request in self.schedule.waiting:
            if (owner := request.owner) not in oldest:
                noted = self.oldest.get(owner)
                if noted is None or noted.request != request.id:
                    noted = Oldest(request.id, shares.of(owner) - shares.level, Counter(self.given))
                    # Nobody is more ahead than by what they were given since it was last their turn.
                    assert 0 <= noted.lead <= self.given[owner] - self.given_at_turn[owner]
                oldest[owner] = noted
        self.oldest = oldest

    def _check_turn(self, start: Start, before: Schedule) -> None:
        """Nobody begins before somebody to whom less was given, but for a few while that one waits to share."""
        owner = self.owners[start.request]
        waits = [one.id for one in before.waiting if one.owner == owner and one.id < start.request]
        assert all(self.schedule.passed.get(one, 0) for one in waits), "one owner's come in order"
        for other, oldest in self.oldest.items():
            given = self.given[owner] - oldest.given[owner]
            own = oldest.lead + self.given[other] - oldest.given[other]
            if other != owner and (given, start.request) > (own, oldest.request):
                oldest.overtaken += 1
                assert oldest.overtaken <= self.limits.overtaken
        if before.shares.of(owner) == min(before.shares.of(one.owner) for one in before.waiting):
            self.given_at_turn[owner] = self.given[owner]
        prepaid = min(self.left[start.request] - 1, self.limits.charged)
        self.prepaid[start.request] = len(self.known[start.request]) + prepaid
        self.given[owner] += self.prepaid[start.request] - max(start.reused, self.paid[start.request])
        self._note_oldest()

    def _check_start(self, start: Start) -> None:
        """The longest beginning is reused; room is made for those only who need it, at the cost of the oldest."""
        prompt = self.known[start.request]  # a KeyError here: cancelled work has begun
        busy = set(self.sequences.values())
        best = 0
        for sequence in self.cells.sequences:
            held = self.cells.held(sequence)
            common = min(shared(held, prompt), len(prompt) - 1)
            if common == len(held) or self.limits.can_cut:
                best = max(best, common)
        assert start.reused == best

        copied = any(isinstance(change, Copy | Cut) for change in start.changes)
        taken = set() if copied or not best else {start.sequence}  # goes on where it was: nothing is lost of it
        for change in start.changes:
            if isinstance(change, Drop | Cut):
                assert not self._fits(start, best), "something was evicted that was in nobody's way"
                idle = set(self.cells.sequences) - busy - taken
                assert change.sequence == min(idle, key=lambda one: (self.cells.used[one], one))
            if isinstance(change, Cut):
                assert change == Cut(start.sequence, best)
                taken = {start.sequence}
            if isinstance(change, Copy):
                assert change.length == best
            self.cells.change(change)
        assert self.cells.held(start.sequence) == prompt[: start.reused]
        assert start.sequence not in busy
        assert 0 <= start.sequence < self.limits.sequences
        self.sequences[start.request] = start.sequence

    def _fits(self, start: Start, reused: int) -> bool:
        """Whether the request could begin as things are."""
        prompt = self.known[start.request]
        needed = len(prompt) + self.left[start.request] - 1 - reused
        numbers = set(range(self.limits.sequences)) - set(self.sequences.values())
        continued = [one for one in numbers - self.cells.snapshots if self.cells.held(one) == prompt[:reused]]
        return bool(continued) and self.cells.in_use + self._promised() + needed <= self.limits.cells

    def _promised(self) -> int:
        return sum(
            len(self.known[request]) + self.left[request] - 1 - len(self.cells.sequences.get(sequence, []))
            for request, sequence in self.sequences.items()
        )

    def _check_batch(self, batch: tuple[BatchPiece, ...], guesses: dict[int, list[int]]) -> None:
        sequences = [piece.sequence for piece in batch]
        assert len(set(sequences)) == len(sequences)
        assert {piece.request for piece in batch} <= set(self.known)
        running = {
            request: len(self.known[request]) - len(self.cells.sequences.get(one, []))
            for request, one in self.sequences.items()
        }
        replies = {request for request, behind in running.items() if behind == 1}
        prompts = 0
        for piece in batch:
            known = self.known[piece.request]
            assert piece.sequence == self.sequences[piece.request]
            assert piece.start == len(self.cells.sequences.get(piece.sequence, []))
            size = len(piece.tokens) - piece.guesses
            assert size > 0
            assert list(piece.tokens[:size]) == known[piece.start : piece.start + size]
            assert piece.last == (piece.start + size == len(known))
            if piece.guesses:
                assert list(piece.tokens[size:]) == guesses[piece.request][: piece.guesses]
                assert piece.start == len(known) - 1
                assert piece.guesses < self.left[piece.request]
            if piece.request not in replies:
                prompts += size
            if not self.limits.can_cut:
                assert not any(piece.start < end < piece.start + size for end in self.boundaries[piece.request])
        guessed = sum(piece.guesses for piece in batch)
        assert guessed <= self.limits.guesses
        assert sum(len(piece.tokens) for piece in batch) <= self.limits.batch
        over = prompts - self.limits.chunk if replies else 0
        assert over <= (0 if self.limits.whole_tiles else self.limits.tile // 2)
        assert over <= 0 or any(piece.last for piece in batch) or not self.limits.can_cut
        # All replies go on together, or prompts do; there is always somebody.
        served = {piece.request for piece in batch}
        assert served == replies or (served and not served & replies)
        assert bool(served) == bool(self.sequences)
        # A reply waits for one batch of prompts at the most; an aborted one is no batch.
        assert not replies or served == replies or self.replies_waited == 0

    def _note_turns(self, batch: tuple[BatchPiece, ...]) -> None:
        """Nobody starves: no prompt is passed over more often than there are others, and those that came since."""
        served = {piece.request for piece in batch}
        going_on = {piece.request for piece in batch if piece.start == len(self.known[piece.request]) - 1}
        self.replies_waited = 0 if going_on else self.replies_waited + 1
        if going_on:
            return
        for request, sequence in self.sequences.items():
            if request in served or len(self.known[request]) - len(self.cells.sequences.get(sequence, [])) <= 1:
                self.passed.pop(request, None)
            else:
                self.passed[request] = self.passed.get(request, 0) + 1
                assert self.passed[request] <= 2 * self.limits.sequences

    @invariant()
    def the_cache_is_what_the_schedule_says(self) -> None:
        """Sequence by sequence and cell by cell, with room for all that was promised."""
        held = {sequence: list(held.tokens) for sequence, held in self.schedule.cache.held.items()}
        assert {one for one, held in self.schedule.cache.held.items() if held.snapshot} == self.cells.snapshots
        assert held == {sequence: self.cells.held(sequence) for sequence in self.cells.sequences}
        assert self.schedule.cache.cells == self.cells.in_use
        assert self.schedule.promised_cells == self._promised()
        assert self.cells.in_use + self._promised() <= self.limits.cells
        assert set(self.schedule.running) == set(self.sequences)

    def teardown(self) -> None:
        """Left alone, every request comes to its end: each batch brings at least one token."""
        if not hasattr(self, "schedule"):
            return
        for _ in range(sum(len(known) + self.left[request] for request, known in self.known.items())):
            self.step()
        assert self.known == {}
        assert self.schedule.running == {}
        assert self.schedule.waiting == ()


TestPlanning = pytest.mark.slow(Planning.TestCase)
TestPlanning.settings = settings(max_examples=200, stateful_step_count=30)

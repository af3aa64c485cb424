"""The plan against a simple model of the cache: whatever is asked, cancelled and aborted, in any order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.scheduling.plan import Copy, Cut, Drop, Limits, Piece, Request, Schedule, Start, admit, compose
from runtime.scheduling.tokens import Tokens
from tests.runtime.scheduling.model import Cells, shared

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=30)
"""Few different ones, so that prompts begin alike."""


@st.composite
def all_limits(draw: st.DrawFn) -> Limits:
    sequences = draw(st.integers(1, 5))
    chunk = draw(st.integers(sequences, 8))
    return Limits(
        cells=draw(st.integers(max(sequences, 40), 120)),
        sequences=sequences,
        batch=draw(st.integers(chunk, 16)),
        chunk=chunk,
        can_cut=draw(st.booleans()),
        worth_waiting=draw(st.integers(1, 8)),
    )


class Planning(RuleBasedStateMachine):
    """Carries plans out in ``Cells`` and looks at every one of them."""

    @initialize(limits=all_limits())
    def begin(self, limits: Limits) -> None:
        self.limits = limits
        self.schedule = Schedule(limits)
        self.cells = Cells()
        self.known: dict[int, list[int]] = {}
        """The tokens of each request that is not over: prompt and reply."""
        self.left: dict[int, int] = {}
        """How long the reply may still get."""
        self.sequences: dict[int, int] = {}
        """Which one each running request has."""
        self.submitted = 0

    # ----------------------------------------------------------------------------------------------------- what happens

    @rule(prompt=TOKENS, reply=st.integers(1, 12))
    def submit(self, prompt: list[int], reply: int) -> None:
        """Anything is asked."""
        prompt = prompt[: self.limits.cells - reply]
        if prompt:
            self._submit(prompt, reply)

    @rule(choice=st.integers(0, 9), keep=st.integers(0, 60), more=TOKENS, reply=st.integers(1, 12))
    def submit_what_goes_on(self, choice: int, keep: int, more: list[int], reply: int) -> None:
        """Something is asked that begins like what the cache holds: a conversation goes on, or is forked."""
        held = sorted(self.cells.sequences)
        beginning = self.cells.held(held[choice % len(held)])[:keep] if held else []
        self.submit((beginning + more)[: self.limits.cells - reply], reply)

    def _submit(self, prompt: list[int], reply: int) -> None:
        self.submitted += 1
        self.known[self.submitted], self.left[self.submitted] = prompt, reply
        self.schedule = self.schedule.submitted(Request(self.submitted, Tokens(prompt), len(prompt) + reply - 1))

    @rule(choice=st.integers(0, 9))
    def cancel(self, choice: int) -> None:
        """A request is over before its time."""
        if self.known:
            self._end(sorted(self.known)[choice % len(self.known)])

    def _end(self, request: int) -> None:
        del self.known[request], self.left[request]
        self.sequences.pop(request, None)
        self.schedule = self.schedule.ended(request)

    @rule(aborted=st.booleans(), ends=st.sets(st.integers(0, 4)))
    def step(self, aborted: bool = False, ends: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        """Plan, and carry it out; an aborted batch leaves nothing behind."""
        # When nothing runs, the one that waits longest begins.
        first = self.schedule.waiting[0].id if self.schedule.waiting and not self.schedule.running else None
        while (admitted := admit(self.schedule)) is not None:
            self.schedule, start = admitted
            assert first in (None, start.request)
            first = None
            self._check_start(start)
        assert first is None
        batch = compose(self.schedule)
        self._check_batch(batch)
        if aborted or not batch:
            return
        self.cells.evaluate(batch)
        self.schedule = self.schedule.evaluated(batch)
        lasts = [piece.request for piece in batch if piece.last]
        sampled = {request: (sum(self.known[request]) + len(self.known[request])) % 3 for request in lasts}
        self.schedule = self.schedule.sampled(sampled)
        for place, (request, token) in enumerate(sampled.items()):
            self.known[request] = [*self.known[request], token]
            self.left[request] -= 1
            if place in ends or not self.left[request]:
                self._end(request)

    @rule(choice=st.integers(0, 9))
    def lose(self, choice: int) -> None:
        """The real cache turns out to hold nothing of a sequence that is kept."""
        idle = sorted(self.cells.sequences.keys() - self.sequences.values())
        if idle:
            sequence = idle[choice % len(idle)]
            del self.cells.sequences[sequence]
            self.schedule = self.schedule.lost(sequence)

    # ------------------------------------------------------------------------------------------------------- what holds

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
        continued = [one for one in numbers if self.cells.held(one) == prompt[:reused]]
        return bool(continued) and self.cells.in_use + self._promised() + needed <= self.limits.cells

    def _promised(self) -> int:
        return sum(
            len(self.known[request]) + self.left[request] - 1 - len(self.cells.sequences.get(sequence, []))
            for request, sequence in self.sequences.items()
        )

    def _check_batch(self, batch: tuple[Piece, ...]) -> None:
        sequences = [piece.sequence for piece in batch]
        assert len(set(sequences)) == len(sequences)
        assert {piece.request for piece in batch} <= set(self.known)
        replies = prompts = 0
        for piece in batch:
            known = self.known[piece.request]
            assert piece.sequence == self.sequences[piece.request]
            assert piece.start == len(self.cells.sequences.get(piece.sequence, []))
            assert piece.tokens
            assert list(piece.tokens) == known[piece.start : piece.start + len(piece.tokens)]
            assert piece.last == (piece.start + len(piece.tokens) == len(known))
            if piece.start == len(known) - 1:
                replies += 1
            else:
                prompts += len(piece.tokens)
        assert replies + prompts <= self.limits.batch
        assert not replies or prompts <= self.limits.chunk
        # Everybody who runs gets on: chunk >= sequences leaves a token for each.
        assert {piece.request for piece in batch} == set(self.sequences)

    @invariant()
    def the_cache_is_what_the_schedule_says(self) -> None:
        """Sequence by sequence and cell by cell, with room for all that was promised."""
        held = {sequence: list(held.tokens) for sequence, held in self.schedule.cache.held.items()}
        assert held == {sequence: self.cells.held(sequence) for sequence in self.cells.sequences}
        assert self.schedule.cache.cells == self.cells.in_use
        assert self.schedule.promised == self._promised()
        assert self.cells.in_use + self._promised() <= self.limits.cells
        assert set(self.schedule.running) == set(self.sequences)

    def teardown(self) -> None:
        """Left alone, every request comes to its end: each batch brings at least one token."""
        if not hasattr(self, "schedule"):
            return
        most = sum(len(known) + self.left[request] for request, known in self.known.items())
        for _ in range(most):
            self.step()
        assert self.known == {}
        assert self.schedule.running == {}
        assert self.schedule.waiting == ()


TestPlanning = pytest.mark.slow(Planning.TestCase)
TestPlanning.settings = settings(max_examples=25, stateful_step_count=30)

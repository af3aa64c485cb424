"""The content of a KV cache, as a value.

A cell stores the model's result for one token at one position. In a pool (llama.cpp with ``kv_unified``) a cell may
belong to several sequences: sharing a prefix only marks its cells for one more sequence, without a copy. So cells
cannot be counted per sequence; they are counted by *branches*:

        sequence 0   ──── branch 1, positions 0 to 99 ──────────────── 60 ────────▶
        sequence 1   ──── branch 1, its first 60 ─────┬── branch 2, 60 to 80 ──▶        copied at 60, then grown
        sequence 2   ──── branch 1, its first 60 ─────┴── branch 2, its first 10        copied from 1 at 70

A cache whose copies share nothing is counted in the same way: each copy starts a branch.

A branch is a stretch that one sequence wrote without a break. Every sequence that uses a branch uses it from its start.
So the cells in use are the sum, over all branches, of the longest use of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen

from runtime.scheduling.tokens import Tokens


@frozen
class Branch:
    """How far a sequence uses a branch."""

    id: int
    stop: int
    """The position after the last token."""


@frozen
class CachedSequence:
    """The content of one sequence."""

    tokens: Tokens
    branches: tuple[Branch, ...]
    """In order; the first starts at position 0, each other where its predecessor stops."""
    writes: bool
    """Whether the sequence owns its last branch and is at its end, so that new tokens extend that branch."""
    used: int
    """When it was last extended, in batches; for a snapshot, when it was last copied from."""
    snapshot: bool = False
    """Whether it is a snapshot, so that other sequences can start from it."""


@frozen
class Cache:
    """All sequences that are not empty."""

    held: Mapping[int, CachedSequence] = field(factory=dict)
    clock: int = 0
    """Batches evaluated so far."""
    branches: int = 0

    @property
    def cells(self) -> int:
        """The number of cells in use."""
        most: dict[int, int] = {}
        for held in self.held.values():
            start = 0
            for branch in held.branches:
                most[branch.id] = max(most.get(branch.id, 0), branch.stop - start)
                start = branch.stop
        return sum(most.values())

    def length(self, sequence: int) -> int:
        """Return the number of tokens in a sequence."""
        held = self.held.get(sequence)
        return 0 if held is None else len(held.tokens)

    def extend(self, additions: Mapping[int, Sequence[int]]) -> Cache:
        """Return the cache after a batch with these tokens at the ends of these sequences."""
        after, branches, clock = dict(self.held), self.branches, self.clock + 1
        for sequence, tokens in additions.items():
            held = after.get(sequence)
            longer = Tokens(tokens) if held is None else held.tokens.extend(tokens)
            old = () if held is None else held.branches
            if held is not None and held.writes:
                new = (*old[:-1], Branch(old[-1].id, len(longer)))
            else:
                branches += 1
                new = (*old, Branch(branches, len(longer)))
            after[sequence] = CachedSequence(longer, new, True, clock)
        return Cache(after, clock, branches)

    def copy(self, source: int, target: int, length: int, *, snapshot: bool = False, shares: bool = True) -> Cache:
        """Return the cache with the first ``length`` tokens of one sequence copied to another, empty sequence.

        The copy uses the same cells if it shares them, else its own. The source does not count as used, unless it is a
        snapshot: the shared part remains in the copy, and the rest was not needed. A snapshot exists to be copied.
        """
        if target in self.held:
            raise ValueError(f"sequence {target} is not empty")
        held = self.held[source]
        branches = _cut_branches(held.branches, length) if shares else (Branch(self.branches + 1, length),)
        copy = CachedSequence(held.tokens.cut(length), branches, not shares, self.clock, snapshot)
        touched = {source: evolve(held, used=self.clock)} if held.snapshot else {}
        return Cache({**self.held, **touched, target: copy}, self.clock, self.branches + (not shares))

    def cut(self, sequence: int, length: int) -> Cache:
        """Return the cache with only the first ``length`` tokens of a sequence."""
        held = self.held[sequence]
        if length == len(held.tokens):
            return self
        if length == 0:
            return self.drop(sequence)
        branches = _cut_branches(held.branches, length)
        # It can go on where it is unless that is another's branch, or another holds more of its own.
        own = held.writes and len(branches) == len(held.branches) and not self._beyond(sequence, branches[-1])
        shorter = CachedSequence(held.tokens.cut(length), branches, own, held.used)
        return evolve(self, held={**self.held, sequence: shorter})

    def _beyond(self, sequence: int, branch: Branch) -> bool:
        return any(
            other != sequence and one.id == branch.id and one.stop > branch.stop
            for other, held in self.held.items()
            for one in held.branches
        )

    def adopt(self, sequence: int, tokens: Tokens) -> Cache:
        """Return the cache with a sequence from elsewhere, such as a file."""
        if sequence in self.held:
            raise ValueError(f"sequence {sequence} is not empty")
        held = CachedSequence(tokens, (Branch(self.branches + 1, len(tokens)),), True, self.clock)
        return Cache({**self.held, sequence: held}, self.clock, self.branches + 1)

    def drop(self, sequence: int) -> Cache:
        """Return the cache without a sequence."""
        return evolve(self, held={other: held for other, held in self.held.items() if other != sequence})


def _cut_branches(branches: tuple[Branch, ...], length: int) -> tuple[Branch, ...]:
    starts = (0, *(one.stop for one in branches))
    kept = (one for start, one in zip(starts, branches, strict=False) if start < length)
    return tuple(Branch(one.id, min(one.stop, length)) for one in kept)

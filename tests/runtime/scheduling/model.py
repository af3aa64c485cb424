"""A KV cache of a few lines, which only knows cells: what the plan's accounting is held against."""

from __future__ import annotations

from itertools import count

from runtime.scheduling.plan import BatchPiece, Change, Copy, Cut, Drop


class Cells:
    """Sequences of numbered cells; a copy shares them or has its own, and a cell that nobody holds is free."""

    def __init__(self, *, copies_share: bool = True) -> None:
        self.copies_share = copies_share
        self.sequences: dict[int, list[int]] = {}
        self.tokens: dict[int, int] = {}
        """What each cell ever used was computed for."""
        self.used: dict[int, int] = {}
        """In which batch a sequence was last extended, or copied from if it is a snapshot."""
        self.snapshots: set[int] = set()
        self._numbers = count()
        self._batches = 0

    @property
    def in_use(self) -> int:
        return len({cell for cells in self.sequences.values() for cell in cells})

    def held(self, sequence: int) -> list[int]:
        return [self.tokens[cell] for cell in self.sequences.get(sequence, [])]

    def change(self, change: Change) -> None:
        match change:
            case Drop(sequence):
                del self.sequences[sequence]
                self.snapshots.discard(sequence)
            case Cut(sequence, length):
                assert 0 < length < len(self.sequences[sequence])
                del self.sequences[sequence][length:]
            case Copy(source, target, length):
                assert target not in self.sequences
                assert 0 < length <= len(self.sequences[source])
                if self.copies_share:
                    self.sequences[target], self.used[target] = self.sequences[source][:length], self._batches
                else:
                    self.put(target, self.held(source)[:length])
                if source in self.snapshots:
                    self.used[source] = self._batches

    def put(self, sequence: int, tokens: list[int]) -> None:
        """Fill a sequence from elsewhere."""
        assert sequence not in self.sequences
        cells = [next(self._numbers) for _ in tokens]
        self.tokens.update(zip(cells, tokens, strict=True))
        self.sequences[sequence], self.used[sequence] = cells, self._batches

    @property
    def batches(self) -> int:
        """Evaluated so far."""
        return self._batches

    def evaluate(self, batch: tuple[BatchPiece, ...]) -> None:
        self._batches += 1
        for piece in batch:
            cells = self.sequences.setdefault(piece.sequence, [])
            assert piece.start == len(cells)
            for token in piece.tokens:
                cell = next(self._numbers)
                self.tokens[cell] = token
                cells.append(cell)
            self.used[piece.sequence] = self._batches
            self.snapshots.discard(piece.sequence)


def shared(a: list[int], b: list[int]) -> int:
    """The length of the common beginning, the slow way."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

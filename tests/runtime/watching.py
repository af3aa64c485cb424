"""Looking at every batch of a backend, also at those of which ``append_tokens`` is given the tokens only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve

from runtime.scheduling.plan import BatchPiece

Batch = tuple[BatchPiece, ...]
Look = Callable[[Batch, Callable[[], bool]], bool]
"""Is given a batch and what evaluates it, and answers in its place."""


def watch(backend: Any, look: Look, patch: pytest.MonkeyPatch) -> None:
    """Have all batches pass by ``look`` until the patch is undone."""
    evaluate, append_tokens = backend.evaluate, backend.append_tokens
    last: Batch = ()

    def evaluated(batch: Sequence[BatchPiece]) -> bool:
        nonlocal last
        last = tuple(batch)
        return look(last, lambda: bool(evaluate(batch)))

    def gone_on(tokens: Sequence[int]) -> bool:
        nonlocal last
        last = following(last, tokens)
        return look(last, lambda: bool(append_tokens(tokens)))

    patch.setattr(backend, "evaluate", evaluated)
    patch.setattr(backend, "append_tokens", gone_on)


def following(batch: Batch, tokens: Sequence[int]) -> Batch:
    """What ``append_tokens`` evaluates behind a batch."""
    return tuple(
        evolve(piece, start=piece.start + 1, tokens=(token,)) for piece, token in zip(batch, tokens, strict=True)
    )

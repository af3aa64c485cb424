"""The sequences in MLX's cache: each alone in its own arrays, or as a row of the decoding batch.

::

    sequence 3   ── alone ──▶ one cache object per layer, from mlx-lm's ``make_prompt_cache``; prompts continue in it
    sequence 0 ─┐
    sequence 5 ─┼── rows ───▶ one batch cache per layer, from mlx-lm's ``merge`` of those; replies continue in it
    sequence 1 ─┘

The rows of a batch end at the same place, so shorter ones have masked padding on their left. A sequence joins the batch
with the first token of a reply and stays until the reply ends: only then does anything have to be copied.

Nothing is shared: a copy has its own arrays. A cache's arrays keep their old length, so a copy that shared them would
keep more memory alive than it needs. Appending to either would copy them whole.
"""

from __future__ import annotations

import copy
import importlib
import io
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

Layers = list[Any]

STEP = 256
"""mlx-lm's caches grow by this many tokens."""


class MlxSequences:
    """The content of a model's cache, by sequence number.

    Args:
        model: one of mlx-lm's.
        context: the maximum length of a sequence, in tokens.
    """

    def __init__(self, model: Any, context: int) -> None:
        self._model = model
        self._library: Any = importlib.import_module("mlx_lm.models.cache")
        self._alone: dict[int, Layers] = {}
        self._batch: Layers = []
        self._rows: list[int | None] = []
        """The sequence in each row of the batch; None after a sequence has left."""
        self.held: dict[int, int] = {}
        """The number of tokens in each sequence; code that appends updates it."""
        fresh = self._library.make_prompt_cache(model)
        self.can_cut = all(_is_cuttable(part, context) for part in self._parts(fresh))
        """Whether a sequence can be cut at any length. A recurrent state exists only for the last token, and a window
        shorter than the context forgets.
        """
        self.can_batch = all(hasattr(part, "merge") for part in self._parts(fresh))
        """Whether several sequences can share a batch; mlx-lm has no batches for some kinds of caches."""

    def sizes(self) -> tuple[int, int]:
        """Return the bytes per token, and per sequence in addition. Evaluates nothing."""
        sizes = []
        for tokens in (STEP, 2 * STEP):
            layers = self._library.make_prompt_cache(self._model)
            self._model(mx.zeros((1, tokens), mx.int32), cache=layers)  # lazy: arrays with shapes, and nothing in them
            leaves: list[tuple[str, Any]] = tree_flatten([layer.state for layer in layers])  # type: ignore[assignment]  # a dict only if asked for
            sizes.append(sum(leaf.nbytes for _, leaf in leaves if isinstance(leaf, mx.array)))
        token = (sizes[1] - sizes[0]) // STEP
        return token, sizes[0] - STEP * token

    def single(self, sequence: int) -> Layers:
        """Return the cache of a sequence, to append to; the sequence leaves the batch."""
        if sequence in self._rows:
            self._leave([sequence])
        if sequence not in self._alone:
            self._alone[sequence] = self._library.make_prompt_cache(self._model)
        return self._alone[sequence]

    def batch(self, sequences: Sequence[int]) -> tuple[Layers, list[int]]:
        """Return the joint cache of these sequences, to append the same number of tokens to each.

        Several sequences need ``can_batch``.

        Returns:
            The cache, and the sequence of each of its rows.
        """
        if len(sequences) == 1:  # no padding, no mask: as fast as mlx-lm with one stream, and the same numbers
            return self.single(sequences[0]), list(sequences)
        self._leave([row for row in self._rows if row is not None and row not in sequences])
        keep = [place for place, row in enumerate(self._rows) if row is not None]
        if len(keep) < len(self._rows):
            for layer in self._batch:
                layer.filter(keep)
            self._rows = [self._rows[place] for place in keep]
        joining = [sequence for sequence in sequences if sequence not in self._rows]
        if joining:
            own = [self.single(sequence) for sequence in joining]
            joined = [type(layers[0]).merge(layers) for layers in zip(*own, strict=True)]
            if self._batch:
                for layer, more in zip(self._batch, joined, strict=True):
                    layer.extend(more)
            else:
                self._batch = joined
            self._rows += joining
            for sequence in joining:
                del self._alone[sequence]
        return self._batch, [row for row in self._rows if row is not None]

    def drop(self, sequence: int) -> None:
        """Empty a sequence."""
        self._alone.pop(sequence, None)
        self.held.pop(sequence, None)
        self._forget([sequence])

    def cut(self, sequence: int, length: int) -> bool:
        """Keep the first ``length`` tokens of a sequence. Returns False, with the sequence emptied, if that is
        impossible.
        """
        more = self.held[sequence] - length
        if more and not self.can_cut:
            self.drop(sequence)
            return False
        self._alone[sequence] = self._shorten(self.single(sequence), more)
        self.held[sequence] = length
        return True

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` tokens of a sequence into another, empty sequence."""
        self._alone[target] = self._copy_layers(source, length)
        self.held[target] = length

    def state(self, sequence: int, length: int) -> bytes:
        """Return the first ``length`` tokens of a sequence in mlx-lm's format of prompt caches."""
        stream = io.BytesIO()
        self._library.save_prompt_cache(stream, self._copy_layers(sequence, length))
        return stream.getvalue()

    def restore(self, sequence: int, length: int, state: memoryview) -> None:
        """Fill an empty sequence from a saved state.

        Raises:
            ValueError: it is not a state of this model, or not of ``length`` tokens.
        """
        # mlx-lm reads caches from files only, which it knows by their names.
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "state.safetensors"
            file.write_bytes(state)
            layers = self._library.load_prompt_cache(str(file))
            mx.eval([layer.state for layer in layers])
        fresh = self._library.make_prompt_cache(self._model)
        whole = all(getattr(part, "offset", length) == length for part in self._parts(layers))
        if not whole or [*map(type, layers)] != [*map(type, fresh)]:
            raise ValueError(f"this is no cache of {length} tokens of this model")
        self._alone[sequence] = layers
        self.held[sequence] = length

    def clear(self) -> None:
        """Empty all sequences."""
        self._alone.clear()
        self.held.clear()
        self._batch, self._rows = [], []

    def _leave(self, sequences: Sequence[int]) -> None:
        for sequence in sequences:
            self._alone[sequence] = self._extract(self._rows.index(sequence))
        # At once: what is lazy keeps the whole batch alive, which then can't be written to in place.
        mx.eval([layer.state for sequence in sequences for layer in self._alone[sequence]])
        self._forget(sequences)

    def _forget(self, sequences: Sequence[int]) -> None:
        self._rows = [None if row in sequences else row for row in self._rows]
        if all(row is None for row in self._rows):
            self._batch, self._rows = [], []

    def _extract(self, row: int) -> Layers:
        return [layer.extract(row) for layer in self._batch]

    def _copy_layers(self, sequence: int, length: int) -> Layers:
        if sequence in self._rows:
            layers = self._extract(self._rows.index(sequence))
        else:
            layers = copy.deepcopy(self._alone[sequence])  # of the objects: arrays are shared until one is written to
        return self._shorten(layers, self.held[sequence] - length)

    def _parts(self, layers: Sequence[Any]) -> Iterator[Any]:
        """Yield the caches of these layers; a layer may have several."""
        for layer in layers:
            yield from self._parts(layer.caches) if isinstance(layer, self._library.CacheList) else (layer,)

    def _shorten(self, layers: Layers, by: int) -> Layers:
        """Return the layers without the last tokens, in arrays with room only for the rest."""
        if by:
            self._library.trim_prompt_cache(layers, by)
        if self.can_batch:
            layers = [type(layer).merge([layer]).extract(0) for layer in layers]
        mx.eval([layer.state for layer in layers])
        return layers


def _is_cuttable(part: Any, context: int) -> bool:
    window = getattr(part, "max_size", None) or getattr(part, "chunk_size", None) or context
    return bool(part.is_trimmable()) and window >= context

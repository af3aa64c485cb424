"""Reads the header of a GGUF file without llama.cpp, so that a template can be shown on machines without a backend.

The layout, all numbers little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)::

    "GGUF"  version (4 bytes)  number of tensors (8)  number of pairs (8)
    then each pair: key (text)  type of the value (4)  value
    then each tensor: name (text)  number of dimensions (4)  each dimension (8)  type of its numbers (4)  offset (8)
    a text: its length (8), its bytes; an array: type of its items (4), their number (8), the items
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Collection
from math import isfinite
from pathlib import Path
from typing import Any

from cognition.base.checking import show
from runtime.errors import ModelFileError
from runtime.files import open_regular

TEXT, ARRAY = 8, 9
NUMBERS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip

HEAD = struct.Struct("<4sIQQ")
LENGTH = struct.Struct("<Q")
KIND = struct.Struct("<I")

DEEPEST = 8
"""Maximum depth of nested arrays; the format allows them, but no known writer uses them."""


LONGEST = 1 << 26
"""Maximum bytes of a header, 64 MiB: tokens and merges of the largest vocabularies take about 16 MiB."""

MOST_KEYS = 1 << 14
"""Maximum keys of a header; models have about fifty."""

MOST_VALUES = 1 << 21
"""Maximum values of a header, including items of text lists: real files have about 800,000. A sparse file may claim any
number.
"""

LONGEST_TEXT = 1 << 24
"""Maximum bytes of a text to read: a chat template has a few thousand."""

MOST_TENSORS = 1 << 20
MOST_SIZES = 4
"""``GGML_MAX_DIMS`` of ggml."""

VECTORS = (0, 24, 25, 26, 27, 28)
"""Types of one-dimensional tensors: F32, and whole numbers."""

MOST_LAYERS = 512
"""``LLAMA_MAX_LAYERS`` of llama.cpp, which aborts the process beyond it."""

MOST = 2**31 - 1
"""Maximum of numbers that llama.cpp counts in 32 bits."""


TOKENS = "tokenizer.ggml.tokens"


def check_gguf(path: Path) -> None:
    """Reject headers that make llama.cpp abort the process instead of refusing the file.

    llama.cpp itself refuses other defects, such as tensors beyond the end of the file.

    Raises:
        ModelFileError: the header is such a header.
        OSError: the file cannot be read.
    """
    head = _head(path, None)
    kind = head.get("general.architecture")

    def bad(key: str, what: str) -> ModelFileError:
        return ModelFileError(
            f"{path} says {show(head[key])} of {key}, which must be {what}; fetch it again", spec=str(path)
        )

    for key, value in head.items():
        if isinstance(value, float) and not (isfinite(value) and (value >= 0 or not key.endswith("epsilon"))):
            raise bad(key, "a finite number, and of an epsilon none below zero")
    for name, most in (("block_count", MOST_LAYERS), ("context_length", MOST), ("embedding_length", MOST)):
        key = f"{kind}.{name}"
        if key in head and not (type(head[key]) is int and 0 < head[key] <= most):
            raise bad(key, f"a whole number from 1 to {most}")
    turned = f"{kind}.rope.dimension_count"
    if turned in head:
        heads = head.get(f"{kind}.attention.head_count")
        width, embedding = head.get(f"{kind}.attention.key_length"), head.get(f"{kind}.embedding_length")
        if width is None and type(heads) is int and heads > 0 and type(embedding) is int:
            width = embedding // heads
        most = width if type(width) is int else MOST
        if not (type(head[turned]) is int and 0 < head[turned] <= most and head[turned] % 2 == 0):
            raise bad(turned, f"an even number from 2 to {most}")


def read_gguf_header(path: Path, wanted: Collection[str]) -> dict[str, Any]:
    """Return the values of these keys in a GGUF file: numbers, booleans, texts, lists.

    Raises:
        ModelFileError: the file is not a GGUF file, is truncated, or exceeds a limit.
        OSError: it cannot be read.
    """
    return _head(path, wanted)


def _head(path: Path, wanted: Collection[str] | None) -> dict[str, Any]:
    """Read the pairs. With None, check vocabulary and tensors, and read all keys without the content of lists."""
    with open_regular(path) as stream:
        try:
            length = min(os.fstat(stream.fileno()).st_size, LONGEST)
            view = mmap.mmap(stream.fileno(), length, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file has nothing to map
            raise ModelFileError(f"{path} is empty; fetch it again", spec=str(path)) from None
        with view:
            try:
                return _pairs(view, wanted)
            except _UnusableError as error:
                raise ModelFileError(f"{path} can't be loaded: {error}", spec=str(path)) from error
            except (struct.error, IndexError, OverflowError) as error:
                why = f" ({error})" if isinstance(error, _DamageError) else ""
                raise ModelFileError(
                    f"{path} is no GGUF file, or is cut short{why}; fetch it again", spec=str(path)
                ) from error


class _DamageError(IndexError):
    """What is wrong with a file that no writer of GGUF files writes."""


class _UnusableError(Exception):
    """Why llama.cpp can't load a whole file."""


def _check_vectors(walk: _ValueReader, count: int) -> None:
    """Check the types of one-dimensional tensors (biases, scales): llama.cpp always reads them as 32-bit numbers."""
    if count > MOST_TENSORS:
        raise _DamageError("no file has so many tensors")
    for _ in range(count):
        name, sizes = walk.text(), walk.number(KIND)
        if sizes > MOST_SIZES:
            raise _DamageError("no tensor has so many sizes")
        for _ in range(sizes):
            walk.number(LENGTH)
        kind = walk.number(KIND)
        walk.number(LENGTH)
        if sizes == 1 and kind not in VECTORS:
            raise _DamageError(f"the vector {show(name)} has another type than any has")


def _pairs(view: mmap.mmap, wanted: Collection[str] | None) -> dict[str, Any]:
    magic, _version, tensors, count = HEAD.unpack_from(view, 0)
    if magic != b"GGUF" or count > MOST_KEYS:
        raise IndexError("no GGUF file")
    walk = _ValueReader(view)
    found: dict[str, Any] = {}
    for _ in range(count):
        key, kind = walk.text(), walk.number(KIND)
        if wanted is None:
            if key == TOKENS and kind == ARRAY:
                walk.check_tokens()
            found[key] = walk.value(kind, keep=kind != ARRAY)
        elif key in wanted:
            found[key] = walk.value(kind, keep=True)
        else:
            walk.value(kind, keep=False)
    if wanted is None:
        _check_vectors(walk, tensors)
    return found


class _ValueReader:
    """Reads consecutive values."""

    def __init__(self, view: mmap.mmap) -> None:
        self._view = view
        self._at = HEAD.size
        self._values = 0

    def number(self, reader: struct.Struct) -> Any:
        (value,) = reader.unpack_from(self._view, self._at)
        self._at += reader.size
        return value

    def value(self, kind: int, *, keep: bool, depth: int = 0) -> Any:
        """Return the next value; without ``keep``, large values are skipped and returned as None."""
        if kind in NUMBERS:
            return self.number(struct.Struct(NUMBERS[kind]))
        if kind == TEXT:
            return self.text() if keep else self._pass(self.number(LENGTH))
        if kind != ARRAY or depth > DEEPEST:
            raise _DamageError(f"there is no type {kind}")
        inner, count = self.number(KIND), self.number(LENGTH)
        if inner in NUMBERS and not keep:
            return self._pass(count * struct.calcsize(NUMBERS[inner]))
        self._values += count
        if self._values > MOST_VALUES:
            raise _DamageError("there are more values than any model has")
        items = [self.value(inner, keep=keep, depth=depth + 1) for _ in range(count)]
        return items if keep else None

    def check_tokens(self) -> None:
        """Check that the next list contains no token twice, without advancing.

        llama.cpp aborts on duplicates. It reads each token up to its first NUL, and names empty tokens itself.
        """
        start = self._at
        kind, count = self.number(KIND), self.number(LENGTH)
        if kind != TEXT or count > MOST_VALUES:
            raise _DamageError("the vocabulary is no list of texts")
        known = set[bytes]()
        for number in range(count):
            token = self.raw().partition(b"\0")[0] or b"[EMPTY_%d]" % number
            if token in known:
                twice = f"the token {show(token.decode('utf-8', 'replace'))} is in its vocabulary twice"
                raise _UnusableError(f"{twice}, and llama.cpp refuses that; use another file of the model")
            known.add(token)
        self._at = start

    def text(self) -> str:
        return self.raw().decode("utf-8", "replace")

    def raw(self) -> bytes:
        length, start = self.number(LENGTH), self._at
        if length > LONGEST_TEXT:
            raise _DamageError("no text is so long")
        self._pass(length)
        return self._view[start : self._at]

    def _pass(self, size: int) -> None:
        self._at += size
        if self._at > len(self._view):
            raise _DamageError("a value goes beyond the end of the file")

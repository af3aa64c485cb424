"""What the head of a GGUF file says, read without llama.cpp: so a template can be looked at where no model can run.

The layout, all numbers little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)::

    "GGUF"  version (4 bytes)  number of tensors (8)  number of pairs (8)
    then each pair: key (text)  type of the value (4)  value
    a text: its length (8), its bytes; an array: type of its items (4), how many (8), the items
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from runtime.errors import ModelFileError
from runtime.files import open_regular

TEXT, ARRAY = 8, 9
NUMBERS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
"""How ``struct`` reads each type of number."""

HEAD = struct.Struct("<4sIQQ")
LENGTH = struct.Struct("<Q")
KIND = struct.Struct("<I")

LONGEST = 1 << 26
"""Bytes of a header, 64 MiB: the tokens and merges of the largest vocabularies have some 16 MiB."""

MOST_KEYS = 1 << 14
"""Keys of a header; models have some fifty."""

MOST_VALUES = 1 << 21
"""Values of a header, items of lists of texts included: those have some 800,000."""

DEEPEST = 8
"""Arrays within arrays; the format allows them, and nobody writes any."""


def read_gguf_header(path: Path, wanted: Collection[str]) -> dict[str, Any]:
    """The values of those of these keys that a GGUF file has: numbers, truth values, texts, lists of them.

    Raises:
        ModelFileError: the file is no GGUF file, or is cut short.
        OSError: it can't be read.
    """
    with open_regular(path) as stream:
        try:
            length = min(os.fstat(stream.fileno()).st_size, LONGEST)
            view = mmap.mmap(stream.fileno(), length, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file has nothing to map
            raise ModelFileError(f"{path} is empty; fetch it again", spec=str(path)) from None
        with view:
            try:
                return _pairs(view, wanted, iter(range(MOST_VALUES)))
            except (struct.error, IndexError) as error:
                raise ModelFileError(
                    f"{path} is no GGUF file, or is cut short; fetch it again", spec=str(path)
                ) from error


def _pairs(view: mmap.mmap, wanted: Collection[str], left: Iterator[int]) -> dict[str, Any]:
    magic, _version, _tensors, count = HEAD.unpack_from(view, 0)
    if magic != b"GGUF":
        raise IndexError("no GGUF file")
    if count > MOST_KEYS:
        raise IndexError("there are more keys than any model has")
    found: dict[str, Any] = {}
    at = HEAD.size
    for _ in range(count):
        key, at = _text(view, at)
        (kind,) = KIND.unpack_from(view, at)
        value, at = _value(view, at + KIND.size, kind, left, keep=key in wanted)
        if key in wanted:
            found[key] = value
    return found


def _value(view: mmap.mmap, at: int, kind: int, left: Iterator[int], *, keep: bool, depth: int = 0) -> tuple[Any, int]:
    """A value and the place behind it; with ``keep`` off, large ones are passed over and given as None.

    ``left`` has as many items as there may be values still: a file with holes may say that it has any number of them.
    """
    if next(left, None) is None:
        raise IndexError("there are more values than any model has")
    if kind in NUMBERS:
        reader = struct.Struct(NUMBERS[kind])
        return reader.unpack_from(view, at)[0], at + reader.size
    if kind == TEXT:
        return _text(view, at) if keep else (None, _behind(view, at))
    if kind != ARRAY or depth > DEEPEST:
        raise IndexError(f"there is no type {kind}")
    (inner,) = KIND.unpack_from(view, at)
    (count,) = LENGTH.unpack_from(view, at + KIND.size)
    at += KIND.size + LENGTH.size
    if inner in NUMBERS and not keep:
        return None, _within(view, at + count * struct.calcsize(NUMBERS[inner]))
    items: list[Any] = []
    for _ in range(count):
        item, at = _value(view, at, inner, left, keep=keep, depth=depth + 1)
        if keep:
            items.append(item)
    return items, at


def _behind(view: mmap.mmap, at: int) -> int:
    (size,) = LENGTH.unpack_from(view, at)
    return _within(view, at + LENGTH.size + int(size))


def _within(view: mmap.mmap, place: int) -> int:
    if place > len(view):
        raise IndexError("a value goes beyond the end of the file")
    return place


def _text(view: mmap.mmap, at: int) -> tuple[str, int]:
    end = _behind(view, at)
    return view[at + LENGTH.size : end].decode("utf-8", "replace"), end

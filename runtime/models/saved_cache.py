"""What a cache holds of one prompt, in a file: so that a session that goes on in another process doesn't pay again.

::

    "cogcache"  length of the header (8 bytes)  header (JSON)  tokens (4 bytes each)  state  BLAKE2b of that (32 bytes)

Numbers are little-endian. The header says how many tokens there are and what the state depends on: model, adapters,
options, versions. A file is written beside its place and moved there, for its user alone: a state holds the
conversation that it was made of.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from runtime.errors import SavedCacheError
from runtime.files import open_regular, read_regular, replace_private

MAGIC = b"cogcache"
FORMAT = 1
LENGTH = struct.Struct("<Q")
DIGEST = 32
"""Bytes of the hash."""

LONGEST = 1 << 36
"""Bytes of a file, 64 GiB: 128k tokens of the largest models have about as much."""

BLOCK = 16 * 1024
"""Bytes that ``fingerprint`` reads at each of its places."""


@frozen
class Saved:
    """A sequence's beginning."""

    tokens: tuple[int, ...]
    state: memoryview
    """In the backend's own format."""
    identity: Mapping[str, str]
    """What it depends on, each part by its name."""


def write(saved: Saved, path: Path) -> None:
    """Put it into a file, in the place of one that may be there.

    Raises:
        SavedCacheError: it can't be written.
    """
    header = json.dumps({"format": FORMAT, "tokens": len(saved.tokens), "identity": dict(saved.identity)}).encode()
    digest = hashlib.blake2b(digest_size=DIGEST)

    def parts() -> Iterator[bytes | memoryview]:
        for part in (MAGIC, LENGTH.pack(len(header)), header, _packed(saved.tokens), saved.state):
            digest.update(part)
            yield part
        yield digest.digest()

    try:
        replace_private(path, parts())
    except OSError as error:
        raise SavedCacheError(f"the cache can't be written to {path} ({error.strerror})", path) from error


def read(path: Path, identity: Mapping[str, str]) -> Saved:
    """What a file holds.

    Args:
        path: of the file.
        identity: what it has to be of.

    Raises:
        SavedCacheError: it can't be read, is no such file, is damaged, or is of something else.
    """
    try:
        data = bytearray(read_regular(path, LONGEST))
    except OSError as error:
        raise SavedCacheError(f"the cache can't be read from {path} ({error.strerror})", path) from error
    if data[: len(MAGIC)] != MAGIC:
        raise SavedCacheError(f"{path} holds no cache that cogstep saved", path)
    if hashlib.blake2b(memoryview(data)[:-DIGEST], digest_size=DIGEST).digest() != data[-DIGEST:]:
        raise SavedCacheError(f"{path} is damaged; delete it: the prompt will be computed again", path)
    start = len(MAGIC) + LENGTH.size
    (length,) = LENGTH.unpack_from(data, len(MAGIC))
    header: dict[str, Any] = json.loads(bytes(data[start : start + length]))
    if header["format"] != FORMAT:
        raise SavedCacheError(
            f"{path} was saved by another version of cogstep (format {header['format']}, and this one reads {FORMAT}); "
            "delete it: the prompt will be computed again",
            path,
        )
    _compare(path, header["identity"], identity)
    tokens = array("i", bytes(data[start + length : start + length + 4 * header["tokens"]]))
    state = memoryview(data)[start + length + 4 * len(tokens) : -DIGEST]
    return Saved(tuple(tokens), state, header["identity"])


def _compare(path: Path, theirs: Mapping[str, str], ours: Mapping[str, str]) -> None:
    for name in sorted(ours.keys() | theirs.keys()):
        if theirs.get(name) != ours.get(name):
            raise SavedCacheError(
                f"{path} was saved with another {name} ({theirs.get(name, 'none')}, and here it is "
                f"{ours.get(name, 'none')}): it can't be used here",
                path,
            )


def _packed(tokens: tuple[int, ...]) -> bytes:
    return array("i", tokens).tobytes()


def fingerprint(path: Path) -> str:
    """Of a large file, in milliseconds: its size, its two ends and a block in each of 64 parts between them."""
    digest = hashlib.blake2b(digest_size=16)
    with open_regular(path) as stream:
        size = stream.seek(0, os.SEEK_END)
        digest.update(LENGTH.pack(size))
        for place in (0, *(size * part // 64 for part in range(1, 64)), max(0, size - BLOCK)):
            stream.seek(place)
            digest.update(stream.read(BLOCK))
    return digest.hexdigest()

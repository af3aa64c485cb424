"""What a cache holds of one prompt, in a file: so that a session that goes on in another process doesn't pay again.

::

    "cogcache"  length of the header (8 bytes)  header (JSON)  tokens (4 bytes each)  state  BLAKE2b of that (32 bytes)

Numbers are little-endian. The header says how many tokens there are and what the state depends on: model, adapters,
options, versions. A file is written beside its place and moved there, readable by its owner alone: a state holds the
conversation that it was made of.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from runtime.errors import SavedCacheError

MAGIC = b"cogcache"
FORMAT = 1
LENGTH = struct.Struct("<Q")
DIGEST = 32
"""Bytes of the hash."""

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
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with open(handle, "wb") as stream:
            for part in (MAGIC, LENGTH.pack(len(header)), header, _packed(saved.tokens), saved.state):
                digest.update(part)
                stream.write(part)
            stream.write(digest.digest())
        os.replace(temporary, path)
    except OSError as error:
        raise SavedCacheError(f"the cache can't be written to {path} ({error.strerror})", path) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def read(path: Path, identity: Mapping[str, str]) -> Saved:
    """What a file holds.

    Args:
        path: of the file.
        identity: what it has to be of.

    Raises:
        SavedCacheError: it can't be read, is no such file, is damaged, or is of something else.
    """
    try:
        data = bytearray(path.read_bytes())
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
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        digest.update(LENGTH.pack(size))
        for place in (0, *(size * part // 64 for part in range(1, 64)), max(0, size - BLOCK)):
            stream.seek(place)
            digest.update(stream.read(BLOCK))
    return digest.hexdigest()

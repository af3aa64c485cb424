"""A file with the cached state of one prompt, so that a session can continue in another process without recomputing it.

::

    "cogcach2"  length of the header (8 bytes)  header (JSON)  seal of all that (32 bytes)  tokens (4 bytes each)  state

Numbers are little-endian. The header contains the number of tokens, the length of the state, the BLAKE2b of both, and
the state's dependencies: model, adapters, options, versions. Its seal is a BLAKE2b with the user's own key. Native code
does not validate states, so it never receives a forged or altered one. A file is written to a temporary name and moved,
readable only by the user: a state reveals its conversation.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from array import array
from collections.abc import Mapping
from hmac import compare_digest
from pathlib import Path
from typing import Any, BinaryIO

from attrs import frozen

from runtime.errors import SavedCacheError
from runtime.files import open_regular, replace_private
from runtime.seal_key import key_for_reading, key_for_writing

MAGIC = b"cogcach2"
EARLIER = b"cogcache"
"""The magic of the previous format, which had a checksum and no seal."""

FORMAT = 2
LENGTH = struct.Struct("<Q")
DIGEST = 32
"""Bytes of a hash."""

PURPOSE = b"cogstep cache"
"""Separates these seals from those of recordings, which use the same key."""

LONGEST_HEADER = 1 << 20
"""Maximum bytes: it names a few files and versions."""

BLOCK = 16 * 1024
"""Bytes that ``fingerprint`` reads at each of its places."""


@frozen
class SavedPrefix:
    """The saved prefix of a sequence."""

    tokens: tuple[int, ...]
    state: memoryview
    """In the backend's own format."""
    identity: Mapping[str, str]


def write(saved: SavedPrefix, path: Path) -> None:
    """Write it to a file, replacing an existing one.

    Raises:
        SavedCacheError: it cannot be written.
    """
    tokens = array("i", saved.tokens).tobytes()
    said = {
        "format": FORMAT,
        "tokens": len(saved.tokens),
        "state": len(saved.state),
        "digest": _digest(tokens, saved.state),
        "identity": dict(saved.identity),
    }
    header = json.dumps(said).encode()
    begin = MAGIC + LENGTH.pack(len(header)) + header
    try:
        replace_private(path, (begin, _seal(key_for_writing(), begin), tokens, saved.state))
    except OSError as error:
        raise SavedCacheError(f"the cache can't be written to {path} ({error.strerror})", path) from error


def read(path: Path, identity: Mapping[str, str]) -> SavedPrefix:
    """Read a file.

    Args:
        path: the file.
        identity: the expected dependencies.

    Raises:
        SavedCacheError: it cannot be read, is not such a file, is damaged, was saved by another user, or has other
            dependencies.
    """
    try:
        with open_regular(path) as stream:
            return _read(path, stream, identity)
    except OSError as error:
        raise SavedCacheError(f"the cache can't be read from {path} ({error.strerror})", path) from error


def _read(path: Path, stream: BinaryIO, identity: Mapping[str, str]) -> SavedPrefix:
    damaged = SavedCacheError(
        f"{path} is damaged, or was not saved by this user; delete it: the prompt will be computed again", path
    )
    begin = stream.read(len(MAGIC) + LENGTH.size)
    if begin.startswith(EARLIER):
        raise _of_another_version(path, 1)
    if not begin.startswith(MAGIC):
        raise SavedCacheError(f"{path} holds no cache that cogstep saved", path)
    length = int.from_bytes(begin[len(MAGIC) :], "little")
    if len(begin) < len(MAGIC) + LENGTH.size or length > LONGEST_HEADER:
        raise damaged
    begin += stream.read(length)
    try:
        key = key_for_reading()
    except FileNotFoundError:  # this user has saved nothing yet
        raise damaged from None
    if not compare_digest(_seal(key, begin), stream.read(DIGEST)):
        raise damaged
    header: dict[str, Any] = json.loads(begin[len(MAGIC) + LENGTH.size :])  # from here on it is what we wrote
    if header["format"] != FORMAT:
        raise _of_another_version(path, header["format"])
    theirs = header["identity"]
    for name in sorted(identity.keys() | theirs.keys()):
        if theirs.get(name) != identity.get(name):
            raise SavedCacheError(
                f"{path} was saved with another {name} ({theirs.get(name, 'none')}, and here it is "
                f"{identity.get(name, 'none')}): it can't be used here",
                path,
            )
    size = 4 * header["tokens"] + header["state"]
    if os.fstat(stream.fileno()).st_size != len(begin) + DIGEST + size:
        raise damaged
    data = bytearray(size)  # which native code reads in place
    if stream.readinto(data) != size:  # type: ignore[attr-defined]  # open files for reading bytes have it
        raise damaged
    tokens = memoryview(data)[: 4 * header["tokens"]]
    state = memoryview(data)[len(tokens) :]
    if not compare_digest(_digest(tokens, state), header["digest"]):
        raise damaged
    return SavedPrefix(tuple(array("i", tokens.tobytes())), state, theirs)


def _of_another_version(path: Path, number: Any) -> SavedCacheError:
    return SavedCacheError(
        f"{path} was saved by another version of cogstep (format {number}, and this one reads {FORMAT}); "
        "delete it: the prompt will be computed again",
        path,
    )


def _seal(key: bytes, begin: bytes) -> bytes:
    return hashlib.blake2b(begin, key=key, digest_size=DIGEST, person=PURPOSE).digest()


def _digest(tokens: bytes | memoryview, state: memoryview) -> str:
    digest = hashlib.blake2b(tokens, digest_size=DIGEST)
    digest.update(state)
    return digest.hexdigest()


def fingerprint(path: Path) -> str:
    """Return a fingerprint of a large file, in milliseconds: its size, both ends and a block in each of 64 parts
    between.
    """
    digest = hashlib.blake2b(digest_size=16)
    with open_regular(path) as stream:
        size = stream.seek(0, os.SEEK_END)
        digest.update(LENGTH.pack(size))
        for place in (0, *(size * part // 64 for part in range(1, 64)), max(0, size - BLOCK)):
            stream.seek(place)
            digest.update(stream.read(BLOCK))
    return digest.hexdigest()

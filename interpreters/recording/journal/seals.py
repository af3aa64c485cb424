"""Proof of authorship: a seal at the end of each line, computed with a key that only this user has.

    {"seq":1,"input":{...},"decisions":[...],"seal":"6c0e...","sum":"e41d90b7"}

The seal of a line is a keyed hash (BLAKE2b, RFC 7693, 2.9) of all bytes of the file before its digits: the header,
every earlier line with its seal and sum, and the line itself. So the newest seal certifies all earlier lines. Without
the key, a line can't be changed, moved, removed or inserted, and new lines can't be sealed. If a file is cut after a
line, the rest is still the user's own.

The key is generated once per user and is in ``seal.key`` of the state directory, or at a place set in the environment
(``runtime.seal_key``). Without a reliable key, recordings have no seals, and none counts as the user's own.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest

from runtime.files import UnusableFileError
from runtime.seal_key import (
    KEY_FILE as KEY_FILE,
    KEY_NAME as KEY_NAME,
    KEY_SIZE as KEY_SIZE,
    key_for_reading as key_for_reading,
    key_for_writing as key_for_writing,
)

SIZE = 16
"""Bytes of a seal. Guessing one takes 2**128 attempts."""

PURPOSE = b"cogstep journal"
"""Separates these hashes from any other future use of the key."""

BEFORE, BEHIND = b',"seal":"', b'"'
SUM_LENGTH = len(',"sum":"01234567"}\n')
DIGITS_FROM = 2 * SIZE + len(BEHIND) + SUM_LENGTH
"""Position of the digits, counted from the end of a line."""
DIGITS_TO = len(BEHIND) + SUM_LENGTH

NO_SEAL = "it has no seal, as those of earlier versions and those of programs that could keep no key"
NO_KEY = "there is no key of this user's, with which it could have been sealed"
OTHER_KEY = "its seal was not made with this user's key"


def start_hash(key: bytes) -> blake2b:
    """Return the initial hash for the seals of a file."""
    return blake2b(key=key, digest_size=SIZE, person=PURPOSE)


class SealCheck:
    """Checks, line by line from the first, whether this user's key sealed a recording."""

    def __init__(self, header: bytes) -> None:
        self._newest = header
        """The newest complete line. It is not hashed yet, since its seal does not certify its own digits."""
        self._before: blake2b | None = None
        """Hash of all earlier lines; None if there is nothing to check."""
        self._reason = ""
        if header[-DIGITS_FROM - len(BEFORE) : -DIGITS_FROM] != BEFORE:
            self._reason = NO_SEAL
            return
        try:
            self._before = start_hash(key_for_reading())
        except FileNotFoundError:
            self._reason = NO_KEY
        except OSError as error:
            self._reason = f"this user's key can't be read: {describe_os_error(error)}"

    def add(self, line: bytes) -> None:
        if self._before is not None:
            self._before.update(self._newest)
            self._newest = line

    @property
    def foreign(self) -> str:
        """Why the lines so far do not count as this user's own; empty if they do."""
        if self._before is None:
            return self._reason
        seal, line = self._before.copy(), self._newest
        seal.update(line[:-DIGITS_FROM])
        return "" if compare_digest(seal.hexdigest().encode(), line[-DIGITS_FROM:-DIGITS_TO]) else OTHER_KEY

    def running_hash(self) -> blake2b | None:
        """Return the hash of all lines so far, for the seal of the next; None if they are not this user's own."""
        if self._before is None or self.foreign:
            return None
        whole = self._before.copy()
        whole.update(self._newest)
        return whole


def describe_os_error(error: OSError) -> str:
    """Return the problem with the file's name."""
    return str(error) if isinstance(error, UnusableFileError) else f"{error.filename}: {error.strerror}"

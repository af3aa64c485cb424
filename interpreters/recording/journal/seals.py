"""Who wrote a recording: a seal at the end of each line, made with a key that only its user has.

    {"seq":1,"input":{...},"decisions":[...],"seal":"6c0e...","sum":"e41d90b7"}

A line's seal is a keyed hash (BLAKE2b, RFC 7693, 2.9) of all bytes of the file that stand before its digits: of the
header, of every line with its seal and its sum, and of the line itself. So the newest seal vouches for all before it,
and nobody without the key can change, reorder, leave out or splice in a line, or seal one more. What is left when a
file is cut behind a line was written by its user too, and is their own.

The key is drawn once for each user and stands in ``seal.key`` of the state directory, or where the environment says
(``runtime.keys``). Without a key that can be relied on, recordings have no seals, and none counts as the user's own.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest

from runtime.files import UnusableFileError
from runtime.keys import (
    KEY_FILE as KEY_FILE,
    KEY_NAME as KEY_NAME,
    KEY_SIZE as KEY_SIZE,
    key_for_reading as key_for_reading,
    key_for_writing as key_for_writing,
)

SIZE = 16
"""Bytes of a seal: to guess one takes 2**128 tries."""

PURPOSE = b"cogstep journal"
"""Keeps these hashes apart from whatever else the key may be used for one day."""

BEFORE, BEHIND = b',"seal":"', b'"'
SUM_LENGTH = len(',"sum":"01234567"}\n')
DIGITS_FROM = 2 * SIZE + len(BEHIND) + SUM_LENGTH
"""Where the digits begin, counted from the end of a line."""
DIGITS_TO = len(BEHIND) + SUM_LENGTH

NO_SEAL = "it has no seal, as those of earlier versions and those of programs that could keep no key"
NO_KEY = "there is no key of this user's, with which it could have been sealed"
OTHER_KEY = "its seal was not made with this user's key"


def begun(key: bytes) -> blake2b:
    """The hash at the beginning of a file, with which the seals of its lines are made."""
    return blake2b(key=key, digest_size=SIZE, person=PURPOSE)


class SealCheck:
    """Follows the lines of a recording from its first, and says whether they were sealed with this user's key."""

    def __init__(self, header: bytes) -> None:
        self._newest = header
        """Of the whole lines; not hashed yet, since the digits of its seal are not part of what that vouches for."""
        self._before: blake2b | None = None
        """The hash of all lines before it; None where there is nothing to find out."""
        self._reason = ""
        if header[-DIGITS_FROM - len(BEFORE) : -DIGITS_FROM] != BEFORE:
            self._reason = NO_SEAL
            return
        try:
            self._before = begun(key_for_reading())
        except FileNotFoundError:
            self._reason = NO_KEY
        except OSError as error:
            self._reason = f"this user's key can't be read: {said_of(error)}"

    def add(self, line: bytes) -> None:
        """Take the next whole line."""
        if self._before is not None:
            self._before.update(self._newest)
            self._newest = line

    @property
    def foreign(self) -> str:
        """Why the lines so far don't count as this user's own; empty if they do."""
        if self._before is None:
            return self._reason
        seal, line = self._before.copy(), self._newest
        seal.update(line[:-DIGITS_FROM])
        return "" if compare_digest(seal.hexdigest().encode(), line[-DIGITS_FROM:-DIGITS_TO]) else OTHER_KEY

    def whole(self) -> blake2b | None:
        """The hash of all lines so far, with which the next one is sealed; None if they are not this user's own."""
        if self._before is None or self.foreign:
            return None
        whole = self._before.copy()
        whole.update(self._newest)
        return whole


def said_of(error: OSError) -> str:
    """What is wrong, with the file's name."""
    return str(error) if isinstance(error, UnusableFileError) else f"{error.filename}: {error.strerror}"

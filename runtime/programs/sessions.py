"""Which of a program's sessions a conversation goes on in: the one whose messages are its beginning, to the byte.

Each program's sessions are remembered by its own runtime, so that none is ever taken for the other's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from hashlib import sha256

from attrs import evolve, frozen

from cognition import Usage

MOST = 64
"""Conversations that are remembered; the one that went on longest ago is forgotten first."""


@frozen
class Known:
    """A session, and how much of a conversation it has."""

    session: str = ""
    """Empty: there is none, and a new one begins."""
    lines: int = 0
    """How many of the conversation's lines it has."""
    used: Usage = Usage()
    """What the program said that the whole session has used, where it counts so."""


class Sessions:
    """Remembers them. From any thread.

    Args:
        forks: whether going on with a session leaves it as it was; otherwise only one conversation goes on in it.
        first: a session in which conversations begin that are not known; where a session is not left as it was, the
            first one alone.
    """

    def __init__(self, *, forks: bool, first: str = "") -> None:
        self._forks = forks
        self._first = first
        self._lock = threading.Lock()
        self._known: dict[bytes, Known] = {}

    def find(self, about: str, lines: Sequence[str]) -> Known:
        """The session that has most of a conversation, though not all of it.

        Args:
            about: what has to be the same besides, such as the system prompt.
            lines: the conversation's messages.
        """
        with self._lock:
            found = Known()
            for number, key in enumerate(_keys(about, lines[:-1]), start=1):
                if key in self._known:
                    found = evolve(self._known[key], lines=number)
            if found.session:
                self._used(found.session)
                return found
            first = self._first
            if first and not self._forks:
                self._first = ""
            return Known(first)

    def remember(self, about: str, lines: Sequence[str], session: str, used: Usage = Usage()) -> None:  # noqa: B008 - frozen
        """A session has all of these lines now, the reply included, and has used so many tokens."""
        *_, key = _keys(about, lines)
        with self._lock:
            if not self._forks:
                self._used(session)
            self._known.pop(key, None)
            self._known[key] = Known(session, used=used)
            while len(self._known) > MOST:
                del self._known[next(iter(self._known))]

    def forget(self, about: str, lines: Sequence[str], session: str) -> None:
        """It is gone, and so may be all that this conversation could go on in: it begins anew."""
        with self._lock:
            gone = set(_keys(about, lines))
            self._known = {key: one for key, one in self._known.items() if one.session != session and key not in gone}
            if self._first == session:
                self._first = ""

    def _used(self, session: str) -> None:
        """Somebody goes on with it: where that changes it, nobody else does until the reply is there."""
        if not self._forks:
            self._known = {key: one for key, one in self._known.items() if one.session != session}


def _keys(about: str, lines: Sequence[str]) -> Iterator[bytes]:
    """A key for each beginning of a conversation. No line holds a line break, so no two conversations have the same."""
    so_far = sha256(f"{len(about)}\n{about}\n".encode("utf-8", "surrogatepass"))
    for line in lines:
        so_far.update(f"{line}\n".encode())
        yield so_far.digest()

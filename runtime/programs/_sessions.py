"""Finds the program's session that a conversation continues: its messages are a byte-exact prefix of the conversation.

Each program's runtime remembers its own sessions, so the programs' sessions never mix.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from hashlib import sha256

from attrs import evolve, frozen

from cognition import Usage

MOST = 64
"""Maximum conversations to remember; the least recently continued is forgotten first."""


@frozen
class Known:
    """A session, and how much of a conversation it contains."""

    session: str = ""
    """Empty for a new session."""
    lines: int = 0
    used: Usage = Usage()
    """The usage of the whole session so far, if the program reports it per session."""


class Sessions:
    """Remembers the sessions. From any thread.

    Args:
        forks: whether continuing a session leaves it unchanged; otherwise only one conversation can continue it.
        first: a session from which unknown conversations start; if ``forks`` is False, only the first of them.
    """

    def __init__(self, *, forks: bool, first: str = "") -> None:
        self._forks = forks
        self._first = first
        self._lock = threading.Lock()
        self._known: dict[bytes, Known] = {}

    def find(self, about: str, lines: Sequence[str]) -> Known:
        """Return the session that contains the longest part of a conversation, without its last line.

        Args:
            about: further data that must be equal, such as the system prompt.
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
        """Record that a session now contains all these lines, including the reply, and its usage."""
        *_, key = _keys(about, lines)
        with self._lock:
            if not self._forks:
                self._used(session)
            self._known.pop(key, None)
            self._known[key] = Known(session, used=used)
            while len(self._known) > MOST:
                del self._known[next(iter(self._known))]

    def forget(self, about: str, lines: Sequence[str], session: str) -> None:
        """Forget a lost session and all entries of this conversation, which then starts a new session."""
        with self._lock:
            gone = set(_keys(about, lines))
            self._known = {key: one for key, one in self._known.items() if one.session != session and key not in gone}
            if self._first == session:
                self._first = ""

    def _used(self, session: str) -> None:
        """Reserve a session for one conversation until its reply is complete, unless continuing leaves it unchanged."""
        if not self._forks:
            self._known = {key: one for key, one in self._known.items() if one.session != session}


def _keys(about: str, lines: Sequence[str]) -> Iterator[bytes]:
    """Yield a key for each prefix of a conversation. Lines contain no line breaks, so different prefixes have different
    keys.
    """
    so_far = sha256(f"{len(about)}\n{about}\n".encode("utf-8", "surrogatepass"))
    for line in lines:
        so_far.update(f"{line}\n".encode())
        yield so_far.digest()

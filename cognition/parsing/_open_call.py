"""A call being read: ``InCall`` and ``Scan`` as mutable objects.

A chunk comes with each token. ``parser.advance`` freezes the call after each chunk and opens it again, which takes six
times as long: 5.9 us per chunk of 4 characters, against 1.0 us for ``Parser.feed``. State that leaves the parser is
frozen (``OpenCall.freeze``), and state that comes back is opened again.
"""

from __future__ import annotations

from cognition.parsing.rope import EMPTY, Rope, append_text, join_pieces, length
from cognition.parsing.state import InCall, InSection, InText, Role, Scan


class OpenScan:
    """The position within a call; see ``Scan`` for the fields."""

    __slots__ = (
        "announced", "depth", "ended", "escaped", "key", "level", "name", "quote", "reached", "role", "since",
        "tentative", "token", "waiting",
    )  # fmt: skip

    def __init__(self, scan: Scan, tentative: bool) -> None:
        self.role: Role
        self.token: Rope
        self.waiting: Rope
        (
            self.role, self.level, self.key, self.token, self.name, self.waiting, self.reached, self.announced,
            self.depth, self.quote, self.escaped,
        ) = scan  # fmt: skip
        self.tentative = tentative  # see ``InCall``
        # Of the text at hand:
        self.ended = ""  # the arguments that ended in it
        self.since = -1  # where arguments begin that have not ended; negative where there are none

    def begin_arguments(self, at: int) -> None:
        """Begin the call's arguments at position ``at`` of the current text."""
        self.role, self.reached, self.since = "arguments", True, at

    def end_arguments(self, text: str, at: int) -> None:
        """End the call's arguments at position ``at`` of the current text."""
        self.ended, self.since = self.ended + text[self.since : at], -1

    def freeze(self) -> Scan:
        return Scan(
            self.role, self.level, self.key, self.token, self.name, self.waiting, self.reached, self.announced,
            self.depth, self.quote, self.escaped,
        )  # fmt: skip

    def take_ready(self, arguments: str) -> tuple[str, str]:
        """Return the outputs that are ready after these arguments: the call's name, once, and the arguments.

        Arguments wait for the name. A tentative call may turn out to be text, so its name waits for the arguments too.
        """
        if self.announced:
            return "", arguments
        if self.name and (self.reached or not self.tentative):
            arguments = join_pieces(self.waiting) + arguments
            self.waiting, self.announced = EMPTY, True
            return self.name, arguments
        self.waiting = append_text(self.waiting, arguments)
        return "", ""


class OpenCall:
    """A call and its reading position; see ``InCall`` for the fields."""

    __slots__ = ("fresh", "held", "outer", "rope", "scan", "size")

    def __init__(
        self, rope: Rope, scan: Scan, outer: InText | InSection, held: str = "", tentative: bool = False
    ) -> None:
        self.rope = rope
        """The call's text up to the last ``freeze()``."""
        self.fresh: list[str] = []
        """The pieces of text since then."""
        self.size = length(rope) if rope else 0
        """Characters of the call so far, counted while it is tentative."""
        self.scan = OpenScan(scan, tentative)
        self.outer = outer
        self.held = held

    def add(self, text: str) -> None:
        self.fresh.append(text)
        self.size += len(text)

    @property
    def raw(self) -> str:
        return join_pieces(self.rope) + "".join(self.fresh)

    def freeze(self) -> InCall:
        self.rope = append_text(self.rope, "".join(self.fresh))
        self.fresh.clear()
        return InCall(self.rope, self.scan.freeze(), self.outer, self.held, self.scan.tentative)

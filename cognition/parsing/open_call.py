"""A call while it is read: ``InCall`` and ``Scan`` as objects that are changed in place.

A chunk comes with each token. Freezing the call after each chunk and opening it again, as ``parser.advance`` has to,
takes six times as long: 5.9 us a chunk of 4 characters, beside 1.0 us for ``Parser.feed``. What leaves the parser is
frozen (``OpenCall.frozen``), and what comes back is opened again (``opened``).
"""

from __future__ import annotations

from cognition.parsing.rope import EMPTY, Rope, added, joined, length
from cognition.parsing.state import InCall, InSection, InText, Role, Scan


class OpenScan:
    """How far a call was read; see ``Scan`` for what the fields mean."""

    __slots__ = (
        "announced", "depth", "ended", "escaped", "key", "level", "name", "quote", "reached", "role", "since", "token",
        "waiting",
    )  # fmt: skip

    def __init__(self, scan: Scan) -> None:
        self.role: Role
        self.token: Rope
        self.waiting: Rope
        (
            self.role, self.level, self.key, self.token, self.name, self.waiting, self.reached, self.announced,
            self.depth, self.quote, self.escaped,
        ) = scan  # fmt: skip
        # Of the text at hand:
        self.ended = ""  # the arguments that ended in it
        self.since = -1  # where arguments begin that have not ended; negative where there are none

    def begin_arguments(self, at: int) -> None:
        """The call's arguments begin at this place of the text at hand."""
        self.role, self.reached, self.since = "arguments", True, at

    def end_arguments(self, text: str, at: int) -> None:
        """The call's arguments end at this place of the text at hand."""
        self.ended, self.since = self.ended + text[self.since : at], -1

    def frozen(self) -> Scan:
        return Scan(
            self.role, self.level, self.key, self.token, self.name, self.waiting, self.reached, self.announced,
            self.depth, self.quote, self.escaped,
        )  # fmt: skip

    def to_tell(self, arguments: str, *, tentative: bool) -> tuple[str, str]:
        """What can be told once these arguments were read: the call's name, once, and the arguments.

        Arguments wait for the name. With ``tentative``, the text may yet turn out to be no call, and the name waits for
        the arguments too.
        """
        if self.announced:
            return "", arguments
        if self.name and (self.reached or not tentative):
            arguments = joined(self.waiting) + arguments
            self.waiting, self.announced = EMPTY, True
            return self.name, arguments
        self.waiting = added(self.waiting, arguments)
        return "", ""


class OpenCall:
    """A call and where it was read to; see ``InCall`` for what the fields mean."""

    __slots__ = ("fresh", "held", "outer", "rope", "scan", "size", "tentative")

    def __init__(
        self, rope: Rope, scan: Scan, outer: InText | InSection, held: str = "", *, tentative: bool = False
    ) -> None:
        self.rope = rope
        """The call's text up to when it was frozen last."""
        self.fresh: list[str] = []
        """The pieces of the call's text that have come since then."""
        self.size = length(rope) if rope else 0
        """The number of characters of the call so far, counted as long as it is tentative."""
        self.scan = OpenScan(scan)
        self.outer = outer
        self.held = held
        self.tentative = tentative

    def add(self, text: str) -> None:
        """Add text of the call that was read."""
        self.fresh.append(text)
        self.size += len(text)

    @property
    def raw(self) -> str:
        """Everything since the call's start marker."""
        return joined(self.rope) + "".join(self.fresh)

    def frozen(self) -> InCall:
        self.rope = added(self.rope, "".join(self.fresh))
        self.fresh.clear()
        return InCall(self.rope, self.scan.frozen(), self.outer, self.held, self.tentative)


def opened(phase: InCall) -> OpenCall:
    """The same call, to be changed in place while it is read on."""
    return OpenCall(phase.raw, phase.scan, phase.outer, phase.held, tentative=phase.tentative)

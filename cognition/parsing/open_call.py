"""A call while it is read: as ``InCall`` and ``Scan``, but changed in place, since a chunk comes with each token.

What leaves the parser is frozen (``OpenCall.frozen``); what comes back in is opened again (``opened``).
"""

from __future__ import annotations

from cognition.parsing.rope import EMPTY, Rope, added, joined, length
from cognition.parsing.state import InCall, InSection, InText, Role, Scan


class OpenScan:
    """How far a call was read; see ``Scan`` for what the fields mean."""

    __slots__ = (
        "announced", "depth", "escaped", "key", "level", "name", "quote", "reached", "role", "said", "since", "token",
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
        self.said = ""  # what of it is arguments that have ended
        self.since = -1  # where arguments begin that have not; negative: nowhere

    def begin_arguments(self, at: int) -> None:
        """The call's arguments begin at this place of the text at hand."""
        self.role, self.reached, self.since = "arguments", True, at

    def end_arguments(self, text: str, at: int) -> None:
        """The call's arguments end at this place of the text at hand."""
        self.said, self.since = self.said + text[self.since : at], -1

    def frozen(self) -> Scan:
        return Scan(
            self.role, self.level, self.key, self.token, self.name, self.waiting, self.reached, self.announced,
            self.depth, self.quote, self.escaped,
        )  # fmt: skip

    def told(self, said: str, *, tentative: bool) -> tuple[str, str]:
        """What is to be told now that the call says this: its name, once, and more of its arguments.

        Arguments wait for the name; a call that may be none also keeps its name until its arguments begin.
        """
        if self.announced:
            return "", said
        if self.name and (self.reached or not tentative):
            said = joined(self.waiting) + said
            self.waiting, self.announced = EMPTY, True
            return self.name, said
        self.waiting = added(self.waiting, said)
        return "", ""


class OpenCall:
    """A call and where it was read to; see ``InCall`` for what the fields mean."""

    __slots__ = ("fresh", "held", "outer", "rope", "scan", "size", "tentative")

    def __init__(
        self, rope: Rope, scan: Scan, outer: InText | InSection, held: str = "", *, tentative: bool = False
    ) -> None:
        self.rope = rope
        self.fresh: list[str] = []
        """What came since then."""
        self.size = length(rope) if rope else 0
        """Characters of the call so far; counted as long as it is tentative."""
        self.scan = OpenScan(scan)
        self.outer = outer
        self.held = held
        self.tentative = tentative

    def add(self, text: str) -> None:
        """More of the call's text, read."""
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
    """The call to be read on."""
    return OpenCall(phase.raw, phase.scan, phase.outer, phase.held, tentative=phase.tentative)

"""The parser's state between two chunks: one frozen value, small for replies of any length.

While the parser reads a call, ``OpenScan`` and ``OpenCall`` hold the same as mutable objects. A chunk comes with each
token. ``parser.advance`` freezes the call after each chunk and opens it again, which takes six times as long: 5.9 us
per chunk of 4 characters, against 1.0 us for ``Parser.feed``. State that leaves the parser is frozen
(``OpenCall.freeze``), and state that comes back is opened again.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from attrs import frozen

from cognition.parsing.rope import EMPTY, Rope, append_text, join_pieces, length

Role = Literal["lead", "head", "id", "before", "key", "colon", "name", "skipped", "gap", "arguments", "text", "after"]
"""The role of the current text within a call:

- ``lead``: before the name, up to a marker in front of it
- ``head``: the name, if it precedes the arguments
- ``id``: an id that the model generates, skipped
- ``before``: before the ``{`` of the call's object
- ``key``, ``colon``: a key of that object, and the text between it and its value
- ``name``, ``skipped``: the name as a value; a value of no interest, or the text after a value
- ``gap``, ``arguments``: white space before the arguments; the arguments
- ``text``: within the arguments, a string between its own markers
- ``after``: the call is complete, its end marker is still missing
"""


class Scan(NamedTuple):
    """The reading position within a call. Depth and quotes decide whether a marker counts or is inside a string."""

    role: Role
    level: int = 0
    """Depth inside the call's object: 1, or 2 if it is in a list."""
    key: str = ""
    token: Rope = EMPTY
    """The part of a key or a name that has arrived."""
    name: str = ""
    """Empty until it is known."""
    waiting: Rope = EMPTY
    """Arguments that came before the name."""
    reached: bool = False
    announced: bool = False
    """Whether ``CallStarted`` was output."""
    depth: int = 0
    quote: str = ""
    """The quotation mark that ends the current string; empty outside of strings."""
    escaped: bool = False
    """Whether the chunk ended after a backslash: the next character then does not end a string."""


@frozen
class InText:
    """Reading visible text."""

    held: str = ""
    """The unread end of the last chunk, which may be the beginning of a marker."""
    behind: bool = False
    """Whether no marker has come since a call or a section of calls ended. Until text comes too, an end marker is
    redundant.
    """


@frozen
class BehindCall:
    """After a call without markers: a comma or a semicolon here separates it from the next call."""

    held: str = ""


@frozen
class InReasoning:
    """Reading reasoning. It contains no calls."""

    held: str = ""
    kept: Rope = EMPTY
    """The reasoning since the first text that would begin a call elsewhere. If the reasoning never ends, the calls in
    this text are reported to the model.
    """


@frozen
class InSection:
    """Between the calls of a section."""

    held: str = ""
    bracketed: bool = False
    """Whether the calls are in a JSON list."""
    junk: Rope = EMPTY
    """Text that is neither a call nor allowed between two calls."""


class InCall(NamedTuple):
    """Reading a call that has not ended."""

    raw: Rope
    """All text since the call's start marker."""
    scan: Scan
    outer: InText | InSection
    held: str = ""
    tentative: bool = False
    """Whether the call has no start marker: if it turns out not to look like a call, it is text."""


@frozen
class Ended:
    """After a stop text or the end of the reply. Text fed now is not read."""

    held: str = ""


ParserPhase = InText | BehindCall | InReasoning | InSection | InCall | Ended


@frozen
class Flow:
    """The white space of a stream of text, visible or reasoning.

    Templates put line breaks around markers. White space next to a marker passes only if it separates two pieces of
    text, as around a call in the middle of an answer.
    """

    started: bool = False
    """Whether some of the text has been output."""
    touching: bool = False
    """Whether a marker comes before or in ``blank``."""
    blank: Rope = EMPTY
    """The white space at the text's end, output together with the next text."""
    tail: str = ""
    """The end of the output text, if it is the beginning of a marker: text after a marker must not complete it."""


class ParserState(NamedTuple):
    """A reply between two chunks. A tuple for speed, as each chunk creates one."""

    phase: ParserPhase = InText()
    text: Flow = Flow()
    reasoning: Flow = Flow(touching=True)
    calls: int = 0
    """The number of calls that have begun, which is the index of the next call."""


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

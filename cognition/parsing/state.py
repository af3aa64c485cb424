"""The parser's state between two chunks: one frozen value, small for replies of any length."""

from __future__ import annotations

from typing import Literal, NamedTuple

from attrs import frozen

from cognition.parsing.rope import EMPTY, Rope

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
class InHeader:
    """Reading a message's header, which is shown to nobody."""

    start: str
    """The marker that began it."""
    outer: InText | InReasoning
    held: str = ""
    raw: Rope = EMPTY


@frozen
class Ended:
    """After a stop text or the end of the reply. Text fed now is not read."""

    held: str = ""


ParserPhase = InText | BehindCall | InReasoning | InSection | InCall | InHeader | Ended


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

"""What the parser remembers between two chunks: one frozen value, small however long the reply is."""

from __future__ import annotations

from typing import Literal, NamedTuple

from attrs import frozen

from cognition.parsing.rope import EMPTY, Rope

Role = Literal["lead", "head", "id", "before", "key", "colon", "name", "skipped", "gap", "arguments", "text", "after"]
"""What the text at hand is to a call.

====================  ==========================================================================
lead                  before the name, where a marker stands in front of it
head                  the name, where it stands before the arguments
id                    an id of the model's own making, read over
before                before the ``{`` of the call's object
key, colon            a key of that object, and what stands between it and its value
name, skipped         the name as a value; a value of no interest, or what follows one
gap, arguments        white space before the arguments; the arguments
text                  within them, a text between markers of its own
after                 the call is complete, its end marker is yet to come
====================  ==========================================================================
"""


class Scan(NamedTuple):
    """How far a call was read; depth and quotes tell whether a marker is one or stands in a string."""

    role: Role
    level: int = 0
    """Depth inside the call's object: 1, or 2 where it stands in a list."""
    key: str = ""
    token: Rope = EMPTY
    """The part of a key or a name that has come."""
    name: str = ""
    """Empty until it is known."""
    waiting: Rope = EMPTY
    """Arguments that came before the name."""
    reached: bool = False
    """Whether the arguments have begun."""
    announced: bool = False
    """Whether the name was told (``CallStarted``)."""
    depth: int = 0
    """Open braces and brackets."""
    quote: str = ""
    """The quotation mark that ends the string at hand; empty outside of strings."""
    escaped: bool = False
    """Whether the chunk ended after a backslash, so that the next character ends no string."""


@frozen
class InText:
    """Visible text."""

    held: str = ""
    """The unread end of the last chunk, which may be the beginning of a marker."""
    behind: bool = False
    """Whether no marker has come since a call or a section of calls ended. As long as no text has come either, an end
    marker is then one too many."""


@frozen
class BehindCall:
    """Behind a call that no marker announced: a comma or a semicolon there parts it from the next one."""

    held: str = ""


@frozen
class InReasoning:
    """What the model thinks. Nothing in it is a call."""

    held: str = ""
    kept: Rope = EMPTY
    """The reasoning since something came that would begin a call elsewhere. If the reasoning never ends, the model is
    told of what reads as a call in this text."""


@frozen
class InSection:
    """Between the calls of a section."""

    held: str = ""
    bracketed: bool = False
    """Whether the calls stand in a JSON list."""
    junk: Rope = EMPTY
    """Text that is neither a call nor belongs between two calls."""


class InCall(NamedTuple):
    """A call whose end is yet to come."""

    raw: Rope
    """Everything since the call's start marker."""
    scan: Scan
    outer: InText | InSection
    held: str = ""
    tentative: bool = False
    """Whether no marker announced it: it is a call only if it turns out to look like one, and text otherwise."""


@frozen
class Ended:
    """Behind a stop text or the end of the reply. What is fed now is not read any more."""

    held: str = ""


ParserPhase = InText | BehindCall | InReasoning | InSection | InCall | Ended


@frozen
class Flow:
    """The white space of a stream of text, visible or reasoning.

    Templates put line breaks around markers. White space that touches a marker is let through only where it parts two
    pieces of text, as around a call in the middle of an answer.
    """

    started: bool = False
    """Whether some of the text has been given out."""
    touching: bool = False
    """Whether a marker stands before or in ``blank``."""
    blank: Rope = EMPTY
    """The white space at the text's end, which is given out with what follows."""
    tail: str = ""
    """The end of what was given out, if it is the beginning of a marker: text behind a marker must not complete it."""


class ParserState(NamedTuple):
    """A reply between two chunks. A tuple, as it is made anew with each chunk."""

    phase: ParserPhase = InText()
    text: Flow = Flow()
    reasoning: Flow = Flow(touching=True)
    calls: int = 0
    """The number of calls that have begun, and so the index of the next one."""

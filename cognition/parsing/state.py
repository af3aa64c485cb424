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
    """What has come of a key or a name."""
    name: str = ""
    """Empty until it is known."""
    waiting: Rope = EMPTY
    """Arguments that came before the name."""
    reached: bool = False
    """The arguments have begun."""
    announced: bool = False
    """The name was told (``CallStarted``)."""
    depth: int = 0
    """Open braces and brackets."""
    quote: str = ""
    """The quotation mark that ends the string at hand; empty outside of strings."""
    escaped: bool = False
    """The chunk ended after a backslash: the next character ends nothing."""


@frozen
class InText:
    """Visible text."""

    held: str = ""
    """The unread end of the last chunk, which may be the beginning of a marker."""
    behind: bool = False
    """No marker has come since a call or a section of calls ended: as long as no text has come either, an end marker
    is one too many."""


@frozen
class BehindCall:
    """Behind a call that no marker announced: a comma or a semicolon there parts it from the next one."""

    held: str = ""


@frozen
class InReasoning:
    """What the model thinks. Nothing in it is a call."""

    held: str = ""
    kept: Rope = EMPTY
    """All of it since something came that would begin a call elsewhere: if the reasoning is never ended, the model is
    told of what reads as a call in it."""


@frozen
class InSection:
    """Between the calls of a section."""

    held: str = ""
    bracketed: bool = False
    """The calls stand in a JSON list."""
    junk: Rope = EMPTY
    """What is neither a call nor belongs between two."""


class InCall(NamedTuple):
    """A call whose end is yet to come."""

    raw: Rope
    """Everything since the call's start marker."""
    scan: Scan
    outer: InText | InSection
    held: str = ""
    tentative: bool = False
    """No marker announced it: it is a call only if it turns out to look like one, and text otherwise."""


@frozen
class Ended:
    """A stop text came, or the end of the reply. What is fed now is read no more."""

    held: str = ""


Phase = InText | BehindCall | InReasoning | InSection | InCall | Ended


@frozen
class Flow:
    """The white space of a stream of text, visible or reasoning.

    Templates put line breaks around markers. White space that touches a marker is let through only where it parts two
    pieces of text, as around a call in the middle of an answer.
    """

    started: bool = False
    """Some of it has been given out."""
    touching: bool = False
    """A marker stands before or in ``blank``."""
    blank: Rope = EMPTY
    """White space at its end, given out with what follows."""
    tail: str = ""
    """What was given out last, where it is the beginning of a marker: text behind a marker must not complete it."""


class ParserState(NamedTuple):
    """A reply between two chunks. A tuple, as it is made anew with each chunk."""

    phase: Phase = InText()
    text: Flow = Flow()
    reasoning: Flow = Flow(touching=True)
    calls: int = 0
    """How many have begun: the index of the next one."""

"""Pieces of text for the screen, what has been shown so far, and the ways in which a line begins and ends.

Pieces go to one of two channels: ``answer`` is what the model says and nothing else, ``trace`` is all the rest. Which
stream a channel is, and whether there are colours, is the business of ``screen.py``. In the trace, what stands on one
line is written so that it can't begin another; that nothing steers the terminal is the business of ``terminal.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import evolve, field, frozen

from cognition import EffectId
from cognition.shown import LONGEST_LINE, shown_name, shown_text

Channel = Literal["answer", "trace"]
Style = Literal["plain", "dim", "call", "error", "warning", "added", "removed"]


@frozen
class Piece:
    """Some text for one channel, in one style."""

    channel: Channel
    text: str
    style: Style = "plain"


Pieces = tuple[Piece, ...]


@frozen
class View:
    """What has been shown so far, where what is shown next depends on it."""

    thinking: bool = True
    """Whether reasoning is shown."""
    summary: bool = True
    """Whether a last line tells usage and time."""
    whole: bool = False
    """Whether long arguments and results are shown whole."""

    line: Literal["", "answer", "thinking"] = ""
    """The writer of the line that has been begun and not ended."""
    said: bool = False
    """Whether the reply under way has shown any text."""
    thought: bool = False
    """Whether the reply under way has shown any reasoning."""
    calls: Mapping[str, str] = field(factory=dict)
    """The calls that run, as they were shown, by call id."""
    proposed: Mapping[str, str] = field(factory=dict)
    """The names of the tools that the newest reply calls, by call id."""
    running: Mapping[EffectId, str] = field(factory=dict)
    """The ids of the calls that run, by effect id."""
    ended: frozenset[str] = frozenset()
    """Ids of the calls whose result was shown when their tool ended."""
    latest: str = ""
    """The call whose line was the last to be shown; its result needs no name beside it."""
    replies: int = 0
    """The replies of this turn; ``seconds`` is the time that they took."""
    seconds: float = 0.0
    at: float = 0.0
    """The time of the newest input."""
    asked: Mapping[EffectId, float] = field(factory=dict)
    """The time at which each reply under way was asked for, by effect id."""
    dropped: int = 0
    """The number of messages that are left out of the requests."""
    shortened: int = 0
    """The number of tool results that the requests show shortened."""
    session: str = ""
    """The session that is shown; others are those of its workers."""
    workers: Mapping[str, View] = field(factory=dict)
    """What has been shown of each worker, by its session."""
    names: Mapping[str, str] = field(factory=dict)
    """The workers' names, by their sessions."""
    reported: frozenset[str] = frozenset()
    """What the workers of this turn came to, which need not be shown again as the result of a call."""


Rendered = tuple[View, Pieces]

LONGEST_RESULT = (6, 400)
"""Lines and characters that are shown of a result: enough to see what it is; -v shows all."""


def end_line(view: View) -> Rendered:
    """End the line that is open: the answer's on its own channel, so that a file gets whole lines too."""
    if not view.line:
        return view, ()
    channel: Channel = "answer" if view.line == "answer" else "trace"
    return evolve(view, line=""), (Piece(channel, "\n"),)


def note(view: View, text: str, style: Style) -> Rendered:
    """A line of its own between others."""
    return block(view, shown_name(text, LONGEST_LINE), style)


def block(view: View, text: str, style: Style) -> Rendered:
    """Text of one line or several that is fit to be shown."""
    view, pieces = end_line(view)
    return evolve(view, latest=""), (*pieces, Piece("trace", f"{text}\n", style))


def aside(view: View, text: str, style: Style) -> Rendered:
    """A line that may come in the middle of the answer: it must not put a line break into the answer itself."""
    line_break = (Piece("trace", "\n"),) if view.line else ()
    line = Piece("trace", f"{shown_name(text, LONGEST_LINE)}\n", style)
    return evolve(view, latest=""), (*line_break, line)


def result_text(content: str, *, whole: bool = False) -> str:
    """A result for the screen: its first lines, with what was left out; later lines are indented under the first."""
    text = shown_text(content.rstrip(" \t\r\n"))
    lines = text.split("\n") if text.strip() else ["(nothing)"]
    most_lines, most_characters = LONGEST_RESULT
    if not whole and (len(lines) > most_lines or len(text) > most_characters):
        shown = "\n".join(lines[:most_lines])[:most_characters].split("\n")
        left_lines, left_characters = len(lines) - len(shown), len(text) - len("\n".join(shown))
        left = f"{left_lines} more lines" if left_lines else f"{left_characters} more characters"
        lines = [*shown, f"… ({left})"]
    return "\n  ".join(lines)

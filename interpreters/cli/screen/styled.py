"""Pieces of text for the screen, the state of the display, and helpers to begin and end lines.

Pieces go to one of two channels: ``answer`` contains only the model's text, ``trace`` everything else. ``output.py``
maps channels to streams and decides on colours. In the trace, single-line content is escaped so that it can't start
another line. ``terminal.py`` escapes control sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import evolve, field, frozen

from cognition import EffectId
from cognition.base.display import LONGEST_LINE, shown_name, shown_text

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
class DisplayState:
    """The state of the display, as far as later output depends on it."""

    thinking: bool = True
    """Whether to show reasoning."""
    summary: bool = True
    """Whether to show a last line with usage and time."""
    whole: bool = False
    """Whether to show long arguments and results in full."""

    line: Literal["", "answer", "thinking"] = ""
    """The writer of the open line."""
    said: bool = False
    """Whether the current reply has shown any text."""
    thought: bool = False
    """Whether the current reply has shown any reasoning."""
    calls: Mapping[str, str] = field(factory=dict)
    """The running calls as shown, by call id."""
    proposed: Mapping[str, str] = field(factory=dict)
    """Tool names of the newest reply's calls, by call id."""
    running: Mapping[EffectId, str] = field(factory=dict)
    """Ids of the running calls, by effect id."""
    ended: frozenset[str] = frozenset()
    """Ids of the calls whose result was shown when their tool ended."""
    latest: str = ""
    """The call whose line was shown last. Its result is shown without a name."""
    replies: int = 0
    """Number of replies in this turn; ``seconds`` is their total time."""
    seconds: float = 0.0
    at: float = 0.0
    """Time of the newest input."""
    asked: Mapping[EffectId, float] = field(factory=dict)
    """Start time of each running reply, by effect id."""
    dropped: int = 0
    """Number of messages omitted from the requests."""
    shortened: int = 0
    """Number of shortened tool results in the requests."""
    session: str = ""
    """The displayed session. Other sessions are its workers."""
    workers: Mapping[str, DisplayState] = field(factory=dict)
    """The display state of each worker, by session."""
    names: Mapping[str, str] = field(factory=dict)
    """Names of the workers, by session."""
    reported: frozenset[str] = frozenset()
    """Results of this turn's workers, not shown again as the result of a call."""


Rendered = tuple[DisplayState, Pieces]
Renderer = Callable[[DisplayState, Any], Rendered]
"""Shows an event of one type, or part of an event."""

LONGEST_RESULT = (6, 400)
"""Lines and characters shown of a result; -v shows all."""


def end_line(view: DisplayState) -> Rendered:
    """End the open line. An answer's line ends on the answer channel, so that a file receives whole lines."""
    if not view.line:
        return view, ()
    channel: Channel = "answer" if view.line == "answer" else "trace"
    return evolve(view, line=""), (Piece(channel, "\n"),)


def note(view: DisplayState, text: str, style: Style) -> Rendered:
    return block(view, shown_name(text, LONGEST_LINE), style)


def one_line(style: Style, text: Callable[[Any], str]) -> Renderer:
    """Return a renderer that shows an event as one line."""
    return lambda view, value: note(view, text(value), style)


def block(view: DisplayState, text: str, style: Style) -> Rendered:
    """Show escaped text of one or several lines."""
    view, pieces = end_line(view)
    return evolve(view, latest=""), (*pieces, Piece("trace", f"{text}\n", style))


def note_in_answer(view: DisplayState, text: str, style: Style) -> Rendered:
    """Show a line in the middle of an answer, without adding a line break to the answer."""
    line_break = (Piece("trace", "\n"),) if view.line else ()
    line = Piece("trace", f"{shown_name(text, LONGEST_LINE)}\n", style)
    return evolve(view, latest=""), (*line_break, line)


def result_text(content: str, *, whole: bool = False) -> str:
    """Format a result for the screen: its first lines and the number of omitted ones. Later lines are indented."""
    text = shown_text(content.rstrip(" \t\r\n"))
    lines = text.split("\n") if text.strip() else ["(nothing)"]
    most_lines, most_characters = LONGEST_RESULT
    if not whole and (len(lines) > most_lines or len(text) > most_characters):
        shown = "\n".join(lines[:most_lines])[:most_characters].split("\n")
        left_lines, left_characters = len(lines) - len(shown), len(text) - len("\n".join(shown))
        left = f"{left_lines} more lines" if left_lines else f"{left_characters} more characters"
        lines = [*shown, f"… ({left})"]
    return "\n  ".join(lines)

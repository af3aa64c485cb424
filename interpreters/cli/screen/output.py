"""Show events: as text on two streams, or as JSON lines on one. Both are observers of an agent.

An agent drops an observer that raises, and a session without output is useless. So instead of raising, an output
remembers that its stream failed. The turn is then cancelled, and the command reports the error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cognition import to_data
from cognition.base.display import LONGEST_LINE, shown_name
from interpreters.cli.screen.render import render
from interpreters.cli.screen.styled import DisplayState, Piece, Style, end_line
from interpreters.cli.screen.terminal import StatusLine, Terminal, json_text
from interpreters.observing import events
from interpreters.observing.events import Event

WAITING: Mapping[type, Callable[[Any], str]] = {
    events.ModelCalled: lambda called: f"waiting for {'a summary' if called.purpose == 'summary' else 'the model'}",
    events.CallStarted: lambda output: f"the model writes a call of {shown_name(output.name, 40)}",
    events.CallTool: lambda effect: f"{shown_name(effect.call.name, 40)} runs",
    events.RetryPlanned: lambda _: "waiting to try again",
    events.SpawnWorker: lambda effect: f"{shown_name(effect.worker.name, 40)} works",
}
"""The spinner's label after an event, until something is shown."""


ASKS = (events.AskApproval, events.AskUser, events.ReviewPlan)
"""Questions for the user. A spinner must not cover the answer."""


class Output(ABC):
    """The common part of both outputs: remembering that a stream failed."""

    def __init__(self) -> None:
        self.failure: OSError | None = None
        """The error of the failed stream; None if all is well."""
        self.on_failure: Callable[[], object] = lambda: None

    def __call__(self, event: Event) -> None:
        self.attempt(lambda: self._show(event))

    def attempt(self, write: Callable[[], object]) -> None:
        """Write something, unless writing has failed before."""
        if self.failure is not None:
            return
        try:
            write()
        except OSError as error:
            self.failure = error
            self.on_failure()

    @abstractmethod
    def note(self, text: str, style: Style = "plain") -> None:
        """Show one line that is not an event."""

    def notes(self, lines: Iterable[str], style: Style = "plain") -> None:
        for line in lines:
            self.note(line, style)

    def progress(self, text: str) -> None:  # noqa: B027 - an output that has no such line leaves it out
        """Redraw the last line, such as a progress bar. Only for text on a terminal."""

    def clear(self) -> None:  # noqa: B027 - nor has it anything to take away
        """Erase the spinner or bar and end the open line, before other output."""

    @abstractmethod
    def _show(self, event: Event) -> None:
        """Write an event."""


class Screen(Output):
    """Text: the answer on one stream, everything else on the other."""

    def __init__(self, answer: Terminal, trace: Terminal, *, verbose: bool = False) -> None:
        super().__init__()
        on_terminal = trace.is_terminal or verbose
        self._view = DisplayState(thinking=on_terminal, summary=on_terminal, whole=verbose)
        self._channels = {"answer": answer, "trace": trace}
        self._status = StatusLine(trace)
        self._label = ""

    def note(self, text: str, style: Style = "plain") -> None:
        self.attempt(lambda: self._write((Piece("trace", f"{shown_name(text, LONGEST_LINE)}\n", style),)))

    def progress(self, text: str) -> None:
        self._status.show(text)

    def clear(self) -> None:
        self._status.clear()
        self._view, pieces = end_line(self._view)
        self.attempt(lambda: self._write(pieces))

    def _show(self, event: Event) -> None:
        self._view, pieces = render(self._view, event)
        self._write(pieces)
        value = event.value
        if isinstance(value, ASKS):
            self._status.clear()
            return
        ours = event.session == self._view.session  # and no worker's, for whose end is waited
        waiting = WAITING.get(type(value)) if ours else None
        if waiting is not None:
            self._label = waiting(value)
        elif ours and isinstance(value, events.TextDelta | events.ReasoningDelta | events.TurnFinished):
            self._label = ""
            self._status.clear()
        elif not pieces:
            return
        if self._label and not self._view.line:
            self._status.spin(self._label)

    def _write(self, pieces: tuple[Piece, ...]) -> None:
        if pieces:
            self._status.clear()
        for piece in pieces:
            self._channels[piece.channel].write(piece.text, piece.style)


class JsonLines(Output):
    """One event per line on stdout. Warnings also go to stderr, for the user."""

    def __init__(self, out: Terminal, err: Terminal) -> None:
        super().__init__()
        self._out, self._err = out, err

    def note(self, text: str, style: Style = "plain") -> None:
        if style in ("warning", "error"):
            self.attempt(lambda: self._err.write_line(text, style))

    def _show(self, event: Event) -> None:
        self._out.write(event_line(event) + "\n")


def event_line(event: Event) -> str:
    """Return one event as a line without its newline, readable by ``from_data``. Omits fields with default values."""
    return json_text(to_data(event), separators=(",", ":"), allow_nan=False)

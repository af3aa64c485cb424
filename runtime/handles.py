"""What callers hold: a runtime and its generations. Handles pass plain values to the owner's thread and back."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue

from attrs import define, field

from cognition import Failure, ModelRequest, Usage
from cognition.parsing import Output
from runtime.local import LocalEngine
from runtime.owner import Owner
from runtime.protocol import Done, ModelInfo, Timings

LONGEST_WAIT = 0.5
"""Seconds of one wait for the owner's thread. Python runs a signal's handler when a wait ends or is interrupted; one
that comes in the microseconds before the wait begins would otherwise be seen with the next token only."""


@define(eq=False)
class _Ticket:
    """One submitted request, as both sides see it."""

    outputs: SimpleQueue[Output | Done] = field(factory=SimpleQueue)
    cancelled: threading.Event = field(factory=threading.Event)


@define(eq=False)
class _Desk:
    """What the callers' threads and the owner's thread share."""

    interrupt: Callable[[], None]
    """The engine's; looks at the flags below."""
    closing: bool = False

    def cancel(self, ticket: _Ticket) -> None:
        ticket.cancelled.set()
        self.interrupt()

    def close(self) -> None:
        self.closing = True
        self.interrupt()


class LocalGeneration:
    """A reply of a local model on its way; see ``runtime.Generation``."""

    def __init__(self, runtime: LocalRuntime, desk: _Desk, ticket: _Ticket) -> None:
        self._runtime = runtime  # a runtime that nobody else holds lives as long as its replies
        self._desk = desk
        self._ticket = ticket
        self._ended = False

    def __iter__(self) -> Iterator[Output | Done]:
        return self

    def __next__(self) -> Output | Done:
        if self._ended:
            raise StopIteration
        while True:
            try:
                output = self._ticket.outputs.get(timeout=LONGEST_WAIT)
            except Empty:  # a chance for the handler of a signal that came in the instant before the wait
                continue
            self._ended = isinstance(output, Done)
            return output

    def cancel(self) -> None:
        self._desk.cancel(self._ticket)


class LocalRuntime:
    """A local model; see ``runtime.Runtime``. Made by ``runtime.load_model``.

    Usable in a ``with`` statement. A runtime that is no longer held, or still open when the program ends, is closed.
    """

    def __init__(self, owner: Owner[LocalEngine]) -> None:
        """Take over an owner whose engine is ready."""
        self._owner = owner
        self._info, interrupt = owner.call(lambda engine: (engine.info, engine.interrupt))
        self._desk = _Desk(interrupt)
        # Closes a runtime that is no longer held, and any that is still open when the program ends.
        self._shut = weakref.finalize(self, _shut_down, owner, self._desk)

    def submit(self, request: ModelRequest) -> LocalGeneration:
        ticket = _Ticket()
        submitted = time.monotonic()
        desk = self._desk

        def job(engine: LocalEngine) -> None:
            try:
                engine.submit(
                    request,
                    emit=ticket.outputs.put,
                    finish=ticket.outputs.put,
                    stopped=lambda: desk.closing or ticket.cancelled.is_set(),
                    submitted=submitted,
                )
            except BaseException as error:  # the caller has to hear of it, and the thread to go on
                failure = Failure(f"{type(error).__name__}: {error}", kind="fatal")
                ticket.outputs.put(Done("", "", (), (), "error", Usage(), Timings(), failure))

        self._owner.put(job)
        return LocalGeneration(self, desk, ticket)

    def count_tokens(self, request: ModelRequest) -> int:
        return self._owner.call(lambda engine: len(engine.prompt(request)))

    def describe(self) -> ModelInfo:
        return self._info

    def close(self) -> None:
        self._shut()
        self._owner.close()  # once more: waits for the thread also where another caller has just begun to close

    def __enter__(self) -> LocalRuntime:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _shut_down(owner: Owner[LocalEngine], desk: _Desk) -> None:
    desk.close()
    owner.close()

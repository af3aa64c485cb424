"""The program of a model's child process: one thread reads lines, another runs the model, answers are lines.

It always ends when its parent closes the connection or ends, even during native code.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cognition import ConfigError, ModelRequest
from cognition.parsing import Output
from runtime.children.line_pipe import LineSplitter, refusal
from runtime.isolated import wire
from runtime.local.handles import LocalRuntime, RequestSubmitter, Submission
from runtime.local.loading import load_engine
from runtime.local.owner import Owner
from runtime.models.specs import Source
from runtime.protocol.model import Done

if TYPE_CHECKING:
    from runtime.local.engine import LocalEngine

LoadEngine = Callable[[wire.Load, Callable[[float], bool]], "LocalEngine"]
"""Creates the engine on its owner's thread; receives a callback for progress."""


def main() -> NoReturn:
    """Serve the parent that started this process; the one argument is the descriptor of the connection to it."""
    Server(socket.socket(fileno=int(sys.argv[1])), load).run()


def load(message: wire.Load, on_progress: Callable[[float], bool]) -> LocalEngine:
    """Load the real engine; tests pass their own."""
    source = Source(message.backend, Path(message.path))
    return load_engine(source, message.context_tokens, message.threads, message.options, on_progress, message.chosen)


class Server:
    """One engine and the connection to its parent."""

    def __init__(self, connection: socket.socket, load: LoadEngine) -> None:
        self._connection = connection
        self._load = load
        self._sending = threading.Lock()
        self._steps = 0
        self._submitter: RequestSubmitter | None = None
        self._local: LocalRuntime | None = None
        self._making = threading.Lock()
        self._tickets: dict[int, Submission] = {}
        self._open: set[int] = set()
        """Ids without an answer so far."""
        self._produced: list[tuple[int, Output | Done]] = []
        """Outputs since the last step; used only on the owner's thread."""

    def run(self) -> NoReturn:
        """Run until the parent closes the connection or ends."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; it says what is to end
        messages = self._messages()
        first = next(messages)
        assert isinstance(first, wire.Load)
        threading.Thread(target=self._send_pulses, args=(first.pulse,), name="cogstep pulse", daemon=True).start()
        self.owner: Owner[LocalEngine] = Owner(
            lambda: self._load(first, self._send_progress),
            lambda engine: engine.close(),
            step=self._step,
            name=Path(first.path).name,
        )
        self.owner.ready.add_done_callback(self._send_ready)
        for message in messages:
            if isinstance(message, wire.Close):
                break
            self.handle(message)
        if self._submitter is not None:
            self._submitter.close()
        self.owner.close()  # its last steps send what came of everything
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(0)  # nothing is left to be done, and libraries take their time to come apart

    def handle(self, message: wire.Message) -> None:
        """Handle one message; runs on the reading thread."""
        match message:
            case wire.Submit(number, request, submitted, owner):
                self._submit(number, request, submitted, owner)
            case wire.Cancel(number):
                ticket = self._tickets.get(number)
                if ticket is not None:  # else its end and the cancel have met on their way
                    ticket.cancel()
            case wire.Count(number, request):
                self._count(number, lambda engine: wire.Counted(number, len(engine.prompt(request))))
            case wire.CountTexts(number, texts):
                self._count(number, lambda engine: wire.Counted(number, 0, engine.count_texts(texts)))
            case wire.Save(number, request, path):
                self._keep(number, lambda runtime: runtime.save_cache(request, path))
            case wire.Restore(number, path):
                self._keep(number, lambda runtime: runtime.restore_cache(path))
            case _:
                raise AssertionError(f"a parent does not say {message!r}")

    def send(self, line: bytes) -> None:
        """Send a line. Blocks while the parent does not read: nothing piles up, and the model does not run ahead."""
        try:
            with self._sending:
                self._connection.sendall(line)
        except OSError:  # there is nobody to tell
            os._exit(0)

    # ----------------------------------------------------------------------------------------- on the reader's thread

    def _messages(self) -> Iterator[wire.Message]:
        lines = LineSplitter(wire.TO_CHILD)
        with contextlib.suppress(OSError):
            while data := self._connection.recv(1 << 16):
                for line in lines.feed(data):
                    yield wire.from_parent(line)
        os._exit(0)

    def _submit(self, number: int, request: ModelRequest, submitted: float, owner: int) -> None:
        assert self._submitter is not None, "nothing is submitted before the model stands"
        self._open.add(number)

        def put(piece: Output | Done) -> None:
            self._produced.append((number, piece))
            if isinstance(piece, Done):
                self._open.discard(number)
                self._tickets.pop(number, None)

        self._tickets[number] = self._submitter.submit(request, put, submitted, owner)
        if number not in self._open:  # it has come to its end already, on the other thread
            self._tickets.pop(number, None)

    def _count(self, number: int, count: Callable[[LocalEngine], wire.Counted]) -> None:
        self._open.add(number)
        self.owner.put(lambda engine: self._answer(number, lambda: count(engine)))

    def _keep(self, number: int, do: Callable[[LocalRuntime], int]) -> None:
        """Runs on its own thread, since it waits for the engine and then for the disk."""
        self._open.add(number)
        work = (number, lambda: wire.Counted(number, do(self._runtime())))
        threading.Thread(target=self._answer, args=work, name="cogstep cache", daemon=True).start()

    def _runtime(self) -> LocalRuntime:
        with self._making:
            if self._local is None:  # one at all: it closes its owner when nobody holds it any more
                self._local = LocalRuntime(self.owner)
            return self._local

    # ------------------------------------------------------------------------------------------ on the owner's thread

    def _send_progress(self, fraction: float) -> bool:
        self._steps += 1
        self.send(wire.encode(wire.Loading(fraction)))
        return True

    def _send_ready(self, ready: Future[None]) -> None:
        if (error := ready.exception()) is None:
            self.owner.put(self._open_submitter)
        else:
            self.send(wire.encode(wire.LoadFailed(refusal(error))))

    def _open_submitter(self, engine: LocalEngine) -> None:
        self._submitter = RequestSubmitter(self.owner, engine)
        self.send(wire.encode(wire.Ready(engine.info)))

    def _answer(self, number: int, counted: Callable[[], wire.Counted]) -> None:
        answer: wire.Message
        try:
            answer = counted()
        except BaseException as error:  # whatever it is, it is the caller's
            answer = wire.NotCounted(number, refusal(error))
        self._open.discard(number)
        self.send(wire.encode(answer))

    def _step(self, engine: LocalEngine) -> bool:
        """Run one step and send its outputs, and those of earlier jobs, in one line per batch."""
        more = engine.step(self._between_batches)
        self._send_produced()
        return more

    def _between_batches(self) -> bool:
        self._send_produced()
        return self.owner.wanted()

    def _send_produced(self) -> None:
        self._steps += 1
        if self._produced:
            produced, self._produced = tuple(self._produced), []
            try:
                line = wire.encode(wire.Produced(produced))
            except ConfigError as error:  # a reply that no line holds: nothing of it can be told
                print(f"error: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            self.send(line)

    # ------------------------------------------------------------------------------------------ on the pulse's thread

    def _send_pulses(self, pulse: float) -> None:
        """Send pulses with the step count while an answer is pending.

        Native code that hangs does not stop this thread. Only an unchanged step count shows the hang.
        """
        while True:
            time.sleep(pulse)
            if self._open or self._submitter is None:
                self.send(wire.encode(wire.Pulse(self._steps)))

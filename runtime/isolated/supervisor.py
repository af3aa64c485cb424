"""The thread that keeps a model's process running, tracks pending requests, and handles the end of the process.

    ┌──▶ start ─▶ load ─▶ serve ─▶ it ends, or takes too long ──▶ sent requests fail as transient ─┐
    │                                                                                              │
    └──────────────── wait a little, unless it is the first time in a row ◀────────────────────────┘

Unsent requests and all counting questions go to the next process.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import count
from queue import Empty, SimpleQueue

from attrs import define, field

from cognition import CogstepError, Failure, ModelRequest
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.parsing import Output
from runtime.children.line_pipe import LineSplitter, ProtocolError
from runtime.errors import LoadCancelledError, ModelProcessError, RuntimeClosedError
from runtime.isolated import wire
from runtime.isolated.process import CHILD, Child
from runtime.isolated.settings import Isolation
from runtime.isolated.wire import Counted
from runtime.protocol.done import done_of
from runtime.protocol.model import Done, ModelInfo


class HangDetector:
    """Judges one process.

    A pulse only proves that the process lives. A changed step count, or a message from a step, proves that native code
    makes progress; a heartbeat thread alone cannot.
    """

    def __init__(self, settings: Isolation) -> None:
        self._settings = settings
        self.tick: float = settings.silence / 4
        """Seconds until the next check. A longer wait counts only as this much: if this program was stopped or the
        machine slept, its length proves nothing about the child.
        """
        self._quiet = 0.0
        self._stuck = 0.0
        self._steps = -1
        self._heard = False
        self.loading = True
        """While loading, only ``Loading`` messages count as progress, not steps."""

    def rest(self) -> None:
        """Reset both timers: the process is idle."""
        self._quiet = self._stuck = 0.0

    def note_message(self, message: wire.Message) -> None:
        """Note a message of the process."""
        self._heard = True
        self._quiet = 0.0
        if not isinstance(message, wire.Pulse):
            self._stuck = 0.0
        elif message.steps != self._steps and not self.loading:
            self._steps = message.steps
            self._stuck = 0.0

    def wait(self, seconds: float) -> str:
        """Note elapsed seconds; return the problem with the process, or an empty text."""
        seconds = min(seconds, self.tick)
        self._quiet += seconds
        self._stuck += seconds if self._heard else 0.0
        settings = self._settings
        silence = settings.silence if self._heard else settings.start
        if self._quiet >= silence:
            return f"the model's process gave no sign of life for {silence:g} s and was killed"
        if self._stuck >= settings.deadline:
            return f"the model's process came no further for {settings.deadline:g} s and was killed"
        return ""


@define(eq=False)
class PendingReply:
    """A pending reply."""

    id: int
    line: bytes
    over: Callable[[], None] = lambda: None
    """Called once, right before ``Done`` is delivered."""
    outputs: SimpleQueue[Output | Done] = field(factory=SimpleQueue)
    cancelled: bool = False
    ended: bool = False
    seen: list[Output] = field(factory=list)
    size: int = 0
    """Bytes of memory that ``seen`` takes."""

    def end(self, failure: Failure | None = None) -> None:
        """Deliver a ``Done`` in place of the process's own; its usage is then unknown. Does nothing after the end.

        Without a failure, or if the reply was cancelled, it ends as cancelled.
        """
        if self.ended:
            return
        self.ended = True
        self.over()
        failure = None if self.cancelled else failure
        self.outputs.put(done_of(self.seen, "error" if failure else "cancelled", failure))


@define(eq=False)
class PendingQuestion:
    """A pending question for one or several numbers."""

    id: int
    line: bytes
    answer: Future[Counted] = field(factory=Future)


Pending = PendingReply | PendingQuestion

LOG = logging.getLogger("cogstep")

MOST_OUTPUT = 1 << 26
"""Maximum bytes of memory of all pending replies' pieces: more than half a million tokens. A child that sends more is
broken.
"""

PIECE = 100
"""Bytes of memory that a piece takes beside its text."""

MOST_PULSES = 1000
"""Signs of life that a child may send beyond twice the requested number."""

MOST_STEPS = 60
"""Maximum time until a child that reports steps also delivers: a piece of a reply or the answer to a question. In
units of the deadline of one step; an answer may wait for running replies and a disk.
"""

MOST_PIECES = 8
"""Maximum pieces of a reply for each token of the context: a token may open and end calls."""

CLOSE, PIECE_DUE = 0, -1
"""Keys of ``_due`` that no reply has as its number: the end of the process, and the next piece of any reply."""

MOST_LOADING = 100_000

PROCESS_ENDED = "model_process_ended"
"""``Failure.code`` of requests that were running when the process ended."""


class Supervisor:
    """Runs a child, and restarts it if needed, until closed.

    Args:
        prepare: returns the ``Load`` message. Runs on the supervisor's thread; may be slow, and may raise.
        settings: timeouts and restarts.
        name: of the model, for messages.
        on_progress: receives the progress of the first load, on the supervisor's thread; False cancels it.
        module: the module whose ``main`` the child runs.
    """

    def __init__(
        self,
        prepare: Callable[[], wire.Load],
        settings: Isolation,
        *,
        name: str,
        on_progress: Callable[[float], bool],
        module: str = CHILD,
    ) -> None:
        self.name = name
        self.ready: Future[ModelInfo] = Future()
        self.starts: int = 0
        self._prepare = prepare
        self._settings = settings
        self._on_progress = on_progress
        self._module = module
        self._numbers = count(1)
        self._mailbox: SimpleQueue[Pending] = SimpleQueue()
        """New requests and questions, and once more each reply that was cancelled."""
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        # So that no letter can slip in behind the last one. The supervisor's thread never waits for it while it works.
        self._door = threading.Lock()
        self._closing = False
        self._child: Child | None = None
        self._standing = False
        self._unsent = bytearray()
        self._waiting: dict[int, Pending] = {}
        """Not sent yet, since the child has not loaded its model."""
        self._sent: dict[int, Pending] = {}
        self._due: dict[int, float] = {}
        """Deadlines of answers, of the ends of cancelled replies, and of the end of the process."""
        self._output = 0
        """Bytes of memory of all pending replies."""
        self._begun = 0.0
        self._pulses = self._loads = 0
        """The number of its pulses and of its progress messages."""
        self._deaths = 0
        """Consecutive ends."""
        self._reloading = ""
        """Why the child could not load a model that an earlier child had loaded."""
        self._broken: Failure | None = None
        """Set once it is not restarted any more."""
        self._thread = threading.Thread(target=self._run, name=f"cogstep process of {name}", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------------------------------------- from any thread

    @property
    def pid(self) -> int | None:
        """The id of the current process; None between two."""
        child = self._child
        return child.pid if child is not None else None

    def submit(self, request: ModelRequest, owner: int = 0, over: Callable[[], None] = lambda: None) -> PendingReply:
        """Start a reply for an owner. ``over`` is called once, right before its ``Done`` is delivered.

        Raises:
            RuntimeClosedError: after ``close()``.
        """
        number = next(self._numbers)
        reply = PendingReply(number, wire.encode(wire.Submit(number, request, time.monotonic(), owner)), over)
        self._put(reply)
        return reply

    def ask(self, message: Callable[[int], wire.Question]) -> wire.Counted:
        """Ask for token counts and wait for them; ``message`` builds the question from its number.

        Raises:
            RuntimeClosedError: ``close()`` was called before or during the wait.
            ModelProcessError: the process is not restarted any more.
            CogstepError: the error that the child raised.
        """
        number = next(self._numbers)
        question = PendingQuestion(number, wire.encode(message(number)))
        self._put(question)
        return question.answer.result()

    def cancel(self, reply: PendingReply) -> None:
        """Cancel a reply. Takes no lock, so a signal handler may call it."""
        reply.cancelled = True
        self._mailbox.put(reply)
        self._ring()

    def close(self) -> None:
        """End pending replies as cancelled, end the process, and wait for both. May be called twice."""
        self.abandon()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def abandon(self) -> None:
        """Like ``close``, without waiting."""
        with self._door:
            self._closing = True
        self._ring()

    def _put(self, pending: Pending) -> None:
        with self._door:
            if self._closing:
                raise RuntimeClosedError(self.name)
            self._mailbox.put(pending)
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # it is awake already, or has ended
            self._ringer.send(b"\0")

    # --------------------------------------------------------------------------------------- on the supervisor's thread

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            try:
                load = wire.encode(self._prepare())
                while not self._closing:
                    reason = self._run_child(selector, load)
                    if not self._closing:
                        self._handle_death(reason)
                        self._pause(selector, None if self._broken else self._settings.delay(self._deaths))
                raise RuntimeClosedError(self.name)
            except BaseException as error:  # what failed to load, and what nobody thought of
                self._stop(error)

    def _run_child(self, selector: selectors.BaseSelector, load: bytes) -> str:
        self.starts += 1
        self._reloading = ""
        try:
            child = Child(self._module)
        except OSError as error:
            return f"no process can be started ({error.strerror})"
        self._unsent = bytearray(load)
        self._standing, self._output, self._loads = False, 0, 0
        self._due.clear()
        self._begun, self._pulses = time.monotonic(), 0
        selector.register(child.connection, selectors.EVENT_READ)
        selector.register(child.said, selectors.EVENT_READ)
        self._child = child
        try:
            self._serve(selector, child)
        except ProtocolError as error:
            child.kill(f"the model's process said what can't be right ({error}) and was killed")
        except BaseException:  # nobody wants it any more, or it could not load the model
            child.kill()
            raise
        finally:
            self._child = None
            self._standing = False
            for stream in (child.connection, child.said):
                if stream in selector.get_map():
                    selector.unregister(stream)
            reason = child.end()
        return f"the model can't be loaded again ({self._reloading})" if self._reloading else reason

    def _serve(self, selector: selectors.BaseSelector, child: Child) -> None:
        lines, detector, told = LineSplitter(wire.FROM_CHILD), HangDetector(self._settings), False
        while True:
            self._read_mailbox()
            if self._closing and not told:
                if not self._standing:
                    child.kill()
                    return
                self._unsent += wire.encode(wire.Close())
                self._due[CLOSE] = time.monotonic() + self._settings.deadline
                told = True
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
            if wanted != selector.get_key(child.connection).events:
                selector.modify(child.connection, wanted)
            busy = not self._standing or told or bool(self._sent)
            detector.loading = not self._standing
            if not busy:
                detector.rest()
            if not self._sent:
                self._due.pop(PIECE_DUE, None)
            before = time.monotonic()
            for key, events in selector.select(detector.tick if busy else None):
                if key.fileobj is self._bell:
                    self._drain()
                elif key.fileobj is child.said:
                    if not child.listen():
                        selector.unregister(child.said)
                elif not self._exchange(child, events, lines, detector):
                    return
            now = time.monotonic()
            wrong = detector.wait(now - before) if busy else ""
            if self._due and min(self._due.values()) <= now:
                wrong = wrong or "the model's process lives, but did not answer in time, and was killed"
            if wrong:
                child.kill(wrong)
                return

    def _exchange(self, child: Child, events: int, lines: LineSplitter, detector: HangDetector) -> bool:
        """Send and receive without blocking; return False at the end of the connection."""
        if events & selectors.EVENT_WRITE:
            try:
                del self._unsent[: child.connection.send(self._unsent)]
            except BlockingIOError:
                pass
            except OSError:  # it has ended; what it said before that is still to be read
                self._unsent.clear()
        if not events & selectors.EVENT_READ:
            return True
        try:
            data = child.connection.recv(1 << 18)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        for line in lines.feed(data):
            message = wire.from_child(line)
            detector.note_message(message)
            self._handle_message(message, len(line))
        return bool(data) and not self._reloading

    def _handle_message(self, message: wire.FromChild, length: int) -> None:
        match message:
            case wire.Produced(items):
                if not items:
                    raise ProtocolError("that it has nothing to say")
                self._due[PIECE_DUE] = time.monotonic() + MOST_STEPS * self._settings.deadline
                for number, piece in items:
                    self._hand_over(number, piece, PIECE + length // len(items))
            case wire.Counted(number):
                self._take_question(number).set_result(message)
            case wire.NotCounted(number, refusal):
                self._take_question(number).set_exception(wire.error_of(refusal))
            case wire.Pulse():
                self._pulses += 1
                asked = 4 * (time.monotonic() - self._begun) / self._settings.silence
                if self._pulses > 2 * asked + MOST_PULSES:
                    raise ProtocolError("far more signs of life than were asked for")
            case _ if self._standing:
                raise ProtocolError(f"{message.tag} after its model was there")
            case wire.Loading(fraction):
                self._loads += 1
                if self._loads > MOST_LOADING:
                    raise ProtocolError("no end of news of how far it is")
                if not self.ready.done() and not self._on_progress(fraction):
                    raise LoadCancelledError(f"loading {self.name} was cancelled", spec=self.name)
            case wire.Ready(info):
                self._standing = True
                if not self.ready.done():
                    self.ready.set_result(info)
                for one in tuple(self._waiting.values()):
                    self._send(one)
                self._waiting.clear()
            case wire.LoadFailed(refusal):
                if not self.ready.done():
                    raise wire.error_of(refusal)
                self._reloading = refusal.message

    def _hand_over(self, number: int, piece: Output | Done, size: int) -> None:
        reply = self._sent.get(number)
        if not isinstance(reply, PendingReply):
            raise ProtocolError(f"a piece of a reply {number}, for which nobody waits")
        if isinstance(piece, Done):
            self._settle(number)
            self._output -= reply.size
            self._deaths = 0  # it works
            reply.ended = True
            reply.over()
        else:
            reply.size += size
            self._output += size
            most = MOST_PIECES * (1000 + self.ready.result().context_tokens)
            if self._output > MOST_OUTPUT or len(reply.seen) > most:
                raise ProtocolError("a reply that is longer than any can be")
            reply.seen.append(piece)
        reply.outputs.put(piece)

    def _take_question(self, number: int) -> Future[wire.Counted]:
        question = self._sent.get(number)
        if not isinstance(question, PendingQuestion):
            raise ProtocolError(f"an answer to {number}, which is no question")
        self._settle(number)
        return question.answer

    def _settle(self, number: int) -> None:
        del self._sent[number]
        self._due.pop(number, None)

    def _letters(self) -> Iterator[Pending]:
        with contextlib.suppress(Empty):
            while True:
                yield self._mailbox.get_nowait()

    def _read_mailbox(self) -> None:
        for pending in self._letters():
            if isinstance(pending, PendingReply) and pending.cancelled:
                self._withdraw(pending)
            elif self._broken is not None:
                self._refuse(pending, self._broken)
            elif self._standing:
                self._send(pending)
            else:
                self._waiting[pending.id] = pending

    def _withdraw(self, reply: PendingReply) -> None:
        if reply.id in self._sent:
            self._unsent += wire.encode(wire.Cancel(reply.id))
            self._due.setdefault(reply.id, time.monotonic() + self._settings.deadline)
        else:
            self._waiting.pop(reply.id, None)
            reply.end()

    def _send(self, pending: Pending) -> None:
        self._sent[pending.id] = pending
        self._unsent += pending.line
        self._due.setdefault(PIECE_DUE, time.monotonic() + MOST_STEPS * self._settings.deadline)
        if isinstance(pending, PendingQuestion):
            self._due[pending.id] = time.monotonic() + MOST_STEPS * self._settings.deadline

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._bell.recv(4096):
                pass

    def _handle_death(self, reason: str) -> None:
        """Handle the end of a process. One that had loaded, or should have loaded again, is replaced."""
        if not self.ready.done():
            raise ModelProcessError(f"{reason} while it loaded {self.name}", spec=self.name)
        self._deaths += 1
        if self._deaths > self._settings.restarts:
            times = "" if self._deaths == 1 else f", the {self._deaths}th time in a row"
            self._broken = Failure(f"{reason}{times}; it is not started again", kind="fatal", code=PROCESS_ENDED)
            LOG.error("%s: %s", shown_name(self.name), shown_name(self._broken.message, LONGEST_LINE))
        else:
            LOG.warning("%s: %s; it is started again", shown_name(self.name), shown_name(reason, LONGEST_LINE))
        failure = self._broken or Failure(f"{reason}; it is started again", kind="transient", code=PROCESS_ENDED)
        sent, self._sent = self._sent, {}
        for pending in sent.values():
            if isinstance(pending, PendingReply):
                pending.end(failure)
            else:  # to ask twice does no harm
                self._waiting[pending.id] = pending
        if self._broken is not None:
            waiting, self._waiting = self._waiting, {}
            for pending in waiting.values():
                self._refuse(pending, self._broken)

    def _refuse(self, pending: Pending, failure: Failure) -> None:
        if isinstance(pending, PendingReply):
            pending.end(failure)
        else:
            pending.answer.set_exception(ModelProcessError(failure.message, spec=self.name))

    def _pause(self, selector: selectors.BaseSelector, seconds: float | None) -> None:
        """Wait before the next start, answering letters; None waits until ``close``."""
        end = None if seconds is None else time.monotonic() + seconds
        while not self._closing:
            self._read_mailbox()
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return
            if selector.select(left):
                self._drain()

    def _stop(self, error: BaseException) -> None:
        closed = isinstance(error, RuntimeClosedError)
        with self._door:
            self._closing = True
        if not self.ready.done():
            cancelled = LoadCancelledError(f"loading {self.name} was cancelled", spec=self.name)
            self.ready.set_exception(cancelled if closed else error)
        elif not isinstance(error, CogstepError):
            LOG.error("%s: the supervisor of its process failed", shown_name(self.name), exc_info=error)
        for pending in (*self._sent.values(), *self._waiting.values(), *self._letters()):
            if isinstance(pending, PendingReply):
                pending.end(None if closed else Failure(f"{type(error).__name__}: {error}", kind="fatal"))
            else:
                pending.answer.set_exception(RuntimeClosedError(self.name))
        self._bell.close()
        self._ringer.close()

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
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from queue import Empty, SimpleQueue

from cognition import CogstepError, Failure, ModelRequest
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.parsing import Output
from runtime.children.line_pipe import Lines, ProtocolError
from runtime.errors import LoadCancelledError, ModelProcessError, RuntimeClosedError
from runtime.isolated import wire
from runtime.isolated._pending_replies import Letter, Question, Reply, Withdrawal
from runtime.isolated._timeouts import Patience
from runtime.isolated.process import CHILD, Child
from runtime.isolated.settings import Isolation
from runtime.protocol.model import Done, ModelInfo

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
        self.starts = 0
        self._prepare = prepare
        self._settings = settings
        self._on_progress = on_progress
        self._module = module
        self._numbers = count(1)
        self._letters: SimpleQueue[Letter] = SimpleQueue()
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        # So that no letter can slip in behind the last one. The supervisor's thread never waits for it while it works.
        self._door = threading.Lock()
        self._closing = False
        self._child: Child | None = None
        self._standing = False
        self._unsent = bytearray()
        self._waiting: dict[int, Reply | Question] = {}
        """Not sent yet, since the child has not loaded its model."""
        self._sent: dict[int, Reply | Question] = {}
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

    def submit(self, request: ModelRequest, owner: int = 0, over: Callable[[], None] = lambda: None) -> Reply:
        """Start a reply for an owner. ``over`` is called once, right before its ``Done`` is delivered.

        Raises:
            RuntimeClosedError: after ``close()``.
        """
        number = next(self._numbers)
        reply = Reply(number, wire.encode(wire.Submit(number, request, time.monotonic(), owner)), over)
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
        question = Question(number, wire.encode(message(number)))
        self._put(question)
        return question.answer.result()

    def cancel(self, reply: Reply) -> None:
        """Cancel a reply. Takes no lock, so a signal handler may call it."""
        reply.cancelled = True
        self._letters.put(Withdrawal(reply))
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

    def _put(self, letter: Reply | Question) -> None:
        with self._door:
            if self._closing:
                raise RuntimeClosedError(self.name)
            self._letters.put(letter)
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # it is awake already, or has ended
            self._ringer.send(b"\0")

    # --------------------------------------------------------------------------------------- on the supervisor's thread

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            try:
                self._keep_running(selector)
            except BaseException as error:  # what failed to load, and what nobody thought of
                self._stop(error)
            else:
                self._stop(RuntimeClosedError(self.name))

    def _keep_running(self, selector: selectors.BaseSelector) -> None:
        load = wire.encode(self._prepare())
        while True:
            reason = self._live(selector, load)
            if self._closing:
                return
            if not self.ready.done():
                raise ModelProcessError(f"{reason} while it loaded {self.name}", spec=self.name)
            self._mourn(reason)
            self._pause(selector, None if self._broken else self._settings.delay(self._deaths))

    def _live(self, selector: selectors.BaseSelector, load: bytes) -> str:
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
        lines, patience, told = Lines(wire.FROM_CHILD), Patience(self._settings), False
        while True:
            self._read_letters()
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
            patience.loading = not self._standing
            if not busy:
                patience.rest()
            if not self._sent:
                self._due.pop(PIECE_DUE, None)
            before = time.monotonic()
            for key, events in selector.select(patience.tick if busy else None):
                if key.fileobj is self._bell:
                    self._drain()
                elif key.fileobj is child.said:
                    if not child.listen():
                        selector.unregister(child.said)
                elif not self._exchange(child, events, lines, patience):
                    return
            now = time.monotonic()
            wrong = patience.wait(now - before) if busy else ""
            if self._due and min(self._due.values()) <= now:
                wrong = wrong or "the model's process lives, but did not answer in time, and was killed"
            if wrong:
                child.kill(wrong)
                return

    def _exchange(self, child: Child, events: int, lines: Lines, patience: Patience) -> bool:
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
            patience.hear(message)
            self._hear(message, len(line))
        return bool(data) and not self._reloading

    def _hear(self, message: wire.FromChild, length: int) -> None:
        match message:
            case wire.Produced(items):
                if not items:
                    raise ProtocolError("that it has nothing to say")
                self._due[PIECE_DUE] = time.monotonic() + MOST_STEPS * self._settings.deadline
                for number, piece in items:
                    self._hand_over(number, piece, PIECE + length // len(items))
            case wire.Counted(number):
                self._answered(number).set_result(message)
            case wire.NotCounted(number, refusal):
                self._answered(number).set_exception(wire.error_of(refusal))
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
        if not isinstance(reply, Reply):
            raise ProtocolError(f"a piece of a reply {number}, for which nobody waits")
        if isinstance(piece, Done):
            self._settled(number)
            self._output -= reply.size
            self._deaths = 0  # it works
            reply.over()
        else:
            reply.size += size
            self._output += size
            most = MOST_PIECES * (1000 + self.ready.result().context_tokens)
            if self._output > MOST_OUTPUT or len(reply.seen) > most:
                raise ProtocolError("a reply that is longer than any can be")
            reply.seen.append(piece)
        reply.outputs.put(piece)

    def _answered(self, number: int) -> Future[wire.Counted]:
        question = self._sent.get(number)
        if not isinstance(question, Question):
            raise ProtocolError(f"an answer to {number}, which is no question")
        self._settled(number)
        return question.answer

    def _settled(self, number: int) -> None:
        del self._sent[number]
        self._due.pop(number, None)

    def _read_letters(self) -> None:
        while True:
            try:
                letter = self._letters.get_nowait()
            except Empty:
                return
            match letter:
                case Withdrawal(reply):
                    self._withdraw(reply)
                case Reply() if letter.cancelled:
                    letter.end("cancelled")
                case Reply() | Question() if self._broken is not None:
                    self._refuse(letter, self._broken)
                case Reply() | Question():
                    if self._standing:
                        self._send(letter)
                    else:
                        self._waiting[letter.id] = letter

    def _withdraw(self, reply: Reply) -> None:
        if reply.id in self._sent:
            self._unsent += wire.encode(wire.Cancel(reply.id))
            self._due.setdefault(reply.id, time.monotonic() + self._settings.deadline)
        elif self._waiting.pop(reply.id, None) is not None:
            reply.end("cancelled")

    def _send(self, letter: Reply | Question) -> None:
        self._sent[letter.id] = letter
        self._unsent += letter.line
        self._due.setdefault(PIECE_DUE, time.monotonic() + MOST_STEPS * self._settings.deadline)
        if isinstance(letter, Question):
            self._due[letter.id] = time.monotonic() + MOST_STEPS * self._settings.deadline

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._bell.recv(4096):
                pass

    def _mourn(self, reason: str) -> None:
        """Handle the end of a process that had loaded, or should have loaded again."""
        self._deaths += 1
        if self._deaths > self._settings.restarts:
            times = "" if self._deaths == 1 else f", the {self._deaths}th time in a row"
            self._broken = Failure(f"{reason}{times}; it is not started again", kind="fatal", code=PROCESS_ENDED)
            LOG.error("%s: %s", shown_name(self.name), shown_name(self._broken.message, LONGEST_LINE))
        else:
            LOG.warning("%s: %s; it is started again", shown_name(self.name), shown_name(reason, LONGEST_LINE))
        failure = self._broken or Failure(f"{reason}; it is started again", kind="transient", code=PROCESS_ENDED)
        sent, self._sent = self._sent, {}
        for letter in sent.values():
            if isinstance(letter, Reply):
                letter.fail(failure)
            else:  # to ask twice does no harm
                self._waiting[letter.id] = letter
        if self._broken is not None:
            waiting, self._waiting = self._waiting, {}
            for letter in waiting.values():
                self._refuse(letter, self._broken)

    def _refuse(self, letter: Reply | Question, failure: Failure) -> None:
        if isinstance(letter, Reply):
            letter.fail(failure)
        else:
            letter.answer.set_exception(ModelProcessError(failure.message, spec=self.name))

    def _pause(self, selector: selectors.BaseSelector, seconds: float | None) -> None:
        """Wait before the next start, answering letters; None waits until ``close``."""
        end = None if seconds is None else time.monotonic() + seconds
        while not self._closing:
            self._read_letters()
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return
            if selector.select(left):
                self._drain()

    def _stop(self, error: BaseException) -> None:
        with self._door:
            self._closing = True
        if not self.ready.done():
            closed = isinstance(error, RuntimeClosedError)
            self.ready.set_exception(
                LoadCancelledError(f"loading {self.name} was cancelled", spec=self.name) if closed else error
            )
        elif not isinstance(error, CogstepError):
            LOG.error("%s: the supervisor of its process failed", shown_name(self.name), exc_info=error)
        left: list[Letter] = [*self._sent.values(), *self._waiting.values()]
        with contextlib.suppress(Empty):
            while True:
                left.append(self._letters.get_nowait())
        for letter in left:
            if isinstance(letter, Reply):
                if isinstance(error, RuntimeClosedError):
                    letter.end("cancelled")
                else:
                    letter.fail(Failure(f"{type(error).__name__}: {error}", kind="fatal"))
            elif isinstance(letter, Question):
                letter.answer.set_exception(RuntimeClosedError(self.name))
        self._bell.close()
        self._ringer.close()

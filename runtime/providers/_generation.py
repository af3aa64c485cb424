"""A reply of a remote model in progress: a worker thread sends it, the iterating thread reads it."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import httpcore2
from attrs import evolve, frozen

from cognition import Failure, FinishReason
from cognition.wire import Decoder, WireRequest, decode_error
from runtime.protocol.model import Done, Timings
from runtime.providers._connection import LONGEST_ERROR, Connection, RequestFailedError, Response, redirect_failure
from runtime.providers._credentials import scrub, scrub_failure
from runtime.providers._exchange import LONGEST_WAIT, Exchange, NoIdleConnectionError
from runtime.providers.backends import Price
from runtime.threads.workers import WORKERS

if TYPE_CHECKING:
    from cognition.parsing import Output
    from runtime.protocol.model import Runtime

MOST_DRAINED = 4
"""Maximum pieces to read after the end of a reply."""

CUT = Failure("the reply was cancelled", "transient", code="cancelled")
"""Passed to the decoder to end a cancelled reply. It never appears in a ``Done``."""

BROKEN = Failure("reading the reply was interrupted", "transient", code="interrupted")

ELSEWHERE = Failure("the reply is the parent's, which this process has been forked from", "transient", code="forked")


REDIRECTS = range(300, 400)


@frozen
class RemoteCall:
    """The parts of the runtime that one reply uses."""

    connection: Connection
    wire: WireRequest
    decoder: Decoder
    price: Price | None
    over: Callable[[], object]
    """Called once, at the end of the reply."""


class RemoteGeneration:
    """See ``runtime.Generation``. Garbage collection cancels it, so that the server can stop."""

    def __init__(self, runtime: Runtime, exchange: Exchange, call: RemoteCall) -> None:
        self._runtime = runtime  # a runtime that nobody else holds lives as long as its replies
        self._exchange = exchange
        self._call = call
        self._began = time.monotonic()
        self._first: float | None = None
        self._heads: SimpleQueue[Response | Failure | None] = SimpleQueue()
        """Receives the worker's result of the request, or None from ``cancel``."""
        self._answer: Response | None = None
        self._pieces: Iterator[bytes] | None = None
        self._reading = False
        self._unsent: list[Exchange] = []
        """Contains the exchange until a thread takes and sends it: the worker, or the iterating thread if earlier."""
        self._ready: deque[Output | Done] = deque()
        self._ended = False
        self._over = False

    def begin(self) -> None:
        """Send the request on another thread, unless the iterating thread comes first."""
        if self._call.connection.has_idle():  # then only the answer takes time
            self._unsent.append(self._exchange)
            WORKERS.run_unless_taken(self._unsent, partial(_send_next, self._call, self._unsent, self._heads))
        else:
            WORKERS.run(partial(_send, self._call, self._exchange, self._heads))

    def refuse(self, failure: Failure) -> None:
        """Fail, instead of ``begin``."""
        self._heads.put(failure)

    def __iter__(self) -> Iterator[Output | Done]:
        return self

    def __next__(self) -> Output | Done:
        while not self._ready:
            if self._ended:
                raise StopIteration
            self._advance()
        return self._ready.popleft()

    def _advance(self) -> None:
        if not self._exchange.is_ours:
            self._finish(ELSEWHERE)
            return
        if self._reading:  # an exception, such as KeyboardInterrupt, came out of the middle of the last read
            self._finish(BROKEN)
            return
        if self._pieces is None:
            self._await_head()
            return
        self._reading = True
        try:
            data = next(self._pieces, None)
        except Exception as error:
            self._finish(self._call.connection.failure(error, self._exchange))
            return
        self._reading = False
        if data is None:
            self._finish(None)
            return
        outputs = self._call.decoder.feed(data)
        if outputs:
            if self._first is None:
                self._first = time.monotonic()
            self._ready.extend(outputs)
        if self._call.decoder.over:
            self._drain()
            self._finish(None)
        elif self._exchange.check_content(bool(outputs)):
            self._finish(self._call.connection.failure(httpcore2.ReadTimeout(), self._exchange))

    def _drain(self) -> None:
        """Read the few bytes after the reply that end the response, so that the connection can be reused."""
        assert self._pieces is not None
        self._exchange.hurry()
        with contextlib.suppress(Exception):
            for _ in zip(range(MOST_DRAINED), self._pieces, strict=False):
                pass

    def _await_head(self) -> None:
        self._reading = True  # first: what is taken below is lost where an exception, as of a signal, comes behind it
        if self._unsent:
            self._send_here()
        left = self._exchange.seconds_left()
        try:
            head = self._heads.get(timeout=LONGEST_WAIT if left is None else min(LONGEST_WAIT, max(0.0, left)))
        except Empty:
            if left is not None and left <= 0:  # the worker may be held up where no timeout reaches, as by a name
                self._exchange.stop("late")
            elif self._exchange.stopped is None:
                self._reading = False
                return
            head = None
        if isinstance(head, Response):
            self._answer = head
            self._exchange.start_reply()
            self._pieces = head.body
            self._reading = False
            if self._exchange.stopped is not None:
                self._finish(None)
        elif head is not None or self._exchange.stopped is not None:
            self._finish(head)

    def _send_here(self) -> None:
        """Send the request here, unless the worker has begun or a new connection is needed: only a worker can be
        abandoned while connecting.
        """
        with contextlib.suppress(IndexError):
            exchange = self._unsent.pop()
            exchange.only_kept = True
            try:
                _send(self._call, exchange, self._heads)
            except NoIdleConnectionError:
                exchange.only_kept = False
                WORKERS.run(partial(_send, self._call, exchange, self._heads))

    def _finish(self, failure: Failure | None) -> None:
        """End the reply, after a failure or the end of the response."""
        stopped = self._exchange.stopped
        self._leave()
        if stopped == "cancelled":
            failure = CUT
        elif stopped == "late":
            self._exchange.waits = "whole"
            failure = self._call.connection.failure(httpcore2.ReadTimeout(), self._exchange)
        reply = self._call.decoder.finish(failure)
        reason: FinishReason = reply.finish_reason
        failed = reply.failure
        if stopped == "cancelled" and failed is not None:
            reason, failed = "cancelled", None
        usage, price, backend = reply.usage, self._call.price, self._call.connection.backend
        if not usage.cost and price is not None:
            usage = evolve(usage, cost=price.of(usage))
        self._ended = True
        self._ready.extend(reply.outputs)
        failed = None if failed is None else scrub_failure(failed, backend)
        warnings = (*self._call.wire.warnings, *(scrub(one, backend) for one in reply.warnings))
        said = (reply.text, reply.reasoning, reply.calls, reply.malformed)
        self._ready.append(Done(*said, reason, usage, self._timings(), failed, warnings, reply.continuation))

    def _timings(self) -> Timings:
        if self._first is None:
            return Timings(time.monotonic() - self._began)
        waited = self._first - self._began
        return Timings(waited, time.monotonic() - self._first, waited)

    # ------------------------------------------------------------------------------------------------ on any thread

    def cancel(self) -> None:
        """See ``Generation.cancel``. It closes the connection, so the server notices."""
        if not self._ended and self._exchange.stop("cancelled"):
            self._heads.put(None)

    def _leave(self) -> None:
        if self._over:
            return
        self._over = True
        try:
            if self._exchange.is_ours and self._answer is None:
                self._exchange.stop("cancelled")  # whatever may still come, as of a worker that still connects
                _empty(self._heads)
            elif self._exchange.is_ours and self._answer is not None:
                with contextlib.suppress(Exception):
                    self._answer.close()
        finally:  # also where a signal's exception comes: a request that is counted for ever takes a place in the queue
            self._call.over()

    def __del__(self) -> None:
        if hasattr(self, "_over"):
            self._leave()


def _send_next(call: RemoteCall, unsent: list[Exchange], heads: SimpleQueue[Response | Failure | None]) -> None:
    """Send a request that no other thread has taken."""
    with contextlib.suppress(IndexError):
        _send(call, unsent.pop(), heads)


def _send(call: RemoteCall, exchange: Exchange, heads: SimpleQueue[Response | Failure | None]) -> None:
    """Send a request and queue its result. References no generation, so an abandoned one can be collected."""
    backend, wire = call.connection.backend, call.wire
    try:
        answer = call.connection.send(exchange, wire.path, wire.headers, wire.body)
    except RequestFailedError as error:
        heads.put(error.failure)
        return
    if 200 <= answer.status < 300:
        heads.put(answer)
        if exchange.stopped is not None:  # nobody may be there any more to take it
            _empty(heads)
            heads.put(None)
        return
    try:
        body = answer.read(LONGEST_ERROR)
    except Exception:  # the status says enough
        body = b""
    if answer.status in REDIRECTS:
        failure = redirect_failure(answer.status, answer.headers.get("location", ""), backend)
    else:
        failure = decode_error(backend.dialect, answer.status, answer.headers, body)
    heads.put(scrub_failure(failure, backend))


def _empty(heads: SimpleQueue[Response | Failure | None]) -> None:
    """Close responses that were not taken."""
    with contextlib.suppress(Empty):
        while True:
            head = heads.get_nowait()
            if isinstance(head, Response):
                head.close()

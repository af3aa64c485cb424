"""One request and its response, stoppable from any thread at any time, and the sockets for it.

``StoppableNetwork`` is a network backend of httpcore (httpx's connection library). Its streams know their current
exchange, obey its timeouts, and shut down when it is stopped. So a stopped reply ends immediately, and the server sees
the connection close, even before its first byte.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import httpcore2

from runtime.providers.backends import Timeouts

StopReason = Literal["cancelled", "late"]

Wait = Literal["connect", "first", "silence", "heartbeats", "whole"]
"""The current wait, named after a field of ``Timeouts``."""


LONGEST_WAIT = 0.5
"""Seconds of one wait. Python runs signal handlers when a wait ends or is interrupted. A signal in the microseconds
before a wait would otherwise be handled much later.
"""

HURRY = 0.2
"""Seconds for the bytes that end a response; they arrive with the last bytes of its reply, or right after them."""


STALE = 2.0
"""A reused connection that fails within this many seconds counts as already closed by the server."""


class _CurrentExchange(threading.local):
    """The exchange that this thread is starting, for the connections that it opens or reuses."""

    exchange: Exchange | None = None
    request: object = None
    """A marker object for the request being sent."""


_now = _CurrentExchange()


class NoIdleConnectionError(Exception):
    """No idle connection is available, and the thread must not wait for a new connection."""


class Exchange:
    """One request in progress. ``stop`` may be called from any thread, the rest only from the thread that sends or
    reads.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self.stopped: StopReason | None = None
        self.waits: Wait = "connect"
        """The last wait; after a timeout, the reason."""
        self.only_kept = False
        """Whether it may only use an idle connection, since its thread cannot be woken while it connects."""
        self._timeouts = timeouts
        self._process = os.getpid()
        self._lock = threading.RLock()  # a signal handler may stop what its own thread is just stopping
        self._line: StoppableStream | None = None
        self._due = None if timeouts.whole is None else time.monotonic() + timeouts.whole
        self._waits: Wait = "first"
        self._seconds = timeouts.first
        """The current wait for the socket, and its limit."""
        self._words = 0.0
        self._head_due: float | None = None
        """Deadline of the response's head, set when waiting for it starts."""

    @property
    def is_ours(self) -> bool:
        """Whether this process created it.

        A forked process shares the connection but must neither read nor close it. Locks in the fork may never be
        released.
        """
        return self._process == os.getpid()

    def stop(self, reason: StopReason) -> bool:
        """End it soon, unless it is over; return whether this call was the first. From any thread, also from a signal
        handler.

        In a forked process it does nothing.
        """
        if not self.is_ours:
            return False
        with self._lock:
            if self.stopped is not None:
                return False
            self.stopped = reason
            line = self._line
        if line is not None:
            line.shut_down(self)
        return True

    @contextlib.contextmanager
    def on_this_thread(self) -> Iterator[None]:
        """Assign connections opened and requests sent in the block to this exchange."""
        before, _now.exchange = _now.exchange, self
        _now.request = object()
        self._head_due = None
        try:
            yield
        finally:
            _now.exchange = before

    def start_reply(self) -> None:
        """The reply has begun: start to measure silence."""
        self._waits, self._seconds = "silence", self._timeouts.silence
        self._words = time.monotonic()

    def check_content(self, said: bool) -> bool:
        """Return whether the server has sent only signs of life for too long; ``said``: this piece had content."""
        now = time.monotonic()
        if said:
            self._words = now
        elif now - self._words > self._timeouts.heartbeats:
            self.waits = "heartbeats"
            return True
        return False

    def hurry(self) -> None:
        """The reply is complete: limit the remaining wait to ``HURRY``."""
        now = time.monotonic() + HURRY
        self._due = now if self._due is None else min(self._due, now)

    def seconds_left(self) -> float | None:
        """Return the seconds until the deadline of the whole exchange; None without a limit."""
        return None if self._due is None else self._due - time.monotonic()

    def timeout(self, connecting: bool = False, reading: bool = False) -> float:
        """Return the seconds to wait for the socket now.

        A head that arrives byte by byte has the same limit as a missing head.
        """
        self.waits, seconds = ("connect", self._timeouts.connect) if connecting else (self._waits, self._seconds)
        if reading and self._waits == "first":
            now = time.monotonic()
            if self._head_due is None:
                self._head_due = now + seconds
            seconds = self._head_due - now
        left = self.seconds_left()
        if left is not None and left < seconds:
            self.waits, seconds = "whole", left
        return seconds

    def assign(self, line: StoppableStream) -> None:
        """Assign this line to the exchange."""
        with self._lock:
            self._line = line
            stopped = self.stopped is not None
        if stopped:
            line.shut_down(self)


class StoppableStream(httpcore2.NetworkStream):
    """A connection that carries one exchange after another.

    A server may silently close a connection after a reply: llama-server does so after each. The next request then finds
    the connection closed before any answer, and moves to another connection, as in curl and browsers. This is not a
    retry: a new connection, or one that has received a byte, is never replaced.
    """

    def __init__(self, inner: httpcore2.NetworkStream, exchange: Exchange | None, *, direct: bool = True) -> None:
        """Carry the exchange that opened it; with None, the first that writes.

        Without ``direct``, all data goes through ``inner``.
        """
        self._inner = inner
        self._socket: socket.socket | None = inner.get_extra_info("socket") if direct else None
        """The socket to read and write directly: the layers of ``inner`` take longer than the system calls. None for
        TLS within TLS, which has no own socket.
        """
        self._lock = threading.RLock()
        self._exchange = exchange
        self._head = b""
        """The head of a request, sent together with its body: one packet, one system call."""
        self._request: object = _now.request
        self._used_until = 0.0
        """Until this time, a closed connection counts as closed before the request; 0 for a new connection."""
        self._shut = False
        self._twin: socket.socket | None = None
        """A second handle of the connection during a TLS handshake, which detaches the first."""
        if exchange is not None:
            exchange.assign(self)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        exchange = self._exchange
        if exchange is not None:
            timeout = exchange.timeout(reading=True)
            if timeout <= 0:
                raise httpcore2.ReadTimeout("its time is over")
        if self._head:  # of a request without a body
            with contextlib.suppress(httpcore2.WriteError):  # as the pool does: the server may have answered by now
                self._send(b"", timeout)
        if not self._used_until:
            return self._receive(max_bytes, timeout)
        until, self._used_until = self._used_until, 0.0
        try:
            data = self._receive(max_bytes, timeout)
        except httpcore2.ReadError:
            data = b""
        if not data and time.monotonic() < until and (exchange is None or exchange.stopped is None):
            raise httpcore2.ConnectionNotAvailable
        return data

    def _receive(self, max_bytes: int, timeout: float | None) -> bytes:
        bare = self._socket
        if bare is None:
            return self._inner.read(max_bytes, timeout)
        due = None if timeout is None else time.monotonic() + timeout
        left = timeout
        while left is None or left > 0:
            try:
                bare.settimeout(LONGEST_WAIT if left is None else min(left, LONGEST_WAIT))
                return bare.recv(max_bytes)
            except TimeoutError:
                left = None if due is None else due - time.monotonic()
            except OSError as error:
                raise httpcore2.ReadError(str(error)) from error
        raise httpcore2.ReadTimeout("its time is over")

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        exchange = _now.exchange
        if exchange is not None:
            if _now.request is not self._request:
                self._take_over(exchange)
                self._head = buffer
                return
            timeout = exchange.timeout()
            if timeout <= 0:
                raise httpcore2.WriteTimeout("its time is over")
        if buffer or self._head:
            self._send(buffer, timeout)

    def _send(self, buffer: bytes, timeout: float | None) -> None:
        if self._head:
            buffer, self._head = self._head + buffer, b""
        bare = self._socket
        if bare is None:
            self._inner.write(buffer, timeout)
            return
        try:
            bare.settimeout(timeout)
            bare.sendall(buffer)
        except TimeoutError as error:
            raise httpcore2.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore2.WriteError(str(error)) from error

    def _take_over(self, exchange: Exchange) -> None:
        """Carry another request.

        The previous one may have been stopped right at its end. The line is then unusable, and the pool takes another.
        """
        with self._lock:
            if self._shut:
                raise httpcore2.ConnectionNotAvailable
            self._exchange = exchange
        self._request = _now.request
        self._used_until = time.monotonic() + STALE
        exchange.assign(self)

    def shut_down(self, exchange: Exchange) -> None:
        """Shut the connection down in both directions, which wakes its reader, unless it already carries another
        exchange.
        """
        with self._lock:
            if self._exchange is not exchange or self._shut:
                return
            self._shut = True
            bare = self._twin or self._inner.get_extra_info("socket")
            with contextlib.suppress(OSError):  # it is closed by now
                # Of the bare socket: a TLS socket's own method would take its state from under whoever reads.
                socket.socket.shutdown(bare, socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            self._shut = True
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        exchange = self._exchange
        if exchange is not None:
            timeout = max(0.001, exchange.timeout(connecting=True))
        bare = self._inner.get_extra_info("socket")
        direct = not isinstance(bare, ssl.SSLSocket)
        with self._stoppable(bare) if direct else contextlib.nullcontext():
            inner = self._inner.start_tls(ssl_context, server_hostname, timeout)
        line = StoppableStream(inner, exchange, direct=direct)
        line._request = self._request
        return line

    @contextlib.contextmanager
    def _stoppable(self, bare: socket.socket) -> Iterator[None]:
        """Keep ``shut_down`` working in the block while its socket object is replaced."""
        try:
            twin = bare.dup()
        except OSError as error:  # closed by now, or no more files may be open
            raise httpcore2.ConnectError(str(error)) from error
        with twin:
            self._twin = twin
            try:
                yield
            finally:
                with self._lock:
                    self._twin = None

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class StoppableNetwork(httpcore2.NetworkBackend):
    """Opens lines."""

    def __init__(self) -> None:
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        exchange = _now.exchange
        if exchange is not None:
            if exchange.only_kept:
                raise NoIdleConnectionError
            timeout = max(0.001, exchange.timeout(connecting=True))
        return StoppableStream(self._inner.connect_tcp(host, port, timeout, local_address, socket_options), exchange)

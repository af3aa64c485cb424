"""One request and its response, which any thread may stop at any time, and the sockets that make that possible.

``Lines`` is a network backend of httpcore (the part of httpx that holds connections): its streams know whose exchange
they carry at the moment, wait no longer than that one allows, and are shut down when it is stopped. So a reply that is
waited for ends at once, and the server sees the connection close, also where it has not said a word yet.
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
"""What is waited for: the fields of ``Timeouts``."""


LONGEST_WAIT = 0.5
"""Seconds of one wait. Python runs a signal's handler when a wait ends or is interrupted; one that comes in the
microseconds before the wait begins would otherwise be seen much later."""

HURRY = 0.2
"""Seconds for the bytes that end a response, which come with the last ones of its reply, or at once behind them."""


STALE = 2.0
"""Seconds within which a connection that had been closed by the server shows it, once it is used again."""


class _Carried(threading.local):
    """The exchange that this thread begins, for the lines that it gets."""

    exchange: Exchange | None = None
    request: object = None
    """Stands for the one request of it that is sent now."""


_now = _Carried()


class NoKeptLineError(Exception):
    """No connection is open that the request can go over, and its thread is not to wait for a new one."""


class Exchange:
    """One request on its way. ``stop`` is for any thread; all else for the one that sends or reads just now."""

    def __init__(self, timeouts: Timeouts) -> None:
        """Begin to count its time."""
        self.stopped: StopReason | None = None
        self.waits: Wait = "connect"
        """What it waited for last, and so what took too long where that is the failure."""
        self.only_kept = False
        """Whether it is sent by a thread that can't be woken while it connects, and so must not."""
        self._timeouts = timeouts
        self._process = os.getpid()
        self._lock = threading.RLock()  # a signal handler may stop what its own thread is just stopping
        self._line: Line | None = None
        self._due = None if timeouts.whole is None else time.monotonic() + timeouts.whole
        self._waits: Wait = "first"
        self._seconds = timeouts.first
        """What the socket is waited for, and how long."""
        self._words = 0.0
        """When the reply said something last."""
        self._head_due: float | None = None
        """When the head of the response has to be there, once it is waited for."""

    @property
    def ours(self) -> bool:
        """Whether it was begun in this process.

        One that has been forked since has the same connection, which it must neither read nor end, and locks that
        nobody may ever release in it.
        """
        return self._process == os.getpid()

    def stop(self, reason: StopReason) -> bool:
        """End it soon, if it isn't over yet. From any thread, a signal handler too; whether it was the first to.

        In a process that has been forked since, it does nothing.
        """
        if not self.ours:
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
        """What is connected or sent within is this exchange's."""
        before, _now.exchange = _now.exchange, self
        _now.request = object()
        self._head_due = None
        try:
            yield
        finally:
            _now.exchange = before

    def answered(self) -> None:
        """The reply has begun: from now on silence is measured."""
        self._waits, self._seconds = "silence", self._timeouts.silence
        self._words = time.monotonic()

    def only_lives(self, said: bool) -> bool:
        """Whether what came shows for too long that the server lives, and no more; ``said``: it said something."""
        now = time.monotonic()
        if said:
            self._words = now
        elif now - self._words > self._timeouts.heartbeats:
            self.waits = "heartbeats"
            return True
        return False

    def hurry(self) -> None:
        """The reply is whole: what still comes is waited for no longer than ``HURRY``."""
        now = time.monotonic() + HURRY
        self._due = now if self._due is None else min(self._due, now)

    def left(self) -> float | None:
        """Seconds until the whole of it has to be over; None without a limit."""
        return None if self._due is None else self._due - time.monotonic()

    def patience(self, connecting: bool = False, reading: bool = False) -> float:
        """Seconds to wait for the socket now.

        A head that comes byte by byte is waited for no longer than one that does not come.
        """
        self.waits, seconds = ("connect", self._timeouts.connect) if connecting else (self._waits, self._seconds)
        if reading and self._waits == "first":
            now = time.monotonic()
            if self._head_due is None:
                self._head_due = now + seconds
            seconds = self._head_due - now
        if self._due is not None:
            left = self._due - time.monotonic()
            if left < seconds:
                self.waits, seconds = "whole", left
        return seconds

    def holds(self, line: Line) -> None:
        """It is carried by this line from now on."""
        with self._lock:
            self._line = line
            stopped = self.stopped is not None
        if stopped:
            line.shut_down(self)


class Line(httpcore2.NetworkStream):
    """A connection that one exchange after another goes over.

    A server may close a connection behind a reply without a word: llama-server does so after each. The next request
    then meets its end in place of an answer, and goes over another connection, as it does in curl and in browsers. That
    is no retry: a connection that was not used before, or on which a byte has come, is never replaced.
    """

    def __init__(self, inner: httpcore2.NetworkStream, exchange: Exchange | None, *, direct: bool = True) -> None:
        """Carry the exchange that has opened it; None: until the first writes, nobody's.

        Without ``direct``, all goes through ``inner``.
        """
        self._inner = inner
        self._socket: socket.socket | None = inner.get_extra_info("socket") if direct else None
        """What is read and written here, without the layers of ``inner``, which take longer than the calls to the
        system. None: TLS within TLS, which has no socket of its own."""
        self._lock = threading.RLock()
        self._exchange = exchange
        self._head = b""
        """The head of a request, which goes out with its body: one packet, and one call to the system."""
        self._request: object = _now.request
        self._used_until = 0.0
        """Until when the end of the connection is taken for one that had come before: 0 while it is new."""
        self._shut = False
        self._twin: socket.socket | None = None
        """During a handshake, another handle of the connection: the one that ``inner`` has is given away there."""
        if exchange is not None:
            exchange.holds(self)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        exchange = self._exchange
        if exchange is not None:
            timeout = exchange.patience(reading=True)
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
            timeout = exchange.patience()
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

        The last one may have been stopped in the instant in which it ended by itself; then this line is of no use any
        more, and the pool takes another.
        """
        with self._lock:
            if self._shut:
                raise httpcore2.ConnectionNotAvailable
            self._exchange = exchange
        self._request = _now.request
        self._used_until = time.monotonic() + STALE
        exchange.holds(self)

    def shut_down(self, exchange: Exchange) -> None:
        """End the connection both ways, which wakes whoever waits at it, unless it carries another exchange by now."""
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
            timeout = max(0.001, exchange.patience(connecting=True))
        bare = self._inner.get_extra_info("socket")
        direct = not isinstance(bare, ssl.SSLSocket)
        with self._stoppable(bare) if direct else contextlib.nullcontext():
            inner = self._inner.start_tls(ssl_context, server_hostname, timeout)
        line = Line(inner, exchange, direct=direct)
        line._request = self._request
        return line

    @contextlib.contextmanager
    def _stoppable(self, bare: socket.socket) -> Iterator[None]:
        """Within, ``shut_down`` ends the connection though its socket object is made another one meanwhile."""
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


class Lines(httpcore2.NetworkBackend):
    """Opens lines."""

    def __init__(self) -> None:
        """Open none yet."""
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
                raise NoKeptLineError
            timeout = max(0.001, exchange.patience(connecting=True))
        return Line(self._inner.connect_tcp(host, port, timeout, local_address, socket_options), exchange)

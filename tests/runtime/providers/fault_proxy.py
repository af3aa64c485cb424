"""A proxy between a client and a server that does to replies what networks and servers do to them.

    with FaultProxy(server.port) as proxy:
        proxy.next(Fault("cut", after=200))       # the next request meets it; those behind it are left alone
        load_model(f"http://127.0.0.1:{proxy.port}/v1|small")

It understands HTTP, so that a fault stands where it is meant to: in the middle of an event, or between two.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, get_args

from attrs import frozen

FaultKind = Literal[
    "none", "refuse", "status", "cut", "reset", "half_event", "garble", "delay", "silence", "no_answer", "slow", "html"
]
"""What is done, always after ``after`` bytes of the body where a body comes:

===========  ========================================================================================
none         nothing
refuse       the connection is closed before the request was read
no_answer    the request is read, and the connection closed
status       an answer with ``status`` in place of the server's, which is never asked
html         a page of HTML with the status of success
cut          the connection is closed within the body
reset        the same, by a reset (RST)
half_event   half an event more, and then an end as if the reply was whole
garble       the bytes of one event are others, and all goes on
delay        everything waits ``seconds`` before the head
silence      nothing more comes, while the connection stands, for ``seconds``
slow         a byte at a time
===========  ========================================================================================
"""

KINDS: tuple[FaultKind, ...] = get_args(FaultKind)


@frozen
class Fault:
    """What happens to one request."""

    kind: FaultKind = "none"
    after: int = 0
    """Bytes of the body that come through."""
    status: int = 500
    seconds: float = 0.05
    headers: tuple[tuple[str, str], ...] = ()
    """Of an answer with a ``status``."""
    body: str = '{"error": {"message": "a fault of the proxy", "type": "server_error"}}'


NONE = Fault()

OF_A_CONNECTION = ("transfer-encoding", "content-length", "connection", "keep-alive", "server", "date")
"""Headers of an answer that are the proxy's own."""


class FaultProxy:
    """Listens on a free port of the loopback device, and forwards to another one."""

    def __init__(self, upstream: int, plan: Callable[[int], Fault] | None = None) -> None:
        """Forward to the port ``upstream``; ``plan`` gives the fault of each POST, by its number from 0."""
        self.upstream = upstream
        self.requests = 0
        """POSTs that came."""
        self.heads: list[dict[str, str]] = []
        """Their headers, names in small letters."""
        self._next: deque[Fault] = deque()
        self._plan = plan
        self._lock = threading.Lock()
        self._server = _Listener(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.over = threading.Event()
        """Set when it closes, so that nothing sleeps on."""
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def next(self, *faults: Fault) -> None:
        """What the next requests meet, one after another; those behind them meet what the plan says."""
        self._next.extend(faults)

    def fault(self, headers: dict[str, str]) -> Fault:
        """The fault of a POST that has come."""
        with self._lock:
            number, self.requests = self.requests, self.requests + 1
            self.heads.append(headers)
            if self._next:
                return self._next.popleft()
        return self._plan(number) if self._plan is not None else NONE

    def close(self) -> None:
        """Stop listening."""
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    proxy: FaultProxy

    def handle_error(self, *_: Any) -> None:
        """A client that has gone is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def proxy(self) -> FaultProxy:
        assert isinstance(self.server, _Listener)
        return self.server.proxy

    def log_message(self, *_: Any) -> None:
        """Nothing is written anywhere."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the client has gone
            self.close_connection = True

    def do_GET(self) -> None:
        self._forward(b"", NONE)

    def do_POST(self) -> None:
        fault = self.proxy.fault({name.lower(): value for name, value in self.headers.items()})
        if fault.kind == "refuse":
            self._reset()
            return
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        match fault.kind:
            case "no_answer":
                self.close_connection = True
            case "status":
                self._answer(fault.status, fault.body.encode(), "application/json", fault.headers)
            case "html":
                self._answer(200, b"<html><body><h1>Sign in</h1></body></html>", "text/html")
            case "delay":
                self.proxy.over.wait(fault.seconds)
                self._forward(body, fault)
            case _:
                self._forward(body, fault)

    def _answer(self, status: int, body: bytes, kind: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.send_response(status)
        for name, value in (("content-type", kind), ("content-length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _forward(self, body: bytes, fault: Fault) -> None:
        upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.upstream, timeout=60)
        gone = threading.Event()
        try:
            kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            path = re.sub("^http://[^/]*", "", self.path)  # it may be asked as a proxy of the environment
            upstream.request(self.command, path, body or None, kept)
            threading.Thread(target=self._watch, args=(upstream.sock, gone), daemon=True).start()
            response = upstream.getresponse()
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in (
                    "transfer-encoding",
                    "content-length",
                    "connection",
                    "keep-alive",
                    "server",
                    "date",
                ):
                    self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self._relay(response, fault)
        except (OSError, http.client.HTTPException):  # either side has gone
            self.close_connection = True
        finally:
            gone.set()
            upstream.close()

    def _watch(self, upstream: socket.socket, over: threading.Event) -> None:
        """Closes the connection to the server once the client has closed its own, as any proxy does."""
        while not over.wait(0.01):
            with contextlib.suppress(OSError):  # it waits, or either is closed by now
                if self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                    upstream.shutdown(socket.SHUT_RDWR)
                    return

    def _relay(self, response: http.client.HTTPResponse, fault: Fault) -> None:
        sent, struck = 0, fault.kind in ("none", "delay")
        while data := response.read1(1 << 16):
            if fault.kind == "slow":
                for byte in data:
                    self._chunk(bytes([byte]))
                continue
            if struck or sent + len(data) <= fault.after:
                self._chunk(data)
                sent += len(data)
                continue
            struck = True
            whole, rest = data[: fault.after - sent], data[fault.after - sent :]
            sent += len(data)
            match fault.kind:
                case "cut":
                    self._chunk(whole)
                    self.close_connection = True
                    return
                case "reset":
                    self._chunk(whole)
                    self._reset()
                    return
                case "half_event":
                    end = rest.find(b"\n")
                    self._chunk(whole + rest[: max(1, (end if end > 0 else len(rest)) // 2)])
                    break
                case "garble":
                    self._chunk(whole + _garbled(rest))
                case "silence":
                    self._chunk(whole)
                    self.proxy.over.wait(fault.seconds)
                    self.close_connection = True
                    return
                case _:
                    self._chunk(data)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


def _garbled(data: bytes) -> bytes:
    """The same with its second half as other bytes, but for line ends: what holds events together stays."""
    half = len(data) // 2
    return data[:half] + bytes(byte if byte in b"\r\n" else byte ^ 0x15 for byte in data[half:])

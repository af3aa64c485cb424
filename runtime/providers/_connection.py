"""The connections to one backend: a pool shared by all threads, the requests over it, and what its errors mean."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import ssl
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies

import httpcore2
from attrs import frozen

from cognition import Failure
from cognition.base.display import shown_name
from cognition.base.strict_json import LENIENT
from cognition.values.outcomes import ErrorKind
from runtime.providers._credentials import LOGS, NoKeyError, key_headers, key_of, scrub_failure
from runtime.providers._exchange import Exchange, NoIdleConnectionError, StoppableNetwork
from runtime.providers.backends import URL, Backend

LONGEST_ERROR = 1 << 16
"""Maximum bytes to read of an error response's body."""

LONGEST_ANSWER = 1 << 24
"""Maximum bytes of an answer to a question, such as a list of all models."""

KEPT_IDLE = 16
"""Maximum idle connections to keep open for later requests, for ``IDLE`` seconds."""
IDLE = 15.0

AGENT = "cogstep"

LONGEST = 300
"""Maximum characters of a library's message within a failure."""

WAITED = {
    "connect": "it can't be connected to within {} s",
    "first": "it has not answered within {} s",
    "silence": "it has said nothing for {} s, in the middle of its reply",
    "heartbeats": "it has shown for {} s that it lives, and said nothing",
    "whole": "the request has taken more than {} s",
}
"""Timeout messages, by the kind of wait."""

Headers = Sequence[tuple[str, str]]


class RequestFailedError(Exception):
    """A request failed before its reply began.

    Attributes:
        failure: the failure.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@frozen
class Response:
    """A response after its head. Iterate its body to the end, or close it."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    response: httpcore2.Response

    @property
    def body(self) -> Iterator[bytes]:
        """The pieces of the body, as they arrive."""
        stream: Any = self.response.stream
        return iter(stream)

    def close(self) -> None:
        """Abandon it; this closes the connection unless the response is complete."""
        self.response.close()

    def read(self, most: int) -> bytes:
        """Return the body, but not much more than ``most`` bytes."""
        pieces, size = list[bytes](), 0
        try:
            for piece in self.body:
                pieces.append(piece)
                size += len(piece)
                if size >= most:
                    break
        finally:
            self.close()
        return b"".join(pieces)[:most]


class Connection:
    """All connections to one backend. From any thread."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        LOGS.add(backend)
        parts = urlsplit(backend.base_url)
        self._base = parts.path.rstrip("/")
        self._origin = (parts.scheme.encode(), (parts.hostname or "").encode(), parts.port)
        usual = (("host", parts.netloc), ("user-agent", AGENT), ("accept-encoding", "identity"), *backend.headers)
        self._usual = _encode_headers(usual)
        self._proxy = _proxy(proxy_for(parts.scheme, parts.hostname or "", parts.port))
        self._pool = self._open_pool()
        _ALL.add(self)

    def _open_pool(self) -> httpcore2.ConnectionPool:
        pool: Any = httpcore2.ConnectionPool(
            proxy=self._proxy,
            max_connections=None,
            max_keepalive_connections=KEPT_IDLE,
            keepalive_expiry=IDLE,
            network_backend=StoppableNetwork(),
        )
        # Its own is the same, wrapped in Python: a KeyboardInterrupt within the wrapper leaves it locked for ever.
        pool._optional_thread_lock = threading.RLock()
        made: httpcore2.ConnectionPool = pool
        return made

    def send(
        self, exchange: Exchange, path: str, headers: Headers = (), body: str | None = None, *, root: bool = False
    ) -> Response:
        """Send a request and wait for the head of its response, with any status.

        Args:
            exchange: the exchange; another thread may stop it.
            path: after the base URL's path; with ``root``, after its host.
            headers: beside those of the backend.
            body: JSON text; None for a GET.
            root: see ``path``.

        Raises:
            FailedError: there is no response, or the exchange was stopped.
            NoKeptLineError: no idle connection is left, and ``exchange.only_kept`` is set.
        """
        backend = self.backend
        try:
            secret = key_headers(backend, key_of(backend))
        except NoKeyError as error:
            raise RequestFailedError(Failure(str(error), "auth", code="no_key")) from None
        content = b"" if body is None else body.encode()
        sized = () if body is None else (("content-length", str(len(content))),)
        scheme, host, port = self._origin
        target = path if root else self._base + path
        request = httpcore2.Request(
            "GET" if body is None else "POST",
            httpcore2.URL(scheme=scheme, host=host, port=port, target=target.encode()),
            headers=[*self._usual, *_encode_headers((*sized, *headers, *secret))],
            content=content,
        )
        try:
            with exchange.on_this_thread():
                response = self._pool.handle_request(request)
        except NoIdleConnectionError:
            raise NoIdleConnectionError from None
        except Exception as error:  # from None: what it came of has the request with its headers
            raise RequestFailedError(self.failure(error, exchange)) from None
        names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        packed = names.get("content-encoding", "identity").strip().lower()
        if packed not in ("identity", ""):
            response.close()
            raise RequestFailedError(scrub_failure(compression_failure(packed, response.status, backend), backend))
        return Response(response.status, names, response)

    def has_idle(self) -> bool:
        """Return whether an idle connection seems available for the next request."""
        return any(one.is_idle() for one in self._pool.connections)

    def failure(self, error: BaseException, exchange: Exchange) -> Failure:
        """Convert a connection error to a failure."""
        return scrub_failure(failure_of(error, exchange, self.backend), self.backend)

    def ask(self, exchange: Exchange, path: str, question: Any = None, *, root: bool = False) -> Any:
        """Return the JSON of a server's answer, or None if it has no answer.

        Raises:
            FailedError: the server cannot be reached.
        """
        status, answer = self.answer(exchange, path, question, root=root)
        return answer if status == 200 else None

    def answer(self, exchange: Exchange, path: str, question: Any = None, *, root: bool = False) -> tuple[int, Any]:
        """Return the status and the JSON of a server's answer; the JSON is None if there is none.

        Raises:
            FailedError: the server cannot be reached.
        """
        body = None if question is None else json.dumps(question, ensure_ascii=False)
        headers = (("content-type", "application/json"), *self.backend.quirks.headers)
        answer = self.send(exchange, path, headers, body, root=root)
        try:
            text = answer.read(LONGEST_ANSWER)
        except Exception as error:
            raise RequestFailedError(self.failure(error, exchange)) from None
        try:
            return answer.status, LENIENT.decode(text.decode(json.detect_encoding(text)))
        except (ValueError, RecursionError):
            return answer.status, None

    def close(self) -> None:
        """Close all connections. Running requests then fail."""
        self._pool.close()


_ALL: weakref.WeakSet[Connection] = weakref.WeakSet()

_LEFT: list[httpcore2.ConnectionPool] = []
"""The parent's connections, in a forked process. They stay referenced, since closing them takes locks that threads of
the parent may have held at the fork.
"""


def _reset_after_fork() -> None:
    """Switch to new connections in a forked process: on a shared one each could receive the other's responses."""
    for connection in tuple(_ALL):
        _LEFT.append(connection._pool)
        connection._pool = connection._open_pool()


os.register_at_fork(after_in_child=_reset_after_fork)


def _encode_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers]


def _proxy(url: str | None) -> httpcore2.Proxy | None:
    if url is None:
        return None
    parts = urlsplit(url)
    bare = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    names = [unquote(text or "").encode() for text in (parts.username, parts.password)]
    return httpcore2.Proxy(bare, auth=None if parts.username is None else (names[0], names[1]))


def proxy_for(scheme: str, host: str, port: int | None) -> str | None:
    """Return the URL of the proxy for a server, or None. Reads the environment at each call.

    Args:
        scheme: ``http`` or ``https``.
        host: its name or address, without brackets.
        port: as in the URL; None for the default.
    """
    found = getproxies()
    proxy = found.get(scheme) or found.get("all")
    if not proxy:
        return None
    if any(_passes(entry.strip().lower(), host.lower(), port) for entry in found.get("no", "").split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _passes(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of ``NO_PROXY`` matches a host.

    As in httpx, ``example.com`` means this host and all subdomains, ``.example.com`` only the subdomains.
    """
    if entry in ("", "*"):
        return bool(entry)
    entry = entry.rpartition("://")[2]
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and ":" not in name:
        if int(number) != port:
            return False
        entry = name
    entry = entry.removeprefix("*")
    if entry == "localhost":
        return host == entry
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")


# ----------------------------------------------------------------------------------------------------------- failures


def failure_of(error: BaseException, exchange: Exchange, backend: Backend) -> Failure:
    """Return the failure for a connection error. It contains no headers, so no key."""
    where, cause = place_of(backend), root_of(error)
    if isinstance(error, httpcore2.TimeoutException):
        wait, seconds = exchange.waits, getattr(backend.timeouts, exchange.waits)
        kind: ErrorKind = "offline" if wait == "connect" else "transient"
        return Failure(f"{where}: {WAITED[wait].format(f'{seconds:g}')}", kind, code=f"timeout_{wait}")
    said = shown_name(str(error) or type(error).__name__, LONGEST)
    if isinstance(cause, ssl.SSLCertVerificationError):
        told = f"its certificate is not trusted ({cause.verify_message}); trust its issuer by SSL_CERT_FILE"
        return Failure(f"{where}: {told}", "fatal", code="certificate")
    if isinstance(error, httpcore2.ConnectError | httpcore2.ProxyError):
        if isinstance(cause, ssl.SSLError):
            return Failure(f"{where}: it can't be spoken to with TLS ({said}); is it http://?", "offline", code="tls")
        name = isinstance(cause, socket.gaierror)
        what = "its name is not known" if name else "it can't be connected to"
        code = "name" if name else "proxy" if isinstance(error, httpcore2.ProxyError) else "connect"
        return Failure(f"{where}: {what} ({said})", "offline", code=code)
    if isinstance(error, httpcore2.LocalProtocolError | httpcore2.UnsupportedProtocol):
        return Failure(f"{where}: the request can't be sent ({type(error).__name__})", "fatal", code="request")
    if isinstance(error, httpcore2.NetworkError | httpcore2.ProtocolError):
        return Failure(f"{where}: the connection was cut ({said})", "transient", code="cut")
    return Failure(f"{where}: {type(error).__name__}", "transient", code="cut")


def place_of(backend: Backend) -> str:
    """Return the name of a backend for messages."""
    return backend.base_url if backend.name == URL else f"{backend.name} ({backend.base_url})"


def root_of(error: BaseException) -> BaseException:
    """Return the original cause of an error."""
    seen = 0
    while (cause := error.__cause__ or error.__context__) is not None and seen < 10:
        error, seen = cause, seen + 1
    return error


def compression_failure(packed: str, status: int, backend: Backend) -> Failure:
    """Return the failure for a compressed response, since requests do not ask for one."""
    said = shown_name(packed, LONGEST)
    told = f"{place_of(backend)} answered with status {status}, and in a form that was not asked for ({said})"
    return Failure(told, "fatal" if status < 400 else None, status=status, code="compressed")


def redirect_failure(status: int, target: str, backend: Backend) -> Failure:
    """Return the failure for a redirection: following it could send the key and the conversation to another host."""
    why = "which is not followed, since it would take the conversation there; set base_url= to it if it is right"
    told = f"{place_of(backend)} redirects to {shown_name(target or 'nowhere', LONGEST)}, {why}"
    return Failure(told, "fatal", status=status, code="redirect")

"""The connections to one backend: a pool that all threads share, and the requests that go over it."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import httpcore2
from attrs import frozen

from cognition import Failure
from runtime.providers.backends import Backend
from runtime.providers.credentials import LOGS, NoKeyError, key_headers, key_of, scrubbed_failure
from runtime.providers.exchanges import Exchange, Lines, NoKeptLineError
from runtime.providers.failing import compressed, failure_of
from runtime.providers.proxies import proxy_for

LONGEST_ERROR = 1 << 16
"""Bytes of the body of an answer that is no reply; the rest of a longer one is not read."""

LONGEST_ANSWER = 1 << 24
"""Bytes of an answer to a question, such as a list of all models."""

KEPT_IDLE = 16
"""Connections that are kept open for the next request, for ``IDLE`` seconds."""
IDLE = 15.0

AGENT = "cogstep"

Headers = Sequence[tuple[str, str]]


class FailedError(Exception):
    """A request has failed before its reply began.

    Attributes:
        failure: how.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@frozen
class Answer:
    """A response whose head has come. Its body is to be iterated to its end, or closed."""

    status: int
    headers: Mapping[str, str]
    """By names in small letters."""
    response: httpcore2.Response

    @property
    def body(self) -> Iterator[bytes]:
        """The pieces of the body as they come."""
        stream: Any = self.response.stream
        return iter(stream)

    def close(self) -> None:
        """Leave it; a connection whose reply is not over is closed."""
        self.response.close()

    def read(self, most: int) -> bytes:
        """The body, of which no more than about so many bytes are read."""
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
        """Open none yet."""
        self.backend = backend
        LOGS.add(backend)
        parts = urlsplit(backend.base_url)
        self._base = parts.path.rstrip("/")
        self._origin = (parts.scheme.encode(), (parts.hostname or "").encode(), parts.port)
        usual = (("host", parts.netloc), ("user-agent", AGENT), ("accept-encoding", "identity"), *backend.headers)
        self._usual = _encoded(usual)
        self._proxy = _proxy(proxy_for(parts.scheme, parts.hostname or "", parts.port))
        self._pool = self._opened()
        _ALL.add(self)

    def _opened(self) -> httpcore2.ConnectionPool:
        pool: Any = httpcore2.ConnectionPool(
            proxy=self._proxy,
            max_connections=None,
            max_keepalive_connections=KEPT_IDLE,
            keepalive_expiry=IDLE,
            network_backend=Lines(),
        )
        # Its own is the same, wrapped in Python: a KeyboardInterrupt within the wrapper leaves it locked for ever.
        pool._optional_thread_lock = threading.RLock()
        made: httpcore2.ConnectionPool = pool
        return made

    def leave_to_parent(self) -> None:
        """In a process that was forked: go on over connections of its own.

        Over one that both have, either would be answered what the other has asked.
        """
        _LEFT.append(self._pool)
        self._pool = self._opened()

    def send(
        self, exchange: Exchange, path: str, headers: Headers = (), body: str | None = None, *, root: bool = False
    ) -> Answer:
        """Send a request and wait for the head of its response, whatever its status is.

        Args:
            exchange: what it is; it may be stopped meanwhile.
            path: behind the base URL's; with ``root``, behind its host.
            headers: besides those of the backend.
            body: JSON text; None for a GET.
            root: see ``path``.

        Raises:
            FailedError: there is no response. Of an exchange that was stopped, this too.
            NoKeptLineError: as the exchange asks.
        """
        backend = self.backend
        try:
            secret = key_headers(backend, key_of(backend))
        except NoKeyError as error:
            raise FailedError(Failure(str(error), "auth", code="no_key")) from None
        content = b"" if body is None else body.encode()
        sized = () if body is None else (("content-length", str(len(content))),)
        scheme, host, port = self._origin
        target = path if root else self._base + path
        request = httpcore2.Request(
            "GET" if body is None else "POST",
            httpcore2.URL(scheme=scheme, host=host, port=port, target=target.encode()),
            headers=[*self._usual, *_encoded((*sized, *headers, *secret))],
            content=content,
        )
        try:
            with exchange.on_this_thread():
                response = self._pool.handle_request(request)
        except NoKeptLineError:
            raise NoKeptLineError from None
        except Exception as error:  # from None: what it came of has the request with its headers
            raise FailedError(self.failure(error, exchange)) from None
        names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        packed = names.get("content-encoding", "identity").strip().lower()
        if packed not in ("identity", ""):
            response.close()
            raise FailedError(scrubbed_failure(compressed(packed, response.status, backend), backend))
        return Answer(response.status, names, response)

    def has_idle(self) -> bool:
        """Whether a connection seems to be open that the next request can go over."""
        return any(one.is_idle() for one in self._pool.connections)

    def failure(self, error: BaseException, exchange: Exchange) -> Failure:
        """The failure that an error of a connection is."""
        return scrubbed_failure(failure_of(error, exchange, self.backend), self.backend)

    def ask(self, exchange: Exchange, path: str, question: Any = None, *, root: bool = False) -> Any:
        """The JSON that a server answers a question with; None where it has no answer to it.

        Raises:
            FailedError: it can't be asked.
        """
        status, answer = self.answer(exchange, path, question, root=root)
        return answer if status == 200 else None

    def answer(self, exchange: Exchange, path: str, question: Any = None, *, root: bool = False) -> tuple[int, Any]:
        """The status of a server's answer to a question, and its JSON; None where it has none.

        Raises:
            FailedError: it can't be asked.
        """
        body = None if question is None else json.dumps(question, ensure_ascii=False)
        headers = (("content-type", "application/json"), *self.backend.habits.headers)
        answer = self.send(exchange, path, headers, body, root=root)
        try:
            text = answer.read(LONGEST_ANSWER)
        except Exception as error:
            raise FailedError(self.failure(error, exchange)) from None
        try:
            return answer.status, json.loads(text)
        except (ValueError, RecursionError):
            return answer.status, None

    def close(self) -> None:
        """Close what is open. What is on its way then fails."""
        self._pool.close()


_ALL: weakref.WeakSet[Connection] = weakref.WeakSet()

_LEFT: list[httpcore2.ConnectionPool] = []
"""The parent's, in a process that was forked. They are kept, since to close one takes locks, which may have been held
by threads that this process doesn't have."""


def _forked() -> None:
    for connection in tuple(_ALL):
        connection.leave_to_parent()


os.register_at_fork(after_in_child=_forked)


def _encoded(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers]


def _proxy(url: str | None) -> httpcore2.Proxy | None:
    if url is None:
        return None
    parts = urlsplit(url)
    bare = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    auth = None
    if parts.username is not None:
        auth = (unquote(parts.username).encode(), unquote(parts.password or "").encode())
    return httpcore2.Proxy(bare, auth=auth)

"""The SDK's transport over HTTP, on a client of ours that answers for what goes wrong: a request that could not be
sent, one that was cut off, and one that was refused end as an error of that request and of no other.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import httpx2
from mcp.types import CONNECTION_CLOSED, INTERNAL_ERROR

from interpreters.mcp.servers import MCPServer
from interpreters.mcp.sifting import LONGEST_MESSAGE, sifted

UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
"""Failures before anything was sent."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")

KEY = "cogstep"
"""In an error's data: what became of the request, as one of the words below."""
NOT_SENT, UNKNOWN, REFUSED = "unsent", "unknown", "refused"

BUSY = (429, 502, 503, 504)
"""Statuses that may pass."""


def client_for(server: MCPServer) -> httpx2.AsyncClient:
    """The client for a server's URL; it sends the server's headers, and to no other place."""
    loopback = httpx2.URL(server.url).host in LOOPBACK
    timeout = httpx2.Timeout(server.connect_timeout, read=None)  # a call has a time limit of its own
    return Client(headers=dict(server.headers), timeout=timeout, trust_env=not loopback)


class Client(httpx2.AsyncClient):
    """Gives an answer to every request, whatever happens."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            unsent = isinstance(error, UNSENT)
            why = str(error) or type(error).__name__
            return _error(request, 503, CONNECTION_CLOSED, why, NOT_SENT if unsent else UNKNOWN)
        kind = response.headers.get("content-type", "").lower()
        is_json = kind.startswith("application/json")
        if request.method == "POST" and response.status_code >= 400 and response.status_code != 404 and not is_json:
            await response.aclose()
            status = response.status_code
            said = f"it answered with HTTP {status} {_phrase(status)}".rstrip()
            fate = UNKNOWN if status >= 500 else REFUSED
            return _error(request, status, INTERNAL_ERROR, said, fate)
        stream: Any = response.stream
        response.stream = Whole(stream) if is_json else Events(stream)
        return response


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else ""


def _error(request: httpx2.Request, status: int, code: int, message: str, fate: str) -> httpx2.Response:
    error = {"code": code, "message": message, "data": {KEY: fate, "status": status}}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(status, json=body, request=request)


class Whole(httpx2.AsyncByteStream):
    """A body of JSON, in one piece, sifted. One that is cut or too long ends where it does, and is no JSON."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        data = bytearray()
        try:
            async for part in self._stream:
                data += part
                if len(data) > LONGEST_MESSAGE:
                    break
            else:
                yield sifted(bytes(data))
                return
        except httpx2.TransportError:
            pass
        yield json.dumps(f"an answer of which only {len(data)} bytes could be read").encode()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Events(httpx2.AsyncByteStream):
    """A stream of events, sifted line by line. It ends where it was cut."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun = bytearray()
        try:
            async for part in self._stream:
                whole, end, rest = part.rpartition(b"\n")
                if not end:
                    begun += rest
                else:
                    begun += whole
                    yield b"\n".join(map(sifted, bytes(begun).split(b"\n"))) + b"\n"
                    begun = bytearray(rest)
                if len(begun) > LONGEST_MESSAGE:
                    return
        except httpx2.TransportError:
            return
        if begun:
            yield bytes(begun)

    async def aclose(self) -> None:
        await self._stream.aclose()

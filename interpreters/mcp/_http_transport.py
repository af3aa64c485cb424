"""The SDK's transport over HTTP, on a client of ours that turns failures into errors of single requests.

This applies to requests that could not be sent, were cut off, or were refused; other requests are not affected.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import httpx2
from mcp.types import CONNECTION_CLOSED, INTERNAL_ERROR

from interpreters.mcp._json_limits import LONGEST_MESSAGE, limit_json
from interpreters.mcp.server_config import MCPServer

UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
"""Failures before anything was sent."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")

KEY = "cogstep"
"""In an error's data: the fate of the request, one of the words below."""
NOT_SENT, UNKNOWN, REFUSED = "unsent", "unknown", "refused"

BUSY = (429, 502, 503, 504)
"""Statuses that may be temporary."""

PARTING_SECONDS = 2.0
"""Seconds a server has to acknowledge the end of a session; the answer does not matter."""

INFLATED_AT_ONCE = 2**16
"""Maximum bytes inflated from a compressed answer before its length is checked."""


def client_for(server: MCPServer) -> httpx2.AsyncClient:
    """Return the client for a server's URL; it sends the server's headers only to that server."""
    loopback = httpx2.URL(server.url).host in LOOPBACK
    timeout = httpx2.Timeout(server.connect_timeout, read=None)  # a call has a time limit of its own
    headers = {"Accept-Encoding": "gzip", **server.headers}
    return Client(headers=headers, timeout=timeout, trust_env=not loopback)


class Client(httpx2.AsyncClient):
    """Returns a response for every request, even if it fails."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            async with asyncio.timeout(PARTING_SECONDS if request.method == "DELETE" else None):
                response = await super().send(request, **options)
        except TimeoutError:
            return httpx2.Response(504, request=request)
        except httpx2.TransportError as error:
            unsent = isinstance(error, UNSENT)
            why = str(error) or type(error).__name__
            return _error(request, 503, CONNECTION_CLOSED, why, NOT_SENT if unsent else UNKNOWN)
        kind = response.headers.get("content-type", "").lower()
        is_json = kind.startswith("application/json")
        stream: Any = response.stream
        if response.headers.pop("content-encoding", "identity").lower() != "identity":
            stream = InflatedBody(stream)
        response.stream = read = WholeBody(stream) if is_json else EventBody(stream)
        status = response.status_code
        if request.method != "POST":
            return response
        if status >= 400 and status != 404:
            body = b"".join([part async for part in read]) if is_json else b""
            await response.aclose()
            if _is_error(body):  # of the protocol, in the server's own words
                return httpx2.Response(status, headers={"content-type": kind}, content=body, request=request)
            fate = UNKNOWN if status >= 500 else REFUSED
            return _error(request, status, INTERNAL_ERROR, f"it answered with {_describe_status(status)}", fate)
        is_answer = status not in (202, 204) and (is_json or kind.startswith("text/event-stream"))
        if status < 300 and not is_answer and _awaits_answer(request):
            await response.aclose()  # whether the request was carried out, no such answer says
            said = f"it answered with {_describe_status(status)} and {kind or 'nothing'}, which is no answer"
            return _error(request, 502, INTERNAL_ERROR, said, UNKNOWN)
        return response


def _describe_status(status: int) -> str:
    return f"HTTP {status} {HTTPStatus(status).phrase if status in set(HTTPStatus) else ''}".rstrip()


def _is_error(body: bytes) -> bool:
    """Whether this is an error of the protocol. A proxy in front of the server answers with other JSON."""
    try:
        message = json.loads(body)
    except ValueError:
        return False
    return isinstance(message, dict) and "jsonrpc" in message and isinstance(message.get("error"), dict)


def _awaits_answer(request: httpx2.Request) -> bool:
    """Whether this is a request of the protocol, not a notification or a response of ours."""
    message: dict[str, Any] = json.loads(request.content)
    return "method" in message and "id" in message


def _error(request: httpx2.Request, status: int, code: int, message: str, fate: str) -> httpx2.Response:
    error = {"code": code, "message": message, "data": {KEY: fate, "status": status}}
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()


class InflatedBody(_Body):
    """A compressed body, inflated in small steps, so that the reader can stop before it fills the memory."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        inflating = zlib.decompressobj(zlib.MAX_WBITS + 32)  # by its own first bytes, gzip's or zlib's
        try:
            async for part in self._stream:
                while part:
                    yield inflating.decompress(part, INFLATED_AT_ONCE)
                    part = inflating.unconsumed_tail
        except zlib.error as error:
            raise httpx2.ReadError(f"its answer can't be inflated: {error}") from error


class WholeBody(_Body):
    """A JSON body in one piece, sifted. A body that is cut or too long becomes a JSON text that reports it."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        data = bytearray()
        try:
            async for part in self._stream:
                data += part
                if len(data) > LONGEST_MESSAGE:
                    break
            else:
                yield limit_json(bytes(data))
                return
        except httpx2.TransportError:
            pass
        yield json.dumps(f"an answer of which only {len(data)} bytes could be read").encode()


class EventBody(_Body):
    """A stream of events, sifted line by line. A truncated stream ends without an error."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun = bytearray()
        try:
            async for part in self._stream:
                begun += part
                if b"\n" in part:
                    whole, _, begun = begun.rpartition(b"\n")
                    yield b"\n".join(map(limit_json, bytes(whole).split(b"\n"))) + b"\n"
                if len(begun) > LONGEST_MESSAGE:
                    return
        except httpx2.TransportError:
            return
        if begun:
            yield bytes(begun)

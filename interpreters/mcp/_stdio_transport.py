"""The SDK's transport over a server's input and output, with limits.

Lines that are not messages are skipped. A message that is too long is answered with an error, and a message that is
nested too deeply loses only that part.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from interpreters.mcp._json_limits import LONGEST_MESSAGE, limit_json
from interpreters.mcp._server_process import CHUNK, LINGER, ServerProcess

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]

HEAD = 4096
"""Bytes of an overlong message that are searched for its id."""
ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\b')

UNREADABLE = "its answer can't be read"
TOO_LONG = f"its answer has more than {LONGEST_MESSAGE // 2**20} MiB, and was not read"


@asynccontextmanager
async def transport(child: ServerProcess) -> AsyncIterator[Streams]:
    """Yield the two streams that the SDK's session reads and writes; the first ends with the server."""
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(one) for one in (_read(child, incoming), _write(child, outgoing), _watch(child, incoming))
    ]
    try:
        yield read, write
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (incoming, read, write, outgoing):
            stream.close()


async def _read(child: ServerProcess, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    lines = LineSplitter()
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while data := await child.output.read(CHUNK):
            for line in lines.feed(data):
                message = message_of(line)
                if message is not None:
                    await incoming.send(message)
    child.quiet.set()
    incoming.close()


async def _write(child: ServerProcess, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    with suppress(OSError, RuntimeError):  # it has ended, which who reads notices
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            child.input.write(text.encode() + b"\n")
            await child.input.drain()
    outgoing.close()


async def _watch(child: ServerProcess, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    """End the connection when the process ends, even if another process still has its output open."""
    await child.ended.wait()
    await asyncio.sleep(LINGER)
    child.quiet.set()
    incoming.close()


def message_of(line: bytes) -> SessionMessage | None:
    """Return the message of a line; None if it is not a message, such as an accidental print.

    A line that can't be parsed but has an id becomes an error response, so that its request does not wait for ever.
    """
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(limit_json(line), by_name=False))
    except ValueError:
        found = ID.search(line[:HEAD])
    if found is None:
        return None
    error = JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=ErrorData(code=PARSE_ERROR, message=UNREADABLE))
    return SessionMessage(error)


class LineSplitter:
    """Splits bytes into whole lines; an overlong line becomes an error with its id."""

    def __init__(self, longest: int = LONGEST_MESSAGE) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._take(part)
            line, self._begun = bytes(self._begun), bytearray()
            if not self._skipping:
                yield line
            elif (found := ID.search(line)) is not None:
                yield _answer(int(found[1]))
            self._skipping = False
        self._take(rest)

    def _take(self, part: bytes) -> None:
        if not self._skipping:
            self._begun += part
            if len(self._begun) > self._longest:
                del self._begun[HEAD:]
                self._skipping = True


def _answer(request: int) -> bytes:
    error = JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=INTERNAL_ERROR, message=TOO_LONG))
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode()

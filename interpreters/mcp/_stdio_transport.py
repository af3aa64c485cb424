"""A server that communicates over its standard input and output: its process, and the SDK's transport to it.

The process gets the system's environment variables and those of its ``MCPServer``, but no keys of this program. A
keeper process supervises it (``runtime.children.supervisor``), as for shell commands. The keeper ends the server and
all its descendants, on Linux also those outside its process group: on request, and when this program ends for any
reason. The newest part of the server's stderr is stored and shown when the server fails.

The transport has limits. Lines that are not messages are skipped. A message that is too long is answered with an error,
and a message that is nested too deeply loses only that part.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from interpreters.mcp._json_limits import LONGEST_MESSAGE, limit_json
from interpreters.mcp.server_config import Hider, MCPServer
from interpreters.toolbox.shell.environment import environment
from runtime.children.ending import signal_name
from runtime.children.supervised_command import SupervisedCommand

GRACE = 1.0
"""Seconds to end after its input is closed, and again after SIGTERM, before SIGKILL."""
LINGER = 0.2
"""Seconds after its end for reading its output; its descendants may still run."""
STUBBORN = 3.0
"""Seconds the keeper has to kill all processes that can be killed."""
CHUNK = 1 << 16
MOST_STDERR = 4096


class UnstartableError(Exception):
    """The program does not exist, or the system can't start it."""


class ServerProcess:
    """A server's process, with its pipes as streams of the running event loop.

    Raises:
        UnstartableError: by ``start``.
    """

    input: asyncio.StreamWriter
    output: asyncio.StreamReader

    def __init__(self, keeper: SupervisedCommand, hide: Hider) -> None:
        self._keeper = keeper
        self._hide = hide
        self._said = b""
        """The newest part of its stderr."""
        self._began: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The reason why it could not be started, or an empty text once it has started."""
        self.ended = asyncio.Event()
        """Set once the process itself has ended, even if descendants still run."""
        self.quiet = asyncio.Event()
        """Set by the reader when the output has ended: no data follows, whether the process lives or not."""
        self._gone = asyncio.Event()
        """Set once the process and its descendants are gone."""
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def start(cls, server: MCPServer, hide: Hider) -> ServerProcess:
        environ = environment(server.env)
        if (program := shutil.which(server.command, path=environ.get("PATH"))) is None:
            raise UnstartableError(f"there is no program {server.command!r} that could be started")
        folder = Path(server.cwd or os.getcwd())
        if not folder.is_dir():
            raise UnstartableError(f"there is no directory {folder} for it to run in")
        (input_, writing), (output, printing), (errors, complaining) = pipes = [os.pipe() for _ in range(3)]
        given = (input_, printing, complaining)
        try:
            keeper = await asyncio.to_thread(SupervisedCommand, folder, environment(), given)
        except BaseException as error:
            for pipe in pipes:
                for end in pipe:
                    os.close(end)
            if isinstance(error, OSError):
                raise UnstartableError(f"{server.command} can't be started: {error.strerror}") from error
            raise
        for end in given:
            os.close(end)
        made = cls(keeper, hide)
        words = [os.path.abspath(program), *server.args]
        try:
            request = keeper.request(words, environ, given, linger=LINGER, grace=GRACE)
            await made._connect(writing, output, errors, request)
            if failed := await made._began:
                raise UnstartableError(f"{server.command} can't be started: {failed}")
        except BaseException:
            await made.end(at_once=True)
            raise
        return made

    async def _connect(self, writing: int, output: int, errors: int, request: bytes) -> None:
        self.input = await self._writer(os.fdopen(writing, "wb", 0))
        self.output = await self._reader(os.fdopen(output, "rb", 0))
        self._control = await self._writer(self._keeper.control)
        status = await self._reader(self._keeper.status)
        complaints = await self._reader(os.fdopen(errors, "rb", 0))
        self._tasks = (asyncio.create_task(self._listen(status)), asyncio.create_task(self._collect_errors(complaints)))
        self._control.write(request)

    async def _writer(self, pipe: object) -> asyncio.StreamWriter:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)

    async def _reader(self, pipe: object) -> asyncio.StreamReader:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(CHUNK, loop)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe)
        self._transports.append(transport)
        return reader

    async def _listen(self, status: asyncio.StreamReader) -> None:
        async for line in status:
            said = self._keeper.hear(line)
            if ("began" in said or "failed" in said) and not self._began.done():
                self._began.set_result(said.get("failed", ""))
            if "ended" in said:
                self.ended.set()
        await asyncio.to_thread(self._keeper.sweep)
        if not self._began.done():
            self._began.set_result("the process that starts it was killed")
        self.ended.set()
        self._gone.set()

    async def _collect_errors(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(CHUNK):
            self._said = (self._said + data)[-MOST_STDERR:]

    @property
    def last_words(self) -> str:
        """The newest part of its stderr, as the end of a sentence; empty if there is none."""
        said = self._hide(self._said.decode("utf-8", "replace").strip())
        return f"; it said last: {said[-1000:]}" if said else ""

    @property
    def exit_description(self) -> str:
        """A description of how it ended, with its last words; empty while it runs and has said nothing."""
        code = self._keeper.code
        if code is None:
            how = "it was killed" if self.ended.is_set() else ""
        else:
            how = f"it ended with exit code {code}" if code >= 0 else f"it was ended by {signal_name(-code)}"
        words = self.last_words
        return f"{how or 'it did not answer'}{words}" if words else how

    async def end(self, *, at_once: bool = False) -> None:
        """End it by closing its input, then by SIGTERM for it and its descendants; then kill the rest."""
        if not self._tasks:  # nobody has told the keeper yet what to keep
            self._keeper.process.kill()
            self._gone.set()
        elif not at_once:
            self.input.close()
            await _within(GRACE, self.ended)
            self._send(b"e")
            await _within(GRACE, self._gone)
        self._send(b"k")
        await _within(STUBBORN, self._gone)
        for task in self._tasks:
            with suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(task, LINGER)
        for transport in self._transports:
            transport.close()
        await asyncio.sleep(0)  # they close their pipes in the loop's next round

    def _send(self, letter: bytes) -> None:
        if not self._gone.is_set():
            self._control.write(letter)


async def _within(seconds: float, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


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
                if (message := message_of(line)) is not None:
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
    return SessionMessage(_error(int(found[1]), PARSE_ERROR, UNREADABLE))


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
                answer = _error(int(found[1]), INTERNAL_ERROR, TOO_LONG)
                yield answer.model_dump_json(by_alias=True, exclude_unset=True).encode()
            self._skipping = False
        self._take(rest)

    def _take(self, part: bytes) -> None:
        if not self._skipping:
            self._begun += part
            if len(self._begun) > self._longest:
                del self._begun[HEAD:]
                self._skipping = True


def _error(request: int, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=message))

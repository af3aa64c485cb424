"""The process of a server that is spoken to on its input and output.

It gets the variables of the system and those that it was given, no keys of this program; its own session and group,
which are killed at the end; and it ends with this program. What it prints on stderr is kept, the newest of it, to be
shown when it fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

from interpreters.mcp import launcher
from interpreters.mcp.servers import MCPServer
from interpreters.toolbox.shell.surroundings import environment
from runtime.children import starting

GRACE = 1.0
"""Seconds to end by itself once its input is closed, and again after SIGTERM, before SIGKILL."""
LINGER = 0.2
"""Seconds in which what it has written can still be read once it has ended."""
CHUNK = 1 << 16
MOST_STDERR = 4096
"""Bytes of stderr that are kept."""

LAUNCHER = Path(launcher.__file__)


class UnstartableError(Exception):
    """There is no such program, or the system can't start it."""


class Child:
    """A server's process, with its pipes as streams of the running event loop.

    Raises:
        UnstartableError: by ``start``.
    """

    input: asyncio.StreamWriter
    output: asyncio.StreamReader

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._said: deque[bytes] = deque()
        self._size = 0
        self.ended = asyncio.Event()
        """Set once the process itself has ended, whoever of its own may go on."""
        self.quiet = asyncio.Event()
        """Set by who reads, once its output has ended: nothing comes any more, whether it lives or not."""
        self._tail: asyncio.Task[None] | None = None
        self._transports: tuple[asyncio.BaseTransport, ...] = ()

    @classmethod
    async def start(cls, server: MCPServer) -> Child:
        """Start the program of a server."""
        environ = environment(server.env)
        program = shutil.which(server.command, path=environ.get("PATH"))
        if program is None:
            raise UnstartableError(f"there is no program {server.command!r} that could be started")
        folder = server.cwd or os.getcwd()
        if not Path(folder).is_dir():
            raise UnstartableError(f"there is no directory {folder} for it to run in")
        words = [os.path.abspath(program), *server.args]
        if not getattr(sys, "frozen", False) and LAUNCHER.is_file():
            words = [sys.executable, "-I", "-S", "-X", "utf8", str(LAUNCHER), str(os.getpid()), *words]
        pipe = subprocess.PIPE
        try:
            process = await asyncio.to_thread(
                starting.run, words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=environ
            )
        except OSError as error:
            raise UnstartableError(f"{server.command} can't be started: {error.strerror}") from error
        made = cls(process)
        try:
            await made._connect()
        except BaseException:
            made._kill(signal.SIGKILL)
            raise
        return made

    async def _connect(self) -> None:
        loop, process = asyncio.get_running_loop(), self._process
        self.output, reading = await _reader(process.stdout)
        errors, listening = await _reader(process.stderr)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
        self.input = asyncio.StreamWriter(transport, protocol, None, loop)
        self._transports = (transport, reading, listening)
        self._tail = asyncio.create_task(self._keep(errors))
        threading.Thread(target=self._wait, args=(loop,), name="cogstep mcp server", daemon=True).start()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(self.ended.set)

    async def _keep(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(CHUNK):
            self._said.append(data[-MOST_STDERR:])
            self._size += len(self._said[-1])
            while self._size - len(self._said[0]) >= MOST_STDERR:
                self._size -= len(self._said.popleft())

    @property
    def last_words(self) -> str:
        """The newest of what it has printed on stderr."""
        return b"".join(self._said)[-MOST_STDERR:].decode("utf-8", "replace").strip()

    @property
    def fate(self) -> str:
        """How it ended, in words; empty while it runs."""
        code = self._process.returncode
        if code is None:
            return ""
        if code >= 0:
            return f"it ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"it was ended by {signal.Signals(-code).name}"
        return f"it was ended by signal {-code}"

    async def end(self) -> None:
        """Ask it to end by closing its input, then by SIGTERM; kill what is left of its group. Raises nothing."""
        with contextlib.suppress(Exception):
            self.input.close()
        if not await self._ends_within(GRACE):
            self._kill(signal.SIGTERM)
            await self._ends_within(GRACE)
        self._kill(signal.SIGKILL)
        await self._ends_within(GRACE)
        if self._tail is not None:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._tail, LINGER)
        for transport in self._transports:
            transport.close()
        await asyncio.sleep(0)  # they close their pipes in the loop's next round

    async def _ends_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), seconds)
        return self.ended.is_set()

    def _kill(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):  # nobody is in its group any more
            os.killpg(self._process.pid, number)


async def _reader(pipe: object) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(CHUNK, loop)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe)
    return reader, transport

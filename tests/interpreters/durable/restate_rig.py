"""A real Restate server on this machine, and processes that work at sessions, for tests that kill them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from restate import VirtualObject
from restate.endpoint import Endpoint

from interpreters.durable.restate._serving import listen, serve_on

HERE = Path(__file__).resolve().parents[3]
FOLDER = HERE / ".restate"
"""Where `make servers` puts the server."""

CONFIG = """
disable-telemetry = true
listen-mode = "tcp"
bind-ip = "127.0.0.1"
bind-port = {node}
advertised-host = "127.0.0.1"
node-name = "test"
default-num-partitions = 1
rocksdb-total-memory-size = "128 MiB"
shutdown-timeout = "2s"
log-filter = "warn"
[admin]
bind-port = {admin}
disable-web-ui = true
[admin.query-engine]
memory-size = "64 MiB"
[ingress]
bind-port = {ingress}
"""
"""Nothing leaves the machine, and some 140 MB of memory are enough."""

PATIENCE = 30.0
"""Seconds after which a process that doesn't start is taken to be broken."""


def server_program() -> str | None:
    """The server's program: by RESTATE_SERVER, in the folder that `make servers` fills, or on the path."""
    named = os.environ.get("RESTATE_SERVER")
    if named:
        return named
    found = sorted(FOLDER.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    return str(found[0]) if found else shutil.which("restate-server")


MISSING = "there is no Restate server here: `make servers` puts one into .restate, or RESTATE_SERVER names it"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Server:
    """A server with a folder of its own; it may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        program = server_program()
        assert program is not None, MISSING
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        ports = {"node": free_port(), "admin": free_port(), "ingress": free_port()}
        (folder / "restate.toml").write_text(CONFIG.format(**ports))
        self.admin = f"http://127.0.0.1:{ports['admin']}"
        self.ingress = f"http://127.0.0.1:{ports['ingress']}"
        self._command = [program, "--no-logo", "-c", str(folder / "restate.toml"), "--base-dir", str(folder / "data")]
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with open(self._folder / "log", "ab") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=log)

    def wait(self) -> None:
        """Until it answers."""
        ends = time.monotonic() + PATIENCE
        for url in (f"{self.admin}/health", f"{self.ingress}/restate/health"):
            while True:
                with suppress(OSError), urlopen(url, timeout=2):
                    break
                assert self.process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < ends, (self._folder / "log").read_text()
                time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        self.process = self._started()
        self.wait()


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """A server that is there while this is open."""
    server = Server(folder)
    try:
        server.wait()
        yield server
    finally:
        server.kill()


class Workers:
    """Processes that serve at one address, each with the same arguments."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self._command = [sys.executable, *arguments]
        self._log = log
        self.processes: list[subprocess.Popen[bytes]] = []

    def add(self) -> subprocess.Popen[bytes]:
        """Start one more, and wait until the server knows it: it says so in a line."""
        with open(self._log, "ab") as log:
            process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, cwd=HERE)
        self.processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, self._log.read_text()
        return process

    def kill(self, process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
        process.send_signal(number)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        self.processes.remove(process)

    def close(self) -> None:
        for process in list(self.processes):
            self.kill(process)


@contextmanager
def object_served(made: VirtualObject) -> Iterator[str]:
    """Serve a virtual object from a thread of this process, as sessions are served; gives the address."""
    endpoint: Any = Endpoint()  # type: ignore[no-untyped-call]  # the SDK's
    endpoint.bind(made)
    port, loop, ended = free_port(), asyncio.new_event_loop(), asyncio.Event()
    listener = listen("127.0.0.1", port)

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve_on(listener, endpoint.app(), ended))

    thread = threading.Thread(target=work, name="object")
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()

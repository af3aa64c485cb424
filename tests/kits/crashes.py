"""``crashresume``: an agent with a recording is killed behind each of its effects, and continues in another process.

The kit's subject is a process of its own (``crash_worker.py``). Where the kit injects a crash, the process gets SIGKILL
in the middle of a tool, whose effect has happened and whose result is on no file.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from crashresume import Context, InjectedCrash

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("crash_worker.py")


class Subject:
    """The kit's subject: each object is a process, which continues the recording of its scenario."""

    def __init__(self, context: Context, port: int, path: Path) -> None:
        self._context = context
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._stream = self._connection.makefile("rw", encoding="utf-8")
        self._stream.write(f"{path}\n")
        self._stream.flush()
        self._pid = int(self._read()["pid"])
        self._done: list[list[str]] = []

    def step(self, job: str) -> None:
        self._ask({"job": job})

    def state(self) -> list[list[str]]:
        """Return the jobs with their answers, as the agent's history has them."""
        self._ask({"state": True})
        return self._done

    def kill(self) -> None:
        """End the process without a warning, and wait until it is gone: then its end of the connection is closed."""
        os.kill(self._pid, signal.SIGKILL)
        with suppress(ConnectionResetError):
            self._stream.read()
        self._connection.close()

    def close(self) -> None:
        """Let the process end in order."""
        self._connection.close()
        self._stream.close()

    def _ask(self, request: dict[str, Any]) -> None:
        self._write(request)
        while "done" not in (message := self._read()):
            try:
                self._context.effect(message["effect"], message["job"], key=f"{message['effect']}:{message['job']}")
            except InjectedCrash:
                self.kill()
                raise
            self._write({})
        self._done = message["done"]

    def _write(self, value: dict[str, Any]) -> None:
        self._stream.write(f"{json.dumps(value)}\n")
        self._stream.flush()

    def _read(self) -> dict[str, Any]:
        if not (line := self._stream.readline()):
            raise RuntimeError("the worker has ended by itself")
        return dict(json.loads(line))


class Subjects:
    """The factory of the kit: one directory for all scenarios. The processes end with the block."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._all: list[Subject] = []

    def __call__(self, context: Context) -> Subject:
        self._all.append(Subject(context, self._port, self._directory / f"{context.run_id}.jsonl"))
        return self._all[-1]

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(WORKER)]
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self._server.stdout is not None
        self._port = int(self._server.stdout.readline())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for subject in self._all:
            subject.close()
        self._server.kill()
        self._server.communicate()

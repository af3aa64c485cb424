"""The program of the fork server and of a template's process, which answers questions one by one, within limits.

The operating system ends a template's process if an answer exceeds the question's CPU limit (``ITIMER_PROF``; this
works without any of our code). It also limits memory to ``limits.MEMORY`` (``RLIMIT_AS`` on Linux; elsewhere the
program checks it). The process can't write files or start other processes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

from attrs import asdict

from runtime.children.boot import follow
from runtime.errors import TemplateError, TemplateStoppedError
from runtime.templates._compiled_template import TOO_MUCH_MEMORY, CompiledTemplate, stopped_error
from runtime.templates._conversation import UNDEFINED
from runtime.templates._fork_server import HEAD, body_of, data_of, serve
from runtime.templates.limits import MEMORY, OUT_OF_MEMORY

MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""The unit of ``getrusage``'s memory, in bytes."""


def main() -> NoReturn:
    """Run the fork server; in each forked process, render. The one argument is the descriptor of the server's
    connection.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # that ends the process, whatever it is doing
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    warm = CompiledTemplate("{{ messages }}")  # what is imported late is imported here, before any fork and limit
    warm.derive()
    server = os.getpid()
    connection = serve(socket.socket(fileno=int(sys.argv[1])))
    follow(server)
    confine(MEMORY if sys.platform == "linux" else 0)
    try:
        RendererService(connection).run()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def confine(memory: int) -> None:
    """Set system limits that no template needs to exceed; ``memory`` is 0 if the system can't limit it."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NPROC: 0}
    if memory:
        limits[resource.RLIMIT_AS] = memory
    for limit, most in limits.items():
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))


class RendererService:
    """One template, and the connection to its client."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._questions = connection.makefile("rb")
        self._template: CompiledTemplate | None = None
        self._now = datetime.min

    def run(self) -> NoReturn:
        """Run until the parent closes the connection or ends."""
        while True:
            length, processor, most = HEAD.unpack(self._read(HEAD.size))
            body = self._read(length)
            began = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, processor)
            try:
                answer = body_of(self._answer(body, most))
            except MemoryError:
                answer = body_of({"stopped": str(stopped_error(TOO_MUCH_MEMORY))})
            del body
            signal.setitimer(signal.ITIMER_PROF, 0)
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT
            self._connection.sendall(HEAD.pack(len(answer), time.process_time() - began, resident))
            self._connection.sendall(answer)
            del answer

    def _read(self, count: int) -> bytes:
        with contextlib.suppress(OSError):
            data = self._questions.read(count)
            if len(data) == count:
                return data
        os._exit(0)

    def _answer(self, body: bytes, most: int) -> Mapping[str, Any]:
        try:
            question = data_of(body)
            self._now = datetime.fromisoformat(question.pop("now"))
            text = self._execute(question)
        except TemplateStoppedError as error:
            return {"stopped": str(error)}
        except TemplateError as error:
            return {"refused": str(error)}
        if isinstance(text, str) and len(text) > most:
            return {"stopped": str(stopped_error("it writes more than any conversation needs"))}
        return {"done": text}

    def _execute(self, question: dict[str, Any]) -> Any:
        ask = question.pop("ask")
        if ask == "open":
            self._template = CompiledTemplate(**question, now=lambda: self._now)
            return None
        assert self._template is not None
        if ask == "derive":
            return asdict(self._template.derive())
        return self._template.apply(question["messages"], question.get("tools", UNDEFINED), question["options"])

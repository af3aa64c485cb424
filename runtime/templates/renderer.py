"""The program of the nest and of a template's own process, which answers one question after another within limits.

The system ends a template's process when an answer takes more of a processor than the question allows (``ITIMER_PROF``:
no code of ours has to run for that), and gives it no more memory than ``limits.MEMORY`` (``RLIMIT_AS``, on Linux;
elsewhere the program watches). It can write no file and start no other process.
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
from runtime.templates.compiled import TOO_MUCH_MEMORY, CompiledTemplate, stopped
from runtime.templates.conversation import UNDEFINED
from runtime.templates.frames import HEAD, body_of, data_of
from runtime.templates.limits import MEMORY, OUT_OF_MEMORY
from runtime.templates.nest import serve

MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which ``getrusage`` counts memory."""


def main() -> NoReturn:
    """Be the nest; and, in a process that it forks off, render. The one argument is the descriptor of the nest's
    connection.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # that ends the process, whatever it is doing
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    warm = CompiledTemplate("{{ messages }}")  # what is imported late is imported here, before any fork and limit
    warm.derive()
    nest = os.getpid()
    connection = serve(socket.socket(fileno=int(sys.argv[1])))
    follow(nest)
    confine(MEMORY if sys.platform == "linux" else 0)
    try:
        Renderer(connection).run()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def confine(memory: int) -> None:
    """Have the system refuse what no template needs; ``memory`` is 0 where it can't."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NPROC: 0}
    if memory:
        limits[resource.RLIMIT_AS] = memory
    for limit, most in limits.items():
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))


class Renderer:
    """One template, and the connection to whom it serves."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._template: CompiledTemplate | None = None
        self._now = datetime.min

    def run(self) -> NoReturn:
        """Run until the parent sends ``Close`` or is gone."""
        while True:
            length, processor, most = HEAD.unpack(self._read(HEAD.size))
            body = self._read(length)
            began = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, processor)
            answer = self._written(body, most)
            del body
            signal.setitimer(signal.ITIMER_PROF, 0)
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT
            self._connection.sendall(HEAD.pack(len(answer), time.process_time() - began, resident))
            self._connection.sendall(answer)
            del answer

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                piece = self._connection.recv(min(count - len(data), 1 << 20))
            except OSError:
                piece = b""
            if not piece:
                os._exit(0)
            data += piece
        return bytes(data)

    def _written(self, body: bytes, most: int) -> bytes:
        try:
            return body_of(self._answer(body, most))
        except MemoryError:
            return body_of({"stopped": str(stopped(TOO_MUCH_MEMORY))})

    def _answer(self, body: bytes, most: int) -> Mapping[str, Any]:
        """One of ``done``, ``refused`` and ``stopped``."""
        try:
            question = data_of(body)
            self._now = datetime.fromisoformat(question.pop("now"))
            text = self._done(question)
        except TemplateStoppedError as error:
            return {"stopped": str(error)}
        except TemplateError as error:
            return {"refused": str(error)}
        if isinstance(text, str) and len(text) > most:
            return {"stopped": str(stopped("it writes more than any conversation needs"))}
        return {"done": text}

    def _done(self, question: dict[str, Any]) -> Any:
        match question.pop("ask"):
            case "open":
                self._template = CompiledTemplate(**question, now=lambda: self._now)
                return None
            case "apply":
                assert self._template is not None
                tools = question.get("tools", UNDEFINED)
                return self._template.apply(question["messages"], tools, question["options"])
            case _:
                assert self._template is not None
                return asdict(self._template.derive())

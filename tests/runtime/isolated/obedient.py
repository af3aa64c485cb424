"""A child process whose engine does as it is told, by the words of a request: no model, and every kind of end in reach.

Words are said one a batch. Some are done instead of said: ``SIGKILL`` and other signals to itself, ``hang`` (in a call
that lets other threads run, as native code does), ``exit``, ``rubbish`` (bytes that are no frame), ``shout`` (on stdout
and stderr).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from socket import socket
from typing import Any

from attrs import define

from cognition import Failure, ModelRequest, Usage
from cognition.parsing import FormatSpec, TextDelta
from runtime import errors
from runtime.isolated import wire
from runtime.isolated.child import Server
from runtime.protocol.model import Done, ModelInfo, Timings

INFO = ModelInfo("obedient", "test", "", 1_000_000, FormatSpec("plain"))
AGES = 10_000.0


@define
class Telling:
    words: list[str]
    emit: Callable[[Any], None]
    finish: Callable[[Any], None]
    stopped: Callable[[], bool]
    said: list[str]

    def end(self, reason: Any, failure: Failure | None = None) -> None:
        usage = Usage(0, len(self.said))
        self.finish(Done("".join(self.said), "", (), (), reason, usage, Timings(), failure))


class ObedientEngine:
    """Looks like a ``LocalEngine``."""

    info = INFO

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._tellings: list[Telling] = []

    def prompt(self, request: ModelRequest) -> list[int]:
        words = words_of(request)
        if words[:1] == ["refuse"]:
            raise errors.TemplateError("no such conversation")
        for word in words:
            self._do(word)
        return [0] * len(words)

    def submit(
        self, request: ModelRequest, *, emit: Any, finish: Any, stopped: Any, submitted: float, owner: int
    ) -> None:
        self._tellings.append(Telling(words_of(request), emit, finish, stopped, []))

    def step(self, wanted: Callable[[], bool]) -> bool:
        more = self._batch()
        while more and not wanted():
            more = self._batch()
        return more

    def _batch(self) -> bool:
        for telling in tuple(self._tellings):
            if telling.stopped():
                telling.end("cancelled")
            elif not telling.words:
                telling.end("stop")
            else:
                word = telling.words.pop(0)
                if self._do(word):
                    telling.said.append(word)
                    telling.emit(TextDelta(word))
                continue
            self._tellings.remove(telling)
        return bool(self._tellings)

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _do(self, word: str) -> bool:
        """Whether it is only to be said."""
        match word:
            case "hang":
                time.sleep(AGES)
            case "exit":
                os._exit(3)
            case "rubbish":
                self._connection.sendall(b"\xff" * 64)
            case "shout":
                print("stdout", flush=True)
                print("Assertion `false' failed", file=sys.stderr, flush=True)
            case _ if word.startswith("SIG"):
                os.kill(os.getpid(), signal.Signals[word])
                time.sleep(AGES)  # until it has come, which may be on another thread
            case _:
                return True
        return False


def words_of(request: ModelRequest) -> list[str]:
    return request.messages[-1].text.split()


def main() -> None:
    """As in ``runtime.isolated.child``, but the engine is this one; the path says what becomes of loading it."""
    connection = socket(fileno=int(sys.argv[1]))

    def load(message: wire.Load, on_progress: Callable[[float], bool]) -> Any:
        engine = ObedientEngine(connection)
        on_progress(0.5)
        kind, _, text = message.path.partition(":")
        if kind == "ExtraMissingError":
            raise errors.ExtraMissingError(text, extra="llama", spec="a spec")
        if kind in wire.ERRORS:
            raise wire.ERRORS[kind](text, spec="a spec")
        if kind == "ValueError":
            raise ValueError(text)
        for word in message.path.split():
            engine._do(word)
        if os.path.exists(message.path):  # a file, which a test can delete, or fill with words to be done
            for word in Path(message.path).read_text("utf-8").split():
                engine._do(word)
        elif os.path.isabs(message.path):
            raise errors.ModelNotFoundError(f"there is no {message.path}")
        return engine

    Server(connection, load).run()

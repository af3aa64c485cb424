"""Models for hosts in processes of their own, which make them by name."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cognition import ConfigError, ModelRequest, ProposedCall
from interpreters import fakes
from interpreters.testing.cassettes.tape import data_of_reply, reply_of_data
from interpreters.testing.fakes import FunctionModel, Reply, ScriptedGeneration, ScriptedModel


def script(replies: list[Any]) -> list[Any]:
    """Texts, calls as ``[name, arguments]``, and lists of calls."""

    def reply(entry: Any) -> Any:
        if isinstance(entry, str):
            return entry
        return [ProposedCall(*one) for one in entry] if isinstance(entry[0], list) else ProposedCall(*entry)

    return list(map(reply, replies))


def scripted(replies: list[Any]) -> ScriptedModel:
    """Says what ``script`` reads."""
    return ScriptedModel(script(replies))


def noisy(replies: list[Any]) -> ScriptedModel:
    """A library that writes to standard output, in Python and below it, and reads from standard input."""
    print("loading ...", flush=True)
    os.write(1, b'{"type": "faulted", "message": "from below"}\n')
    assert sys.stdin.read() == ""
    return scripted(replies)


def missing() -> ScriptedModel:
    raise ConfigError("there is no model here")


def dying(status: int) -> ScriptedModel:
    """A native library that crashes."""
    os._exit(status)


def endless() -> FunctionModel:
    """Writes for ever, until it is cancelled or killed."""

    def write(request: ModelRequest) -> Iterator[str]:
        while True:
            yield "on and "
            time.sleep(0.001)  # a model that takes a millisecond for a token

    return FunctionModel(write)


class FileModel(fakes.FunctionModel):
    """Says what stands in a file, which may be another one for each session: see ``write_script``."""

    def __init__(self, path: str) -> None:
        super().__init__(lambda request: "never")
        self._path = Path(path)
        self._script = ""
        self._left: list[Any] = []

    def submit(self, request: ModelRequest) -> ScriptedGeneration:
        script = self._path.read_text()
        if script != self._script:
            self._script, self._left = script, json.loads(script)["replies"]
        data = self._left.pop(0) if self._left else {"text": "Done.", "finish_reason": "stop"}
        chunk = data.pop("chunk", 0)
        done, _ = reply_of_data(data)
        return ScriptedGeneration(
            Reply(
                done.text,
                done.calls,
                reasoning=done.reasoning,
                malformed=done.malformed,
                failure=done.failure,
                usage=done.usage,
                finish_reason=done.finish_reason,
                chunk=chunk,
            )
        )

    stream = submit


def write_script(path: Path, number: int, replies: list[Reply]) -> None:
    """The script of session ``number``, for a ``FileModel``."""
    data = [{**data_of_reply(reply.done, 1), "chunk": reply.chunk} for reply in replies]
    path.write_text(json.dumps({"number": number, "replies": data}))


START = 1_790_000_000.0


class ScriptClock(fakes.FakeClock):
    """Doesn't wait, and begins anew with each script."""

    def __init__(self, path: str) -> None:
        super().__init__(START)
        self._path = Path(path)
        self._script = ""

    def time(self) -> float:
        script = self._path.read_text()
        if script != self._script:
            self._script, self.now = script, START
        return self.now


if __name__ == "__main__":  # a child of its own
    from interpreters.hosting.host_main import serve

    serve(FileModel(sys.argv[1]), clock=ScriptClock(sys.argv[1]), files="/")


class CountingScript(ScriptedModel):
    """Counts two characters of a text as a token, and eight tokens around each message."""

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        return [(len(text) + 1) // 2 for text in texts]

    def count_tokens(self, request: ModelRequest) -> int:
        texts = [
            request.system,
            *[getattr(one, "content", None) or getattr(one, "text", "") for one in request.messages],
        ]
        return sum(self.count_texts(texts)) + 8 * len(texts) + 100 * len(request.tools)


def counting(replies: list[Any]) -> ScriptedModel:
    """As ``scripted``, with a tokenizer of its own."""
    return CountingScript(script(replies))

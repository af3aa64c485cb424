"""What is measured beside: llama.cpp's own programs, and ``llama_cpp.Llama``."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from benchmarks.native_tools import program, started

PATIENCE = 60.0
"""Seconds within which a server has to be ready."""


class PeerError(Exception):
    """One of them did not do its work; the message is its own last word."""


def llama_bench(file: Path, *, tokens: int, depth: int, threads: int) -> float:
    """Tokens a second of one stream that stands at a depth, by ``llama-bench``."""
    output = _run(
        "llama-bench", "-m", file, "-p", "0", "-n", tokens, "-d", depth, "-t", threads, "-r", "1", "-o", "json"
    )
    return float(json.loads(output)[0]["avg_ts"])


def batched_bench(file: Path, *, prompt: int, tokens: int, streams: int, threads: int) -> float:
    """Tokens a second, those of prompts included, of as many streams at once, by ``llama-batched-bench``."""
    cells = streams * (prompt + tokens) + 256 * streams
    output = _run(
        "llama-batched-bench", "-m", file, "-c", cells, "-npp", prompt, "-ntg", tokens, "-npl", streams,
        "-t", threads, "-tb", threads, "--output-format", "jsonl",
    )  # fmt: skip
    (line,) = (line for line in output.splitlines() if line.startswith("{"))
    return float(json.loads(line)["speed"])


def _run(name: str, *arguments: object) -> str:
    command = [str(program(name)), *map(str, arguments)]
    with TemporaryFile("w+") as errors:
        with started(command, stdout=subprocess.PIPE, stderr=errors) as process:
            output = process.communicate()[0]
        if process.returncode != 0:
            errors.seek(0)
            raise PeerError(f"{name} ended with code {process.returncode}: {errors.read()[-500:]}")
    return str(output)


class Server:
    """A ``llama-server`` that is ready."""

    def __init__(self, port: int, token: int) -> None:
        self._port = port
        self._token = token

    def body(self, prompt: Sequence[int], tokens: int, *, stream: bool = False) -> bytes:
        """A request for a reply of exactly so many tokens, the same one as ours: greedy, with the same bias.

        Not streamed, the server is spared the work of sending every token, which ours does.
        """
        return json.dumps(
            {
                "prompt": list(prompt),
                "n_predict": tokens,
                "ignore_eos": True,
                "cache_prompt": True,
                "temperature": 0,
                "samplers": ["temperature"],
                "logit_bias": [[self._token, 100]],
                "stream": stream,
            }
        ).encode()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)

    def ask(self, connection: http.client.HTTPConnection, body: bytes) -> dict[str, Any]:
        """One reply, with the server's own timings."""
        connection.request("POST", "/completion", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        answer: dict[str, Any] = json.loads(text.rpartition(b"data:")[2] if text.startswith(b"data:") else text)
        if response.status != 200:
            raise PeerError(f"llama-server says {answer}")
        return answer

    def agents(self, bodies: Sequence[Sequence[bytes]]) -> list[list[dict[str, Any]]]:
        """Several conversations at once, each on a thread and a connection of its own, one request after another."""
        answers: list[list[dict[str, Any]]] = [[] for _ in bodies]

        def one(place: int) -> None:
            connection = self.connect()
            try:
                answers[place] = [self.ask(connection, body) for body in bodies[place]]
            finally:
                connection.close()

        in_threads([partial(one, place) for place in range(len(bodies))])
        return answers


def in_threads(works: Sequence[Callable[[], object]]) -> None:
    """Call each on a thread of its own, and wait; what one of them raises is raised.

    Ctrl-C does not wait for them: they end when what they wait for is closed.
    """
    failures: list[Exception] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@contextmanager
def llama_server(file: Path, *, slots: int, context: int, threads: int, token: int) -> Iterator[Server]:
    """A server with so many slots of so many tokens each, until the block is left."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        program("llama-server"), "-m", file, "-np", slots, "-c", slots * context, "-t", threads, "-tb", threads,
        "--host", "127.0.0.1", "--port", port,
    ]  # fmt: skip
    with (
        TemporaryFile("w+") as log,
        started([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        server = Server(port, token)
        deadline = time.monotonic() + PATIENCE
        while not _ready(server):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise PeerError(f"llama-server did not become ready: {log.read()[-500:]}")
            time.sleep(0.05)
        yield server


def _ready(server: Server) -> bool:
    connection = server.connect()
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


class Llama:
    """``llama_cpp.Llama``, which holds one conversation: several go one after another.

    In a process of its own: two models that compute on threads of one process slow each other down also while one
    rests, since OpenMP's threads stop waiting actively as soon as there are more of them than processors.
    """

    def __init__(self, file: Path, *, context: int, threads: int) -> None:
        command = [sys.executable, "-m", "benchmarks.serving.llama_child", str(file), str(context), str(threads)]
        self._held = ExitStack()
        self._process = self._held.enter_context(
            started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2])
        )
        try:
            self._answer()
        except BaseException:
            self._held.close()
            raise

    def reply(self, prompt: Sequence[int], tokens: int) -> None:
        """So many tokens by its quickest way: ``generate``, greedy."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([list(prompt), tokens]) + "\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "done\n":
            raise PeerError("llama_cpp.Llama ended; its own message stands above")

    def close(self) -> None:
        self._held.close()

"""What a remote model's runtime adds to bare httpx2: a short reply as a whole, and each event of a long one.

    python benchmarks/providers.py
    python benchmarks/providers.py --calls 50 --events 500 --rounds 1

A server of our own, in a process of its own, answers from memory in the form of each API, so that nothing is measured
but the client's side. *Bare* is ``httpx2.Client`` that sends the same body over a kept connection and reads the bytes
of the response, without looking at them: no request is encoded, no event decoded, nothing can be cancelled. Ours is
``RemoteRuntime.submit``, read to its ``Done``. Under asyncio it is read by ``runtime.async_adapter.start_async``, as
``AsyncAgent`` does, beside ``httpx2.AsyncClient``. Both take turns; the table has the best round of each side, what
ours takes more by these, and the median of what it takes more in each round.

*A call*: the shortest reply that says a word, in turns of two hundred calls. It has as many events as the API asks for,
each of which may take what an event may. *An event, at once*: a reply of thousands of events that
the server sends as fast as it can, so that many come with each read. *An event, one by one*: each in a packet of its
own, as models write them; waiting for the server is in both sides' time. The processor's time is told beside the
clock's, since on a machine with other work it says more of a call; of events one by one it says little, since a
processor that has waited is several times slower.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/providers.py`

from attrs import frozen

from benchmarks.table import Progress, digits, machine, table
from cognition import GenerationOptions, History, ModelRequest, UserMessage
from cognition.wire import Dialect
from runtime import Backend, load_model
from runtime.async_adapter import start_async
from runtime.protocol.model import Done
from runtime.providers.remote import RemoteRuntime

AIM_CALL = "<= 1.2 x + 20 us an event"
"""The most that a call may take, of the time that bare httpx2 takes."""
AIM_EVENT = "<= 20 us"
"""The most that an event may take more."""
COLD = ("one by one", "CPU")
"""What has no aim: see above."""

CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "CPU": time.process_time}
"""CPU time is that of all threads of the client's process."""

HEADERS = {"content-type": "application/json", "accept": "text/event-stream"}

REQUEST = ModelRequest("You are terse.", History((UserMessage("m1", "Hello there"),)), (), GenerationOptions())


# ---------------------------------------------------------------------------------------------------------- the server


def serve(listener: socket.socket) -> None:
    """Answer one connection after another, each until it closes; ``events`` and ``pause`` stand in the model's name."""
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        held = b""
        while True:
            while b"\r\n\r\n" not in held:
                more = connection.recv(1 << 16)
                if not more:
                    break
                held += more
            if b"\r\n\r\n" not in held:
                break
            head, _, held = held.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            while len(held) < length:
                held += connection.recv(1 << 16)
            body, held = held[:length], held[length:]
            path = head.split(b" ", 2)[1].decode()
            answer(connection, path, json.loads(body)["model"] if body else "")


def answer(connection: socket.socket, path: str, model: str) -> None:
    """The reply to one request."""
    made = next((reply for name, reply in REPLIES.items() if path.endswith(ENDS[name])), None)
    if not model or made is None:  # what a client asks about the server or its model
        connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
        return
    number, _, pause = model.partition(":")
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    begin, event, end = made
    if not pause:
        connection.sendall(head + begin + event * int(number) + end)
        return
    connection.sendall(head + begin)
    for _ in range(int(number)):
        connection.sendall(event)
        time.sleep(float(pause))
    connection.sendall(end)


def events_of(dialect: Dialect) -> int:
    """How many events the shortest reply has."""
    return sum(part.count(b"\r\n") for part in REPLIES[dialect]) // 2 - 1  # each is a chunk


def framed(data: bytes) -> bytes:
    """As a chunk of HTTP/1.1."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event_of(value: Any, *, named: bool = False) -> bytes:
    """A server-sent event, in a chunk of its own."""
    name = b"event: %s\n" % value["type"].encode() if named else b""
    return framed(name + b"data: " + json.dumps(value).encode() + b"\n\n")


def openai() -> tuple[bytes, bytes, bytes]:
    """Beginning, event and end of a reply, as of chat completions."""
    event = {"id": "c", "choices": [{"index": 0, "delta": {"content": " word"}, "finish_reason": None}]}
    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    end = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    return b"", event_of(event), event_of(end) + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def responses() -> tuple[bytes, bytes, bytes]:
    """The same of OpenAI's responses."""
    item = {"id": "m", "type": "message", "role": "assistant", "content": []}
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    begin = event_of({"type": "response.created", "response": {"id": "r", "status": "in_progress"}}, named=True)
    begin += event_of({"type": "response.output_item.added", "output_index": 0, "item": item}, named=True)
    event = {"type": "response.output_text.delta", **place, "sequence_number": 7, "delta": " word", "logprobs": []}
    usage = {"input_tokens": 20, "output_tokens": 5}
    end = {"type": "response.completed", "response": {"id": "r", "status": "completed", "usage": usage}}
    return begin, event_of(event, named=True), event_of(end, named=True) + b"0\r\n\r\n"


def anthropic() -> tuple[bytes, bytes, bytes]:
    """The same of Anthropic's messages."""
    message = {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 20, "output_tokens": 1}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    begin = event_of({"type": "message_start", "message": message}, named=True) + event_of(block, named=True)
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " word"}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    end = event_of({"type": "content_block_stop", "index": 0}, named=True) + event_of(stop, named=True)
    return begin, event_of(event, named=True), end + event_of({"type": "message_stop"}, named=True) + b"0\r\n\r\n"


def ollama() -> tuple[bytes, bytes, bytes]:
    """The same of Ollama, whose events are lines."""
    said = {"role": "assistant", "content": " word"}
    event = {"model": "m", "created_at": "2026-11-01T10:00:00.000000Z", "message": said, "done": False}
    end = {**event, "message": {**said, "content": ""}, "done": True, "done_reason": "stop", "eval_count": 5}
    said_so, ended = (framed(json.dumps(value).encode() + b"\n") for value in (event, end))
    return b"", said_so, ended + b"0\r\n\r\n"


ENDS: Mapping[Dialect, str] = {
    "openai": "/chat/completions",
    "responses": "/responses",
    "anthropic": "/messages",
    "ollama": "/chat",
}
"""How the path of each API ends."""

REPLIES: Mapping[Dialect, tuple[bytes, bytes, bytes]] = {
    "openai": openai(),
    "responses": responses(),
    "anthropic": anthropic(),
    "ollama": ollama(),
}


# --------------------------------------------------------------------------------------------------------- measurements


@frozen
class Sides:
    """Two functions that have one reply of so many events made and read."""

    ours: Callable[[str], int]
    bare: Callable[[str], int]
    events: int
    """Of the shortest reply."""


class Models:
    """Runtimes by what the server is to reply, and the bodies and headers that bare httpx2 sends."""

    def __init__(self, port: int, dialect: Dialect) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.dialect = dialect
        self.path = f"{self.url}{ENDS[dialect]}"
        self.runtimes: dict[str, RemoteRuntime] = {}
        self.bodies: dict[str, bytes] = {}

    def of(self, model: str) -> RemoteRuntime:
        """The runtime."""
        if model not in self.runtimes:
            backend = Backend("bench", self.url, self.dialect)
            runtime = load_model(f"bench/{model}", backends=[backend], context_tokens=4096)
            assert isinstance(runtime, RemoteRuntime)
            self.runtimes[model] = runtime
            wire = runtime._encode(REQUEST)
            self.bodies[model], self.path = wire.body.encode(), self.url + wire.path
        return self.runtimes[model]

    def close(self) -> None:
        """Close them."""
        for runtime in self.runtimes.values():
            runtime.close()


@contextmanager
def sides(port: int, dialect: Dialect = "openai") -> Iterator[Sides]:
    """Both, connected."""
    import httpx2

    models = Models(port, dialect)
    with httpx2.Client(trust_env=False) as client, closing(models):

        def ours(model: str) -> int:
            *outputs, done = models.of(model).submit(REQUEST)
            assert isinstance(done, Done)
            assert done.finish_reason == "stop", done
            return len(outputs)

        def bare(model: str) -> int:
            with client.stream("POST", models.path, content=models.bodies[model], headers=HEADERS) as response:
                return sum(map(len, response.iter_bytes()))

        yield Sides(ours, bare, events_of(dialect))


@contextmanager
def asyncio_sides(port: int) -> Iterator[Sides]:
    """Both under asyncio, in one event loop."""
    import httpx2

    models = Models(port, "openai")
    with asyncio.Runner() as runner, closing(models):
        client = httpx2.AsyncClient(trust_env=False)

        async def ours(model: str) -> int:
            outputs = [output async for output in start_async(models.of(model), REQUEST)]
            assert isinstance(outputs[-1], Done)
            assert outputs[-1].finish_reason == "stop", outputs[-1]
            return len(outputs) - 1

        async def bare(model: str) -> int:
            async with client.stream("POST", models.path, content=models.bodies[model], headers=HEADERS) as response:
                return sum([len(data) async for data in response.aiter_bytes()])

        both = Sides(lambda model: runner.run(ours(model)), lambda model: runner.run(bare(model)), events_of("openai"))
        yield both
        runner.run(client.aclose())


Clock = Callable[[], float]


def timed(read: Callable[[str], int], model: str, times: int, clock: Clock) -> float:
    """Seconds of one reply."""
    began = clock()
    for _ in range(times):
        read(model)
    return (clock() - began) / times


def pairs(both: Sides, model: str, times: int, rounds: int, clock: Clock) -> list[tuple[float, float]]:
    """Seconds of ours and of bare, for each round."""
    both.ours(model)
    both.bare(model)
    found = []
    for number in range(rounds):
        if number % 2:
            bare = timed(both.bare, model, times, clock)
            found.append((timed(both.ours, model, times, clock), bare))
        else:
            found.append((timed(both.ours, model, times, clock), timed(both.bare, model, times, clock)))
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200, help="in one turn (default: 200)")
    parser.add_argument("--events", type=int, default=5000, help="of a long reply (default: 5000)")
    parser.add_argument("--rounds", type=int, default=11, help="of each measurement (default: 11)")
    options = parser.parse_args()
    say = Progress()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        server = multiprocessing.get_context("fork").Process(target=serve_threads, args=(listener,), daemon=True)
        server.start()
        try:
            port = listener.getsockname()[1]
            rows = [["what", "cogstep", "httpx2", "more", "median", "aim"]]
            for dialect in REPLIES:
                with sides(port, dialect) as both:
                    rows += measure(both, dialect, options.calls, options.events, options.rounds, say)
            with asyncio_sides(port) as both:
                rows += measure(both, "asyncio", options.calls, options.events, options.rounds, say)
        finally:
            server.kill()
            server.join()
    say.clear()
    print(table(rows))
    print(machine())


def serve_threads(listener: socket.socket) -> None:
    """A thread for each of a few connections."""
    import threading

    for _ in range(7):
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
    serve(listener)


def measure(both: Sides, name: str, calls: int, events: int, rounds: int, say: Progress) -> list[list[str]]:
    """The lines of the table that are of one API."""
    rows = []
    for kind, clock in CLOCKS.items():
        what = f"{name}: a call of {both.events} events, {kind}"
        say(what)
        found = pairs(both, "1", calls, rounds, clock)
        more = f"{best(found, 0) / best(found, 1):.2f} x"
        rows.append([what, *us(found, 1), more, f"{median(ours / bare for ours, bare in found):.2f} x", AIM_CALL])
    one_by_one = max(2, events // 20)
    for how, model, number in (("at once", str(events), events), ("one by one", f"{one_by_one}:0.001", one_by_one)):
        for kind, clock in CLOCKS.items():
            what = f"{name}: an event, {how}, {kind}"
            say(what)
            found = pairs(both, model, 1, rounds, clock)
            least = f"{1e6 * (best(found, 0) - best(found, 1)) / number:.1f} us"
            usual = f"{median(1e6 * (ours - bare) / number for ours, bare in found):.1f} us"
            rows.append([what, *us(found, number), least, usual, "" if (how, kind) == COLD else AIM_EVENT])
    return rows


def us(found: list[tuple[float, float]], number: int) -> list[str]:
    """Both sides, in microseconds."""
    return [f"{digits(1e6 * best(found, side) / number)} us" for side in (0, 1)]


def best(found: list[tuple[float, float]], side: int) -> float:
    """The least of the rounds, which other work on the machine has disturbed least."""
    return min(pair[side] for pair in found)


if __name__ == "__main__":
    main()

"""What a remote model's runtime adds to bare httpx2: a short reply as a whole, and each event of a long one.

    python benchmarks/providers.py
    python benchmarks/providers.py --calls 50 --events 500 --rounds 1

A server of our own, in a process of its own, answers in OpenAI's form from memory, so that nothing is measured but the
client's side. *Bare* is ``httpx2.Client`` that sends the same body over a kept connection and reads the bytes of the
response, without looking at them: no request is encoded, no event decoded, nothing can be cancelled. Ours is
``RemoteRuntime.submit``, read to its ``Done``. Both take turns; the table has the best round of each side, what ours
takes more by these, and the median of what it takes more in each round.

*A call*: a reply of one event, in turns of a hundred calls. *An event, at once*: a reply of thousands of events that
the server sends as fast as it can, so that many come with each read. *An event, one by one*: each in a packet of its
own, as models write them; waiting for the server is in both sides' time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/providers.py`

from attrs import frozen

from benchmarks.table import Progress, digits, machine, table
from cognition import GenerationOptions, History, ModelRequest, UserMessage
from runtime import Backend, load_model
from runtime.protocol import Done

AIM_CALL = 1.2
"""The most that a call may take, of the time that bare httpx2 takes."""
AIM_EVENT = 20.0
"""The most microseconds that an event may take more."""

CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "CPU": time.process_time}
"""CPU time is that of all threads of the client's process; on a machine with other work it says more."""

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
            answer(connection, json.loads(body)["model"] if body else "")


def answer(connection: socket.socket, model: str) -> None:
    """The reply to one request."""
    if not model:
        connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
        return
    number, _, pause = model.partition(":")
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    event = chunk({"id": "c", "choices": [{"index": 0, "delta": {"content": " word"}, "finish_reason": None}]})
    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    end = chunk({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
    end += framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    if not pause:
        connection.sendall(head + event * int(number) + end)
        return
    connection.sendall(head)
    for _ in range(int(number)):
        connection.sendall(event)
        time.sleep(float(pause))
    connection.sendall(end)


def chunk(value: Any) -> bytes:
    """An event, in a chunk of its own."""
    return framed(b"data: " + json.dumps(value).encode() + b"\n\n")


def framed(data: bytes) -> bytes:
    """As a chunk of HTTP/1.1."""
    return b"%x\r\n%s\r\n" % (len(data), data)


# --------------------------------------------------------------------------------------------------------- measurements


@frozen
class Sides:
    """Two functions that have one reply of so many events made and read."""

    ours: Callable[[str], int]
    bare: Callable[[str], int]


@contextmanager
def sides(port: int) -> Any:
    """Both, connected."""
    import httpx2

    url = f"http://127.0.0.1:{port}/v1"
    runtimes: dict[str, Any] = {}
    bodies: dict[str, bytes] = {}
    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    with httpx2.Client(trust_env=False) as client:

        def ours(model: str) -> int:
            if model not in runtimes:
                runtimes[model] = load_model(f"bench/{model}", backends=[Backend("bench", url)])
                bodies[model] = runtimes[model]._encoded(REQUEST).body.encode()
            *outputs, done = runtimes[model].submit(REQUEST)
            assert isinstance(done, Done)
            assert done.finish_reason == "stop", done
            return len(outputs)

        def bare(model: str) -> int:
            with client.stream("POST", f"{url}/chat/completions", content=bodies[model], headers=headers) as response:
                return sum(map(len, response.iter_bytes()))

        yield Sides(ours, bare)
        for runtime in runtimes.values():
            runtime.close()


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
            with sides(listener.getsockname()[1]) as both:
                rows = measure(both, options.calls, options.events, options.rounds, say)
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


def measure(both: Sides, calls: int, events: int, rounds: int, say: Progress) -> list[list[str]]:
    """The table."""
    rows = [["what", "cogstep", "httpx2", "more", "median", "aim"]]
    for kind, clock in CLOCKS.items():
        say(f"a call, {kind}")
        found = pairs(both, "1", calls, rounds, clock)
        ratios = [ours / bare for ours, bare in found]
        aim = f"<= {AIM_CALL} x"
        rows.append(
            [
                f"a call, {kind}",
                *us(found, 1),
                f"{best(found, 0) / best(found, 1):.2f} x",
                f"{median(ratios):.2f} x",
                aim,
            ]
        )
    for what, model, number in (
        ("at once", str(events), events),
        ("one by one", f"{events // 20}:0.001", events // 20),
    ):
        for kind, clock in CLOCKS.items():
            say(f"an event, {what}, {kind}")
            found = pairs(both, model, 1, rounds, clock)
            more = [1e6 * (ours - bare) / number for ours, bare in found]
            least = 1e6 * (best(found, 0) - best(found, 1)) / number
            cells = [f"{least:.1f} us", f"{median(more):.1f} us", f"<= {AIM_EVENT:.0f} us"]
            rows.append([f"an event, {what}, {kind}", *us(found, number), *cells])
    return rows


def us(found: list[tuple[float, float]], number: int) -> list[str]:
    """Both sides, in microseconds."""
    return [f"{digits(1e6 * best(found, side) / number)} us" for side in (0, 1)]


def best(found: list[tuple[float, float]], side: int) -> float:
    """The least of the rounds, which other work on the machine has disturbed least."""
    return min(pair[side] for pair in found)


if __name__ == "__main__":
    main()

"""Answers that no server should give: they end as failures in plain words, in the time that they have, without keys."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cognition.steps.retry import classify
from runtime import Backend, Done, load_model
from runtime.providers.backends import Timeouts
from tests.runtime.asking import ask, reply
from tests.runtime.providers.conftest import KEY

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
WORD = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
Answering = Callable[[socket.socket, threading.Event], None]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COGSTEP_TEST_KEY", KEY)


@contextmanager
def answering(answer: Answering) -> Iterator[int]:
    """The port of a server that answers each request for a reply so; its event is set when the test is over."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answered, args=(connection,), daemon=True).start()

    def answered(connection: socket.socket) -> None:
        with connection:
            try:
                if connection.recv(1 << 16).startswith(b"GET"):
                    connection.sendall(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                else:
                    answer(connection, over)
            except OSError:
                pass  # nobody waits any more

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)


def done_of(answer: Answering | bytes) -> Done:
    """How a reply ends that is answered so."""
    told: Answering = (lambda connection, _: connection.sendall(answer)) if isinstance(answer, bytes) else answer
    with answering(told) as port:
        url = f"http://127.0.0.1:{port}/v1"
        times = Timeouts(connect=5, first=0.4, silence=5, heartbeats=0.6)
        ours = Backend("ours", url, key_env="COGSTEP_TEST_KEY", timeouts=times, context_tokens=8000)
        with load_model("ours/m", backends=[ours]) as model:
            return reply(model, ask())


@pytest.mark.parametrize(
    "begun", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 500 No\r\n\r\n"], ids=["head", "body of an error"]
)
def test_an_answer_that_comes_byte_by_byte_has_its_time(begun: bytes) -> None:
    """Each byte came in time, and the whole never."""

    def drip(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(begun)
        while not over.wait(0.05):
            connection.sendall(b"y")

    failure = done_of(drip).failure
    assert failure is not None
    assert (failure.code == "timeout_first") is (b"500" not in begun)
    assert (failure.status == 500) is (b"500" in begun)


def test_answers_to_come_have_their_time() -> None:
    """``100 Continue`` without end is no answer."""

    def go_on(connection: socket.socket, over: threading.Event) -> None:
        while not over.wait(0.01):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    failure = done_of(go_on).failure
    assert failure is not None
    assert failure.code == "timeout_first"


@pytest.mark.parametrize("beat", [b": ping\n\n", b"\n", b'event: ping\ndata: {"type": "ping"}\n\n'])
def test_signs_of_life_have_their_time(beat: bytes) -> None:
    """Each of them ends the silence, and without end they are no reply."""

    def live(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(HEAD + b"\r\n")
        while not over.wait(0.02):
            connection.sendall(beat)

    failure = done_of(live).failure
    assert failure is not None
    assert failure.code == "timeout_heartbeats"
    assert "it has shown for 0.6 s that it lives, and said nothing" in failure.message


@pytest.mark.parametrize(("status", "kind"), [(200, "fatal"), (401, "auth"), (503, "transient")])
def test_a_compressed_answer_is_not_read(status: int, kind: str) -> None:
    """None was asked for, and a small one may be of any size."""
    packed = gzip.compress(WORD)
    head = f"HTTP/1.1 {status} X\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    failure = done_of(head.encode() + packed).failure

    assert failure is not None
    assert (classify(failure), failure.status) == (kind, status)
    assert "in a form that was not asked for (gzip)" in failure.message


def test_an_answer_that_says_it_is_as_it_is_is_read() -> None:
    assert done_of(HEAD + b"Content-Encoding: identity\r\n\r\n" + WORD).text == "Hi"


@pytest.mark.parametrize("before", range(970, 1010, 5))
def test_a_key_is_not_cut_out_of_sight(before: int) -> None:
    """A long message is cut before anybody looks for the key in it."""
    body = json.dumps({"error": {"message": "m" * before + KEY}})
    failure = done_of(f"HTTP/1.1 401 No\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()).failure

    assert failure is not None
    assert KEY[:12] not in failure.message


@pytest.mark.parametrize(
    "head",
    [
        f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/?k={KEY}\r\nContent-Length: 0\r\n\r\n",
        f"HTTP/1.1 200 {KEY}\r\nX-Key: {KEY}\r\nContent-Length: 0\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nno header {KEY}\r\n\r\n",
        f"{KEY}\r\n\r\n",
    ],
    ids=["redirect", "header", "no header", "no head"],
)
def test_a_head_tells_nobody_of_the_key(head: str, caplog: pytest.LogCaptureFixture) -> None:
    """Not a log either: the library of the connections logs all of it."""
    caplog.set_level(logging.DEBUG)
    done: Any = done_of(head.encode())

    assert done.failure is not None
    assert KEY[:12] not in repr(done) + caplog.text
    assert "[COGSTEP_TEST_KEY]" in caplog.text

"""What a process says of addresses, keys and ends, without a Restate server."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cognition import ConfigError
from interpreters.durable._errors import DurableError
from interpreters.durable.definition import DurableAgent
from interpreters.durable.restate import _client as restate_client, _serving as restate_serving
from interpreters.durable.restate._client import HttpReply, RestateServer, versioned_name
from interpreters.durable.restate._serving import listen, serve_on
from interpreters.durable.restate.sessions import CLOSING, TOLD_AFTER, RestateSessions
from interpreters.durable.serialization import RunOutcome
from interpreters.testing.fakes import FunctionModel
from tests.interpreters.durable.restate_rig import free_port

ANSWER = b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\nnope!"


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of a program that is no Restate server."""

    def work() -> None:
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            with one:
                answer(one)

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def sessions_at(url: str, folder: Path) -> RestateSessions:
    agent = DurableAgent("greeter", FunctionModel(lambda _: "Hello."))
    return RestateSessions(agent, f"sqlite:///{folder}/sessions.db", ingress=url, admin=url)


def test_two_agents_whose_names_hold_dots_have_objects_of_their_own() -> None:
    assert versioned_name("a", "b.1") != versioned_name("a.b", "1")


@pytest.mark.parametrize(
    ("address", "keys", "said"),
    [("http://127.0.0.1:99999", (), "a process listens at an address such as"),
     ("http://127.0.0.1:1", ("nonsense",), "keys has to be public keys of the server")],
)  # fmt: skip
def test_a_port_or_a_key_that_is_none_is_said_at_once(
    address: str, keys: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        sessions_at("http://127.0.0.1:1", tmp_path).serve(address, keys=keys)


def test_another_program_at_the_address_is_named_as_such(tmp_path: Path) -> None:
    def answer(one: socket.socket) -> None:
        one.recv(10_000)
        one.sendall(ANSWER)

    with (
        answering(answer) as url,
        pytest.raises(DurableError, match="refused the message: status 404, as of no Restate server"),
    ):
        sessions_at(url, tmp_path).send("ada", "Hi!")


def test_a_message_that_the_server_does_not_read_to_its_end_is_too_large(tmp_path: Path) -> None:
    def reset(one: socket.socket) -> None:
        one.recv(10)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with answering(reset) as url, pytest.raises(DurableError, match="stopped reading a message of"):
        sessions_at(url, tmp_path).send("ada", "x" * 20_000_000)


def test_a_server_that_does_not_reach_the_process_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: Any, **__: Any) -> Any:
        raise TimeoutError("timed out")

    monkeypatch.setattr(restate_client, "urlopen", silent)
    with pytest.raises(DurableError, match="does not reach http://elsewhere:9080, or does not answer"):
        RestateServer.at("http://here:8080", "http://here:9070").register("http://elsewhere:9080", ())


def test_a_second_cancellation_lets_the_run_of_the_first_one_end(tmp_path: Path) -> None:
    class Stub:
        def __init__(self) -> None:
            self.cancelled: list[str] = []
            self.keys: list[str] = []

        def invocations(self, agent: str, key: str) -> list[dict[str, Any]]:
            return [
                {"id": "closing", "at_work": True, "idempotency_key": self.keys[0] if self.keys else None},
                {"id": "waits", "at_work": False, "idempotency_key": None},
                {"id": "runs", "at_work": True},
            ]

        def cancel(self, invocation: str) -> None:
            self.cancelled.append(invocation)

        def send(self, service: str, key: str, body: str, idempotency: str, handler: str) -> str:
            self.keys.append(idempotency)
            return "run"

    sessions, server = sessions_at("http://127.0.0.1:1", tmp_path), Stub()
    sessions._server = server  # type: ignore[assignment]
    sessions.cancel("ada")
    server.cancelled.clear()
    sessions.cancel("ada")

    assert server.cancelled == ["runs"]
    assert len(set(server.keys)) == 2
    assert all(key.startswith(CLOSING) for key in server.keys)


def test_a_request_that_waits_for_a_dead_connection_does_not_keep_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the SDK does, which takes the first cancellation for the end of its work, and then sends that."""
    monkeypatch.setattr(restate_serving, "GRACE", 0.05)

    async def ends() -> None:
        entered, ended = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            assert scope["type"] == "http"
            entered.set()
            for _ in range(2):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    continue

        port = free_port()
        serving = asyncio.create_task(serve_on(listen("127.0.0.1", port), app, ended))
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        await entered.wait()
        ended.set()
        await serving
        writer.close()

    asyncio.run(asyncio.wait_for(ends(), 30.0))


def test_only_what_is_bound_to_an_address_without_a_process_of_the_same_services_is_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deployment(name: str, *services: str) -> dict[str, Any]:
        return {"id": name, "uri": f"http://{name}:9080/", "services": [{"name": one} for one in services]}

    def called(method: str, _base: str, path: str, body: bytes | None, _headers: Any, *_: Any) -> HttpReply:
        if method == "GET":
            return HttpReply(200, json.dumps({"deployments": known}).encode())
        if method == "POST":
            gone = b"//gone" in (body or b"")
            return (
                HttpReply(500, b'{"message":"[META0003]","restate_code":"META0003"}') if gone else HttpReply(200, b"{}")
            )
        moved.append((path, json.loads(body or b"")))
        return HttpReply(200, b"{}")

    moved: list[Any] = []
    known = [
        deployment("gone", "a", "a.1"),
        deployment("there", "a", "a.1"),
        deployment("gone-2", "a", "a.2"),
        deployment("here", "a", "a.1"),
    ]
    monkeypatch.setattr(restate_client, "_call", called)
    RestateServer.at("http://server:8080", "http://server:9070").move_here("http://here:9080", ["a", "a.1", "b", "b.1"])

    assert moved == [("/deployments/gone", {"uri": "http://here:9080"})]


def test_what_a_run_waits_for_is_told_by_the_log_and_with_a_timeout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a version that nobody runs."""
    refused = {"target": "cogstep-version.7.greeter.1/ada/run", "status": "backing-off", "last_failure": "refused"}
    waited: list[float | None] = []

    def called(
        _method: str, _base: str, path: str, _body: Any, _headers: Any, seconds: float | None = None
    ) -> HttpReply:
        if path == "/query":
            return HttpReply(200, json.dumps({"rows": [refused]}).encode())
        waited.append(seconds)
        if seconds is not None:
            raise TimeoutError("timed out")
        return HttpReply(200, RunOutcome(1.0, turn=3).text().encode())

    monkeypatch.setattr(restate_client, "_call", called)
    sessions = sessions_at("http://127.0.0.1:1", tmp_path)

    with pytest.raises(
        TimeoutError, match=r"within 2 seconds: cogstep-version\.7\.greeter\.1/ada/run is backing-off: ref"
    ):
        sessions.result("inv_1", 2.0)
    assert sessions.result("inv_1").turn == 3
    assert waited == [2.0, TOLD_AFTER, None]
    said = [one.message for one in caplog.records]
    assert said == ["the run inv_1 waits: cogstep-version.7.greeter.1/ada/run is backing-off: refused"]

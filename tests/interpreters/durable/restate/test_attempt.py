"""A step that runs alone on Restate: what it sends, and when what may be done meanwhile is done."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from restate import ObjectContext, VirtualObject
from restate.exceptions import RetryableError

from interpreters.durable.restate._client import RestateServer
from interpreters.durable.restate._context import BYTES, WAKE, AttemptConnection, RestateContext, execute
from tests.interpreters.durable.restate_rig import Server, object_served

PATIENCE = 30.0


class Ends:
    """Both ends of a connection: what the SDK does at one, and a server at the other that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.said: list[str] = []
        self._received: asyncio.Queue[Any] = asyncio.Queue()
        context: Any = SimpleNamespace(send=self._send, receive=self)
        self.context, self.line = context, AttemptConnection(context)

    async def _send(self, message: Any) -> None:
        self.sent.append(message["body"])
        if b"gave" in message["body"]:
            self.said.append("sent")
            asyncio.get_running_loop().call_soon(self._received.put_nowait, {"type": "kept"})

    async def __call__(self) -> Any:
        return await self._received.get()

    async def enqueue_restate_event(self, event: Any) -> None:
        await self._received.put(event)

    async def step(self, work: Callable[[], Awaitable[None]], meanwhile: Callable[[], None]) -> None:
        """A step as the SDK has it run."""

        async def run() -> None:
            await work()
            self.said.append("worked")
            self.line.note_result()
            await self.context.receive.enqueue_restate_event(WAKE)

        self.line.begin(meanwhile)
        await self.context.send(body(b"begins "))
        task = asyncio.create_task(run())
        while (event := await self.context.receive())["type"] != "kept":
            assert event is WAKE
            await self.context.send(body(b"gave "))
        self.line.end()
        self.said.append("kept")
        await task


def body(data: bytes) -> Any:
    return {"type": "http.response.body", "body": data, "more_body": True}


def pausing(times: int) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        for _ in range(times):
            await asyncio.sleep(0)

    return work


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_steps_are_sent_in_order_and_at_once_where_the_work_waits_for_nothing(pauses: list[int]) -> None:
    async def told() -> Ends:
        ends = Ends()
        for times in pauses:
            await ends.step(pausing(times), lambda: ends.said.append("meanwhile"))
        return ends

    ends = asyncio.run(told())

    assert ends.said == ["worked", "sent", "meanwhile", "kept"] * len(pauses)
    expected = [[b"begins gave "] if times == 0 else [b"begins ", b"gave "] for times in pauses]
    assert ends.sent == [one for sent in expected for one in sent]


def test_what_was_held_back_is_sent_with_whatever_comes_next() -> None:
    async def sent() -> list[bytes]:
        ends = Ends()
        ends.line.begin(None)
        await ends.context.send(body(b"begins "))
        ends.line.end()
        await ends.context.send({**body(b"ends"), "more_body": False})
        return ends.sent

    assert asyncio.run(sent()) == [b"begins ends"]


class StopHereError(BaseException):
    """What no program expects."""


@pytest.mark.parametrize("error", [asyncio.CancelledError, StopHereError, ZeroDivisionError])
def test_what_is_raised_meanwhile_is_raised_where_the_sdk_waits(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    async def told() -> None:
        await Ends().step(pausing(1), fail)

    with pytest.raises(error):
        asyncio.run(told())


Handler = Callable[[RestateContext], Awaitable[str]]


@contextmanager
def served(server: Server, handler: Handler) -> Iterator[Callable[[], str]]:
    """Gives a function that has a handler run to its end."""
    name = f"line-{uuid.uuid4().hex}"
    made = VirtualObject(name)

    @made.handler("run", input_serde=BYTES, output_serde=BYTES)
    async def run(context: ObjectContext, _given: bytes) -> bytes:
        return await execute(context, name, lambda text: text, handler)

    with object_served(made) as address:
        known = RestateServer.at(server.ingress, server.admin)
        known.register(address, (name,))

        def result() -> str:
            reply = known.output(known.send(name, "key", "{}"), PATIENCE)
            assert reply is not None
            assert reply.status < 300, reply
            return reply.body.decode()

        yield result


def test_a_further_execution_neither_works_nor_does_meanwhile_what_an_earlier_one_did(server: Server) -> None:
    said: list[str] = []

    async def run(engine: RestateContext) -> str:
        said.append("begins")

        async def step(name: str, seconds: float) -> str:
            async def work() -> str:
                if seconds:
                    await asyncio.sleep(seconds)
                said.append(f"work {name}")
                return name

            return await engine.step(name, work, alone=True, meanwhile=lambda: said.append(f"meanwhile {name}"))

        given = [await step("at once", 0.0), await step("slowly", 0.01)]
        if said.count("begins") == 1:
            raise RetryableError("once more")
        given.append(await step("at last", 0.0))
        return ", ".join(given)

    with served(server, run) as result:
        text = result()

    assert text == "at once, slowly, at last"
    assert said == [
        "begins", "work at once", "meanwhile at once", "work slowly", "meanwhile slowly",
        "begins", "work at last", "meanwhile at last",
    ]  # fmt: skip


def test_an_error_meanwhile_ends_the_attempt_and_another_one_goes_on(server: Server) -> None:
    said: list[str] = []

    async def run(engine: RestateContext) -> str:
        said.append("begins")

        async def work() -> str:
            return "given"

        def fail_once() -> None:
            if said == ["begins"]:
                raise OSError("the disk is full")

        given = [await engine.step(name, work, alone=True, meanwhile=fail_once) for name in ("first", "second")]
        said.append("ends")
        return ", ".join(given)

    with served(server, run) as result:
        text = result()

    assert text == "given, given"
    assert said == ["begins", "begins", "ends"]


def test_work_that_runs_alone_is_stopped_before_a_cancelled_run_is_left(server: Server) -> None:
    said: list[str] = []
    known = RestateServer.at(server.ingress, server.admin)

    async def run(engine: RestateContext) -> str:
        async def work() -> str:
            try:
                await asyncio.to_thread(known.cancel, engine._context.request().id)
                await asyncio.sleep(PATIENCE)
            finally:
                said.append("stopped")
            return "given"

        try:
            return await engine.step("slowly", work, alone=True)
        finally:
            await asyncio.sleep(0)  # what a run does in its end, such as waiting for observers
            said.append("left")

    with served(server, run) as result, pytest.raises(AssertionError, match="cancelled"):
        result()

    assert said == ["stopped", "left"]

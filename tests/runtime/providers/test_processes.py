"""Connections under fork and handshakes: a child never reads or ends what is its parent's, and a stop comes through."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from queue import SimpleQueue
from typing import Any

import pytest

from cognition import UserMessage
from interpreters.testing.fakes import FunctionModel, Hold, Reply, ScriptedModel
from runtime import Backend, Timeouts
from runtime.protocol.model import Done
from runtime.providers._connection import Response
from runtime.providers.backends import RemoteName
from runtime.providers.remote import RemoteRuntime
from tests.runtime.asking import ask, reply
from tests.runtime.providers.speaking import SpeakingServer

LONG = Timeouts(connect=60, first=60, silence=60)


def remote(port: int, scheme: str = "http", timeouts: Timeouts = LONG) -> RemoteRuntime:
    backend = Backend("ours", f"{scheme}://127.0.0.1:{port}/v1", timeouts=timeouts)
    return RemoteRuntime(RemoteName(backend, "small"), ask=False)


@contextmanager
def in_child(work: Callable[[], str]) -> Iterator[Callable[[], str]]:
    """Do something in a forked child, and get what it gives."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, work().encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        yield told.read
    os.waitpid(child, 0)


def test_a_forked_child_has_connections_of_its_own() -> None:
    """Over the kept one, which both have, either would be answered what the other has asked."""
    both = threading.Barrier(2)

    def answer(request: Any) -> str:
        who = str(request.messages[-1].text)
        if who != "nobody":
            both.wait(20)  # two requests over one connection come one after another
        return who

    def asked(who: str) -> str:
        return reply(model, ask(UserMessage("m1", who))).text

    with closing(SpeakingServer(FunctionModel(answer))) as server, remote(server.port) as model:
        asked("nobody")
        with in_child(lambda: asked("child")) as childs:
            told = asked("parent"), childs()

    assert told == ("parent", "child")


def test_a_forked_child_does_not_end_the_reply_that_its_parent_reads() -> None:
    """Neither by closing nor by reading on; there it has failed, and can be asked for again."""
    hold = Hold()
    scripted = ScriptedModel([Reply("One two three.", hold=hold)])

    with closing(SpeakingServer(scripted)) as server, remote(server.port) as model:
        generation = model.submit(ask())
        hold.reached.wait(20)

        def leave() -> str:
            generation.cancel()
            *_, done = generation
            model.close()
            assert isinstance(done, Done)
            return f"{done.finish_reason} {done.failure and done.failure.code}"

        with in_child(leave) as childs:
            told = childs()
        hold.release()
        *_, done = generation

    assert told == "error forked"
    assert isinstance(done, Done)
    assert (done.text, done.failure) == ("One two three.", None)


def test_a_stop_ends_the_handshake_of_tls() -> None:
    """The server sees it at once, rather than when the time for connecting is over."""
    with socket.create_server(("127.0.0.1", 0)) as listener, remote(listener.getsockname()[1], "https") as model:
        generation = model.submit(ask())
        with listener.accept()[0] as accepted:
            accepted.settimeout(20)
            assert accepted.recv(1 << 16), "the client's hello"
            generation.cancel()
            try:
                left = accepted.recv(1 << 16)
            except ConnectionResetError:
                left = b""
        *_, done = generation

    assert left == b""
    assert isinstance(done, Done)
    assert done.finish_reason == "cancelled"


def test_an_interrupt_before_the_request_is_sent_ends_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request, which the reader had just taken from the worker, was lost, and its answer waited for without end."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with remote(9, timeouts=Timeouts(whole=1)) as model:
        monkeypatch.setattr("runtime.providers._generation.WORKERS.run_unless_taken", lambda *_: None)
        monkeypatch.setattr(model._connection, "has_idle", lambda: True)
        monkeypatch.setattr(model._connection, "send", interrupted)
        generation = model.submit(ask())
        with pytest.raises(KeyboardInterrupt):
            next(generation)
        *_, done = generation

        monkeypatch.undo()
        late = model.submit(ask())
        late._heads = InterruptedQueue()
        with pytest.raises(KeyboardInterrupt):
            next(late)
        *_, behind = late

    assert [one.failure and one.failure.code for one in (done, behind) if isinstance(one, Done)] == ["interrupted"] * 2


def test_an_interrupt_never_leaves_the_pool_locked() -> None:
    """Python lets no signal's handler in between the taking of a lock of its own and the block that lets it go."""
    with remote(9) as model:
        lock: object = model._connection._pool._optional_thread_lock

    assert isinstance(lock, type(threading.RLock()))


def test_an_interrupt_at_the_end_of_a_reply_frees_its_place_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_answer: Response) -> None:
        raise KeyboardInterrupt

    with closing(SpeakingServer(ScriptedModel(["Yes."]))) as server, remote(server.port) as model:
        monkeypatch.setattr(Response, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reply(model, ask())
        assert model._open._all == 0


class InterruptedQueue(SimpleQueue[Any]):
    """A signal comes when the head of the response has been taken out."""

    interrupted = False

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt
        return super().get(block, timeout)

"""How far a session may run ahead of whoever reads its events: never further than its window, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cognition import AgentConfig, Cancelled, ConfigError, ModelRequest
from interpreters import Agent, events
from interpreters.hosting import AgentHost, QueueChannel, _protocol as say
from interpreters.hosting._host import Host
from interpreters.hosting._hosted_session import HostedSession, Window
from interpreters.hosting._protocol import line_of, read_notice
from interpreters.observing.events import Event
from interpreters.testing.fakes import FunctionModel, Reply, ScriptedModel
from tests.interpreters.hosting.common import host_of
from tests.interpreters.signs import PATIENCE


class Ahead:
    """A model of 2,000 pieces that looks how far it is ahead of its reader."""

    def __init__(self) -> None:
        self.made = self.read = self.most = 0
        self.model = FunctionModel(self.write)

    def write(self, request: ModelRequest) -> Iterator[str]:
        for _ in range(2000):
            self.made += 1
            self.most = max(self.most, self.made - self.read)
            yield "x"

    def take(self, event: Any) -> None:
        self.read += isinstance(event.value, events.TextDelta)


def read_in_a_thread(ahead: Ahead, handle: Any) -> str:
    with handle.stream("Go!") as stream:
        for event in stream:
            ahead.take(event)
    return str(stream.result.text)


def read_in_a_loop(ahead: Ahead, handle: Any) -> str:
    async def read() -> str:
        async with handle.stream("Go!") as stream:
            async for event in stream:
                ahead.take(event)
        return str(stream.result.text)

    return asyncio.run(read())


@pytest.mark.parametrize("read", [read_in_a_thread, read_in_a_loop])
@pytest.mark.parametrize("window", [1, 7, 64])
def test_a_slow_reader_holds_the_session_up(window: int, read: Callable[[Ahead, Any], str]) -> None:
    """It is never further behind than the window, and misses none."""
    ahead = Ahead()
    with AgentHost.in_thread(ahead.model) as host:
        assert read(ahead, host.open("a", window=window)) == "x" * 2000

    assert (ahead.made, ahead.read) == (2000, 2000)
    assert ahead.most <= window + 2  # the one under way, and the one that is being read


class Held:
    """A model that writes for ever, and says when its turn has come to the end of the window."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.up = threading.Event()
        wait = threading.Condition.wait

        def noted(condition: threading.Condition, timeout: float | None = None) -> bool:
            if timeout is None and threading.current_thread().name == "cogstep-a":
                self.up.set()
            return wait(condition, timeout)

        monkeypatch.setattr("interpreters.hosting._hosted_session.threading.Condition.wait", noted)
        self.model = FunctionModel(lambda request: "Hello." if len(request.messages) > 1 else self.write())

    def write(self) -> Iterator[str]:
        while True:
            yield "on and "


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (lambda handle: handle.cancel("enough"), "enough"),
        (lambda handle: handle.reset(), "the session was reset"),
        (lambda handle: handle.dispose(), "the session was closed"),
        (lambda handle: handle._host.close(), "the host was shut down"),
        (lambda handle: handle._host._channel.close(), "the host was shut down"),
    ],
    ids=["cancel", "reset", "dispose", "close", "channel"],
)
def test_a_turn_that_is_held_up_ends_when_it_has_to(
    stop: Callable[[Any], object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has read a word of it."""
    held = Held(monkeypatch)
    with AgentHost.in_thread(held.model) as host:
        handle = host.open("a", window=5)
        stream = handle.stream("Go!")
        assert held.up.wait(PATIENCE)
        stop(handle)
        read = list(stream)
        outcome = stream.result.outcome
        assert isinstance(outcome, Cancelled)
        assert (reason, type(read[-1].value)) == (outcome.reason, events.TurnFinished)
        assert outcome.text == "".join(event.value.text for event in read if isinstance(event.value, events.TextDelta))


def test_a_mode_may_be_set_while_a_turn_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the reader itself, who is answered; and the next message works."""
    held = Held(monkeypatch)
    with AgentHost.in_thread(held.model) as host:
        handle = host.open("a", window=5)
        with handle.stream("Go!") as stream:
            assert held.up.wait(PATIENCE)
            handle.set_mode("careful")
            assert isinstance(next(stream).value, events.UserSpoke)
        assert handle.run("Hi!").text == "Hello."


def test_a_window_counts_also_what_the_handle_does_not_know() -> None:
    """Events of a newer host, and those that can't be read: nobody reads them, and they are no debt."""
    with host_of("Hello.") as host:
        handle = host.open("a", window=2)
        stream = handle.stream("Hi!")
        said: list[Any] = []
        handle.send = said.append  # type: ignore[method-assign]
        for data in [{"session": "a", "value": {"type": "from_the_future"}}] * 2:
            stream.receive(say.EventHappened("a", 1, data))
        with pytest.raises(Exception, match="the field is missing"):
            stream.receive(say.EventHappened("a", 1, {"value": {"type": "text_delta"}}))
        assert [say.Read("a", 1, 1)] * 3 == said
        del handle.send
        list(stream)


def test_without_a_window_nobody_is_waited_for() -> None:
    """So it is for other programs, which need not say what they have read."""
    script = [Reply("x" * 1000, chunk=1)]
    ours, theirs = QueueChannel.pair()
    thread = threading.Thread(target=Host(theirs, ScriptedModel(script)).serve)
    thread.start()
    for message in (say.Init("1", "a"), say.RunTurn("a", 1, "Hi!")):
        ours.send(line_of(message))
    said: list[Any] = []
    while not said or not isinstance(said[-1], say.TurnEnded):
        said.append(read_notice(ours.receive() or ""))
    ours.close()
    thread.join(PATIENCE)
    assert len([notice for notice in said if isinstance(notice, say.EventHappened)]) > 1000

    with AgentHost.in_thread(ScriptedModel(script)) as host:
        stream = host.open("a", window=None).stream("Hi!")
        assert len([event for event in stream if isinstance(event, Event)]) > 1000


def test_a_window_has_room_for_something() -> None:
    with host_of() as host, pytest.raises(ConfigError, match="window"):
        host.open("a", window=0)


def test_a_window_is_a_bound() -> None:
    window = Window(2)
    window.take()
    window.take()
    taken = threading.Event()
    thread = threading.Thread(target=lambda: (window.take(), taken.set()))
    thread.start()
    assert not taken.is_set()
    window.read(1)
    assert taken.wait(PATIENCE)
    thread.join(PATIENCE)
    assert window._unread == 2


def test_whoever_reads_the_messages_is_never_held_up() -> None:
    """A mode that is set before a turn has begun is told of on the host's thread, which has to hear what was read."""
    busy, release, told = threading.Event(), threading.Event(), threading.Event()
    said: list[Any] = []
    ended = threading.Event()

    def send(notice: Any) -> None:
        said.append(notice)
        if isinstance(notice, say.Ready):
            told.set()
        if isinstance(notice, say.TurnEnded):
            ended.set()

    def hold(agent: Agent) -> None:
        busy.set()
        assert release.wait(PATIENCE)

    session = HostedSession("a", AgentConfig(), say.Settings(window=1), send)
    session.begin("1", lambda given, tools: Agent(ScriptedModel(["Hello."]), tools, **given), lambda _: None)
    assert told.wait(PATIENCE)
    session.queue("2", hold)
    assert busy.wait(PATIENCE)
    session.accept(1, lambda agent: agent.run("Hi!"))

    def host() -> None:
        for mode in ("careful", "auto", "default"):
            session.run_now(mode, lambda agent, mode=mode: agent.set_mode(mode))
        release.set()
        session.take(say.Read("a", 1, 100))

    thread = threading.Thread(target=host, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert ended.wait(PATIENCE)
    session.dispose("3", "over")
    assert session.join(PATIENCE)
    assert [notice.id for notice in said if isinstance(notice, say.Accepted)] == [
        "careful",
        "auto",
        "default",
        "2",
        "3",
    ]

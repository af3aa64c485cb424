"""Hosts in processes of their own: the same sessions, and what becomes of them when the process dies."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cognition import Cancelled, Completed
from interpreters import Agent, events, replay, tool
from interpreters.hosting import AgentHost, HostDiedError, HostError, ModelChoice, ToolWait
from interpreters.observing.events import Event
from tests.interpreters.hosting import models
from tests.interpreters.signs import PATIENCE

ROOT = Path(__file__).parent.parent.parent.parent
MODELS = "tests.interpreters.hosting.models"


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children find the tests as modules."""
    monkeypatch.syspath_prepend(str(ROOT))


def host_with(name: str, **arguments: Any) -> AgentHost:
    """A host whose model a function of ``models.py`` makes."""
    return AgentHost.in_process(ModelChoice(factory=name, arguments=arguments), factories={name: f"{MODELS}:{name}"})


def scripted(*replies: Any) -> AgentHost:
    return host_with("scripted", replies=list(replies))


def kill(host: AgentHost) -> None:
    assert host.process is not None
    os.kill(host.process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_sizes_are_counted_where_the_model_is_and_are_those_of_a_session_here() -> None:
    """By the tokenizer in the other process, of results that this one's tools gave too."""
    replies = [["multiply", '{"a": 17, "b": 23}'], "391."]
    told: list[Event] = []
    with host_with("counting", replies=replies) as host:
        host.open("a", [multiply], observers=[told.append]).run("What is 17 * 23?")
    here: list[Event] = []
    with Agent(models.counting(replies), [multiply], observers=[here.append]) as agent:
        agent.run("What is 17 * 23?")

    sizes, expected = (
        [(e.value.counted, e.value.tokens) for e in some if isinstance(e.value, events.ContextAssembled)]
        for some in (told, here)
    )
    assert sizes == expected
    assert len(sizes) == 2
    assert all(counted for counted, _ in sizes)


@pytest.mark.slow
def test_a_session_in_a_process_is_a_session() -> None:
    """Tools run in this process, events come in order, and what libraries print over there does no harm."""
    told: list[Event] = []
    pids: list[int] = []

    @tool
    def where() -> int:
        """Say where."""
        pids.append(os.getpid())
        return 1

    replies = [["where", "{}"], ["multiply", '{"a": 17, "b": 23}'], "391.", "Hello."]
    with host_with("noisy", replies=replies) as host:
        handle = host.open("a", [where, multiply], observers=[told.append])
        result = handle.run("What is 17 * 23?")
        assert (Completed("391."), ["1", "391"]) == (result.outcome, [made.content for made in result.calls])
        assert host.open("b").run("Hi!").text == "Hello."
        assert host.process is not None
        assert host.process.pid != os.getpid()
        assert ([os.getpid()], "scripted", "fake") == (
            pids,
            host.model and host.model.model,
            host.model and host.model.backend,
        )
        assert [*range(1, len(told) + 1)] == [event.sequence for event in told]
    assert (host.process.returncode, host.ended, host.faults) == (0, "the host was closed", [])


@pytest.mark.slow
def test_a_cancel_reaches_a_model_in_another_process() -> None:
    """Also one that writes for ever; and the process goes on."""
    with host_with("endless") as host:
        handle = host.open("a")
        for _ in range(2):
            with handle.stream("Go!") as stream:
                for event in stream:
                    if isinstance(event.value, events.TextDelta):
                        handle.cancel("enough")
            outcome = stream.result.outcome
            assert isinstance(outcome, Cancelled)
            assert (outcome.reason, outcome.text.startswith("on and ")) == ("enough", True)


@pytest.mark.slow
def test_a_process_that_is_killed_ends_its_streams_and_the_session_is_resumed(tmp_path: Path) -> None:
    """With an error that says how it died. What was recorded goes on in another process: the call that may have
    happened is not run again, and the model is told.
    """
    path = tmp_path / "a.jsonl"
    ran: list[int] = []
    host = scripted(["multiply", '{"a": 2, "b": 3}'], "never")

    @tool(name="multiply")
    def fatal(a: int, b: int) -> int:
        """Multiply two whole numbers."""
        ran.append(a)
        kill(host)
        return a * b

    handle, other = host.open("a", [fatal], journal=path), host.open("b")
    with pytest.raises(HostDiedError, match="the host's process was killed by SIGKILL"):
        handle.run("2 * 3?")
    for use in (lambda: handle.run("Hi!"), lambda: other.run("Hi!"), handle.reset, lambda: host.open("c")):
        with pytest.raises(HostDiedError, match="SIGKILL"):
            use()
    assert (host.alive, handle.alive, other.alive) == (False, False, False)
    host.close()

    with scripted("It may be 6.") as host:
        handle = host.open("a", [fatal], journal=path, resume=True)
        assert handle.unfinished
        result = handle.resume_turn()
    assert Completed("It may be 6.") == result.outcome
    assert "nobody knows whether it happened" in result.calls[0].content
    assert (ran, replay(path).same) == ([2], True)


@pytest.mark.slow
def test_a_process_that_is_killed_while_its_model_writes_leaves_nobody_waiting() -> None:
    """Readers of several streams, on threads of their own, and a waiting call: all end."""
    ended: list[str] = []
    host = host_with("endless")
    reading = threading.Barrier(3)

    def read(name: str) -> None:
        try:
            for number, _ in enumerate(host.open(name).stream("Go!")):
                if number == 5:
                    reading.wait(PATIENCE)
        except HostDiedError as error:
            ended.append(str(error))

    threads = [threading.Thread(target=read, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    reading.wait(PATIENCE)
    kill(host)
    for thread in threads:
        thread.join(PATIENCE)
    host.close()

    assert ended == ["the host's process was killed by SIGKILL"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("missing", {}, HostError, "there is no model here"),
        ("nothing", {}, HostError, "package.module:function"),
        ("dying", {"status": 3}, HostDiedError, "ended with status 3"),
    ],
)
def test_a_process_without_a_model_says_why(name: str, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        host_with(name, **arguments)


@pytest.mark.slow
def test_a_command_that_is_no_host_says_so() -> None:
    """What it prints is no message, and its end is an error, not a wait."""
    with pytest.raises(HostDiedError, match="ended with status 7"):
        AgentHost.in_process(command=(sys.executable, "-c", "raise SystemExit(7)"))
    with pytest.raises(HostDiedError, match=r"said what can't be right .*no JSON"):
        AgentHost.in_process(command=(sys.executable, "-c", "print('hello'); raise SystemExit(7)"))


@pytest.mark.slow
def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    """The end of its input is its end, also where nobody could say shutdown: its journal is closed in order,
    and a call that is run outside waits on in it.
    """
    path = tmp_path / "a.jsonl"
    host = scripted(["multiply", '{"a": 2, "b": 3}'])
    with host.open("a", [multiply.spec], journal=path).stream("Go!") as stream:
        for item in stream:
            if isinstance(item, ToolWait):
                host._channel.close()  # as the kernel does it when this process dies
        (effect,) = stream.result.pending
    host.close()

    assert host.process is not None
    assert host.process.returncode == 0
    with scripted("It is 6.") as host:
        handle = host.open("a", [multiply.spec], journal=path, resume=True)
        assert (effect,) == handle.pending
        assert handle.answer(effect.effect_id, 6).text == "It is 6."
    assert replay(path).turns == 1


@pytest.mark.slow
def test_messages_of_a_process_are_plain_json_lines(tmp_path: Path) -> None:
    """Any program in any language can drive it: by hand, with the page of messages open."""
    import subprocess

    said = [
        {
            "type": "start",
            "id": "1",
            "version": 5,
            "model": {"factory": "script", "arguments": {"replies": ["Hello."]}},
        },
        {"type": "init", "id": "2", "session": "s"},
        {"type": "run_turn", "session": "s", "turn": 1, "text": "Hi!"},
    ]
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "interpreters.hosting.host_main", f"--factory=script={MODELS}:scripted"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    for message in said:
        child.stdin.write(json.dumps(message) + "\n")
    child.stdin.flush()
    heard = []
    while not heard or heard[-1]["type"] != "turn_ended":
        heard.append(json.loads(child.stdout.readline()))
    child.communicate(timeout=PATIENCE)

    assert [notice["type"] for notice in heard[:2]] == ["started", "ready"]
    assert heard[-1]["outcome"] == {"type": "completed", "text": "Hello."}
    assert child.returncode == 0

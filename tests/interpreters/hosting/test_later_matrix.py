"""Three kinds of answers that come later, however the program ends, wherever the session runs: each happens once.

The end comes in the midst of a run: while a person is asked, or while another call is at work beside an external one.
Then another process answers, by each kind of agent and through a host. ``tests/interpreters/test_later.py`` and
``test_later_hosts.py`` have the plain cases, and more kinds; here is the whole table, cell by cell.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from cognition import AskApproval, AskUser, CallTool, Idle, ToolMessage, ToolSpec
from interpreters import LATER, Agent, AsyncAgent, ToolContext, replay, tool
from interpreters.hosting import AgentHandle, AgentHost
from interpreters.testing._promising import in_a_process
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.hosting.test_later_hosts import ROOT, in_process, in_thread
from tests.interpreters.signs import PATIENCE
from tests.interpreters.test_later import QUESTIONS

END: Callable[[], object] = lambda: None  # noqa: E731 - replaced in each child
"""Ends the program in the way of the cell. Called while somebody is asked, or while a call is at work."""


@frozen
class Kind:
    """What waits, and its answer."""

    script: Any
    effect: type
    answer: Any
    result: str


KINDS = {
    "an approval": Kind([call("pay", amount=3)], AskApproval, True, "paid 3"),
    "a question": Kind([call("ask_user", questions=QUESTIONS)], AskUser, ["blue"], "Which one? blue"),
    "an external call": Kind([call("order"), call("look")], CallTool, "ordered", "ordered"),
}
ORDER = ToolSpec("order", read_only=True)
"""Read-only, so that another call is at work beside it."""


def tools_of(folder: Path, *, look: Callable[..., Any]) -> list[Any]:
    def note(what: str) -> None:
        with (folder / "happened").open("a") as file:
            file.write(f"{what}\n")

    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        note("paid")
        return f"paid {amount}"

    return [pay, ORDER, tool(read_only=True, name="look", description="Look.")(look)]


def look(context: ToolContext[None]) -> str:
    """At work when the program ends."""
    threading.Thread(target=END).start() if END is not killed else END()
    pause = threading.Event()
    while not context.cancelled:
        pause.wait(0.005)
    return "too late"


async def look_in_asyncio() -> str:
    """The same on the loop."""
    END()
    await asyncio.sleep(PATIENCE)
    return "too late"


def look_again() -> str:
    """When it is run again, in the process that answers."""
    return "a cat"


def asked(_request: Any) -> Any:
    END()
    return Future()


async def asked_in_asyncio(_request: Any) -> Any:
    END()
    await asyncio.sleep(PATIENCE)


def options(ask: Any) -> dict[str, Any]:
    return {"features": ["questions"], "approve": ask, "ask": ask}


# ------------------------------------------------------------------------------------- the ends, and where they come


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def terminated() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def leave_at_sigterm() -> None:
    """As a program does it that ends in order."""

    def leave(_number: int, _frame: Any) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)


def ends_by(end: Callable[[], object]) -> None:
    global END
    END = end


def on_a_thread(end: Callable[[], object]) -> Callable[[], object]:
    return lambda: threading.Thread(target=end).start()


def by_an_agent(end: str, path: Path, kind: Kind) -> None:
    tools = tools_of(path.parent, look=look)
    leave_at_sigterm()
    with Agent(ScriptedModel([kind.script]), tools, journal=path, **options(asked)) as agent:
        ends_by({"close": on_a_thread(agent.close), "SIGTERM": terminated, "kill -9": killed}[end])
        agent.run("Go!")


def by_an_async_agent(end: str, path: Path, kind: Kind) -> None:
    async def main() -> None:
        loop, tools = asyncio.get_running_loop(), tools_of(path.parent, look=look_in_asyncio)
        given = options(asked_in_asyncio)
        async with AsyncAgent(ScriptedModel([kind.script]), tools, journal=path, **given) as agent:
            running = asyncio.create_task(agent.run("Go!"))
            loop.add_signal_handler(signal.SIGTERM, running.cancel)  # as servers do it
            closing: list[asyncio.Task[None]] = []
            ends_by(
                {
                    "close": lambda: closing.append(asyncio.create_task(agent.close())),
                    "SIGTERM": terminated,
                    "asyncio cancellation": running.cancel,
                    "kill -9": killed,
                }[end]
            )
            try:
                await running
            except asyncio.CancelledError:
                assert end in ("SIGTERM", "asyncio cancellation")
            await asyncio.gather(*closing)

    asyncio.run(main())


def by_a_host(make: Callable[..., AgentHost]) -> Callable[[str, Path, Kind], None]:
    def session(end: str, path: Path, kind: Kind) -> None:
        tools = tools_of(path.parent, look=look)
        with make(kind.script) as host:
            handle = host.open("a", tools, journal=path, **options(asked))
            if end == "asyncio cancellation":
                asyncio.run(cancelled(handle))
                return
            leave_at_sigterm()
            ends_by({"close": on_a_thread(host.close), "SIGTERM": terminated, "kill -9": killed}[end])
            handle.run("Go!")

    async def cancelled(handle: AgentHandle) -> None:
        loop, running = asyncio.get_running_loop(), asyncio.create_task(handle.run_async("Go!"))
        ends_by(lambda: loop.call_soon_threadsafe(running.cancel))
        with pytest.raises(asyncio.CancelledError):
            await running

    return session


def answered_by_an_agent(path: Path, kind: Kind) -> None:
    tools = tools_of(path.parent, look=look_again)
    with Agent.resume(path, ScriptedModel(["Done."]), tools, **resumed()) as agent:
        (effect,) = agent.pending
        assert isinstance(effect, kind.effect)
        check(kind, agent.answer(effect.effect_id, kind.answer))


def answered_by_an_async_agent(path: Path, kind: Kind) -> None:
    async def main() -> None:
        tools = tools_of(path.parent, look=look_again)
        async with AsyncAgent.resume(path, ScriptedModel(["Done."]), tools, **resumed()) as agent:
            (effect,) = agent.pending
            assert isinstance(effect, kind.effect)
            check(kind, await agent.answer(effect.effect_id, kind.answer))

    asyncio.run(main())


def answered_through_a_host(path: Path, kind: Kind) -> None:
    tools = tools_of(path.parent, look=look_again)
    with in_thread("Done.") as host:
        handle = host.open("a", tools, journal=path, resume=True, **resumed())
        (effect,) = handle.pending
        assert isinstance(effect, kind.effect)
        check(kind, handle.answer(effect.effect_id, kind.answer))


def resumed() -> dict[str, Any]:
    return {"approve": lambda request: LATER, "ask": lambda request: LATER}


def check(kind: Kind, result: Any) -> None:
    assert result.text == "Done."
    assert kind.result in [m.content for m in result.messages if isinstance(m, ToolMessage)]


PLACES: dict[str, Callable[[str, Path, Kind], None]] = {
    "Agent": by_an_agent,
    "AsyncAgent": by_an_async_agent,
    "a host in a thread": by_a_host(in_thread),
    "a host in a process": by_a_host(in_process),
}
ENDS = ("close", "SIGTERM", "asyncio cancellation", "kill -9")
ANSWERS = {
    "Agent": answered_by_an_agent,
    "AsyncAgent": answered_by_an_async_agent,
    "a host": answered_through_a_host,
}
TABLE = [
    (kind, end, place, list(ANSWERS)[(number + turn) % 3])
    for number, kind in enumerate(KINDS)
    for turn, end in enumerate(ENDS)
    for place in PLACES
    if not (place == "Agent" and end == "asyncio cancellation")  # no task awaits it
]
"""Every cell; the ways to answer take turns in it, and ``test_later.py`` has them all for each way to leave."""


@pytest.mark.behaviour("P16a")
@pytest.mark.parametrize(("name", "end", "place", "answers"), TABLE)
def test_what_waits_survives_each_end_of_each_program_and_happens_once(
    name: str, end: str, place: str, answers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))  # a host in a process finds its model there
    path, kind = tmp_path / "s.jsonl", KINDS[name]

    in_a_process(
        lambda: left_in_order(lambda: PLACES[place](end, path, kind)),
        signal.SIGKILL if end == "kill -9" else 0,
    )
    assert not (tmp_path / "happened").exists()
    in_a_process(lambda: ANSWERS[answers](path, kind))

    assert replay(path).raise_for_divergence().state.phase == Idle()
    happened = (tmp_path / "happened").read_text() if (tmp_path / "happened").exists() else ""
    assert happened == ("paid\n" if name == "an approval" else "")


def left_in_order(session: Callable[[], None]) -> None:
    with contextlib.suppress(SystemExit):  # of the signal's handler
        session()

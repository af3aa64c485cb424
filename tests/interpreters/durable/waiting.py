"""Messages that come at any moment, also while a turn waits for a person, to processes that are killed: each that was
acknowledged is worked on exactly once, in its order. Counted from outside.

    python -m tests.interpreters.durable.waiting dbos sqlite:////tmp/s.db /tmp/folder --kills 3
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from cognition import CogstepError, UserMessage
from interpreters import LATER, replay, tool
from interpreters.durable._errors import DurableError
from interpreters.durable.definition import DurableAgent
from interpreters.recording.journal import NotAJournalError
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.durable.outside import _write

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 120.0
"""Seconds after which a message counts as lost."""

ASKS = "pay "
"""What a message begins with whose turn waits for an approval."""


def agent_of(folder: Path) -> DurableAgent:
    """The definition, as each process makes it."""

    @tool(approval=True)
    def pay(text: str) -> str:
        """Pay, which must happen once."""
        _write(folder / "done", text)
        return "paid"

    def answer(request: Any) -> Any:
        newest = request.messages[-1]
        if isinstance(newest, UserMessage) and newest.text.startswith(ASKS):
            return call("pay", text=newest.text)
        return "Done."

    return DurableAgent("waiter", FunctionModel(answer), [pay], approve=_later)


async def _later(_request: Any) -> Any:
    return LATER


class Sessions(Protocol):
    """What all engines have."""

    def send(self, session: str, content: Any, *, agent: Any = ..., key: Any = ...) -> str: ...
    def answer(self, session: str, effect_id: str, answer: Any) -> str: ...
    def cancel(self, session: str, reason: str = ...) -> str: ...
    def result(self, run: str, timeout: float | None = ...) -> Any: ...
    def pending(self, session: str) -> Any: ...
    def recorder(self, session: str) -> Any: ...


def patiently(ask: Callable[[], Any]) -> Any:
    """What a server or database says that may be away for a while."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except DurableError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def pending(sessions: Sessions, name: str) -> tuple[Any, ...]:
    """What a session waits for; nothing before its first turn."""
    try:
        return tuple(sessions.pending(name))
    except NotAJournalError:
        return ()


def answer_newest(sessions: Sessions, name: str) -> None:
    """Approve what a session waits for; that another answer or a cancellation came first is no fault."""
    for effect in pending(sessions, name)[:1]:
        try:
            sessions.result(sessions.answer(name, str(effect.effect_id), True), PATIENCE)
        except CogstepError as error:
            if not any(words in str(error) for words in ("nothing waits for an answer", "cancelled")):
                raise


def law(
    sessions: Sessions,
    names: list[str],
    folder: Path,
    *,
    messages: int,
    chance: random.Random,
    disturb: Callable[[], None] = lambda: None,
) -> Counter[str]:
    """Send, answer and cancel by chance; see that every acknowledged message is worked on exactly once, in its order.

    Args:
        sessions: at which other processes, or this one, work.
        names: of the sessions.
        folder: of the agent.
        messages: how many there are for each session.
        chance: what is done, and when.
        disturb: is called now and then.

    Returns:
        How often something was done.
    """
    said: dict[str, list[str]] = {name: [] for name in names}
    runs: dict[str, tuple[str, str]] = {}
    did: Counter[str] = Counter()
    while any(len(texts) < messages for texts in said.values()):
        name = chance.choice(names)
        match chance.choices(("send", "answer", "cancel", "disturb"), (70, 15, 5, 10))[0]:
            case "send" if len(said[name]) < messages:
                text = f"{chance.choice((ASKS, ''))}{name} {len(said[name])}"
                run = patiently(partial(sessions.send, name, text, key=text))
                assert patiently(partial(sessions.send, name, text, key=text)) == run
                said[name].append(text)
                runs[run] = name, text
                did["send"] += 1
            case "answer" if pending(sessions, name):
                patiently(partial(answer_newest, sessions, name))
                did["answer"] += 1
            case "cancel" if pending(sessions, name):
                patiently(partial(sessions.cancel, name, "enough"))
                did["cancel"] += 1
            case "disturb":
                disturb()
            case _:
                pass
    until = time.monotonic() + PATIENCE
    while left := [run for run in runs if not _has_ended(sessions, run)]:
        assert time.monotonic() < until, f"never worked on: {[runs[run] for run in left]}"
        for name in names:
            patiently(partial(answer_newest, sessions, name))
    for name in names:
        patiently(partial(answer_newest, sessions, name))
        report = replay(sessions.recorder(name)).raise_for_divergence()
        assert said[name] == [one.text for one in report.state.history if isinstance(one, UserMessage)]
    paid = Counter((folder / "done").read_text().splitlines() if (folder / "done").exists() else [])
    asked = {text for texts in said.values() for text in texts if text.startswith(ASKS)}
    assert [text for text, times in paid.items() if times > 1] == []
    assert len(asked - paid.keys()) <= did["cancel"], f"not paid: {sorted(asked - paid.keys())}"
    assert paid.keys() <= asked
    return did


def _has_ended(sessions: Sessions, run: str) -> bool:
    try:
        ended = sessions.result(run, 0.2)
    except TimeoutError:
        return False
    except DurableError as error:
        if "no Restate server" in str(error):
            return False
        raise
    return ended is not None


@contextmanager
def on_dbos(url: str, folder: Path, kills: int, chance: random.Random) -> Iterator[tuple[Sessions, Callable[[], None]]]:
    """Sessions at which two processes work, and a function that kills one of them and starts another."""
    from interpreters.durable.dbos.sessions import DBOSSessions

    def begin() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.interpreters.durable.waiting", "dbos", url, str(folder), "--work"]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process

    left = kills
    crew = [begin(), begin()]

    def kill_one() -> None:
        nonlocal left
        if left:
            left -= 1
            one = crew.pop(chance.randrange(len(crew)))
            one.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM)))
            one.communicate()
            crew.append(begin())

    try:
        with DBOSSessions(agent_of(folder), url) as sessions:
            yield sessions, kill_one
    finally:
        for one in crew:
            one.kill()
            one.communicate()


def work(url: str, folder: Path) -> None:
    """A process that works at sessions until it is told to end."""
    from interpreters.durable.dbos.sessions import DBOSSessions

    with DBOSSessions(agent_of(folder), url) as sessions:
        print("ready", flush=True)
        sessions.work()


@contextmanager
def on_restate(
    store: str, folder: Path, kills: int, chance: random.Random
) -> Iterator[tuple[Sessions, Callable[[], None]]]:
    """As ``on_dbos``; the server is killed as well."""
    from interpreters.durable.restate.sessions import RestateSessions
    from tests.interpreters.durable.restate_rig import Workers, free_port, running_server

    left, address = kills, f"http://127.0.0.1:{free_port()}"
    with running_server(folder / "restate") as server:
        arguments = ["-m", "tests.interpreters.durable.waiting", "restate", store, str(folder), "--work"]
        crew = Workers([*arguments, "--server", server.ingress, server.admin, address], folder / "workers.log")

        def kill_one() -> None:
            nonlocal left
            if not left:
                return
            left -= 1
            if chance.random() < 0.3:
                server.kill()
                server.start()
            else:
                crew.kill(chance.choice(crew.processes), chance.choice((signal.SIGKILL, signal.SIGTERM)))
                crew.add()

        try:
            crew.add()
            crew.add()
            yield RestateSessions(agent_of(folder), store, ingress=server.ingress, admin=server.admin), kill_one
        finally:
            crew.close()


def work_on_restate(store: str, folder: Path, ingress: str, admin: str, address: str) -> None:
    from tests.interpreters.durable.restate_worker import serve

    serve(agent_of(folder), store, ingress, admin, address)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("engine", choices=["dbos", "restate"])
    parser.add_argument("url", help="of the store")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--messages", type=int, default=6, help="to each session")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", action="store_true")
    parser.add_argument("--server", nargs=3, metavar=("INGRESS", "ADMIN", "ADDRESS"))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.work:
        if given.server:
            work_on_restate(given.url, given.folder, *given.server)
        else:
            work(given.url, given.folder)
        return
    chance, began = random.Random(given.seed), time.monotonic()
    names = [f"session-{number}" for number in range(given.sessions)]
    engine = on_dbos if given.engine == "dbos" else on_restate
    with engine(given.url, given.folder, given.kills, chance) as (sessions, disturb):
        did = law(sessions, names, given.folder, messages=given.messages, chance=chance, disturb=disturb)
    print(f"each worked on once: {dict(did)} with {given.kills} kills in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

"""What the tests of handles have in common."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from interpreters import tool
from interpreters.hosting import AgentHost, QueueChannel, _protocol as say
from interpreters.hosting._host import Host
from interpreters.hosting._protocol import line_of, read_notice
from interpreters.testing.fakes import ScriptedModel
from tests.interpreters.signs import PATIENCE


@tool(read_only=True)
def look(n: int) -> int:
    """Look."""
    return n


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def host_of(*script: Any, **options: Any) -> AgentHost:
    return AgentHost.in_thread(ScriptedModel(list(script)), **options)


def talk(lines: Iterable[str], model: Any = None, **named: Any) -> list[Any]:
    """Say these lines to a host and shut it down; all that it said. It leaves no thread behind."""
    ours, theirs = QueueChannel.pair()
    before = set(threading.enumerate())
    threading.Thread(target=Host(theirs, model, **named).serve).start()
    for line in lines:
        ours.send(line)
    ours.send(line_of(say.Shutdown()))
    said = []
    while (line := ours.receive()) is not None:
        said.append(read_notice(line))
    for thread in set(threading.enumerate()) - before:  # also of tools whose result nobody waited for any more
        thread.join(PATIENCE)
        assert not thread.is_alive(), thread
    return said

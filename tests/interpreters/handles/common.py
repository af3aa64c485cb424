"""What the tests of handles have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from interpreters import tool
from interpreters.fakes import ScriptedModel
from interpreters.handles import AgentHost

PATIENCE = 60
"""Seconds after which a test that hangs fails; no test waits that long."""


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


@contextmanager
def once(sign: threading.Event, action: Callable[[], object]) -> Iterator[None]:
    """Do something on another thread as soon as the sign is there."""

    def wait() -> None:
        assert sign.wait(PATIENCE)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join(PATIENCE)

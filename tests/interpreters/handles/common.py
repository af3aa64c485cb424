"""What the tests of handles have in common."""

from __future__ import annotations

from typing import Any

from interpreters import tool
from interpreters.fakes import ScriptedModel
from interpreters.handles import AgentHost


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

"""Tools that several tests call, and what became of their calls."""

from cognition import ToolMessage
from interpreters import Agent, AsyncAgent, tool


@tool(read_only=True)
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def statuses(agent: Agent | AsyncAgent) -> list[tuple[str, str]]:
    return [(m.content, m.status) for m in agent.state.history if isinstance(m, ToolMessage)]

"""An agent as a tool: for other programs, through ``MCPService``, or for another agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cognition import CallTool, CogstepError
from interpreters.agents.agent import Agent
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import Tool, ToolError

DESCRIPTION = (
    "Ask an agent that works on its own and answers when it is done. It knows nothing of what was said before."
)


def agent_tool(make: Callable[[], Agent], *, name: str = "ask_agent", description: str = DESCRIPTION) -> Tool[..., Any]:
    """Return a tool that sends a message to an agent. Each call is a separate conversation; calls may run concurrently.

    The agent's tool calls are reported as progress. Cancelling a call cancels the agent's turn. A call fails if its
    turn fails or waits for an answer, since no user can give it.

    Args:
        make: returns a new agent, which is closed after its answer. Its model may be shared.
        name: the tool's name.
        description: for the model: the agent's purpose.
    """

    def ask(message: str, context: ToolContext[Any]) -> str:
        try:
            with make() as agent:
                context.when_cancelled(agent.cancel)
                with agent.stream(message) as turn:
                    for event in turn:
                        if isinstance(event.value, CallTool):
                            context.progress(f"calls {event.value.call.name}")
                result = turn.result
                if result.pending:
                    agent.cancel("nobody answers here")
                return result.raise_for_failure().text
        except CogstepError as error:
            raise ToolError(str(error)) from error
        finally:
            context.when_cancelled(None)

    return Tool(ask, name=name, description=description)

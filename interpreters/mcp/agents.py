"""An agent as a tool: of other programs, by ``MCPService``, or of another agent."""

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
    """A tool by which an agent is asked. Each call is a conversation of its own, and may run beside others.

    What the agent calls is reported as progress. A call that is cancelled cancels the agent's turn; one whose turn
    fails, or waits for an answer that nobody can give, fails.

    Args:
        make: gives a new agent, which is closed after its answer. Its model may be shared.
        name: of the tool.
        description: for the model: what the agent is good for.
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

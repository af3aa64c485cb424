"""smolagents: a ``ToolCallingAgent``; it ends a turn by calling its own tool ``final_answer``."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from smolagents import Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import LogLevel

from benchmarks.peers.protocol import ANSWER, ARGUMENTS, TOOL


class LastMessageModel(Model):
    calls = 0

    def generate(self, messages: list[ChatMessage], *_: Any, **options: Any) -> ChatMessage:
        self.calls += 1
        if messages[-1].role == MessageRole.TOOL_RESPONSE:
            function = ChatMessageToolCallFunction(name="final_answer", arguments={"answer": ANSWER})
        else:
            function = ChatMessageToolCallFunction(name=TOOL, arguments=ARGUMENTS)
        call = ChatMessageToolCall(id=f"call-{self.calls}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers.

    Args:
        a: one number
        b: the other
    """
    return a * b


class Smolagents:
    def begin(self) -> None:
        self.agent = ToolCallingAgent(tools=[multiply], model=LastMessageModel(), verbosity_level=LogLevel.OFF)
        self.before = 0

    def turn(self, text: str) -> str:
        self.before = len(self.agent.memory.steps)
        return str(self.agent.run(text, reset=False))

    def lengthen(self, turns: int) -> None:
        steps = self.agent.memory.steps
        latest = steps[self.before :]
        steps.extend(deepcopy(step) for _ in range(turns) for step in latest)


def peer() -> Smolagents:
    return Smolagents()

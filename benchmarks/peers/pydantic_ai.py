"""pydantic-ai: an ``Agent`` on a ``FunctionModel``; the caller hands the history of all turns to each run."""

from __future__ import annotations

from dataclasses import replace

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from benchmarks.peers.protocol import ANSWER, ARGUMENTS, TOOL


class PydanticAI:
    def __init__(self) -> None:
        self.calls = 0
        self.agent = Agent(FunctionModel(self.model))

        @self.agent.tool_plain
        def multiply(a: int, b: int) -> int:
            """Multiply two whole numbers."""
            return a * b

    async def model(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if isinstance(messages[-1].parts[-1], ToolReturnPart):
            return ModelResponse(parts=[TextPart(ANSWER)])
        self.calls += 1
        return ModelResponse(parts=[ToolCallPart(TOOL, ARGUMENTS, tool_call_id=f"call-{self.calls}")])

    def begin(self) -> None:
        self.history: list[ModelMessage] = []
        self.latest: list[ModelMessage] = []

    async def turn(self, text: str) -> str:
        result = await self.agent.run(text, message_history=self.history)
        self.history, self.latest = result.all_messages(), result.new_messages()
        return str(result.output)

    async def lengthen(self, turns: int) -> None:
        for number in range(turns):
            for message in self.latest:
                parts = [
                    replace(part, tool_call_id=f"copy-{number}") if hasattr(part, "tool_call_id") else replace(part)
                    for part in message.parts
                ]
                self.history.append(replace(message, parts=parts))


def peer() -> PydanticAI:
    return PydanticAI()

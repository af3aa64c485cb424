"""LangGraph: the prebuilt agent on a chat model; the caller hands the messages of all turns to each run."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.prebuilt import create_react_agent

from benchmarks.peers.protocol import ANSWER, ARGUMENTS, TOOL


class LastMessageModel(BaseChatModel):
    calls: int = 0
    _llm_type = "last-message"

    def bind_tools(self, tools: Any, **options: Any) -> LastMessageModel:
        return self

    def _generate(self, messages: list[AnyMessage], *_: Any, **options: Any) -> ChatResult:
        reply = AIMessage(ANSWER)
        if not isinstance(messages[-1], ToolMessage):
            self.calls += 1
            reply = AIMessage("", tool_calls=[{"name": TOOL, "args": ARGUMENTS, "id": f"call-{self.calls}"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])

    async def _agenerate(self, messages: list[AnyMessage], *_: Any, **options: Any) -> ChatResult:
        return self._generate(messages)  # else the default would hand it to a thread


def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


class LangGraph:
    def __init__(self) -> None:
        self.graph = create_react_agent(LastMessageModel(), [multiply])

    def begin(self) -> None:
        self.messages: list[AnyMessage] = []

    async def turn(self, text: str) -> str:
        state = await self.graph.ainvoke({"messages": [*self.messages, HumanMessage(text)]})
        self.messages = state["messages"]
        return str(self.messages[-1].content)

    async def lengthen(self, turns: int) -> None:
        user, call, result, answer = self.messages[-4:]
        for number in range(turns):
            name = f"copy-{number}"
            asked = call.model_copy(update={"tool_calls": [call.tool_calls[0] | {"id": name}]})
            copied = [user, asked, result.model_copy(update={"tool_call_id": name}), answer]
            self.messages += [m.model_copy(update={"id": f"{name}-{i}"}) for i, m in enumerate(copied)]


def peer() -> LangGraph:
    return LangGraph()

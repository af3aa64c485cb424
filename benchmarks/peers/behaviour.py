"""What cogstep and four peers do when a turn is cancelled or replayed: ``docs/start/comparison.md`` cites it.

In an environment with the peers (``pip install -r benchmarks/peers.txt``), with a scripted model in each::

    python -m benchmarks.peers.behaviour

- **cancel**: the task of a turn is cancelled while its tool runs, then a second message comes. The line shows what the
  model sees of both, or the error.
- **replay**: a finished turn runs again from its stored beginning. The line counts calls of the model
  and the tool, before and after.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import tempfile
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"


async def cancel(turn: Awaitable[Any]) -> None:
    task = asyncio.ensure_future(turn)
    await asyncio.sleep(0.2)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


async def seen_after(turn: Callable[[], Awaitable[Any]], seen: list[Any]) -> str:
    try:
        await asyncio.wait_for(turn(), 2)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    return f"the model sees {seen[-1]}"


async def cogstep() -> None:
    from cogstep import AsyncAgent, ModelRequest, fakes, replay, tool

    seen: list[list[str]] = []

    def reply(request: ModelRequest) -> Any:
        seen.append([type(message).__name__ for message in request.messages])
        return fakes.call("slow") if len(seen) == 1 else "done"

    @tool
    async def slow() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "ok"

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "session.jsonl")
        async with AsyncAgent(fakes.FunctionModel(reply), tools=[slow], journal=path) as agent:
            await cancel(agent.run("one"))
            print("cogstep cancel:", await seen_after(lambda: agent.run("two"), seen))
        calls = len(seen)
        same = replay(path).same
        print(f"cogstep replay: {calls} model calls before and {len(seen)} after, every decision the same: {same}")


def langgraph_agent(seen: list[Any], ran: list[str], seconds: float) -> Any:
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.prebuilt import create_react_agent

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
            seen.append([message.type for message in messages])
            calls = [{"name": "slow", "args": {}, "id": f"c{len(seen)}"}] if messages[-1].content == "one" else []
            text = "" if calls else f"answer {len(seen)}"
            return ChatResult(generations=[ChatGeneration(message=AIMessage(text, tool_calls=calls))])

    async def slow() -> str:
        """Wait."""
        ran.append("slow")
        await asyncio.sleep(seconds)
        return "ok"

    return create_react_agent(Scripted(), [slow], checkpointer=InMemorySaver())


async def langgraph() -> None:
    place = {"configurable": {"thread_id": "1"}}
    seen: list[Any] = []
    graph = langgraph_agent(seen, [], 60)
    await cancel(graph.ainvoke({"messages": [("user", "one")]}, place))
    second = await seen_after(lambda: graph.ainvoke({"messages": [("user", "two")]}, place), seen)
    print("langgraph cancel:", second)

    seen, ran = [], list[str]()
    graph = langgraph_agent(seen, ran, 0)
    await graph.ainvoke({"messages": [("user", "one")]}, place)
    before = f"{len(seen)} model calls and {len(ran)} tool calls before"
    start = [point for point in graph.get_state_history(place) if point.next == ("agent",)][-1]
    await graph.ainvoke(None, start.config)
    print(f"langgraph replay: {before}, {len(seen)} and {len(ran)} after")


async def pydantic_ai() -> None:
    from pydantic_ai import Agent, capture_run_messages
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    seen: list[Any] = []

    async def reply(messages: Any, info: Any) -> Any:
        seen.append([part.part_kind for message in messages for part in message.parts])
        return ModelResponse(parts=[ToolCallPart("slow", {}) if len(seen) == 1 else TextPart("done")])

    agent = Agent(FunctionModel(reply))

    @agent.tool_plain
    async def slow() -> str:
        await asyncio.sleep(60)
        return "ok"

    with capture_run_messages() as messages:
        await cancel(agent.run("one"))
    print("pydantic-ai cancel:", await seen_after(lambda: agent.run("two", message_history=list(messages)), seen))


async def openai_agents() -> None:
    from agents import Agent, ModelResponse, Runner, SQLiteSession, Usage, function_tool
    from agents.models.interface import Model
    from agents.testing import assistant_message, function_call

    seen: list[Any] = []

    class Scripted(Model):
        async def get_response(self, system_instructions: Any = None, input: Any = None, *_: Any, **__: Any) -> Any:
            seen.append([item.get("type", item.get("role")) for item in input])
            output = function_call("slow", {}, call_id="c1") if len(seen) == 1 else assistant_message("done")
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    @function_tool
    async def slow() -> str:
        await asyncio.sleep(60)
        return "ok"

    agent, session = Agent(name="agent", tools=[slow], model=Scripted()), SQLiteSession("1")
    await cancel(Runner.run(agent, "one", session=session))
    print("openai-agents cancel:", await seen_after(lambda: Runner.run(agent, "two", session=session), seen))


async def burr() -> None:
    from burr.core import ApplicationBuilder, State, action, when

    seen: list[Any] = []

    @action(reads=["log"], writes=["log"])
    def human(state: Any, text: str) -> Any:
        return state.append(log=f"user {text}")

    @action(reads=["log"], writes=["log", "calls"])
    async def model(state: Any) -> Any:
        seen.append(state["log"])
        return state.append(log="model").update(calls=len(seen) == 1)

    @action(reads=["log"], writes=["log"])
    async def slow(state: Any) -> Any:
        await asyncio.sleep(60)
        return state.append(log="tool")

    @action(reads=["log"], writes=["log"])
    def respond(state: Any) -> Any:
        return state

    application = (
        ApplicationBuilder()
        .with_actions(human, model, slow, respond)
        .with_transitions(
            ("human", "model"), ("model", "slow", when(calls=True)), ("model", "respond"), ("slow", "model")
        )
        .with_state(State({"log": []}))
        .with_entrypoint("human")
        .build()
    )
    await cancel(application.arun(halt_after=["respond"], inputs={"text": "one"}))
    again = application.get_next_action().name
    second = await seen_after(lambda: application.arun(halt_after=["respond"], inputs={"text": "two"}), seen)
    print(f"burr cancel: the next action is {again!r}; {second}")


async def main() -> None:
    for peer in (cogstep, langgraph, pydantic_ai, openai_agents, burr):
        try:
            await peer()
        except ImportError as error:
            print(f"{peer.__name__}: not installed ({error.name})")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    asyncio.run(main())

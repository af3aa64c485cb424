"""Burr: a graph of four actions over a state that holds the messages."""

from __future__ import annotations

from typing import Any

from burr.core import ApplicationBuilder, GraphBuilder, State, action, when

from benchmarks.peers.protocol import ANSWER, ARGUMENTS, TOOL


@action(reads=["messages"], writes=["messages"])
async def hear(state: State, text: str) -> State:
    return state.append(messages={"role": "user", "content": text})


@action(reads=["messages"], writes=["messages", "call"])
async def think(state: State) -> State:
    messages = state["messages"]
    if messages[-1]["role"] == "tool":
        return state.append(messages={"role": "assistant", "content": ANSWER}).update(call=None)
    call = {"id": f"call-{len(messages)}", "name": TOOL, "arguments": ARGUMENTS}
    return state.append(messages={"role": "assistant", "content": "", "tool_calls": [call]}).update(call=call)


@action(reads=["messages", "call"], writes=["messages"])
async def multiply(state: State) -> State:
    call: dict[str, Any] = state["call"]
    result = call["arguments"]["a"] * call["arguments"]["b"]
    return state.append(messages={"role": "tool", "id": call["id"], "content": str(result)})


@action(reads=["messages"], writes=["answer"])
async def answer(state: State) -> State:
    return state.update(answer=state["messages"][-1]["content"])


class Burr:
    def __init__(self) -> None:
        ways = [("hear", "think"), ("think", "answer", when(call=None)), ("think", "multiply")]
        ways += [("multiply", "think"), ("answer", "hear")]
        self.graph = GraphBuilder().with_actions(hear, think, multiply, answer).with_transitions(*ways).build()

    def begin(self) -> None:
        start = State({"messages": [], "call": None})
        self.app = ApplicationBuilder().with_graph(self.graph).with_entrypoint("hear").with_state(start).build()

    async def turn(self, text: str) -> str:
        _, _, state = await self.app.arun(halt_after=["answer"], inputs={"text": text})
        return str(state["answer"])

    async def lengthen(self, turns: int) -> None:
        messages = self.app.state["messages"]
        copies = [dict(message) for _ in range(turns) for message in messages[-4:]]
        self.app.update_state(self.app.state.update(messages=messages + copies))


def peer() -> Burr:
    return Burr()

"""llama-index-workflows: three steps over a context whose store holds the messages."""

from __future__ import annotations

from typing import Any

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from benchmarks.peers.protocol import ANSWER, ARGUMENTS, TOOL


class Think(Event): ...


class CallTool(Event):
    call: dict[str, Any]


async def note(context: Context, message: dict[str, Any]) -> None:
    # Six times as fast at 1,000 turns as ``edit_state``, which copies the whole state deeply.
    await context.store.set("messages", [*await context.store.get("messages", []), message])


class Calculator(Workflow):
    @step
    async def hear(self, context: Context, event: StartEvent) -> Think:
        await note(context, {"role": "user", "content": event.text})
        return Think()

    @step
    async def think(self, context: Context, event: Think) -> CallTool | StopEvent:
        messages = await context.store.get("messages")
        if messages[-1]["role"] == "tool":
            await note(context, {"role": "assistant", "content": ANSWER})
            return StopEvent(ANSWER)
        call = {"id": f"call-{len(messages)}", "name": TOOL, "arguments": ARGUMENTS}
        await note(context, {"role": "assistant", "content": "", "tool_calls": [call]})
        return CallTool(call=call)

    @step
    async def multiply(self, context: Context, event: CallTool) -> Think:
        a, b = event.call["arguments"].values()
        await note(context, {"role": "tool", "id": event.call["id"], "content": str(a * b)})
        return Think()


class LlamaIndexWorkflows:
    def begin(self) -> None:
        self.workflow = Calculator(timeout=None)
        self.context: Context = Context(self.workflow)

    async def turn(self, text: str) -> str:
        return str(await self.workflow.run(ctx=self.context, text=text))

    async def lengthen(self, turns: int) -> None:
        messages = await self.context.store.get("messages")
        await self.context.store.set("messages", messages + [dict(m) for _ in range(turns) for m in messages[-4:]])


def peer() -> LlamaIndexWorkflows:
    return LlamaIndexWorkflows()

"""openai-agents: ``Runner.run`` on a model of ours; the caller hands the items of all turns to each run."""

from __future__ import annotations

from typing import Any

from agents import Agent, ModelResponse, Runner, Usage, function_tool
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.peers.protocol import ANSWER, ARGUMENTS_JSON, TOOL


class LastItemModel(Model):
    calls = 0

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **options: Any) -> ModelResponse:
        self.calls += 1
        if input[-1].get("type") == "function_call_output":
            text = ResponseOutputText(text=ANSWER, type="output_text", annotations=[], logprobs=[])
            name = f"message-{self.calls}"
            about = {"id": name, "type": "message", "role": "assistant", "status": "completed"}
            reply: Any = ResponseOutputMessage(**about, content=[text])
        else:
            name = f"call-{self.calls}"
            about = {"id": name, "call_id": name, "type": "function_call"}
            reply = ResponseFunctionToolCall(**about, name=TOOL, arguments=ARGUMENTS_JSON)
        return ModelResponse(output=[reply], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **options: Any) -> Any:
        raise NotImplementedError


@function_tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


class OpenAIAgents:
    def __init__(self) -> None:
        self.agent = Agent(name="calculator", tools=[multiply], model=LastItemModel())

    def begin(self) -> None:
        self.items: list[Any] = []

    async def turn(self, text: str) -> str:
        result = await Runner.run(self.agent, [*self.items, {"role": "user", "content": text}])
        self.items = result.to_input_list()
        return str(result.final_output)

    async def lengthen(self, turns: int) -> None:
        for number, latest in enumerate([self.items[-4:]] * turns):
            for place, item in enumerate(latest):
                new = {"id": f"copy-{number}-{place}", "call_id": f"copy-{number}"}
                self.items.append(item | {key: new[key] for key in new if key in item})


def peer() -> OpenAIAgents:
    return OpenAIAgents()

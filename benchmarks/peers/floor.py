"""The floor: the same turn as a plain loop over dicts, which is what the work itself costs in CPython."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.peers.protocol import ANSWER, ARGUMENTS_JSON, TOOL

Message = dict[str, Any]


def model(messages: list[Message]) -> Message:
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": ANSWER}
    call = {"id": f"call-{len(messages)}", "name": TOOL, "arguments": ARGUMENTS_JSON}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def multiply(a: int, b: int) -> int:
    return a * b


class Floor:
    def __init__(self) -> None:
        self.tools = {TOOL: multiply}

    def begin(self) -> None:
        self.messages: list[Message] = []

    def turn(self, text: str) -> str:
        messages = self.messages
        messages.append({"role": "user", "content": text})
        while True:
            reply = model(messages)
            messages.append(reply)
            if not reply.get("tool_calls"):
                return str(reply["content"])
            for call in reply["tool_calls"]:
                result = self.tools[call["name"]](**json.loads(call["arguments"]))
                messages.append({"role": "tool", "id": call["id"], "content": str(result)})


def peer() -> Floor:
    return Floor()

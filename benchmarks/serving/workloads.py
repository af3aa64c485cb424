"""What is done: sizes, and the conversations of agents that are known in advance, so that all sides get the same."""

from __future__ import annotations

from attrs import frozen

from benchmarks.serving.ours import Ours
from cognition import AssistantMessage, Message, ModelRequest, ToolSpec, UserMessage

PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}}
TOOLS = tuple(
    ToolSpec(name, f"{name.capitalize()} something of the project, and say what came of it.", PARAMETERS)
    for name in ("read", "write", "search", "list", "run", "test")
)


@frozen
class Work:
    """Sizes in tokens; those of prompts are met within a few."""

    agents: int = 8
    prompt: int = 128
    """Of agents that share nothing."""
    reply: int = 128
    system: int = 1500
    """System prompt and tool list together."""
    steps: int = 10
    ask: int = 16
    """The user's message at the beginning of a step."""
    call: int = 24
    result: int = 64
    answer: int = 24
    long: int = 4000
    context: int = 8192
    """That a conversation may have."""


def conversation(ours: Ours, work: Work, system: str, agent: int, steps: int) -> list[ModelRequest]:
    """All requests of one agent: in each step one for a call and, with the result, one for an answer.

    A call is said in plain words here: what is measured takes as long, and random weights write no calls.
    """
    messages: list[Message] = []
    asked: list[ModelRequest] = []
    for step in range(steps):
        label = f"{agent}-{step}"
        messages.append(UserMessage(f"u{label}", ours.text(f"ask {label}", work.ask)))
        asked.append(ours.request(messages, work.call, system=system, tools=TOOLS))
        messages.append(AssistantMessage(f"c{label}", ours.said(work.call)))
        messages.append(UserMessage(f"r{label}", ours.text(f"result {label}", work.result)))
        asked.append(ours.request(messages, work.answer, system=system, tools=TOOLS))
        messages.append(AssistantMessage(f"a{label}", ours.said(work.answer)))
    return asked


def system_prompt(ours: Ours, work: Work, label: str) -> str:
    """As long as it takes, with the tools, to reach ``work.system``; the label stands first."""
    tools = len(ours.prompt(ours.request("x", 1, system="y", tools=TOOLS)))
    return ours.text(label, work.system - tools)

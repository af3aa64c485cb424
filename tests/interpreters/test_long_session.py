"""A session of 3,000 turns in a small context: within its budget at every call, and what was said at its beginning is
found again through memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from cognition import ModelRequest, ProposedCall, ToolMessage, Usage
from cognition.context import prompt_budget
from cognition.context.summaries import REQUEST_ID
from interpreters import Agent, EpisodeWriter, replay, tool
from interpreters.observing.events import Compacted, ContextAssembled, Event, NotCompacted
from interpreters.testing.fakes import FunctionModel
from runtime import MemoryFolder

TURNS = 3000
CONTEXT = 4096
FACT = "My locker has the code 4711, and its door is green."
QUESTION = "What is the code of my locker?"
WORDS = ("harbour", "granite", "saffron", "meadow", "lantern", "copper", "thistle", "marble", "juniper", "amber")


def tokens_of(text: str) -> int:
    """As a tokenizer of four characters a token has them."""
    return ceil(len(text) / 4)


def prompt_tokens(request: ModelRequest) -> int:
    """A prompt as a plain template would write it, with eight tokens around each message."""
    size = 8 + tokens_of(request.system) + sum(40 + tokens_of(str(tool.parameters)) for tool in request.tools)
    for message in request.messages:
        size += 8 + tokens_of(message.content if isinstance(message, ToolMessage) else message.text)
        for call in getattr(message, "calls", ()):
            size += 8 + tokens_of(call.name + call.arguments_json)
    return size


class Rememberer(FunctionModel):
    """Reads two pages for each message, and looks into its memory for what it is asked about its past.

    It knows nothing but what a request shows: an answer is read out of the result that stands there.
    """

    def __init__(self) -> None:
        super().__init__(self._reply, context_tokens=CONTEXT, name="rememberer")
        self.largest = 0
        self.summaries = 0
        self.shown: list[str] = []
        """What the requests of the last turn showed, in which it was asked about its past, as text."""

    def count_tokens(self, request: ModelRequest) -> int:
        return prompt_tokens(request)

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        return [tokens_of(text) for text in texts]

    def _reply(self, request: ModelRequest) -> Iterator[Any]:
        size = prompt_tokens(request)
        self.largest = max(self.largest, size)
        yield from self._pieces(request)
        yield Usage(input_tokens=size, output_tokens=20)

    def _pieces(self, request: ModelRequest) -> Iterator[Any]:
        newest = request.messages[-1]
        if newest.id == REQUEST_ID:
            self.summaries += 1
            yield "TASK: to read pages. PROGRESS: many are read. NEXT STEP: to read on."
            return
        texts = [getattr(message, "content", "") or getattr(message, "text", "") for message in request.messages]
        self.shown += texts if QUESTION in texts else ()
        self.requests.clear()  # or the test would hold all that was ever shown
        if not isinstance(newest, ToolMessage):
            asked = getattr(newest, "text", "")
            yield ProposedCall("recall", {"query": asked}) if asked == QUESTION else ProposedCall("read", {"page": 1})
        elif newest.name == "recall":
            found = re.search(r"the code (\d+)", newest.content)
            yield f"It is {found[1]}." if found else "I don't know."
        elif "page 1 " in newest.content[:20]:
            yield ProposedCall("read", {"page": 2})
        else:
            yield "Both pages are read."


@tool(read_only=True)
def read(page: int) -> str:
    """Read a page."""
    return f"This page {page} is about " + " and ".join(WORDS) * 5


@pytest.mark.slow
@pytest.mark.timeout(1200)  # half a minute where nobody else wants the machine
@pytest.mark.behaviour("K18i")
def test_three_thousand_turns_stay_within_the_budget_and_an_early_one_is_remembered(tmp_path: Path) -> None:
    model = Rememberer()
    journal = tmp_path / "long.jsonl"
    reports = [0, 0]
    summaries: list[Compacted | NotCompacted] = []

    def observe(event: Event) -> None:
        if isinstance(event.value, ContextAssembled):
            assert event.value.counted
            assert event.value.tokens <= event.value.budget
            reports[0] += 1
            reports[1] = max(reports[1], event.value.tokens)
        elif isinstance(event.value, Compacted | NotCompacted):
            summaries.append(event.value)

    with (
        MemoryFolder(tmp_path / "memory") as memory,
        Agent(
            model,
            [read],
            features=["memory"],
            memory=memory,
            journal=journal,
            fsync="never",
            observers=[observe, EpisodeWriter(memory)],
        ) as agent,
    ):
        for turn in range(1, TURNS):
            text = FACT if turn == 5 else f"Tell me of {WORDS[turn % 10]} and of {WORDS[turn // 10 % 10]} no. {turn}."
            assert agent.run(text).text == "Both pages are read."
        answer = agent.run(QUESTION)
        state, budget = agent.state, prompt_budget(agent.config)

    assert answer.text == "It is 4711."
    assert QUESTION in model.shown
    assert FACT not in model.shown
    assert model.largest <= reports[1] <= budget
    assert reports[0] == 3 * (TURNS - 1) + 2
    assert model.summaries == len(summaries) > TURNS / 50
    assert all(isinstance(one, Compacted) for one in summaries)
    again = replay(journal).raise_for_divergence()
    assert again.turns == TURNS
    assert again.state == state

"""What observers read of replies in a text protocol: the answer as it comes, and nothing of the convention's syntax."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from cognition import AgentConfig, AssistantMessage, Failed, Failure, LLMEngine, ToolSpec
from cognition.parsing.text_protocol import read_text
from cognition.values.outcomes import FinishReason
from interpreters import Agent, tool
from interpreters.loop._protocol_filter import ProtocolFilter
from interpreters.loop._reply_stream import offered_tools
from interpreters.observing.events import Event, Inline, ReasoningDelta, TextDelta
from interpreters.testing.fakes import Hold, Reply, ScriptedModel
from tests.interpreters.ways import Way, in_asyncio, in_sync

READ = ToolSpec("read", "", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
TOOLS = {"read": READ, "now": ToolSpec("now")}
OBJECT, TAG = r"""\{\s*["'][taifcr]["']\s*:""", r"</?(?:tool|args|response)>"
SYNTAX = {"short_keys": re.compile(OBJECT), "tool_tags": re.compile(TAG)}
CALL = {
    "short_keys": '{"t": "I need it", "a": "read", "i": {"path": "x"}}',
    "tool_tags": '<tool>read</tool><args>{"path": "x"}</args>',
}


def shown(
    protocol: Any, text: str, cuts: Iterable[int] = (), reason: FinishReason = "stop", *, reasoning: bool = False
) -> str:
    readable, last, parts = ProtocolFilter(protocol, TOOLS, reasoning=reasoning), 0, []
    for cut in (*cuts, len(text)):
        parts.append(readable.feed(text[last:cut]))
        last = cut
    return "".join((*parts, readable.finish(reason)))


@pytest.mark.parametrize(
    ("protocol", "text", "expected"),
    [
        # an answer, and what looks like the convention and is none
        ("short_keys", "It is 3 kB.", "It is 3 kB."),
        ("short_keys", '{"f": "It is \\"3\\" k\\u00e9 \\ud83d\\ude00\\n"}', 'It is "3" ké 😀\n'),
        ("short_keys", '```json\n{"t": "easy", "f": "It is 3 kB."}\n```', "It is 3 kB."),
        ("short_keys", '[{"f": "A"}, {"f": "B"}]', "A\nB"),
        ("short_keys", "{'f': 'It is 3 kB.'}", "It is 3 kB."),
        ("short_keys", '{"f": "It is 3 kB."', "It is 3 kB."),
        ("short_keys", '{"f": "a \\q b", "r": "note"}', "a \\q b"),
        ("short_keys", '{"name": "Ann", "age": 3}', '{"name": "Ann", "age": 3}'),
        ("short_keys", 'Use {"a": 5} in your file.', 'Use {"a": 5} in your file.'),
        ("short_keys", 'Use {"a": x} or [{"b": 1}].', 'Use {"a": x} or [{"b": 1}].'),
        ("short_keys", '```python\nprint({"n": 1}["n"])\n```\n', '```python\nprint({"n": 1}["n"])\n```\n'),
        ("short_keys", "So. <response> It is 3 kB. </response> Bye", "So.\nIt is 3 kB."),
        ("short_keys", '{"f": "x", "z": 1}', "x"),
        ("tool_tags", "It is < 3 kB, <b>not</b> <tools>.", "It is < 3 kB, <b>not</b> <tools>."),
        ("tool_tags", "<response>\nIt is 3 kB.\n</response>", "It is 3 kB."),
        ("tool_tags", "Write <tool> and a name.", "Write <tool> and a name."),
        # a call, alone and among text
        ("short_keys", '{"t": "I need it", "a": "read", "i": {"path": "x"}}', ""),
        ("short_keys", 'I look.\n```json\n{"a": "read", "i": {"path": "x"}}\n```\nWait.', "I look."),
        ("short_keys", '[{"a": "read", "i": {"path": "x"}}, {"a": "now"}]', ""),
        ("short_keys", '{"a": "now", "f": "It is late."}', "It is late."),
        ("short_keys", '{"f": "It is late.", "a": "now"}', "It is late."),
        ("short_keys", 'Use {"a": 5}. {"a": "now"}', 'Use {"a": 5}.'),
        ("tool_tags", "I look.\n<tool>now</tool> Wait. <tool>now</tool>", "I look."),
        ("tool_tags", "Hm.<tool>now</tool><response>It is late.</response>", "Hm.\nIt is late."),
        ("tool_tags", "<response>It is late.<tool>now</tool></response>", "It is late."),
        # what was meant as a call and can't be read
        ("short_keys", '{"a": "read", "i": {"path": "x"', ""),
        ("short_keys", 'I look. {"a": "read", "path": "x"}', "I look."),
        ("short_keys", 'I look. {"a": "read", "a": "now"}', "I look."),
        ("tool_tags", "I look. <tool>read<args>x</args>", "I look."),
        ("tool_tags", '<tool>read</tool><args>{"path": </args>', ""),
        ("tool_tags", "Well </tool> <tool>now</tool>", "Well"),
    ],
)
def test_of_a_reply_the_answer_is_shown(protocol: str, text: str, expected: str) -> None:
    """The same in one piece and character by character."""
    assert shown(protocol, text) == expected
    assert shown(protocol, text, range(1, len(text))) == expected


PIECES = st.sampled_from(
    [
        *CALL.values(),
        '{"f": "It is \\u00e9 \\ud83d\\ude00 so."}',
        '{"t": "hm", "f": "Yes"}',
        '{ "a" : "read" , "i" : "x" }',
        '{"name": "x"}',
        "{'a': 'read'}",
        '{"a": "read"',
        '{"r": "note"}',
        '{"t": "I',
        '{"f',
        '{"path": "x"}',
        "<response>It is 3 kB.</response>",
        *("<tool>", "read", "</tool>", "<args>", "</args>", "<response>", "Hi there", "</response>", "Sure. "),
        *("```json\n", "```", "`", "\n", " ", "<", "[", "]", ", ", "{", "}", '"', "\\", "f", ":"),
    ]
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)
REASONS = st.sampled_from(["stop", "length"])


@given(st.sampled_from(["short_keys", "tool_tags"]), TEXTS, REASONS, st.lists(st.integers(0, 80)))
def test_what_is_shown_is_the_same_however_a_reply_is_cut(
    protocol: str, text: str, reason: FinishReason, cuts: list[int]
) -> None:
    whole = shown(protocol, text, (), reason)

    assert shown(protocol, text, range(1, len(text)), reason) == whole
    assert shown(protocol, text, sorted({min(cut, len(text)) for cut in cuts}), reason) == whole


@given(st.sampled_from(["short_keys", "tool_tags"]), TEXTS, REASONS)
@example("short_keys", '{"a": "read"}', "stop")
def test_a_reply_with_calls_shows_none_of_their_syntax_and_each_answer_is_shown(
    protocol: Any, text: str, reason: FinishReason
) -> None:
    reading = read_text(protocol, text, TOOLS, reason)

    read = shown(protocol, text, (), reason)

    if (reading.calls or reading.malformed) and not SYNTAX[protocol].search(reading.answer):
        assert not SYNTAX[protocol].search(read)
    assert reading.answer.strip() in read


@given(st.sampled_from(["short_keys", "tool_tags"]), TEXTS, st.lists(st.integers(0, 80)))
def test_reasoning_is_shown_without_the_syntax_of_calls(protocol: str, text: str, cuts: list[int]) -> None:
    """In any cut too; what is between tags is shown, as it is in the reasoning of models with native calls."""
    whole = shown(protocol, text, reasoning=True)

    assert not SYNTAX[protocol].search(whole)
    assert shown(protocol, text, sorted({min(cut, len(text)) for cut in cuts}), reasoning=True) == whole


@pytest.mark.parametrize("protocol", ["short_keys", "tool_tags"])
@pytest.mark.parametrize("before", ["", "I look.\n", "Use <b> or {} and then: "])
def test_a_call_that_was_cut_anywhere_is_not_seen(protocol: str, before: str) -> None:
    """Nor is the beginning of one."""
    text = before + CALL[protocol]
    for cut in range(len(before) + 2, len(text)):
        assert shown(protocol, text[:cut], (), "length").strip() == before.strip(), text[:cut]


@pytest.mark.parametrize(
    "text", ["<" * 20_000, "{" * 20_000, "[" * 20_000, '{"a":' * 5_000, "`" * 20_000, " " * 20_000]
)
@pytest.mark.parametrize("protocol", ["short_keys", "tool_tags"])
def test_hostile_text_is_shown_or_held_back_to_its_end(protocol: str, text: str) -> None:
    assert shown(protocol, text) in (text, "")
    assert shown(protocol, text, range(1, len(text))) in (text, "")


# -------------------------------------------------------------------------------------------------------- of a session


@tool
def read(path: str) -> str:
    """Read a file."""
    return path * 2


@pytest.mark.parametrize("way", [in_sync, in_asyncio])
@pytest.mark.parametrize("chunk", [0, 1, 3])
@pytest.mark.parametrize("protocol", ["short_keys", "tool_tags"])
def test_observers_read_the_answer_alone(way: Way, chunk: int, protocol: str) -> None:
    answer = json.dumps({"f": "It is xx."}) if protocol == "short_keys" else "<response>It is xx.</response>"
    first = Reply("I look.\n" + CALL[protocol], reasoning=f"I need it, so: {CALL[protocol]}!", chunk=chunk)
    model = ScriptedModel([first, Reply(answer, chunk=chunk)])
    seen: list[Event] = []

    talk = way(model, "Read x", tools=[read], protocol=protocol, observers=[Inline(seen.append)])

    texts = [event.value.text for event in seen if isinstance(event.value, TextDelta)]
    thoughts = [event.value.text for event in seen if isinstance(event.value, ReasoningDelta)]
    assert "".join(texts) == "I look.It is xx."
    assert "".join(thoughts).startswith("I need it, so: ")
    assert not SYNTAX[protocol].search("".join(thoughts))
    assert talk.texts == ["It is xx."]
    assert talk.tool_results == [("xx", "ok")]
    raw = [message.text for message in talk.state.history if isinstance(message, AssistantMessage)]
    assert raw == [first.text, answer]


@pytest.mark.parametrize("way", [in_sync, in_asyncio])
def test_what_broke_off_is_kept_as_far_as_it_could_be_read(way: Way) -> None:
    broken = Reply('{"f": "It is x', failure=Failure("gone"), chunk=1)

    talk = way(
        ScriptedModel([broken]), "Read x", tools=[read], protocol="short_keys", observers=[Inline(lambda _: None)]
    )

    outcome = talk.results[0].outcome
    assert isinstance(outcome, Failed)
    assert outcome.text == "It is x"


def test_a_reply_that_is_cancelled_in_a_call_keeps_what_was_read() -> None:
    hold = Hold()
    model = ScriptedModel([Reply("I look. " + CALL["tool_tags"], chunk=1, hold=hold)])
    with Agent(model, [read], protocol="tool_tags") as agent:
        for event in agent.stream("Read x"):
            if isinstance(event.value, TextDelta) and event.value.text.endswith("."):
                agent.cancel("enough")
        kept = [one for one in agent.state.history if isinstance(one, AssistantMessage)]

    assert [(one.text, one.interrupted) for one in kept] == [("I look.", True)]


def test_the_tools_are_those_of_the_configuration_or_of_the_program() -> None:
    class Other:
        """An engine without a configuration."""

    class Program:
        def __init__(self) -> None:
            self.tools = {"read": read}

    config = AgentConfig(tools=(READ,), features=("tasks",))
    assert [one.name for one in offered_tools(LLMEngine(config), Program())] == [one.name for one in config.offered]  # type: ignore[arg-type]  # as much of a program as is looked at
    assert [one.name for one in offered_tools(Other(), Program())] == ["read"]  # type: ignore[arg-type]  # as above

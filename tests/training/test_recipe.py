"""The recipe that makes the shipped model: what training shows, and what it must not have shown."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from cognition import AssistantMessage, MalformedToolCall, ProposedCall, ToolMessage, Usage
from interpreters.toolbox import standard_tools
from runtime import Done, Timings
from training import check, phrasings, sequences, small_talk
from training.conversations import KINDS, Conversation, conversation, render, texts_of_one_world
from training.evaluate import SETS, calls_of, cases, history
from training.families import FAMILIES
from training.grammar import AFTER, BEFORE
from training.values import Source
from training.worlds import SHARES, World, world


def wordings(branch: str) -> Iterator[str]:
    """Every text that a branch can give."""
    bracket = re.search(r"\[([^\[\]]*)\]", branch)
    if bracket is None:
        yield re.sub(" +", " ", branch).strip().lower()
        return
    for option in bracket[1].split("|"):
        yield from wordings(branch[: bracket.start()] + option + branch[bracket.end() :])


def bare(text: str) -> set[str]:
    """A request and what is left of it without the politeness that training puts around requests."""
    before = {"", *(f"{p.lower()} " for p in itertools.chain(*BEFORE.values()))}
    after = {"", *(f" {p}" for p in AFTER)}
    return {
        text.removeprefix(b).removesuffix(a) for b in before for a in after if text.startswith(b) and text.endswith(a)
    }


TAILS = {
    **{f"chain {name}": (sequences.CHAIN[name], sequences.CHAIN_HELD[name]) for name in sequences.CHAIN},
    "first match": (sequences.FIRST, sequences.FIRST_HELD),
    "copy": (sequences.COPY, sequences.COPY_HELD),
    "to a file": (sequences.TO_FILE, sequences.TO_FILE_HELD),
    "to the notes": (sequences.TO_NOTES, sequences.TO_NOTES_HELD),
    "tool names": (small_talk.TOOL_NAMES_TRAIN, small_talk.TOOL_NAMES_HELD),
    **{talk.thought: (talk.train, talk.held) for talk in small_talk.SMALL_TALK},
}
GRAMMARS = {
    **{name: ([b for _, b in p.train], [b for _, b in p.held]) for name, p in phrasings.TOOLS.items()},
    "no tool": ([b for _, b in phrasings.NO_TOOL.train], [b for _, b in phrasings.NO_TOOL.held]),
    **{name: ([train], [held]) for name, (train, held) in TAILS.items()},
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_training_can_say_no_held_out_request(name: str) -> None:
    train, held = GRAMMARS[name]
    said = {text for branch in train for text in wordings(branch)}
    asked = {text for branch in held for text in wordings(branch)}
    if name not in TAILS:  # only requests for tools get politeness around them
        asked = {rest for text in asked for rest in bare(text)}

    assert set() == said & asked


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_fits_the_schema_of_an_offered_tool(kind: str) -> None:
    for c in some_conversations(kind, 60):
        offered = {t["function"]["name"]: t["function"]["parameters"] for t in c.tools or []}
        for episode in c.episodes:
            for call in itertools.chain(*episode.calls):
                jsonschema.validate(call["arguments"], offered[call["name"]])


@pytest.mark.parametrize("kind", KINDS)
def test_an_episode_is_a_request_its_steps_and_an_answer(kind: str) -> None:
    for c in some_conversations(kind, 60):
        for episode in c.episodes:
            roles = [m["role"] for m in episode.messages]
            shape = ["user"]
            for step in episode.calls:
                shape += ["assistant", *["tool"] * len(step)]

            assert [*shape, "assistant"] == roles
            assert "tool_calls" not in episode.messages[-1]
            assert [list(step) for step in episode.calls] == [
                [call["function"] for call in m["tool_calls"]] for m in episode.messages if m.get("tool_calls")
            ]


def test_a_request_that_no_tool_fits_is_answered_without_a_call() -> None:
    for c in [*some_conversations("not offered", 60), *some_conversations("no tool", 60)]:
        assert "no tool" in c.episodes[0].answer
        assert c.episodes[0].calls == ()


@pytest.mark.parametrize("kind", ["single", "not offered", "error told", "retry"])
def test_among_two_number_functions_the_thought_looks_the_names_through(kind: str) -> None:
    """In the order in which they are offered, each with its verdict, and no further than to the one that is called."""
    s = Source.seeded(kind)
    for c in (conversation(s, where="numbers", kind=kind, requests=1) for _ in range(60)):
        (episode,) = c.episodes
        names, called = [tool.name for tool in c.world.tools], [each["name"] for step in episode.calls for each in step]
        looked_at = names[: names.index(called[0]) + 1] if called else names
        thought = episode.messages[1]["reasoning_content"]

        verdicts = ", ".join(f"{name} {'yes' if name in called else 'no'}" for name in looked_at)
        assert re.fullmatch(rf"I should [a-z ]+: {verdicts}\.( No tool does that\.)?", thought), thought
        assert thought.endswith("No tool does that.") == (kind == "not offered")


def test_the_recipe_renders_what_the_template_renders() -> None:
    prompts = check.prompts(Source.seeded("template"), 120)

    assert len(prompts) == check.template_agrees(prompts)


def test_the_template_shows_earlier_turns_without_their_thoughts() -> None:
    s = Source.seeded(4)
    c = conversation(s, world(s, "cli"), kind="single", requests=2)
    shown = render(c.tools, c.messages)

    assert shown.count("<think>") == 2
    assert c.episodes[0].messages[1]["reasoning_content"] not in shown.split(c.episodes[1].messages[0]["content"])[0]


def test_the_command_lines_tools_are_declared_to_the_letter() -> None:
    w = world(Source.seeded(1), "cli")

    assert [json.dumps(schema) for schema in w.schemas] == [
        '{"type": "function", "function": {"name": "calculate", "description": "Evaluate an arithmetic expression.", '
        '"parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, '
        '"required": ["expression"]}}}',
        '{"type": "function", "function": {"name": "current_time", "description": "Get the current date and time.", '
        '"parameters": {"type": "object", "properties": {}}}}',
        '{"type": "function", "function": {"name": "Read", "description": "Read a text file.", '
        '"parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}}',
        '{"type": "function", "function": {"name": "Glob", "description": "Find files by a glob pattern.", '
        '"parameters": {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}}}',
        '{"type": "function", "function": {"name": "Grep", "description": "Search files for a pattern.", '
        '"parameters": {"type": "object", "properties": {"pattern": {"type": "string"}, "path": {"type": "string"}}, '
        '"required": ["pattern"]}}}',
    ]


def test_the_command_line_offers_what_the_model_has_seen_most(tmp_path: Path) -> None:
    specs = [tool.spec for tool in standard_tools(tmp_path)]
    offered = [{"name": x.name, "description": x.description, "parameters": x.parameters} for x in specs]

    assert [json.dumps(x["function"]) for x in world(Source.seeded(1), "cli").schemas] == [
        json.dumps(x) for x in offered
    ]


@pytest.mark.parametrize("kind", SHARES)
def test_no_world_offers_two_tools_of_one_name(kind: str) -> None:
    s = Source.seeded(kind)
    for _ in range(100):
        names = [t.name for t in world(s, kind).tools]

        assert len(set(names)) == len(names)


def test_a_seed_makes_the_same_texts_again() -> None:
    assert texts_of_one_world(Source.seeded(8), 6) == texts_of_one_world(Source.seeded(8), 6)


def test_every_text_of_a_world_goes_on_from_its_opening() -> None:
    s = Source.seeded(9)
    for _ in range(40):
        opening, texts = texts_of_one_world(s, 4)
        assert "<tools>" not in "".join(texts)
        assert all(text.startswith("<|im_start|>user\n") and text.endswith("<|im_end|>\n") for text in texts)
        assert opening == "" or opening.endswith("<|im_end|>\n")


@pytest.mark.parametrize("set_name", SETS)
def test_the_cases_of_a_score_are_the_same_in_every_run(set_name: str) -> None:
    first, second = ([c.messages for c in cases("cli", set_name, "single", 5)] for _ in range(2))

    assert first == second


def test_the_scorer_marks_calls_that_cannot_be_read() -> None:
    mended = ProposedCall("Read", '{"path": "b.txt"}', repairs=("trailing comma",))
    reply = Done(
        text="",
        reasoning="",
        calls=(ProposedCall("Read", '{"path": "a.txt"}'), mended),
        malformed=(MalformedToolCall("{oops}", "no JSON"),),
        finish_reason="tool_calls",
        usage=Usage(),
        timings=Timings(),
    )

    assert calls_of(reply) == [{"name": "Read", "arguments": {"path": "a.txt"}}, None, None]


def test_the_scorer_hands_results_to_their_calls() -> None:
    s = Source.seeded(2)
    c = conversation(s, kind="parallel", where="cli", requests=1)
    messages = list(history(c.messages))
    asked = [call.id for m in messages if isinstance(m, AssistantMessage) for call in m.calls]

    assert asked == [m.call_id for m in messages if isinstance(m, ToolMessage)]


def test_every_tool_has_phrasings_for_training_and_held_out_ones() -> None:
    assert set(FAMILIES) == set(phrasings.TOOLS)
    assert all(p.train and p.held for p in phrasings.TOOLS.values())


def some_conversations(kind: str, count: int) -> Iterator[Conversation]:
    """Conversations of one request of this kind, in all worlds that have tools for it."""
    s = Source.seeded(kind)
    where = "odd" if kind == "unseen tool" else None
    for i in range(count):
        s.unseen_values, s.unseen_phrasings = i % 2 == 0, i % 4 > 1
        c = conversation(s, kind=kind, where=where, requests=1)
        assert isinstance(c.world, World)
        yield c

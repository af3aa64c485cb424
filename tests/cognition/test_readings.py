"""Text protocols to the letter: what becomes of each part of a reply."""

from __future__ import annotations

import pytest

from cognition import MalformedToolCall, ProposedCall, ToolSpec
from cognition.parsing.text_protocol import (
    INSTRUCTIONS,
    MISPLACED,
    MOST_OBJECTS,
    ParsedReply,
    TextProtocol,
    instructions,
    read_text,
)
from tests.cognition.test_text_protocol import MOVE, SHELL

ODD = ToolSpec("odd", "", {"type": "object", "properties": {"n": {"type": "integer"}}})
ANY = ToolSpec("any", "", {"type": "object", "properties": {"x": True}})
BARE = ToolSpec("bare", "", {"type": "object"})
TOOLS = {tool.name: tool for tool in (SHELL, MOVE, ODD, ANY, BARE)}
LS = ProposedCall("shell", {"command": "ls"})
UNCLOSED = MalformedToolCall("<tool>shell", "<tool> is not closed")
CUT = "it begins like a call and is no complete JSON"


def malformed(raw: str, reason: str) -> ParsedReply:
    return ParsedReply(malformed=(MalformedToolCall(raw, reason),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Sure! {"a": "shell", "i": "ls"} Done.', ParsedReply(reasoning="Sure!  Done.", calls=(LS,))),
        ('Use {"a": 5} then {"a": "shell", "i": "ls"} ok', ParsedReply(reasoning='Use {"a": 5} then  ok', calls=(LS,))),
        ('See {"a": broken {"a": "shell", "i": "ls"}', ParsedReply(reasoning='See {"a": broken', calls=(LS,))),
        (
            'Run {"a": "shell", "i": {"command": "a\nb"}}',
            ParsedReply(reasoning="Run", calls=(ProposedCall("shell", {"command": "a\nb"}),)),
        ),
        ('Well {"t": "why", "a": "shell", "i": "ls"}', ParsedReply(reasoning="Well\nwhy", calls=(LS,))),
        (
            'Hm.\n```json\n{"t": "x", "a": "shell", "i": "ls"}\n```\nand\n```\n{"a": "shell", "i": "ls"}\n```\nend',
            ParsedReply(reasoning="Hm.\n\nand\n\nend\nx", calls=(LS, LS)),
        ),
        (
            '```\n{"result": 1}\n```\n```json\n{"a": "shell", "i": "ls"}\n```',
            ParsedReply(calls=(LS,)),
        ),
        ('```json\n[{"f": "A"}, {"f": "B"}]\n```', ParsedReply("A\nB")),
        (
            '{"f": "A", "r": "note"} {"f": "B", "t": "why"} {"r": "two", "t": "and"}',
            ParsedReply("A\nB", "why\nand", remember=("note", "two")),
        ),
        ('{"t": "only"}', ParsedReply(reasoning="only")),
        (
            '{"a": "shell", "i": "ls", "c": true}',
            ParsedReply(calls=(ProposedCall("shell", {"command": "ls"}, (), True),)),
        ),
        ('{"a": "shell", "i": "ls", "c": false}', ParsedReply(calls=(LS,))),
        ('{"a": "move", "i": "  {\\"a\\": \\"1\\"}"}', ParsedReply(calls=(ProposedCall("move", {"a": "1"}),))),
        ('{"a": "shell", "i": "{ls"}', ParsedReply(calls=(ProposedCall("shell", {"command": "{ls"}),))),
        ('{"a": "shell"}', ParsedReply(calls=(ProposedCall("shell", {}),))),
        ("<response> A </response> B", ParsedReply("A")),
        ("<response>A", ParsedReply("A")),
    ],
)
def test_short_keys_are_read_part_by_part(text: str, expected: ParsedReply) -> None:
    """Nothing that was said is lost: what stands around the objects is thought, answers and notes keep their order."""
    assert expected == read_text("short_keys", text, TOOLS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": "shell", "i": {"command": "l', CUT),
        ('  [ {"a": "shell", "i": {"command": "l', CUT),
        ('{"a": "shell", "i": ["é"]}', "the input of 'shell' must be a JSON object, not list"),
        ('{"a": "shell", "i": 5}', "the input of 'shell' must be a JSON object, not int"),
        ('{"a": "move", "i": "x to y"}', "the input of 'move' must be a JSON object"),
        ('{"a": "move", "i": "{broken"}', "the input of 'move' must be a JSON object"),
        ('{"a": "odd", "i": "5"}', "the input of 'odd' must be a JSON object"),
        ('{"a": "any", "i": "5"}', "the input of 'any' must be a JSON object"),
        ('{"a": "bare", "i": "5"}', "the input of 'bare' must be a JSON object"),
        ('{"a": "unknown", "i": "x"}', "the input of 'unknown' must be a JSON object"),
        ('{"a": "shell", "i": "ls", "c": "yes"}', MISPLACED.format("shell")),
        ('{"a": "shell", "x": 1}', MISPLACED.format("shell")),
    ],
)
def test_what_can_not_be_read_goes_back_as_it_was_with_the_reason(text: str, reason: str) -> None:
    assert malformed(text, reason) == read_text("short_keys", text, TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "none", "i": "ls", "c": "yes"}',
        '{"a": "none", "x": 1}',
        '{"c": true, "i": {}}',
        '{"t": 1}',
        '{"f": null}',
        '{"r": ["x"]}',
    ],
)
def test_an_object_with_another_key_or_type_is_not_of_the_convention(text: str) -> None:
    """It is an answer, unless it names a tool that there is."""
    assert ParsedReply(text) == read_text("short_keys", text, TOOLS)


def test_so_many_objects_are_looked_for_in_prose_and_no_more() -> None:
    one = '{"a": "shell", "i": "ls"} '

    assert len(read_text("short_keys", "- " + one * MOST_OBJECTS, TOOLS).calls) == MOST_OBJECTS
    assert len(read_text("short_keys", "- " + one * (MOST_OBJECTS + 1), TOOLS).calls) == MOST_OBJECTS


def test_a_reply_that_was_cut_is_looked_through_as_far_as_that() -> None:
    """Objects that are no calls stay in the answer, however many there are."""
    text = "Use " + '{"a": 5} ' * (MOST_OBJECTS + 1)

    assert read_text("short_keys", text, TOOLS, "length") == ParsedReply(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  <tool>shell", malformed("  <tool>shell", "<tool> is not closed")),
        ("Text <tool>shell", ParsedReply(reasoning="Text", malformed=(UNCLOSED,))),
        ("x<tool>shell", ParsedReply(reasoning="x", malformed=(UNCLOSED,))),
        ("Text <tool>none", ParsedReply("Text <tool>none")),
        ("Text <tool>she", ParsedReply("Text <tool>she")),
        ("Use <tool> so. <tool>shell", ParsedReply(reasoning="Use <tool> so.", malformed=(UNCLOSED,))),
        (
            "Go: <tool>shell<args>ls</args>",
            ParsedReply(
                reasoning="Go:", malformed=(MalformedToolCall("<tool>shell<args>ls</args>", "<tool> is not closed"),)
            ),
        ),
        ("<tool>shell</tool><args> </args>", ParsedReply(calls=(ProposedCall("shell", {}),))),
        ("<tool>shell</tool>", ParsedReply(calls=(ProposedCall("shell", {}),))),
        ("<tool> shell </tool> <args> ls </args>", ParsedReply(calls=(LS,))),
        (
            "A <tool>move</tool><args>x</args>B<response> R </response>C",
            ParsedReply(
                "R",
                "A BC",
                malformed=(
                    MalformedToolCall("<tool>move</tool><args>x</args>", "the input of 'move' must be a JSON object"),
                ),
            ),
        ),
        ("A<tool>shell</tool><args>ls</args><response> R", ParsedReply("R", "A", (LS,))),
        ("<tool>shell</tool><args>ls</args><tool>", ParsedReply(reasoning="<tool>", calls=(LS,))),
        ("A<response> R </response>B", ParsedReply("R")),
    ],
)
def test_tool_tags_are_read_part_by_part(text: str, expected: ParsedReply) -> None:
    assert expected == read_text("tool_tags", text, TOOLS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hm. <t", ParsedReply("Hm. ")),
        ("Hm. <tool", ParsedReply("Hm. ")),
        ("Hm. <", ParsedReply("Hm. <")),
        ("Hm. <respons", ParsedReply("Hm. ")),
        ("<response>Hm.</respo", ParsedReply("Hm.")),
        ("Hm. <tool>", ParsedReply(reasoning="Hm.", malformed=(MalformedToolCall("<tool>", "<tool> is not closed"),))),
        (
            "Hm. <tool>sh",
            ParsedReply(reasoning="Hm.", malformed=(MalformedToolCall("<tool>sh", "<tool> is not closed"),)),
        ),
        ("Hm. <tool>none", ParsedReply("Hm. <tool>none")),
    ],
)
def test_a_reply_that_was_cut_in_the_name_of_a_call_shows_nothing_of_it(text: str, expected: ParsedReply) -> None:
    """A name that no tool begins with is none: an answer may speak of ``<tool>``."""
    assert expected == read_text("tool_tags", text, TOOLS, "length")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Hm.", "Hm."),
        ("Hm. {", "Hm. {"),
        ('Hm. {"', "Hm. "),
        ('Hm. {"t', "Hm. "),
        ('Hm. {"t" ', "Hm. "),
        ('Hm. {"t": ', "Hm. "),
        ('Hm. {"t": "I th', "Hm. "),
        ('Hm. {"f": "It is', "Hm. "),
        ('Hm. {"a": "no', "Hm. "),
        ('Hm. {"i": {"command"', "Hm. "),
        ('```json\n[{"', ""),
        ('Use {"a": 5} or {"a": x}, else {"f', 'Use {"a": 5} or {"a": x}, else '),
        ('{"name": "An', '{"name": "An'),
        ("<response>Hm.</respo", "Hm."),
    ],
)
def test_a_reply_that_was_cut_in_an_object_shows_what_stands_before_it(text: str, answer: str) -> None:
    assert read_text("short_keys", text, TOOLS, "length") == ParsedReply(answer)


@pytest.mark.parametrize("protocol", ["short_keys", "tool_tags"])
def test_the_prompt_is_the_programs_then_the_convention_then_one_line_a_tool(protocol: TextProtocol) -> None:
    lines = [
        INSTRUCTIONS[protocol],
        "- odd:  Input: " + '{"type": "object", "properties": {"n": {"type": "integer"}}}',
        "- bare:  Input: " + '{"type": "object"}',
    ]

    assert "Be brief.\n\n" + "\n".join(lines) == instructions(protocol, "Be brief.", (ODD, BARE))
    assert "\n".join(lines) == instructions(protocol, "", (ODD, BARE))
    assert instructions(protocol, "Be brief.", ()) == "Be brief."
    assert instructions("native", "Be brief.", (ODD,)) == "Be brief."

"""Calls in plain text, for models without native ones: what is read, what is an answer, what goes back to the model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from cognition import (
    ApprovalGiven,
    AskApproval,
    AssistantMessage,
    CallModel,
    CallTool,
    CancelAsked,
    Cancelled,
    Completed,
    Failed,
    Failure,
    HookReturned,
    Input,
    LimitHit,
    LimitReached,
    Limits,
    ModelFailed,
    ModelInterrupted,
    Remember,
    RunHook,
    ToolFailed,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
)
from cognition.parsing.text_protocol import INSTRUCTIONS, ParsedReply, TextProtocol, instructions, read_text
from cognition.values.outcomes import FinishReason
from tests.cognition.session import Session, effect, engine_with, replied

SHELL = ToolSpec(
    "shell",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
MOVE = ToolSpec("move", "", {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}})
TOOLS = {tool.name: tool for tool in (SHELL, MOVE)}
LS = [("shell", {"command": "ls"})]


def calls(reading: ParsedReply) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, json.loads(call.arguments_json)) for call in reading.calls]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"t": "look", "a": "shell", "i": {"command": "ls"}}', LS),
        ('```json\n{"a": "shell", "i": {"command": "ls"}}\n```', LS),
        ('```\n{"a": "shell", "i": {"command": "ls"}}\n```', LS),
        ('I will look.\n```json\n{"a": "shell", "i": {"command": "ls"}}\n```\nOne moment.', LS),
        ('Sure! {"a": "shell", "i": {"command": "ls"}} Done.', LS),
        ('{"a": "shell", "i": "ls"}', LS),
        ('{"a": "shell", "i": "{\\"command\\": \\"ls\\"}"}', LS),
        ("{'a': 'shell', 'i': {'command': 'ls'},}", LS),
        ('{"a": "shell", "i": {"command": "echo \\"}\\""}}', [("shell", {"command": 'echo "}"'})]),
        ('{"a": "shell", "i": {"command": "a\nb"}}', [("shell", {"command": "a\nb"})]),
        ('{"a": "unknown"}', [("unknown", {})]),
        (
            '[{"a": "shell", "i": "ls"}, {"a": "move", "i": {"a": "x", "b": "y"}}]',
            [*LS, ("move", {"a": "x", "b": "y"})],
        ),
        ('```json\n{"a": "shell", "i": "ls"}\n```\nand\n```json\n{"a": "shell", "i": "ls"}\n```', LS * 2),
        ('First {"a": "shell", "i": "ls"} then {"a": "shell", "i": "ls"}', LS * 2),
    ],
)
@pytest.mark.behaviour("B5")
def test_short_keys_are_read_in_every_shape(text: str, expected: list[tuple[str, dict[str, Any]]]) -> None:
    """Plain, fenced, in prose, as an array with every action kept, with line breaks in strings."""
    reading = read_text("short_keys", text, TOOLS)

    assert expected == calls(reading)
    assert reading.malformed == ()
    assert reading.answer == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer is 42.",
        '{"name": "Ann", "age": 3}',
        '{"a": 1, "f": 2}',
        '{"i": {"x": 1}}',
        '{"c": true}',
        "{}",
        "[]",
        "[1, 2]",
        "null",
        'Use {"a": 5} in your file.',
        "if (x) { return {a: 1}; }",
        '```json\n{"result": [1, 2]}\n```',
        "```python\nprint({'a': 1})\n```",
        "a < b and <tools> are fine",
        "it ends with <t",
        "and it with </",
    ],
)
@pytest.mark.parametrize("protocol", ["short_keys", "tool_tags"])
@pytest.mark.behaviour("B5")
def test_a_plain_answer_is_never_taken_for_a_failed_call(protocol: TextProtocol, text: str) -> None:
    assert read_text(protocol, text, TOOLS) == ParsedReply(answer=text)


@pytest.mark.behaviour("B7")
def test_no_key_is_lost_when_several_stand_together() -> None:
    """Thought, call, answer, note and confirmation of one object all arrive."""
    reading = read_text(
        "short_keys", '{"t": "hm", "a": "shell", "i": "ls", "f": "Done.", "c": true, "r": "likes ls"}', TOOLS
    )

    assert calls(reading) == LS
    assert reading.calls[0].confirm
    assert (reading.answer, reading.reasoning, reading.remember) == ("Done.", "hm", ("likes ls",))


@pytest.mark.behaviour("B5")
def test_text_around_calls_is_thought_and_a_marked_response_is_the_answer() -> None:
    assert "Sure!" in read_text("short_keys", 'Sure! {"a": "shell", "i": "ls"}', TOOLS).reasoning
    assert read_text("short_keys", "<response> Hi. </response>", TOOLS).answer == "Hi."
    assert read_text("tool_tags", "Hm.<response>Hi.", TOOLS).answer == "Hi."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": "shell", "i": {"command": "l', "no complete JSON"),
        ('```json\n{"t": "x", "a": "she', "no complete JSON"),
        ('{"a": "shell", "i": [1]}', "must be a JSON object, not list"),
        ('{"a": "move", "i": "x to y"}', "must be a JSON object"),
    ],
)
@pytest.mark.behaviour("B5")
def test_what_was_meant_as_a_call_and_can_not_be_read_is_malformed(text: str, reason: str) -> None:
    reading = read_text("short_keys", text, TOOLS)

    assert reading.calls == ()
    assert reason in reading.malformed[0].reason


@pytest.mark.parametrize(
    ("text", "expected", "problems"),
    [
        ('<tool>shell</tool><args>{"command": "ls"}</args>', LS, 0),
        ("<tool>shell</tool>\n<args>ls</args>", LS, 0),
        ("Hm.<tool>shell</tool><args>ls</args> and <tool> now </tool>", [*LS, ("now", {})], 0),
        ("<tool>move</tool><args>x</args><tool>shell</tool><args>ls</args>", LS, 1),
        ("<tool>shell", [], 1),
        ("<tool>move</tool><args>[1]</args>", [], 1),
    ],
)
@pytest.mark.behaviour("B5")
def test_tool_tags_are_read(text: str, expected: list[tuple[str, dict[str, Any]]], problems: int) -> None:
    reading = read_text("tool_tags", text, TOOLS)

    assert expected == calls(reading)
    assert problems == len(reading.malformed)


def test_an_answer_beside_tagged_calls_is_kept() -> None:
    reading = read_text("tool_tags", "Hm.<tool>shell</tool><args>ls</args><response>Ok.</response>", TOOLS)

    assert (calls(reading), reading.answer, reading.reasoning) == (LS, "Ok.", "Hm.")


@given(st.text(st.sampled_from("{}[]\"'taifcr: ,\\\n`json<>/")), st.sampled_from(["short_keys", "tool_tags"]))
@example("{" * 3000, "short_keys")
@example('{"a":' * 2000, "short_keys")
@example("[" * 100_000, "short_keys")
@example("<tool>" * 2000, "tool_tags")
def test_hostile_text_is_read_as_something(text: str, protocol: TextProtocol) -> None:
    """Whatever a model writes, reading it raises nothing and loses nothing."""
    reading = read_text(protocol, text, TOOLS)

    assert text == "" or reading != ParsedReply()


def test_the_system_prompt_tells_the_convention_and_the_tools() -> None:
    told = instructions("short_keys", "Be brief.", (SHELL,))

    assert told.startswith("Be brief.\n\n" + INSTRUCTIONS["short_keys"])
    assert '- shell: Run a command. Input: {"type": "object"' in told
    assert instructions("short_keys", "Be brief.", ()) == "Be brief."
    assert instructions("native", "Be brief.", (SHELL,)) == "Be brief."


def test_a_turn_in_a_text_protocol() -> None:
    """The request offers no native tools; history keeps what the model wrote; the outcome has the answer alone."""
    session = Session(engine_with(SHELL, protocol="short_keys"))
    (ask,) = session(UserSpoke("What is here?"))
    assert isinstance(ask, CallModel)
    assert (ask.request.tools, ask.request.protocol) == ((), "short_keys")
    assert ask.request == session.engine.build_prompt(session.state)

    remember, run = session(replied("1.1.0", '{"t": "look", "a": "shell", "i": "ls", "r": "curious"}'))
    session(ToolReturned(effect("1.1.1"), "a.txt"))
    end = session(replied("1.2.0", '{"f": "One file."}'))

    assert remember == Remember("curious")
    assert isinstance(run, CallTool)
    assert run.call.arguments == {"command": "ls"}
    assert end == (TurnFinished(Completed("One file."), Usage()),)
    assert session.state.history[-1] == AssistantMessage("m4", '{"f": "One file."}')


@pytest.mark.parametrize(
    ("protocol", "text", "answer"),
    [
        ("short_keys", '{"f": "One file."}', "One file."),
        ("short_keys", '{"a": "shell", "i": "ls"}', ""),
        ("tool_tags", "<response>One file.</response>", "One file."),
        ("tool_tags", "<tool>shell</tool><args>ls</args>", ""),
        ("tool_tags", "One file.", "One file."),
    ],
)
def test_the_final_answer_at_a_limit_is_read_out_of_its_protocol(protocol: str, text: str, answer: str) -> None:
    session = Session(engine_with(SHELL, protocol=protocol, limits=Limits(steps=1)))
    session(UserSpoke("List"))
    call = '{"a": "shell", "i": "ls"}' if protocol == "short_keys" else "<tool>shell</tool><args>ls</args>"
    session(replied("1.1.0", call))
    session(ToolReturned(effect("1.1.1"), "a.txt"))

    (end,) = session(replied("1.2.0", text))

    assert end == TurnFinished(LimitReached("steps", answer), Usage())


@pytest.mark.parametrize(
    "event",
    [
        ModelInterrupted(effect("1.1.0"), '{"f": "One fi'),
        ModelFailed(effect("1.1.0"), Failure("broken off"), '{"f": "One fi'),
        CancelAsked("enough", partial_text='{"f": "One fi'),
    ],
)
def test_of_a_reply_that_broke_off_people_get_what_of_the_answer_had_arrived(event: Input) -> None:
    session = Session(engine_with(SHELL, protocol="short_keys"))
    session(UserSpoke("List"))

    end = session(event)[-1]

    assert isinstance(end, TurnFinished)
    assert isinstance(end.outcome, Cancelled | Failed)
    assert end.outcome.text == "One fi"


@pytest.mark.parametrize(
    ("protocol", "text", "read"),
    [
        ("native", "I look. <tool>mo", "I look. <tool>mo"),
        ("short_keys", 'See {"t": 1, "a": "shell", "i"', ""),
        ("tool_tags", "I look. <tool>mo", ""),
        ("tool_tags", "I look. <tool>shell and", ""),
        ("tool_tags", "I speak of <tool>s", ""),
        ("tool_tags", "I speak of <tool>x", "I speak of <tool>x"),
    ],
)
def test_of_a_reply_that_was_cancelled_a_call_that_had_begun_is_no_answer(protocol: str, text: str, read: str) -> None:
    """What looks like one and names no tool that there is, is one that people may read."""
    session = Session(engine_with(SHELL, MOVE, protocol=protocol))
    session(UserSpoke("List"))

    end = session(CancelAsked("enough", partial_text=text))[-1]

    assert end == TurnFinished(Cancelled("enough", read), Usage())


@pytest.mark.behaviour("B7")
def test_an_answer_beside_a_call_holds_once_the_call_succeeded() -> None:
    """``f`` fires after the tool finished; if it failed, the model hears of that instead."""
    reply = '{"a": "shell", "i": "ls", "f": "Listed."}'
    for event, expected in (
        (ToolReturned(effect("1.1.1"), "a.txt"), TurnFinished),
        (ToolFailed(effect("1.1.1"), "no"), CallModel),
    ):
        session = Session(engine_with(SHELL, protocol="short_keys"))
        session(UserSpoke("List"))
        session(replied("1.1.0", reply))

        (decision,) = session(event)

        assert expected is type(decision)
    session = Session(engine_with(SHELL, protocol="short_keys", hooks=("stop",)))
    session(UserSpoke("List"))
    session(replied("1.1.0", reply))
    (hook,) = session(ToolReturned(effect("1.1.1"), "a.txt"))
    assert RunHook(effect("1.1.2"), "stop", "Listed.") == hook
    assert session(HookReturned(effect("1.1.2"))) == (TurnFinished(Completed("Listed."), Usage()),)
    assert session.state.history[-1] == AssistantMessage("m4", "Listed.")


def test_a_model_may_want_the_user_to_be_asked() -> None:
    session = Session(engine_with(SHELL, protocol="short_keys"))
    session(UserSpoke("List"))

    (ask,) = session(replied("1.1.0", '{"a": "shell", "i": "ls", "c": true}'))
    (run,) = session(ApprovalGiven(effect("1.1.1")))

    assert isinstance(ask, AskApproval)
    assert isinstance(run, CallTool)


@pytest.mark.behaviour("B5")
def test_unreadable_replies_are_sent_back_twice_and_stay_out_of_history() -> None:
    """The bad output is in the journal, as the input it was; repeating it to the model would teach it."""
    session = Session(engine_with(SHELL, protocol="short_keys"))
    session(UserSpoke("List"))
    bad = '{"a": "shell", "i": {"command": "l'
    for step in (1, 2):
        (ask,) = session(replied(f"1.{step}.0", bad))
        assert isinstance(ask, CallModel)
        assert ask.purpose == "repair"
        assert all(bad not in message.text for message in ask.request.messages if isinstance(message, UserMessage))
        assert [UserMessage] * (step + 1) == [type(message) for message in ask.request.messages]

    (end,) = session(replied("1.3.0", bad))

    assert isinstance(end, TurnFinished)
    assert isinstance(end.outcome, Failed)
    assert end.outcome.kind == "bad_output"


# ------------------------------------------------------------------------------- what was cut, and what is misplaced

SHORT = [
    '{"t": "hm", "a": "shell", "i": {"command": "ls", "deep": {"a": "move", "i": {"a": "x"}}}}',
    '[{"a": "shell", "i": {"command": "ls"}}, {"a": "move", "i": {"a": "x", "b": "y"}, "c": true}]',
    'Sure. {"a": "shell", "i": {"command": "ls"}} and {"a": "move", "i": {"b": "}"}} so.',
    '```json\n{"a": "shell", "i": {"command": "ls"}}\n```\nthen ```json\n{"a": "move", "i": {}}\n```',
]
TAGS = [
    'Hm.<tool>shell</tool>\n<args>{"command": "ls"}</args> and <tool>move</tool><args>{"a": "<tool>"}</args>',
    "<tool>shell</tool><args>ls</args><tool>now</tool><args>{}</args>",
]


@pytest.mark.parametrize(
    ("protocol", "text"), [*(("short_keys", text) for text in SHORT), *(("tool_tags", text) for text in TAGS)]
)
@pytest.mark.parametrize("reason", ["stop", "length", "cancelled", "error"])
@pytest.mark.behaviour("P13a")
def test_no_part_of_a_reply_holds_a_call_that_the_whole_has_not(
    protocol: TextProtocol, text: str, reason: FinishReason
) -> None:
    """Cut after each character; where the model stopped by itself, a name in tags may be a call of its own."""
    whole = calls(read_text(protocol, text, TOOLS))
    for cut in range(len(text)):
        part = calls(read_text(protocol, text[:cut], TOOLS, reason))
        alone = reason == "stop" and text[:cut].rstrip().endswith("</tool>")

        assert part[: len(part) - alone] == whole[: len(part) - alone], text[:cut]


@pytest.mark.parametrize(
    ("protocol", "text", "names", "reason"),
    [
        ("short_keys", '{"a": "shell", "command": "ls"}', [], "has to stand in"),
        ("short_keys", 'Sure! {"a": "shell", "args": {"command": "ls"}}', [], "has to stand in"),
        ("short_keys", '[{"a": "move", "i": {}}, {"a": "shell", "command": "ls"}]', ["move"], "has to stand in"),
        ("short_keys", '{"a": "shell", "i": {"command": "ls", "command": "rm"}}', [], "'command' is given twice"),
        ("short_keys", 'So: {"a": "shell", "a": "move", "i": {}}', [], "'a' is given twice"),
        ("short_keys", 'So: {"a": "shell", "i": {"command": "l', [], "no complete JSON"),
        ("short_keys", '{"a": "shell"', [], "no complete JSON"),
        ("short_keys", '[{"a": "move", "i": {}}, {"t": "hm", "a": "sh', ["move"], "no complete JSON"),
        ("short_keys", '{"t": 1, "a": "write", "i": {"d": {"a": "shell", "i": "ls"}, ...}}', [], "no complete JSON"),
        ("tool_tags", '<tool>shell</tool><args>{"command": "l', [], "the input of 'shell' is not complete"),
        ("tool_tags", "<tool>shell</tool>\n<arg", [], "the input of 'shell' is not complete"),
        ("tool_tags", "<tool>move</tool><args>{}</args><tool>she", ["move"], "<tool> is not closed"),
    ],
)
@pytest.mark.behaviour("P13a", "P13c")
def test_what_may_have_been_meant_as_input_is_told(
    protocol: TextProtocol, text: str, names: list[str], reason: str
) -> None:
    reading = read_text(protocol, text, TOOLS, "length")

    assert [call.name for call in reading.calls] == names
    assert reason in reading.malformed[-1].reason


def test_a_name_in_tags_is_a_call_where_the_model_stopped_by_itself() -> None:
    """At a token limit its input may have been to come."""
    stopped, cut = (read_text("tool_tags", "<tool>now</tool>\n", TOOLS, reason) for reason in ("stop", "length"))

    assert (calls(stopped), stopped.malformed) == ([("now", {})], ())
    assert (calls(cut), len(cut.malformed)) == ([], 1)
    assert read_text("tool_tags", "I write <tool> so", TOOLS, "length") == ParsedReply(answer="I write <tool> so")


def test_a_missing_brace_is_mended_where_the_text_has_an_end_of_its_own() -> None:
    """An answer loses nothing by it; in a fence and between tags, the end is there."""
    assert read_text("short_keys", '{"f": "Done."', TOOLS).answer == "Done."
    assert calls(read_text("short_keys", '```\n{"a": "shell", "i": {"command": "ls"}\n```', TOOLS)) == LS
    assert calls(read_text("tool_tags", '<tool>shell</tool><args>{"command": "ls"</args>', TOOLS)) == LS
    assert read_text("short_keys", 'Use {"t": {"a": 1', TOOLS).answer == 'Use {"t": {"a": 1'


@pytest.mark.parametrize(
    ("protocol", "text", "malformed"),
    [
        ("short_keys", '{"a": "shell", "i": {"command": "l', ['{"a": "shell", "i": {"command": "l']),
        ("short_keys", '{"a": "shell"', ['{"a": "shell"']),
        ("short_keys", 'So: {"a": "shell", "i": {"c', ['{"a": "shell", "i": {"c']),
        ("short_keys", '{"a": "move"} {"a": "shell", "i": {"c', ['{"a": "shell", "i": {"c']),
        ("short_keys", 'So: {"a": "move"} {"a": "nothing", "i": {"c', ['{"a": "nothing", "i": {"c']),
        ("short_keys", 'So: {"a": "move", "a": "x"} or {"t": {"b', ['{"a": "move", "a": "x"} or {"t": {"b']),
        ("short_keys", 'It has {"a": "shell", "b": 1} and {"t": ["x', ['{"a": "shell", "b": 1}']),
        ("tool_tags", 'Hm.<tool>shell</tool><args>{"command": "l', ['<tool>shell</tool><args>{"command": "l']),
        ("tool_tags", "<tool>move</tool><args>{}</args>so <tool>a<tool>b", ["<tool>a<tool>b"]),
    ],
)
def test_what_is_told_of_is_the_text_itself(protocol: TextProtocol, text: str, malformed: list[str]) -> None:
    """From where it begins: the model reads it, and nothing of what stands before it."""
    assert malformed == [one.raw for one in read_text(protocol, text, TOOLS, "length").malformed]


@pytest.mark.behaviour("P13a")
@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize("inner", ["<tool>now</tool>", "<tool>now</tool><args>{}</args>"])
def test_a_call_within_the_input_of_another_is_none(inner: str, reason: FinishReason) -> None:
    """Neither where the outer one's input was cut, nor where the inner one's end is taken for the outer one's."""
    reading = read_text("tool_tags", f'<tool>shell</tool><args>{{"command": "{inner} and', TOOLS, reason)

    assert calls(reading) == []
    assert len(reading.malformed) == 1


def test_a_call_in_tags_without_any_input_ends_no_search() -> None:
    """White space is none."""
    reading = read_text("tool_tags", "<tool>now</tool><args> </args><tool>shell</tool><args>ls</args>", TOOLS)

    assert (calls(reading), reading.malformed) == ([("now", {}), *LS], ())


@pytest.mark.parametrize("protocol", ["short_keys", "tool_tags"])
def test_broken_json_is_no_plain_input(protocol: TextProtocol) -> None:
    """A command may stand there as it is, in braces too; what was to be an object is not run as one."""
    written = {"short_keys": '{{"a": "shell", "i": {}}}', "tool_tags": "<tool>shell</tool><args>{}</args>"}[protocol]

    def read(text: str) -> ParsedReply:
        return read_text(protocol, written.format(json.dumps(text) if protocol == "short_keys" else text), TOOLS)

    assert calls(read("{ ls; }")) == [("shell", {"command": "{ ls; }"})]
    assert calls(read('{"command": "ls"}')) == LS
    assert (calls(read('{"command" "ls}')), len(read('{"command" "ls}').malformed)) == ([], 1)
    assert (calls(read("{ 'command: ls")), len(read("{ 'command: ls").malformed)) == ([], 1)


@pytest.mark.behaviour("P13a")
def test_a_name_in_tags_at_the_token_limit_is_no_call_of_the_turn() -> None:
    """What it was to be called with is not known: nothing runs, and the turn ends there."""
    session = Session(engine_with(SHELL, protocol="tool_tags"))
    session(UserSpoke("What is here?"))

    ends = session(replied("1.1.0", "<tool>shell</tool>", finish_reason="length"))

    assert [LimitHit, TurnFinished] == [type(decision) for decision in ends]


def test_what_is_told_in_these_words() -> None:
    """With the whole text of what was meant as a call; a reply ends by itself unless it is said that it was cut."""
    tools = {"look": ToolSpec("look")}
    begun, named = '{"a": "nowhere", "i": {', "<tool>look</tool>"

    (told,) = read_text("tool_tags", f"{named}<args>{{}}</args>and <tool>look", tools, "length").malformed
    assert (told.raw, told.reason) == ("<tool>look", "<tool> is not closed")
    (told,) = read_text("short_keys", begun, tools).malformed
    assert (told.raw, told.reason) == (begun, "it begins like a call and is no complete JSON")
    whole = read_text("tool_tags", named, tools)
    assert [(call.name, call.arguments_json) for call in whole.calls] == [("look", "{}")]
    assert whole == read_text("tool_tags", named, tools, "stop")
    assert whole != read_text("tool_tags", named, tools, "length")

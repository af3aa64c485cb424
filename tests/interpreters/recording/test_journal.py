"""The journal: what stands on file when, and what is left after damage."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import (
    AgentConfig,
    History,
    LLMEngine,
    ModelRequest,
    ToolSpec,
    UserMessage,
    fold,
)
from interpreters import Agent, fakes, tool
from interpreters.recording.journal import (
    JournalDamagedError,
    JournalError,
    JournalReader,
    JournalVersionError,
    NotAJournalError,
    UnknownTagError,
)
from interpreters.recording.journal.format import line_of
from interpreters.recording.request_digest import RequestDigest
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.journals import lines_of, read, record_session, rewritten
from tests.interpreters.simple_tools import multiply

# ------------------------------------------------------------------------------------------------- what is written


def test_the_fold_of_a_journal_s_inputs_is_the_live_state(tmp_path: Path) -> None:
    """The recording is the session: also its times, its reasoning, and half a surrogate pair in it."""
    path = tmp_path / "a.jsonl"
    live = record_session(path)

    with JournalReader(path) as reader:
        assert reader.header.config is not None
        engine = LLMEngine(reader.header.config)
        assert live == fold(engine, [record.input for record in reader])


def test_a_record_is_a_line_with_its_number_input_and_decisions(tmp_path: Path) -> None:
    """The format as it is documented, and a header before it."""
    path = tmp_path / "a.jsonl"
    record_session(path, turns=1, session="s1")
    header, *records = [json.loads(line) for line in lines_of(path)]

    assert list(header) == ["format", "version", "session", "engine", "config", "created", "seal", "sum"]
    assert tuple(header[name] for name in list(header)[:4]) == ("cogstep-journal", 1, "s1", "llm")
    assert [record["seq"] for record in records] == [1, 2, 3, 4]
    assert [list(record) for record in records] == [["seq", "input", "decisions", "seal", "sum"]] * 4
    expected = ["user_spoke", "model_replied", "tool_returned", "model_replied"]
    assert expected == [record["input"]["type"] for record in records]
    asked = records[0]["decisions"]
    assert [(d["type"], d["effect_id"], *d) for d in asked] == [("call_model", "1.1.0", "type", "effect_id", "digest")]


def test_a_record_stands_on_file_before_its_decisions_are_carried_out(tmp_path: Path) -> None:
    """When the model is asked, and when a tool runs, the decision to do so can be read."""
    path = tmp_path / "a.jsonl"
    seen: list[str] = []

    def last_decision() -> str:
        return str(json.loads(lines_of(path)[-1])["decisions"][-1]["type"])

    @tool(read_only=True)
    def look() -> str:
        seen.append(last_decision())
        return "ok"

    def ask(request: ModelRequest) -> Any:
        seen.append(last_decision())
        return call("look") if len(request.messages) == 1 else "done"

    with Agent(ScriptedModel([ask, ask]), tools=[look], journal=path) as agent:
        agent.run("go")

    assert seen == ["call_model", "call_tool", "call_model"]


def test_a_turn_takes_little_more_than_a_kilobyte_however_long_the_session(tmp_path: Path) -> None:
    """Requests are named, not written out: the last of 200 turns takes no more than the first ones."""
    path = tmp_path / "a.jsonl"
    replies: list[fakes.Script] = [call("multiply", a=17, b=23), "17 * 23 is 391."] * 200
    with Agent(ScriptedModel(replies, context_tokens=10**6), tools=[multiply], journal=path, fsync="never") as agent:
        for _ in range(200):
            agent.run("What is 17 * 23?")
    lengths = [len(line) for line in lines_of(path)[1:]]

    assert sum(lengths[-4:]) <= 1200
    assert sum(lengths[-4:]) - sum(lengths[:4]) <= 50, "only the numbers in it grow"


@pytest.mark.parametrize(("fsync", "expected"), [("record", 6), ("turn", 3), ("never", 0)])
def test_the_disk_is_forced_as_often_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: Any, expected: int
) -> None:
    """The header, the file's name and each record; the header, the name and each turn's end; or nothing."""
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", forced.append)
    record_session(tmp_path / "a.jsonl", turns=1, fsync=fsync)

    assert expected == len(forced)


# -------------------------------------------------------------------------------------------------------- the digest

messages = st.lists(st.builds(UserMessage, st.text(max_size=3), st.text(max_size=5)), min_size=1, max_size=80)


@given(first=messages, more=messages, dropped=st.integers(0, 30))
def test_a_digest_is_the_same_by_the_chain_and_from_nothing(
    first: list[UserMessage], more: list[UserMessage], dropped: int
) -> None:
    """Carried on from the request before or computed anew, also after old messages were dropped, or all."""
    begun = History(first)
    grown = begun.append(*more)
    sequence = [begun, grown, grown.drop(min(dropped, len(grown) - 1)), begun, History(more)]
    tools = (ToolSpec("a"),)
    chained = RequestDigest()
    for history in sequence:
        request = ModelRequest("be brief", history, tools, AgentConfig().options)
        assert RequestDigest().of(request) == chained.of(request)


@given(history=messages)
def test_a_digest_tells_requests_apart(history: list[UserMessage]) -> None:
    """Another prompt, other tools, other options, one message less, another text: another digest."""
    options = AgentConfig().options
    request = ModelRequest("a", History(history), (), options)
    changed = UserMessage(history[-1].id, history[-1].text + "!")
    others = [
        ModelRequest("b", History(history), (), options),
        ModelRequest("a", History(history), (ToolSpec("a"),), options),
        ModelRequest("a", History(history), (), type(options)(temperature=1.0)),
        ModelRequest("a", History(history[:-1]), (), options),
        ModelRequest("a", History([*history[:-1], changed]), (), options),
    ]

    assert len({RequestDigest().of(each) for each in [request, *others]}) == 6


# ------------------------------------------------------------------------------------------------------------- damage


def test_a_torn_last_record_is_left_out_with_a_warning(tmp_path: Path) -> None:
    """At every byte at which the last record can be cut, the others are read whole."""
    path, cut = tmp_path / "a.jsonl", tmp_path / "cut.jsonl"
    record_session(path)
    whole, last = b"".join(lines_of(path)[:-1]), lines_of(path)[-1]
    inputs, _ = read(path)
    for length in range(len(last)):
        cut.write_bytes(whole + last[:length])
        torn = f"{cut}, line 9: the last record is torn, as a crash leaves it, and was left out"
        expected = [torn] if length else []
        assert (inputs[:-1], expected) == read(cut)


def test_a_torn_header_says_that_nothing_was_recorded(tmp_path: Path) -> None:
    """At every byte: damaged, or so short that it can't be told from another file; never a wrong session."""
    path = tmp_path / "a.jsonl"
    record_session(path, turns=1)
    header = lines_of(path)[0]
    for length in range(len(header) - 1):
        path.write_bytes(header[:length])
        with pytest.raises((NotAJournalError, JournalDamagedError)):
            JournalReader(path)


def test_line_ends_that_were_changed_are_named(tmp_path: Path) -> None:
    """As git's ``autocrlf`` leaves a recording: whoever made it shall not look for who has forged it."""
    path = tmp_path / "a.jsonl"
    record_session(path, turns=1)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(JournalDamagedError, match="changed to CRLF, as git's autocrlf does"):
        JournalReader(path)


def damaged(path: Path, number: int, change: Any) -> None:
    lines = lines_of(path)
    lines[number - 1] = change(lines[number - 1])
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda line: line[: len(line) // 2] + b"\n", JournalDamagedError, "this is no record"),
        (lambda line: b"\0" * 20 + b"\n", JournalDamagedError, "this is no record"),
        (lambda line: b"", JournalDamagedError, "record 3 should stand here, not 4"),
        (lambda line: line + line, JournalDamagedError, "record 4 should stand here, not 3"),
        (
            lambda line: line.replace(b'"content":"0"', b'"content":"1"'),
            JournalDamagedError,
            "was changed after it was written",
        ),
        (lambda line: line.replace(b'"sum":"', b'"sum":"0'), JournalDamagedError, "was changed after it was written"),
        (lambda line: line.replace(b'"sum":', b'"som":'), JournalDamagedError, "this is no record"),
        (lambda line: line[:-1] + b" \n", JournalDamagedError, "was changed after it was written"),
    ],
    ids=["cut", "zeros", "missing", "twice", "text", "sum", "no sum", "blank"],
)
def test_damage_before_the_end_names_file_and_line(
    tmp_path: Path, change: Any, error: type[JournalError], message: str
) -> None:
    """Nothing behind it is trusted, nothing is guessed."""
    path = tmp_path / "a.jsonl"
    record_session(path)
    damaged(path, 4, change)

    with pytest.raises(error, match=message) as caught:
        read(path)
    assert path == caught.value.path
    assert caught.value.line in (4, 5)
    assert f"{path}, line {caught.value.line}: " in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "error", "message"),
    [
        ('"tool_returned"', '"tool_sang"', UnknownTagError, "no input 'tool_sang'"),
        ('"content":', '"contents":', JournalDamagedError, r"\$.content"),
        ('"decisions":[', '"decisions":{},"x":[', JournalDamagedError, "no record"),
        ('"decisions":[{"type":"call_model"', '"decisions":{"type":"call_model"', JournalDamagedError, "no list"),
    ],
    ids=["tag", "field", "keys", "list"],
)
def test_what_another_program_wrote_is_refused_where_it_is_not_ours(
    tmp_path: Path, before: str, after: str, error: type[JournalError], message: str
) -> None:
    """The sums are right, and the records are none that this version knows."""
    path = tmp_path / "a.jsonl"
    record_session(path)

    def change(number: int, data: Any) -> Any:
        if number == 4:
            text = json.dumps(data, separators=(",", ":")).replace(before, after)
            return json.loads(text if message != "no list" else text.replace("}]}", "}}"))
        return data

    rewritten(path, change)

    with pytest.raises(error, match=message) as caught:
        read(path)
    assert (path, 4) == (caught.value.path, caught.value.line)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", NotAJournalError, "empty"),
        (b"hello\n", NotAJournalError, "no cogstep journal"),
        (b'{"role":"user"}\n', NotAJournalError, "no cogstep journal"),
        (b"[1]\n", NotAJournalError, "no cogstep journal"),
        (b"\xff\xfe\0" * 50, NotAJournalError, "no cogstep journal"),
        (b'{"format":"cogstep-journal","version":2}\n', JournalVersionError, "version 2 .* reads version 1"),
        (b'{"format":"cogstep-journal","version":1}\n', JournalDamagedError, "changed after it was written"),
        (line_of({"format": "cogstep-journal", "version": 1}, 0)[0], JournalDamagedError, "'config' is missing"),
    ],
)
def test_a_file_that_is_no_journal_of_ours_says_what_it_is(
    tmp_path: Path, content: bytes, error: type[JournalError], message: str
) -> None:
    """Each case has its own error."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)

    with pytest.raises(error, match=message):
        JournalReader(path)


@pytest.mark.parametrize(("name", "message"), [("nowhere.jsonl", "no such file"), (".", "is a directory")])
def test_what_can_not_be_read_says_why(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(JournalError, match=message):
        JournalReader(tmp_path / name)

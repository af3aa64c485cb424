"""What is written is what is read: to the character, and nothing that could not be read again."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from cognition import EchoEngine, GenerationOptions, MemoryRecalled, ToolSpec, Transition
from cognition.base.strict_json import DEEPEST
from interpreters import Agent, replay, tool
from interpreters.recording.journal import Journal, JournalWriteError, strict_lines as lines
from interpreters.recording.journal.strict_lines import DIGITS, decode_line
from interpreters.testing.fakes import Reply, ScriptedModel, call
from interpreters.tools.tool import Tool
from tests.interpreters.evil import nested
from tests.interpreters.journals import read

HALVES = "\ud83d\ude00"
"""One character in two halves, as two pieces of a stream bring it: two characters to Python, and one to JSON."""

texts = st.text(st.characters() | st.sampled_from(("\ud83d", "\ude00", '"', "\\", "\n", "\u2028", "é", "\0")))


@pytest.mark.behaviour("R13a")
@given(said=texts, answer=texts, thought=texts)
@example(HALVES, HALVES, HALVES)
@example("\ud83d", HALVES + "\ud83d", "\ude00\ud83d")
@example('\\ud83d\\ude00 "é"', '\\"', "\\")
def test_every_text_is_read_as_it_was_written(said: str, answer: str, thought: str) -> None:
    """Half a character, and both halves apart: the fold is the live state, and the requests' digests are the same."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        model = ScriptedModel(
            [Reply(answer if answer.strip() else f".{answer}", reasoning=thought), "Done."], context_tokens=10**6
        )
        with Agent(model, system=said, journal=path, fsync="never", redact=None) as agent:
            agent.run(said)
            agent.run("And now?")
        assert replay(path).raise_for_divergence().state == agent.state


def test_both_halves_of_a_character_stream_into_a_recording_that_resumes(tmp_path: Path) -> None:
    """A model of bytes gives them in two pieces, and a tool's result may hold them."""
    path = tmp_path / "s.jsonl"

    @tool(read_only=True)
    def look() -> str:
        return HALVES

    with Agent(ScriptedModel([call("look"), Reply(f"It is {HALVES}.", chunk=7)]), [look], journal=path) as agent:
        agent.run("Look!")
    with Agent.resume(path, ScriptedModel(["Yes."]), [look]) as resumed:
        assert agent.state == resumed.state
        assert resumed.run("Really?").text == "Yes."


class Given(Tool[..., str]):
    """A tool with a schema of somebody else's."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.function = lambda: "done"
        self.spec = ToolSpec("theirs", "", parameters)
        self.is_async = False

    def prepare(self) -> None:
        """It is never called, so nothing has to be checked."""


@pytest.mark.parametrize(
    "given",
    [
        {"tools": [Given({"type": "object", "default": nested(DEEPEST)})]},
        {"options": GenerationOptions(seed=10**DIGITS, constrain=False)},
    ],
    ids=["nested too deeply", "a number that is too long"],
)
def test_a_header_that_could_not_be_read_is_not_written(tmp_path: Path, given: dict[str, Any]) -> None:
    """It is an error at once, and not when the session is needed."""
    given["options"] = given.get("options", GenerationOptions(constrain=False))
    with pytest.raises(JournalWriteError, match="could not be read again"):
        Agent(ScriptedModel([]), journal=tmp_path / "s.jsonl", **given)
    assert (tmp_path / "s.jsonl").read_bytes() == b""


def test_a_header_as_deep_as_it_may_be_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    tools = [Given({"type": "object", "default": nested(DEEPEST - 10)})]
    options = GenerationOptions(seed=10 ** (DIGITS - 1), constrain=False)
    with Agent(ScriptedModel(["Hi!"]), tools, options=options, journal=path) as agent:
        agent.run("Hi?")

    assert agent.config == replay(path).header.config


def test_a_record_longer_than_is_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands before it is whole, and the session goes on."""
    path = tmp_path / "s.jsonl"
    monkeypatch.setattr("interpreters.recording.journal._writer.LONGEST", 50_000)
    found = MemoryRecalled("1.1.1", ("a" * 16_000,) * 5)  # type: ignore[arg-type]  # an id is a text
    with Journal.create(path, session="s", engine=EchoEngine()) as journal:
        with pytest.raises(JournalWriteError, match=r"the record has \d+ bytes, and a line may have 50000"):
            journal.write(found, Transition(replay(path).state))
        journal.write(MemoryRecalled("1.1.1", ("a",)), Transition(replay(path).state))  # type: ignore[arg-type]
    assert len(read(path)[0]) == 1
    assert lines.LONGEST == 1 << 26


@pytest.mark.parametrize("default", [float("inf"), float("nan"), -float("inf")])
def test_a_default_that_json_has_no_form_for_is_not_shown(default: float, tmp_path: Path) -> None:
    """The tool works, and its session is recorded."""

    @tool(read_only=True)
    def cheaper(than: float = default) -> str:
        return f"{than}"

    assert cheaper.spec.parameters["properties"] == {"than": {"type": "number"}}
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel([call("cheaper"), "None."]), [cheaper], journal=path) as agent:
        assert agent.run("Anything?").calls[0].content == f"{default}"
    assert replay(path).same


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    )
)
def test_a_line_is_decoded_as_json_decodes_it(value: Any) -> None:
    """What is strict about it refuses nothing that a session writes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert decode_line(text.encode("utf-8", "surrogatepass")) == json.loads(text)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a":1}', {"a": 1}),
        (b'{"a":1}\n', {"a": 1}),
        (b' \t{"a":1} \r\n\n', {"a": 1}),  # as another program may write it
        (b'{"a":1}{"b":2}\n', None),
        (b'{"a":1}\n{"b":2}\n', None),
        (b'{"a":1},\n', None),
        (b"\n", None),
        (b"", None),
        (b"a\n", None),
    ],
)
def test_a_line_is_one_value_with_blanks_around_it(line: bytes, value: Any) -> None:
    assert decode_line(line) == value

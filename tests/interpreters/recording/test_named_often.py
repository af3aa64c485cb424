"""A large text that a recording names often is held once by whatever shows the recording."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from cognition import (
    AssistantMessage,
    GenerationOptions,
    History,
    ModelRequest,
    ProposedCall,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from interpreters import Agent, Approval, replay, tool
from interpreters.cli.main import main
from interpreters.recording.context_report import report_of
from interpreters.recording.journal import JournalReader
from interpreters.recording.journal.payloads import directory_of
from interpreters.recording.recorded_requests import RecordedRequests
from interpreters.recording.request_digest import RequestDigest
from interpreters.recording.sessions import list_sessions, read_transcript, search_sessions
from interpreters.recording.sessions.export import markdown_parts
from interpreters.testing.fakes import Reply, ScriptedModel
from tests.interpreters.journals import rewritten

TURNS = 40
LENGTH = 70_000
ROOM = 28 * LENGTH
"""What a view may need: a reader's buffer of 1 MB, and some copies for the text that it works on. Were the text held at
each of its places, there would be 40 copies more.
"""
TEXT = '{"text": "' + "words " * (LENGTH // 6) + '"}'


def note(text: str) -> str:
    """Note."""
    return "noted"


NOTES = [tool(name=f"note{n}", approval=True)(note) for n in range(5)]
"""Called one after another, so that equal arguments make no loop."""


CALLS = [ProposedCall(f"note{n % len(NOTES)}", {"text": str(n)}) for n in range(TURNS)]
IN_TURN = [one for call in CALLS for one in (Reply(calls=[call]), "Done.")]
IN_ONE_REPLY = [Reply(calls=CALLS), "Done."]


def recording(
    folder: Path,
    change: Callable[[dict[str, Any], dict[str, Any]], object],
    approve: Callable[[Any], Any] = lambda _request: True,
    context_tokens: int = 10**8,
    script: Sequence[Any] = IN_TURN,
) -> Path:
    """A recording of a turn for each two replies. ``change`` puts a reference into the data of each record."""
    path = folder / "s.jsonl"
    model = ScriptedModel(script, context_tokens=context_tokens)
    with Agent(model, NOTES, approve=approve, journal=path, fsync="never") as agent:
        for _ in script[::2]:
            agent.run("Note it!")
    name = sha256(TEXT.encode()).hexdigest()
    directory_of(path).mkdir(exist_ok=True)
    (directory_of(path) / name).write_text(TEXT)

    def refer(_number: int, data: Any) -> Any:
        if "input" in data:
            change(data, {"$payload": name})
        return data

    return rewritten(path, refer)


def in_arguments(data: dict[str, Any], large: dict[str, Any]) -> None:
    for call in data["input"].get("calls", []):
        call["arguments_json"] = large
    for decision in data["decisions"]:
        if "call" in decision:
            decision["call"]["arguments_json"] = large


def in_edited_arguments(data: dict[str, Any], large: dict[str, Any]) -> None:
    if data["input"]["type"] == "approval_given":
        data["input"]["arguments_json"] = large


def in_a_refusal(data: dict[str, Any], large: dict[str, Any]) -> None:
    if data["input"]["type"] == "approval_refused":
        data["input"]["reason"] = large


def in_messages(data: dict[str, Any], large: dict[str, Any]) -> None:
    for name in ("text", "content"):
        if name in data["input"]:
            data["input"][name] = large


PLACES: dict[str, tuple[Any, ...]] = {
    "arguments": (in_arguments,),
    "arguments of one reply": (in_arguments, lambda _request: True, 10**8, IN_ONE_REPLY),
    "messages": (in_messages,),
    "refusals": (in_a_refusal, lambda _request: Approval(False, "No."), 8_000),
}


class Counting(io.TextIOBase):
    """A place to write to that keeps nothing."""

    written = 0

    def write(self, text: str) -> int:
        self.written += len(text)
        return len(text)


def read(path: Path) -> None:
    with JournalReader(path) as reader:
        for _ in reader:
            pass


def report(path: Path) -> None:
    with RecordedRequests(path) as requests:
        for request in requests:
            report_of(request, requests.config)


def fork(path: Path) -> None:
    with (
        TemporaryDirectory() as folder,
        Agent.fork(path, ScriptedModel([], context_tokens=10**8), NOTES, journal=Path(folder, "fork.jsonl")),
    ):
        pass


def command(*arguments: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        assert main([*arguments, str(path)]) == 0

    return run


VIEWS: dict[str, Callable[[Path], object]] = {
    "read": read,
    "replay": replay,
    "list": lambda path: list(list_sessions(path)),
    "search": lambda path: list(search_sessions("words", path)),
    "transcript": read_transcript,
    "markdown": lambda path: [len(part) for part in markdown_parts(read_transcript(path))],
    "context": report,
    "fork": fork,
    "show": command("sessions", "show"),
    "export": command("sessions", "export", "--format", "json"),
    "export for OpenAI": command("sessions", "export", "--format", "openai"),
}


@pytest.fixture(scope="module", params=PLACES)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recording(tmp_path_factory.mktemp("often"), *PLACES[request.param])


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_needs_no_memory_for_each_place(
    recorded: Path, view: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", Counting())
    tracemalloc.start()
    try:
        view(recorded)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < ROOM


TEXTS = st.text(max_size=8)
SMALL_CALLS = st.lists(st.builds(ToolCall, TEXTS, TEXTS, st.just('{"a": "\u00e9\ud83d"}')), max_size=3)
MESSAGES = st.one_of(
    st.builds(UserMessage, TEXTS, TEXTS),
    st.builds(AssistantMessage, TEXTS, TEXTS, TEXTS, calls=SMALL_CALLS.map(tuple)),
    st.builds(ToolMessage, TEXTS, TEXTS, TEXTS, TEXTS),
)


@given(st.lists(MESSAGES, max_size=5), TEXTS)
@settings(max_examples=30)
def test_a_digest_in_parts_is_the_digest(messages: list[Any], system: str) -> None:
    """Recordings hold digests, which have to stay as they are."""
    tools = (ToolSpec("look", system, {"type": "object", "properties": {}}),)
    request = ModelRequest(system, History(messages), tools, GenerationOptions(temperature=0.5))

    whole = RequestDigest().of(request)
    with mock.patch("interpreters.recording.request_digest.LARGE", -1):
        parts = RequestDigest().of(request)

    assert parts == whole


def test_a_note_about_a_large_text_is_cut_in_the_middle(tmp_path: Path) -> None:
    path = recording(tmp_path, in_edited_arguments)

    turns = read_transcript(path).turns
    notes = [entry.note for turn in turns for entry in turn.entries if entry.note.startswith("The user allowed")]

    assert len(notes) == TURNS
    assert {one[:29] for one in notes} == {f"The user allowed `{one.spec.name}` with" for one in NOTES}
    assert {one.endswith('words "}`.') and "characters left out ...]" in one for one in notes} == {True}
    assert max(map(len, notes)) < 2100

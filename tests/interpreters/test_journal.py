"""The journal: what stands on file when, what is left after damage, and who may write."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    CogstepError,
    EchoEngine,
    History,
    Input,
    LLMEngine,
    ModelRequest,
    ToolSpec,
    Transition,
    TurnFinished,
    UserMessage,
    UserSpoke,
    fold,
)
from interpreters import Agent, fakes, replay, tool
from interpreters.digest import RequestDigest
from interpreters.fakes import Reply, ScriptedModel, call
from interpreters.journal import (
    Journal,
    JournalDamagedError,
    JournalError,
    JournalExistsError,
    JournalLockedError,
    JournalReader,
    JournalVersionError,
    JournalWriteError,
    NotAJournalError,
    UnknownTagError,
)
from interpreters.journal.format import sealed
from tests.interpreters.journals import rewritten

ROOT = Path(__file__).resolve().parents[2]


@tool(read_only=True)
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


def record_session(path: Path, turns: int = 2, **options: Any) -> AgentState:
    """A recorded session of so many turns, each with one call; its last state."""
    replies: list[fakes.Script] = []
    for turn in range(turns):
        replies += [call("multiply", a=turn, b=23), Reply(f"It is {turn * 23}.", reasoning="Easy. \ud83d")]
    with Agent(ScriptedModel(replies), tools=[multiply], system="Be brief.", journal=path, **options) as agent:
        for turn in range(turns):
            agent.run(f"What is {turn} * 23? «é»")
        return agent.state


def read(path: Path) -> tuple[list[Input], list[str]]:
    with JournalReader(path) as reader:
        return [record.input for record in reader], reader.warnings


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


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

    assert list(header) == ["format", "version", "session", "engine", "config", "created", "sum"]
    assert tuple(header[name] for name in list(header)[:4]) == ("cogstep-journal", 1, "s1", "llm")
    assert [record["seq"] for record in records] == [1, 2, 3, 4]
    assert [list(record) for record in records] == [["seq", "input", "decisions", "sum"]] * 4
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


def test_a_turn_takes_a_kilobyte_however_long_the_session(tmp_path: Path) -> None:
    """Requests are named, not written out: the last of 200 turns takes no more than the first ones."""
    path = tmp_path / "a.jsonl"
    replies: list[fakes.Script] = [call("multiply", a=17, b=23), "17 * 23 is 391."] * 200
    with Agent(ScriptedModel(replies, context_tokens=10**6), tools=[multiply], journal=path, fsync="never") as agent:
        for _ in range(200):
            agent.run("What is 17 * 23?")
    lengths = [len(line) for line in lines_of(path)[1:]]

    assert sum(lengths[-4:]) <= 1024
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
        (sealed({"format": "cogstep-journal", "version": 1}, 0)[0], JournalDamagedError, "'config' is missing"),
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


@pytest.mark.parametrize(("name", "message"), [("nowhere.jsonl", "no such file"), (".", "Is a directory")])
def test_what_can_not_be_read_says_why(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(JournalError, match=message):
        JournalReader(tmp_path / name)


# ------------------------------------------------------------------------------------------------------- the writing


def test_a_recording_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("dear diary")

    with pytest.raises(JournalExistsError, match="choose another name"):
        Agent(ScriptedModel([]), journal=path)
    assert path.read_text() == "dear diary"


@pytest.mark.parametrize("place", ["missing/a.jsonl", "."])
def test_a_place_that_can_not_be_written_says_so(tmp_path: Path, place: str) -> None:
    with pytest.raises(JournalWriteError, match="choose another place"):
        Agent(ScriptedModel([]), journal=tmp_path / place)


def test_a_journal_has_one_writer(tmp_path: Path) -> None:
    """A second one is refused while the first one is open, whatever it has written, and in whatever process."""
    path = tmp_path / "a.jsonl"
    with (
        Journal.create(path, session="s1", engine=EchoEngine()),
        pytest.raises(JournalLockedError, match="another session"),
    ):
        Journal.create(path, session="s2", engine=EchoEngine())


def test_a_crash_releases_the_lock(tmp_path: Path) -> None:
    """A killed process leaves its records and no lock: what it had put on file is read."""
    path = tmp_path / "a.jsonl"
    script = f"""
import os, signal
from interpreters import Agent, fakes
def die(request):
    os.kill(os.getpid(), signal.SIGKILL)
agent = Agent(fakes.ScriptedModel(["Hello!", die]), journal={str(path)!r})
agent.run("Hi!")
agent.run("Die!")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)

    assert done.returncode == -signal.SIGKILL
    inputs, warnings = read(path)
    assert ([type(i).__name__ for i in inputs], warnings) == (["UserSpoke", "ModelReplied", "UserSpoke"], [])
    with pytest.raises(JournalExistsError):
        Journal.create(path, session="s2", engine=EchoEngine())


HOLDING = """
import sys
from interpreters import Agent, fakes
agent = Agent.resume(sys.argv[1], fakes.ScriptedModel(["Hello!"]))
print("open", flush=True)
sys.stdin.read()
"""


def test_two_processes_never_write_one_journal(tmp_path: Path) -> None:
    """While one holds it another is refused at once, whether it begins, resumes or wants to delete; reading is free.
    When the first is killed, nothing has to be cleaned up.
    """
    path = tmp_path / "a.jsonl"
    with Agent(ScriptedModel(["Hi!"]), journal=path) as agent:
        agent.run("Hi?")
    command = [sys.executable, "-c", HOLDING, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(JournalLockedError, match="another session is writing this journal"):
            Agent.resume(path, ScriptedModel([]))
        with pytest.raises(JournalLockedError, match="another session is being recorded here"):
            Agent(ScriptedModel([]), journal=path)
        second = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        assert (second.returncode, "JournalLockedError" in second.stderr) == (1, True)
        assert replay(path).turns == 1
        holder.send_signal(signal.SIGKILL)
    with Agent.resume(path, ScriptedModel(["Hello again!"])) as agent:
        assert agent.run("Hi?").text == "Hello again!"


def test_a_journal_that_was_deleted_while_it_was_opened_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records would go to a file without a name."""
    path = tmp_path / "a.jsonl"
    record_session(path)
    open_file = os.open

    def late(*arguments: Any) -> int:
        descriptor = open_file(*arguments)
        path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(JournalError, match="the file was deleted"):
        Journal.reopen(path)


class FullDisk:
    """``os.write`` of a disk with so many bytes left: it takes what fits and fails then, as disks do."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.write = os.write

    def __call__(self, descriptor: int, data: bytes) -> int:
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self.write(descriptor, data[: self.left])
        self.left -= written
        return written


NO_ROOM = r"No space left on device.*everything before it is kept"


@pytest.mark.parametrize("left", [0, 1, 100, 400])
def test_a_full_disk_loses_nothing_and_the_session_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """The run raises, nothing of the unwritten record is carried out, and the file ends with a whole record."""
    path = tmp_path / "a.jsonl"
    with Agent(ScriptedModel(["Hello!", "Hello again!"]), journal=path) as agent:
        agent.run("Hi!")
        before, written = agent.state, path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", FullDisk(left))
            with pytest.raises(JournalWriteError, match=NO_ROOM):
                agent.run("Hi again! " * 50)
        assert (before, written) == (agent.state, path.read_bytes())
        assert agent.run("Is there room?").text == "Hello again!"
        assert agent.state == replay(path).raise_for_divergence().state


def test_a_disk_that_fills_up_in_a_turn_leaves_a_turn_that_can_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply can't be written, so that it never happened; once there is room the open turn ends as cancelled."""
    path = tmp_path / "a.jsonl"

    with monkeypatch.context() as patch:

        def fill(request: ModelRequest) -> str:
            patch.setattr(os, "write", FullDisk(10))
            return "This is not on file."

        agent = Agent(ScriptedModel([fill, "There is."]), journal=path)
        with pytest.raises(JournalWriteError, match=NO_ROOM):
            agent.run("Hi!")
        with pytest.raises(JournalWriteError, match=NO_ROOM):
            agent.run("Is there room?")
    assert agent.run("Is there room now?").text == "There is."
    agent.close()

    report = replay(path).raise_for_divergence()
    assert agent.state == report.state
    assert [type(event).__name__ for event in read(path)[0]] == [
        "UserSpoke",
        "CancelAsked",
        "UserSpoke",
        "ModelReplied",
    ]


@pytest.mark.parametrize("place", range(12))
def test_an_interrupt_while_writing_leaves_journal_and_session_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Ctrl-C before, in and after the system calls of each record: whatever stands on file is what has happened."""
    path, calls = tmp_path / "a.jsonl", 0

    def interrupted(call: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == place:
            raise KeyboardInterrupt
        result = call(*arguments)
        if calls == place - 1 and call is not fstat:
            calls += 1
            raise KeyboardInterrupt
        return result

    fstat, write = os.fstat, os.write
    agent = Agent(ScriptedModel(repeat("Hello!")), journal=path, fsync="never")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", partial(interrupted, fstat))
        patch.setattr(os, "write", partial(interrupted, write))
        with contextlib.suppress(KeyboardInterrupt):
            for _ in range(3):
                agent.run("Hi!")
    assert agent.run("Hi again!").text == "Hello!"
    agent.close()

    report = replay(path).raise_for_divergence()
    assert (agent.state, ()) == (report.state, report.warnings)


def test_an_interrupt_right_behind_the_writing_counts_as_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record stands on file for good, so that the session has to stand there too."""
    path, write = tmp_path / "a.jsonl", Journal.write
    agent = Agent(ScriptedModel(["Hello!"]), journal=path, fsync="never")

    def interrupted(journal: Journal, event: Input, transition: Transition, redacted: Any) -> None:
        write(journal, event, transition, redacted)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.run("Hi!")
    assert agent.run("Hi again!").text == "Hello!"
    agent.close()

    report = replay(path).raise_for_divergence()
    assert (agent.state, ()) == (report.state, report.warnings)


def test_a_journal_that_was_closed_says_so(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "a.jsonl", session="s1", engine=EchoEngine())
    journal.close()
    journal.close()

    with pytest.raises(JournalWriteError, match="closed"):
        journal.write(*step("hi"))


def test_what_json_has_no_form_for_is_not_written(tmp_path: Path) -> None:
    """Not-a-number would be read back by nobody else."""
    with Journal.create(tmp_path / "a.jsonl", session="s1", engine=EchoEngine()) as journal:
        event, transition = step("hi")
        with pytest.raises(JournalWriteError, match="no form in JSON"):
            journal.write(UserSpoke("hi", at=float("nan")), transition)
        journal.write(event, transition)

    assert len(read(tmp_path / "a.jsonl")[0]) == 1
    assert isinstance(transition.decisions[-1], TurnFinished)


def step(text: str) -> tuple[UserSpoke, Transition]:
    event = UserSpoke(text)
    return event, EchoEngine().step(AgentState(), event)


def test_errors_of_journals_are_ours() -> None:
    """One ``except`` catches them all."""
    kinds = [NotAJournalError, JournalVersionError, JournalDamagedError, UnknownTagError, JournalWriteError]

    assert all(issubclass(kind, JournalError) and issubclass(kind, CogstepError) for kind in kinds)

"""Large texts of a journal: files of their own, there before the record that names them, and found out when damaged."""

from __future__ import annotations

import errno
import json
import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from interpreters import Agent, rehearse, replay, tool
from interpreters.recording.journal import JournalDamagedError, JournalReader, JournalWriteError
from interpreters.recording.journal.payloads import LARGE, directory_of
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.journals import rewritten

PAGE = 'A "long" page. \ud83d é\n' * (LARGE // 10)
SYSTEM = "Be brief. " * (LARGE // 5)


@tool(read_only=True)
def read() -> str:
    """Read a page."""
    return PAGE


def record_session(path: Path, *, turns: int = 2, **options: Any) -> Agent:
    """Each turn reads the page."""
    script = [call("read"), "Read."] * turns
    with Agent(ScriptedModel(script, context_tokens=10**6), [read], SYSTEM, journal=path, **options) as agent:
        for _ in range(turns):
            agent.run("Read it!")
    return agent


def files_of(path: Path) -> list[Path]:
    return sorted(directory_of(path).iterdir())


def test_a_large_text_stands_once_in_a_file_of_its_own(tmp_path: Path) -> None:
    """Named by what is in it; the lines stay short, and the session is the same."""
    path = tmp_path / "s.jsonl"
    agent = record_session(path)

    contents = {file.name: file.read_bytes() for file in files_of(path)}
    assert {sha256(content).hexdigest(): content for content in contents.values()} == contents
    assert sorted(contents.values()) == sorted([PAGE.encode("utf-8", "surrogatepass"), SYSTEM.encode()])
    assert max(map(len, path.read_bytes().splitlines())) < 1000
    assert agent.state == replay(path).raise_for_divergence().state
    with JournalReader(path) as reader:
        assert reader.header.config == agent.config
        assert [getattr(record.input, "content", "") for record in reader][2] == PAGE


def test_a_session_and_a_reader_may_go_to_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a tool does that calls ``os.chdir``: large texts came to be where the program was by then, and were lost."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    with Agent(ScriptedModel(["Yes."], context_tokens=10**6), journal="s.jsonl") as agent:
        os.chdir(elsewhere)
        agent.run(PAGE)
    assert list(elsewhere.iterdir()) == []

    os.chdir(tmp_path)
    with JournalReader("s.jsonl") as reader:
        os.chdir(elsewhere)
        assert [getattr(record.input, "text", "") for record in reader] == [PAGE, "Yes."]


def test_a_text_below_the_threshold_stands_in_the_line(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel(["a" * (LARGE - 1)], context_tokens=10**6), journal=path) as agent:
        agent.run("\n" * (LARGE - 1))

    assert not directory_of(path).exists()
    assert agent.state == replay(path).raise_for_divergence().state


def test_resume_rehearse_and_fork_read_them(tmp_path: Path) -> None:
    """A fork has files of its own: the recording that it comes from may go."""
    path, other = tmp_path / "s.jsonl", tmp_path / "f.jsonl"
    agent = record_session(path)
    model = ScriptedModel([call("read"), "Read."], context_tokens=10**6)
    with Agent.resume(path, model, [read]) as resumed:
        assert agent.state == resumed.state
        resumed.run("Read it!")
    with Agent.fork(path, ScriptedModel(["Again."], context_tokens=10**6), [read], turn=1, journal=other) as fork:
        fork.run("Again!")
    assert rehearse(path, [read]).same
    state = replay(path).raise_for_divergence().state
    path.unlink()
    for file in files_of(path):
        file.unlink()

    assert resumed.state == state
    assert replay(other).raise_for_divergence().state == fork.state


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "was changed"),
        (lambda file: file.write_bytes(b""), "was changed"),
    ],
    ids=["missing", "shorter", "empty"],
)
def test_a_damaged_payload_is_an_error_that_names_record_and_file(tmp_path: Path, damage: Any, message: str) -> None:
    path = tmp_path / "s.jsonl"
    record_session(path)
    (page,) = (file for file in files_of(path) if file.read_bytes().startswith(b"A "))
    (system,) = (file for file in files_of(path) if file != page)

    damage(page)
    with pytest.raises(JournalDamagedError, match=f"payload {page} {message}") as caught:
        replay(path)
    assert (4, path) == (caught.value.line, caught.value.path)
    damage(system)
    with pytest.raises(JournalDamagedError, match=f"header is damaged: the payload {system} {message}") as caught:
        replay(path)
    assert caught.value.line == 1


def test_a_name_that_is_none_is_no_path(tmp_path: Path) -> None:
    """A journal from somebody else must not make anybody read another file."""
    path = tmp_path / "s.jsonl"
    record_session(path)

    def elsewhere(number: int, data: Any) -> Any:
        return json.loads(json.dumps(data).replace('{"$payload": "', '{"$payload": "../'))

    rewritten(path, elsewhere)
    with pytest.raises(JournalDamagedError, match="is no name of a payload"):
        replay(path)


def test_what_a_user_writes_is_never_taken_for_a_reference(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    texts = ['{"$payload":"' + "a" * 64 + '"}', '"$payload"', "{'$payload': 1}" + "x" * LARGE]
    with Agent(ScriptedModel(texts, context_tokens=10**6), journal=path) as agent:
        for text in texts:
            agent.run(text)

    assert agent.state == replay(path).raise_for_divergence().state


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says which file a descriptor is of")
@pytest.mark.parametrize("fsync", ["record", "turn", "never"])
def test_it_is_on_the_disk_before_the_record_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: Any
) -> None:
    """The file, then its name, then the record; all of it before the line is written."""
    path = tmp_path / "s.jsonl"
    done: list[str] = []
    write, sync, replace = os.write, os.fsync, os.replace

    def name(descriptor: int) -> str:
        return os.readlink(f"/proc/self/fd/{descriptor}").removeprefix(f"{tmp_path}").strip("/")[:18]

    monkeypatch.setattr(os, "write", lambda d, data: (done.append(f"write {name(d)}"), write(d, data))[1])
    monkeypatch.setattr(os, "fsync", lambda d: (done.append(f"force {name(d)}"), sync(d))[1])
    monkeypatch.setattr(os, "replace", lambda a, b, **at: (done.append("rename"), replace(a, b, **at))[1])
    with Agent(ScriptedModel(["Long."], context_tokens=10**6), journal=path, fsync=fsync) as agent:
        done.clear()
        agent.run("a" * LARGE)

    place = "s.jsonl.payloads/"
    first = [step.removesuffix(name) for step in done for name in [step.partition(place)[2]]]
    expected = [f"write {place}", f"force {place}", "rename", "force s.jsonl.payloads", "force ", "write s.jsonl"]
    if fsync == "never":
        expected = [step for step in expected if not step.startswith("force")]
    assert expected == first[: len(expected)]


def test_a_crash_between_file_and_record_does_no_harm(tmp_path: Path) -> None:
    """Whole or torn, what nobody names is passed over, and written again where it is needed."""
    path = tmp_path / "s.jsonl"
    record_session(path, turns=1)
    files = files_of(path)
    (page,) = (file for file in files if file.read_bytes().startswith(b"A "))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    page.rename(page.with_name(f"{page.name}.part"))
    page.write_bytes(b"torn")

    model = ScriptedModel(["Read."], context_tokens=10**6)
    with Agent.resume(path, model, [read]) as agent:
        assert agent.resume_turn().calls[0].content == PAGE
    assert replay(path).raise_for_divergence().state == agent.state
    assert files == files_of(path)


def test_a_disk_without_room_for_it_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn raises, the record is not written, and the session goes on when there is room."""
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel(["Hello!", "Long."], context_tokens=10**6), journal=path) as agent:
        agent.run("Hi!")
        written = path.read_bytes()
        with monkeypatch.context() as patch:

            def full(descriptor: int, data: bytes) -> int:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(os, "write", full)
            with pytest.raises(JournalWriteError, match="No space left"):
                agent.run("a" * LARGE)
        assert written == path.read_bytes()
        assert agent.run("a" * LARGE).text == "Long."
    assert agent.state == replay(path).raise_for_divergence().state

"""Looking at sessions that are being written: it never disturbs their writer, and never calls a whole recording bad."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interpreters import Agent
from interpreters.recording.journal import Journal, JournalReader, content_files as contents
from interpreters.recording.journal.locking import LockedFile
from interpreters.recording.journal.payloads import LARGE, directory_of
from interpreters.recording.sessions import BadFile, SessionInfo, list_sessions, prune_sessions, search_sessions
from interpreters.testing.fakes import ScriptedModel
from tests.interpreters.journals import record_session, small

ROOT = Path(__file__).resolve().parents[3]


def write_sessions(folder: Path) -> None:
    """Begin, close and take up again; each turn with a large text of its own."""
    for number in range(8):
        path = folder / f"{number}.jsonl"
        with Agent(ScriptedModel([f"{number}" * LARGE], context_tokens=10**6), journal=path, fsync="never") as agent:
            agent.run("Write!")
        for again in range(6):
            answer = f"{number} {again} " * LARGE
            model = ScriptedModel([answer], context_tokens=10**6)
            with Agent.resume(path, model, fsync="never") as agent:
                agent.run("And again!")


@contextmanager
def running(*works: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Do these again and again on threads of their own; what they raised."""
    stop, failed = threading.Event(), list[BaseException]()

    def repeat(work: Callable[[], object]) -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield failed
    finally:
        stop.set()
        for thread in threads:
            thread.join()


WATCHING = """
import select, sys
from interpreters.recording.sessions import list_sessions
print("ready", flush=True)
bad = set()
while not select.select([sys.stdin], [], [], 0)[0]:
    for one in list_sessions(sys.argv[1]):
        if getattr(one, "reason", "") or one.damage or one.warnings:
            bad.add(str(one))
print(bad or "good")
"""


@pytest.mark.slow
@pytest.mark.behaviour("R13c")
def test_listing_beside_a_writer_disturbs_nobody(tmp_path: Path) -> None:
    """Two threads and two processes list in a loop; each creation and each reopening has its lock, and all is whole."""
    found: list[Any] = []

    def look() -> None:
        for one in list_sessions(tmp_path):
            if isinstance(one, BadFile) or one.damage or one.warnings:
                found.append(one)

    def look_otherwise() -> None:
        found.extend(one for one in search_sessions("Write", tmp_path) if isinstance(one, BadFile))
        list(prune_sessions(tmp_path, keep=10**6))

    watchers = [
        subprocess.Popen(
            [sys.executable, "-c", WATCHING, str(tmp_path)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    said = []
    try:
        for watcher in watchers:
            assert watcher.stdout is not None
            assert watcher.stdout.readline() == "ready\n"
        with running(look, look_otherwise) as failed:
            write_sessions(tmp_path)
    finally:
        for watcher in watchers:
            said.append(watcher.communicate("stop\n")[0])

    assert (failed, found, said) == ([], [], ["good\n"] * 2)
    assert [one.turns for one in list_sessions(tmp_path) if isinstance(one, SessionInfo)] == [7] * 8


@pytest.mark.behaviour("R13c")
def test_a_lock_that_others_only_look_at_is_got(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often somebody looks at the very moment; whoever has it for himself is told of at once."""
    path = small(tmp_path / "s.jsonl")
    looker = os.open(path, os.O_RDONLY)
    tries = 0
    real = fcntl.flock

    def flock(descriptor: int, how: int) -> None:
        nonlocal tries
        if how == fcntl.LOCK_EX | fcntl.LOCK_NB:
            tries += 1
            real(looker, fcntl.LOCK_UN if tries > 20 else fcntl.LOCK_SH)
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    try:
        Agent.resume(path, ScriptedModel([])).close()
    finally:
        os.close(looker)
    assert tries == 21


def test_payloads_that_get_their_names_meanwhile_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at a directory and the look at what lies there, a session goes on."""
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel(["a" * LARGE], context_tokens=10**6), journal=path) as agent:
        agent.run("Write!")
    real = os.scandir

    class Gone:
        def stat(self, **_: Any) -> Any:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    @contextmanager
    def scandir(place: Any) -> Iterator[Any]:
        with real(place) as entries:
            yield [*entries, Gone()]

    monkeypatch.setattr(contents.os, "scandir", scandir)
    (info,) = list_sessions(path)
    assert isinstance(info, SessionInfo)
    assert info.bytes == path.stat().st_size + LARGE


@pytest.mark.parametrize("beside", ["a file", "nothing that may be read"])
def test_a_recording_is_whole_whatever_lies_where_its_large_texts_would(tmp_path: Path, beside: str) -> None:
    """It has none, and says so."""
    path = small(tmp_path / "s.jsonl")
    if beside == "a file":
        directory_of(path).write_text("?")
    else:
        directory_of(path).mkdir(mode=0)

    (info,) = list_sessions(path)
    assert isinstance(info, SessionInfo)
    assert info.bytes == path.stat().st_size


def test_a_file_that_is_deleted_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        small(tmp_path / f"{name}.jsonl")
    listing = list_sessions(tmp_path)
    names = [next(listing).path.name]
    (tmp_path / "b.jsonl").unlink()

    assert [*names, *(one.path.name for one in listing)] == ["a.jsonl", "c.jsonl"]


def test_a_session_that_is_about_to_begin_is_no_bad_file(tmp_path: Path) -> None:
    """Its file is there and locked, and its first line is not, or half of it; one that nobody writes is a bad file."""
    path = tmp_path / "s.jsonl"
    whole = small(tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)[0]
    for content in (b"", whole[:50]):
        path.write_bytes(b"")
        journal = locked(path)
        path.write_bytes(content)
        assert list(list_sessions(path)) == []
        assert list(search_sessions("x", path)) == []
        journal.close()
        assert [type(one) for one in list_sessions(path)] == [BadFile]


def locked(path: Path) -> LockedFile:
    file = LockedFile(path, os.O_WRONLY)
    assert file.lock()
    return file


def test_a_record_that_is_being_written_is_not_called_torn(tmp_path: Path) -> None:
    """What a crash left is; what a session is about to finish is not."""
    path = small(tmp_path / "s.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    (torn,) = list_sessions(path)
    journal, reader = Journal.reopen(path)
    with journal, reader:
        (open_one,) = list_sessions(path)

    assert isinstance(torn, SessionInfo)
    assert isinstance(open_one, SessionInfo)
    assert (open_one.status, open_one.warnings) == ("open", ())
    assert len(torn.warnings) == 1


def test_a_record_that_becomes_whole_while_it_is_read_is_read_whole(tmp_path: Path) -> None:
    """A reader may see half of a write, and of one that an interrupt halved and that was put right."""
    path = tmp_path / "s.jsonl"
    record_session(path)
    whole = path.read_bytes()
    inputs = len(whole.splitlines()) - 1
    for half in (whole[:-30], whole[:-30] + b"what an interrupt left behind, which is longer than the record was"):
        path.write_bytes(half)
        with JournalReader(path) as reader:
            records = iter(reader)
            first = [next(records) for _ in range(inputs - 1)]
            path.write_bytes(whole)
            assert inputs == len([*first, *records])
            assert reader.warnings == []

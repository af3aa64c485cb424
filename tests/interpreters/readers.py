"""Everything that reads a recording, each as a function of its path."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interpreters import Agent, rehearse, replay
from interpreters.cli.main import main
from interpreters.recording.context_report import report_of
from interpreters.recording.journal import JournalReader
from interpreters.recording.recorded_requests import RecordedRequests
from interpreters.recording.sessions import (
    list_sessions,
    prune_sessions,
    read_transcript,
    search_sessions,
    transcript_to_data,
    transcript_to_markdown,
    transcript_to_openai,
)
from interpreters.testing.contracts import calls_of
from interpreters.testing.fakes import ScriptedModel
from tests.interpreters.evil import TOOLS, options
from tests.interpreters.hostile_text import CONTROLS


def read(path: Path) -> None:
    with JournalReader(path) as reader:
        list(reader)


def fold_again(path: Path) -> None:
    str(replay(path).divergence)


def run_tools_again(path: Path) -> None:
    list(map(str, rehearse(path, TOOLS).differences))


def resume(path: Path) -> None:
    """And go on: what was read must be fit to work with."""
    before = path.read_bytes() if path.is_file() else None
    try:
        with Agent.resume(
            path, ScriptedModel(iter(lambda: "Well.", None), context_tokens=10**6), TOOLS, **options()
        ) as agent:
            if agent.unfinished:
                agent.resume_turn()
            agent.run("And now?")
        replay(path).raise_for_divergence()
    finally:
        if before is not None:
            path.write_bytes(before)


def fork(path: Path) -> None:
    with Agent.fork(path, ScriptedModel(["Well."], context_tokens=10**6), TOOLS, **options()) as agent:
        agent.run("And now?")


def list_them(path: Path) -> None:
    list(list_sessions(path))


def export(path: Path) -> None:
    transcript = read_transcript(path)
    json.dumps(transcript_to_data(transcript), allow_nan=False)
    transcript_to_markdown(transcript)
    json.dumps(transcript_to_openai(transcript, reasoning=True), allow_nan=False)


def look_for_a_text(path: Path) -> None:
    list(search_sessions("e", path))
    list(search_sessions("[a-z]", path, regex=True))


def clear_up(path: Path) -> None:
    list(prune_sessions(path, keep=0, older=0.0, size=0, dry_run=True))


def report_every_request(path: Path) -> None:
    with RecordedRequests(path) as requests:
        for request in requests:
            report_of(request, requests.config)


def hold_to_a_contract(path: Path) -> None:
    calls_of(path)


def command(*arguments: str) -> Callable[[Path], None]:
    """A command, which says in one line what is wrong, never shows a traceback, and gives a terminal no orders."""

    def run(path: Path) -> None:
        said, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            code = main([one.format(path=path) for one in arguments])
        assert code in (0, 1, 2), (code, complained.getvalue())
        assert "Traceback" not in complained.getvalue()
        assert len(complained.getvalue()) < 3000
        assert not CONTROLS.search(said.getvalue() + complained.getvalue())

    run.__name__ = "cogstep " + " ".join(arguments[:2])
    return run


LIBRARY: list[Callable[[Path], None]] = [
    read,
    fold_again,
    run_tools_again,
    resume,
    fork,
    list_them,
    export,
    look_for_a_text,
    clear_up,
    report_every_request,
    hold_to_a_contract,
]
COMMANDS = [
    command("replay", "{path}"),
    command("replay", "{path}", "--json"),
    command("replay", "{path}", "--to", "2"),
    command("context", "{path}"),
    command("context", "{path}", "--json"),
    command("context", "{path}", "--step", "last"),
    command("context", "{path}", "--step", "last", "--prompt", "--json"),
    command("context", "{path}", "--diff", "1", "last"),
    command("rehearse", "{path}"),
    command("rehearse", "{path}", "--json"),
    command("sessions", "list", "{path}"),
    command("sessions", "list", "{path}", "--json"),
    command("sessions", "show", "{path}"),
    command("sessions", "search", "e", "{path}"),
    command("sessions", "export", "{path}", "--format", "openai"),
    command("sessions", "export", "{path}", "--format", "json"),
    command("sessions", "prune", "{path}", "--keep", "0", "--dry-run"),
]
EVERY: list[Any] = [*LIBRARY, *COMMANDS]

"""What goes wrong is told to the server without secrets: it keeps that, and shows it to whoever asks what runs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from restate import TerminalError
from restate.exceptions import RetryableError

from cognition import CogstepError
from interpreters.durable.definition import DurableAgent
from interpreters.durable.restate._context import to_server_error
from interpreters.durable.restate.sessions import RestateSessions
from interpreters.recording.redaction import Redaction
from interpreters.testing.fakes import FunctionModel
from tests.interpreters.durable.restate_rig import MISSING, free_port, running_server, server_program

KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
WORD = "correct-horse-battery"
PATIENCE = 30.0


def agent_of(load: Any) -> DurableAgent:
    return DurableAgent("secretive", load, redact=Redaction(secrets={"WORD": WORD}))


@pytest.mark.parametrize(
    ("error", "kind"),
    [(CogstepError(f"no {KEY}, {WORD}"), TerminalError), (RuntimeError(f"no {KEY}, {WORD}"), RetryableError),
     (OSError(f"no {KEY}, {WORD}"), RetryableError)],
)  # fmt: skip
def test_an_error_is_told_without_secrets(error: Exception, kind: type[Exception]) -> None:
    made = to_server_error(error, agent_of(FunctionModel(lambda _: "Hello.")).hide)

    assert isinstance(made, kind)
    assert made.message == f"{type(error).__name__}: no [redacted:api_key:1], [redacted:WORD]"


@pytest.mark.skipif(server_program() is None, reason=MISSING)
def test_the_server_shows_no_secret_of_a_run_that_is_attempted_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def load() -> Any:
        try:
            raise OSError(f"no model with {KEY}")
        except OSError as error:
            raise RuntimeError(f"nor with {WORD}") from error

    def failures() -> str:
        statement = "SELECT last_failure FROM sys_invocation WHERE last_failure IS NOT NULL"
        asked = Request(f"{server.admin}/query", json.dumps({"query": statement}).encode(), headers)
        with urlopen(asked, timeout=PATIENCE) as answer:
            return str(answer.read(), "utf-8")

    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    with running_server(tmp_path / "restate") as server:
        sessions = RestateSessions(
            agent_of(load), f"sqlite:///{tmp_path}/sessions.db", ingress=server.ingress, admin=server.admin
        )
        with sessions.worker(f"http://127.0.0.1:{free_port()}"):
            sessions.send("ada", "Hi!")
            ends = time.monotonic() + PATIENCE
            while "nor with" not in (said := failures()):
                assert time.monotonic() < ends, said
                time.sleep(0.05)

    assert "RuntimeError: nor with [redacted:WORD]" in said
    assert KEY not in said
    assert WORD not in said
    sdks = [one for one in caplog.records if one.name.startswith("restate")]
    assert {one.exc_info for one in sdks} == {None}
    assert "a run on Restate is attempted again: (500) RuntimeError: nor with [redacted:WORD]" in caplog.text

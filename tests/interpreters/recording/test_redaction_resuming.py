"""What a resumed or forked session knows of the secrets that its recording does not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cognition import (
    ConfigError,
    ModelRequest,
)
from interpreters import Agent, replay, tool
from interpreters.loop.driver import SECRET_LOST
from interpreters.recording.redaction import Redaction
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.secrets import KEY, TOKEN


@tool(idempotent=True)
def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


@tool(idempotent=True)
def special(text: str) -> str:
    """Do something."""
    return "done"


def crash_at(path: Path, lines: int) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))


def texts_of(request: ModelRequest) -> list[str]:
    return [getattr(m, "text", "") or getattr(m, "content", "") for m in request.messages]


def test_after_a_crash_placeholders_are_left_and_secrets_with_names_come_back(tmp_path: Path) -> None:
    """A call that needs what is lost does not run; new placeholders have new numbers."""
    path = tmp_path / "s.jsonl"
    known = Redaction({"DB": "hunter2"})
    script = [[call("note", text=f"key {KEY}"), call("note", text="db hunter2")], "Done."]
    with Agent(
        ScriptedModel(script), [note], f"Use hunter2, never {TOKEN}.", journal=path, redact=known, session="s"
    ) as agent:
        agent.run(f"Note {KEY}!")
    crash_at(path, 3)  # both calls are decided, and nothing of them is known

    model = ScriptedModel(["Noted.", "Yes."])
    with Agent.resume(path, model, [note], redact=known) as agent:
        result = agent.resume_turn()
        agent.run(f"And {TOKEN}, or [redacted:api_key:1]?")

    assert [(call.status, call.content) for call in result.calls] == [
        ("error", f"Error: {SECRET_LOST}"),
        ("ok", "noted db hunter2"),
    ]
    assert model.requests[0].system == "Use hunter2, never [redacted:api_key:1]."
    assert texts_of(model.requests[0])[0] == "Note [redacted:api_key:2]!"
    assert texts_of(model.requests[1])[-1] == f"And {TOKEN}, or [redacted:api_key:1]?"
    content = path.read_text()
    assert "And [redacted:api_key:3], or [redacted:literal:4]?" in content
    assert [secret for secret in (KEY, TOKEN, "hunter2") if secret in content] == []
    assert replay(path).same


def test_a_session_is_resumed_without_redaction_too(tmp_path: Path) -> None:
    """Then new secrets are recorded, and what is lost still doesn't run."""
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel([call("note", text=KEY), "Done."]), [note], journal=path) as agent:
        agent.run(f"Note {KEY}!")
    crash_at(path, 3)

    with Agent.resume(path, ScriptedModel(["Sorry.", "Yes."]), [note], redact=None) as agent:
        assert agent.resume_turn().calls[0].status == "error"
        agent.run(KEY)
    assert KEY in path.read_text()
    assert replay(path).same


def test_tools_are_known_again_by_what_was_left_of_them(tmp_path: Path) -> None:
    """A secret in a tool's description is hidden like any other."""

    def with_text(text: str) -> Any:
        def fetch(url: str) -> str:
            return ""

        fetch.__doc__ = text
        return tool(fetch)

    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel(["Hi."]), [with_text(f"Uses {KEY}.")], journal=path) as agent:
        agent.run("Hi!")

    assert KEY not in path.read_text()
    Agent.resume(path, ScriptedModel([]), [with_text(f"Uses {KEY}.")]).close()
    with pytest.raises(ConfigError, match=r"other tools \(fetch differs in description\)") as caught:
        Agent.resume(path, ScriptedModel([]), [with_text(f"Wants {KEY}.")])
    assert KEY not in str(caught.value)


def test_a_fork_never_takes_an_old_placeholder_for_a_new_secret(tmp_path: Path) -> None:
    path, other = tmp_path / "s.jsonl", tmp_path / "f.jsonl"
    known = Redaction({"DB": "hunter2"})
    with Agent(ScriptedModel(["Hi."]), (), "Use hunter2.", journal=path, redact=known) as agent:
        agent.run(f"Note {KEY}!")

    model = ScriptedModel(["Yes."])
    with Agent.fork(path, model, journal=other, redact=known) as agent:
        agent.run(f"And {TOKEN}?")

    assert model.requests[0].system == "Use hunter2."
    assert [texts_of(model.requests[0])[0], f"And {TOKEN}?"] == [
        "Note [redacted:api_key:1]!",
        texts_of(model.requests[0])[-1],
    ]
    assert [secret for secret in (KEY, TOKEN, "hunter2") if secret in other.read_text()] == []
    assert replay(other).same


def test_a_fork_without_a_recording_works_with_the_real_text(tmp_path: Path) -> None:
    """As far as it is known: by its name."""
    path, known = tmp_path / "s.jsonl", Redaction({"DB": "hunter2"})
    with Agent(ScriptedModel(["Hi."]), (), "Use hunter2.", journal=path, redact=known) as agent:
        agent.run(f"Note hunter2 and {KEY}!")

    model = ScriptedModel(["Yes."])
    with Agent.fork(path, model, redact=known) as agent:
        agent.run(f"And {TOKEN}?")
    assert [model.requests[0].system, *texts_of(model.requests[0])] == [
        "Use hunter2.", "Note hunter2 and [redacted:api_key:1]!", "Hi.", f"And {TOKEN}?",
    ]  # fmt: skip


def test_names_of_tools_are_no_secrets(tmp_path: Path) -> None:
    """Else a pattern that fits one would make it unknown."""
    path = tmp_path / "s.jsonl"
    own = Redaction(patterns={"word": "special"})
    with Agent(ScriptedModel([call("special", text="special"), "Done."]), [special], journal=path, redact=own) as agent:
        result = agent.run("Be special!")

    assert [call.status for call in result.calls] == ["ok"]
    assert "Be [redacted:word:1]!" in path.read_text()
    assert replay(path).same

"""``--context-files DIR``: a directory's own files as context of a session."""

from __future__ import annotations

from pathlib import Path

from cognition import ModelRequest
from interpreters import replay
from tests.interpreters.cli.processes import Cogstep


def telling(request: ModelRequest) -> str:
    return f"{request.system}|{getattr(request.messages[-1], 'text', '')}"


def test_a_session_is_told_what_stands_in_the_files(here: Cogstep, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("Be kind.")
    (tmp_path / "work" / "MEMORY.md").write_text("Ada likes plums.")
    done = here("run", "Which plums?", "--context-files", "work", "--record", "s.jsonl", replies=[telling])

    assert done.returncode == 0, done.stderr
    assert "Be kind." in done.stdout
    assert "Ada likes plums." in done.stdout
    (tmp_path / "work" / "AGENTS.md").write_text("Be brief.")
    assert replay(tmp_path / "s.jsonl").divergence is None
    done = here("resume", "s.jsonl", "Which plums?", "--workspace", "work", replies=[telling])  # its name before
    assert "Be brief." in done.stdout, done.stderr


def test_a_workspace_that_is_none_is_said_so(here: Cogstep) -> None:
    done = here("run", "Hello", "--context-files", "nowhere", replies=[])

    assert done.returncode == 2
    assert "the workspace 'nowhere' is no directory; create it, or name another" in done.stderr
    assert "--workspace" not in here("run", "--help", replies=[]).stdout

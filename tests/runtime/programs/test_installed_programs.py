"""What the doctor says of the programs: where they are and which version, and why one can't be used."""

from pathlib import Path

import pytest

from runtime.programs import installed_programs as installed
from runtime.programs.installed_programs import InstalledProgram, installed_programs


def script(folder: Path, name: str, *lines: str) -> str:
    path = folder / name
    path.write_text("\n".join(("#!/bin/sh", *lines, "")), "utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def test_each_says_its_version_and_gets_no_key_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "9.9.9")
    claude = script(tmp_path, "claude", 'echo "$ANTHROPIC_API_KEY 2.1.197 (Claude Code)"')
    codex = script(tmp_path, "codex", "echo codex-cli 0.171.0-alpha.1", "echo WARNING: nothing >&2")

    assert installed_programs() == (
        InstalledProgram("claude", claude, "2.1.197"),
        InstalledProgram("codex", codex, "0.171.0-alpha.1"),
    )


def test_one_that_is_missing_or_broken_says_so(tmp_path: Path) -> None:
    (tmp_path / "codex").write_text("#!/nowhere\n", "utf-8")
    (tmp_path / "codex").chmod(0o755)
    claude, codex = installed_programs()

    assert (claude.path, claude.problem[:35]) == ("", "not installed; npm install -g @anth")
    assert codex.problem.startswith("can't be started (No such file")


@pytest.mark.parametrize("does", ["exit 3", "echo nothing"])
def test_one_that_does_not_say_its_version(tmp_path: Path, does: str) -> None:
    script(tmp_path, "claude", does)

    assert installed_programs()[0].problem.startswith("did not say its version (code ")


def test_one_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "SECONDS", 0.1)
    script(tmp_path, "claude", "exec /bin/sleep 1000")

    assert installed_programs()[0].problem == "did not say its version in 0.1 s"

"""How commands are confined: the words that are put before them, and what happens where that isn't possible."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from cognition import ConfigError
from interpreters import ToolContext, ToolError
from interpreters.toolbox import shell_tools
from interpreters.toolbox.shell import _bubblewrap, _landlock, sandbox
from interpreters.toolbox.shell._profile import SandboxProfile
from interpreters.toolbox.shell.environment import ShellProgram

FAKE = """#!/bin/sh
# Notes what it is told, and runs what stands behind "--".
/usr/bin/tr '\\0' '\\n' < "/proc/self/fd/$2" > "{told}"
while [ "$1" != "--" ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on the path, with a shell."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in for ``bwrap`` leaves all processes of the machine to be seen, and their end would be awaited. It
    has no sandbox that could be entered, as in a frozen program.
    """
    monkeypatch.setattr(_bubblewrap, "LINGERING", '"$@"')
    monkeypatch.setattr(_bubblewrap, "CODE", b"")


@pytest.fixture(autouse=True)
def _no_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_landlock, "problem", lambda _: "no Landlock")


def root(folder: Path) -> Path:
    """A working directory that the programs are not in: none are taken from there."""
    made = folder / "root"
    made.mkdir(exist_ok=True)
    return made


def put(programs: Path, text: str) -> None:
    (programs / "bwrap").write_text(text)
    (programs / "bwrap").chmod(0o700)


def test_commands_run_behind_the_words_that_confine(programs: Path, tmp_path: Path) -> None:
    """Nothing but what is named, and no network; the directory of outputs can be read."""
    told, kept, desk = tmp_path / "told", tmp_path / "kept", root(tmp_path)
    kept.mkdir()
    put(programs, FAKE.format(told=told))

    with shell_tools(desk, sandbox="required", output_folder=kept) as tools:
        assert tools.confined
        assert (
            "It can write in that directory only, and has no network unless network is true"
            in tools[0].spec.description
        )
        told.unlink()
        said = tools[0].call({"command": 'echo "$HOME $TMPDIR"'}, ToolContext(None))

    words = told.read_text().splitlines()
    assert said.startswith("/tmp /tmp\n[exit code 0")
    assert words[:3] == ["--unshare-all", "--die-with-parent", "--new-session"]
    assert words[-7:] == ["--bind", str(desk), str(desk), "--remount-ro", "/", "--chdir", str(desk)]
    assert "--share-net" not in words
    assert words[words.index(str(kept)) - 1] == "--ro-bind"
    assert "--bind" not in words[:-7]


PROBLEMS = {
    "missing": (None, "there is no bwrap on the path"),
    "not permitted": ("#!/bin/sh\necho 'no \033permission' >&2\nexit 1\n", r"doesn't work: no \x1bpermission"),
    "silent": ("#!/bin/sh\nexit 3\n", "doesn't work: it ended with 3"),
    "no program": ("#!/no/such/program\n", "doesn't run"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_where_it_is_not_possible(programs: Path, tmp_path: Path, text: str | None, problem: str) -> None:
    """``required`` is an error that says why; ``auto`` says in the tool's description that it doesn't."""
    if text is not None:
        put(programs, text)

    with pytest.raises(ConfigError, match="sandbox='required', and commands can't be confined here") as error:
        shell_tools(root(tmp_path), sandbox="required")
    assert problem in str(error.value)
    assert ("install bubblewrap" if text is None else "let this user make namespaces") in str(error.value)

    with shell_tools(root(tmp_path), sandbox="auto") as tools:
        assert not tools.confined
        assert "It is not confined" in tools[0].spec.description


def test_the_next_one_is_tried_where_one_is_not_possible(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of its own for what is temporary, which goes with the shell."""
    monkeypatch.setattr(_landlock, "problem", lambda _: "")
    monkeypatch.setattr(_landlock, "words", lambda profile, temporary, environ: ("/usr/bin/env",))
    monkeypatch.setattr(_landlock, "not_held", lambda profile: ())
    with shell_tools(root(tmp_path), sandbox="required") as tools:
        assert tools.sandbox == "landlock"
        folder = Path(tools[0].call({"command": 'echo "$TMPDIR"'}, ToolContext(None)).splitlines()[0])
        assert folder.stat().st_mode & 0o777 == 0o700
    del tools
    gc.collect()
    assert not folder.exists()

    with pytest.raises(ConfigError, match=r"sandbox='bubblewrap', and .* there is no bwrap"):
        shell_tools(root(tmp_path), sandbox="bubblewrap")


def test_a_program_without_a_python_of_its_own_protects_no_paths(programs: Path, tmp_path: Path) -> None:
    """It runs no command of whose root a part is denied."""
    put(programs, FAKE.format(told=tmp_path / "told"))
    made = sandbox.choose_sandbox("bubblewrap", root(tmp_path), ShellProgram("/bin/sh", ()))
    with pytest.raises(ConfigError, match="no Python of its own that could protect the paths"):
        made.words(SandboxProfile(root(tmp_path), hidden=(root(tmp_path) / "key",)))


def test_without_the_parameter_nobody_is_asked_about_the_network(programs: Path, tmp_path: Path) -> None:
    put(programs, FAKE.format(told=tmp_path / "told"))
    with shell_tools(root(tmp_path), network="never") as tools:
        assert "network" not in tools[0].spec.parameters["properties"]
        assert "and has no network." in tools[0].spec.description


def test_it_never_fails_open(programs: Path, tmp_path: Path) -> None:
    """What was confined when the tools were made is not run without, whatever becomes of ``bwrap``."""
    put(programs, FAKE.format(told=tmp_path / "told"))
    with shell_tools(root(tmp_path), sandbox="auto") as tools:
        (programs / "bwrap").unlink()

        with pytest.raises(ToolError, match="can't be started"):
            tools[0].call({"command": "echo x"}, ToolContext(None))


def test_the_directory_that_holds_all_is_none_to_confine_to(programs: Path, tmp_path: Path) -> None:
    put(programs, FAKE.format(told=tmp_path / "told"))

    with pytest.raises(
        ConfigError, match=r"the working directory is /, .*; choose a directory within, or choose 'off'"
    ):
        shell_tools("/", sandbox="required")


def test_the_doctor_names_what_an_older_kernel_does_not_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "choose_sandbox", lambda *_: sandbox.Sandbox("landlock"))
    monkeypatch.setattr(sandbox._landlock.start, "landlock_abi", lambda: 5)
    found, line = sandbox.shell_report()
    assert found
    assert "confined by landlock; a command can send signals" in line


def test_the_doctor_s_line(programs: Path, tmp_path: Path) -> None:
    assert sandbox.shell_report() == (
        True, f"{programs}/sh; commands not confined: there is no bwrap on the path; no Landlock; "
        "Seatbelt is a part of macOS"
    )  # fmt: skip
    put(programs, FAKE.format(told=tmp_path / "told"))
    assert sandbox.shell_report() == (True, f"{programs}/sh; commands confined by bubblewrap")
    (programs / "sh").unlink()
    assert sandbox.shell_report() == (
        False, "there is neither bash nor sh on the path, which the tool Bash needs"
    )  # fmt: skip

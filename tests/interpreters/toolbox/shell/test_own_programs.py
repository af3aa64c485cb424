"""Commands can write in the folder that this program runs from: nothing that they put there runs unconfined."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cognition import ConfigError
from interpreters import ToolContext
from interpreters.toolbox import search_tools, shell_tools
from interpreters.toolbox.shell import _bubblewrap, _landlock, sandbox
from interpreters.toolbox.shell._profile import SandboxProfile
from interpreters.toolbox.shell.sandbox import Choice
from runtime.children import in_memory
from runtime.children.start import HOMES, find_program, without_loader
from tests.interpreters.toolbox.shell.sandboxes import needs

EVIL = """#!/bin/sh
echo "$0" >> {told}
exec {true} "$@"
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "desk").mkdir()
    return tmp_path / "desk"


PROGRAM = """
import sys
from interpreters import ToolContext
from interpreters.toolbox import search_tools, shell_tools
root, wall, put = sys.argv[1:]
with shell_tools(root, sandbox=wall) as tools:
    for command in (put, "echo second"):
        print(tools[0].call({"command": command}, ToolContext(None)))
print(search_tools(root)[1].call({"pattern": "(a|aa)+b", "path": "made"}, ToolContext(None)))
"""
PUT = """
echo aab > made
cd .venv/bin && rm -f python3 python && for f in python python3 rg; do cp {evil} $f; done
echo 'open("{told}", "w")' > ../lib/*/site-packages/sitecustomize.py; echo home = /nowhere > ../pyvenv.cfg
echo put
"""


def test_what_a_command_puts_into_the_program_s_own_environment_does_not_run(desk: Path, wall: Choice) -> None:
    """The usual layout: ``.venv`` is in the root, and the program runs from there."""
    told, evil = desk.parent / "told", desk / "evil"
    subprocess.run([in_memory.PYTHON, "-m", "venv", "--without-pip", desk / ".venv"], check=True)
    evil.write_text(EVIL.format(told=told, true=in_memory.PYTHON))
    evil.chmod(0o755)
    before = (desk / ".venv/pyvenv.cfg").read_text()
    path = os.pathsep.join([HOMES[0], *(one for one in sys.path if one.endswith("-packages"))])
    environ = {"PATH": f"{desk}/.venv/bin:/usr/bin:/bin", "PYTHONPATH": path}
    words = [desk / ".venv/bin/python", "-c", PROGRAM, desk, wall, PUT.format(evil=evil, told=told)]

    run = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)

    assert "second\n[exit code 0, " in run.stdout, run.stderr
    assert "made:1: aab" in run.stdout
    assert not told.exists()
    kept = (desk / ".venv/pyvenv.cfg").read_text() == before
    assert kept == (wall == "bubblewrap"), "Landlock can't protect a folder without closing the root to new files"


def test_programs_are_not_taken_from_the_root(desk: Path, monkeypatch: pytest.MonkeyPatch, wall: Choice) -> None:
    """Not even by a link that lies elsewhere."""
    told, folder, links = desk.parent / "told", desk / "bin", desk.parent / "links"
    folder.mkdir()
    links.mkdir()
    for name in ("bwrap", "rg", "bash", "sh"):
        (folder / name).write_text(EVIL.format(told=told, true="/bin/true"))
        (folder / name).chmod(0o755)
        (links / name).symlink_to(folder / name)
    (desk / "a").write_text("milk\n")
    monkeypatch.setenv("PATH", f"{folder}:{links}:{os.environ['PATH']}")

    with shell_tools(desk, sandbox=wall) as tools:
        assert tools[0].call({"command": "echo x"}, ToolContext(None)).startswith("x\n")
    assert search_tools(desk)[1].call({"pattern": "milk"}, ToolContext(None)) == "a:1: milk"
    assert not told.exists()
    assert find_program("bwrap", (), f"{folder}") == f"{folder}/bwrap"


def test_a_link_on_the_way_to_a_program_can_not_be_exchanged(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leads out of the root again."""
    (desk / "bwrap").symlink_to("/bin/true")
    (desk.parent / "bwrap").symlink_to(desk / "bwrap")
    monkeypatch.setenv("PATH", str(desk.parent))

    assert _bubblewrap.program((desk,)) == os.path.realpath("/bin/true")


def test_without_another_bwrap_none_is_used(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bwrap", "bash"):
        (desk / name).write_text("#!/bin/sh\n")
        (desk / name).chmod(0o755)
    (desk.parent / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", f"{desk}:{desk.parent}")

    with pytest.raises(ConfigError, match="there is no bwrap on the path outside of the working directory"):
        shell_tools(desk, sandbox="bubblewrap")


def test_libraries_of_the_root_are_loaded_by_the_command_alone(desk: Path, wall: Choice) -> None:
    """A library that is none ends every program that loads it."""
    shutil.copytree(desk, desk / "lib")
    environ = {"LD_LIBRARY_PATH": f"{desk}/lib:/usr/lib", "LD_BIND_NOW": "1", "STAGE": "test"}
    with shell_tools(desk, sandbox=wall, environ=environ) as tools:
        told = tools[0].call({"command": "echo $LD_LIBRARY_PATH $LD_BIND_NOW $STAGE"}, ToolContext(None))
        outer = tools._shell.sandbox.environment(desk)

    assert told.startswith(f"{desk}/lib:/usr/lib 1 test\n")
    assert outer["LD_LIBRARY_PATH"] == "/usr/lib"
    assert "LD_BIND_NOW" not in outer
    assert without_loader({"LD_LIBRARY_PATH": f"lib::{desk}/lib", "LD_PRELOAD": "x", "A": "b"}, desk) == {"A": "b"}


def test_landlock_does_not_confine_by_a_python_of_the_root(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("landlock")
    monkeypatch.setattr(in_memory, "PYTHON", str(desk / "python"))
    monkeypatch.setattr(_landlock, "CODE", b"")
    assert "no Python of its own" in _landlock.problem(desk)
    monkeypatch.undo()
    (desk / "python").symlink_to(in_memory.PYTHON)
    assert _landlock.problem(desk) == ""
    monkeypatch.setattr(os, "__file__", str(desk / "lib/os.py"))

    with pytest.raises(ConfigError, match=r"commands could change the Python that confines them, since .*os\.py lies"):
        shell_tools(desk, sandbox="landlock")


def test_what_the_program_consists_of_is_known(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root that is itself an environment stays writable, beside its parts."""
    for part in ("env/bin", "env/lib", "bin"):
        (desk / part).mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(desk / "env"))
    monkeypatch.setattr(sys, "exec_prefix", str(desk))

    assert sandbox.own_files(desk) == (desk / "bin", desk / "env")
    home = Path(HOMES[0])
    assert {home / name for name in ("cognition", "cogstep", "interpreters", "runtime")} <= {*sandbox.own_files(home)}


def test_seatbelt_denies_changes_of_the_program(desk: Path) -> None:
    profile = SandboxProfile(desk, read_only=(desk / "kept",))
    words = sandbox.Sandbox("seatbelt", own=(desk / ".venv",)).words(profile)

    assert f'(deny file-write* (subpath "{desk}/kept") (subpath "{desk}/.venv"))' in words[-1]

"""``import cogstep``: every public name under one; and what is said where another file hides one of the packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cognition
import cogstep
import interpreters
import runtime

PACKAGES = (cognition, runtime, interpreters)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_every_public_name_is_there_and_the_same() -> None:
    """No two packages have one of the same name."""
    names = [name for package in PACKAGES for name in package.__all__]

    assert len(names) == len(set(names))
    for package in PACKAGES:
        for name in package.__all__:
            assert getattr(cogstep, name) is getattr(package, name)
    assert set(names) <= set(dir(cogstep))
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        cogstep.Agnet  # noqa: B018 - looking it up is what is tested


def test_the_command_and_the_version(tmp_path: Path) -> None:
    """``python -m cogstep`` is ``cogstep``."""
    done = run(tmp_path, "-m", "cogstep", "--version")

    assert (done.stdout, done.stderr) == (f"cogstep {cogstep.__version__}\n", "")
    assert run(tmp_path, "-m", "cogstep", "--help").stdout.startswith("usage: cogstep ")


@pytest.mark.parametrize("hidden", ["cognition.py", "runtime.py", "interpreters.py", "runtime/__init__.py"])
@pytest.mark.parametrize(
    "way", ["import cogstep", "from interpreters import Agent", "from runtime import load_model", "-m cogstep"]
)
def test_what_hides_a_package_is_named(hidden: str, way: str, tmp_path: Path) -> None:
    """However one comes in, but through the hidden package itself; nothing of the other file is run."""
    file = tmp_path / hidden
    file.parent.mkdir(exist_ok=True)
    name = hidden.partition("/")[0].removesuffix(".py")
    file.write_text("print('run')" if f"from {name}" not in way else "Agent = load_model = 1")

    done = run(tmp_path, *(way.split() if way.startswith("-m") else ("-c", way)))

    if f"from {name}" in way:  # what was asked for is what is there
        assert done.returncode == 0
        return
    assert done.returncode != 0
    assert done.stdout == ""
    said = done.stderr.strip().splitlines()[-1]
    assert f"{file} hides cogstep's own package {name!r}" in said
    assert "rename" in said


def test_a_hidden_package_is_an_import_error() -> None:
    """So whoever tries an import and goes on without can do so."""
    assert issubclass(cogstep.HiddenPackageError, ImportError)

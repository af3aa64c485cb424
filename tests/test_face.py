"""``import cogstep``: every public name under one; and what is said where another file hides one of the packages."""

from __future__ import annotations

import ast
import compileall
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_args

import attrs
import cattrs
import pytest

import cognition
import cogstep
import interpreters
import runtime
from cognition import Effect, Input, Notice

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


PUBLIC = Path(__file__).with_name("public_names.txt")
"""The names that users may rely on. A change of this file is a change of the product: see the versioning policy."""


def test_the_public_names_are_those_of_the_list() -> None:
    names = sorted(name for package in PACKAGES for name in package.__all__)

    assert names == PUBLIC.read_text().split()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_public_name_is_listed_once_and_is_the_value_of_its_module(package: ModuleType) -> None:
    """A name of a module would be replaced by that module once it is imported."""
    assert package.__file__ is not None
    source = Path(package.__file__).with_name("_public.py").read_text()
    imports = [one for one in ast.parse(source).body if isinstance(one, ast.ImportFrom)]
    listed = [(one.module, alias.name, alias.asname) for one in imports for alias in one.names]

    assert sorted(name for _, name, _ in listed) == package.__all__
    for home, name, shown in listed:
        assert shown == name
        value = getattr(package, name)
        assert home is not None
        assert value is getattr(import_module(home), name)
        assert isinstance(value, ModuleType) == (name in ("events", "fakes"))
        assert name in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        package.nonsense  # noqa: B018 - looking it up is what is tested


@pytest.mark.parametrize("room", [Input, Effect, Notice])
def test_all_inputs_effects_and_notices_are_public(room: object) -> None:
    """A new one that users can't name would reach them all the same."""
    assert {kind.__name__ for kind in get_args(room)} <= set(cognition.__all__)


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


def shipped(folder: Path) -> Path:
    """The packages as an installer lays them out, without the model."""
    for package in (cogstep, *PACKAGES):
        source = Path(package.__path__[0])
        ignored = shutil.ignore_patterns("__pycache__", "small_model")
        shutil.copytree(source, folder / source.name, ignore=ignored)
    return folder


def as_it_is(folder: Path) -> Path:
    return folder


def zipped(folder: Path) -> Path:
    return Path(shutil.make_archive(str(folder.parent / "packages"), "zip", folder))


def compiled_only(folder: Path) -> Path:
    """As programs are shipped without their sources, and as freezing tools lay them out."""
    compileall.compile_dir(folder, quiet=2, legacy=True)
    for source in folder.rglob("*.py"):
        source.unlink()
    return folder


def linked_packages(folder: Path) -> Path:
    links = folder.parent / "links"
    links.mkdir()
    for package in folder.iterdir():
        (links / package.name).symlink_to(package)
    return links


def linked_files(folder: Path) -> Path:
    """As stores do it that keep each file once, under a name of its own."""
    links, store = folder.parent / "links", folder.parent / "store"
    store.mkdir()
    for number, source in enumerate(sorted(folder.rglob("*.py"))):
        link = links / source.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source.rename(store / str(number)))
    return links


@pytest.mark.parametrize("way", [as_it_is, zipped, compiled_only, linked_packages, linked_files])
def test_nothing_is_hidden_however_it_is_laid_out(way: Callable[[Path], Path], tmp_path: Path) -> None:
    """And what is hidden there is found as anywhere else."""
    place = way(shipped(tmp_path / "shipped"))
    others = [str(Path(attrs.__file__).parents[1]), str(Path(cattrs.__file__).parents[1])]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place), *others])}
    code = (
        "import sys, cogstep; sys.stdout.write(cogstep.Agent.__name__ + cogstep.UserSpoke.__name__ + cogstep.__file__)"
    )

    def ran(folder: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=folder, env=path, capture_output=True, text=True, check=False, timeout=60)

    (user := tmp_path / "user").mkdir()
    assert ran(user).stdout.startswith(f"AgentUserSpoke{place}"), ran(user).stderr

    (user / "runtime.py").write_text("")
    assert "runtime.py hides cogstep's own package 'runtime'" in ran(user).stderr


@pytest.mark.parametrize("file", ["cogstep.py", "cogstep/__init__.py"])
@pytest.mark.parametrize("start", [True, False])
def test_a_program_may_be_called_cogstep(file: str, start: bool, tmp_path: Path) -> None:
    """It runs, and once: the packages beneath do not need that name."""
    program = tmp_path / file
    program.parent.mkdir(exist_ok=True)
    program.write_text("print('program')\nfrom interpreters import Agent\nfrom runtime import Notes\n")

    done = run(tmp_path, *([str(program)] if start else ["-c", "import cogstep"]))

    assert (done.stdout, done.stderr) == ("program\n", "")


def test_an_agent_host_does_not_look_into_the_working_directory(tmp_path: Path) -> None:
    """Where the program itself does not: a file there hides nothing from its child."""
    (tmp_path / "runtime.py").write_text("print('run')")
    code = (
        "from interpreters import AgentHost, ModelChoice\n"
        "choice = ModelChoice(factory='script', arguments={'replies': ['Hello.']})\n"
        "factories = {'script': 'interpreters.testing.fakes:ScriptedModel'}\n"
        "with AgentHost.in_process(choice, factories=factories) as host: print(host.open('one').run('Hello?').text)\n"
    )

    done = run(tmp_path, "-P", "-c", code)

    assert (done.stdout, done.stderr) == ("Hello.\n", "")

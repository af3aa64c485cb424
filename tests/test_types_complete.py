"""Users' type checkers know the type of everything that is public, and accept the programs of README.md."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cogstep.packages import NAMES

ROOT = Path(__file__).resolve().parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed"),
]

UNCHECKED = ("*.pyc", "*.gguf", "*.safetensors", "*.json")
"""Large files that no type checker reads."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the four packages installed as a wheel installs them, and with all that is installed here.

    The checkout is installed by reference, and pyright follows no such reference.
    """
    path = tmp_path_factory.mktemp("types") / "venv"
    venv.create(path, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(path), "platbase": str(path)}))
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    for package in ("cogstep", *NAMES):
        shutil.copytree(ROOT / package, site / package, ignore=shutil.ignore_patterns(*UNCHECKED))
    return path


def pyright(environment: Path, *arguments: str) -> dict[str, Any]:
    """Run pyright in an activated environment, where it finds the packages, and return its report."""
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", *arguments],
        cwd=environment.parent,
        env={
            **os.environ,
            "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "VIRTUAL_ENV": str(environment),
            "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        pytest.fail(f"pyright gives no report (it needs node): {done.stdout}{done.stderr}")
    return report


@pytest.mark.parametrize("package", ["cogstep", *NAMES])
def test_every_public_name_has_a_known_type(environment: Path, package: str) -> None:
    """An attribute without an annotation, or a bare ``dict``, is a different type to each checker, or none."""
    complete = pyright(environment, "--ignoreexternal", "--verifytypes", package)["typeCompleteness"]
    unknown = [
        f"{symbol['name']}: {problem['message']}"
        for symbol in complete["symbols"]
        for problem in symbol["diagnostics"]
        if problem["severity"] == "error"
    ]

    assert unknown == []
    assert complete["completenessScore"] == 1
    assert complete["exportedSymbolCounts"]["withKnownType"] > 0


def test_pyright_finds_every_public_name_under_cogstep(environment: Path, tmp_path: Path) -> None:
    """At runtime they come from a ``__getattr__``, which no type checker follows: it reads imports of its own."""
    names = sorted(name for package in NAMES for name in import_module(package).__all__)
    program = tmp_path / "program.py"
    program.write_text("".join(f"from cogstep import {name}\n" for name in [*names, "NoSuchName"]))
    report = pyright(environment, str(program))

    assert [problem["message"] for problem in report["generalDiagnostics"]] == ['"NoSuchName" is unknown import symbol']


PAGES = ("README.md", "docs/start/recipes.md", "docs/start/recipes-sessions.md", "docs/guides/state.md")
"""Pages whose sections are whole programs. A block of README.md is one by itself."""


def programs(folder: Path) -> list[str]:
    """Write the program of each section of the pages as a file, and return their paths."""
    files: list[str] = []
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8")
        for section in text.split("```python\n")[1:] if page == "README.md" else text.split("\n## "):
            blocks = section.split("```python\n")[page != "README.md" :]
            if blocks:
                file = folder / f"program_{len(files)}.py"
                file.write_text("\n".join(block.partition("```")[0] for block in blocks))
                files.append(str(file))
    assert len(files) > 20
    return files


def mypy(environment: Path, folder: Path, *paths: str) -> tuple[int, str]:
    """Run mypy as a user does who is strict, and return its exit code and report."""
    python = environment / "bin" / "python"
    cache = environment.parent / "cache"
    options = ["--strict", "--config-file=", f"--python-executable={python}", f"--cache-dir={cache}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--scripts-are-modules", *options, *paths],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    return done.returncode, done.stdout + done.stderr


RESULTS = """
import asyncio
from dataclasses import dataclass
from typing import assert_type

from cogstep import Agent, AsyncAgent, fakes


@dataclass
class City:
    name: str


model = fakes.ScriptedModel([])
with Agent(model) as agent:
    assert_type(agent.run("Hi", returns=City).raise_for_failure().value, City)
    assert_type(agent.answer("1.1.1", True, returns=City).raise_for_failure().value, City)
    assert_type(agent.resume_turn(returns=City).value, City)
    with agent.stream("Hi", returns=City) as events:
        assert_type(events.result.raise_for_failure().value, City)
    with agent.stream("Hi", returns=list[City]) as several:
        assert_type(several.result.value, list[City])
    with agent.stream("Hi") as plain:
        assert_type(plain.result.raise_for_failure().text, str)


async def main() -> None:
    async with AsyncAgent(model) as agent:
        assert_type((await agent.run("Hi", returns=City)).raise_for_failure().value, City)
        assert_type((await agent.answer("1.1.1", True, returns=City)).raise_for_failure().value, City)
        assert_type((await agent.resume_turn(returns=City)).value, City)
        async with agent.stream("Hi", returns=City) as events:
            assert_type(events.result.raise_for_failure().value, City)


asyncio.run(main())
"""
"""A result keeps the type of its value on every way to it."""

WRONG = RESULTS.replace("value, City)", "value, int)").replace("value, list[City])", "value, list[int])")


@pytest.mark.parametrize("pages", [True, False], ids=["pages", "results"])
def test_pyright_accepts_the_programs_of_the_pages(environment: Path, tmp_path: Path, pages: bool) -> None:
    (tmp_path / "results.py").write_text(RESULTS)
    report = pyright(environment, *(programs(tmp_path) if pages else [str(tmp_path / "results.py")]))

    assert [problem["message"] for problem in report["generalDiagnostics"]] == []
    assert report["summary"]["filesAnalyzed"] >= (20 if pages else 1)


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_accepts_the_programs_of_the_pages_strictly(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "results.py").write_text(RESULTS)
    code, report = mypy(environment, tmp_path, *programs(tmp_path), str(tmp_path / "results.py"))

    assert code == 0, report


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_a_wrong_type_of_a_value_is_found(environment: Path, tmp_path: Path) -> None:
    """The checks can fail: a value without a known type would be any type."""
    (tmp_path / "wrong.py").write_text(WRONG)
    code, report = mypy(environment, tmp_path, str(tmp_path / "wrong.py"))

    assert code == 1
    assert report.count("[assert-type]") == WRONG.count(", int)") + WRONG.count(", list[int])") == 9
    found = pyright(environment, str(tmp_path / "wrong.py"))["generalDiagnostics"]
    assert len(found) == 9

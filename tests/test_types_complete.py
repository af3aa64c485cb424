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


def readme_programs(folder: Path) -> list[str]:
    """Write the blocks of README.md as one file each, and return their paths."""
    blocks = (ROOT / "README.md").read_text("utf-8").split("```python\n")[1:]
    files = [folder / f"readme_{number}.py" for number, _ in enumerate(blocks)]
    for file, block in zip(files, blocks, strict=True):
        file.write_text(block.partition("```")[0])
    return [str(file) for file in files]


def test_pyright_accepts_the_programs_of_the_readme(environment: Path, tmp_path: Path) -> None:
    report = pyright(environment, *readme_programs(tmp_path))

    assert [problem["message"] for problem in report["generalDiagnostics"]] == []
    assert report["summary"]["filesAnalyzed"] >= 2


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_accepts_the_programs_of_the_readme_strictly(environment: Path, tmp_path: Path) -> None:
    python = environment / "bin" / "python"
    options = ["--strict", "--config-file=", f"--python-executable={python}", f"--cache-dir={tmp_path / 'cache'}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *readme_programs(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )

    assert (done.returncode, done.stderr) == (0, ""), done.stdout

"""The programs of ``examples/`` run, print what their last lines say, and replay from the recordings beside them."""

from __future__ import annotations

import json
import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cogstep import replay

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
LAWS = "faulty_engines"
"""Its engines are held to the laws in ``tests/laws/test_faulty_engines.py``; it has neither a session nor an output."""
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != LAWS)
NOTEBOOK = EXAMPLES / "notebook.ipynb"


def expected_output(source: str) -> list[str]:
    """The comment lines below ``# It prints:``, which end the program."""
    return [line.removeprefix("#").removeprefix(" ") for line in source.split("# It prints:\n")[1].splitlines()]


def engine_of(name: str) -> Any:
    """The engine that a recording needs, if it is not the one that ships."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["Polite"] if name == "own_engine" else None


def kinds(path: Path) -> list[tuple[str, list[str]]]:
    """The types of each input and of its decisions, which no clock and no random name changes."""
    _header, *records = map(json.loads, path.read_text("utf-8").splitlines())
    return [(record["input"]["type"], [decision["type"] for decision in record["decisions"]]) for record in records]


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs_and_prints_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program runs in any directory, and records the same decisions as the recording beside it."""
    source = (EXAMPLES / f"{name}.py").read_text("utf-8")
    if "load_model(" in source and not (find_spec("llama_cpp") or find_spec("mlx")):
        pytest.skip("the program loads a model, and no backend is installed")
    recording = tmp_path / "session.jsonl"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(recording)])

    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")

    assert capsys.readouterr().out.splitlines() == expected_output(source)
    assert kinds(recording) == kinds(EXAMPLES / f"{name}.jsonl")


@pytest.mark.parametrize("name", [*PROGRAMS, NOTEBOOK.stem])
def test_each_recording_replays(name: str) -> None:
    """A recording made by an earlier version replays: every decision is the recorded one."""
    report = replay(EXAMPLES / f"{name}.jsonl", engine_of(name))

    assert report.divergence is None
    assert report.records > 0


def test_there_are_as_many_recordings_as_programs() -> None:
    """A new program comes with its recording."""
    assert sorted(path.stem for path in EXAMPLES.glob("*.jsonl")) == sorted([*PROGRAMS, NOTEBOOK.stem])
    assert len(PROGRAMS) >= 8


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_is_short_and_says_how_to_run_it(name: str) -> None:
    """At most 80 lines, with the command in the docstring, and a row in the table."""
    source = (EXAMPLES / f"{name}.py").read_text("utf-8")

    assert len(source.splitlines()) <= 80
    assert f"python examples/{name}.py" in source
    assert f"[{name}.py]({name}.py)" in (EXAMPLES / "README.md").read_text("utf-8")


def test_the_notebook_runs_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cells run in order and share their names, as under Jupyter; the outputs in the file are those of today."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)  # it is read once
    cells = [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "__main__"}

    for cell in cells:
        exec("".join(cell["source"]), names)
        shown = "".join(line for output in cell["outputs"] for line in output["text"])
        assert capsys.readouterr().out == shown

    assert kinds(names["journal"]) == kinds(NOTEBOOK.with_suffix(".jsonl"))


@pytest.mark.skipif(find_spec("nbclient") is None, reason="nbclient is not installed")
def test_the_notebook_runs_under_jupyter(tmp_path: Path) -> None:
    """Where Jupyter's client is installed, it can read and execute the file."""
    import nbclient  # type: ignore[import-not-found, unused-ignore]
    import nbformat  # type: ignore[import-not-found, unused-ignore]

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_links_of_the_page_lead_to_files() -> None:
    """As for the pages of ``docs/``."""
    targets = re.findall(r"\]\(([^)#\s]+)", (EXAMPLES / "README.md").read_text("utf-8"))

    assert [target for target in targets if not (EXAMPLES / target).exists()] == []

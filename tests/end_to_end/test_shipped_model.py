"""The shipped model, for real, through all storeys: template, backend, parser, core, tools, journal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import Completed
from interpreters import replay
from runtime import load_model
from runtime.protocol.model import Runtime
from tests.end_to_end.scenarios import SCENARIOS, Scenario, fingerprint, run, transcript

PINS = json.loads(Path(__file__).with_name("pins.json").read_text(encoding="utf-8"))
BACKENDS = [
    pytest.param("llama", marks=pytest.mark.llama),
    pytest.param("mlx", marks=pytest.mark.mlx),
]
MODULES = {"llama": "llama_cpp", "mlx": "mlx_lm"}


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    pytest.importorskip(MODULES[name], reason=f"the extra {name!r} is not installed")
    return name


@pytest.fixture(scope="module")
def model(backend: str) -> Iterator[Runtime]:
    runtime = load_model(backend=backend)  # type: ignore[arg-type]  # one of the two names
    yield runtime
    runtime.close()


@pytest.fixture(scope="module")
def pins(backend: str, model: Runtime) -> dict[str, Any]:
    """The answers that were pinned for exactly these weights."""
    pinned: dict[str, Any] = PINS[backend]
    shipped = fingerprint(model.describe().path)
    assert pinned["weights"] == shipped, "the weights changed: run `python -m tests.end_to_end.pin`"
    answers: dict[str, Any] = pinned["answers"]
    return answers


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_model_does_what_the_scenario_is_there_for(
    scenario: Scenario, model: Runtime, pins: dict[str, Any], tmp_path: Path
) -> None:
    """Greedy text is stable for one file on one backend, so calls, results and answers are compared to the letter."""
    results = run(scenario, model, tmp_path)

    assert scenario.shows(results)
    assert all(isinstance(result.outcome, Completed) for result in results)
    assert pins[scenario.name] == transcript(results)


def test_a_recorded_session_replays_without_a_model(model: Runtime, tmp_path: Path) -> None:
    """Record, replay: every decision is the same, and no model and no tool is asked."""
    journal = tmp_path / "session.jsonl"
    (two_steps,) = (s for s in SCENARIOS if s.name.startswith("two steps"))
    run(two_steps, model, tmp_path, journal=journal)

    report = replay(journal)

    assert report.same
    assert report.turns == 1
    assert report.divergence is None


def test_a_changed_byte_of_a_decision_is_shown_side_by_side(model: Runtime, tmp_path: Path) -> None:
    """The divergence names the record and shows what was recorded beside what is decided."""
    journal = tmp_path / "session.jsonl"
    run(SCENARIOS[0], model, tmp_path, journal=journal)
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    (number,) = (n for n, line in enumerate(lines) if '"call_tool"' in line)
    where = lines[number].index('"call_tool"')
    lines[number] = lines[number][:where] + lines[number][where:].replace("17", "18", 1)
    journal.write_text("".join(lines), encoding="utf-8")

    report = replay(journal)

    assert not report.same
    assert report.divergence is not None
    shown = str(report.divergence)
    assert str(report.divergence.record) in shown
    assert "18" in shown
    assert "17" in shown


def test_a_session_reuses_what_the_model_has_read(model: Runtime, tmp_path: Path) -> None:
    """The second call of a turn finds the first one's prompt in the cache and says how much of it."""
    (result,) = run(SCENARIOS[0], model, tmp_path)

    assert result.usage.reused_tokens > 0
    assert result.usage.reused_tokens < result.usage.input_tokens

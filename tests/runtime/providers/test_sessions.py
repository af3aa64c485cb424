"""An agent on a remote model behaves as on the local one: the end-to-end scenarios, through a server.

Behind it is the shipped model in the same file, so that what is pinned of the local model is pinned of it too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import Completed
from interpreters import replay
from runtime import Runtime
from tests.end_to_end import scenarios
from tests.end_to_end.scenarios import SCENARIOS, Scenario, run, transcript
from tests.runtime.providers.conftest import KEY, PATHS
from tests.runtime.providers.test_conformance import THEIRS, remote, theirs

PINS = json.loads(Path(scenarios.__file__).with_name("pins.json").read_text(encoding="utf-8"))


@pytest.fixture(params=[*(pytest.param(dialect, marks=pytest.mark.llama) for dialect in PATHS), *THEIRS])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.setenv("COGSTEP_TEST_KEY", KEY)
    if request.param not in PATHS:
        with theirs(request.param, request) as made:
            yield made
        return
    server, _ = request.getfixturevalue("behind")(request.param)
    with remote(request.param, server.port) as ours:
        yield ours


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_session_is_as_with_the_local_model(
    scenario: Scenario, model: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    results = run(scenario, model, tmp_path, journal=tmp_path / "session.jsonl")

    assert scenario.shows(results)
    assert all(isinstance(result.outcome, Completed) for result in results)
    backend = "mlx" if "mlx" in request.node.callspec.id else "llama"
    assert transcript(results) == PINS[backend]["answers"][scenario.name]
    assert replay(tmp_path / "session.jsonl").same

"""Sessions on a model whose process is killed at random moments: the short form of ``make kills``."""

import logging

import pytest

from runtime.models.specs import BackendName
from tests.runtime.kills import SIGNALS, kill


@pytest.mark.slow
def test_every_session_finishes_however_often_the_process_is_killed(
    backend_name: BackendName, caplog: pytest.LogCaptureFixture
) -> None:
    """Each turn ends with the answer that it has when nobody kills, and nothing is left behind."""
    caplog.set_level(logging.ERROR)
    times = len(SIGNALS) * (2 if backend_name == "llama" else 1)  # MLX is slow on a CPU
    run, problems = kill(backend_name, times, seed=1)

    assert problems == []
    assert sum(run.turns.values()) >= 8
    assert set(run.sent) <= {signal.name for signal in SIGNALS}
    assert run.model.starts > times // 2

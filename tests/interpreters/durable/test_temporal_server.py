"""Sessions on a real Temporal server, where its command is named: see ``temporal_kills``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.interpreters.durable.temporal_kills import MISSING, kills, program


@pytest.mark.slow
@pytest.mark.skipif(program() is None, reason=MISSING)
def test_sessions_survive_kills_of_their_processes_and_of_the_server(tmp_path: Path) -> None:
    found = asyncio.run(kills(4, 2, tmp_path, workers=2))

    assert found["messages"] >= 2

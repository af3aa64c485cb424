"""Tests of engines whose extra is not installed are left out; those of Restate share a server in each module."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

NEEDS = {
    "test_restate.py": "restate",
    **dict.fromkeys(("test_temporal.py", "test_temporal_faults.py", "test_temporal_server.py"), "temporalio"),
}

collect_ignore = [name for name, module in NEEDS.items() if find_spec(module) is None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.interpreters.durable.restate_rig import MISSING, running_server, server_program  # the extra's

    if server_program() is None:
        pytest.skip(MISSING)
    with running_server(tmp_path_factory.mktemp("restate")) as one:
        yield one

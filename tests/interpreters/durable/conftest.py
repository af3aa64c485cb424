"""Tests of engines whose extra is not installed are left out."""

from importlib.util import find_spec

NEEDS = {
    "test_restate.py": "restate",
    **dict.fromkeys(("test_temporal.py", "test_temporal_faults.py", "test_temporal_server.py"), "temporalio"),
}

collect_ignore = [name for name, module in NEEDS.items() if find_spec(module) is None]

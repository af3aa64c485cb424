"""The page with the state machine is what the transition table says today."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from cognition.engine._table import TABLE

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def printer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("print_diagrams", DOCS / "print_diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(printer: ModuleType) -> None:
    """``python docs/print_diagrams.py > docs/concepts/state-machine.md`` brings it up to date."""
    assert printer.page() == (DOCS / "concepts" / "state-machine.md").read_text("utf-8")


@pytest.mark.slow
def test_the_engine_goes_where_the_table_says_and_nowhere_else(printer: ModuleType) -> None:
    """Explored with each part of the table switched on, and with all of them: every arrow is taken, and no other."""
    declared = {(phase, event): set(live.to) for event, row in TABLE.items() for phase, live in row.live.items()}

    assert declared == printer.explored()

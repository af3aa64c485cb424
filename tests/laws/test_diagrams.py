"""The page with the state machine is what the transition table says today."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from cognition.table import TABLE, Dead

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def printer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("print_diagrams", DOCS / "print_diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_page_is_current(printer: ModuleType) -> None:
    """``python docs/print_diagrams.py > docs/state-machine.md`` brings it up to date."""
    assert printer.page() == (DOCS / "state-machine.md").read_text("utf-8")


@pytest.mark.slow
def test_every_live_cell_of_the_table_is_taken_and_no_dead_one(printer: ModuleType) -> None:
    """The arrows are complete: what the table allows was seen, and nothing else."""
    live = {(phase, event) for phase, row in TABLE.items() for event, cell in row.items() if not isinstance(cell, Dead)}

    assert live == set(printer.targets())

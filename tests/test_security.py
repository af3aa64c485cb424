"""SECURITY.md names a test for each promise, and each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`", PAGE)))


def test_every_promise_names_what_holds_it() -> None:
    """Each row of the tables between "What holds" and the last section ends with a test."""
    promises = PAGE.split("## What holds")[1].split("## What nobody should rely on")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and not line.startswith("| promise")]

    assert len(rows) > 40
    assert [row for row in rows if not re.search(r"`tests/[^`]+`[^|]*\|$", row)] == []


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_tests_that_are_named_are_there(path: str, name: str) -> None:
    source = (ROOT / path).read_text("utf-8")

    assert not name or re.search(rf"(?:def|class) {name}\b", source)

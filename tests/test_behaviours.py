"""The page of behaviours and the tests that hold them name the same items."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| ([A-Z]\d+(?:[a-z]|_\d+)?) \| .+ \| (.+) \|$", re.MULTILINE)
MARK = re.compile(r"mark\.behaviour\(([^)]*)\)")


def test_every_behaviour_of_the_page_has_its_tests_or_says_where_it_belongs() -> None:
    """The page's rows and the tests' marks name the same items; ``pytest -m behaviour`` runs them all."""
    found = ROW.findall((ROOT / "docs" / "concepts" / "behaviours.md").read_text("utf-8"))
    rows = dict(found)
    sources = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    marked = {name for source in sources for names in MARK.findall(source) for name in re.findall(r"\"(\w+)\"", names)}

    numbered = [*(f"B{n}" for n in range(1, 26)), *(f"I{n}" for n in range(1, 11))]
    assert numbered == [name for name in rows if name[0] in "BI"]
    assert len(found) == len(rows), "each stands there once"
    assert {name for name, where in rows.items() if where == "tests"} == marked

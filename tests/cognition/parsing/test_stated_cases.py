"""What other projects hold to be right, restated, is read so in every cut, or there is a reason why not."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from cognition.parsing import Parser, collect
from tests.cognition.parsing.replies import merged, pieces
from tests.cognition.parsing.stated_cases import PROJECTS, REASONS, format_of, message_of, table, tools_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "formats.md"

CASES = [
    pytest.param(stated, case, id=f"{name}-{number}-{case['of']}")
    for name, stated in PROJECTS.items()
    for number, case in enumerate(stated["cases"])
]


@pytest.mark.parametrize(("stated", "case"), CASES)
def test_a_stated_case_is_read_in_every_cut(stated: dict[str, Any], case: dict[str, Any]) -> None:
    """Whole, character by character and cut at random it gives the stated message; or, with a reason, another one."""
    spec, tools, raw = format_of(stated, case), tools_of(stated, case), case["input"]
    dice = random.Random(raw)
    cuts = [[raw], list(raw), *(pieces(raw, [dice.randrange(len(raw) + 1) for _ in raw[::5]]) for _ in range(3))]
    told = []
    for chunks in cuts:
        parser = Parser(spec, tools)
        outputs = [output for chunk in chunks for output in parser.feed(chunk)]
        told.append(merged([*outputs, *parser.finish(case.get("end", "stop"))]))
    reply = collect(told[0])
    calls = [[call.name, json.loads(call.arguments_json)] for call in reply.tool_calls]
    read = (reply.text.strip(), reply.reasoning.strip(), calls, len(reply.malformed))

    assert [told[0]] * len(told) == told
    assert (message_of(case) == read) == ("differs" not in case), read


def test_each_reason_is_given_for_some_case() -> None:
    """The list of reasons holds no more and no less than there is."""
    given = {case["differs"] for stated in PROJECTS.values() for case in stated["cases"] if "differs" in case}

    assert set(REASONS) == given


def test_the_table_in_the_docs_is_the_one_that_the_cases_make() -> None:
    """Counts and reasons are computed, never typed: ``python tests/cognition/parsing/stated_cases.py`` prints them."""
    assert "\n".join(table()) in PAGE.read_text("utf-8")

"""The engine's own tools: the schemas that models see, and the readers of their arguments."""

from __future__ import annotations

from typing import Any

import pytest

from cognition import Question
from cognition.steps.engine_tools import TEXT, TEXTS, object_schema, read_questions


def test_a_schema_names_every_argument_and_requires_those_that_are_not_optional() -> None:
    assert object_schema({"name": TEXT, "task": TEXT}, after=TEXTS) == {
        "type": "object",
        "properties": {"name": TEXT, "task": TEXT, "after": TEXTS},
        "required": ["name", "task"],
    }
    assert object_schema({}) == {"type": "object", "properties": {}, "required": []}


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (None, ("", ())),
        ("warm", ("", ())),
        ({}, ("", ())),
        ({"header": "Colour"}, ("Colour", ())),
        ({"options": ["warm", "cold"]}, ("", ("warm", "cold"))),
        ({"header": "Colour", "options": ["", ""]}, ("Colour", ())),
        ({"header": "Colour", "options": ["warm", ""]}, ("Colour", ("warm", ""))),
    ],
)
def test_a_question_may_leave_out_each_of_its_descriptions(
    described: Any, expected: tuple[str, tuple[str, ...]]
) -> None:
    """Whoever calls ``ask_user`` with this argument gave it unasked: either part may be missing."""
    asked = {"question": "Which?", "options": ["red", "blue"], "described": described}

    header, descriptions = expected
    assert read_questions({"questions": [asked]}) == (
        Question("Which?", ("red", "blue"), header=header, descriptions=descriptions),
    )

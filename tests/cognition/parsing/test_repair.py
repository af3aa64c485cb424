"""JSON that is almost right is mended, each repair has a name, and what leaves a doubt is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition.parsing._repair import RepairedValue, repair_json
from tests.cognition.parsing.replies import STRINGS, VALUES

MENDED: list[tuple[str, Any, tuple[str, ...]]] = [
    ('{"a": 1,}', {"a": 1}, ("trailing comma",)),
    ('{"a": [1, 2, ], }', {"a": [1, 2]}, ("trailing comma",)),
    ("{'a': 'b'}", {"a": "b"}, ("single quotes",)),
    ("{'a': 'it\\'s \"so\"'}", {"a": 'it\'s "so"'}, ("single quotes",)),
    ('{"a": True, "b": [False, None]}', {"a": True, "b": [False, None]}, ("Python literal",)),
    ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}, ("unescaped line break or control character",)),
    ('{"a": "\\d+"}', {"a": "\\d+"}, ("invalid escape",)),
    ('{"a": "it\\\'s"}', {"a": "it's"}, ("invalid escape",)),
    ('{"a": "D:\\build\\x"}', {"a": "D:\\build\\x"}, ("invalid escape",)),
    ("{'a': 'b\\d'}", {"a": "b\\d"}, ("single quotes", "invalid escape")),
    ('{"a": {"b": 1}', {"a": {"b": 1}}, ("missing closing brace",)),
    ('{"a": {"b": "c"', {"a": {"b": "c"}}, ("missing closing brace",)),
    ('{"a": 1}}', {"a": 1}, ("extra closing brace",)),
    ("{'a': '\\u00e9\\n'}", {"a": "é\n"}, ("single quotes",)),
    ("{'a': True,}", {"a": True}, ("single quotes", "Python literal", "trailing comma")),
    ('{"a": "True, }"}', {"a": "True, }"}, ()),
]

REFUSED = [
    "",
    "{bad}",
    '{"a": }',
    '{"a" 1}',
    '{"a": "b}',
    '{"a": [1}',
    '{"a": [1, 2',
    '{"a": 1,',
    '{"a": ',
    "{'it's': 1}",
    '{"a": "C:\\new\\docs"}',
    '{"a": "C:\\new", "b": "\\d"}',
    '{"a": "\\\\d \\d"}',
    '{"a": "\\"\\d"}',
    '{"a": "\\u00e9\\d"}',
    '{"a": "\'\\\'\'"}',
    "{'a': '\\x41'}",
    "{'a': 'it\\'s \\d'}",
    '{"a": 1} and more',
    '{"a": 1}} {"b": 2}',
    '{"a": NaN}',
    '{"a": Infinity}',
    "}",
    "[" * 100_000,
    "[" * 100_000 + "]" * 100_000,
]


@pytest.mark.parametrize(("text", "value", "repairs"), MENDED)
def test_what_was_meant_is_read_and_the_repair_is_named(text: str, value: Any, repairs: tuple[str, ...]) -> None:
    """Each of these can mean only one thing."""
    assert RepairedValue(value, repairs) == repair_json(text)


@pytest.mark.parametrize("text", REFUSED)
def test_what_leaves_a_doubt_is_refused(text: str) -> None:
    """Nothing is guessed, and nothing becomes an empty object."""
    assert repair_json(text) is None


def test_text_that_may_have_been_cut_is_not_closed() -> None:
    """A missing brace is forgotten only where the text is known to have ended."""
    assert repair_json('{"a": {"b": 1}', complete=False) is None


@given(VALUES)
def test_valid_json_is_not_touched(value: Any) -> None:
    """Repair leaves right JSON as it is, whatever its strings hold."""
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert RepairedValue(json.loads(text), ()) == repair_json(text)


@given(st.dictionaries(STRINGS, st.one_of(STRINGS, st.booleans(), st.none()), max_size=4))
def test_python_notation_is_understood(value: dict[str, Any]) -> None:
    """What Python prints of a dictionary of plain values is read as what it was, escapes that JSON lacks apart."""
    text = repr(value)
    if "\\x" not in text and "\\U" not in text:
        repaired = repair_json(text)

        assert repaired is not None
        assert value == repaired.value


@given(st.text(st.sampled_from("{}[]\"'\\,:\n tTrueN1a"), max_size=30), st.booleans())
def test_any_text_is_mended_or_refused(text: str, complete: bool) -> None:
    """No text raises; what comes of it is JSON, and was changed only if a repair says so."""
    repaired = repair_json(text, complete=complete)

    if repaired is not None:
        assert json.loads(json.dumps(repaired.value)) == repaired.value
        if not repaired.repairs:
            assert json.loads(text) == repaired.value

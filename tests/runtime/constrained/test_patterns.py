"""Patterns of JSON Schema in the engine's dialect."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.constrained.patterns import FORMATS, PatternError, anchored, literal

PATTERNS = [
    "^[a-c]+x?$",
    "a|^b$",
    "[ab]{2}",
    "^$",
    "^a\\$",
    "c$",
    "^(a|b)c",
    "[]a]",
    "[^]a]b$",
    "\\d-\\w",
    "[\\d\\s]x",
    "\\/",
]


@given(st.sampled_from(PATTERNS), st.text("abcx]$3- /_", max_size=6))
def test_an_anchored_pattern_covers_the_texts_in_which_the_original_is_found(pattern: str, text: str) -> None:
    """``re.search`` with the one says the same as ``re.fullmatch`` with the other."""
    assert (re.search(pattern, text) is not None) == (re.fullmatch(f"(?:{anchored(pattern)})", text) is not None)


@given(st.text(max_size=8))
def test_a_literal_covers_its_text(text: str) -> None:
    """Signs that mean something in patterns stand for themselves."""
    assert re.fullmatch(literal(text), text)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(?=a)b", "of groups"),
        ("(?<!a)b", "of groups"),
        ("(a)\\1", "escape"),
        ("\\bword\\b", "escape"),
        ("a^b", "may only stand"),
        ("^(a|b$)", "may only stand"),
        ("(", "no regular expression"),
    ],
)
def test_a_pattern_that_can_not_be_held_to_is_refused(pattern: str, told: str) -> None:
    """With what is wrong with it."""
    with pytest.raises(PatternError, match=told):
        anchored(pattern)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2026-11-30", "2026-11-31"),
        ("time", "23:59:59Z", "24:00:00Z"),
        ("date-time", "2026-01-31T00:00:00.5+01:30", "2026-01-31 00:00:00"),
        ("duration", "P3DT4H", "P"),
        ("email", "a.b@example.org", "a@b"),
        ("hostname", "www.example.org", "-a.org"),
        ("ipv4", "192.168.0.255", "1.2.3.256"),
        ("ipv6", "fe80:0:0:0:0:0:0:1", "1:2"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("uri", "https://example.org/a/b", "example.org"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    """Each format with a text that is of it, and one that is not."""
    assert re.fullmatch(FORMATS[name], good)
    assert not re.fullmatch(FORMATS[name], bad)

"""Messages of the command line repeat what was typed, but no password of a URL."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, strategies as st

from interpreters.cli._errors import without_passwords

BEFORE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{1,2}[^\s/@:]*):[^\s@]*@|(?<=[?&]password=)[^\s&]+")
"""The plain form, which takes quadratic time: what it hides is hidden."""


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("no postgresql://me:secret@host/db", "no postgresql://me:***@host/db"),
        ("no postgresql:/me:secret@host/db here", "no postgresql:/me:***@host/db here"),
        ("1http://:secret@host", "1http://:***@host"),
        ("http://host?password=secret&x=1", "http://host?password=***&x=1"),
        ("http://me:one@a and http://me:two@b?password=three", "http://me:***@a and http://me:***@b?password=***"),
        ("http://host:80/path", "http://host:80/path"),
        ("a:/b:a:/b:c", "a:/b:a:/b:c"),
    ],
)
def test_a_password_is_hidden(message: str, expected: str) -> None:
    assert without_passwords(message) == expected


@given(
    st.text(alphabet="a1:/@? &=\n") | st.lists(st.sampled_from(["a://", ":", "@", "b", " ", "?password="])).map("".join)
)
@example("a:/b:c?password=d")
def test_whatever_the_plain_form_hides_is_hidden(message: str) -> None:
    for found in BEFORE.finditer(message):
        secret = found[0] if found[1] is None else found[0][len(found[1]) + 1 : -1]
        assert (
            secret in ("", "***")
            or len(without_passwords(message)) != len(message)
            or "***" in without_passwords(message)
        )


@pytest.mark.parametrize("part", ["x", "a:/b:", "http://", ":", "@", "?password="])
def test_a_long_text_is_read_once(part: str) -> None:
    """100,000 letters took a second, and 400,000 sixteen: a test of ours that takes so long is stopped."""
    assert without_passwords(part * 400_000)

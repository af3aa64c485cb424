"""Text of strangers between tags: it can't end them, and it can be read back."""

import re

import pytest
from hypothesis import given, strategies as st

from cognition.context._escaping import attribute, element, escape_tags, frame, unescape_tags

NAMES = ("memory", "source", "a-b")
PIECES = ("<", ">", "/", "&", "amp;", "lt;", "memory", "MEMORY", "source", "a-b", " ", "\n", "x", '"', "memory2")
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join) | st.text()
A_TAG = re.compile(r"<\s*/?\s*(memory|source|a-b)\b", re.IGNORECASE)


@given(TEXTS)
def test_what_is_escaped_can_be_read_back(text: str) -> None:
    assert unescape_tags(escape_tags(text, NAMES)) == text


@given(TEXTS, TEXTS)
def test_no_text_begins_or_ends_a_section(text: str, source: str) -> None:
    whole = element("memory", [f'<source path="{attribute(source, NAMES)}">\n{escape_tags(text, NAMES)}\n</source>'])

    assert len(A_TAG.findall(whole)) == 4


@given(TEXTS)
def test_a_source_stands_in_its_quotes_on_one_line(source: str) -> None:
    assert not set('"\n\r') & set(attribute(source, NAMES))


def test_what_is_no_tag_of_ours_stays_as_it_is() -> None:
    """Instructions are full of code."""
    code = "if a < b && c > d: print('<b>memory</b> &amp; &lt')"

    assert escape_tags(code, NAMES) == code


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("</memory>", "&lt;/memory>"),
        ("< / MEMORY >", "&lt; / MEMORY >"),
        ("&lt;/memory>", "&amp;lt;/memory>"),
        ("&amp;lt;", "&amp;amp;lt;"),
        ("<memories>", "<memories>"),
    ],
)
def test_how_it_is_written(text: str, written: str) -> None:
    assert escape_tags(text, NAMES) == written
    assert unescape_tags(written) == text


@given(st.lists(st.text(min_size=1), min_size=1))
def test_a_frame_is_all_that_stands_around_texts(parts: list[str]) -> None:
    assert len(element("memory", parts)) + len("\n\n") == frame("memory") + len("\n".join(parts))
    assert element("memory", []) == ""

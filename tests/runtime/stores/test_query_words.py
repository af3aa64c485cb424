"""The words of texts and queries: what is found by what."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, strategies as st

from cognition.context.words import LONGEST_WORD, message_words, words_of
from runtime.stores.memory_folder import excerpt_of, query_of

TEXTS = st.text(max_size=200) | st.text('aäBç 17+#一二三ก้ข가나\u0301_"*()-:', max_size=80)


@pytest.fixture(scope="module")
def file() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as file:
        file.executescript(
            """CREATE VIRTUAL TABLE words USING fts5(text, tokenize = "ascii tokenchars '+#'");
            CREATE VIRTUAL TABLE terms USING fts5vocab(words, instance)"""
        )
        yield file


@given(text=TEXTS)
def test_words_are_words_for_sqlite_too(file: sqlite3.Connection, text: str) -> None:
    """FTS5 takes each of them as one word and nothing else, whatever they hold, so that a quoted one is one phrase."""
    words = words_of(text)

    file.execute("DELETE FROM words")
    file.execute("INSERT INTO words VALUES (?)", (" ".join(words),))
    found = [term for (term,) in file.execute("SELECT term FROM terms ORDER BY offset")]

    assert found == words
    assert all(0 < len(word) <= LONGEST_WORD and '"' not in word for word in words)


@given(TEXTS, TEXTS, st.integers(20, 60))
def test_an_excerpt_is_one_short_line_of_the_text(text: str, query: str, length: int) -> None:
    excerpt = excerpt_of(text, query, length)

    assert len(excerpt) <= length
    assert "\n" not in excerpt
    assert excerpt.strip("…") in " ".join(text.split()) or "…" in text


def test_an_excerpt_shows_what_was_found() -> None:
    text = "x " * 300 + "the invoices are paid on Fridays " + "y " * 300

    assert "invoices are paid" in excerpt_of(text, "invoicing? invoice!")
    assert excerpt_of(text, "nothing") == excerpt_of(text, "")


@given(TEXTS)
def test_a_query_is_the_words_that_are_asked_for_in_quotes(text: str) -> None:
    assert query_of(text) == [f'"{word}"' for word in message_words(text)]

"""The words of texts and queries: what is found by what."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, strategies as st

from runtime.stores.words import LONGEST_WORD, MOST_WORDS, STOP_WORDS, excerpt_of, query_of, words_of

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


@given(TEXTS)
def test_a_text_is_found_by_itself_and_by_each_of_its_words(text: str) -> None:
    words = words_of(text)

    assert {word.strip('"') for word in query_of(text)} <= set(words)
    assert bool(query_of(text)) == bool(words)
    assert all(
        query_of(word) in ([f'"{word}"'], [f'"{word}"', *query_of(word)[1:]]) for word in words if word.isascii()
    )


@given(TEXTS, TEXTS)
def test_case_and_accents_make_no_difference(one: str, other: str) -> None:
    assert words_of("Zoë ÇA Straße") == words_of("zoe ca strasse")
    assert words_of(f"{one} {other}") == words_of(one) + words_of(other) or "+" in one or "#" in one


def test_short_words_digits_and_names_of_languages_are_words() -> None:
    assert words_of("C, C++ and c#: Go 17, R2-D2, snake_case, v3.40") == [
        *("c", "c++", "and", "c#", "go", "17", "r2", "d2", "snake", "case", "v3", "40"),
    ]
    assert words_of("１７ ٣") == ["17", "3"]
    assert words_of("a🦊b") == ["a🦊b"]
    assert words_of("𝕬 ﬁ Ǆ ΐ İ") == ["a", "fi", "dz", "ι", "i"]


def test_scripts_without_spaces_are_found_by_any_part() -> None:
    assert words_of("开会room3讨论") == ["开", "会", "开会", "room3", "讨", "论", "讨论"]
    for whole, part in (
        ("明天下午开会讨论", "开会"),
        ("ประชุมพรุ่งนี้", "พรุ่ง"),
        ("会議は明日です", "明日"),
        ("회의는 내일", "회의"),
    ):
        assert set(query_of(part)) <= {f'"{word}"' for word in words_of(whole)}
        assert query_of(part[0]) == [f'"{part[0]}"']


def test_a_question_is_what_it_is_about() -> None:
    """The reference dropped Q3, since it is short."""
    assert query_of("What did we say about the Q3 budget?") == ['"say"', '"q3"', '"budget"']
    assert query_of("what is it") == ['"what"', '"is"', '"it"'], "what has no other words is looked for as it is"
    assert len(STOP_WORDS) < 80


@given(st.integers(0, 400))
def test_a_long_query_is_cut(count: int) -> None:
    assert len(query_of(" ".join(f"word{number}" for number in range(count)))) == min(count, MOST_WORDS)


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

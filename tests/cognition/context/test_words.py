"""The words of texts and queries: what is found by what."""

import pytest
from hypothesis import example, given, strategies as st

from cognition.context.words import (
    LONGEST_MESSAGE,
    LONGEST_QUERY,
    LONGEST_WORD,
    MOST_WORDS,
    STOP_WORDS,
    distinct_words,
    message_words,
    query_words,
    words_of,
)

TEXTS = st.text(max_size=200) | st.text('aäBç 17+#一二三ก้ข가나\u0301_"*()-:', max_size=80)


@given(TEXTS)
def test_a_text_is_found_by_itself_and_by_each_of_its_words(text: str) -> None:
    words = words_of(text)

    assert set(query_words(text)) <= set(words)
    assert bool(query_words(text)) == bool(words)
    assert all(query_words(word)[0] == word for word in words if word.isascii())


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
        assert set(query_words(part)) <= set(words_of(whole))
        assert query_words(part[0]) == [part[0]]
    assert query_words("开会讨论") == ["开会", "会讨", "讨论"], "by all of its pairs"


def test_a_question_is_what_it_is_about() -> None:
    """The reference dropped Q3, since it is short."""
    assert query_words("What did we say about the Q3 budget?") == ["say", "q3", "budget"]
    assert query_words("what is it") == ["what", "is", "it"], "what has no other words is looked for as it is"
    assert len(STOP_WORDS) < 80


@given(st.integers(0, 400))
def test_a_long_query_is_cut(count: int) -> None:
    assert len(query_words(" ".join(f"word{number}" for number in range(count)))) == min(count, MOST_WORDS)


@given(TEXTS)
def test_a_word_is_short_and_never_empty(text: str) -> None:
    assert all(0 < len(word) <= LONGEST_WORD for word in words_of(text))


@given(TEXTS | st.text("aB3+# c,", max_size=40))
@example("C++ or C#")
@example("c++")
@example("c#")
def test_different_words_are_the_words_once_each(text: str) -> None:
    assert distinct_words(text) == set(words_of(text))


@pytest.mark.parametrize("selector", ["\ufe00", "\ufe0e", "\ufe0f"])
def test_how_a_character_is_drawn_is_no_part_of_a_word(selector: str) -> None:
    """A variation selector stands behind it, as in the red heart."""
    assert words_of(f"\u2764{selector}plum") == words_of("\u2764 plum")


@given(st.text(max_size=60) | st.text("ab 明天 what the\n", max_size=60))
def test_the_words_of_a_message_begin_with_those_of_a_query(text: str) -> None:
    words = message_words(text)

    assert query_words(text) == words[:MOST_WORDS]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("gap", [" ", "\n"])
def test_all_words_of_a_long_message_are_read_whole(gap: str) -> None:
    words = [f"word{number}" for number in range(3000)]
    unbroken = "x" * (2 * LONGEST_QUERY + 1)

    assert message_words(gap.join(words)) == words
    assert message_words(f"{unbroken}{gap}end") == ["x" * LONGEST_WORD, "x", "end"]


def test_of_a_longer_message_both_ends_are_read() -> None:
    text = f"{'first ' * (LONGEST_MESSAGE // 6)}xx middle {'last ' * (LONGEST_MESSAGE // 5)}"

    assert message_words(text) == ["first", "xx", "last"]

"""Where words, queries and long messages are cut, to the character."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings, strategies as st

from cognition.context.words import (
    LONGEST_MESSAGE,
    LONGEST_QUERY,
    LONGEST_WORD,
    MOST_WORDS,
    STOP_WORDS,
    _parts,
    distinct_words,
    message_words,
    query_words,
    words_of,
)


def unbroken(length: int) -> str:
    return "x" * length


# ------------------------------------------------------------------------------------------------------ parts of a text

LENGTHS = st.sampled_from((1, 2, 999, LONGEST_QUERY - 1, LONGEST_QUERY, LONGEST_QUERY + 1, 2 * LONGEST_QUERY))
PIECES = st.lists(st.tuples(LENGTHS, st.sampled_from((" ", "\n", ""))), max_size=6).map(
    lambda pieces: "".join(unbroken(length) + gap for length, gap in pieces)
)


@settings(max_examples=30)
@given(PIECES)
@example("")
@example(" " + unbroken(LONGEST_QUERY))
@example(unbroken(LONGEST_QUERY - 1) + " " + unbroken(9))
@example(unbroken(LONGEST_QUERY) + " " + unbroken(9))
@example(unbroken(9) + "\n" + unbroken(20) + " " + unbroken(LONGEST_QUERY))
@example(unbroken(9) + " " + unbroken(20) + "\n" + unbroken(LONGEST_QUERY))
@example("x " + unbroken(LONGEST_QUERY))
@example("x\n" + unbroken(LONGEST_QUERY))
@example("x x " + unbroken(LONGEST_QUERY) + "x x " + unbroken(LONGEST_QUERY))
def test_a_part_is_the_longest_that_ends_between_two_words(text: str) -> None:
    """Or, if a word fills it, the longest; a gap at its beginning is no end."""
    parts = list(_parts(text))

    assert "".join(parts) == text
    begin = 0
    for part in parts[:-1]:
        whole = text[begin : begin + LONGEST_QUERY]
        gaps = [place for place in range(1, LONGEST_QUERY) if whole[place] in " \n"]
        assert part == (whole[: gaps[-1] + 1] if gaps else whole)
        begin += len(part)
    assert len(text) - begin == len(parts[-1]) <= LONGEST_QUERY
    assert all(parts) or not text


@pytest.mark.parametrize("more", [0, 1])
def test_a_text_is_one_part_up_to_its_longest(more: int) -> None:
    text = "x " * (LONGEST_QUERY // 2 - 1) + unbroken(2 + more)

    assert list(_parts(text)) == ([text] if not more else [text[: LONGEST_QUERY - 2], unbroken(3)])


# ---------------------------------------------------------------------------------------------------- words of messages


def test_a_message_of_just_both_ends_is_read_whole_and_of_a_longer_one_the_middle_is_not() -> None:
    """Its middle is one character, the word ``z``. It is left out if the text is a character longer than both ends."""
    front, back = "a " * (LONGEST_MESSAGE // 2), " b" * (LONGEST_MESSAGE // 2)

    assert message_words(f"{front}{back}") == ["b"], "``a`` has no information"
    assert message_words(f"{front[:-1]}z{back}") == ["az", "b"]
    assert message_words(f"{front}z{back}") == ["b"]
    assert message_words(f"{front}z{back[1:]}") == ["zb", "b"]


@pytest.mark.parametrize("behind", [9_000, LONGEST_MESSAGE // 2 - 1])
def test_no_word_of_a_message_that_is_read_whole_is_cut(behind: int) -> None:
    """The word ``zzzz`` is at the end of what would be read of the front, and the text has at most both ends."""
    text = f"{'a ' * (LONGEST_MESSAGE // 2 - 1)}zzzz{' b' * behind}"

    assert len(text) <= 2 * LONGEST_MESSAGE
    assert message_words(text) == ["zzzz", "b"]


def test_each_end_of_a_long_message_is_read_to_its_last_character() -> None:
    front, middle, back = f"{unbroken(LONGEST_MESSAGE - 3)} q7", "r8", f"s9 {unbroken(LONGEST_MESSAGE - 3)}"

    assert message_words(f"{front}{middle}{back}") == [unbroken(LONGEST_WORD), "q7", "s9"]


def test_words_of_a_message_come_in_its_order_and_once() -> None:
    text = "plum 明天下午 the plum 雨 pear of 明天 apple"

    assert message_words(text) == ["plum", "明天", "天下", "下午", "雨", "pear", "apple"]
    assert message_words("the of 雨") == ["雨"]
    assert message_words("Λόγοι the жук") == ["λογοι", "жук"], "scripts with spaces"
    assert query_words("Λόγοι the жук") == ["λογοι", "жук"]
    assert message_words("What of the what") == ["what", "of", "the"]
    assert message_words("") == []


@pytest.mark.parametrize("read", [message_words, query_words])
def test_a_long_word_counts_by_its_beginning(read: object) -> None:
    assert callable(read)
    assert read(f"{unbroken(LONGEST_WORD)} {unbroken(LONGEST_WORD)}y z") == [unbroken(LONGEST_WORD), "z"]
    assert read(unbroken(LONGEST_WORD - 1)) == [unbroken(LONGEST_WORD - 1)]
    assert read("é" * (LONGEST_WORD + 1)) == ["e" * LONGEST_WORD]


def test_a_message_has_more_words_than_a_query() -> None:
    words = [f"w{number}" for number in range(MOST_WORDS + 1)]

    assert query_words(" ".join(words)) == words[:MOST_WORDS]
    assert message_words(" ".join(words)) == words


# ------------------------------------------------------------------------------------------------------- words of texts


def test_a_query_is_read_up_to_its_longest() -> None:
    text = f"{'the ' * (LONGEST_QUERY // 4 - 1)}q7 "

    assert len(text) == LONGEST_QUERY - 1
    assert query_words(f"{text}r8") == ["q7", "r"]
    assert query_words(f"{text} r8") == ["q7"]


def test_a_query_ends_with_its_pairs_at_the_most_words() -> None:
    """They are cut, also if the last word brings several."""
    run = "".join(chr(0x4E00 + place) for place in range(MOST_WORDS + 3))

    assert query_words(run) == [run[place : place + 2] for place in range(MOST_WORDS)]
    assert query_words(" ".join(f"w{number}" for number in range(MOST_WORDS - 1)) + run)[-1] == run[:2]


def test_stop_words_are_those_without_a_subject() -> None:
    assert query_words(" ".join(sorted(STOP_WORDS))) == sorted(STOP_WORDS)[:MOST_WORDS]
    assert query_words(" ".join([*sorted(STOP_WORDS), "plum"])) == ["plum"]


@given(st.lists(st.sampled_from("abz019 +#-_.\n"), max_size=12).map("".join))
def test_words_of_ascii_are_letters_and_digits_and_the_names_of_languages(text: str) -> None:
    """An oracle without expressions: runs of letters and digits, and a single letter with its ``++`` or ``#``."""
    found, place = [], 0
    while place < len(text):
        if not text[place].isalnum():
            place += 1
            continue
        alone = text[place].isalpha() and (place == 0 or not text[place - 1].isalnum())
        for sign in ("++", "#"):
            behind = place + 1 + len(sign)
            if alone and text.startswith(sign, place + 1) and not text[behind : behind + 1].isalnum():
                found.append(text[place:behind])
                place = behind
                break
        else:
            end = place
            while end < len(text) and text[end].isalnum():
                end += 1
            found.append(text[place:end])
            place = end

    assert words_of(text) == found
    assert distinct_words(text) == set(found)


@pytest.mark.parametrize("length", [LONGEST_WORD - 1, LONGEST_WORD, LONGEST_WORD + 1])
@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_texts_words_are_cut_at_their_longest(length: int, letter: str) -> None:
    plain = unicodedata.normalize("NFKD", letter)[0] * min(length, LONGEST_WORD)

    assert words_of(letter * length) == [plain]
    assert distinct_words(letter * length) == {plain}
    assert distinct_words(f"{letter * length} y") == {plain, "y"}


def test_marks_are_words_if_they_are_symbols_and_gaps_if_not() -> None:
    assert words_of("a€b") == ["a", "b"], "a currency"
    assert words_of("a☂b") == ["a☂b"], "a symbol"
    assert words_of("a\u093eb") == ["a\u093eb"], "a mark that joins letters"
    assert words_of("a—b") == ["a", "b"], "a dash"
    assert words_of("a\u200bb") == ["a", "b"], "a format character"
    assert words_of("½ ٣") == ["1", "2", "3"], "a fraction is taken apart"
    assert words_of("é C++ ç# é+") == ["e", "c++", "c#", "e"]

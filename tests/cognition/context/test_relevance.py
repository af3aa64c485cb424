"""Relevance: which texts are about a question, in which order, and how sure that is."""

import pytest
from hypothesis import given, strategies as st

from cognition.context._stemmer import stem_of
from cognition.context.relevance import HALF_LIFE, LONGEST_LOOKED_AT, PIECE, apply_recency, scores_of, words_in
from cognition.context.words import query_words, words_of

TEXTS = st.text("ab cdé一二 C+3", max_size=40) | st.text(max_size=40)


@given(TEXTS, st.lists(TEXTS, max_size=6))
def test_scores_are_from_nothing_to_all_and_always_the_same(question: str, texts: list[str]) -> None:
    scores = scores_of(question, texts)
    words_in.cache_clear()

    assert len(scores) == len(texts)
    assert all(0 <= score <= 1 for score in scores)
    assert scores == scores_of(question, texts)


@given(TEXTS, st.lists(TEXTS, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_the_texts_makes_no_difference(question: str, texts: list[str], random: object) -> None:
    places = list(range(len(texts)))
    random.shuffle(places)  # type: ignore[attr-defined]  # a Random of Hypothesis's own

    shuffled = scores_of(question, [texts[place] for place in places])

    assert shuffled == [scores_of(question, texts)[place] for place in places]


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=6), TEXTS)
def test_more_text_is_never_less_relevant_by_the_words_that_only_it_has(
    question: str, texts: list[str], more: str
) -> None:
    """What is added to the only text there is can't make it fit less."""
    (before,) = scores_of(question, texts[:1])
    (after,) = scores_of(question, [f"{texts[0]} {more}"])

    assert after >= before


@given(TEXTS)
def test_a_text_is_all_about_itself(text: str) -> None:
    assert scores_of(text, [text]) == [1.0 if words_in(text) else 0.0]


def test_forms_of_a_word_are_one_and_parts_of_words_are_none() -> None:
    """The reference found substrings: "app" in "application", and "art" in "party"."""
    (score,) = scores_of("deploy the app to staging", ["Staging application deployed"])

    assert score == pytest.approx(2 / 3)
    assert scores_of("art", ["a party", "the art of baking"]) == [0.0, 1.0]


@given(TEXTS | st.text("ady ingle", max_size=30), st.lists(TEXTS | st.text("ady ingle", max_size=60), max_size=6))
def test_scores_are_those_that_stems_of_all_words_give(question: str, texts: list[str]) -> None:
    """Stems are made of few words only, and no word that has one of the question's is missed."""
    asked = {stem_of(word) for word in query_words(question)}
    found = [{stem_of(word) for word in words_of(text)} for text in texts]
    having = {stem: sum(stem in stems for stems in found) for stem in asked}
    weights = {stem: (len(texts) // many).bit_length() if many else 1 for stem, many in having.items()}

    assert scores_of(question, texts) == [
        sum(weights[stem] for stem in asked & stems) / sum(weights.values()) if asked else 0.0 for stems in found
    ]


def test_short_words_with_digits_count() -> None:
    """The reference dropped Q3 of "What did we say about the Q3 budget?"."""
    good, bad = scores_of("What did we say about the Q3 budget?", ["Q3 was good.", "Q2 was bad."])

    assert good > 0 == bad


def test_a_word_that_few_texts_have_weighs_more() -> None:
    texts = ["the bakery opens", "the bakery closes", "the bakery pays Ada", "the bakery sells bread"]
    scores = scores_of("bakery Ada", texts)

    assert scores == [0.25, 0.25, 1.0, 0.25]


def test_a_word_that_no_text_has_weighs_like_a_common_one() -> None:
    assert scores_of("bakery zzz", ["bakery"]) == [0.5]


def test_scripts_without_spaces_are_found_by_parts_of_sentences() -> None:
    assert scores_of("开会", ["明天下午开会讨论", "明天下午"]) == [1.0, 0.0]
    assert scores_of("会議は明日", ["会議は明日です"]) == [1.0]


def test_a_question_without_words_is_about_nothing() -> None:
    assert scores_of("?!", ["a", "?!"]) == [0.0, 0.0]
    assert scores_of("plums", []) == []


def test_a_long_text_is_read_in_pieces_between_words() -> None:
    text = "plums " * (PIECE // 5) + "pears"
    endless = "x" * (PIECE + 10)

    assert words_in(text) == {"plums", "pears"}
    assert words_in(endless) == {"x" * 64, "x" * 10}
    assert "late" not in words_in("a " * (LONGEST_LOOKED_AT // 2) + "late")


@given(st.floats(0, 1), st.none() | st.floats(allow_nan=True), st.floats(allow_nan=True), st.floats(0, 1))
def test_age_takes_away_no_more_than_its_part(score: float, at: float | None, now: float, recency: float) -> None:
    left = apply_recency(score, at, now, recency)

    assert score * (1 - recency) - 1e-12 <= left <= score


def test_a_second_is_an_age() -> None:
    assert apply_recency(1.0, 0.0, 1.0, 1.0) == pytest.approx(HALF_LIFE / (HALF_LIFE + 1.0), rel=1e-12)


def test_half_of_what_age_can_take_is_gone_after_the_half_life() -> None:
    assert apply_recency(0.8, 0.0, 0.0, 0.5) == 0.8
    assert apply_recency(0.8, 0.0, HALF_LIFE, 0.5) == pytest.approx(0.6)
    assert apply_recency(0.8, None, 0.0, 0.5) == pytest.approx(0.4)
    assert apply_recency(0.8, None, 0.0, 0.0) == 0.8
    assert apply_recency(0.8, 5.0, 0.0, 0.5) == 0.8, "what was written in the future is new"

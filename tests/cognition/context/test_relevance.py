"""Relevance: which texts are about a question, in which order, and how sure that is."""

import pytest
from hypothesis import given, strategies as st

from cognition.context._stemmer import stem_of
from cognition.context.relevance import (
    HALF_LIFE,
    LONGEST_LOOKED_AT,
    OWN_WORDS,
    PIECE,
    apply_recency,
    scores_of,
    words_in,
)
from cognition.context.words import LONGEST_MESSAGE, MOST_WORDS, query_words, rarest_words, words_of

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


LOG = "\n".join(
    f"12:00:{number:02d} worker-{number} took {number * 37} ms for /items/{number * 7}" for number in range(60)
)
"""As people paste it: 200 different words and more, before or behind their question."""


@pytest.mark.parametrize("message", [f"{LOG}\nWhen does the bakery open?", f"When does the bakery open?\n{LOG}"])
def test_a_question_beside_a_pasted_log_finds_what_it_asks_for(message: str) -> None:
    """Only the first 24 words of a message counted once: a log in front hid the question."""
    others = [f"worker-{number} was slow, it took long" for number in range(40)]

    scores = scores_of(message, [*others, "The bakery opens at seven."])

    assert max(scores[:-1]) < scores[-1]
    assert scores[-1] >= 0.25, "the floor of the memory's section"


def test_before_edition_3_only_the_first_words_of_a_message_count() -> None:
    message = f"{LOG}\nWhen does the bakery open?"

    assert scores_of(message, ["The bakery opens at seven."], first_words=True) == [0.0]
    assert scores_of(message, ["The bakery opens at seven."]) == [2 / OWN_WORDS]


@given(
    st.lists(st.integers(0, 60), min_size=MOST_WORDS, max_size=80),
    st.lists(st.lists(st.integers(0, 60), max_size=30), min_size=1, max_size=5),
)
def test_of_a_long_question_the_rarest_words_that_occur_count(asked: list[int], texts: list[list[int]]) -> None:
    """A text that has some of them is all about the question: as many as a question has without a log beside it."""
    words = list(dict.fromkeys(asked))
    many = {word: sum(word in text for text in texts) for word in words}
    counted = words
    if len(words) > MOST_WORDS:
        from_an_end = {word: min(place, len(words) - 1 - place) for place, word in enumerate(words)}
        occurring = [word for word in words if many[word]]
        counted = sorted(occurring, key=lambda word: (many[word], from_an_end[word]))[:MOST_WORDS]
    weights = {word: (len(texts) // many[word]).bit_length() if many[word] else 1 for word in counted}
    total = sum(weights.values())
    if len(words) > MOST_WORDS:
        own = [weights[word] for word in counted][:OWN_WORDS]
        total = sum(own) + OWN_WORDS - len(own)

    scores = scores_of(
        " ".join(f"w{word}" for word in asked), [" ".join(f"w{word}" for word in text) for text in texts]
    )

    assert scores == [min(sum(weights[word] for word in counted if word in text) / total, 1) for text in texts]


def test_as_many_words_as_count_are_a_short_question() -> None:
    words = [f"w{number}" for number in range(MOST_WORDS + 1)]

    assert scores_of(" ".join(words[:-1]), ["w0", "w0 w1"]) == [1 / (MOST_WORDS + 1), 3 / (MOST_WORDS + 1)]
    assert scores_of(" ".join(words), ["w0", "w0 w1"]) == [1 / (OWN_WORDS + 1), 3 / (OWN_WORDS + 1)]
    assert scores_of(" ".join(words), ["none"]) == [0.0]
    assert scores_of(" ".join(words), [" ".join(words)]) == [1.0]


def test_of_equally_rare_words_those_nearest_to_an_end_come_first() -> None:
    counts = {f"w{place}": 1 for place in range(2 * MOST_WORDS)}
    words = list(counts)

    assert rarest_words({**counts, "w5": 0, "w20": 2})[:5] == ["w0", "w47", "w1", "w46", "w2"]
    assert len(rarest_words(counts)) == MOST_WORDS
    assert set(rarest_words(counts)) == {*words[: MOST_WORDS // 2], *words[-MOST_WORDS // 2 :]}
    assert rarest_words({"a": 3, "b": 0, "c": 2, "d": 1}) == ["d", "c", "a"]


def test_forms_of_a_word_are_one_in_a_long_question_too() -> None:
    assert scores_of(f"{LOG} deployed bakeries", ["deploy a bakery"]) == [2 / OWN_WORDS]


def test_the_middle_of_an_endless_message_does_not_count() -> None:
    message = f"plums {'x ' * LONGEST_MESSAGE} pears {'x ' * LONGEST_MESSAGE} quinces"

    assert scores_of(message, ["plums", "pears", "quinces"]) == [2 / 5, 0.0, 2 / 5]


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

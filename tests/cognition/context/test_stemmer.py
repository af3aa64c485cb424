"""English stems: which forms are one word."""

import pytest
from hypothesis import example, given, strategies as st

from cognition.context._stemmer import FOURTH, ODD, SECOND, THIRD, beginnings_of, stem_of

FAMILIES = (
    "deploy deploys deployed deploying",
    "stage stages staged staging",
    "cat cats",
    "pony ponies",
    "tie ties tying",
    "die dies died dying",
    "sky skies",
    "caress caresses",
    "agree agreed",
    "plaster plastered",
    "hop hopped hopping",
    "hope hoped hoping",
    "fall falling falls",
    "size sized sizing",
    "conflate conflated",
    "quick quickly",
    "relate relational",
    "rational rationally",
    "vietnamize vietnamization",
    "hopeful hopefulness",
    "decide decided deciding",
    "technologist technologists",
    "technology technological technologies",
    "sensible sensibly",
    "communicate communicating communications",
    "organize organized organization organizations",
    "add added adding adds",
    "formal formally formalize",
    "electric electrical electricity",
    "adopt adoption",
    "probate probated",
    "control controlling controls",
    "cease ceased",
    "exceed exceeds exceeding",
    "weak weakness weaknesses",
    "fly flies",
    "puree purees pureed",
    "love loved loving lovingly",
    "seem seemed seeming seemingly",
    "repeat repeated repeatedly",
    "timetable timetabled timetabling",
    "memorize memorized memorizing",
    "occur occurred occurring",
    "see sees seeing",
    "express expression",
)
"""Words that are to be one, a family a line."""


@pytest.mark.parametrize("family", FAMILIES)
def test_the_forms_of_a_word_have_one_stem(family: str) -> None:
    assert len({stem_of(word) for word in family.split()}) == 1


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("sing", "sing"),
        ("bed", "bed"),
        ("feed", "feed"),
        ("this", "this"),
        ("gas", "gas"),
        ("kiwis", "kiwi"),
        ("us", "us"),
        ("news", "news"),
        ("say", "say"),
        ("cry", "cri"),
        ("yes", "yes"),
        ("youth", "youth"),
        ("boy", "boy"),
        ("evening", "evening"),
        ("herring", "herring"),
        ("international", "internat"),
        ("past", "past"),
        ("paste", "paste"),
        ("pasted", "past"),
        ("generous", "generous"),
        ("analogies", "analog"),
        ("geologi", "geolog"),
        ("pedagogy", "pedagogi"),
        ("family", "famili"),
        ("ogi", "ogi"),
        ("gently", "gentl"),
        ("fully", "fulli"),
        ("nationally", "nation"),
        ("sensitive", "sensit"),
        ("talkative", "talkat"),
        ("region", "region"),
        ("opinion", "opinion"),
        ("skill", "skill"),
        ("hello", "hello"),
        ("rate", "rate"),
        ("indeedly", "inde"),
        ("ly", "ly"),
    ],
)
def test_what_only_looks_like_an_ending_stays(word: str, stem: str) -> None:
    assert stem_of(word) == stem


@pytest.mark.parametrize("word", ["q3", "c++", "c#", "", "a", "go", "über", "会议", "x1ing", "17", "ging3s"])
def test_what_is_no_english_word_is_its_own_stem(word: str) -> None:
    assert stem_of(word) == word


@given(st.text("abcdeilnoqstuyz", max_size=12) | st.text(max_size=10))
def test_a_stem_is_no_longer_than_its_word_and_a_letter(word: str) -> None:
    stem = stem_of(word)

    assert len(stem) <= len(word) + 1
    assert bool(stem) == bool(word)
    assert stem[:1] == word[:1]


ENDINGS = [ending for ending, _ in SECOND + THIRD] + [
    *FOURTH,
    *"s e y ed ing ly ied ies eed sses edly ingly eedly".split(),
]
WORDS = st.builds(
    lambda begin, ends: begin + "".join(ends),
    st.text("aeiouybcdlstnzrgmp", max_size=4),
    st.lists(st.sampled_from(ENDINGS), max_size=3),
)


@given(WORDS | st.text(max_size=10) | st.sampled_from(list(ODD)))
@example("fly")
def test_words_begin_as_is_said_of_their_stems(word: str) -> None:
    """Only of words that begin so the stem is made, so that no other one may have it."""
    stem = stem_of(word)

    assert not stem or word.startswith(beginnings_of({stem}))
    assert beginnings_of(set()) == ()


@pytest.mark.parametrize(
    ("stem", "begin"),
    [("deploy", ("dep",)), ("sail", ("sai",)), ("fli", ("fl",)), ("go", ("g",)), ("a", ("a",)), ("ski", ("sk", "ski"))],
)
def test_a_beginning_has_three_letters_or_all_but_the_last(stem: str, begin: tuple[str, ...]) -> None:
    """Longer beginnings would miss words, and shorter ones would make stems of too many; ``skis`` is an exception."""
    assert beginnings_of({stem}) == begin

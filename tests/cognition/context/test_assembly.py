"""Sections of a prompt: what is in, in which order, and why."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from cognition import Candidate, ConfigError, Section
from cognition.context.assembly import (
    EMPTY,
    FITS,
    IS_CONVERSATION,
    MANDATORY,
    NO_ROOM,
    NOT_ALL,
    NOTHING_OF_IT,
    TRIM_STEP,
    TRIMMED,
    TWICE,
    Assembly,
    assemble,
    trim,
)
from cognition.values.candidates import DEFAULT_SECTIONS, check_sections

WORDS = st.lists(st.sampled_from(["plums", "pears", "the", "bakery", "Q3", "</memory>", "会议"]), max_size=60).map(
    " ".join
)
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.sampled_from(["identity", "instructions", "memory", "skills", "history", "nowhere"]),
        WORDS,
        st.sampled_from(["", "notes.md", "MEMORY.md:3"]),
        st.integers(0, 20).map(lambda number: number == 20),
        st.none() | st.floats(0, 1e9),
    ),
    max_size=12,
)
OWN = (
    Section("style", 0.2, changes="seldom"),
    Section("facts", 0.3, floor=0.4, recency=0.5),
    Section("tips", 0.1, mandatory=True),
)
MESSAGE = "plums of the bakery in Q3"


def made(candidates: list[Candidate], room: int = 5000, newest: int = 100, held: int = 100, **more: object) -> Assembly:
    sections = more.get("sections", DEFAULT_SECTIONS)
    assert isinstance(sections, tuple)
    return assemble(candidates, sections, str(more.get("message", MESSAGE)), room, newest, held)


def fates(done: Assembly) -> list[tuple[str, str]]:
    return [(choice.fate, choice.why) for choice in done.choices]


@given(CANDIDATES, st.integers(-10, 6000), st.integers(0, 1000), st.integers(0, 3000))
def test_sections_and_the_newest_message_are_never_over_the_budget(
    candidates: list[Candidate], room: int, newest: int, held: int
) -> None:
    done = made(candidates, room, newest, held)
    size = sum(len(text) + 2 for text in (done.briefing.standing, done.briefing.passing) if text)

    assert size == 0 or size + newest <= room
    assert done == made(candidates, room, newest, held)
    assert len(done.choices) == len(candidates)
    if done.problem:
        assert size == 0


@given(CANDIDATES, st.integers(0, 5000), st.integers(0, 2000), st.integers(0, 400), st.integers(0, 2000))
def test_a_larger_budget_never_shows_less(
    candidates: list[Candidate], room: int, more: int, newest: int, held: int
) -> None:
    small, large = made(candidates, room, newest, held), made(candidates, room + more, newest, held)

    assert all(one.shown <= other.shown for one, other in zip(small.choices, large.choices, strict=True))
    assert small.problem or not large.problem


@given(CANDIDATES, st.integers(0, 5000))
@pytest.mark.behaviour("K18g")
def test_what_has_to_be_in_is_in_whole_or_the_turn_ends(candidates: list[Candidate], room: int) -> None:
    done = made(candidates, room)

    for candidate, choice in zip(candidates, done.choices, strict=True):
        forced = candidate.mandatory or candidate.section in ("identity", "instructions")
        if forced and candidate.text.strip() and not done.problem and room >= 100:
            assert choice.fate == "included"
            assert choice.shown == choice.tokens


@given(CANDIDATES)
def test_candidates_of_one_section_stand_best_first_and_equally_good_ones_as_they_were_given(
    candidates: list[Candidate],
) -> None:
    numbered = [Candidate(one.section, f"{one.text} n{place}", one.source) for place, one in enumerate(candidates)]
    done = made(numbered, 100_000)
    text = f"{done.briefing.standing}\n\n{done.briefing.passing}"

    for section in ("identity", "instructions", "memory", "skills"):
        placed = [
            (text.index(f" n{place}\n"), choice.score, place)
            for place, (one, choice) in enumerate(zip(numbered, done.choices, strict=True))
            if one.section == section and choice.fate == "included"
        ]
        for (at, score, place), (next_at, next_score, next_place) in pairwise(sorted(placed)):
            assert at < next_at
            assert score > next_score or (score == next_score and place < next_place)


@given(CANDIDATES, WORDS, WORDS, st.integers(0, 300))
def test_what_changes_seldom_depends_on_no_message(
    candidates: list[Candidate], message: str, other: str, newest: int
) -> None:
    """Nor on what else there is for it: else the prompt's beginning would be read anew with each message."""
    candidates = [one for one in candidates if not one.mandatory]
    alone = [one for one in candidates if one.section in ("identity", "instructions")]
    first = made(candidates, 20_000, message=message)
    second = made(alone, 20_000, newest, message=other)

    assert first.briefing.standing == second.briefing.standing


def test_how_it_is_written() -> None:
    done = made(
        [
            Candidate("skills", "Baking plums."),
            Candidate("memory", "Ada likes plums.", "MEMORY.md:3"),
            Candidate("instructions", "Be kind.", "AGENTS.md"),
            Candidate("identity", "You are Ada's baker.", 'the "book"'),
        ]
    )

    assert done.briefing.standing == (
        "<identity>\n<source path=\"the 'book'\">\nYou are Ada's baker.\n</source>\n</identity>\n\n"
        '<instructions>\n<source path="AGENTS.md">\nBe kind.\n</source>\n</instructions>'
    )
    assert done.briefing.passing == (
        '<memory>\n<source path="MEMORY.md:3">\nAda likes plums.\n</source>\n</memory>\n\n'
        "<skills>\nBaking plums.\n</skills>"
    )
    assert fates(done) == [("included", FITS), ("included", FITS), ("included", MANDATORY), ("included", MANDATORY)]
    used = {use.name: use.tokens for use in done.uses}
    assert used["memory"] + used["skills"] + 2 == len(done.briefing.passing)
    assert used["history"] == 100


def test_why_something_is_left_out() -> None:
    done = made(
        [
            Candidate("memory", "Nobody likes pears."),
            Candidate("memory", " \n"),
            Candidate("memory", "plums"),
            Candidate("memory", "plums"),
            Candidate("history", "plums"),
            Candidate("nowhere", "plums"),
            Candidate("identity", "\n"),
        ]
    )

    assert fates(done) == [
        ("left_out", NOTHING_OF_IT),
        ("left_out", EMPTY),
        ("included", FITS),
        ("left_out", TWICE),
        ("left_out", IS_CONVERSATION),
        ("left_out", "there is no section 'nowhere'"),
        ("left_out", EMPTY),
    ]


def test_all_of_a_long_message_is_compared() -> None:
    message = f"{' '.join(f'w{number}' for number in range(30))} plums Ada"

    done = made([Candidate("memory", "Ada likes plums.")], message=message)

    assert fates(done) == [("included", FITS)]


def test_the_floor_of_the_reference() -> None:
    """A candidate for the memory with a relevance of 0.2 is dropped: that is below 0.25. One for skills is not."""
    text = "only bread"
    message = "bread plums pears apples cherries"
    done = made([Candidate("memory", text), Candidate("skills", text)], message=message)

    assert done.choices[0].score == 0.2
    assert fates(done) == [
        ("left_out", "its relevance of 0.20 is below the section's floor of 0.25"),
        ("included", FITS),
    ]


def test_from_where_one_does_not_fit_none_is_in() -> None:
    """The reference took smaller ones instead, so that a larger budget could show less."""
    candidates = [
        Candidate("memory", "plums " * 400),
        Candidate("memory", "plums " * 400 + "!"),
        Candidate("memory", "plums"),
    ]
    done = made(candidates, 4000, sections=(Section("memory", 0.75),), message="plums")

    assert fates(done) == [("included", FITS), ("trimmed", NOT_ALL), ("left_out", NO_ROOM)]
    assert made(candidates, 2550, sections=(Section("memory", 0.9),), message="plums").choices[1].fate == "left_out"


def test_a_trimmed_text_is_its_beginning_and_its_end() -> None:
    """Of a candidate of 10,000 tokens with room for 6,000 the reference shows 70 % and 30 %, its marker included."""
    text = "".join(f"{number:07} " for number in range(3750))
    short = trim(text, 18_000)
    head, marker, tail = short.partition("\n[... ")

    assert len(short) == 18_000
    assert text.startswith(head)
    assert text.endswith(tail.partition("...]\n")[2])
    assert len(head) == (18_000 - len(TRIMMED.format(30_000))) * 7 // 10
    assert (
        marker + tail.partition("...]\n")[0]
        == "\n[... 12076 characters of this text are left out here for want of room "
    )


@given(st.text(min_size=1000, max_size=2000), st.integers(-5, 900))
def test_a_text_is_trimmed_in_steps(text: str, room: int) -> None:
    short = trim(text, room)

    assert len(short) <= max(room, 0)
    assert bool(short) == (room >= TRIM_STEP)
    assert short == trim(text, room // TRIM_STEP * TRIM_STEP)


def test_the_turn_ends_where_something_that_has_to_be_in_does_not_fit() -> None:
    candidates = [Candidate("instructions", "x" * 3000, "AGENTS.md"), Candidate("identity", "Ada")]

    assert made(candidates, 2000).problem == (
        "the texts that have to be in the prompt need about 3099 tokens, and 1900 are left for them beside "
        "the message; shorten 'AGENTS.md' (3037 tokens), or use a model with a longer context"
    )
    assert made([Candidate("skills", "x" * 3000, mandatory=True)], 50).problem.startswith(
        "the texts that have to be in the prompt need about 3022 tokens, and 0 are left for them"
    )
    assert made([Candidate("skills", "plums")], 50).problem == "", "it is the message that does not fit"


@pytest.mark.parametrize(
    ("candidate", "problem"),
    [
        (
            Candidate("nowhere", "x", mandatory=True),
            "the text for 'nowhere' has to be in the prompt, and there is no section 'nowhere'; there are identity, "
            "instructions, memory, skills",
        ),
        (
            Candidate("history", "x", "a.md", mandatory=True),
            "'a.md' has to be in the prompt, and the section 'history' is the conversation itself; there are identity, "
            "instructions, memory, skills",
        ),
    ],
)
def test_the_turn_ends_where_no_section_takes_what_has_to_be_in(candidate: Candidate, problem: str) -> None:
    assert made([candidate]).problem == problem


def test_sections_of_ones_own() -> None:
    done = made(
        [
            Candidate("facts", "plums bakery", at=-1e12),
            Candidate("tips", "Wash plums."),
            Candidate("style", "Rhyme."),
            Candidate("style", "Be short.", mandatory=True),
            Candidate("facts", "plums bakery Q3"),
        ],
        sections=OWN,
    )

    assert done.briefing.standing == "<style>\nRhyme.\nBe short.\n</style>", "in the order in which they were given"
    assert done.briefing.passing == "<facts>\nplums bakery Q3\n</facts>\n\n<tips>\nWash plums.\n</tips>"
    assert [use.name for use in done.uses] == ["style", "facts", "tips"]


def test_the_conversation_keeps_its_messages_before_others_get_more_than_their_shares() -> None:
    candidates = [Candidate("memory", f"plums {'x' * 4000}")]

    assert made(candidates, 6000, held=100).choices[0].shown > made(candidates, 6000, held=3000).choices[0].shown


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ((Section("a", 0.1), Section("a", 0.2)), "two sections are named 'a'"),
        ((Section("a", 0.8), Section("history", 0.3)), r"the shares of the sections are 1.1 together, and can be 1"),
        ((Section("a", 1.0),), "no room for the conversation"),
        ((Section("a", 1.0), Section("history", 0.0)), "no room for the conversation"),
    ],
)
def test_sections_that_can_not_stand_together_are_refused(sections: tuple[Section, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_sections(sections)


@pytest.mark.parametrize("name", ["", "source", "Memory", "1st", "a b", "x" * 33])
def test_a_section_needs_a_name_that_can_be_a_tag(name: str) -> None:
    with pytest.raises(ConfigError, match="section name"):
        Section(name, 0.1)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_from_nothing_to_all(share: float) -> None:
    with pytest.raises(ConfigError, match="must be from 0 to 1"):
        Section("a", share)
    with pytest.raises(ConfigError, match="must be from 0 to 1"):
        Section("a", 0.1, floor=share)


# ---------------------------------------------------------------------------------------------------- who gets how much

SELDOM = Section("style", 0.2, changes="seldom")
FACTS = Section("facts", 0.3)


def used(done: Assembly) -> dict[str, tuple[int, int]]:
    return {use.name: (use.budget, use.tokens) for use in done.uses}


def test_a_section_that_changes_seldom_gets_its_share_also_where_others_want_nothing() -> None:
    """Else its text would change, and be read anew, as soon as another section has something."""
    long = Candidate("style", "x" * 3000)
    alone = made([long], sections=(SELDOM, FACTS))
    both = made([long, Candidate("facts", "plums " * 900)], sections=(SELDOM, FACTS))

    assert used(alone)["style"] == used(both)["style"]
    assert used(alone)["style"][0] == 1000, "a fifth of 5,000"
    assert used(made([Candidate("facts", "plums " * 600)], sections=(SELDOM, FACTS)))["facts"][0] > 3000


def test_a_section_without_candidates_gets_nothing() -> None:
    done = made([Candidate("memory", "plums")])

    assert {name: used(done)[name] for name in ("identity", "instructions", "skills")} == {
        "identity": (0, 0),
        "instructions": (0, 0),
        "skills": (0, 0),
    }


@pytest.mark.parametrize("name", ["me", "memory", "everything_of_it"])
def test_a_section_is_in_where_there_is_room_for_just_its_text_and_its_tags(name: str) -> None:
    section = Section(name, 0.5, mandatory=True)
    written = f"<{name}>\nplums\n</{name}>"
    needed = 100 + len(written) + 2 + 1  # the message, the empty line before the section, the line break of its text

    fitting = made([Candidate(name, "plums")], needed, sections=(section,))
    assert (fitting.briefing.passing, fitting.problem) == (written, "")
    assert made([Candidate(name, "plums")], needed - 1, sections=(section,)).problem != ""


def test_a_mandatory_text_comes_before_a_more_relevant_one() -> None:
    candidates = [Candidate("memory", "plums " * 100), Candidate("memory", "Wash your hands.", mandatory=True)]
    done = made(candidates, 400, sections=(Section("memory", 0.5),), message="plums")

    assert [choice.score for choice in done.choices] == [1.0, 0.0]
    assert fates(done) == [("left_out", NO_ROOM), ("included", MANDATORY)]


@pytest.mark.parametrize(("floor", "fate"), [(0.2, "included"), (0.25, "included"), (0.26, "left_out")])
def test_a_floor_is_the_least_relevance_that_is_in(floor: float, fate: str) -> None:
    (choice,) = made(
        [Candidate("facts", "only bread")],
        sections=(Section("facts", 0.5, floor=floor),),
        message="bread plums pears apples",
    ).choices

    assert (choice.score, choice.fate) == (0.25, fate)


def test_a_score_is_one_where_no_message_is_asked_and_where_a_text_is_all_of_it_and_new() -> None:
    """Without a present time, a text of the time 0 is new."""
    done = made(
        [Candidate("style", "Rhyme."), Candidate("facts", "plums", at=0.0), Candidate("facts", "plums!")],
        sections=(SELDOM, Section("facts", 0.3, recency=0.5)),
        message="plums",
    )

    assert [choice.score for choice in done.choices] == [1.0, 1.0, 0.5]


@pytest.mark.parametrize("sections", [(), (Section("history", 0.5),)])
def test_where_there_are_no_sections_the_error_says_so(sections: tuple[Section, ...]) -> None:
    done = made([Candidate("tips", "x", mandatory=True)], sections=sections)

    assert done.problem == (
        "the text for 'tips' has to be in the prompt, and there is no section 'tips'; there are none"
    )


def test_the_conversation_has_the_room_that_sections_leave() -> None:
    done = made([Candidate("identity", "You are Ada."), Candidate("memory", "plums")])
    standing, passing = len(done.briefing.standing), len(done.briefing.passing)

    assert min(standing, passing) > 0
    assert used(done)["history"] == (5000 - standing - passing, 100)
    assert used(made([], -5))["history"] == (0, 100), "a room is never less than nothing"


def test_where_the_turn_ends_no_section_has_a_budget() -> None:
    done = made([Candidate("identity", "x" * 9000), Candidate("memory", "plums")])

    assert done.problem
    assert {name: budget for name, (budget, _) in used(done).items() if budget} == {"history": 5000}

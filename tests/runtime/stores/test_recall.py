"""A memory finds what a long message asks for, and what happened on the day that a question names."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from cognition.context.words import MOST_WORDS
from runtime import MemoryFolder
from runtime.stores._day_words import Days, days_in

NOON = datetime(2026, 11, 25, 12, 30)
TODAY = NOON.date()  # a Wednesday


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryFolder]:
    with MemoryFolder(tmp_path / "memory", now=lambda: NOON) as memory:
        yield memory


# ------------------------------------------------------------------------------------------------------ long messages


def log(lines: int, chance: random.Random) -> str:
    """A log as people paste it: its words are in no note, or in most."""
    places = ("worker", "server", "queue", "request", "retry", "notes", "user")
    names = [f"{chance.choice(places)}-{chance.getrandbits(24):06x}" for _ in range(lines)]
    return "\n".join(
        f"2026-11-25 12:{number % 60:02} {name} INFO {chance.choice(places)}" for number, name in enumerate(names)
    )


@pytest.mark.parametrize("behind", [True, False], ids=["behind a log", "before a log"])
@pytest.mark.parametrize("lines", [10, 100, 2000])
def test_a_question_is_found_beside_a_long_log(memory: MemoryFolder, behind: bool, lines: int) -> None:
    """Of 30 questions at least as many as without the log, less two, and each in the first five."""
    chance = random.Random(5)
    subjects = [f"{one}{other}" for one in ("bakery", "garden", "piano", "boiler", "ticket") for other in "abcdef"]
    for subject in subjects:
        memory.remember(f"The {subject} belongs to the user with the request of worker {chance.randint(1, 9)}.")
    hits = 0
    for subject in subjects:
        question, pasted = f"Whose is the {subject}?", log(lines, chance)
        text = f"{pasted}\n\n{question}" if behind else f"{question}\n\n{pasted}"
        hits += any(subject in found for found in memory.recall(text))

    assert hits >= len(subjects) - 2


def test_of_many_words_the_rarest_that_occur_are_used(memory: MemoryFolder) -> None:
    """As if only they were asked for; words that occur nowhere take no place. Of equally rare words, the end's come
    first: there, or at the beginning, stands the question.
    """
    for number in range(2 * MOST_WORDS):
        memory.remember(f"common word{number}")
        memory.remember(f"common word{number} again", topic="other")
    rare = memory.remember("rare thing common", topic="third")
    nowhere = " ".join(f"nowhere{number}" for number in range(3000))
    many = " ".join(f"word{number}" for number in range(2 * MOST_WORDS))

    found = memory.search(f"{nowhere} common {many} rare", limit=100)

    assert rare
    assert [one.text for one in found if "rare" in one.text] == ["rare thing common"]
    last = range(MOST_WORDS + 1, 2 * MOST_WORDS)
    assert {one.text.split()[1] for one in found} - {"thing"} == {f"word{number}" for number in last}
    assert found[0].excerpt == "rare thing common"


# --------------------------------------------------------------------------------------------------------------- days


def fill(memory: MemoryFolder) -> None:
    """An episode of each of the last 60 days, of which each names its day in words that no question has."""
    (memory.path / "episodes").mkdir()
    for back in range(60):
        day = TODAY - timedelta(days=back)
        text = f"## 10:00 — Planning\n\n- **User:** entry {day.toordinal()}\n"
        (memory.path / "episodes" / f"{day}.md").write_text(text)


QUESTIONS = {
    "What did we do last Tuesday?": date(2026, 11, 24),
    "What happened yesterday?": date(2026, 11, 24),
    "what did I say on 2026-10-03?": date(2026, 10, 3),
    "What did I work on two days ago?": date(2026, 11, 23),
    "What was planned on 20 November?": date(2026, 11, 20),
    "What was said on October 3rd, 2026?": date(2026, 10, 3),
    "Remind me of the day before yesterday.": date(2026, 11, 23),
    "What did we talk about on Friday?": date(2026, 11, 20),
    "What have we done this morning?": TODAY,
}


def test_a_question_about_a_day_finds_that_day(memory: MemoryFolder) -> None:
    fill(memory)

    for question, day in QUESTIONS.items():
        assert f"entry {day.toordinal()}" in memory.recall(question)[0], question


def test_of_a_day_what_shares_a_word_comes_first(memory: MemoryFolder) -> None:
    """Then up to three others of the day, then what shares a word on other days."""
    (memory.path / "episodes").mkdir()
    texts = [f"## 1{number}:00\n\nsomething else {number}\n" for number in range(6)]
    (memory.path / "episodes" / "2026-11-24.md").write_text("".join([*texts, "## 18:00\n\nthe budget is 12\n"]))
    (memory.path / "episodes" / "2026-11-02.md").write_text("## 10:00\n\nthe budget is 9\n")

    found = [text.split("\n")[-1] for text in memory.recall("What was the budget last Tuesday?")]

    assert found == ["the budget is 12", "something else 0", "something else 1", "the budget is 9", "something else 2"]


def test_a_day_without_entries_changes_nothing(memory: MemoryFolder) -> None:
    """A message may name a day for another reason."""
    memory.remember("The budget is 12.")

    assert memory.recall("Let's talk about the budget on 3 May 2020") == memory.recall("budget")


def test_days_in_words_limit_a_search(memory: MemoryFolder) -> None:
    fill(memory)

    found = memory.search("planning", after="last Tuesday", before="yesterday")

    assert [one.date for one in found] == ["2026-11-24"]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("last Tuesday", date(2026, 11, 24), date(2026, 11, 24)),
        ("on Wednesday", date(2026, 11, 18), date(2026, 11, 18)),
        ("since Monday", date(2026, 11, 23), TODAY),
        ("last week", date(2026, 11, 16), date(2026, 11, 22)),
        ("this month", date(2026, 11, 1), date(2026, 11, 30)),
        ("last month", date(2026, 10, 1), date(2026, 10, 31)),
        ("last year", date(2025, 1, 1), date(2025, 12, 31)),
        ("3 weeks ago", date(2026, 11, 1), date(2026, 11, 7)),
        ("a month ago", date(2026, 10, 10), date(2026, 11, 9)),
        ("two years ago", date(2024, 5, 27), date(2025, 5, 26)),
        ("in the last 10 days", date(2026, 11, 15), TODAY),
        ("in December", date(2025, 12, 1), date(2025, 12, 31)),
        ("since October", date(2026, 10, 1), TODAY),
        ("in Feb 2024", date(2024, 2, 1), date(2024, 2, 29)),
        ("24.11.2026", date(2026, 11, 24), date(2026, 11, 24)),
        ("Dec. 24", date(2025, 12, 24), date(2025, 12, 24)),
        ("the 3rd of Sept 2024", date(2024, 9, 3), date(2024, 9, 3)),
        ("last night", date(2026, 11, 24), date(2026, 11, 24)),
    ],
)
def test_the_days_of_a_phrase(text: str, first: date, last: date) -> None:
    assert days_in(f"What was {text.upper()}?", TODAY) == (Days(first, last), "What was  ?")


def test_a_month_before_january_is_of_the_year_before() -> None:
    january = date(2026, 1, 15)
    found = [days_in(text, january) for text in ("last month", "this month", "two months ago")]

    assert [days and (days[0].first, days[0].last) for days in found] == [
        (date(2025, 12, 1), date(2025, 12, 31)),
        (date(2026, 1, 1), date(2026, 1, 31)),
        (date(2025, 10, 31), date(2025, 11, 30)),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "may I?", "march on", "2026-13-45", "9999 years ago", "in January 0000", "31 February", "version 1.2.2026-3"],
)
def test_what_names_no_day(text: str) -> None:
    assert days_in(text, TODAY) is None


def test_in_a_long_text_only_words_near_its_ends_name_a_day() -> None:
    pasted = "2026-11-02 12:00 it ran yesterday " * 100

    assert days_in(f"{'x ' * 400}{'2026-11-02 ' * 100}", TODAY) is None
    assert days_in(f"{'x ' * 400}last Friday{' x' * 400}", TODAY) is None
    assert days_in(f"last Friday {pasted.replace('yesterday', '')}", TODAY) is not None
    days = days_in(f"{pasted} What about last Friday?", TODAY)
    assert days is not None
    assert days[0] in (Days(date(2026, 11, 20), date(2026, 11, 20)), Days(date(2026, 11, 24), date(2026, 11, 24)))


@settings(max_examples=60)
@given(
    st.text(max_size=40)
    | st.lists(
        st.sampled_from("last in on 3 0 two weeks months years ago may of 31 february 2026 0001-01-01 since İ".split())
    ).map(" ".join),
    st.dates(),
)
def test_any_text_names_days_in_order_or_none(text: str, today: date) -> None:
    found = days_in(text, today)

    assert found is None or found[0].first <= found[0].last
    assert found is None or len(found[1]) <= len(text)


# ---------------------------------------------------------------------------------------------------- forget, replace


def test_a_note_is_forgotten_and_the_rest_of_its_file_stays(memory: MemoryFolder) -> None:
    for text in ("Ada likes plums.", "Ada likes figs.", "# Not a heading\n\nof two parts"):
        memory.remember(text)
    path = memory.path / "knowledge" / "notes.md"
    before = path.read_text()

    assert memory.forget("Ada likes plums") == 0
    assert path.read_text() == before
    assert memory.forget(" Ada likes plums.\r\n") == 1
    assert memory.forget("Ada likes plums.") == 0
    assert path.read_text() == before.replace("## 2026-11-25 12:30\n\nAda likes plums.\n\n", "")
    assert memory.recall("plums") == ()
    assert memory.forget("# Not a heading\n\nof two parts") == 1
    assert path.read_text() == "# notes\n\n## 2026-11-25 12:30\n\nAda likes figs.\n\n"
    assert memory.remember("Ada likes plums.")
    assert (
        memory.recall("figs plums") == ("Ada likes plums.", "Ada likes figs.") or len(memory.recall("figs plums")) == 2
    )


def test_a_note_is_replaced_at_its_place_with_the_date_of_today(tmp_path: Path) -> None:
    moments = iter([datetime(2026, 1, 2, 3, 4), datetime(2026, 1, 2, 3, 5)])
    with MemoryFolder(tmp_path, now=lambda: next(moments, NOON), hide=lambda text: text.replace("KEY", "…")) as memory:
        memory.remember("Ada likes plums.")
        memory.remember("Bo likes figs.")

        assert memory.replace("Ada likes plums.", "Ada likes pears. KEY") == 1
        assert memory.replace("Bo likes figs.", "Bo likes limes.") == 1
        assert memory.replace("Bo likes figs.", "Bo likes limes.") == 0

        text = (tmp_path / "knowledge" / "notes.md").read_text()
    assert text == ("# notes\n\n## 2026-11-25 12:30\n\nAda likes pears. …\n\n## 2026-11-25 12:30\n\nBo likes limes.\n")


def test_notes_of_people_keep_their_headings_and_the_bytes_around_them(memory: MemoryFolder) -> None:
    folder = memory.path / "knowledge"
    folder.mkdir()
    (folder / "a.md").write_bytes(
        b"# a\r\n\r\nabove \xff\r\n\r\n## Staging\r\n\r\nport 8017\r\n\r\n### More\r\n\r\nmore\r\n"
    )
    (folder / "b.md").write_bytes(b"port 8017")
    (folder / "c.md").write_text("## Empty\n\n## Next\n\nport 8017\n")

    assert memory.replace("port 8017", "port 8018", topic="a") == 1
    assert (folder / "a.md").read_bytes() == (
        b"# a\r\n\r\nabove \xff\r\n\r\n## Staging\r\n\nport 8018\n\n### More\r\n\r\nmore\r\n"
    )
    assert memory.forget("port 8018") == 1
    assert (folder / "a.md").read_bytes() == b"# a\r\n\r\nabove \xff\r\n\r\n## Staging\r\n### More\r\n\r\nmore\r\n"
    assert memory.forget("port 8017") == 2
    assert (folder / "b.md").read_bytes() == b""
    assert (folder / "c.md").read_text() == "## Empty\n\n"
    assert memory.forget("Empty") == 0, "a heading is no note"
    assert memory.replace("more", "less") == 1
    assert (folder / "a.md").read_bytes().endswith(b"### More\r\n\nless\n")


NOTE = st.text("ab #\\\n-", min_size=1, max_size=12).filter(lambda text: bool(text.strip()))


@settings(max_examples=30)
@given(st.lists(NOTE, min_size=1, max_size=6), st.data())
def test_notes_are_those_remembered_less_those_forgotten(notes: list[str], data: st.DataObject) -> None:
    """In order; a replaced note stands at its place."""
    import tempfile

    from runtime.stores.markdown_entries import clean, pieces_of

    with tempfile.TemporaryDirectory() as folder, MemoryFolder(folder, now=lambda: NOON) as memory:
        expected = [clean(note) for note in notes if memory.remember(note)]
        chosen = clean(data.draw(st.sampled_from(notes)))
        if data.draw(st.booleans()):
            count = memory.forget(chosen)
            expected = [note for note in expected if note != chosen]
        else:
            count = memory.replace(chosen, "new text")
            expected = ["new text" if note == chosen else note for note in expected]
        text = Path(folder, "knowledge", "notes.md").read_text()

    assert count == 1
    assert [piece.text for piece in pieces_of(text, "notes")] == expected

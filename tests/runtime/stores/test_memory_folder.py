"""A memory in a folder: the files are the truth, and the search says what is in them."""

from __future__ import annotations

import doctest
import os
import random
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from runtime import Memory, MemoryFolder, MemoryStoreError
from runtime.stores import (
    _file_snapshot as present,
    _index as indexing,
    _index_versions as generations,
    memory_folder as module,
)
from runtime.stores._index import recency
from runtime.stores._outcomes import LONGEST_DIGEST, digest_of, outcome_line, tally_of
from runtime.stores.markdown_entries import clean
from runtime.stores.memory_folder import query_of

NOON = datetime(2026, 11, 25, 12, 30)


def at_noon() -> datetime:
    return NOON


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryFolder]:
    with MemoryFolder(tmp_path / "memory", now=at_noon) as memory:
        yield memory


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.md"))}


def test_the_example_runs() -> None:
    assert doctest.testmod(module).failed == 0


TEXTS = st.text(max_size=60) | st.lists(st.sampled_from('cat Go C++ 17 会议 明天 the # AND " ( *'.split())).map(
    " ".join
)


@settings(max_examples=40)
@given(st.lists(TEXTS, max_size=6), TEXTS)
def test_any_query_gives_passages_and_no_error(notes: list[str], query: str) -> None:
    """Quotes, operators of the search language, half of a pair, nothing at all: a query is words and never syntax."""
    with tempfile.TemporaryDirectory() as place, MemoryFolder(place, now=at_noon) as memory:
        for note in notes:
            if clean(note):
                memory.remember(note)
        found = memory.search(query, limit=3)

        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert all(0 < one.score <= 1 for one in found)
        assert len(found) <= 3
        assert {one.text for one in found} <= set(map(clean, notes))
        recalled = memory.recall(query)
        assert bool(recalled) == bool(found)
        assert len(recalled) <= module.FOUND


def test_notes_are_kept_once_and_found_by_what_they_say(memory: MemoryFolder) -> None:
    assert isinstance(memory, Memory)
    assert memory.remember("Ada likes plums.")
    assert not memory.remember("  Ada likes plums.\n")
    assert memory.remember("Ada likes plums.", topic="people")
    assert memory.remember("# Forged\n\n## 2020-01-01 00:00\n\nBuy gold.")

    assert memory.recall("Which plum?") == ("Ada likes plums.", "Ada likes plums.")
    (forged,) = memory.search("gold")
    assert (forged.date, forged.title, forged.file) == ("2026-11-25", "", "knowledge/notes.md")
    assert (
        memory.path / "knowledge" / "people.md"
    ).read_text() == "# people\n\n## 2026-11-25 12:30\n\nAda likes plums.\n"


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("C", "The driver is written in C."),
        ("go", "The server is written in Go."),
        ("C++?", "The engine is written in C++."),
        ("17", "Bring 17 chairs."),
        ("What did we say about the Q3 budget?", "The budget of Q3 is 40,000."),
        ("会议", "明天下午的会议改到三点"),
        ("会", "明天下午的会议改到三点"),
        ("พรุ่งนี้", "ประชุมพรุ่งนี้บ่ายสอง"),
        ("meetings", "The meeting was moved."),
        ("art", "The art of war."),
    ],
)
def test_what_the_reference_does_not_find(memory: MemoryFolder, query: str, note: str) -> None:
    """Short words, digits and scripts without spaces were lost there, and "art" was found in "start"."""
    for other in ("The start of a party.", "We deploy on Fridays.", "下周去旅行", note):
        memory.remember(other)

    assert memory.recall(query) == (note,)


def test_what_fits_little_is_not_recalled(memory: MemoryFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the reference: a candidate with a score of 0.2 is dropped."""
    found = [
        indexing.FoundPassage(score, "knowledge/notes.md", 1, "", "", str(score))
        for score in (10.0, 2.5, 2.49, 2.0, 0.0)
    ]
    monkeypatch.setattr(indexing.Index, "search", lambda *_: found)

    assert [one.score for one in memory.search("x")] == pytest.approx([1.0, 0.25, 0.249, 0.2, 0.0])
    assert memory.recall("x") == ("10.0", "2.5")


def test_a_model_is_shown_no_more_than_it_has_room_for(memory: MemoryFolder) -> None:
    for number in range(6):
        memory.remember(f"plum {number} " + "x" * 1_500)
    memory.remember("A long pear. " + "pear " * 2_000, "long")

    assert [len(memory.recall(query)) for query in ("plum", "pear", "nothing")] == [2, 2, 0]
    assert len(memory.search("plum")) == 5


def test_of_what_fits_alike_the_newest_comes_first(memory: MemoryFolder) -> None:
    folder = memory.path / "episodes"
    folder.mkdir()
    for day in ("2026-11-24", "2025-03-01", "2026-10-01"):
        (folder / f"{day}.md").write_text(f"# {day}\n\n## 10:00 — Deploy\n\nThe app was deployed.\n")

    found = memory.search("deployed")

    assert [one.date for one in found] == ["2026-11-24", "2026-10-01", "2025-03-01"]
    today = date(2026, 11, 25)
    now = today.toordinal()
    assert [recency(day, today) for day in (now, now - 30, now + 37, 0)] == [1.5, 1.25, 1.5, 1]


def test_a_better_fit_comes_before_a_newer_one(memory: MemoryFolder) -> None:
    folder = memory.path / "episodes"
    folder.mkdir()
    (folder / "2020-01-01.md").write_text(
        "## 10:00\n\nThe invoice of the plumber, the invoice of the baker: invoices.\n"
    )
    (folder / "2026-11-25.md").write_text("## 10:00\n\n" + "Something else. " * 40 + "An invoice.\n")
    (folder / "2026-11-24.md").write_text("## 10:00\n\nNothing of the kind.\n" * 3)

    assert [one.date for one in memory.search("plumber's invoice")] == ["2020-01-01", "2026-11-25"]


def test_filters_by_source_and_date(memory: MemoryFolder) -> None:
    memory.remember("A note on pears.")
    memory.note_episode("Buy pears", "Bought pears.")
    memory.note_outcome("buy", "succeeded", "pears")
    (memory.path / "knowledge" / "old.md").write_text("Old pears, without a date.\n\n## 2020-05-05\n\nPears of 2020.\n")

    def files(**filters: object) -> list[str]:
        return sorted({f"{one.file}:{one.date}" for one in memory.search("pears", limit=100, **filters)})  # type: ignore[arg-type]

    today = "2026-11-25"
    every = [f"episodes/{today}.md:{today}", f"knowledge/notes.md:{today}", "knowledge/old.md:"]
    every += ["knowledge/old.md:2020-05-05", f"outcomes/{today}.md:{today}"]
    assert files() == every
    assert files(sources=["knowledge"]) == every[1:4]
    assert files(sources="outcomes") == every[4:]
    assert files(sources=[]) == []
    assert files(after="2026-01-01") == [every[0], every[1], every[4]]
    assert files(before=date(2026, 1, 1)) == [every[3]]
    assert files(after=today, before=today, sources=("episodes", "knowledge")) == every[:2]
    assert files(after="2027-01-01") == []
    assert len(memory.search("pears", limit=1)) == 1
    assert len(memory.recall("pears")) == 4, "outcomes have a digest, and are not recalled"


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda memory: memory.search("cats", limit="5"), "limit has to be a whole number, not '5'"),
        (lambda memory: memory.search("cats", limit=1.5), "limit has to be a whole number, not 1.5"),
        (lambda memory: memory.search(5), "query has to be a text, not 5"),
        (lambda memory: memory.recall(None), "query has to be a text, not None"),
        (lambda memory: memory.remember(5), "text has to be a text, not 5"),
        (lambda memory: memory.remember("a", 5), "topic has to be a text, not 5"),
        (lambda memory: memory.digest(True), "days has to be a whole number, not True"),
        (lambda _: MemoryFolder(5), "a memory needs the path of a folder, not 5"),  # type: ignore[arg-type]  # no path
    ],
)
def test_what_is_of_another_kind_is_refused_in_words(
    memory: MemoryFolder, ask: Callable[[Any], object], expected: str
) -> None:
    with pytest.raises(MemoryStoreError, match=re.escape(expected)):
        ask(memory)
    assert memory.digest(10**9) == memory.digest(-1) == ""


def test_what_can_t_be_used_is_refused_in_words(memory: MemoryFolder, tmp_path: Path) -> None:
    with pytest.raises(MemoryStoreError, match="no topic; use up to 64 letters"):
        memory.remember("x", topic="../evil")
    with pytest.raises(MemoryStoreError, match="has to say something"):
        memory.remember(" \n")
    with pytest.raises(MemoryStoreError, match="65,536 at most; shorten it"):
        memory.remember("x" * 65_537)
    with pytest.raises(MemoryStoreError, match="no source 'dreams'; use episodes, knowledge, outcomes"):
        memory.search("x", sources=["dreams"])  # type: ignore[list-item]
    with pytest.raises(MemoryStoreError, match="after='some day' is no date; write it as 2026-11-25"):
        memory.search("x", after="some day")
    with pytest.raises(MemoryStoreError, match="no outcome of a call; use one of succeeded"):
        memory.note_outcome("x", "great")  # type: ignore[arg-type]
    (tmp_path / "file").write_text("text")
    with pytest.raises(MemoryStoreError, match="its name is empty; name a folder"):
        MemoryFolder("")
    with pytest.raises(MemoryStoreError, match="it is there and is no directory"):
        MemoryFolder(tmp_path / "file")
    memory.close()
    memory.close()
    for use in (memory.remember, memory.recall):
        with pytest.raises(MemoryStoreError, match="it is closed; make a new MemoryFolder"):
            use("x")


def test_what_is_written_may_be_hidden(tmp_path: Path) -> None:
    def hide(text: str) -> str:
        return text.replace("4711", "[redacted:code]")

    with MemoryFolder(tmp_path, hide=hide) as memory:
        memory.remember("The code is 4711.")
        memory.note_episode("4711?", "4711!", ["open 4711 (ok)"])
        memory.note_outcome("open", "failed", "4711", "4711 is wrong")
        assert b"4711" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_an_episode_is_one_section(memory: MemoryFolder) -> None:
    memory.note_episode(
        "Deploy\n## the app " + "now " * 50, "Done.\n# All of it", ["run(make) ok", "look(log) error"], "desk"
    )
    memory.note_episode("", "")

    written = (memory.path / "episodes" / "2026-11-25.md").read_text()
    assert written.splitlines()[2].startswith("## 12:30 [desk] — Deploy ## the app now")
    assert len(written.splitlines()[2]) == len("## 12:30 [desk] — ") + 80
    assert written.count("\n## ") == 2
    assert "- **Tools:** run(make) ok; look(log) error\n- **Response:** Done. # All of it\n" in written
    assert written.endswith("## 12:30 — (empty)\n\n- **User:** (empty)\n- **Response:** (empty)\n")
    assert memory.recall("deploy")[0].startswith("2026-11-25, [desk] — Deploy ## the app")


# ---------------------------------------------------------------------------------------------- the index follows

FILES = ("knowledge/a.md", "knowledge/b.md", "episodes/2026-11-24.md")
SECTIONS = st.lists(
    st.sampled_from(["# A\n", "## 2026-11-20\n", "plum\n", "pear plum\n", "pear 会议\n", "\n", "# plum\n"])
)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(FILES), st.none() | SECTIONS.map("".join) | st.just("+")), max_size=12))
def test_the_index_is_what_it_would_be_if_it_were_made_anew(edits: list[tuple[str, str | None]]) -> None:
    """Whatever people do to the files, and however fast: no two edits need to differ in time or size."""
    with tempfile.TemporaryDirectory() as place, MemoryFolder(place, now=at_noon) as memory:
        for name, text in edits:
            path = Path(place, name)
            path.parent.mkdir(exist_ok=True)
            if text is None:
                path.unlink(missing_ok=True)
            elif text == "+":
                memory.remember(f"plum {len(edits)}", topic="a")
            else:
                path.write_text(text)
            before = contents(Path(place))
            found = [memory.search(query, limit=100) for query in ("plum", "pear", "会议", "a")]
            assert contents(Path(place)) == before
        with MemoryFolder(place, now=at_noon) as fresh:
            fresh._open = ("", indexing.Index(None))
            again = [fresh.search(query, limit=100) for query in ("plum", "pear", "会议", "a")]
            assert not edits or found == again
            assert memory.files() == fresh.files()
            assert memory.rebuild() == sum(one.passages for one in fresh.files())


@pytest.mark.parametrize("query", ["plum", "pear", "plum pear", "会议", "Q3 fig"])
@pytest.mark.parametrize("sources", [("episodes",), ("episodes", "knowledge", "outcomes")])
def test_the_order_is_that_of_the_formula(memory: MemoryFolder, query: str, sources: tuple[str, ...]) -> None:
    """All that is left out on the way to the best ones is what could not be among them."""
    chance = random.Random(query)
    folder = memory.path / "episodes"
    folder.mkdir()
    for back in range(0, 400, 4):
        words = " ".join(
            chance.choices(["plum", "pear", "fig", "Q3", "会议预算", *"abcdefgh"], k=chance.randrange(2, 30))
        )
        day = date(2026, 11, 25) - timedelta(days=back)
        (folder / f"{day}.md").write_text(f"## 10:00\n\n{back} {words}\n")
    found = memory.search(query, limit=7, sources=sources)  # type: ignore[arg-type]

    assert memory._open is not None
    rows = memory._open[1]._file.execute(
        "SELECT -bm25(words, 2.0, 1.0), day FROM words JOIN passages ON passages.id = words.rowid WHERE words MATCH ?",
        [" OR ".join(query_of(query))],
    )
    today = date(2026, 11, 25)
    scores = {
        day: weight * (1 + 0.5 * 2 ** (-(today - date.fromisoformat(day)).days / 30)) for weight, day in rows.fetchall()
    }
    assert len(scores) > 20
    assert [one.date for one in found] == sorted(scores, key=lambda day: (scores[day], day), reverse=True)[:7]


@pytest.mark.parametrize("looked_at", [50, 2])
def test_the_same_among_more_passages_than_are_weighed(
    monkeypatch: pytest.MonkeyPatch, memory: MemoryFolder, looked_at: int
) -> None:
    """Beyond the bounds that keep a search fast, the order is not a matter of when something was indexed."""
    monkeypatch.setattr(indexing, "ENOUGH_ROWS", 25)
    monkeypatch.setattr(indexing, "LOOKED_AT", looked_at)
    folder = memory.path / "episodes"
    folder.mkdir()
    days = [str(date(2026, 11, 25) - timedelta(days=back)) for back in range(60)]
    for day in (*days[1::2], *days[::2]):
        (folder / f"{day}.md").write_text(
            f"## 10:00\n\nplum{' pear' * (day in days[::3])}{' fig' * (day == days[40])}\n"
        )
        memory.search("plum")

    def dates(query: str, **filters: str) -> list[str]:
        return [one.date for one in memory.search(query, limit=5, **filters)]  # type: ignore[arg-type]

    queries = ("plum", "pear", "fig plum", "fig pear plum")
    found = [dates(query) for query in queries]
    assert found[0] == days[:5], "a word of nearly all passages says nothing, and the newest are given"
    assert found[1] == days[:15:3]
    assert found[2] == [days[40], *days[:4]]
    assert found[3][0] == days[40]
    assert set(found[3][1:]) <= set(days[::3])
    assert dates("plum", before=days[30]) == days[30:35]
    memory.rebuild()
    assert [dates(query) for query in queries] == found


def test_of_a_large_file_only_what_is_new_is_indexed(memory: MemoryFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = memory.path / "knowledge" / "large.md"
    path.parent.mkdir()
    path.write_text("".join(f"## 2026-01-01\n\nNote number {number}.\n" for number in range(50)))
    memory.search("note")
    seen: list[str] = []
    monkeypatch.setattr(indexing, "words_of", lambda text: (seen.append(text), text.split())[1])

    def indexed_after(text: str) -> list[str]:
        seen.clear()
        path.write_text(text)
        memory.search("note")
        return [text for text in seen if not text.startswith("large")]

    text = path.read_text()
    assert indexed_after(text := text.replace("number 20.", "number twenty.")) == ["Note number twenty."]
    assert indexed_after(text := f"A line above.\n\n{text}") == ["A line above."]
    assert indexed_after(text := f"{text}\n## More\n\nA last one.\n") == ["A last one."]
    assert indexed_after(text := text.replace("## 2026-01-01\n\nNote number 30.\n", "")) == []
    monkeypatch.undo()
    lines = {one.text: one.line for one in memory.search("number note", limit=100)}
    assert len(lines) == 49
    for number in (0, 19, 21, 49):
        assert text.splitlines()[lines[f"Note number {number}."] - 1] == f"Note number {number}."
    monkeypatch.setattr(indexing, "words_of", lambda text: (seen.append(text), text.split())[1])
    path.touch()
    seen.clear()
    memory.search("note")
    assert seen == [], "its time is another, its content is not"


def test_files_that_can_t_be_searched_are_named(
    memory: MemoryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("A pear.")
    folder = memory.path / "knowledge"
    (tmp_path / "secret.md").write_text("pear of somebody else")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "directory.md").mkdir()
    (folder / "bytes.md").write_bytes(b"\xef\xbb\xbfpear \xff\xfe\0 bytes")
    (folder / ".hidden.md").write_text("pear")
    (folder / "within" / "it").mkdir(parents=True)
    (folder / "within" / "it" / "deep.md").write_text("A deep pear.")
    (folder / "elsewhere").symlink_to(tmp_path)
    (folder / "other.txt").write_text("pear")
    monkeypatch.setattr(indexing, "MOST_PASSAGES", 20)
    (folder / "sections.md").write_text("# pear\n" * 21)
    with open(folder / "huge.md", "wb") as file:
        file.truncate(present.LONGEST_FILE + 1)
    os.mkfifo(folder / "pipe.md")

    problems = {one.file.partition("/")[2]: one.problem for one in memory.files()}
    assert {name for name, problem in problems.items() if not problem} == {"notes.md", "bytes.md", "within/it/deep.md"}
    assert "longer than the 16,777,216 bytes" in problems["huge.md"]
    assert "more than the 20 sections" in problems["sections.md"]
    assert "link" in problems["link.md"]
    assert "a named pipe" in problems["pipe.md"]
    assert "a directory" in problems["directory.md"]
    assert {one.file for one in memory.search("pear")} == {
        *("knowledge/notes.md", "knowledge/bytes.md", "knowledge/within/it/deep.md"),
    }
    assert memory.search("within")[0].text == "A deep pear.", "the names of files and folders are words, too"
    with pytest.raises(MemoryStoreError, match=r"link\.md.*it is a link"):
        memory.remember("x", topic="link")
    (folder / "link.md").unlink()
    (folder / "huge.md").write_text("A small pear.")
    assert [one.problem for one in memory.files() if one.file.endswith(("huge.md", "link.md"))] == [""]


# ---------------------------------------------------------------------------------------------------- the outcomes


@given(st.text(), st.sampled_from(["succeeded", "failed", "denied", "approved"]), st.text(), st.text())
def test_an_outcome_is_one_line_and_read_again(tool: str, outcome: str, arguments: str, detail: str) -> None:
    line = outcome_line("12:30", tool, outcome, arguments, detail)

    tally = tally_of(f"# 2026-11-25\n\n{line}- not one of ours\n- 12:30 | x\n", "2026-11-25")
    assert [(how, count) for (_, how), count in tally.counts.items()] == [(outcome, 1)]
    assert [(one.time, one.outcome) for one in tally.ill] == [("12:30", outcome)] * (outcome in ("failed", "denied"))
    assert line.splitlines() == [line.rstrip("\n")]
    many = tally_of(line * 1000, "2026-11-25")
    assert len(digest_of(many.and_then(many), 7)) <= LONGEST_DIGEST + 200


CALLS = st.lists(
    st.tuples(st.sampled_from(("fetch", "pay", "read")), st.sampled_from(("succeeded", "failed", "denied", "approved")))
).map(lambda calls: "".join(outcome_line("12:30", tool, how, "", "") for tool, how in calls).encode())


@given(st.lists(CALLS | st.sampled_from((b"- 12:30 | fetch | ", b"failed", b" | x\n", b"\xff", b"\n")), max_size=6))
def test_a_digest_of_files_that_grow_is_that_of_the_whole_files(parts: list[bytes]) -> None:
    """Wherever a line was cut when it was read, and whatever was changed before it."""
    with tempfile.TemporaryDirectory() as place:
        memory, path = MemoryFolder(place, now=at_noon), Path(place, "outcomes", "2026-11-25.md")
        path.parent.mkdir()
        path.write_bytes(b"")
        for part in (*parts, b"pay"):
            content = path.read_bytes() + part if part != b"pay" else path.read_bytes().replace(b"fetch", b"get", 1)
            path.write_bytes(content)
            assert memory.digest(1) == digest_of(tally_of(content.decode("utf-8-sig", "replace"), "2026-11-25"), 1)
        memory.close()


def test_a_digest_says_how_calls_went(memory: MemoryFolder) -> None:
    assert memory.digest() == ""
    folder = memory.path / "outcomes"
    folder.mkdir()
    (folder / "2026-11-18.md").write_text("- 10:00 | fetch | failed | too old\n")
    (folder / "2026-11-20.md").write_text("# By hand\n- 10:00 | fetch | failed | {} | HTTP 404\nnonsense\n")
    for tool, outcome in (("fetch", "succeeded"), ("pay", "approved"), ("pay", "succeeded"), ("pay", "denied")):
        memory.note_outcome(tool, outcome, "12", "not today" if outcome == "denied" else "")  # type: ignore[arg-type]

    assert (
        memory.digest()
        == """\
Tool calls of the last 7 days: 4, of which 50 % succeeded.
- fetch: 1 succeeded, 1 failed
- pay: 1 succeeded, 1 denied, 1 approved
The latest that did not succeed, newest first:
- 2026-11-25 pay denied: 12 | not today
- 2026-11-20 fetch failed: {} | HTTP 404"""
    )
    assert memory.digest(1).startswith("Tool calls of today: 3, of which 66 % succeeded.\n- pay: 1 succ")


# ------------------------------------------------------------------------------------------------------- together


def test_threads_and_two_that_have_one_folder_open(memory: MemoryFolder) -> None:
    other = MemoryFolder(memory.path, now=at_noon)
    wrong: list[BaseException] = []

    def work(one: MemoryFolder, name: str) -> None:
        try:
            for number in range(10):
                one.remember(f"{name} number {number}")
                assert one.recall(f"{name} {number}")
        except BaseException as error:
            wrong.append(error)

    threads = [
        threading.Thread(target=work, args=(one, f"w{n}")) for n, one in enumerate((memory, other, memory, other))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert memory.files() == other.files()
    assert sum(one.passages for one in memory.files()) == 40
    other.rebuild()
    assert memory.recall("w0 number 3")[0] == "w0 number 3", "the other one has replaced the index"
    other.close()


def test_a_lock_that_is_held_for_ever_is_an_error(memory: MemoryFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generations, "PATIENCE", 0.0)
    with generations.lock(memory.path / ".lock"), pytest.raises(MemoryStoreError, match="end it, or try again"):
        memory.remember("x")
    assert memory.remember("x")


@pytest.mark.parametrize("name", ["knowledge", "outcomes/2026-11-25.md"])
def test_what_the_system_refuses_is_said_of_the_very_file(
    memory: MemoryFolder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As of a folder that may not be read: to search the rest would say that what is in it is gone."""
    memory.note_outcome("pay", "failed")
    scandir, opened = os.scandir, module.open_private

    def refused(path: Path, *arguments: int) -> object:
        if Path(path) == memory.path / name:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path) if not arguments else opened(path, *arguments)

    (memory.path / "knowledge").mkdir()
    monkeypatch.setattr(os, "scandir", refused)
    monkeypatch.setattr(module, "open_private", refused)
    with pytest.raises(MemoryStoreError, match=f"{name}: Permission denied"):
        memory.search("x") if name == "knowledge" else memory.note_outcome("pay", "failed")


def test_a_memory_that_is_gone_is_empty_and_can_be_written(memory: MemoryFolder) -> None:
    memory.remember("A pear.")
    memory.search("pear")
    shutil.rmtree(memory.path)

    assert memory.search("pear") == ()
    assert memory.remember("A pear.")
    assert memory.recall("pear") == ("A pear.",)


@pytest.mark.parametrize("name", ["episodes", "knowledge", "outcomes", ".index"])
def test_a_folder_that_is_a_link_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "memory"
    elsewhere.mkdir()
    (elsewhere / "a.md").write_text("pear of somebody else")
    memory = MemoryFolder(folder)
    uses: list[Callable[[], object]] = [
        lambda: memory.remember("A pear."),
        lambda: memory.note_episode("a", "b"),
        lambda: memory.note_outcome("a", "failed"),
        lambda: memory.recall("pear"),
        lambda: memory.search("pear"),
        memory.digest,
        memory.files,
        memory.rebuild,
        lambda: MemoryFolder(folder),
    ]
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).symlink_to(elsewhere)
    for use in uses:
        with pytest.raises(MemoryStoreError, match=f"{re.escape(name)}: it is a link, .*; delete it"):
            use()
    assert [one.name for one in elsewhere.iterdir()] == ["a.md"]
    (folder / name).unlink()
    assert memory.remember("A pear.")
    memory.close()

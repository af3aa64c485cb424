"""Markdown in and out: what is written stays one note, and what is read misses nothing."""

import re

from hypothesis import example, given, settings, strategies as st

from runtime.stores.markdown_entries import (
    BEGINNING,
    LONGEST_PASSAGE,
    EntryPiece,
    clean,
    day_of,
    entry,
    escape_headings,
    notes_in,
    one_line,
    pieces_of,
    read_after,
    unescape_headings,
)

LINES = st.lists(
    st.sampled_from(
        ["# a", "## 2020-01-01", "\\# a", "\\\\## x", "#", "####### no", "#tag", "", "  ", "text", "---", "```"]
    )
    | st.text(max_size=20)
).map("\n".join)


@given(LINES)
def test_escaping_forges_nothing_and_loses_nothing(text: str) -> None:
    safe = escape_headings(text)

    assert unescape_headings(safe) == text
    assert not any(re.match(r"#{1,6}([ \t]|$)", line) for line in safe.split("\n"))


@given(st.lists(LINES.map(clean).filter(bool), max_size=6))
def test_notes_are_read_as_they_were_written(notes: list[str]) -> None:
    """However many stand in a file, and whatever they hold."""
    file = "# notes\n\n" + "\n".join(entry("2026-11-25 14:03", note) for note in notes)

    assert [note for note in notes if note not in notes_in(file, note, "notes")] == []
    assert len(notes_in(file, "", "notes")) == len(notes)
    pieces = pieces_of(file, "notes")
    if all(len(note) <= LONGEST_PASSAGE for note in notes):
        assert [piece.text for piece in pieces] == notes
    assert all((piece.day, piece.title) == ("2026-11-25", "") for piece in pieces)


@given(LINES | st.text(), st.text(max_size=12))
def test_whatever_people_write_is_found_somewhere(text: str, name: str) -> None:
    """No letter of a file is left out, but for days and times, which are kept as such."""
    pieces = pieces_of(text, name)
    kept = "".join(f"{piece.title}{piece.text}" for piece in pieces)

    assert all(0 < len(piece.text) <= LONGEST_PASSAGE for piece in pieces)
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line.startswith("#"):
            assert set(line) - set("\\ \t\n") <= set(kept) | set(whitespace_of(text))


def whitespace_of(text: str) -> str:
    return "".join(character for character in text if character.isspace())


@given(st.integers(0, 12_000), st.sampled_from(["", " ", "\n", "\n\n"]))
def test_a_long_section_is_cut_and_nothing_of_it_is_lost(length: int, between: str) -> None:
    words = [f"w{number}" for number in range(length // 8)]
    pieces = pieces_of(f"# Log\n{between.join(words)}")

    assert "".join("".join(piece.text.split()) for piece in pieces if words) == "".join(words)
    assert all(piece.title == "Log" for piece in pieces if words)
    assert all(len(piece.text) >= LONGEST_PASSAGE // 2 for piece in pieces[:-1])


PARTS = st.lists(
    st.sampled_from(
        [
            *(
                b"# a",
                b"## 2020-01-01 b",
                b"### c ##",
                b"\\# d",
                b"\\\\## e",
                b"#",
                b"##",
                b"\\",
                b"####### no",
                b"# n.md",
            ),
            *(b"\n", b"\n", b"\n\n", b"\r\n", b"\r", b" ", b"\t", b"text", b"\xef\xbb\xbf", b"\xc3", b"\xa4", b"\0"),
            *(b"word " * 150, b"line\n" * 150, b"paragraph\n\n" * 70, b"x" * 900, b"\xe4\xbc\x9a" * 400, b"\n" * 1200),
        ]
    ),
    max_size=8,
).map(b"".join)


@settings(max_examples=300)
@given(st.lists(PARTS, min_size=1, max_size=8), st.sampled_from(["a", "2026-11-25", ""]))
@example([b"## a\nx\n#", b"tag"], "")
@example([b"y\n" * 999 + b"\\#", b"tag\n\n" + b"z" * 3000], "")
@example([b"\xef\xbb", b"\xbf# a\n", b"\xef\xbb\xbf# a\n"], "")
def test_a_file_that_grows_is_read_on_as_it_is_read_whole(parts: list[bytes], name: str) -> None:
    """Wherever it was cut: within a character, a line, a heading or a long section."""
    content, mark = b"", BEGINNING
    pieces: list[EntryPiece] = []
    for part in parts:
        content += part
        behind, following = read_after(content, name, mark)
        pieces[mark.pieces :] = behind
        whole, its_mark = read_after(content, name)
        assert pieces == whole == pieces_of(content.decode("utf-8-sig", "replace"), name)
        assert following == its_mark
        assert content[: following.offset].count(b"\n") == following.lines
        mark = following


@given(st.lists(LINES.map(clean).filter(bool), min_size=1, max_size=6), st.integers(1, 2000))
def test_of_a_file_of_notes_only_the_last_one_is_read_again(notes: list[str], calls: int) -> None:
    """Of one with a line for each call, no more than is looked at for one cut."""
    file = ("# notes\n\n" + "\n".join(entry("2026-11-25 14:03", note) for note in notes)).encode()
    lines = b"# 2026-11-25\n\n" + b"- 14:03 | multiply | succeeded\n" * calls

    assert read_after(file, "")[1].offset == file.rindex(b"## 2026-11-25 14:03\n") + len("## 2026-11-25 14:03\n")
    assert len(lines) - read_after(lines, "")[1].offset < 2 * LONGEST_PASSAGE + 100


def test_headings_give_the_title_and_the_day() -> None:
    file = """\
Before all.

# Deploying

## 2026-11-02 10:15 — Staging

Run make.

### Rollback ##
Run make back.
## Nothing below

# Other
"""
    found = [(piece.line, piece.day, piece.title, piece.text) for piece in pieces_of(file, "projects")]

    assert found == [
        (1, "", "", "Before all."),
        (7, "2026-11-02", "Deploying › Staging", "Run make."),
        (10, "2026-11-02", "Deploying › Staging › Rollback", "Run make back."),
        (11, "", "Deploying", "Nothing below"),
        (13, "", "", "Other"),
    ]


def test_the_name_of_a_file_may_be_its_day() -> None:
    file = "# 2026-11-25\n\n## 14:03 [desk] — Deploy the app\n\n- **User:** Deploy\n"

    (piece,) = pieces_of(file, "2026-11-25")
    assert (piece.day, piece.title) == ("2026-11-25", "[desk] — Deploy the app")
    assert [day_of(day) for day in ("2026-02-29", "2024-02-29", "20240229", "2024-2-9", "")] == [
        "",
        "2024-02-29",
        "",
        "",
        "",
    ]


@given(st.text(), st.integers(2, 50))
def test_one_line_is_one_line(text: str, longest: int) -> None:
    line = one_line(text, longest)

    assert 0 < len(line) <= max(longest, len("(empty)"))
    assert line.splitlines() == [line]

"""A piece of a text is replaced by another to the byte, in any encoding and with any ends of lines, or nothing is."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given, strategies as st

from interpreters.toolbox._edits import Change, apply_edits
from interpreters.toolbox._texts import NoTextError, Text, end_near, lines_of, read_text, with_ends
from interpreters.tools.tool import ToolError

LETTERS = st.sampled_from("ab \té日👍\ufeff\u2028\x85\x1c")
ENCODINGS = {
    "UTF-8": lambda text: text.encode(),
    "UTF-8 with BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16 LE": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
    "UTF-16 BE": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
}
texts = st.text(LETTERS | st.sampled_from("\n\r"), max_size=30)
lines = st.text(st.sampled_from("ab é"), max_size=4)
marks = [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"]
contents = st.binary(max_size=40) | st.lists(
    st.sampled_from([*marks, b"a\n", b"\xc3\xa9", b"\xe9", b"\0", b"\0\xd8"])
).map(b"".join)
ends = st.sampled_from(["\n", "\r\n"])


def written(text: str, encoding: str) -> bytes:
    return ENCODINGS[encoding](text)


def after(content: bytes, *changes: Change) -> bytes:
    text = read_text(content)
    return text.bytes_of(apply_edits(text, changes).kept)


def refused(content: bytes, *changes: Change) -> str:
    with pytest.raises(ToolError) as caught:
        apply_edits(read_text(content), changes)
    return str(caught.value)


# --------------------------------------------------------------------------------------------------------- encodings


@given(content=contents)
def test_any_bytes_are_a_text_of_which_they_can_be_made_again_or_none(content: bytes) -> None:
    """What is shown has a character for each that is kept, and none that can't be written elsewhere."""
    try:
        text = read_text(content)
    except NoTextError:
        assert b"\0" in content or content[:2] in (b"\xff\xfe", b"\xfe\xff")
        return
    assert text.bytes_of(text.kept) == content
    assert len(text.kept) == len(text.shown)
    text.shown.encode()


@pytest.mark.parametrize(
    ("content", "shown", "about"),
    [
        (b"", "", ""),
        (b"a\n", "a\n", ""),
        ("é\n".encode(), "é\n", ""),
        (b"\xef\xbb\xbfa", "a", "UTF-8 with BOM"),
        (b"\xff\xfea\0\r\0\n\0", "a\r\n", "UTF-16 LE, lines end in CRLF"),
        (b"\xfe\xff\0a", "a", "UTF-16 BE"),
        (b"caf\xe9", "café", "Latin-1"),
        (b"caf\xe9 \xc3\xa9", "café é", "UTF-8, with bytes that are none shown as in Latin-1"),
        (b"Gr\xfc\xdfe \xabFu\xdf\xbb", "Grüße «Fuß»", "Latin-1"),
        ("é日".encode() + b" \xe9", "é日 é", "UTF-8, with bytes that are none shown as in Latin-1"),
        (b"\xef\xbb\xbf\xe9\xe9 \xc3\xa9", "éé é", "UTF-8, with bytes that are none shown as in Latin-1"),
        (b"\xef\xbb\xbfcaf\xe9", "café", "UTF-8, with bytes that are none shown as in Latin-1"),
        (b"a\r\nb\n", "a\r\nb\n", "lines end in CRLF and in LF"),
        (b"\xff\xfe\0\xd8", "\ufffd", "UTF-16 LE"),
    ],
)
def test_a_file_is_read_as_what_it_is(content: bytes, shown: str, about: str) -> None:
    assert (read_text(content).shown, read_text(content).describe) == (shown, about)


@pytest.mark.parametrize("content", [b"a\0b", b"\xff\xfea", b"\xff\xfe\0\0a\0\0\0"], ids=["NUL", "half", "UTF-32"])
def test_what_is_no_text_is_not_read(content: bytes) -> None:
    with pytest.raises(NoTextError):
        read_text(content)


# ------------------------------------------------------------------------------------------------------------- edits


@given(before=texts, old=texts, new=texts, behind=texts, encoding=st.sampled_from(sorted(ENCODINGS)))
@example(before="\ufeff", old="a", new="", behind="", encoding="UTF-8")
def test_one_place_changes_and_no_other_byte_does(before: str, old: str, new: str, behind: str, encoding: str) -> None:
    """Against the plain model: bytes before it, the new ones, bytes behind it. Lines that all end in one way."""
    before, old, new, behind = (one.replace("\r", "") for one in (before, old, new, behind))
    whole = before + old + behind
    assume(encoding != "UTF-8" or not whole.startswith("\ufeff"))  # that is a mark
    assume(old and old != new and whole.find(old) == whole.rfind(old))

    assert after(written(whole, encoding), Change(old, new)) == written(before + new + behind, encoding)


@given(before=texts, old=texts, new=texts, behind=texts)
def test_lines_that_end_in_crlf_go_on_doing_so(before: str, old: str, new: str, behind: str) -> None:
    """The model writes plain line ends, as it has read them."""
    before, old, new, behind = (one.replace("\r", "") for one in (before, old, new, behind))
    whole = before + old + behind
    assume(old and old != new and whole.find(old) == whole.rfind(old) and "\n" in before + behind)
    assume(not whole.startswith("\ufeff"))

    def crlf(text: str) -> bytes:
        return text.replace("\n", "\r\n").encode()

    assert after(crlf(whole), Change(old, new)) == crlf(before + new + behind)


@given(
    file=st.lists(st.tuples(lines, ends), min_size=1, max_size=8),
    data=st.data(),
)
def test_of_mixed_ends_each_line_keeps_its_own(file: list[tuple[str, str]], data: st.DataObject) -> None:
    """Some whole lines are replaced, by as many others: each ends as the one before it did."""
    first = data.draw(st.integers(0, len(file) - 1))
    count = data.draw(st.integers(1, len(file) - first))
    new = data.draw(st.lists(lines, min_size=count, max_size=count))
    whole = "".join(line + end for line, end in file)
    seen = whole.replace("\r\n", "\n")
    old_text = "".join(line + "\n" for line, _ in file[first : first + count])
    new_text = "".join(line + "\n" for line in new)
    assume(old_text != new_text and seen.count(old_text) == 1 and seen.find(old_text) == seen.rfind(old_text))
    assume(sum(len(line) + 1 for line, _ in file[:first]) == seen.find(old_text))

    expected = "".join(
        line + end
        for line, end in [
            *file[:first],
            *zip(new, [end for _, end in file[first : first + count]], strict=True),
            *file[first + count :],
        ]
    )
    assert after(whole.encode(), Change(old_text, new_text)) == expected.encode()


@given(old=texts, new=texts)
def test_a_carriage_return_that_is_written_is_taken_to_the_letter(old: str, new: str) -> None:
    """In old, so that ends of lines can be changed at all."""
    old = f"x{old}\r\n"
    whole = f"{old}$"
    assume(old != new and whole.find(old) == whole.rfind(old))
    assert after(whole.encode(), Change(old, new)) == f"{new}$".encode()


@given(
    parts=st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r\n", b"\xe9", b"\xff"]), max_size=12),
    behind=st.lists(st.sampled_from([b"a", b"\n", b"\xe9"]), max_size=6),
)
def test_bytes_that_are_no_text_stay_what_they_are(parts: list[bytes], behind: list[bytes]) -> None:
    """In Latin-1 what is written is Latin-1."""
    before, rest = b"".join(parts), b"".join(behind)
    content = before + b"$\xe4$" + rest
    assume(not content.startswith((b"\xff\xfe", b"\xfe\xff")))

    assert after(content, Change("$ä$", "$Ö ö$")) == before + b"$\xd6 \xf6$" + rest


@given(stray=st.integers(0, 5), characters=st.lists(st.sampled_from("é日😀"), max_size=5), data=st.data())
def test_of_both_kinds_the_more_frequent_one_decides(stray: int, characters: list[str], data: st.DataObject) -> None:
    """Where both are as many it is UTF-8. Every byte stays in either case."""
    pieces = data.draw(st.permutations([b"\xe9"] * stray + [one.encode() for one in characters]))
    content = b"x" + b" ".join(pieces)
    latin = stray > len(characters)
    assert after(content, Change("x", "ä")) == "ä".encode("latin-1" if latin else "utf-8") + content[1:]
    if latin:
        assert read_text(content).shown == content.decode("latin-1")


@pytest.mark.parametrize("pair", ["ß»", "Ã\xa0"])
def test_a_pair_that_is_utf_8_by_chance_leaves_a_text_in_latin_1(pair: str) -> None:
    whole = f"Für {pair} später x\n"
    assert after(whole.encode("latin-1"), Change("x", "é")) == whole.replace("x", "é").encode("latin-1")
    assert after(whole.encode("latin-1"), Change(pair, "é")) == whole.replace(pair, "é").encode("latin-1")


def test_where_both_are_what_is_written_is_utf_8() -> None:
    content = b"caf\xe9 \xc3\xa9 x"
    assert after(content, Change("x", "日ä")) == b"caf\xe9 \xc3\xa9 " + "日ä".encode()
    assert after(content, Change("caf\xe9 ", "")) == b"\xc3\xa9 x"
    assert "Latin-1, which has no '日'" in refused(b"caf\xe9 x", Change("x", "日"))


@given(
    whole=st.text("aab\n", max_size=20), old=st.text("ab\n", min_size=1, max_size=3), new=st.text("abc\n", max_size=3)
)
@example(whole="aaa", old="aa", new="b")
def test_every_place_or_exactly_one(whole: str, old: str, new: str) -> None:
    """Overlapping places count as several; all of them are replaced as ``str.replace`` does it."""
    places = sum(whole.startswith(old, at) for at in range(len(whole)))
    if old == new:
        assert "the same" in refused(whole.encode(), Change(old, new))
        return
    if places == 0:
        assert refused(whole.encode(), Change(old, new)).startswith("old does not stand in the file")
        assert refused(whole.encode(), Change(old, new, True)).startswith("old does not stand in the file")
        return
    assert after(whole.encode(), Change(old, new, True)) == whole.replace(old, new).encode()
    if places == 1:
        assert after(whole.encode(), Change(old, new)) == whole.replace(old, new).encode()
    else:
        at = [str(whole.count("\n", 0, place) + 1) for place in range(len(whole)) if whole.startswith(old, place)]
        assert refused(whole.encode(), Change(old, new)) == (
            f"old stands in {places} places: lines {', '.join(at[:10])}{', ...' if places > 10 else ''}. "
            "Give more of the text around the one that is meant, or set replace_all"
        )


def test_several_edits_see_each_other_and_are_made_together_or_not_at_all() -> None:
    assert after(b"a b", Change("a", "b c"), Change("c", "d")) == b"b d b"
    assert refused(b"a b", Change("a", "x"), Change("a", "y")).splitlines()[0] == (
        "edit 2 of 2: old does not stand in the file; Read it, and copy the text to replace from there"
    )
    assert refused(b"a", Change("a", "b"), Change("b", "a")) == "the edits undo each other, and would change nothing"
    assert refused(b"a") == "there are no edits; give at least one"
    assert apply_edits(read_text(b"a\nb\na\n"), [Change("a", "c\nd", True), Change("b", "e")]).places == ((1, 3), (3,))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change("", "a"), "old is empty"),
        (Change("a", "a"), "old and new are the same"),
        (Change("a", "\0"), "NUL"),
        (Change("a", "\ud800"), "half a character"),
        (Change("a\nb", "a\r\nb"), "nothing would change"),
    ],
)
def test_what_can_not_be_meant_is_refused(change: Change, expected: str) -> None:
    assert expected in refused(b"a\r\nb", change)


@pytest.mark.parametrize(
    ("content", "old", "lines_shown"),
    [
        (
            "def f():\n    return  1\n",
            "def f():\n  return 1\n",
            ["     1\tdef f():", "     2\t    return  1", "     3\t"],
        ),
        ("x\nthe quick brown fox\ny\r\n", "the quik brown fox", ["     2\tthe quick brown fox"]),
        ("a\n", "something else", []),
        ("a\n", "\n \n", []),
        ("some value\n" * 9, "some  value", [f"{n:>6}\tsome value" for n in (1, 2, 3)]),
        ("x\x1b[2Kthe quick brown fox", "the  quick brown fox", ["     1\tx\\x1b[2Kthe quick brown fox"]),
    ],
)
def test_what_is_nearly_there_is_shown(content: str, old: str, lines_shown: list[str]) -> None:
    """With the numbers of the lines."""
    _, *shown = refused(content.encode(), Change(old, "new")).split("\n")
    assert shown == lines_shown


# ------------------------------------------------------------------------------------------------------ ends of lines


@given(text=texts)
def test_lines_are_the_text(text: str) -> None:
    found = lines_of(text)
    assert "".join(line.text + line.end for line in found) == text
    assert all("\n" not in line.text and (line.end or line.text) for line in found)
    assert all(line.end for line in found[:-1])


@given(text=texts)
@example(text="\r\r\n")
def test_a_text_that_is_put_in_its_own_place_as_it_is_read_is_the_same(text: str) -> None:
    """So that to Write what was Read changes no byte, with any mixture of ends."""
    assert with_ends(text.replace("\r\n", "\n"), text, "\n") == text


@given(new=texts, old=texts, otherwise=ends)
def test_ends_are_all_that_is_adapted(new: str, old: str, otherwise: str) -> None:
    assume("\r\r" not in new + old)
    assert with_ends(new, old, otherwise).replace("\r\n", "\n") == new.replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("text", "at", "end"),
    [("a\r\nb\n", 0, "\r\n"), ("a\r\nb\n", 3, "\n"), ("a\r\nb", 3, "\r\n"), ("\nb", 0, "\n"), ("a", 0, "\n")],
)
def test_a_place_has_the_end_of_its_line(text: str, at: int, end: str) -> None:
    assert end_near(text, at) == end


def test_a_text_is_a_value() -> None:
    assert read_text(b"a") == Text("a", "a")

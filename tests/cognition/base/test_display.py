"""Where the line is drawn between text that stays and text that is shown as an escape."""

import json
import re
import unicodedata

import pytest
from hypothesis import example, given, strategies as st

from cognition import CodecError, CogstepError
from cognition.base.display import LONGEST_LINE, LONGEST_NAME, shown_json, shown_name, shown_text
from tests.cognition.naming import case_name

LEGITIMATE = (
    "plain",
    'a "quoted" back\\slash',
    "مرحبا بالعالم ٣٤ ۝ لا",
    "می\u200cخواهم",  # Persian, with a joiner that its spelling needs
    "שלום עולם שָׁלוֹם",
    "क्\u200dष क्\u200cष हिन्दी",
    "ශ්\u200dරී",
    "Ho\u0302\u0323i e\u0301",
    "日本語　全角",
    "1\u202f000,5\u00a0€",
    "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈 👩🏽\u200d⚕\ufe0f",
    "1\ufe0f\u20e3 #\ufe0f\u20e3 ☎\ufe0e 🇺🇸",
    "∀x∈ℝ: ⌈x⌉ ≥ x │ █░ → ✓",
    "\U0001fae9",  # newer than the tables of some Pythons
)
"""Stays as it is in either form."""

STEERING = {
    "\x1b": "\\x1b", "\x00": "\\x00", "\x07": "\\x07", "\b": "\\x08", "\x7f": "\\x7f", "\x9b": "\\x9b", "\x85": "\\x85",
    "\r": "\\r", "\v": "\\x0b", "\f": "\\x0c", "\u2028": "\\u2028", "\u2029": "\\u2029",
    "\u061c": "\\u061c", "\u200e": "\\u200e", "\u200f": "\\u200f", "\u202a": "\\u202a", "\u202e": "\\u202e",
    "\u2066": "\\u2066", "\u2069": "\\u2069", "\u200b": "\\u200b", "\u200c": "\\u200c", "\u200d": "\\u200d",
    "\u2060": "\\u2060", "\ufeff": "\\ufeff", "\xad": "\\xad", "\u034f": "\\u034f", "\u115f": "\\u115f",
    "\u3164": "\\u3164", "\ufe00": "\\ufe00", "\ufe0f": "\\ufe0f", "\U000e0100": "\\U000e0100",
    "\U000e0041": "\\U000e0041", "\ud83d": "\\ud83d", "\ue000": "\\ue000", "\uffff": "\\uffff",
    "\ufff9": "\\ufff9", "\u2800": "\\u2800",
}  # fmt: skip
"""What no text may do, between two Latin letters; shown in either form."""


@pytest.mark.parametrize("text", LEGITIMATE)
def test_what_spells_something_stays(text: str) -> None:
    """Letters, marks, spaces and symbols of every script, with the invisible characters that their spelling needs."""
    assert (shown_text(text), shown_name(text)) == (text, text)


@pytest.mark.parametrize(("char", "escape"), STEERING.items(), ids=case_name)
def test_what_steers_or_hides_is_shown(char: str, escape: str) -> None:
    """In either form, and in JSON as an escape that stands for the same text."""
    text = f"a{char}b"

    assert (shown_text(text), shown_name(text)) == (f"a{escape}b", f"a{escape}b")
    written = shown_json(json.dumps(text, ensure_ascii=False))
    assert written.isascii()
    assert json.loads(written) == text


def test_only_a_text_has_lines() -> None:
    """Line breaks and tabs stay in a text, where CRLF is one, and are shown in a name."""
    assert shown_text("a\r\nb\n\tc\n") == "a\nb\n\tc\n"
    assert shown_name("a\r\nb\n\tc\n") == "a\\r\\nb\\n\\tc\\n"


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ("👨", "\u200d👩", "\u200d👩"),
        ("❤\ufe0f", "\u200d🔥", "\u200d🔥"),
        ("❤", "\ufe0f", "\ufe0f"),
        ("a", "\u200d👩", "\\u200d👩"),
        ("\u200d", "\u200d", "\\u200d"),
        ("a\ufe0f", "\u200d", "\\u200d"),
    ],
)
def test_a_piece_is_read_with_what_stood_before_it(before: str, text: str, expected: str) -> None:
    """A joiner at the beginning of a piece joins it to the piece before, if that ends with what can be joined."""
    assert shown_text(text, before) == expected


ANY = st.text(st.characters()) | st.text("".join(STEERING) + "ab\n\t👨❤م")


@given(ANY)
def test_whatever_the_text_nothing_unseen_gets_through(text: str) -> None:
    """Of control, format, surrogate, private and separator characters, only joiners and a few visible signs do."""
    allowed = set("\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
    for shown in (shown_text(text).replace("\n", "").replace("\t", ""), shown_name(text, None)):
        assert {char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")} <= allowed
        assert len(shown.splitlines()) <= 1
        assert not re.search("[\u034f\ufe00-\ufe0d\U000e0000-\U000e0fff]", shown)


@given(ANY)
@example("\u2800\u200c")
def test_what_was_shown_once_stays_as_it_is(text: str) -> None:
    """A message may pass the gate several times."""
    for form in (shown_text, shown_name, lambda text: shown_name(text, 60)):
        assert form(form(text)) == form(text)


@given(ANY, st.integers(60, 300))
def test_a_name_is_never_longer_than_it_may_be(text: str, longest: int) -> None:
    """However long the name and its escapes; what is left out is counted."""
    name = text * 50
    shown = shown_name(name, longest)

    assert len(shown) <= longest
    if shown != shown_name(name, None):
        assert re.search(r"… \(\d+ characters not shown\) …", shown)


@given(st.recursive(ANY | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)))
def test_json_stands_for_the_same_value(value: object) -> None:
    """Whatever is escaped in it, and with or without line breaks between the values."""
    for indent in (None, 2):
        written = shown_json(json.dumps(value, ensure_ascii=False, indent=indent))

        assert json.loads(written) == value
        assert shown_text(written) == written


def test_a_huge_name_is_cut_before_it_is_looked_at() -> None:
    """Both ends are shown and the middle is counted: names end with what they are, such as `.exe`."""
    shown = shown_name("x" * 1_000_000 + ".exe")

    assert len(shown) <= LONGEST_NAME
    assert shown.endswith(".exe")
    assert "characters not shown" in shown


@pytest.mark.parametrize(
    ("text", "head", "left_out", "tail"),
    [
        ("ab" * 500, "ab" * 23, 931, "b" + "ab" * 11),
        ("ab" * 60, "ab" * 23, 51, "b" + "ab" * 11),
        ("\x1b" * 1000, "\\x1b" * 11, 984, "\\x1b" * 5),
        ("\x1b" * 50, "\\x1b" * 11, 34, "\\x1b" * 5),
    ],
)
def test_of_a_name_that_is_too_long_the_ends_take_all_the_room_that_there_is(
    text: str, head: str, left_out: int, tail: str
) -> None:
    """Two thirds for its beginning and one for its end; no escape is cut."""
    assert shown_name(text, 100) == f"{head}… ({left_out} characters not shown) …{tail}"


@pytest.mark.parametrize("error", [CogstepError("a\n\x1b[2J\u202e" + "b" * 100_000), CodecError(("$\n", "c\x9b"))])
def test_an_error_that_nobody_catches_is_one_safe_line(error: CogstepError) -> None:
    """Python prints `str(error)`: names in it forge no line and give no orders; `args` has them as they are."""
    shown = str(error)

    assert shown.isprintable()
    assert len(shown) <= LONGEST_LINE
    assert not error.args[0].isprintable()


def test_an_error_of_usual_length_is_told_whole() -> None:
    assert str(CogstepError("b" * LONGEST_LINE)) == "b" * LONGEST_LINE


class PageError(CogstepError):
    """An error whose message is a page of several lines."""

    lines = True


def test_an_error_that_is_a_page_keeps_its_lines_and_no_more() -> None:
    """However long it is; what steers a terminal is shown there too."""
    assert str(PageError("first\n\tsecond \x1b[2J\n" * 500)) == "first\n\tsecond \\x1b[2J\n" * 500


def test_each_of_several_strays_is_shown_and_all_between_them_stays() -> None:
    assert shown_text("a\u200cb\u200cc") == "a\\u200cb\\u200cc"
    assert shown_text("\U0001faff") == "\U0001faff"  # where pictures are added from year to year

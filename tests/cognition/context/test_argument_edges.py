"""How the arguments of a call are shortened, to the character."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from cognition.base.elision import elide
from cognition.context._short_arguments import (
    ALL_CUT,
    AROUND_A_KEY,
    CUT,
    LEFT_OUT,
    LONGEST_NOTE,
    _share,
    shorten_arguments,
    written_length,
)


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def cut(text: str, most: int) -> str:
    """A text with its first three quarters and its last quarter of ``most`` characters, and a note between."""
    return elide(text, most - most // 4, most // 4, CUT.format)


def all_cut(text: str) -> str:
    return json.dumps({LEFT_OUT: ALL_CUT.format(len(text))})


# ----------------------------------------------------------------------------------------------------- sharing the room


@pytest.mark.parametrize(
    ("lengths", "room", "most"),
    [
        ([], 10, 0),
        ([10], 9, 9),
        ([10, 10], 19, 9),
        ([10, 20], 29, 19),
        ([10, 20], 25, 15),
        ([10, 30, 30], 51, 20),
        ([5, 5, 40], 12, 4),
        ([5, 5, 40], 16, 6),
        ([10], -3, -3),
    ],
)
def test_texts_share_the_room_and_what_a_short_one_leaves_goes_to_the_long_ones(
    lengths: list[int], room: int, most: int
) -> None:
    assert _share(lengths, room) == most


@given(st.lists(st.integers(0, 50), max_size=6).map(sorted), st.integers(0, 200))
def test_no_longer_share_has_room(lengths: list[int], room: int) -> None:
    most = _share(lengths, room)

    if sum(lengths) <= room:
        assert most == 0, "nothing needs to be cut"
    else:
        assert sum(min(length, most) for length in lengths) <= room < sum(min(length, most + 1) for length in lengths)


# -------------------------------------------------------------------------------------------------- shortened arguments


def test_arguments_of_just_the_limit_stay() -> None:
    text = written({"text": "x" * 400})

    assert shorten_arguments(text, len(text)) == text
    assert shorten_arguments(text, len(text) - 1) != text


@pytest.mark.parametrize("limit", [200, 201, 202, 203, 300, 399])
def test_one_long_text_takes_all_of_the_room_beside_its_note(limit: int) -> None:
    value = {"path": "a.py", "count": 3, "text": "x" * 300 + "y" * 300}
    room = limit - len(written({"path": "", "count": 3, "text": ""})) - len("a.py")

    short = shorten_arguments(written(value), limit)

    assert short == written({**value, "text": cut(value["text"], room - LONGEST_NOTE)})  # type: ignore[arg-type]
    assert limit - 20 <= len(short) <= limit + 2, "the note is a little shorter, and its line breaks are escaped"


def test_long_texts_are_cut_to_the_same_length_at_any_depth() -> None:
    long = ["a" * 400, "b" * 500, "c" * 600]
    value = {"one": long[0], "rows": [{"two": long[1], "n": 1}, [long[2], None, True, 1.5]], "three": "short"}
    bare = {"one": "", "rows": [{"two": "", "n": 1}, ["", None, True, 1.5]], "three": ""}
    limit = 700
    most = (limit - len(written(bare)) - len("short")) // 3 - LONGEST_NOTE

    short = shorten_arguments(written(value), limit)

    one, two, three = (cut(text, most) for text in long)
    assert short == written({"one": one, "rows": [{"two": two, "n": 1}, [three, None, True, 1.5]], "three": "short"})


def test_a_text_that_a_note_would_not_make_shorter_stays() -> None:
    """Of texts that share the room, one is as long as its share with the note, and one a character longer."""
    limit = 400
    bare = len(written({"a": "", "b": ""}))
    share = (limit - bare) // 2
    stays, goes = "s" * share, "g" * (limit - bare + 40)

    shown = json.loads(shorten_arguments(written({"a": stays, "b": goes}), limit))

    assert shown["a"] == stays
    assert shown["b"] == cut(goes, limit - bare - share - LONGEST_NOTE)


def test_letters_that_json_could_escape_are_written_as_they_are() -> None:
    text = written({"text": "日本語" * 200})
    limit = 300

    short = shorten_arguments(text, limit)

    assert short == written({"text": cut("日本語" * 200, limit - len(written({"text": ""})) - LONGEST_NOTE)})
    assert "\\u" not in short


@pytest.mark.parametrize(("more", "replaced"), [(0, True), (1, False)])
def test_a_note_replaces_all_arguments_if_nothing_is_left_of_the_long_ones(more: int, replaced: bool) -> None:
    text = written({"text": "x" * 600})
    limit = len(written({"text": ""})) + LONGEST_NOTE + more

    short = shorten_arguments(text, limit)

    assert short == (all_cut(text) if replaced else written({"text": cut("x" * 600, 1)}))


def test_short_values_that_take_all_of_the_room_are_replaced_by_a_note() -> None:
    text = written({f"key{number}": number for number in range(50)})

    assert shorten_arguments(text, 100) == all_cut(text)
    assert json.loads(all_cut(text)) == {LEFT_OUT: ALL_CUT.format(len(text))}


@pytest.mark.parametrize("length", range(90, 110))
def test_a_note_replaces_only_what_is_longer(length: int) -> None:
    text = written({"n": int("1" * (length - 7))})
    assert len(text) == length

    assert shorten_arguments(text, 10) == (all_cut(text) if len(all_cut(text)) < length else text)


@pytest.mark.parametrize("text", ["", "no JSON " * 40, '{"a": ' * 200, written(["x" * 900]), '"' + "x" * 900 + '"'])
def test_what_is_no_object_stays(text: str) -> None:
    assert shorten_arguments(text, 100) == text
    assert shorten_arguments("[" * 100_000, 100) == "[" * 100_000


def test_a_key_is_never_shortened() -> None:
    text = written({"k" * 300: "x" * 600})

    assert list(json.loads(shorten_arguments(text, 500))) == ["k" * 300]
    assert shorten_arguments(text, len(written({"k" * 300: ""})) + LONGEST_NOTE) == all_cut(text)


@given(
    st.dictionaries(st.text(max_size=6), st.text(max_size=400) | st.integers() | st.lists(st.text(max_size=200))),
    st.integers(0, 500),
)
@example({"a": "x" * 400, "b": "y" * 390, "c": 5}, 400)
@example({"a": ["x" * 200, "y" * 200], "b": "\n" * 300}, 300)
def test_a_shortened_text_has_its_two_ends_or_a_note_has_the_number_of_all_characters(
    value: dict[str, Any], limit: int
) -> None:
    text = written(value)
    texts = [one for value_of in value.values() for one in (value_of if isinstance(value_of, list) else [value_of])]
    long = [one for one in texts if isinstance(one, str)]
    bare = {
        key: ["" for _ in one] if isinstance(one, list) else "" if isinstance(one, str) else one
        for key, one in value.items()
    }
    most = _share(sorted(map(len, long)), limit - len(written(bare))) - LONGEST_NOTE

    def shown(one: Any) -> Any:
        if isinstance(one, list):
            return [shown(each) for each in one]
        return cut(one, most) if isinstance(one, str) and len(one) > most + LONGEST_NOTE else one

    short = shorten_arguments(text, limit)

    if len(text) <= limit:
        expected = text
    else:
        expected = written({key: shown(one) for key, one in value.items()})
        if most <= 0 or len(expected) >= len(text):
            expected = all_cut(text)
        expected = expected if len(expected) < len(text) else text
    assert short == expected


# --------------------------------------------------------------------------------------------------------- their length


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("{}", 2),
        ('{"a": "b"}', len('{\n    "a": "b"\n}') + AROUND_A_KEY),
        ('{"a":1,"b":{"c":2}}', len('{\n    "a": 1,\n    "b": {\n        "c": 2\n    }\n}') + 3 * AROUND_A_KEY),
        ('{"é": "b:c"}', len('{\n    "\\u00e9": "b:c"\n}') + 2 * AROUND_A_KEY),
    ],
)
def test_arguments_are_at_most_as_long_as_with_line_breaks_and_a_tag_around_each(text: str, length: int) -> None:
    """Each colon may be one of a key."""
    assert written_length(text) == length

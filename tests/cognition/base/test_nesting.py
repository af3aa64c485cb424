"""What counts as nested too deeply is decided here, not by the stack of the interpreter that runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import decoder, scanner
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from cognition import ConfigError, ProposedCall, ToolCall
from cognition.base import strict_json
from cognition.base.encoding import bounded, encoder
from cognition.base.strict_json import (
    DECODER,
    DEEPEST,
    DEEPEST_MESSAGE,
    LAX_DECODER,
    LENIENT,
    NUMBERS,
    BoundedDecoder,
    bracket_too_deep,
)
from cognition.parsing import parse_reply
from cognition.parsing.formats import HERMES
from cognition.parsing.values import SHAPE
from cognition.wire._fields import BadOutputError, object_of


class Reference(json.JSONDecoder):
    """Python's decoder in Python, which counts the levels itself."""

    def __init__(self, deepest: int) -> None:
        super().__init__()
        self.depth = 0

        def counted(read: Any) -> Any:
            def read_one_deeper(*given: Any, **named: Any) -> Any:
                self.depth += 1
                if self.depth > deepest:
                    raise RecursionError
                found = read(*given, **named)
                self.depth -= 1
                return found

            return read_one_deeper

        kinds: Any = decoder
        self.parse_array, self.parse_object = counted(kinds.JSONArray), counted(kinds.JSONObject)
        make: Any = scanner
        self.scan_once = make.py_make_scanner(self)


def outcome(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RecursionError:
        return "nested too deeply"
    except json.JSONDecodeError as error:
        return "no JSON", error.pos, error.doc


PIECES = [
    "[", "]", "{", "}", '"a":', '"a"', '"', "\\", '\\"', ",", ":", "1", " ", "tr", "true", '"x]"', '"[\\\\"', "\n", "é",
    "[[", "]]", '{"a":[', "]}", "\ud800",
]  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.recursive(
        st.sampled_from([1, "a", "]]", "[[", '"', "\\", "é"]),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "{", '"']), inner, max_size=3)
        ),
        max_leaves=20,
    ).map(lambda value: json.dumps(value, ensure_ascii=False)),
)


@given(text=TEXTS, at=st.integers(0, 3), deepest=st.integers(0, 5), window=st.integers(0, 40), levels=st.integers(0, 6))
@example('{"a":[' * 3, 0, 2, 40, 0)
@example('{"a":["]"]}', 0, 1, 40, 6)
@example('[[1,"\\"]]', 0, 1, 40, 6)
def test_the_first_error_of_a_text_is_the_same_as_of_a_reader_that_counts_its_levels(
    text: str, at: int, deepest: int, window: int, levels: int
) -> None:
    """Whatever else is wrong with the text, and wherever the value begins."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(strict_json, "WINDOW", window)
        patched.setattr(strict_json, "USUAL_LEVELS", levels)
        found = outcome(lambda: BoundedDecoder(deepest).raw_decode(text, at))

    assert found == outcome(lambda: Reference(deepest).raw_decode(text, at))


def nested(depth: int, *, closed: bool = True) -> str:
    return "[" * depth + "]" * depth * closed


def objects(depth: int) -> str:
    """An object with that many levels: it, lists and strings full of brackets."""
    return f'{{"a": "]]}}}}[[", "b\\"[": {nested(depth - 1)}, "c": [{{}}]}}'


def value_of(depth: int) -> Any:
    return json.loads(nested(depth))


def called(text: str) -> object:
    reply = parse_reply(HERMES, f'<tool_call>{{"name": "f", "arguments": {text}}}</tool_call>')
    if reply.malformed:
        assert reply.malformed[0].reason == "the JSON is nested too deeply"
        raise RecursionError
    return reply.tool_calls[0].arguments_json


def sent(text: str) -> object:
    try:
        return object_of(text)
    except BadOutputError as error:
        raise RecursionError from error


def made(text: str) -> object:
    try:
        return ToolCall("c", "f", json.loads(text))
    except ConfigError as error:
        if "maximum recursion depth exceeded while encoding a JSON" not in str(error):
            raise
        raise RecursionError from error


ENTRIES: dict[str, tuple[Callable[[str], object], int]] = {
    "arguments": (DECODER.decode, DEEPEST),
    "arguments within a text": (lambda text: DECODER.raw_decode(f"-- {text} {text}", 3), DEEPEST),
    "arguments within a long text": (lambda text: DECODER.raw_decode(f"-- {text} {text * 40}", 3), DEEPEST),
    "text with line breaks in strings": (LAX_DECODER.decode, DEEPEST),
    "recorded arguments": (NUMBERS.decode, DEEPEST),
    "a call's arguments": (lambda text: ToolCall("c", "f", text).arguments, DEEPEST),
    "arguments of a program": (made, DEEPEST),
    "the shape of a reply": (SHAPE.decode, DEEPEST),
    "a model's call": (called, DEEPEST),
    "another program's message": (LENIENT.decode, DEEPEST_MESSAGE),
    "a server's event": (sent, DEEPEST_MESSAGE),
    "an encoded value": (lambda text: encoder(ascii_only=True)(json.loads(text)), DEEPEST_MESSAGE),
    "an encoded text": (lambda text: bounded(text, 7), 7),
}


@pytest.mark.parametrize(("read", "deepest"), ENTRIES.values(), ids=ENTRIES)
@settings(max_examples=10)
@given(off=st.integers(-3, 3), frames=st.sampled_from([0, 100, 300]))
def test_every_entry_has_its_limit_whatever_the_stack_is(
    read: Callable[[str], object], deepest: int, off: int, frames: int
) -> None:
    text = objects(deepest + off)

    def is_read(frames: int) -> bool:
        if frames:
            return is_read(frames - 1)
        try:
            read(text)
        except RecursionError:
            return False
        return True

    assert is_read(frames) == (off <= 0)


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 1_000, 1_600, 9_999, 20_000, 1_000_000])
@pytest.mark.parametrize("begin", ["[", '{"a":'])
@pytest.mark.parametrize("decode", [DECODER.decode, SHAPE.decode, NUMBERS.decode], ids=["strict", "shape", "numbers"])
def test_a_text_that_is_deeper_is_refused_in_the_same_words(
    decode: Callable[[str], object], begin: str, depth: int
) -> None:
    """In those of Python's decoder, which recordings hold: the model was told them."""
    kind = "array" if begin == "[" else "object"
    words = f"^maximum recursion depth exceeded while decoding a JSON {kind} from a unicode string$"
    with pytest.raises(RecursionError, match=words):
        decode(begin * depth)


@pytest.mark.parametrize("depth", [DEEPEST_MESSAGE + 1, 500, 900])
def test_a_value_that_is_deeper_is_not_encoded(depth: int) -> None:
    for value, kind in ((value_of(depth), "array"), (json.loads('{"a":' * depth + "1" + "}" * depth), "object")):
        with pytest.raises(RecursionError, match=f"^maximum recursion depth exceeded while encoding a JSON {kind}$"):
            encoder(ascii_only=False)(value)


def test_what_is_wrong_before_the_first_bracket_too_many_is_said_instead() -> None:
    with pytest.raises(json.JSONDecodeError, match=r"Expecting ',' delimiter: line 1 column 4 \(char 3\)"):
        DECODER.decode("[1 " + nested(2_000))
    with pytest.raises(json.JSONDecodeError, match=r"Expecting value: line 1 column 2 \(char 1\)"):
        DECODER.decode("[, " + nested(2_000))
    with pytest.raises(json.JSONDecodeError, match=rf"Expecting ',' delimiter: .* \(char {DEEPEST + 2}\)"):
        DECODER.decode("[" * DEEPEST + "1 " + nested(2_000))
    with pytest.raises(strict_json.DuplicateKeyError):
        DECODER.decode(f'[{{"a": 1, "a": 2}}, {nested(2_000)}]')


def test_a_long_text_with_few_levels_is_looked_through_in_a_time_that_grows_with_its_length() -> None:
    """Many values side by side, which are read one after the other; strings that never end; brackets in strings."""
    row = '{"a": "]", "b": [1]} ' * 20_000
    at = steps = 0
    while at < len(row):
        _, at = DECODER.raw_decode(row, at)
        at, steps = at + 1, steps + 1

    assert steps == 20_000
    assert bracket_too_deep('["' + '\\"' * 1_000_000) == -1
    assert bracket_too_deep("[1, " + '"["' * 400_000) == -1


def test_a_proposed_call_is_held_to_the_same_limit() -> None:
    assert ProposedCall("f", {"a": value_of(DEEPEST - 1)}).arguments_json == f'{{"a": {nested(DEEPEST - 1)}}}'
    with pytest.raises(ConfigError, match="tool arguments must be JSON values: maximum recursion depth"):
        ProposedCall("f", {"a": value_of(DEEPEST)})


def test_a_text_that_ends_within_its_value_is_read_to_its_end() -> None:
    """It is not too deep; that it is cut is for the decoder to find."""
    assert bracket_too_deep(" [" + "[]," * 2 * DEEPEST, 1) == -1


ROW = "[], " * DEEPEST
"""More brackets side by side than there may be levels."""


@pytest.mark.parametrize(
    ("text", "deepest"),
    [
        (f"[{ROW}1]", DEEPEST),
        (f"[{ROW.replace('[]', '{}')}1]", DEEPEST),
        (f'[{ROW}"é", "", "", "{"[" * DEEPEST}", "\\"[", ""]', DEEPEST),
        (f'[["", ["a", [{ROW}{{"a": {{"b": [[], {{}}]}}}}]]]]', DEEPEST),
        ('["[[[[", ["", ["", "a"]]]', 6),
        ('["[", [[', 3),
        ("[[], [], [], [", 4),
    ],
)
def test_a_usual_text_is_not_read_bracket_by_bracket(text: str, deepest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes three times as long: it is only done for a text that may be too deep."""
    monkeypatch.setattr(strict_json, "NEXT_BRACKETS", None)

    assert bracket_too_deep(text, deepest=deepest) == -1


BEFORE = "[" * DEEPEST + "{" * DEEPEST


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (nested(DEEPEST), 0),
        ('{"a":' * DEEPEST + " " * strict_json.WINDOW + "}" * DEEPEST, 0),
        (BEFORE + nested(DEEPEST).ljust(strict_json.WINDOW), len(BEFORE)),
    ],
)
def test_a_text_with_few_brackets_is_only_counted(text: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its beginning, whatever its length, and of a text within another one as long as that takes little time."""
    monkeypatch.setattr(strict_json, "NEXT_BRACKETS", None)

    assert bracket_too_deep(text, at) == -1


@pytest.mark.parametrize(
    ("before", "value", "after", "place"),
    [
        ("", "[1]", "", -1),
        ("", f"X{nested(DEEPEST + 1)}", "", -1),
        ("", f'"{nested(DEEPEST + 1)}"', "", -1),
        ("-", "[1]", nested(DEEPEST + 1), -1),
        ("-", nested(DEEPEST), nested(DEEPEST), -1),
        ("", f"[[1], {nested(DEEPEST)}]", "", len("[[1], ") + DEEPEST - 1),
        ("-", f"[[1], {nested(DEEPEST)}]", "", len("-[[1], ") + DEEPEST - 1),
        ("", "[" * (DEEPEST - 1) + "1], " + "[[[", "", DEEPEST - 1 + len("1], ") + 2),
    ],
)
def test_levels_are_those_of_one_value(before: str, value: str, after: str, place: int) -> None:
    """A scalar has none, a text behind the value is not its part, and a bracket that was closed is no level."""
    assert bracket_too_deep(before + value + after, len(before)) == place


@pytest.mark.parametrize("before", ['"\\\\"', '"\\\\\\""', '"é"', '""', '"", "a]"', '"\ud800"', '"a\\\\", "\\"]"'])
def test_no_text_in_front_hides_brackets_that_are_too_deep(before: str) -> None:
    """A string that ends with a backslash, holds a quote or is empty ends where it ends for a reader of JSON."""
    text = f"[{before}, {nested(DEEPEST)}]"

    assert bracket_too_deep(text) == len(f"[{before}, ") + DEEPEST - 1
    assert bracket_too_deep(text, deepest=DEEPEST + 1) == -1


@pytest.mark.parametrize("text", ["[1]", '{"a": 1}'])
def test_without_any_levels_only_scalars_are_read_and_written(text: str) -> None:
    """The first bracket of a text is the one that is too deep."""
    assert bounded('"a"', 0) == '"a"'
    assert BoundedDecoder(0).decode('"a"') == "a"
    for read in (lambda: bounded(text, 0), lambda: BoundedDecoder(0).decode(text)):
        with pytest.raises(RecursionError, match=r"^maximum recursion depth exceeded while"):
            read()

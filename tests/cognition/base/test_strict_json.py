"""JSON as the standard means it, of a text that is read in one go and of one that is looked at in its parts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from cognition.base.strict_json import DECODER, LAX_DECODER, LONGEST_NUMBER, NUMBERS, DuplicateKeyError, StrictDecoder

DECODERS = [DECODER, LAX_DECODER, NUMBERS]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from(DECODERS), st.sampled_from([0, LONGEST_NUMBER]))
def test_what_python_writes_is_read_as_it_was(value: object, decoder: json.JSONDecoder, padding: int) -> None:
    """Long texts and short ones are read in two ways, and give the same."""
    assert decoder.decode(" " * padding + json.dumps(value)) == value


@given(VALUES, st.sampled_from(DECODERS), st.sampled_from(["", " ", "\n\t"]))
def test_white_space_around_an_object_says_nothing(value: object, decoder: json.JSONDecoder, space: str) -> None:
    text = json.dumps({"a": value})

    assert decoder.decode(text + space) == decoder.decode(space + text) == {"a": value}


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("text", ['{"a": }', '{"a": 1} 2', '{"a": 1', '{"a"', "{1", "{", '{"a": 1}}', '{"a": 1,}'])
def test_an_object_that_is_broken_is_refused(decoder: json.JSONDecoder, text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        decoder.decode(text)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("padding", [0, LONGEST_NUMBER])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NaN", "NaN is no JSON number"),
        ("-Infinity", "-Infinity is no JSON number"),
        ("[1e999]", "larger than any"),
        ("-1e999", "larger than any"),
        ("", "Expecting value"),
    ],
)
def test_what_is_no_number_is_refused(decoder: json.JSONDecoder, padding: int, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decoder.decode(" " * padding + text)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_whole_number_has_a_longest_length(decoder: json.JSONDecoder) -> None:
    """The longest is read, and the next one is told of in words."""
    longest = "9" * LONGEST_NUMBER

    assert decoder.decode(f"[{longest}]") == [int(longest)]
    with pytest.raises(
        ValueError, match=f"a number of {LONGEST_NUMBER + 1} digits is longer than any that can be read"
    ):
        decoder.decode(f"[{longest}9]")


def test_a_decoder_is_as_strict_as_it_is_made() -> None:
    """Made here and not at import: options reach both ways of reading, that of short texts and that of long ones."""
    pairs = StrictDecoder(object_pairs_hook=tuple)
    lax, strict = StrictDecoder(strict=False), StrictDecoder()
    padding = " " * LONGEST_NUMBER
    longer = "9" * (LONGEST_NUMBER + 1)
    for before in ("", padding):
        assert pairs.decode(before + '{"a": 1}') == (("a", 1),)
        assert pairs.decode(before + '[{"a": 1}]') == [(("a", 1),)]
        assert lax.decode(before + '"a\nb"') == "a\nb"
        assert strict.raw_decode(before + "[1] rest", len(before)) == ([1], len(before) + 3)
        for wrong in ("NaN", "1e999", '"a\nb"', f'{{"a": {longer}}}', f"[{longer}]"):
            with pytest.raises(ValueError, match=r"no JSON number|larger than any|control character|longer than any"):
                strict.decode(before + wrong)
    assert strict.raw_decode("[1] rest") == ([1], 3)


def test_of_a_number_that_is_too_large_its_beginning_is_told() -> None:
    with pytest.raises(ValueError, match=f"^the number 1{'0' * 39} is larger than any that can be read$"):
        NUMBERS.decode(f"1{'0' * 60}e999")


@pytest.mark.parametrize("decoder", [DECODER, LAX_DECODER])
@pytest.mark.parametrize(
    "text", ['{"a": 1, "b": 2, "b": 2}', '[{"b": {}, "a": 1, "b": []}]', '{"c": {"b": 1, "b": 2, "a": 3}}']
)
def test_the_key_that_is_given_twice_is_named(decoder: json.JSONDecoder, text: str) -> None:
    """Even if both values are equal, and however many other keys there are."""
    with pytest.raises(DuplicateKeyError, match=r"^the key 'b' is given twice$"):
        decoder.decode(text)

"""JSON is written as ``json`` writes it."""

from __future__ import annotations

import json
import json.encoder
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition.base.encoding import encoder

WAYS = [(True, True, True), (True, False, False), (False, False, False), (False, True, True)]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
)


@pytest.mark.parametrize(("ascii_only", "sort_keys", "allow_nan"), WAYS)
@given(value=VALUES)
def test_a_value_is_written_as_json_writes_it(ascii_only: bool, sort_keys: bool, allow_nan: bool, value: Any) -> None:
    encode = encoder(ascii_only=ascii_only, sort_keys=sort_keys, allow_nan=allow_nan)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("json.encoder.c_make_encoder", None)
        plain = encoder(ascii_only=ascii_only, sort_keys=sort_keys, allow_nan=allow_nan)

    def usual() -> str:
        return json.dumps(
            value, ensure_ascii=ascii_only, sort_keys=sort_keys, allow_nan=allow_nan, separators=(",", ":")
        )

    try:
        expected = usual()
    except ValueError:
        for one in (encode, plain):
            with pytest.raises(ValueError, match="JSON"):
                one(value)
    else:
        assert encode(value) == plain(value) == expected


def test_members_stay_in_their_order_and_any_number_is_written_unless_the_caller_says_otherwise() -> None:
    assert encoder(ascii_only=True)({"b": 1, "a": float("inf"), "c": "ä"}) == '{"b":1,"a":Infinity,"c":"\\u00e4"}'


@pytest.mark.parametrize("native", [True, False])
def test_what_has_no_form_in_json_is_refused_whatever_encoder_there_is(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    itself: list[Any] = []
    itself.append(itself)
    if not native:
        monkeypatch.setattr("json.encoder.c_make_encoder", None)
    encode = encoder(ascii_only=False)

    assert encode({"a": [1, "ä"]}) == '{"a":[1,"ä"]}'
    for value, error in ((object(), TypeError), ({(): 1}, TypeError), (deep, RecursionError), (itself, RecursionError)):
        with pytest.raises(error, match=r"(not JSON serializable|keys must be|recursion|Stack overflow)"):  # of 3.14
            encode(value)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")]])
def test_numbers_that_json_does_not_have_are_refused_on_request_whatever_encoder_there_is(
    native: bool, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr("json.encoder.c_make_encoder", None)

    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        encoder(ascii_only=True, allow_nan=False)(value)


def test_one_encoder_of_c_writes_all_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its creation for each text is the time that is saved here."""
    created: list[tuple[Any, ...]] = []
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        pytest.skip("this Python has no encoder in C")

    def create(*given: Any) -> Any:
        created.append(given)
        return make(*given)

    monkeypatch.setattr("json.encoder.c_make_encoder", create)
    encode = encoder(ascii_only=True)

    assert [encode(value) for value in (1, [2], {"a": "é"})] == ["1", "[2]", '{"a":"\\u00e9"}']
    assert len(created) == 1


def test_a_python_without_even_the_name_of_the_c_encoder_has_an_encoder() -> None:
    """The name is not part of Python's documented library."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delattr("json.encoder.c_make_encoder", raising=False)
        encode = encoder(ascii_only=False)

    assert encode({"a": [1, "é"]}) == '{"a":[1,"é"]}'


def test_a_long_text_is_written_in_one_piece() -> None:
    """Python 3.11 hands it over in pieces."""
    value = [1] * 150_000

    assert encoder(ascii_only=True)(value) == f"[{','.join('1' * len(value))}]"

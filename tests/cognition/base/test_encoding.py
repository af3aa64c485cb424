"""JSON is written as ``json`` writes it."""

from __future__ import annotations

import json
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

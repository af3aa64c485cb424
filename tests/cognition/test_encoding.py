"""Recordings' JSON is what ``json`` writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition.encoding import encoder

WAYS = [(True, True, True), (True, False, False), (False, False, False), (False, True, True)]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
)


@pytest.mark.parametrize(("ascii_only", "sort_keys", "allow_nan"), WAYS)
@given(value=VALUES)
def test_a_value_is_written_as_json_writes_it(ascii_only: bool, sort_keys: bool, allow_nan: bool, value: Any) -> None:
    encode = encoder(ascii_only=ascii_only, sort_keys=sort_keys, allow_nan=allow_nan)

    def usual() -> str:
        return json.dumps(
            value, ensure_ascii=ascii_only, sort_keys=sort_keys, allow_nan=allow_nan, separators=(",", ":")
        )

    try:
        expected = usual()
    except ValueError:
        with pytest.raises(ValueError, match="JSON"):
            encode(value)
    else:
        assert encode(value) == expected


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
    for value, error in ((object(), TypeError), (deep, RecursionError), (itself, RecursionError)):
        with pytest.raises(error):
            encode(value)

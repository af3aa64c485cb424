"""The limits of a configuration's numbers: the lowest and the highest are valid, and an error names both."""

from __future__ import annotations

from math import nan

import pytest
from attrs import field, frozen

from cognition import ConfigError
from cognition.steps.config import _between


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (None, ""),
        (2.0, ""),
        (2.5, ""),
        (3.0, ""),
        (1.9, "share must be between 2 and 3, not 1.9"),
        (3.1, "share must be between 2 and 3, not 3.1"),
        (nan, "share must be between 2 and 3, not nan"),
    ],
)
def test_a_number_between_two_others_may_be_either(value: float | None, refused: str) -> None:
    assert _refusal(value, above=None) == refused
    assert _refusal(value, above=False) == refused


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (None, ""),
        (2.1, ""),
        (3.0, ""),
        (2.0, "share must be above 2 and at most 3, not 2.0"),
        (1.9, "share must be above 2 and at most 3, not 1.9"),
        (3.1, "share must be above 2 and at most 3, not 3.1"),
        (nan, "share must be above 2 and at most 3, not nan"),
    ],
)
def test_a_number_above_another_is_never_that_number(value: float | None, refused: str) -> None:
    assert _refusal(value, above=True) == refused


def _refusal(value: float | None, *, above: bool | None) -> str:
    """Return the error of a class with a share from 2 to 3; empty without one. ``above`` may be left to its default."""
    validator = _between(2, 3) if above is None else _between(2, 3, above=above)

    @frozen
    class Shared:
        share: float | None = field(validator=validator)

    try:
        Shared(value)
    except ConfigError as error:
        return str(error)
    return ""

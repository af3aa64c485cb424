"""The failures of model calls, as custom runtimes make them."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from cognition import ConfigError, Failure, from_data, to_data
from cognition.values.outcomes import ErrorKind


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "overloaded"}, "kind must be one of 'rate_limit', "),
        ({"kind": "offlin"}, "offline"),
        ({"status": "503"}, "status must be a whole number"),
        ({"needed_tokens": 1.5}, "needed_tokens must be a whole number"),
        ({"kid": "offline"}, "did you mean 'kind'"),
    ],
)
def test_a_failure_that_no_recording_could_hold_is_refused_when_it_is_made(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Failure("busy", **given)


@pytest.mark.parametrize("kind", [None, *get_args(ErrorKind)])
def test_a_failure_of_a_known_kind_is_recorded(kind: ErrorKind | None) -> None:
    failure = Failure("busy", kind, retry_after=3)

    assert from_data(to_data(failure), Failure) == failure

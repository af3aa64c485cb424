"""When a failed call is made again: to the second, since a journal is replayed with the same waits."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cognition import Failure, RetryPolicy
from cognition.steps.retry import classify, delay
from cognition.values.outcomes import ErrorKind

PATIENT = RetryPolicy(attempts=20, first_delay=1.0, longest_delay=1e9)


@pytest.mark.parametrize(("status", "kind"), [(499, "fatal"), (500, "transient"), (501, "transient")])
def test_unknown_statuses_from_500_on_are_transient(status: int, kind: ErrorKind) -> None:
    assert kind == classify(Failure("x", status=status))


@pytest.mark.parametrize("seconds", [0.0, 0.25, 30.0])
@pytest.mark.behaviour("B19")
def test_the_wait_that_a_provider_asks_for_is_kept_however_short(seconds: float) -> None:
    assert seconds == delay(RetryPolicy(), "rate_limit", 2, 1, seconds)


@given(st.integers(1, 10**6), st.integers(2, 20))
def test_at_most_a_quarter_is_added_to_a_wait(turn: int, attempt: int) -> None:
    base = 2.0 ** (attempt - 2)

    assert base <= delay(PATIENT, "transient", attempt, turn, None) < base * 1.25


@given(st.integers(1, 10**6), st.integers(2, 10))
def test_neighbours_in_turn_and_attempt_do_not_wait_alike(turn: int, attempt: int) -> None:
    """The share that is added differs by a hundredth of the wait at least, so that sessions come back apart."""

    def share(turn: int, attempt: int) -> float:
        return delay(PATIENT, "transient", attempt, turn, None) / 2.0 ** (attempt - 2)

    assert abs(share(turn, attempt) - share(turn + 1, attempt)) > 0.01
    assert abs(share(turn, attempt) - share(turn, attempt + 1)) > 0.01


def test_the_waits_of_a_recorded_session_stay_as_they_were() -> None:
    """Known answers: another jitter would make every journal with a retry in it diverge."""
    assert [delay(RetryPolicy(), "transient", n, 1, None) for n in (2, 3, 4)] == [1.09425, 2.053, 4.835]
    assert [delay(RetryPolicy(), "offline", 2, turn, None) for turn in (1, 2, 3)] == [1.09425, 1.074, 1.05375]

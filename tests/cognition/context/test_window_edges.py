"""Fitting a window at its limits: a result of just as many characters as stay of a longer one."""

from __future__ import annotations

import pytest

from cognition.context import OLD_RESULT
from cognition.context.cut_note import PLAIN
from cognition.context.window import STALE_RESULT, _shorten_stale
from tests.cognition.context.test_window import conversation, whole


@pytest.mark.parametrize("most", [STALE_RESULT, OLD_RESULT])
def test_a_window_has_no_limit_for_a_result_that_is_no_longer_than_that(most: int) -> None:
    """However little room there is: nothing would become shorter."""
    history = conversation([(30, [[most]], True)])

    assert _shorten_stale(history, whole(history), 0.0, most, PLAIN) == whole(history)


def test_the_limit_ends_with_the_last_result_that_it_shortens() -> None:
    """The results are at 2 and 4, and the second one has just the characters that stay of the first one."""
    history = conversation([(30, [[1000], [STALE_RESULT]], True)])

    assert _shorten_stale(history, whole(history), 0.0, STALE_RESULT, PLAIN).cuts == ((3, STALE_RESULT),)

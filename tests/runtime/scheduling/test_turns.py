"""Whose turn it is, where that is hard: few sequences, prompts that begin alike, owners who ask at different times."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, product

import pytest
from hypothesis import given, settings, strategies as st

from runtime.scheduling._fair_queue import ACCOUNTS, FairShares
from runtime.scheduling.plan import Limits, Request, Schedule, admit, compose
from runtime.scheduling.tokens import Tokens
from tests.runtime.scheduling.test_plan_machine import Planning

Asked = tuple[int, list[int], int]
"""Whose request, its prompt, and how long its reply is."""

LONG, SHORT = [1, 2, 0], [0]
"""Who asks for the long one waits for another that is being evaluated; for the short one nobody waits."""


def tight(sequences: int, overtaken: int, worth_waiting: int = 1, charged: int = 256) -> Limits:
    return Limits(
        cells=40,
        sequences=sequences,
        batch=sequences,
        chunk=1,
        tile=1,
        worth_waiting=worth_waiting,
        overtaken=overtaken,
        charged=charged,
    )


OVERTAKEN_TOO_OFTEN: list[tuple[Limits, list[Asked]]] = [
    (
        tight(2, 2),
        [(0, LONG, 1), (0, LONG, 1), (0, SHORT, 1), (0, SHORT, 1), (3, LONG, 1), (3, SHORT, 1), (3, SHORT, 3)],
    ),
    (tight(2, 1), [(0, SHORT, 1), (0, LONG, 1), (1, LONG, 1), (1, SHORT, 1), (2, LONG, 1)]),
    (tight(2, 1), [(0, LONG, 1), (1, SHORT, 1), (1, LONG, 1), (2, LONG, 1), (0, SHORT, 1)]),
    (tight(2, 2), [(0, LONG, 1), (1, LONG, 1), (2, LONG, 1), (0, SHORT, 1), (1, SHORT, 1)]),
]
"""Where a level that rises with whoever passes takes the turn away from those who wait to share a prompt."""


def carried_out(limits: Limits, asked: Iterable[Asked | int | None]) -> None:
    """Ask for these, with as many steps between as a number says, and come to an end; ``Planning`` checks each turn.

    At None one that runs is pushed out, so that it waits for its turn again.
    """
    planning = Planning()
    planning.begin(limits=limits)
    for one in asked:
        if one is None:
            planning.push_out(0)
        elif isinstance(one, int):
            for _ in range(one):
                planning.step()
        else:
            owner, prompt, reply = one
            planning.submit(list(prompt), reply, set(), owner)
    planning.teardown()


@pytest.mark.parametrize(("limits", "asked"), OVERTAKEN_TOO_OFTEN)
def test_nobody_is_overtaken_more_often_than_is_said(limits: Limits, asked: list[Asked]) -> None:
    """Add a line for each history that is found."""
    carried_out(limits, asked)


REQUESTS = st.tuples(st.integers(0, 2), st.sampled_from([LONG, SHORT, [*LONG, 1, 1], [1]]), st.sampled_from([1, 1, 3]))


@settings(max_examples=400)
@given(
    st.builds(tight, st.integers(1, 3), st.integers(0, 2), st.integers(1, 2), st.sampled_from([0, 1, 256])),
    st.lists(st.one_of(REQUESTS, REQUESTS, REQUESTS, st.integers(1, 2), st.none()), min_size=4, max_size=10),
)
def test_nobody_is_overtaken_more_often_in_any_small_history(limits: Limits, asked: list[Asked | int | None]) -> None:
    """Few requests on few sequences, so that many of them wait to share; one in a few hundred tells plans apart."""
    carried_out(limits, asked)


def all_histories(length: int) -> Iterable[list[Asked]]:
    """Of two prompts and up to three owners, who are numbered as they come."""
    for kinds in product(product(range(3), (LONG, SHORT)), repeat=length):
        owners = list(dict.fromkeys(owner for owner, _ in kinds))
        if owners == sorted(owners) and owners == list(range(len(owners))):
            yield [(owner, prompt, 1) for owner, prompt in kinds]


@pytest.mark.slow
@pytest.mark.parametrize("overtaken", [1, 2])
def test_nobody_is_overtaken_more_often_in_all_histories_of_five(overtaken: int) -> None:
    """All there are."""
    for asked in all_histories(5):
        carried_out(tight(2, overtaken), asked)


def began(schedule: Schedule) -> tuple[Schedule, list[int]]:
    """The owners of those that begin now, in order."""
    owners: list[int] = []
    while (admitted := admit(schedule)) is not None:
        schedule, start = admitted
        owners.append(schedule.running[start.request].request.owner)
    return schedule, owners


def served(schedule: Schedule, numbers: Iterable[int], asked: Iterable[Asked]) -> Schedule:
    for number, (owner, prompt, reply) in zip(numbers, asked, strict=False):
        schedule = schedule.submit(Request(number, Tokens(prompt), len(prompt) + reply - 1, owner=owner))
    return schedule


def test_who_waits_to_share_a_prompt_keeps_its_turn() -> None:
    """Owner 2 is passed by owner 1, which then waits until 2 has been given as much."""
    schedule = Schedule(Limits(cells=1000, sequences=5, batch=64, chunk=64))
    asked: list[Asked] = [(2, [1] * 100, 1), (2, [1] * 110, 1), *((1, [2 + one] * 50, 1) for one in range(5))]
    schedule, first = began(served(schedule, count(1), asked))
    while any(schedule.behind(run) > 1 for run in schedule.running.values()):
        schedule = schedule.record_batch(compose(schedule))
    for request in tuple(schedule.running):
        schedule = schedule.end(request)
    schedule, then = began(served(schedule, count(9), [(2, [8] * 40, 1), (2, [9] * 40, 1)]))

    assert first == [2, 1, 1, 1, 1]  # so far 100 tokens for owner 2, and 200 for owner 1
    assert then == [2, 2, 2, 1]  # of which the first are 10 tokens and 40


def test_new_owners_without_end_keep_nobody_waiting_for_ever() -> None:
    """Each comes before somebody to whom something was given; past ``ACCOUNTS`` of them all are level again."""
    numbers = count(1)
    schedule = Schedule(Limits(cells=100, sequences=1, batch=8, chunk=8))
    schedule = served(schedule, numbers, [(0, [1] * 9, 1), (0, [2] * 9, 1)])
    turns: list[int] = []
    for owner in range(1, 2 * ACCOUNTS):
        schedule = served(schedule, numbers, [(owner, [3] * 5, 1)])
        schedule, owners = began(schedule)
        turns += owners
        schedule = schedule.end(next(iter(schedule.running)))
        assert len(schedule.shares.ahead) <= ACCOUNTS

    assert turns.count(0) == 2


def test_accounts_are_kept_while_somebody_waits() -> None:
    """Else nobody goes without."""
    schedule = Schedule(Limits(cells=100, sequences=1, batch=8, chunk=8))
    schedule, _ = began(served(schedule, count(1), [(1, [1] * 9, 1), (2, [2] * 9, 1)]))

    assert schedule.shares == FairShares(0, {1: 9})
    assert schedule.remove([2]).shares == FairShares()


@pytest.mark.parametrize(("charged", "at_once", "later"), [(0, 1, 1 + 2), (1, 2, 1 + 2), (2, 3, 3), (256, 9, 9)])
def test_a_reply_is_charged_for_its_beginning_at_once_and_then_token_by_token(
    charged: int, at_once: int, later: int
) -> None:
    """As long as it may be at the most; the last token of a reply is not evaluated."""
    schedule = Schedule(Limits(cells=100, sequences=1, batch=8, chunk=8, charged=charged))
    schedule, _ = began(served(schedule, count(1), [(1, [1], 9), (2, [2], 1)]))
    accounts = [schedule.shares.ahead]
    for _ in range(3):
        batch = compose(schedule)
        schedule = schedule.record_batch(batch).record_tokens({1: (7,)})
    accounts.append(schedule.shares.ahead)

    assert accounts == [{1: at_once}, {1: later}]


def test_what_a_reply_is_charged_does_not_follow_what_it_is_promised() -> None:
    """A reply without a limit is promised more as it goes on; its beginning was charged already, its rest is then."""
    schedule = Schedule(Limits(cells=100, sequences=1, batch=8, chunk=8, charged=4))
    begun, grown = (Request(1, Tokens([1]), most, longest=9) for most in (2, 9))

    assert schedule.charge_for(begun) == schedule.charge_for(grown) == 1 + 4

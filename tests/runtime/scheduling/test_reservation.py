"""Replies without a token limit share one pool: each comes to its end, none waits for ever, no cell is given twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from attrs import define, evolve, field
from hypothesis import given, strategies as st

from runtime.scheduling import reservation as growth
from runtime.scheduling._fair_queue import FairShares
from runtime.scheduling.plan import Limits, Request, Schedule, admit, compose
from runtime.scheduling.reservation import AT_FIRST, evict, grow, is_any_reply_held, remaining_tokens, youngest
from runtime.scheduling.tokens import Tokens


def ask(number: int, prompt: int, reply: int, *, promised: int | None = None, owner: int = 0) -> Request:
    """A request whose reply may have ``reply`` tokens, of which some are promised at first."""
    longest = prompt + reply - 1
    most = longest if promised is None else min(longest, prompt + promised)
    return Request(number, Tokens([number * 1000 + place for place in range(prompt)]), most, (), owner, longest)


@define
class Course:
    """What came of it."""

    said: Counter[int] = field(factory=Counter)
    """The lengths of the replies."""
    pushed_out: Counter[int] = field(factory=Counter)
    """How often each was."""
    together: int = 0
    """How many ran at once, at the most."""
    ended: list[int] = field(factory=list)
    """In which order."""


def carried_out(
    schedule: Schedule, replies: dict[int, int], look: Callable[[Schedule], None] = lambda _: None
) -> Course:
    """Run all, as the engine does; with what holds at each moment."""
    course, since = Course(), dict[int, int]()
    for _ in range(40_000):
        if not (schedule.running or schedule.waiting):
            return course
        schedule, _drops = grow(schedule)
        if not is_any_reply_held(schedule):
            while (admitted := admit(schedule)) is not None:
                schedule, start = admitted
                since[start.request] = course.said[start.request]
        look(schedule)
        course.together = max(course.together, len(schedule.running))
        assert schedule.cache.cells + schedule.promised_cells <= schedule.limits.cells
        batch = compose(schedule)
        if not batch:
            number = youngest(schedule)
            assert number is not None
            assert len(schedule.running) > 1, "one alone has room for all that it may say"
            assert course.said[number] > since[number], "it is pushed out again, and got no further"
            course.pushed_out[number] += 1
            before = schedule.running[number].tokens[:]
            schedule = evict(schedule, number)
            (again,) = [one for one in schedule.waiting if one.id == number]
            assert again.prompt[:] == before
            continue
        schedule = schedule.record_batch(batch)
        sampled = [piece.request for piece in batch if piece.last]
        schedule = schedule.record_tokens(dict.fromkeys(sampled, (7,)))
        for number in sampled:
            course.said[number] += 1
            if course.said[number] == replies[number]:
                schedule = schedule.end(number)
                course.ended.append(number)
    raise AssertionError("it does not come to an end")


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 150), st.booleans(), st.integers(0, 2)), min_size=1, max_size=6
    ),
    st.integers(210, 600),
    st.integers(1, 40),
    st.integers(1, 20),
    st.booleans(),
)
def test_all_come_to_their_end_in_any_pool(
    asked: list[tuple[int, int, bool, int]], cells: int, promised: int, more: int, copies_share: bool
) -> None:
    """Each says all that it has to say, whoever else does, and the oldest that runs is never pushed out."""
    limits = Limits(cells=cells, sequences=4, batch=32, chunk=16, copies_share=copies_share)
    schedule = Schedule(limits)
    replies = {}
    for number, (prompt, reply, limited, owner) in enumerate(asked, start=1):
        request = ask(number, prompt, reply, promised=None if limited else promised, owner=owner)
        schedule = schedule.submit(request)
        replies[number] = reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "AT_FIRST", promised)
        patch.setattr(growth, "MORE", more)
        course = carried_out(schedule, replies)

    assert course.said == replies
    assert course.pushed_out[1] == 0
    assert not any(limited and course.pushed_out[number] for number, (_, _, limited, _) in enumerate(asked, start=1))
    # Each time it begins it says at least what it was promised.
    assert all(times <= replies[number] / promised for number, times in course.pushed_out.items())


def test_many_short_replies_without_a_limit_run_at_once() -> None:
    """Though each of them may fill the pool alone, as none does."""
    schedule = Schedule(Limits(cells=4096, sequences=8, batch=512, chunk=128, can_cut=True))
    for number in range(1, 7):
        schedule = schedule.submit(ask(number, 100, 3900, promised=AT_FIRST))

    course = carried_out(schedule, dict.fromkeys(range(1, 7), 300))

    assert (set(course.said.values()), course.pushed_out.total(), course.together) == ({300}, 0, 6)


def test_one_alone_has_the_whole_context() -> None:
    schedule = Schedule(Limits(cells=4096, sequences=8, batch=512, chunk=128, can_cut=True))
    schedule = schedule.submit(ask(1, 100, 3997, promised=AT_FIRST))

    course = carried_out(schedule, {1: 3997})

    assert (course.said, course.pushed_out.total()) == ({1: 3997}, 0)


def test_all_come_to_their_end_however_long_they_are_and_one_owners_do_so_in_order() -> None:
    """Six replies, each of which fills the pool, and the next of the same owner, which does not pass them."""
    schedule = Schedule(Limits(cells=4096, sequences=6, batch=512, chunk=128, can_cut=True))
    for number in range(1, 8):
        schedule = schedule.submit(ask(number, 100, 3997, promised=AT_FIRST))

    course = carried_out(schedule, dict.fromkeys(range(1, 8), 3997))

    assert set(course.said.values()) == {3997}
    assert course.ended == [*range(1, 8)]
    assert course.together == 6
    # It is evaluated again only as often as it fits in with others: not once for each time that these grow.
    assert course.pushed_out.total() < 20


@pytest.mark.parametrize(("ahead", "order"), [(0, [2, 3, 4]), (100, [4, 2, 3])])
def test_who_was_pushed_out_waits_in_its_old_place(ahead: int, order: list[int]) -> None:
    """Before what its owner asked for later, and in its owner's turn."""
    schedule = Schedule(Limits(cells=2000, sequences=4, batch=512, chunk=128))
    for number in (1, 2):
        schedule = schedule.submit(ask(number, 10, 900, promised=20, owner=0))
    schedule, _ = begun(schedule)
    schedule = schedule.submit(ask(3, 10, 100, owner=0)).submit(ask(4, 10, 100, owner=1))
    schedule = evict(schedule, 2)

    assert begun(evolve(schedule, shares=FairShares().charge({0: ahead})))[1] == order


def begun(schedule: Schedule) -> tuple[Schedule, list[int]]:
    """With all that can begin, in that order."""
    order = list[int]()
    while (admitted := admit(schedule)) is not None:
        schedule, start = admitted
        order.append(start.request)
    return schedule, order


def test_nobody_is_charged_twice_for_what_is_evaluated_again() -> None:
    """Of a reply that is pushed out, the account has each token once."""
    schedule = Schedule(Limits(cells=2000, sequences=1, batch=512, chunk=128, charged=0))
    schedule = schedule.submit(ask(1, 100, 900, promised=50, owner=1)).submit(ask(2, 5, 2, owner=2))
    schedule, _ = begun(schedule)
    for said in (30, 70, 200):
        while schedule.cache.length(0) < 100 + said:
            batch = compose(schedule)
            schedule = schedule.record_batch(batch).record_tokens(
                {piece.request: (7,) for piece in batch if piece.last}
            )
        assert schedule.shares.of(1) == 100 + said
        schedule = (
            evict(schedule, 1).remove((2,)).record_loss(0).submit(ask(2, 5, 2, owner=1))
        )  # of its own: it goes first
        schedule, order = begun(schedule)
        assert order == [1]
        assert schedule.running[1].reused == 0


def test_how_far_replies_may_go_on_is_what_was_promised_to_the_nearest() -> None:
    schedule = Schedule(Limits(cells=4096, sequences=8, batch=512, chunk=128, can_cut=True))
    for number, promised in ((1, 20), (2, 30)):
        schedule = schedule.submit(ask(number, 10, 500, promised=promised))
    while (admitted := admit(schedule)) is not None:
        schedule, _ = admitted

    assert remaining_tokens(schedule) == 30  # of the first, prompt included
    assert remaining_tokens(Schedule(schedule.limits)) > 10**9

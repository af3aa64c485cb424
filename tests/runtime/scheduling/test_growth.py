"""Replies without a token limit share one pool: each comes to its end, none waits for ever, no cell is given twice."""

from __future__ import annotations

from hypothesis import given, strategies as st

from runtime.scheduling.growth import AT_FIRST, grow, is_anybody_held, left, youngest
from runtime.scheduling.plan import Limits, Request, Schedule, admit, compose
from runtime.scheduling.tokens import Tokens


def ask(number: int, prompt: int, reply: int, *, promised: int | None = None) -> Request:
    """A request whose reply may have ``reply`` tokens, of which some are promised at first."""
    longest = prompt + reply - 1
    most = longest if promised is None else min(longest, prompt + promised)
    return Request(number, Tokens([number * 1000 + place for place in range(prompt)]), most, (), 0, longest)


def carried_out(schedule: Schedule, replies: dict[int, int]) -> tuple[dict[int, int], list[int], int]:
    """Run all, as the engine does: the lengths of the replies, those that had to end, and how many ran at once."""
    said = dict.fromkeys(replies, 0)
    crowded, together = list[int](), 0
    for _ in range(20_000):
        if not (schedule.running or schedule.waiting):
            return said, crowded, together
        schedule, _drops = grow(schedule)
        if not is_anybody_held(schedule):
            while (admitted := admit(schedule)) is not None:
                schedule, _start = admitted
        together = max(together, len(schedule.running))
        assert schedule.cache.cells + schedule.promised <= schedule.limits.cells
        batch = compose(schedule)
        if not batch:
            number = youngest(schedule)
            assert number is not None
            crowded.append(number)
            schedule = schedule.ended(number)
            continue
        schedule = schedule.evaluated(batch)
        sampled = [piece.request for piece in batch if piece.last]
        schedule = schedule.sampled(dict.fromkeys(sampled, (7,)))
        for number in sampled:
            said[number] += 1
            if said[number] == replies[number]:
                schedule = schedule.ended(number)
    raise AssertionError("it does not come to an end")


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 150), st.booleans()), min_size=1, max_size=6),
    st.integers(210, 600),
    st.integers(1, 40),
)
def test_all_come_to_an_end_in_any_pool(asked: list[tuple[int, int, bool]], cells: int, promised: int) -> None:
    schedule = Schedule(Limits(cells=cells, sequences=4, batch=32, chunk=16, can_cut=True))
    replies = {}
    for number, (prompt, reply, limited) in enumerate(asked, start=1):
        schedule = schedule.submitted(ask(number, prompt, reply, promised=None if limited else promised))
        replies[number] = reply

    said, crowded, _ = carried_out(schedule, replies)

    assert {number: count for number, count in said.items() if number not in crowded} == {
        number: count for number, count in replies.items() if number not in crowded
    }
    assert all(not asked[number - 1][2] for number in crowded)  # who has a limit was promised all of it
    assert len(crowded) < max(len(asked), 1)


def test_many_short_replies_without_a_limit_run_at_once() -> None:
    """Though each of them may fill the pool alone, as none does."""
    schedule = Schedule(Limits(cells=4096, sequences=8, batch=512, chunk=128, can_cut=True))
    for number in range(1, 7):
        schedule = schedule.submitted(ask(number, 100, 3900, promised=AT_FIRST))

    said, crowded, together = carried_out(schedule, dict.fromkeys(range(1, 7), 300))

    assert (set(said.values()), crowded, together) == ({300}, [], 6)


def test_one_alone_has_the_whole_context() -> None:
    schedule = Schedule(Limits(cells=4096, sequences=8, batch=512, chunk=128, can_cut=True))
    schedule = schedule.submitted(ask(1, 100, 3997, promised=AT_FIRST))

    said, crowded, _ = carried_out(schedule, {1: 3997})

    assert (said, crowded) == ({1: 3997}, [])


def test_the_oldest_comes_to_its_end_however_long_all_others_are() -> None:
    schedule = Schedule(Limits(cells=4096, sequences=8, batch=512, chunk=128, can_cut=True))
    for number in range(1, 7):
        schedule = schedule.submitted(ask(number, 100, 3997, promised=AT_FIRST))

    said, crowded, together = carried_out(schedule, dict.fromkeys(range(1, 7), 3997))

    assert said[1] == 3997
    assert 1 not in crowded
    assert together == 6


def test_how_far_replies_may_go_on_is_what_was_promised_to_the_nearest() -> None:
    schedule = Schedule(Limits(cells=4096, sequences=8, batch=512, chunk=128, can_cut=True))
    for number, promised in ((1, 20), (2, 30)):
        schedule = schedule.submitted(ask(number, 10, 500, promised=promised))
    while (admitted := admit(schedule)) is not None:
        schedule, _ = admitted

    assert left(schedule) == 30  # of the first, prompt included
    assert left(Schedule(schedule.limits)) > 10**9

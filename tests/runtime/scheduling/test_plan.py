"""What the plan does with the situations that it is made for."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from runtime.scheduling.plan import (
    BatchPiece,
    Change,
    Copy,
    Cut,
    Drop,
    Limits,
    Request,
    Schedule,
    Start,
    admit,
    adopt,
    compose,
    keep,
)
from runtime.scheduling.tokens import Tokens

LIMITS = Limits(cells=10_000, sequences=16, batch=512, chunk=128)
SYSTEM = range(1500)
"""The tokens of a system prompt and tools that all agents share."""


def asked(*prompts: list[int], reply: int = 10, limits: Limits = LIMITS) -> Schedule:
    """A schedule with these requests, numbered from 1."""
    schedule = Schedule(limits)
    for number, prompt in enumerate(prompts, 1):
        schedule = schedule.submit(Request(number, Tokens(prompt), len(prompt) + reply - 1))
    return schedule


def planned(schedule: Schedule) -> tuple[Schedule, list[Start], tuple[BatchPiece, ...]]:
    """What begins, and the next batch."""
    starts = []
    while (admitted := admit(schedule)) is not None:
        schedule, start = admitted
        starts.append(start)
    return schedule, starts, compose(schedule)


def stepped(schedule: Schedule) -> tuple[Schedule, tuple[BatchPiece, ...]]:
    """One batch carried out; the model always says 7."""
    schedule, _, batch = planned(schedule)
    schedule = schedule.record_batch(batch)
    return schedule.record_tokens({piece.request: (7,) for piece in batch if piece.last}), batch


def sizes(batch: tuple[BatchPiece, ...]) -> dict[int, int]:
    return {piece.request: len(piece.tokens) for piece in batch}


def test_ten_agents_pay_once_for_what_they_share() -> None:
    """Nine wait for the tenth's prompt, and copy what they share with it."""
    prompts = [[*SYSTEM, 2000 + agent, 3000, 4000] for agent in range(10)]
    schedule, computed = asked(*prompts), 0
    while len(schedule.running) < 10 or any(schedule.behind(run) > 1 for run in schedule.running.values()):
        schedule, batch = stepped(schedule)
        computed += sum(size for size in sizes(batch).values() if size > 1)

    assert computed == len(SYSTEM) + 10 * 3
    assert schedule.cache.cells <= len(SYSTEM) + 10 * (3 + 10)


def test_what_does_not_share_goes_ahead_of_what_waits_to_share() -> None:
    """Waiting for a prompt in the making holds back nobody else."""
    schedule, starts, _ = planned(asked([*SYSTEM], [*SYSTEM, 1], [9, 9, 9]))

    assert [start.request for start in starts] == [1, 3]
    assert [request.id for request in schedule.waiting] == [2]


def test_a_few_shared_tokens_are_not_worth_waiting_for() -> None:
    """The beginning that any two prompts of a template share is computed twice rather than waited for."""
    few = [*range(LIMITS.worth_waiting - 1)]
    _, starts, _ = planned(asked([*few, *range(900, 1000)], [*few, *range(800, 900)]))

    assert [start.request for start in starts] == [1, 2]


def test_who_finds_no_room_is_not_overtaken() -> None:
    """A large request waits for cells, and small ones behind it wait with it."""
    limits = Limits(cells=100, sequences=4, batch=64, chunk=16)
    schedule, starts, _ = planned(asked([1] * 50, [2] * 60, [3] * 5, limits=limits))

    assert [start.request for start in starts] == [1]
    assert admit(schedule.end(1)) is not None


def test_a_long_prompt_delays_replies_by_one_chunk_and_short_prompts_not_at_all() -> None:
    """Batches of prompts and of replies take turns; the short prompt is in the first one, whole."""
    schedule = asked([1], [2], [3])
    schedule, _ = stepped(schedule)
    schedule = schedule.submit(Request(4, Tokens([4] * 4000), 4010)).submit(Request(5, Tokens([5] * 40), 50))
    batches = []
    for _ in range(5):
        schedule, batch = stepped(schedule)
        batches.append(sizes(batch))

    assert batches == [
        {4: LIMITS.tile, 5: 40},
        {1: 1, 2: 1, 3: 1, 5: 1},
        {4: LIMITS.chunk},
        {1: 1, 2: 1, 3: 1, 5: 1},
        {4: LIMITS.chunk},
    ]


def test_prompts_get_on_by_whole_tiles() -> None:
    """Each in turn one, those that waited longest first; what is less than half of one more goes with the last."""
    limits = Limits(cells=10_000, sequences=16, batch=128, chunk=128)
    schedule = asked([1] * 64, [2] * 160, [3] * 95, [4] * 97, limits=limits)
    batches = []
    for _ in range(5):
        schedule, _, batch = planned(schedule)
        schedule = schedule.record_batch(batch)
        batches.append(sizes(batch))

    assert batches == [{1: 64, 2: 64}, {3: 95}, {2: 64, 4: 64}, {2: 32, 4: 33}, {}]


def test_where_tiles_are_to_be_whole_the_ends_of_prompts_come_together() -> None:
    """Each of them beside a tile would be as dear as another tile; all of them in one batch are not."""
    limits = Limits(cells=10_000, sequences=16, batch=256, chunk=128, whole_tiles=True)
    schedule = asked(*([prompt] * 70 for prompt in range(1, 5)), limits=limits)
    batches = []
    for _ in range(3):
        schedule, _, batch = planned(schedule)
        schedule = schedule.record_batch(batch)
        batches.append(sizes(batch))
    beside, _ = stepped(asked([1], limits=limits))
    _, chunk = stepped(beside.submit(Request(2, Tokens([2] * 130), 131)))

    assert batches == [dict.fromkeys(range(1, 5), 64), dict.fromkeys(range(1, 5), 6), {}]
    assert sizes(chunk) == {2: 128}


def test_what_is_left_of_a_prompt_goes_with_a_chunk() -> None:
    """Where half a tile more is enough for all of it, since a reply would wait twice else; no end of a long one."""
    schedule, _ = stepped(asked([1]))
    schedule = schedule.submit(Request(2, Tokens([2] * 79), 80)).submit(Request(3, Tokens([3] * 81), 82))
    batches = []
    for _ in range(3):
        schedule, batch = stepped(schedule)
        batches.append(sizes(batch))
    schedule = schedule.submit(Request(4, Tokens([4] * 79), 80)).submit(Request(5, Tokens([5] * 82), 83))
    _, batch = stepped(schedule)

    assert batches == [{2: 79, 3: 81}, {1: 1, 2: 1, 3: 1}, {1: 1, 2: 1, 3: 1}]
    assert sizes(batch) == {4: 79}
    for length in (154, 160):
        schedule, _ = stepped(asked([1]))
        _, batch = stepped(schedule.submit(Request(2, Tokens([2] * length), 161)))
        assert sizes(batch) == {2: 128}


@pytest.mark.parametrize(("third", "expected"), [(10, {2: 90, 3: 60, 4: 10}), (11, {2: 90, 3: 60})])
def test_half_a_tile_is_all_that_prompts_together_may_take_more(third: int, expected: dict[int, int]) -> None:
    """However many of them would fit in with it alone."""
    schedule, _ = stepped(asked([1]))
    for number, size in enumerate((90, 60, third), 2):
        schedule = schedule.submit(Request(number, Tokens([number] * size), size + 1))
    _, batch = stepped(schedule)

    assert sizes(batch) == expected


def test_neighbours_stand_together() -> None:
    """A batch is in the order of its sequences, which llama.cpp needs to evaluate them in one piece."""
    schedule, _ = stepped(asked([1], [2], [3]))
    schedule = schedule.end(1).submit(Request(4, Tokens([1, 7, 1]), 12))  # takes over the first one
    schedule, batch = stepped(schedule)
    assert [piece.sequence for piece in batch] == [0]
    _, batch = stepped(schedule)

    assert [piece.sequence for piece in batch] == [0, 1, 2]


def test_who_waits_for_a_turn_is_not_overtaken_for_ever() -> None:
    """New short prompts come one after another, and each could take the whole chunk."""
    limits = Limits(cells=10_000, sequences=3, batch=8, chunk=8, tile=8)
    schedule, last = asked([1] * 50, limits=limits), 1
    turns: list[int] = []
    for _ in range(12):
        last += 1
        schedule = schedule.submit(Request(last, Tokens([last] * 8), 8))
        schedule, _, batch = planned(schedule)
        schedule = schedule.record_batch(batch)
        turns += sizes(batch)
        for piece in batch:
            schedule = schedule.end(piece.request) if piece.last else schedule

    assert turns.count(1) >= 4


def test_alone_a_prompt_takes_whole_batches() -> None:
    """Nobody waits for a token, so nothing is kept short."""
    _, batch = stepped(asked([4] * 4000))

    assert sizes(batch) == {1: LIMITS.batch}


def test_a_conversation_goes_on_in_its_own_sequence() -> None:
    """What continues all that a sequence holds takes it over: nothing is copied."""
    schedule, _ = stepped(asked([1, 2, 3], reply=2))
    schedule, _ = stepped(schedule)  # 7 is evaluated now, the next one is not
    schedule = schedule.end(1).submit(Request(2, Tokens([1, 2, 3, 7, 8]), 9))
    _, starts, _ = planned(schedule)

    assert starts == [Start(2, 0, 4, ())]


def test_of_two_that_hold_as_much_the_one_that_nothing_is_lost_of_goes_on() -> None:
    """Even if the other was used later: nobody has to be evicted for it."""
    limits = Limits(cells=100, sequences=2, batch=64, chunk=16)
    schedule = Schedule(limits)
    for tokens in ([1], [1, 1]):
        adopted = adopt(schedule, Tokens(tokens))
        assert adopted is not None
        schedule, _ = stepped(adopted[0])
    _, starts, _ = planned(schedule.submit(Request(1, Tokens([1, 2]), 9)))

    assert starts == [Start(1, 0, 1, ())]


def test_a_fork_leaves_the_other_conversation_in_the_cache() -> None:
    """What shares only a part gets a sequence of its own."""
    schedule, _ = stepped(asked([1, 2, 3, 4]))
    schedule = schedule.end(1).submit(Request(2, Tokens([1, 2, 9]), 9))
    _, starts, _ = planned(schedule)

    assert starts == [Start(2, 1, 2, (Copy(0, 1, 2),))]


def test_the_oldest_goes_first_and_of_the_source_only_what_is_not_shared() -> None:
    """Room is made in the order of last use."""
    limits = Limits(cells=100, sequences=3, batch=64, chunk=16)
    schedule = asked([1] * 30, [2] * 30, [3] * 30, reply=1, limits=limits)
    for request in (1, 2, 3):
        while request in schedule.running or request in {waiting.id for waiting in schedule.waiting}:
            schedule, batch = stepped(schedule)
            for piece in batch:
                schedule = schedule.end(piece.request) if piece.last else schedule
    schedule = schedule.submit(Request(4, Tokens([2] * 20 + [5] * 50), 75))
    _, starts, _ = planned(schedule)

    oldest = min(schedule.cache.held, key=lambda sequence: schedule.cache.held[sequence].used)
    (start,) = starts
    source = next(sequence for sequence, held in schedule.cache.held.items() if held.tokens[0] == 2)
    assert start.reused == 20
    assert start.changes[0] == (Cut(source, 20) if oldest == source else Drop(oldest))
    assert start.sequence == source


def test_a_cache_that_can_not_be_cut_is_continued_or_left_alone() -> None:
    """Recurrent models: all of a sequence, or nothing of it."""
    limits = Limits(cells=100, sequences=3, batch=64, chunk=16, can_cut=False)
    schedule, _ = stepped(asked([1, 2, 3], limits=limits))
    schedule = schedule.end(1)
    goes_on = planned(schedule.submit(Request(2, Tokens([1, 2, 3, 4]), 9)))[1]
    differs = planned(schedule.submit(Request(2, Tokens([1, 2, 9]), 9)))[1]

    assert goes_on == [Start(2, 0, 3, ())]
    assert differs == [Start(2, 1, 0, ())]


@pytest.mark.parametrize(
    ("shares", "most", "change", "cells"),
    [(True, 61, Copy(0, 1, 30), 40), (False, 60, Copy(0, 1, 30), 70), (False, 61, Cut(0, 30), 30)],
)
def test_copies_that_share_nothing_take_cells_of_their_own(shares: bool, most: int, change: Change, cells: int) -> None:
    """Of 100 cells 40 are held: what needs more than 60 for itself takes over what it begins like."""
    limits = Limits(cells=100, sequences=4, batch=64, chunk=16, copies_share=shares)
    schedule, _ = stepped(asked([1] * 40, reply=1, limits=limits))
    schedule = schedule.end(1).submit(Request(2, Tokens([1] * 30 + [2] * 10), most))
    schedule, (start,), _ = planned(schedule)

    assert start.changes == (change,)
    assert schedule.cache.cells == cells
    assert schedule.cache.cells + schedule.promised_cells <= 100


@pytest.mark.parametrize(("shares", "taken"), [(True, True), (False, False)])
def test_a_snapshot_that_has_no_room_is_not_taken(shares: bool, taken: bool) -> None:
    """Where copies take cells, what runs goes before what may be gone back to."""
    limits = Limits(cells=50, sequences=4, batch=64, chunk=16, can_cut=False, copies_share=shares)
    schedule = Schedule(limits).submit(Request(1, Tokens([1] * 30), 40, (20,)))
    schedule, _, batch = planned(schedule)
    kept = keep(schedule.record_batch(batch))

    assert sizes(batch) == {1: 20}
    assert (kept is not None) == taken


def test_a_snapshot_that_has_no_room_leaves_that_of_another_one() -> None:
    """Of 50 cells 41 are promised: 20 more are not to be had, and 5 are."""
    limits = Limits(cells=50, sequences=4, batch=64, chunk=16, can_cut=False, copies_share=False)
    schedule = Schedule(limits).submit(Request(1, Tokens([1] * 22), 23, (20,)))
    schedule = schedule.submit(Request(2, Tokens([2] * 7), 18, (5,)))
    schedule, _, batch = planned(schedule)
    _, copies = kept(schedule.record_batch(batch))

    assert sizes(batch) == {1: 20, 2: 5}
    assert [copy.length for copy in copies] == [5]


def recurrent(*prompts: list[int], ends: tuple[int, ...], sequences: int = 16) -> Schedule:
    """Requests to a model whose cache can't be cut, with boundaries in their prompts."""
    schedule = Schedule(Limits(cells=10_000, sequences=sequences, batch=512, chunk=128, can_cut=False))
    for number, prompt in enumerate(prompts, 1):
        schedule = schedule.submit(Request(number, Tokens(prompt), len(prompt) + 9, ends))
    return schedule


def kept(schedule: Schedule) -> tuple[Schedule, list[Copy]]:
    """With all snapshots that are due."""
    copies: list[Copy] = []
    while (more := keep(schedule)) is not None:
        schedule, changes = more
        copies += [change for change in changes if isinstance(change, Copy)]
    return schedule, copies


def test_agents_of_a_recurrent_model_share_a_snapshot() -> None:
    """Nine wait until the tenth stands at the boundary, and go on from the snapshot, which stays."""
    prompts = [[*SYSTEM, 2000 + agent, 3000, 4000] for agent in range(10)]
    schedule, computed, taken = recurrent(*prompts, ends=(len(SYSTEM), len(SYSTEM) + 2)), 0, list[Copy]()
    while len(schedule.running) < 10 or any(schedule.behind(run) > 1 for run in schedule.running.values()):
        schedule, _, batch = planned(schedule)
        schedule, copies = kept(schedule.record_batch(batch))
        schedule = schedule.record_tokens({piece.request: (7,) for piece in batch if piece.last})
        computed, taken = computed + sum(size for size in sizes(batch).values() if size > 1), taken + copies

    assert computed <= len(SYSTEM) + 10 * 3
    assert [copy.length for copy in taken].count(len(SYSTEM)) == 1


def test_a_snapshot_is_copied_and_a_conversation_is_gone_on_with() -> None:
    """So the next one that begins there finds it too."""
    schedule, _, batch = planned(recurrent([1, 2, 3, 4], ends=(3,)))
    schedule, copies = kept(schedule.record_batch(batch))
    schedule = schedule.end(1)
    fork = planned(schedule.submit(Request(2, Tokens([1, 2, 3, 9]), 9)))[1]

    assert (sizes(batch), copies) == ({1: 3}, [Copy(0, 1, 3)])
    assert fork == [Start(2, 0, 3, ())]  # the conversation stands there as well, and nobody uses it
    busy, _, _ = planned(schedule.submit(Request(2, Tokens([1, 2, 3, 9]), 9)))
    assert planned(busy.submit(Request(3, Tokens([1, 2, 3, 8]), 9)))[1] == [Start(3, 2, 3, (Copy(1, 2, 3),))]


def test_without_a_sequence_to_spare_no_snapshot_is_taken() -> None:
    """Those that run are not touched for it, nor what is from this batch."""
    schedule, _, batch = planned(recurrent([1, 2, 3, 4], [5, 6, 7, 8], ends=(3,), sequences=2))

    assert kept(schedule.record_batch(batch))[1] == []
    three, _, batch = planned(recurrent([1, 2, 3, 4], [5, 6, 7, 8], ends=(3,), sequences=3))
    assert kept(three.record_batch(batch))[1] == [Copy(0, 2, 3)]


def test_guesses_take_what_a_reply_was_promised_and_no_more() -> None:
    """Of its cells, and of the batch."""
    limits = Limits(cells=100, sequences=4, batch=16, chunk=8, guesses=6)
    schedule = asked([1] * 5, [2] * 5, [3] * 30, reply=3, limits=limits)
    schedule, _ = stepped(schedule)
    schedule, _, _ = planned(schedule)
    while any(schedule.behind(schedule.running[id]) > 1 for id in (1, 2)):
        schedule, _ = stepped(schedule)
    batch = compose(schedule, {1: [7] * 9, 2: [7] * 9})
    guessed = {piece.request: piece.guesses for piece in batch if piece.guesses}

    assert guessed == {1: 1, 2: 1}  # of three tokens of the reply one is known, and the last is not evaluated


def test_what_can_never_be_served_is_refused() -> None:
    """No cells for it, or nothing to evaluate."""
    schedule = Schedule(Limits(cells=100, sequences=3, batch=64, chunk=16))

    for prompt, most in (([1] * 50, 101), ([], 5)):
        with pytest.raises(ValueError, match="a prompt of"):
            schedule.submit(Request(1, Tokens(prompt), most))


@pytest.mark.parametrize(
    "limits",
    [
        {"cells": 100, "sequences": 0, "batch": 64, "chunk": 16},
        {"cells": 100, "sequences": 65, "batch": 64, "chunk": 16},
        {"cells": 100, "sequences": 4, "batch": 64, "chunk": 65},
        {"cells": 100, "sequences": 4, "batch": 64, "chunk": 0},
        {"cells": 100, "sequences": 4, "batch": 64, "chunk": 16, "tile": 0},
        {"cells": 3, "sequences": 4, "batch": 64, "chunk": 16},
    ],
)
def test_limits_leave_room_for_every_sequence(limits: dict[str, int]) -> None:
    """Else somebody might starve."""
    with pytest.raises(ValueError, match="no room for every sequence"):
        Limits(**limits)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.lists(st.integers(0, 5), max_size=4)), max_size=12))
def test_rows_of_tokens_never_change(steps: list[tuple[int, int, list[int]]]) -> None:
    """Whatever is made of a row, it stays what it was, and reads like a list."""
    rows, lists = [Tokens()], [list[int]()]
    for which, kept, more in steps:
        row, plain = rows[which % len(rows)], lists[which % len(lists)]
        length = min(kept, len(plain))
        rows += [row.cut(length), row.extend(more)]
        lists += [plain[:length], plain + more]

    for row, plain in zip(rows, lists, strict=True):
        assert list(row) == plain
        assert (len(row), row) == (len(plain), Tokens(plain))
        for part in (slice(None), slice(1, 3), slice(-2, None), slice(None, None, -1), slice(5, 0, -2)):
            assert row[part] == plain[part]
        for index in range(-len(plain), len(plain)):
            assert row[index] == plain[index]
        with pytest.raises(IndexError):
            row[len(plain)]

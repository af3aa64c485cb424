"""A history is a sequence like a tuple, shares its storage, and never changes."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import example, given, strategies as st

from cognition import History, UserMessage
from cognition.values.history import CHUNK, Chunk


def messages(count: int, start: int = 0) -> list[UserMessage]:
    return [UserMessage(f"m{n}", str(n)) for n in range(start, start + count)]


SIZES = st.integers(0, 3 * CHUNK)


@given(SIZES, st.lists(st.integers(0, CHUNK + 2), max_size=5), st.integers(0))
@example(0, [CHUNK], 0)
@example(CHUNK, [], CHUNK)
@example(3, [2], 5)
@example(CHUNK - 1, [CHUNK + 2], 1)
@example(2 * CHUNK, [1], CHUNK + 1)
def test_a_history_is_the_sequence_of_what_was_appended(start: int, additions: list[int], drop: int) -> None:
    """Length, items, slices, iteration and equality are those of a tuple, whatever was dropped before."""
    expected = messages(start)
    history = History(expected)
    for count in additions:
        old, old_length = history, len(expected)
        more = messages(count, len(expected))
        history = history.append(*more)
        expected = expected + more
        assert old_length == len(old)
    cut = drop % (len(expected) + 1)
    history, expected = history.drop(cut), expected[cut:]

    assert len(expected) == len(history)
    assert expected == list(history)
    assert tuple(expected[1:5]) == history[1:5]
    assert tuple(expected[-3:]) == history[-3:]
    assert [expected[i] for i in range(-len(expected), len(expected))] == [
        history[i] for i in range(-len(expected), len(expected))
    ]
    again = History(expected)
    assert again == history
    assert history == again
    assert hash(again) == hash(history)
    assert again.append(*messages(1)) != history


@given(st.integers(0, 2 * CHUNK + 3), st.integers(0), st.data())
def test_every_slice_is_that_of_a_tuple(length: int, drop: int, data: st.DataObject) -> None:
    """Any beginning, end and stride, within one chunk and over several, also after messages were dropped."""
    cut = drop % (length + 1)
    expected, history = tuple(messages(length)[cut:]), History(messages(length)).drop(cut)
    part = data.draw(st.slices(len(expected)))

    assert expected[part] == history[part]


@pytest.mark.parametrize(
    "part",
    [
        *(slice(66, 70), slice(66, 60), slice(64, 2)),
        *(slice(2, 66), slice(2, 5), slice(5, 5), slice(5, 2)),
        *(slice(None, None, 2), slice(65, None, 2)),
    ],
)
def test_slices_are_those_of_a_tuple(part: slice) -> None:
    expected = messages(CHUNK + 9)

    assert tuple(expected[part]) == History(expected)[part]
    assert tuple(expected[3:][part]) == History(expected).drop(3)[part]


def test_histories_are_equal_by_what_they_show_and_not_by_what_was_dropped() -> None:
    left, right = (History([*messages(1, start), *messages(2, 7)]) for start in (100, 200))

    assert left != right
    assert left.drop(1) == right.drop(1)
    assert right.drop(1) == left.drop(1)
    assert left.drop(1) != right.drop(2)


def test_different_histories_have_different_hashes() -> None:
    """So that sets of states stay fast: length and last message tell nearly all histories apart."""
    histories = [History(messages(count)) for count in range(5)] + [History(messages(3, 50))]

    assert len(histories) == len({hash(history) for history in histories})


def test_appending_keeps_old_histories_and_shares_their_chunks() -> None:
    """Two continuations of one history do not see each other."""
    base = History(messages(5 * CHUNK))
    left, right = base.append(*messages(1, 900)), base.append(*messages(1, 901))

    assert len(base) == 5 * CHUNK
    assert left != right
    assert left[0] is base[0] is right[0]
    assert left._chunks[0] is base._chunks[0]


def test_positions_outside_are_errors_and_nothing_can_be_set() -> None:
    history = History(messages(3))
    for index in (3, -4):
        with pytest.raises(IndexError, match=r"message -?\d of 3"):
            history[index]
    with pytest.raises(ValueError, match="can't drop 4 of 3"):
        history.drop(4)
    with pytest.raises(AttributeError, match="can't be changed"):
        history._tail = ()  # type: ignore[misc]  # the mistake itself
    assert history != messages(3)
    assert "UserMessage" in repr(history)


@given(SIZES, st.integers(0, 2 * CHUNK), st.integers(0), st.integers(0))
@example(CHUNK, 1, 0, 0)
@example(2 * CHUNK, 0, 0, 0)
@example(CHUNK - 1, CHUNK, 1, 1)
def test_a_history_continues_what_it_grew_out_of(start: int, more: int, drop: int, other: int) -> None:
    """With the same messages left out at the beginning; and no history continues a longer one, or one begun later."""
    early = History(messages(start))
    late = early.append(*messages(more, start))
    cut, elsewhere = drop % (start + 1), other % (start + 1)

    assert late.drop(cut).continues(early.drop(cut))
    assert early.continues(late) is (more == 0)
    assert late.drop(cut).continues(early.drop(elsewhere)) is (cut == elsewhere)


@given(SIZES, st.integers(1, CHUNK + 1), st.integers(1, CHUNK + 1))
def test_a_history_does_not_continue_one_that_went_another_way(start: int, one: int, other: int) -> None:
    early = History(messages(start))
    here = early.append(*messages(one, start))

    assert not early.append(*messages(other + one, start + 1)).continues(here)
    assert not History(messages(start + one + other, 1)).continues(here)


@pytest.mark.parametrize("place", [0, CHUNK, 2 * CHUNK + 1])
def test_a_history_with_a_changed_message_does_not_continue_the_one_before(place: int) -> None:
    """Wherever it stands, and although all other chunks are shared: as where results are shortened later on."""
    before = History(messages(2 * CHUNK + 5))

    def change(chunk: Chunk, start: int) -> Chunk:
        return tuple(UserMessage("x", "y") if start + at == place else one for at, one in enumerate(chunk))

    changed = before.by_chunks(place, place + 1, change).append(*messages(1, 2 * CHUNK + 5))

    assert not changed.continues(before)
    assert before.append(*messages(1, 2 * CHUNK + 5)).continues(before)


def test_histories_of_equal_messages_that_were_made_apart_are_told_by_their_last_chunk_only() -> None:
    assert History(messages(CHUNK - 1)).continues(History(messages(CHUNK - 1)))
    assert not History(messages(CHUNK + 1)).continues(History(messages(CHUNK)))


@given(SIZES, st.integers(0), st.integers(0, 3 * CHUNK), st.integers(0, 3 * CHUNK))
@example(2 * CHUNK + 5, CHUNK + 1, 0, CHUNK)
@example(2 * CHUNK + 5, 3, CHUNK, 2 * CHUNK)
def test_messages_are_changed_by_chunks_whatever_was_dropped_before(
    count: int, drop: int, one: int, other: int
) -> None:
    """Those between two places are handed over with their places, and the rest stays if it is given back."""
    cut = drop % (count + 1)
    before = History(messages(count)).drop(cut)
    first, end = sorted((one, other))

    def change(chunk: Chunk, start: int) -> Chunk:
        return tuple(
            UserMessage("changed", message.id) if first <= place < end else message
            for place, message in enumerate(chunk, start)
        )

    expected = [UserMessage("changed", m.id) if first <= place < end else m for place, m in enumerate(before)]
    assert expected == list(before.by_chunks(first, end, change))


def test_a_copy_is_equal_and_grows_on() -> None:
    history = History(UserMessage(f"m{number}", "x") for number in range(CHUNK + 3)).drop(2)
    for again in (copy.copy(history), copy.deepcopy(history), pickle.loads(pickle.dumps(history))):
        assert again == history
        assert hash(again) == hash(history)
        assert [*again.append(UserMessage("n", "y"))][:-1] == [*history]

"""What a search of the memory found before a turn is told as far as there is room for it, and never ends a turn."""

from __future__ import annotations

from math import ceil

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import AgentConfig, CallModel, EffectId, MemoryRecalled, UserMessage, UserSpoke
from cognition.context import fixed_size, message_size
from cognition.context.recalled_memory import FROM_NOTES, LEAST_NOTE, NotesText, fit_notes, share_of_memory
from cognition.context.token_counts import count_message
from cognition.context.window import shorten
from cognition.steps.decisions import TurnFinished
from cognition.testing import laws
from cognition.testing._world import World, take
from cognition.values.candidates import CONVERSATION, DEFAULT_SECTIONS, Candidate, Section
from cognition.values.counts import EDGE, PIECE, TemplateCosts, Tokens
from tests.cognition.context.test_token_counts import COSTS, stamps
from tests.cognition.session import Session, engine_with

NOTES = st.lists(st.text("ab é中", max_size=60).map(lambda text: text * 9), min_size=1, max_size=8)
COUNTS = st.sampled_from((None, COSTS))
ROOMS = st.floats(-10, 1500)


def size(told: NotesText, costs: TemplateCosts | None) -> float:
    message = UserMessage("m1", told[0], "engine", tokens=told[1])
    return message_size(message if costs is None else count_message(message, costs))


def tokens_of(notes: list[str], costs: TemplateCosts | None) -> Tokens:
    return () if costs is None else stamps("\n".join(notes))


@given(NOTES, COUNTS, ROOMS, st.booleans())
def test_what_is_told_has_room_and_says_how_many_notes_are_missing(
    notes: list[str], costs: TemplateCosts | None, room: float, stamped: bool
) -> None:
    told = fit_notes(notes, tokens_of(notes, costs) if stamped else (), costs, room)

    if told is None:
        return
    text = told[0]
    assert size(told, costs) <= room
    if text == FROM_NOTES + "\n".join(notes):
        return
    if text.startswith("[... "):
        assert text == f"[... {len(notes)} notes were found, and are left out here for want of room ...]"
        return
    whole = [many for many in range(1, len(notes)) if text.startswith(FROM_NOTES + "\n".join(notes[:many]) + "\n[...")]
    told_of = whole or [1]
    missing = [len(notes) - many for many in told_of]
    if missing != [0]:
        assert any(
            text.endswith(f"[... {many} more notes were found, and are left out here for want of room ...]")
            for many in missing
        )
    if not whole:
        head, _, rest = text.removeprefix(FROM_NOTES).partition("\n[... ")
        assert notes[0].startswith(head)
        assert "characters left out ...]" in rest


@given(NOTES, COUNTS, ROOMS, st.floats(0, 500))
def test_with_more_room_no_note_that_was_told_whole_is_missing(
    notes: list[str], costs: TemplateCosts | None, room: float, more: float
) -> None:
    tokens = tokens_of(notes, costs)

    small, large = (fit_notes(notes, tokens, costs, one) for one in (room, room + more))

    for many in range(1, len(notes) + 1):
        told = FROM_NOTES + "\n".join(notes[:many])
        if (small is not None and small[0].startswith(told + "\n[... ")) or small == (told, ()):
            assert large is not None
            assert large[0].startswith(told)


@given(NOTES)
def test_no_text_is_told_to_have_fewer_tokens_than_it_has(notes: list[str]) -> None:
    """By a tokenizer that makes a token of two characters, with a little more at each cut."""
    for room in range(20, 900, 40):
        told = fit_notes(notes, stamps("\n".join(notes)), COSTS, room)
        if told is not None:
            assert sum(told[1]) >= COSTS.user + ceil(len(told[0]) / 2)


def test_the_best_note_is_told_without_its_middle_where_nothing_else_finds_room() -> None:
    notes = ["b" * 3000, "short"]

    told = fit_notes(notes, (), None, 200.0)

    assert told is not None
    text, tokens = told
    assert tokens == ()
    assert text.startswith(FROM_NOTES + "b" * (LEAST_NOTE // 2))
    assert text.endswith("\n[... 1 more notes were found, and are left out here for want of room ...]")
    assert " characters left out ...]\nbbb" in text
    assert size(told, None) <= 200
    alone = fit_notes(notes[:1], (), None, 200.0)
    assert alone is not None
    assert alone[0].endswith("bbb")
    nothing = fit_notes(notes, (), None, 40.0)
    assert nothing == ("[... 2 notes were found, and are left out here for want of room ...]", ())
    assert fit_notes(notes, (), None, 10.0) is None


@pytest.mark.parametrize("room", [240, 300, 314])
def test_as_many_notes_are_told_whole_as_find_room(room: int) -> None:
    notes = [letter * 300 for letter in "abc"]
    two = "From your notes:\n" + "\n".join(notes[:2])
    left_out = "\n[... 1 more notes were found, and are left out here for want of room ...]"

    assert fit_notes(notes, (), None, float(room)) == (two + left_out, ())
    whole = "From your notes:\n" + "\n".join(notes)
    exact = (len(whole)) / 3 + 8
    assert fit_notes(notes, (), None, exact) == (whole, ())


def test_the_best_note_is_cut_a_tenth_at_a_time_until_it_has_room() -> None:
    """A text is told where there is room for just that text."""
    note = "".join(f"{number:04} " for number in range(200))
    for limit in (900, 810, 729):
        text = FROM_NOTES + shorten(note, limit)
        room = size((text, ()), None)
        assert fit_notes([note], (), None, room) == (text, ())
        less = fit_notes([note], (), None, room - 0.1)
        assert less == (FROM_NOTES + shorten(note, limit * 9 // 10), ())


def test_the_best_note_is_cut_once_more_where_the_least_useful_length_has_no_room() -> None:
    """Of 248 characters 223 and 200 are tried, and then 180."""
    text = FROM_NOTES + shorten("b" * 248, LEAST_NOTE * 9 // 10)

    assert fit_notes(["b" * 248], (), None, size((text, ()), None)) == (text, ())


def test_a_note_that_does_not_become_shorter_is_not_told() -> None:
    """The words in place of its middle are as long as that. It has more tokens than bytes, since it is escaped."""
    told = fit_notes(["x" * 210], (8, 300, 300, 30), COSTS, 300.0)

    nothing = "[... 1 notes were found, and are left out here for want of room ...]"
    assert told == (nothing, (COSTS.user + len(nothing),))


def test_that_notes_were_found_is_told_where_there_is_room_for_just_that() -> None:
    nothing = ("[... 2 notes were found, and are left out here for want of room ...]", ())
    room = size(nothing, None)

    assert fit_notes(["b" * 3000, "c" * 3000], (), None, room) == nothing
    assert fit_notes(["b" * 3000, "c" * 3000], (), None, room - 0.1) is None


def test_notes_that_are_told_in_part_have_the_tokens_of_that_part_and_of_its_cuts() -> None:
    """The first piece is denser than the others, so that each of its characters counts."""
    notes = ["\u00e9" * 400, "\u00e9" * 400]
    tokens = (8, 200, 10, 10, 10, *[50] * 5)  # of 801 characters
    left_out = "\n[... 1 more notes were found, and are left out here for want of room ...]"

    told = fit_notes(notes, tokens, COSTS, 350.0)

    most = len(FROM_NOTES) + (200 + 3 * 10) + len(left_out) + 2 * EDGE
    assert told == (FROM_NOTES + notes[0] + left_out, (COSTS.user + most,))


def test_counts_that_can_not_be_are_not_believed_and_ends_of_a_note_keep_their_share() -> None:
    notes, costs = ["é" * 3000, "b"], COSTS
    tokens = stamps("\n".join(notes))

    by_bytes = fit_notes(notes, (8, -1), costs, 700.0)
    counted_ = fit_notes(notes, tokens, costs, 700.0)

    assert by_bytes is not None
    assert counted_ is not None
    text, (size_of_bytes,) = by_bytes
    assert size_of_bytes == costs.user + len(text.encode())
    assert len(counted_[0]) > 2 * len(text), "a token of two characters, and not of each byte"
    text, (most,) = counted_
    shown = text.count("é")
    ours = len(text) - shown
    cut = PIECE / 2  # at either end a piece is cut, whose tokens may all stand in what is shown of it
    assert costs.user + ours + shown / 2 <= most <= costs.user + ours + shown / 2 + 2 * (EDGE + cut) + 1
    head, _, tail = text.partition("[... ")[0], "", text.split("...]\n")[1].split("\n[")[0]
    assert (head.count("é"), tail.count("é")) == (shown - len(tail), len(tail))
    assert len(tail) * 3 <= head.count("é") <= len(tail) * 3 + 3


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_notes_take_memorys_share_of_what_the_message_and_its_notes_leave(scale: float) -> None:
    session = Session(engine_with(recall_first=True, context_tokens=4096))
    session.state = evolve(session.state, window=evolve(session.state.window, scale=scale))
    session(UserSpoke("Hello", returns='{"type": "string"}'))
    session(MemoryRecalled(EffectId("1.0.0"), ("x" * 200,) * 200))

    asked, returns, notes = session.state.history
    room = 3584 / scale - fixed_size(session.engine.config)
    assert 0.25 * room < message_size(notes) <= 0.3 * room
    long = "w" * int(2.2 * room)
    session = Session(engine_with(recall_first=True, context_tokens=4096))
    session.state = evolve(session.state, window=evolve(session.state.window, scale=scale))
    session(UserSpoke(long, returns='{"type": "string"}'))
    session(MemoryRecalled(EffectId("1.0.0"), ("x" * 200,) * 200))
    asked, returns, notes = session.state.history
    left = room - message_size(asked) - message_size(returns)
    assert left - 150 < message_size(notes) <= left


def test_the_share_is_that_of_the_section_for_memory() -> None:
    assert share_of_memory(DEFAULT_SECTIONS) == 0.3
    assert share_of_memory((Section("memory", 0.1), Section(CONVERSATION, 0.5))) == 0.1
    assert share_of_memory((Section(CONVERSATION, 0.5),)) == 0.3


@pytest.mark.parametrize("counting", [False, True])
@pytest.mark.parametrize("asking", [1, 2900, 3525])
def test_large_notes_never_end_a_turn(counting: bool, asking: int) -> None:
    """Whatever was found, and however much of the prompt the message itself takes."""
    session = Session(engine_with(recall_first=True, context_tokens=4096))
    words = "w" * (asking * 3)
    costs, tokens = (COSTS, (asking + 5,)) if counting else (None, ())
    session(UserSpoke(words, costs=costs, tokens=tokens))
    notes = tuple(f"{number} " + "x" * 2000 for number in range(5))
    session(MemoryRecalled(EffectId("1.0.0"), notes, stamps("\n".join(notes)) if counting else ()))

    assert not [one for one in session.decisions if isinstance(one, TurnFinished)]
    (call,) = [one for one in session.decisions if isinstance(one, CallModel)]
    first, *rest = call.request.messages
    assert first.id == "m1"
    assert len(rest) <= 1
    assert session.state.window.size <= 3584
    assert asking > 2900 or rest[0].text.startswith(FROM_NOTES + notes[0][: LEAST_NOTE // 2])  # type: ignore[union-attr]  # a note is a text


@settings(max_examples=30)
@given(NOTES, st.integers(1, 400), st.booleans(), st.booleans())
def test_every_law_holds_where_notes_are_found(notes: list[str], words: int, counting: bool, sections: bool) -> None:
    engine = engine_with(recall_first=True, context_tokens=1200)
    context = (Candidate("identity", "x" * 200), Candidate("memory", "word " * 40)) if sections else ()
    costs, tokens = (COSTS, (words * 3,)) if counting else (None, ())
    world = World()
    for event in (
        UserSpoke("word " * words, costs=costs, tokens=tokens, context=context, dense=PIECE if counting else 0),
        MemoryRecalled(EffectId("1.0.0"), tuple(notes), tokens_of(notes, costs)),
    ):
        edge = take(engine, world, event)
        for law in laws(engine):
            assert law.step(edge) is None
        world = edge.after


def test_a_recording_of_notes_that_had_room_is_the_same_as_before() -> None:
    assert AgentConfig().sections is DEFAULT_SECTIONS
    assert fit_notes(["tea", "at 5"], (), None, 100.0) == ("From your notes:\ntea\nat 5", ())
    assert fit_notes(["abc", "def"], (8, 4), COSTS, 100.0) == ("From your notes:\nabc\ndef", (5 + 17 + 4 + 8,))

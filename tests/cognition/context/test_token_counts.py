"""Token counts as data: what the core makes of what an interpreter has stamped on inputs."""

from __future__ import annotations

from math import ceil, inf, nan
from typing import Any

import pytest
from attrs import evolve
from hypothesis import example, given, strategies as st

from cognition import (
    AgentState,
    AssistantMessage,
    CallModel,
    Candidate,
    ConfigError,
    EffectId,
    Failure,
    History,
    HookReturned,
    Image,
    MemoryRecalled,
    Message,
    ModelFailed,
    ProposedCall,
    SessionReset,
    TemplateCosts,
    ToolCall,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    Usage,
    UserMessage,
    UserSpoke,
    WorkerFinished,
    fold,
    from_data,
    to_data,
)
from cognition.context import IMAGE_TOKENS, CutNote, fixed_size, message_size, shorten_message
from cognition.context.token_counts import (
    CountedText,
    append_note,
    bare_tokens,
    count_message,
    count_result,
    count_shortened,
    fixed_tokens,
    notes_tokens,
)
from cognition.context.tool_results import prepare_result
from cognition.context.window import ends_of, request_size, shorten, visible_messages
from cognition.steps.config import Limits
from cognition.steps.decisions import ContextAssembled, TurnFinished
from cognition.values.counts import EDGE, MOST_TOKENS, PIECE, most_of_part, most_tokens, valid_tokens
from cognition.values.messages import ToolResult
from cognition.values.outcomes import Completed, Failed
from tests.cognition.session import Session, engine_with, replied, worker

COSTS = TemplateCosts(
    fixed=50, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=250, estimate=16.0, model="a"
)
READ = ToolSpec("read", read_only=True)
LENGTHS = st.integers(0, 1000)
TEXTS = st.text("ab\u00e9\u4e2d", max_size=40).map(lambda text: text * 9)


def stamps(text: str) -> tuple[int, ...]:
    """A result's tokens: two characters are one."""
    return (8, *[ceil(len(text[start : start + PIECE]) / 2) for start in range(0, len(text), PIECE)])


@given(TEXTS)
def test_no_text_has_more_tokens_than_bytes(text: str) -> None:
    assert most_tokens(text) == len(text.encode())
    assert most_tokens("\ud800") == 3


LUMPS = st.lists(st.tuples(st.integers(0, 130), st.integers(0, 130)), min_size=1, max_size=20)
"""Of a text, by turns blanks, which take no token, and digits, which take one each."""


@given(LUMPS, st.integers(60, 1500), st.integers(60, 600), st.booleans())
def test_a_result_that_is_cut_again_and_again_is_never_told_to_have_fewer_tokens_than_it_has(
    lumps: list[tuple[int, int]], limit: int, shown_limit: int, noted: bool
) -> None:
    """However its tokens are spread: all of a piece may stand on one side of where it is cut."""
    text = "".join(" " * blanks + "7" * digits for blanks, digits in lumps)
    stamped = (8, *[text[start : start + PIECE].count("7") for start in range(0, len(text), PIECE)])
    note = "77 7" if noted else ""

    whole = prepare_result(ToolResult(text, tokens=stamped), COSTS, limit + 40, limit, note, "")
    content, tokens = whole.content, whole.tokens
    message = ToolMessage("m", "c", "read", content, tokens=tokens)
    again = shorten_message(message, shown_limit, CutNote(tokens=30))

    for place, count in enumerate(tokens[1:]):
        assert count >= content[place * PIECE : (place + 1) * PIECE].count("7")
    assert sum(again.tokens) >= 8 + again.content.count("7")
    assert sum(tokens) <= 8 + 2 * content.count("7") + len(content.replace("7", "").strip()) + 4 * EDGE + 200


def test_parts_of_a_text_have_at_most_what_their_pieces_have() -> None:
    text = "a" * 250

    assert most_of_part((8, 40, 30, 20), text, 0, 250) == 90
    assert most_of_part((8, 40, 30, 20), text, 90, 210) == 10 + 30 + 10, "and no more than bytes"
    assert most_of_part((40,), text, 0, 30) == 30, "counted as a whole"
    assert most_of_part((8, 400), "a" * 60, 50, 60) == 400, "escaped by the template"
    assert most_of_part((8, 5), text, 20, 20) == 0


@given(st.lists(st.sampled_from((0, 5, MOST_TOKENS, -1, MOST_TOKENS + 1, 10**400)), max_size=3).map(tuple))
def test_counts_that_no_text_has_are_not_believed(tokens: tuple[int, ...]) -> None:
    assert valid_tokens(tokens) == (tokens if all(0 <= count <= MOST_TOKENS for count in tokens) else ())


@pytest.mark.parametrize("wrong", [-1, MOST_TOKENS + 1, 1.5, nan, True, "7", None])
def test_costs_that_can_not_be_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"TemplateCosts.user must be a number of tokens, from 0 to 1000000000000"):
        evolve(COSTS, user=wrong)


@pytest.mark.parametrize("wrong", [-1.0, nan, inf, 1e13])
def test_an_estimate_that_can_not_be_is_refused(wrong: float) -> None:
    with pytest.raises(ConfigError, match="estimate must be a number of tokens, from 0 to 10"):
        evolve(COSTS, estimate=wrong)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage("m", "abc\u00e9"), (5 + 5,)),
        (UserMessage("m", "", parts=(Image.of(b"GIF89a"),)), (5 + IMAGE_TOKENS,)),
        (AssistantMessage("m", "ab", "c"), (6 + 3,)),
        (AssistantMessage("m", "", "", (ToolCall("c", "look"), ToolCall("c", "see"))), (6 + 2 * 7 + 4 + 2 + 3 + 2,)),
        (ToolMessage("m", "c", "look", "x" * 150), (8 + len("look"), 100, 50)),
        (ToolMessage("m", "c", "look", "x" * 150, tokens=(8, 9, 10)), (8, 9, 10)),
        (ToolMessage("m", "c", "look", "x", tokens=(8, -1)), (8 + len("look"), 1)),
    ],
)
def test_what_nobody_has_counted_has_a_token_a_byte(message: Message, tokens: tuple[int, ...]) -> None:
    assert count_message(message, COSTS) == evolve(message, tokens=tokens)
    assert message_size(count_message(message, COSTS)) == sum(tokens)


def test_a_counted_message_stays_the_same_object() -> None:
    """So that histories share it."""
    message = UserMessage("m", "abc", tokens=(7,))

    assert count_message(message, COSTS) is message


@pytest.mark.parametrize(("tokens", "kept"), [((8, 9), (8, 9)), ((8, -1), (8 + 4, 3)), ((), (8 + 4, 3))])
def test_a_result_has_its_count_or_a_token_a_byte(tokens: tuple[int, ...], kept: tuple[int, ...]) -> None:
    assert count_result("abc", tokens, COSTS, "look").tokens == kept


def test_what_has_come_to_the_fixed_part_has_a_token_a_character() -> None:
    engine = engine_with(READ)
    estimate = fixed_size(engine.config)
    costs = evolve(COSTS, estimate=estimate)

    assert request_size(engine.build_prompt(AgentState())) == estimate
    assert fixed_tokens(costs, estimate) == fixed_tokens(costs, estimate - 1) == 50
    assert fixed_tokens(costs, estimate + 20) == 110


@given(TEXTS, st.none() | st.integers(1, 300), st.integers(1, 600), st.just("") | TEXTS, st.booleans())
def test_a_result_is_kept_as_without_counts_and_never_counted_for_less(
    text: str, own: int | None, limit: int, note: str, stamped: bool
) -> None:
    """Two characters are a token here, and what the engine puts in between has one for each byte."""
    result = ToolResult(text, tokens=stamps(text) if stamped else ())

    whole = prepare_result(result, COSTS, own, limit, note, "")

    content, tokens = whole.content, whole.tokens
    assert evolve(whole, tokens=()) == prepare_result(result, None, own, limit, note, "")
    assert len(tokens) == len(stamps(content))
    assert sum(tokens) >= sum(stamps(content))
    if content == text:
        assert tokens == (stamps(text) if stamped else count_result(text, (), COSTS).tokens)


@pytest.mark.parametrize(("own", "limit"), [(100, 900), (900, 100), (None, 100)])
def test_the_lower_of_two_limits_holds_without_counts_too(own: int | None, limit: int) -> None:
    whole = prepare_result(ToolResult("x" * 500), None, own, limit, "", "")

    note = "\n[... 400 characters left out ...]\n"
    assert (whole.content, whole.tokens, whole.left_out) == ("x" * 75 + note + "x" * 25, (), 400)


@given(LENGTHS, st.none() | st.integers(1, 900), st.integers(1, 900), st.integers(0, 900), st.booleans())
@example(100, 40, 60, 50, False)
@example(100, 80, 70, 0, True)
def test_what_is_kept_of_a_result_says_how_much_of_it_is_missing(
    length: int, own: int | None, limit: int, noted: int, counts: bool
) -> None:
    """Of the result itself, and neither of the program's note nor of those about what is missing."""
    result = ToolResult("x" * length)

    whole = prepare_result(result, COSTS if counts else None, own, limit, "n" * noted, "")

    assert whole.left_out == length - whole.content.count("x")


@given(LENGTHS, LENGTHS, st.sampled_from((0, 20)))
@example(1000, 400, 20)
def test_a_shortened_result_is_counted_by_what_it_shows(length: int, limit: int, note_tokens: int) -> None:
    text = "x" * length
    message = ToolMessage("m", "call-1-1-1", "read", text, tokens=stamps(text))
    note = CutNote("Again", tokens=note_tokens)

    short = shorten_message(message, limit, note)

    assert isinstance(short, ToolMessage)
    if short == message:
        return
    said = note.of(message, length)
    whole = len(short.content) - len(said)
    assert sum(short.tokens) < sum(message.tokens)
    assert sum(short.tokens) >= 8 + whole / 2 + (note_tokens or len(said)) - 2
    assert sum(short.tokens) <= 8 + whole / 2 + (note_tokens or len(said)) + 2 * EDGE + 4 + PIECE


@given(st.lists(st.tuples(st.sampled_from(" e\u8a9e\U0001f600"), st.integers(1, 120)), max_size=9), st.integers(1, 500))
@example([("\u8a9e", 43), (" ", 57)] * 5 + [(" ", 19), ("\u8a9e", 43), (" ", 38)], 400)
def test_a_shortened_result_is_never_counted_for_less_wherever_its_pieces_are_dense(
    runs: list[tuple[str, int]], limit: int
) -> None:
    """Columns that blanks fill up: all tokens of a piece stand on one side of where it is cut."""
    text = "".join(character * times for character, times in runs)
    tokens = (8, *[tokens_of(text[start : start + PIECE]) for start in range(0, len(text), PIECE)])
    note = CutNote()

    short = shorten_message(ToolMessage("m", "c", "read", text, tokens=tokens), limit, note)

    assert isinstance(short, ToolMessage)
    assert sum(short.tokens) >= 8 + tokens_of(short.content)


def tokens_of(text: str) -> int:
    """Sixteen blanks are a token, four other letters of ASCII too, and each byte of any other character."""
    blanks, wide = text.count(" "), sum(len(character.encode()) for character in text if not character.isascii())
    return ceil(blanks / 16) + ceil(sum(map(str.isascii, text.replace(" ", ""))) / 4) + wide


def test_a_shortened_result_has_the_tokens_of_its_ends_its_note_and_its_cuts() -> None:
    """The first piece is denser than the others, so that each of its characters counts."""
    text = "\u00e9" * 900
    message = ToolMessage("m", "c", "read", text, tokens=(8, 200, *[50] * 8))
    note = CutNote(tokens=30)
    limit = 100 + 60 + len(note.of(message, len(text)))

    short = shorten_message(message, limit, note)

    assert isinstance(short, ToolMessage)
    assert (len(short.content.partition("\n")[0]), len(short.content.rpartition("\n")[2])) == (120, 40)
    assert short.tokens == (8 + (200 + 40) + 50 + 30 + 2 * EDGE,), "20 characters of two bytes, and at most a piece"


def test_a_result_that_costs_no_less_shortened_stays_whole() -> None:
    message = ToolMessage("m", "call-1-1-1", "read", "x" * 500, tokens=(8, 1, 1, 1, 1, 1))

    assert shorten_message(message, 200) == message
    assert shorten_message(evolve(message, tokens=()), 200) != evolve(message, tokens=())


# ---------------------------------------------------------------------------------------------------------- in sessions


def spoken(session: Session, text: str = "Go", costs: TemplateCosts | None = COSTS, **more: Any) -> ContextAssembled:
    session(UserSpoke(text, costs=costs, **more))
    return report(session)


def report(session: Session) -> ContextAssembled:
    return next(decision for decision in session.decisions if isinstance(decision, ContextAssembled))


def last(session: Session) -> Message:
    return session.state.history[-1]


def test_a_session_adds_up_what_was_counted_and_says_so() -> None:
    """System prompt, message, reply, result: each with its own count, and the report has the sum."""
    engine = engine_with(READ)
    costs = evolve(COSTS, estimate=fixed_size(engine.config))
    session = Session(engine)

    first = spoken(session, costs=costs, tokens=(9,))
    session(evolve(replied("1.1.0", "", ProposedCall("read")), tokens=(21,)))
    session(ToolReturned(EffectId("1.1.1"), "abc", tokens=(8, 2)))
    second = report(session)

    assert (first.tokens, first.counted, first.dropped, first.turns) == (59, True, 0, 0)
    assert (second.tokens, second.remaining) == (50 + 9 + 21 + 10, second.budget - 90)
    assert [message.tokens for message in session.state.history] == [(9,), (21,), (8, 2)]
    assert from_data(to_data(session.state), AgentState) == session.state


def test_without_costs_counts_mean_nothing() -> None:
    """Whoever stamps a message has to say what stands beside it; a report is an estimate then, as ever."""
    session, plain = Session(engine_with(READ)), Session(engine_with(READ))
    plain(UserSpoke("Go"))

    assert not spoken(session, costs=None, tokens=(900,)).counted
    assert session.state == plain.state


def test_what_the_runtime_reports_takes_off_what_was_too_much() -> None:
    """Until something is left out, the system prompt changes, or the prompt had a beginning of its own."""
    session = Session(engine_with(READ))
    whole = spoken(session, tokens=(90,)).tokens
    session(replied("1.1.0", "", ProposedCall("read"), usage=Usage(input_tokens=whole - 20)))
    session(ToolReturned(EffectId("1.1.1"), "abc", tokens=(8, 2)))

    assert session.state.window.slack == 20
    assert session.state.window.scale == 1.0
    assert report(session).tokens == whole - 20 + sum(sum(message.tokens) for message in session.state.history[1:])
    session(replied("1.2.0", "Done."))
    spoken(session, costs=None, system="Be kind.")
    assert session.state.window.slack == 0


@pytest.mark.parametrize(
    ("tokens", "slack", "scale"),
    [(10**400, 0, 5.0), (1, 0, 1.0), (29, 0, 1.0), (30, 120, 1.0), (150, 0, 1.0), (300, 0, 2.0)],
)
def test_a_report_that_is_larger_than_the_sum_or_beyond_reason_is_no_slack(
    tokens: int, slack: int, scale: float
) -> None:
    session = Session(engine_with(READ))
    size = spoken(session, tokens=(100,), costs=evolve(COSTS, estimate=1000.0)).tokens
    session(replied("1.1.0", "Done.", usage=Usage(input_tokens=tokens)))

    assert size == 150
    assert (session.state.window.slack, session.state.window.scale) == (slack, scale)


def test_another_models_counts_begin_with_what_it_says_of_the_newest_messages() -> None:
    """Older ones count as the most that they can have, and estimates are forgotten."""
    session = Session(engine_with(READ))
    session(UserSpoke("Hello"))
    session(replied("1.1.0", "Hi.", usage=Usage(input_tokens=100)))
    assert session.state.window.scale != 1.0

    spoken(session, "Go", tokens=(3,), earlier=((4,),))
    assert [message.tokens for message in session.state.history] == [(5 + 5,), (4,), (3,)]
    assert session.state.window.scale == 1.0
    session(replied("2.1.0", "Done."))
    spoken(session, "On", evolve(COSTS, fixed=60), tokens=(2,), earlier=((1,),))
    assert [message.tokens for message in session.state.history[:3]] == [(10,), (4,), (3,)]
    session(replied("3.1.0", "Done."))
    spoken(session, "On", evolve(COSTS, model="b"), tokens=(2,), earlier=((1,),) * 9)
    assert [sum(message.tokens) for message in session.state.history[:-1]] == [1] * 6
    session(replied("4.1.0", "Done."))
    session(SessionReset())
    assert session.state.costs is None
    assert not spoken(session, costs=None).counted


def test_what_becomes_a_result_brings_its_counts() -> None:
    """An error, notes that were found, and what a hook says with a result."""
    session = Session(engine_with(READ, features=("memory",), recall_first=True, hooks=("after_tool",)))
    session(UserSpoke("Go", costs=COSTS))
    session(MemoryRecalled(EffectId("1.0.0"), ("abc", "def"), (8, 4)))
    assert last(session).tokens == (5 + len("From your notes:\n") + 4 + EDGE,)
    session(replied("1.1.0", "", ProposedCall("read"), ProposedCall("recall", {"query": "a"})))
    session(ToolFailed(EffectId("1.1.1"), "no", tokens=(8, 3)))
    session(HookReturned(EffectId("1.1.3"), context="well"))
    session(MemoryRecalled(EffectId("1.1.2"), ("abc",), (8, 2)))
    session(HookReturned(EffectId("1.1.4")))

    failed, found = session.state.history[-2:]
    assert isinstance(failed, ToolMessage)
    assert failed.content == "Error: no\nwell"
    assert failed.tokens == (8 + EDGE, 3 + len("\nwell"))
    assert found.tokens == (8, 2)
    session(replied("1.2.0", "", ProposedCall("recall", {"query": "b"})))
    session(MemoryRecalled(EffectId("1.2.1"), (), (8,)))
    session(HookReturned(EffectId("1.2.2")))
    assert last(session).tokens == (8 + len("recall"), len("Nothing found."))
    assert notes_tokens(COSTS, (8, -1), "a") == notes_tokens(None, (8, 1), "a") == ()


def test_the_result_of_a_worker_brings_its_counts() -> None:
    session = Session(engine_with(features=("workers",)))
    session(UserSpoke("Go", costs=COSTS))
    session(replied("1.1.0", "", worker("a")))

    session(WorkerFinished(EffectId("1.1.1"), "found", tokens=(8, 2)))

    assert last(session).tokens == (8, 2)


@pytest.mark.parametrize("cut", [30, 100])
def test_results_that_are_shown_short_already_are_counted_short(cut: int) -> None:
    """With the note that stands in them, as a tool reads them again; a size is a float, whatever it was added from."""
    session = Session(engine_with(evolve(READ, rereads=True), limits=Limits(steps=30)))
    session(UserSpoke("Go"))
    while not session.state.window.cuts:
        step = session.state.counters.step
        session(replied(f"1.{step}.0", "", ProposedCall("read", {"n": step})))
        session(ToolReturned(EffectId(f"1.{step}.1"), "x" * 1000))
    session(replied(f"1.{session.state.counters.step}.0", "Done."))

    counts = tuple((8, *[25] * 10) if isinstance(one, ToolMessage) else (9,) for one in session.state.history)
    session(UserSpoke("Go on", costs=evolve(COSTS, cut=cut), tokens=(9,), earlier=counts))

    window = session.state.window
    note = CutNote("read", tokens=cut, user=COSTS.user)
    shown = visible_messages(session.state.history, window, note)
    assert window.cuts
    assert (window.size, type(window.size)) == (sum(map(message_size, shown)), float)


def test_a_prompt_that_was_refused_is_made_shorter_whatever_the_counts_say() -> None:
    session = Session(engine_with(READ, edition=1))
    spoken(session, costs=TemplateCosts(0, 0, 0, 0, 0, 0, 0, 0, 1000.0), tokens=(0,))
    overflow = ModelFailed(EffectId("1.1.0"), Failure("too long", "context_overflow", needed_tokens=9000))
    session(overflow)

    assert session.state.window.scale > 1.0


def test_a_long_turn_is_shortened_by_counts_and_ends_with_its_answer() -> None:
    """Ten results of 1,000 characters, two to a token, at 4,096 tokens."""
    session = Session(engine_with(READ, limits=Limits(steps=20)))
    spoken(session, costs=evolve(COSTS, estimate=fixed_size(session.engine.config)), tokens=(9,))
    for step in range(1, 11):
        session(evolve(replied(f"1.{step}.0", "", ProposedCall("read", {"n": step})), tokens=(21,)))
        session(ToolReturned(EffectId(f"1.{step}.1"), "x" * 1000, tokens=stamps("x" * 1000)))
        told = report(session)
        assert told.tokens <= told.budget
    assert told.shortened > 1
    assert told.turns == 0
    decisions = session(replied("1.11.0", "Done."))
    assert isinstance(decisions[-1], TurnFinished)
    assert isinstance(decisions[-1].outcome, Completed)


def test_whole_turns_that_are_left_out_are_told() -> None:
    session = Session(engine_with(context_tokens=1000))
    for turn in range(1, 9):
        told = spoken(session, "x" * 50, COSTS if turn == 1 else None, tokens=(100,))
        session(evolve(replied(f"{turn}.1.0", "Well."), tokens=(10,)))

    assert (told.turns, told.dropped) == (told.dropped // 2, 2 * told.turns)
    assert told.turns > 0


# ------------------------------------------------------------------------------------------------- beside conversations


@pytest.mark.parametrize(
    ("dense", "each"), [(50, 2), (1, 100), (400, 0.25), (401, 0.25), (0, 0.25), (10**400, 0.25), (-1, 0.25)]
)
def test_sections_are_counted_by_the_densest_of_their_candidates(dense: int, each: float) -> None:
    session = Session(engine_with())
    text = "word " * 30
    session(UserSpoke("Go", context=(Candidate("identity", text),), dense=dense, costs=COSTS, tokens=(9,)))
    briefing = session.state.briefing
    assert briefing is not None

    length = len(briefing.standing) + 4
    assert briefing.tokens == ceil(length / each) + 4 * EDGE
    fixed = fixed_tokens(COSTS, fixed_size(session.engine.config))
    assert report(session).tokens == fixed + 9 + briefing.tokens
    call = next(decision for decision in session.decisions if isinstance(decision, CallModel))
    assert session.engine.build_prompt(session.state) == call.request


def test_sections_that_have_to_be_in_and_have_too_many_tokens_end_the_turn() -> None:
    session = Session(engine_with(context_tokens=1000))
    session(UserSpoke("Go", context=(Candidate("identity", "x" * 900),), dense=100, costs=COSTS, tokens=(9,)))

    end = session.decisions[-1]
    assert isinstance(end, TurnFinished)
    assert isinstance(end.outcome, Failed)


def test_a_fold_of_counted_inputs_gives_the_state() -> None:
    session = Session(engine_with(READ))
    events = [
        UserSpoke("Go", tokens=(9,), costs=COSTS, at=1.0),
        evolve(replied("1.1.0", "", ProposedCall("read")), tokens=(21,)),
        ToolReturned(EffectId("1.1.1"), "abc", (8, 2)),
    ]
    for event in events:
        session(event)
    again = [from_data(to_data(event), type(event)) for event in events]

    assert fold(session.engine, again) == session.state
    assert History(session.state.history) == session.state.history


def test_a_request_without_tools_has_a_token_for_each_character_that_has_come_since() -> None:
    """Of an estimate each token has three characters."""
    assert bare_tokens(COSTS, 18.0) == COSTS.bare + 6
    assert bare_tokens(COSTS, 15.0) == COSTS.bare


def test_a_note_behind_a_text_has_a_token_for_each_byte_and_the_text_keeps_its_own() -> None:
    """The last letter of the text has two bytes, and is not counted with the note."""
    whole = CountedText("x" * 94 + "\u00e9", (8, 10))

    assert append_note(whole, "77") == CountedText("x" * 94 + "\u00e9\n77", (8 + EDGE, 10 + 3))


def test_the_pieces_of_a_shortened_text_have_the_tokens_of_the_ends_and_of_the_note() -> None:
    """Piece one is of the beginning; two has 50 characters of it, the note, and 15 of the end; three has the rest."""
    text = shorten("x" * 400, 200)
    note = len(text) - 200

    assert count_shortened(CountedText("x" * 400, (8, 10, 10, 10, 10)), text, *ends_of(200)) == CountedText(
        text, (8 + EDGE, 10, 10 + note + 10, 10)
    )
    assert count_shortened(CountedText("x" * 400, ()), text, *ends_of(200)) == CountedText(text, ())

"""Compaction: a model call summarises what came before, and the turn goes on with the summary in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    AssistantMessage,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    Cancelled,
    Compacted,
    Compacting,
    CompactionAsked,
    Completed,
    Failed,
    Failure,
    GenerationOptions,
    History,
    Idle,
    Input,
    LimitReached,
    Limits,
    LLMEngine,
    Message,
    ModeChanged,
    ModelFailed,
    ModelInterrupted,
    NotCompacted,
    ProposedCall,
    Rejected,
    RetryPolicy,
    SessionClosed,
    SessionReset,
    ShutdownAsked,
    StartTimer,
    Thinking,
    TimerFired,
    ToolCall,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    from_data,
    to_data,
)
from cognition.context import (
    COMPACT_EVERY,
    fixed_size,
    message_size,
    prompt_budget,
    summary_request,
    visible_messages,
)
from cognition.context.cut_note import CutNote
from cognition.context.summaries import LEAST_SHARE, REQUEST_ID, cutting_point, with_summary
from cognition.context.window import skipped_message
from cognition.engine.handlers.compaction import CALLED, NO_ROOM, NO_SHORTER, NOTHING, NOTHING_NEW, WAS_CUT, WAS_EMPTY
from cognition.steps.decisions import ContextAssembled, LimitHit, RetryPlanned
from cognition.steps.state import NO_SUMMARY, Summary, Window
from cognition.testing import laws
from cognition.testing._edge_laws import find_unpaired
from cognition.testing._search import Walk
from cognition.values.content import Image, TextPart
from cognition.values.outcomes import Outcome
from tests.cognition.context.test_window import SCALES, TURNS, conversation, whole
from tests.cognition.session import Session, effect, engine_with, replied

READ = ToolSpec("read", read_only=True)
SUMMARY = "TASK: read all. PROGRESS: some pages are read. NEXT STEP: read on."
PAGE = "lorem ipsum " * 84
"""A result of some 1,000 characters."""
ROOMY = Limits(steps=100, tool_calls=None)
BUSY = Failure("busy", kind="transient")
WRONG = Failure("no", kind="fatal")
TOO_LONG = Failure("too long", kind="context_overflow")


def compacting(**config: object) -> Session:
    """A session whose turn has come to the model call for a summary."""
    given = {"context_tokens": 4096, "compact_at": 0.75, "limits": ROOMY, **config}
    session = Session(engine_with(READ, **given))
    session(UserSpoke("Read all of it."))
    while not isinstance(session.state.phase, Compacting):
        read(session)
    return session


def talking(**config: object) -> Session:
    """A session without calls that has come to the model call for a summary."""
    session = Session(engine_with(READ, context_tokens=2048, compact_at=0.3, **config))
    while not isinstance(session.state.phase, Compacting):
        session(UserSpoke("Tell me more. " * 20))
        if isinstance(session.state.phase, Thinking):
            session(replied(asked(session).effect_id, '{"f": "More."}'))
    return session


def asked(session: Session) -> CallModel:
    """The model call that was decided last."""
    (call,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]
    return call


def read(session: Session, content: str = PAGE) -> None:
    """One step of a turn: the model reads a page."""
    call = ProposedCall("read", f'{{"page": {session.state.counters.step}}}')
    session(replied(asked(session).effect_id, "", call))
    (running,) = [decision for decision in session.decisions if isinstance(decision, CallTool)]
    session(ToolReturned(running.effect_id, content))


def text_of(message: Message) -> str:
    assert isinstance(message, UserMessage)
    return message.text


def told(session: Session, *kinds: type) -> list[object]:
    return [decision for decision in session.decisions if isinstance(decision, kinds)]


def outcome(session: Session) -> Outcome:
    (finished,) = [decision for decision in session.decisions if isinstance(decision, TurnFinished)]
    return finished.outcome


def summarised(session: Session, text: str = SUMMARY, **more: object) -> None:
    """The model writes this summary."""
    session(replied(asked(session).effect_id, text, **more))


def answered_until(session: Session, steps: int, last: str = "All is read.") -> list[CallModel]:
    """Read on, with a summary wherever one is asked for, and answer after so many steps; all model calls."""
    calls = [asked(session)]
    while isinstance(session.state.phase, Thinking | Compacting):
        if calls[-1].purpose == "summary":
            summarised(session)
        elif session.state.counters.step < steps and calls[-1].purpose != "final_answer":
            read(session)
        else:
            session(replied(calls[-1].effect_id, last))
            break
        calls += [decision for decision in session.decisions if isinstance(decision, CallModel)]
    return calls


# ------------------------------------------------------------------------------------------------------- a long turn


@pytest.mark.parametrize("compact_at", [None, 0.75])
def test_ten_results_of_a_thousand_characters_fit_a_context_of_4096_tokens(compact_at: float | None) -> None:
    session = Session(engine_with(READ, context_tokens=4096, limits=ROOMY, compact_at=compact_at))
    session(UserSpoke("Read all of it."))

    answered_until(session, 11)

    assert outcome(session) == Completed("All is read.")


def test_a_turn_of_forty_steps_goes_on_with_summaries() -> None:
    """Each request fits, shows the user's message, and keeps the one before as its beginning between two summaries."""
    session = Session(engine_with(READ, context_tokens=4096, limits=ROOMY, compact_at=0.75))
    session(UserSpoke("Read all of it."))

    calls = answered_until(session, 60)

    assert outcome(session) == Completed("All is read.")
    summaries = [place for place, call in enumerate(calls) if call.purpose == "summary"]
    assert len(summaries) >= 4
    assert min(after - before for before, after in pairwise(summaries)) > COMPACT_EVERY
    for before, after in pairwise(calls):
        if "summary" not in (before.purpose, after.purpose):
            assert list(after.request.messages)[: len(before.request.messages)] == list(before.request.messages)
    assert len(session.state.history) > 100, "the originals stay"


def test_the_summary_stands_in_front_then_the_users_message_and_what_the_model_has_not_answered() -> None:
    session = compacting()
    request = asked(session).request
    newest = session.state.history[-1]

    summarised(session)

    assert isinstance(newest, ToolMessage)
    note, message, reply, *_, last = asked(session).request.messages
    assert isinstance(note, UserMessage)
    assert isinstance(message, UserMessage)
    assert (note.origin, message.text) == ("engine", "Read all of it.")
    assert SUMMARY in note.text
    assert isinstance(reply, AssistantMessage)
    assert reply.calls
    assert last == newest
    assert request.messages[-1].id == REQUEST_ID
    assert list(request.messages)[:-1] == list(session.state.history[: len(request.messages) - 1])


def test_a_summary_is_asked_for_behind_the_prompt_of_the_turn() -> None:
    """So that a runtime evaluates the instruction alone: before it stands the beginning of the prompt before."""
    session = Session(engine_with(READ, context_tokens=4096, limits=ROOMY, compact_at=0.75))
    session(UserSpoke("Read all of it."))
    before = asked(session).request
    while not isinstance(session.state.phase, Compacting):
        before = asked(session).request
        read(session)

    request = asked(session).request

    *shown, instruction = request.messages
    assert shown == list(before.messages)[: len(shown)]
    assert len(shown) > 1
    assert (request.system, request.tools, request.protocol) == (before.system, before.tools, before.protocol)
    assert text_of(instruction).startswith("The conversation above grows too long")
    assert text_of(instruction).endswith("that stand in the conversation.")
    assert "shares_prefix" in to_data(session.state)["phase"]


def test_fewer_steps_are_summarised_so_that_the_request_fits_behind_the_prompt() -> None:
    """Steps so long that those since the last summary do not fit with the instruction."""
    session = Session(engine_with(READ, context_tokens=4096, limits=ROOMY, compact_at=0.75))
    session(UserSpoke("Read all of it."))
    kinds = []
    while session.state.counters.step < 40:
        if isinstance(session.state.phase, Compacting):
            request = asked(session).request
            kinds.append(request.messages[-1].id == REQUEST_ID and len(request.messages) > 1)
            summarised(session)
        else:
            read(session, PAGE * 2)

    assert len(kinds) >= 5
    assert all(kinds)


def test_a_model_that_goes_on_with_calls_is_asked_in_a_prompt_of_its_own() -> None:
    session = compacting()
    steps = session.state.spent.steps

    session(replied(asked(session).effect_id, "Let me see.", ProposedCall("read"), finish_reason="tool_calls"))

    assert told(session, NotCompacted, Compacted, CallTool) == []
    request = asked(session).request
    assert (asked(session).purpose, request.tools, session.state.spent.steps) == ("summary", (), steps + 1)
    assert [m.id for m in request.messages] == [REQUEST_ID]
    assert "## user\nRead all of it.\n" in text_of(request.messages[0])
    summarised(session)
    assert session.state.window.summary.text == SUMMARY


def test_a_model_that_goes_on_with_calls_in_a_text_protocol_is_asked_again_too() -> None:
    session = talking(protocol="short_keys")
    assert asked(session).request.messages[-1].id == REQUEST_ID

    session(replied(asked(session).effect_id, '{"a": "read", "i": {"page": 1}}'))

    assert told(session, NotCompacted, Compacted, CallTool) == []
    assert [m.id for m in asked(session).request.messages] == [REQUEST_ID]


def test_a_model_that_goes_on_with_calls_in_the_last_step_but_one_is_not_asked_again() -> None:
    reference = compacting()
    session = compacting(limits=evolve(ROOMY, steps=reference.state.spent.steps + 2))

    session(replied(asked(session).effect_id, "", ProposedCall("read"), finish_reason="tool_calls"))

    assert told(session, NotCompacted) == [NotCompacted(CALLED)]
    assert asked(session).purpose in ("answer", "final_answer")


def test_a_summary_of_another_model_has_a_prompt_of_its_own() -> None:
    """Nothing of this one's has been evaluated there."""
    routes = (("summary", "small"),)
    request = asked(compacting(models=("small",), routes=routes)).request

    assert [m.id for m in request.messages] == [REQUEST_ID]


def test_a_small_context_of_a_model_for_summaries_does_not_shrink_the_prompt() -> None:
    """It is remembered for the next summary."""
    routes = (("summary", "small"),)
    session = compacting(models=("small",), routes=routes)
    (first,) = asked(session).request.messages

    session(ModelFailed(asked(session).effect_id, evolve(TOO_LONG, needed_tokens=3000, available_tokens=1500)))
    (second,) = asked(session).request.messages
    summarised(session)

    assert message_size(second) < message_size(first) / 1.5
    assert session.state.window.scale == 1.0
    assert from_data(to_data(session.state), AgentState) == session.state
    while not isinstance(session.state.phase, Compacting):
        read(session)
    (third,) = asked(session).request.messages
    assert message_size(third) < message_size(first) / 1.5


def test_a_model_that_never_summarises_is_asked_with_growing_pauses() -> None:
    session = Session(
        engine_with(READ, context_tokens=4096, limits=Limits(steps=400, tool_calls=None), compact_at=0.75)
    )
    session(UserSpoke("Read all of it."))
    places: list[int] = []
    replies = 0
    while len(places) < 5:
        if isinstance(session.state.phase, Compacting):
            places.append(replies)
            summarised(session, "")
        else:
            read(session)
            replies += 1

    pauses = [later - one for one, later in pairwise(places)]
    assert pauses == [COMPACT_EVERY << number for number in range(4)]


def test_what_a_summary_did_is_told_and_counted() -> None:
    """As a step of the turn, with its tokens; what it made of the prompt is a report of its own."""
    session = compacting()
    steps, used = session.state.spent.steps, session.state.spent.usage

    summarised(session, usage=Usage(3000, 40))

    (compacted,) = told(session, Compacted)
    assert isinstance(compacted, Compacted)
    (report,) = told(session, ContextAssembled)
    assert isinstance(report, ContextAssembled)
    assert compacted.after == report.tokens < compacted.before
    assert compacted.messages == session.state.window.first
    assert session.state.spent.steps == steps + 1
    assert session.state.spent.usage == used + Usage(3000, 40)
    assert session.state.window.scale == 1.0, "its prompt is another one, and says nothing of this one's size"


def test_a_summary_of_a_summary_takes_its_place() -> None:
    session = compacting()
    summarised(session, "TASK: the first summary.")
    while not isinstance(session.state.phase, Compacting):
        read(session)

    request, before = text_of(asked(session).request.messages[0]), session.state.window.first
    assert asked(session).request.messages[-1].id == REQUEST_ID
    summarised(session, "TASK: the second summary.")

    (compacted,) = told(session, Compacted)
    assert isinstance(compacted, Compacted)
    assert compacted.messages == session.state.window.first - before > 0
    assert "the first summary" in request
    texts = [m.text for m in asked(session).request.messages if isinstance(m, UserMessage)]
    assert [("summary." in text) for text in texts] == [True, False]
    assert "the second summary" in texts[0]


def test_older_turns_are_summarised_before_a_new_one_begins() -> None:
    """The newest message stays, and so does as much before it as takes a quarter of the budget."""
    session = Session(engine_with(context_tokens=2048, compact_at=0.75))
    for _ in range(20):
        session(UserSpoke("Tell me more. " * 20))
        if isinstance(session.state.phase, Compacting):
            break
        session(replied(asked(session).effect_id, "More. " * 60))

    summarised(session)

    messages = list(asked(session).request.messages)
    window = session.state.window
    assert window.summary.asked is None
    assert messages[1:] == list(session.state.history[window.first :])
    assert messages[-1] == session.state.history[-1]
    assert 0 < sum(map(message_size, messages[1:])) <= 0.25 * 1536


def test_the_notes_behind_the_users_message_stay_with_it() -> None:
    """Such as the schema that the answer has to follow, which nothing else may say."""
    session = Session(engine_with(READ, context_tokens=4096, compact_at=0.75, limits=ROOMY))
    session(UserSpoke("Read all of it.", returns={"type": "integer"}))
    while not isinstance(session.state.phase, Compacting):
        read(session)

    summarised(session)

    _, _, note, reply, *_ = asked(session).request.messages
    assert isinstance(note, UserMessage)
    assert '"integer"' in note.text
    assert isinstance(reply, AssistantMessage)
    assert asked(session).request.options.response_format == '{"type": "integer"}'


@pytest.mark.behaviour("K18f")
def test_the_next_turn_goes_on_with_the_same_beginning() -> None:
    session = compacting()
    summarised(session)
    before = asked(session).request.messages
    session(replied(asked(session).effect_id, "All is read."))

    session(UserSpoke("Thank you."))

    after = asked(session).request.messages
    assert list(after)[: len(before)] == list(before)
    assert [getattr(m, "text", "") for m in after[len(before) :]] == ["All is read.", "Thank you."]


def test_long_histories_share_what_they_show_behind_a_summary() -> None:
    """Between two summaries a request's messages go on from those of the one before, as digests need it."""
    history = conversation([(30, [[100]] * 70, True), (30, [[100]] * 3, False)])
    for until in (64, 65, 140, 143):
        window = with_summary(history, whole(history), until, Summary(SUMMARY), None)

        messages = visible_messages(history, window)
        later = visible_messages(history.append(UserMessage("new", "More.")), window)

        assert later.continues(messages)
        assert list(messages)[-(len(history) - until) :] == list(history[until:])
        assert sum(map(message_size, messages)) == pytest.approx(window.size)


def test_a_summary_keeps_the_scale_and_the_cuts_of_what_is_shown_behind_it() -> None:
    """A cut that ends where the window begins is over."""
    history = conversation([(30, [[4000]] * 70, True), (30, [[4000]] * 3, False)])
    window = evolve(whole(history, 0.5), cuts=((64, 900), (100, 700), (120, 60)))
    note = CutNote("ReadOutput")

    after = with_summary(history, window, 64, Summary(SUMMARY), None, note)

    assert (after.scale, after.cuts) == (0.5, ((100, 700), (120, 60)))
    assert after.size == pytest.approx(sum(map(message_size, visible_messages(history, after, note))))
    assert after.size > with_summary(history, window, 64, Summary(SUMMARY), None).size


# ------------------------------------------------------------------------------------------------ summaries that fail


@pytest.mark.parametrize(
    ("text", "more", "reason"),
    [
        ("TASK: re", {"finish_reason": "length"}, WAS_CUT),
        ("TASK: re", {"finish_reason": "cancelled"}, WAS_CUT),
        ("", {}, WAS_EMPTY),
        (" \n", {"reasoning": "Hm."}, WAS_EMPTY),
        ("long " * 4000, {}, NO_SHORTER),
    ],
)
@pytest.mark.behaviour("K18e")
def test_a_summary_that_is_none_is_not_taken_and_the_window_makes_room(
    text: str, more: dict[str, object], reason: str
) -> None:
    session = compacting()

    summarised(session, text, **more)

    assert told(session, NotCompacted, Compacted) == [NotCompacted(reason)]
    assert session.state.window.summary.text == ""
    for _ in range(COMPACT_EVERY - 1):
        read(session)
        assert asked(session).purpose == "answer"
    read(session)
    assert asked(session).purpose == "summary"


def test_calls_beside_a_summary_in_a_prompt_of_its_own_mean_nothing() -> None:
    session = compacting(edition=1)

    session(replied(asked(session).effect_id, SUMMARY, ProposedCall("read"), finish_reason="tool_calls"))

    assert told(session, CallTool) == []
    assert len(told(session, Compacted)) == 1
    assert asked(session).purpose == "answer"


def test_a_summary_in_a_text_protocol_is_read_as_its_answer() -> None:
    session = talking(protocol="short_keys")

    summarised(session, '{"t": "Let me see.", "f": "TASK: more."}')

    assert session.state.window.summary.text == "TASK: more."


def test_a_failing_summary_is_tried_again_and_then_given_up() -> None:
    """What may pass is waited for, as at any model call; the turn goes on whatever comes of it."""
    session = compacting(retry=RetryPolicy(attempts=2))
    first = asked(session)

    session(ModelFailed(first.effect_id, BUSY, "TASK", Usage(0, 1)))
    (timer,) = told(session, StartTimer)
    assert isinstance(timer, StartTimer)
    assert told(session, RetryPlanned)
    assert isinstance(session.state.phase, Compacting)
    session(TimerFired(timer.effect_id))
    again = asked(session)
    assert (again.purpose, again.request) == ("summary", first.request)
    session(ModelFailed(again.effect_id, BUSY, "", Usage(0, 1)))

    (reason,) = told(session, NotCompacted)
    assert reason == NotCompacted("the model call for the summary failed: busy")
    assert asked(session).purpose == "answer"
    assert session.state.spent.usage.output_tokens == 2
    assert session.state.spent.steps == session.state.counters.step - 2, "a call that fails is no step"


def test_what_is_wrong_with_the_model_the_turn_sees() -> None:
    session = compacting()

    session(ModelFailed(asked(session).effect_id, WRONG))
    assert told(session, NotCompacted) == []
    assert [m.id for m in asked(session).request.messages] == [REQUEST_ID], "a template may refuse the other"
    assert isinstance(session.state.phase, Compacting)
    assert session.state.phase.number == 2
    session(ModelFailed(asked(session).effect_id, WRONG))
    assert told(session, NotCompacted)
    session(ModelFailed(asked(session).effect_id, WRONG))

    assert outcome(session) == Failed("fatal", "no")


def test_a_summary_whose_request_was_too_long_corrects_the_sizes() -> None:
    session = compacting(edition=1)

    session(ModelFailed(asked(session).effect_id, evolve(TOO_LONG, needed_tokens=9000, available_tokens=4096)))

    assert session.state.window.scale > 2.0
    assert told(session, NotCompacted)
    assert asked(session).purpose == "answer"
    assert session.state.window.cuts


def test_a_summary_whose_request_was_too_long_is_asked_for_in_a_shorter_one_at_most_three_times() -> None:
    session = compacting()
    lengths = []
    while (call := asked(session)).purpose == "summary":
        lengths.append(sum(map(message_size, call.request.messages)))
        session(ModelFailed(call.effect_id, TOO_LONG))

    assert len(lengths) == 4
    assert all(later < one for one, later in pairwise(lengths))
    assert told(session, NotCompacted)
    assert asked(session).purpose == "answer"


def test_a_summary_that_was_too_long_is_not_asked_for_again_beyond_a_budget() -> None:
    session = compacting(limits=evolve(ROOMY, input_tokens=100))

    session(ModelFailed(asked(session).effect_id, TOO_LONG, usage=Usage(100)))

    assert told(session, NotCompacted)
    assert isinstance(outcome(session), LimitReached)


def test_sizes_are_corrected_by_the_very_request_that_was_too_long() -> None:
    """It has the messages that the summary would have stood for, and no later ones."""
    session = compacting()
    request = asked(session).request

    session(ModelFailed(asked(session).effect_id, evolve(TOO_LONG, needed_tokens=9000)))

    size = fixed_size(session.engine.config) + sum(map(message_size, request.messages))
    assert session.state.window.scale == pytest.approx(9000 / size)


def test_a_context_overflow_leads_to_a_summary_once() -> None:
    session = Session(engine_with(READ, context_tokens=4096, compact_at=1.0, limits=ROOMY, edition=1))
    session(UserSpoke("Read all of it."))
    for _ in range(8):
        read(session)

    session(ModelFailed(asked(session).effect_id, TOO_LONG))
    assert (asked(session).purpose, bool(told(session, RetryPlanned))) == ("summary", True)
    summarised(session)
    assert asked(session).purpose == "answer"
    session(ModelFailed(asked(session).effect_id, TOO_LONG))

    assert isinstance(outcome(session), Failed), "a prompt that is too long is mended once"


def test_a_context_overflow_without_compaction_leads_to_trimming_as_before() -> None:
    session = Session(engine_with(READ, context_tokens=4096, limits=ROOMY))
    session(UserSpoke("Read all of it."))
    for _ in range(8):
        read(session)

    session(ModelFailed(asked(session).effect_id, TOO_LONG))

    assert asked(session).purpose == "answer"
    assert session.state.window.cuts
    assert session.state.window.summary is NO_SUMMARY


# ------------------------------------------------------------------------------------------------- ends and budgets


def test_a_cancellation_stops_the_summary_and_says_nothing_of_it() -> None:
    session = compacting()
    call, window = asked(session), session.state.window

    session(CancelAsked("enough", "TASK: half of it", Usage(0, 3)))

    assert session.decisions == (
        CancelEffect(call.effect_id),
        TurnFinished(Cancelled("enough"), session.state.spent.usage),
    )
    assert session.state.spent.usage.output_tokens == 3
    assert session.state.window == window
    assert not any("half of it" in str(message) for message in session.state.history)
    session(replied(call.effect_id, SUMMARY))
    assert told(session, Rejected)


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("event", [SessionReset(), ShutdownAsked()])
def test_a_reset_and_a_shutdown_end_it(event: Input, waiting: bool) -> None:
    session = compacting()
    if waiting:
        session(ModelFailed(asked(session).effect_id, BUSY))

    session(event)

    assert isinstance(outcome(session), Cancelled)
    assert bool(told(session, SessionClosed)) == isinstance(event, ShutdownAsked)
    if isinstance(event, SessionReset):
        assert session.state.window == Window()


def test_an_interruption_ends_the_turn_as_it_ends_any_model_call() -> None:
    session = compacting()

    session(ModelInterrupted(asked(session).effect_id, "TASK", Usage(0, 3)))

    assert outcome(session) == Cancelled("the model call was interrupted")
    assert session.state.spent.usage.output_tokens == 3


def test_a_summary_that_takes_all_of_the_turns_time_ends_it() -> None:
    session = compacting(limits=evolve(ROOMY, seconds=60.0))
    assert asked(session).seconds == 60.0

    session(ModelInterrupted(asked(session).effect_id, "TASK", late=True, at=60.0))

    assert outcome(session) == LimitReached("seconds")


@pytest.mark.parametrize(
    ("seconds", "late", "expected"),
    [
        (60.0, True, LimitReached("seconds")),
        (60.0, False, Cancelled("the model call was interrupted")),
        (None, True, Cancelled("the model call was interrupted")),
    ],
)
def test_an_interruption_is_the_end_of_the_time_only_where_it_is_limited_and_over(
    seconds: float | None, late: bool, expected: Outcome
) -> None:
    session = compacting(limits=evolve(ROOMY, seconds=seconds))

    session(ModelInterrupted(asked(session).effect_id, "TASK", late=late, at=60.0))

    assert outcome(session) == expected


def test_a_summary_asked_for_again_has_the_seconds_that_are_left_of_the_turn() -> None:
    """And the next number: the failed call was the first."""
    session = compacting(limits=evolve(ROOMY, seconds=60.0))
    session(ModelFailed(asked(session).effect_id, BUSY, at=10.0))
    (planned, timer) = told(session, RetryPlanned, StartTimer)
    assert isinstance(planned, RetryPlanned)
    assert isinstance(timer, StartTimer)
    assert planned.attempt == 2

    session(TimerFired(timer.effect_id, at=20.0))
    assert (asked(session).purpose, asked(session).seconds) == ("summary", 40.0)


def test_a_summary_asked_for_elsewhere_has_the_seconds_that_are_left_of_the_turn() -> None:
    session = compacting(limits=evolve(ROOMY, seconds=60.0), models=("b",), fallback=("b",))

    session(ModelFailed(asked(session).effect_id, Failure("gone", kind="offline"), at=10.0))
    assert (asked(session).purpose, asked(session).model, asked(session).seconds) == ("summary", "b", 50.0)


def test_a_turn_goes_on_without_a_summary_for_the_seconds_that_are_left() -> None:
    session = compacting(limits=evolve(ROOMY, seconds=60.0))

    session(ModelFailed(asked(session).effect_id, WRONG, at=5.0))
    session(ModelFailed(asked(session).effect_id, WRONG, at=10.0))

    assert (asked(session).purpose, asked(session).seconds) == ("answer", 50.0)


def test_the_time_is_over_when_a_summary_would_be_asked_for_again() -> None:
    session = compacting(limits=evolve(ROOMY, seconds=60.0))
    session(ModelFailed(asked(session).effect_id, BUSY, at=59.5))
    (timer,) = told(session, StartTimer)
    assert isinstance(timer, StartTimer)
    assert timer.seconds == 0.5

    session(TimerFired(timer.effect_id, at=60.0))

    assert outcome(session) == LimitReached("seconds")


@pytest.mark.parametrize("limits", [evolve(ROOMY, output_tokens=50), evolve(ROOMY, cost=0.5)])
def test_what_a_summary_uses_up_is_the_turns(limits: Limits) -> None:
    session = compacting(limits=limits)

    summarised(session, usage=Usage(0, 50, cost=0.5))

    assert len(told(session, Compacted)) == 1
    assert len(told(session, LimitHit)) == 1
    assert isinstance(outcome(session), LimitReached)


def test_a_summary_takes_no_step_that_the_turn_needs_for_its_answer() -> None:
    """It is asked for while there are steps left for more than an answer, and counts as one."""
    for steps in range(1, 16):
        session = Session(engine_with(READ, context_tokens=4096, compact_at=0.5, limits=Limits(steps=steps)))
        session(UserSpoke("Read all of it."))

        calls = answered_until(session, 100)

        purposes = [call.purpose for call in calls]
        assert purposes.count("final_answer") == 1
        assert purposes[-1] == "final_answer"
        assert purposes[-2:-1] != ["summary"]
        assert len(purposes) == steps + 1


def test_a_mode_may_change_meanwhile() -> None:
    session = compacting()
    call, phase = asked(session), session.state.phase

    session(ModeChanged("careful"))
    assert session.state.phase == phase
    session(replied(call.effect_id, SUMMARY))

    assert len(told(session, Compacted)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        lambda call: TimerFired(call.effect_id),
        lambda call: replied("9.9.9", SUMMARY),
        lambda call: ModelFailed(effect("9.9.9"), BUSY),
        lambda call: ModelInterrupted(effect("9.9.9")),
        lambda call: UserSpoke("More"),
        lambda call: CompactionAsked(),
    ],
)
def test_other_answers_do_not_belong(answer: Callable[[CallModel], Input]) -> None:
    session = compacting()
    state = session.state

    session(answer(asked(session)))

    assert len(told(session, Rejected)) == len(session.decisions) == 1
    assert session.state == state


def test_while_a_timer_runs_nothing_else_answers_it() -> None:
    session = compacting()
    session(ModelFailed(asked(session).effect_id, BUSY))
    (timer,) = told(session, StartTimer)
    assert isinstance(timer, StartTimer)
    for event in (
        replied(timer.effect_id, SUMMARY),
        ModelFailed(timer.effect_id, BUSY),
        ModelInterrupted(timer.effect_id),
        TimerFired(effect("9.9.9")),
    ):
        session(event)
        assert told(session, Rejected)


# --------------------------------------------------------------------------------------------------- somebody asks


def talked(**config: object) -> Session:
    session = Session(engine_with(**config))
    for _ in range(3):
        session(UserSpoke("Tell me more. " * 10))
        session(replied(asked(session).effect_id, "More. " * 30, usage=Usage(0, 5)))
    return session


def test_a_summary_can_be_asked_for_between_turns() -> None:
    """Also where none is made by itself. It stands for all that was said, and its tokens are the session's."""
    session = talked()
    turn, total = session.state.counters.turn, session.state.total

    session(CompactionAsked())
    assert asked(session).purpose == "summary"
    summarised(session, usage=Usage(0, 7))

    assert isinstance(session.state.phase, Idle)
    assert [type(decision) for decision in session.decisions] == [Compacted]
    assert session.state.total == total + Usage(0, 7)
    assert session.state.counters.turn == turn
    session(UserSpoke("Go on."))
    note, message = asked(session).request.messages
    assert isinstance(note, UserMessage)
    assert SUMMARY in note.text
    assert isinstance(message, UserMessage)
    assert message.text == "Go on."


def test_there_may_be_nothing_to_summarise() -> None:
    session = Session(engine_with())
    session(CompactionAsked())
    assert session.decisions == (NotCompacted(NOTHING),)

    session = talked()
    session(CompactionAsked())
    summarised(session)
    session(CompactionAsked())
    assert session.decisions == (NotCompacted(NOTHING_NEW),)
    assert isinstance(session.state.phase, Idle)


def test_there_may_be_no_room_to_ask_for_one() -> None:
    session = Session(engine_with(context_tokens=300))
    session(UserSpoke("Hello"))
    session(replied(asked(session).effect_id, "Hi."))

    session(CompactionAsked())

    assert session.decisions == (NotCompacted(NO_ROOM.format(budget=prompt_budget(session.engine.config))),)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (lambda call: CancelAsked("enough", usage=Usage(0, 7)), "enough"),
        (lambda call: CancelAsked(usage=Usage(0, 7)), "it was cancelled"),
        (lambda call: ModelInterrupted(call.effect_id, usage=Usage(0, 7)), "the model call for the summary was"),
        (lambda call: ModelInterrupted(call.effect_id, usage=Usage(0, 7), late=True), "the model call for the summary"),
        (
            lambda call: ModelFailed(call.effect_id, Failure("no", kind="auth"), usage=Usage(0, 7)),
            "the model call for the summary failed: no",
        ),
        (lambda call: replied(call.effect_id, "", usage=Usage(0, 7)), WAS_EMPTY),
    ],
)
def test_a_summary_that_was_asked_for_and_does_not_come_leaves_all_as_it_was(
    event: Callable[[CallModel], Input], reason: str
) -> None:
    session = talked(limits=Limits(seconds=60.0))
    window, total, spent = session.state.window, session.state.total, session.state.spent
    session(CompactionAsked(at=1000.0))
    assert asked(session).seconds == 60.0

    session(event(asked(session)))

    assert isinstance(session.state.phase, Idle)
    (said,) = told(session, NotCompacted)
    assert isinstance(said, NotCompacted)
    assert said.reason.startswith(reason)
    assert not told(session, TurnFinished)
    assert evolve(session.state.window, summary=window.summary) == window
    assert session.state.total == total + Usage(0, 7)
    assert session.state.spent == spent


def test_one_that_was_asked_for_is_tried_again_too() -> None:
    session = talked(limits=Limits(seconds=60.0))
    session(CompactionAsked(at=1000.0))
    session(ModelFailed(asked(session).effect_id, BUSY, at=1001.0))
    (timer,) = told(session, StartTimer)
    assert isinstance(timer, StartTimer)
    session(TimerFired(timer.effect_id, at=5000.0))
    assert asked(session).seconds == 60.0

    summarised(session)

    assert [type(decision) for decision in session.decisions] == [Compacted]


@pytest.mark.parametrize("event", [SessionReset(), ShutdownAsked()])
def test_a_reset_and_a_shutdown_end_one_that_was_asked_for(event: Input) -> None:
    session = talked()
    session(CompactionAsked())
    call = asked(session)

    session(event)

    assert session.decisions[0] == CancelEffect(call.effect_id)
    assert isinstance(session.decisions[1], NotCompacted)
    assert not told(session, TurnFinished)


# ---------------------------------------------------------------------------------------------------- the request


MESSAGES = st.lists(
    st.one_of(
        st.builds(UserMessage, st.just("u"), st.text(max_size=9).map(lambda t: t * 200)),
        st.builds(
            lambda name, arguments: AssistantMessage("a", "x", "", (ToolCall("c", name, f'"{arguments}"'),)),
            st.sampled_from(("read", "n" * 500)),
            st.text(max_size=9).map(lambda t: t * 200),
        ),
        st.builds(ToolMessage, st.just("r"), st.just("c"), st.just("read"), st.integers(0, 5000).map("x".__mul__)),
    ),
    max_size=30,
)


@given(MESSAGES, st.integers(0, 3000), st.booleans())
def test_the_request_for_a_summary_fits_whatever_the_messages_are(
    messages: list[Message], room: int, before: bool
) -> None:
    history = History([UserMessage("u0", "x"), *messages])
    summary = Summary("TASK: known", 1) if before else NO_SUMMARY
    window = Window(1 if before else 0, summary=summary)

    message = summary_request(history, window, len(history), room, 3000.0)

    if message is not None:
        assert message_size(message) <= room
        assert not before or "TASK: known" in message.text
    else:
        assert room < 1000 or len(history) == 1


def test_one_message_that_is_larger_than_the_window_is_shortened_in_the_request() -> None:
    session = Session(engine_with(context_tokens=2048))
    session(UserSpoke("Look: " + "word " * 300))
    session(replied(asked(session).effect_id, "long " * 4000))

    session(CompactionAsked())

    (message,) = asked(session).request.messages
    assert isinstance(message, UserMessage)
    assert "characters left out" in message.text
    summarised(session)
    assert len(told(session, Compacted)) == 1


def test_results_are_shortened_before_what_was_said() -> None:
    said = "We agreed on seven. " * 40
    history = History([UserMessage("u", said), AssistantMessage("a", said), ToolMessage("r", "c", "read", "y" * 9000)])

    message = summary_request(history, whole(history), 3, 1200.0, 3000.0)

    assert message is not None
    assert message.text.count(said) == 2
    assert "characters left out" in message.text


def test_the_oldest_messages_are_left_out_of_a_request_that_has_no_room_for_all() -> None:
    history = History(UserMessage(f"u{place}", f"Message {place}. " * 10) for place in range(200))

    message = summary_request(history, whole(history), 200, 2000.0, 3000.0)

    assert message is not None
    assert "earlier messages are left out here" in message.text
    assert "Message 0." not in message.text
    assert "Message 199." in message.text


def test_a_request_tells_pictures_failures_and_who_said_what() -> None:
    picture = Image.of(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;")
    history = History(
        [
            UserMessage("m1", "", parts=(TextPart("What is this?"), picture)),
            UserMessage("m2", "From your notes: a dot.", "engine"),
            AssistantMessage("m3", "Let me see.", "Hm.", (ToolCall("c1", "look", '{"n": 1}'),)),
            ToolMessage("m4", "c1", "look", "no such file", "error"),
        ]
    )

    message = summary_request(history, whole(history), 4, 3000.0, 3000.0)

    assert message is not None
    assert message.text.partition("The conversation:\n")[2] == (
        f"## user\nWhat is this?\n[{picture}]\n\n"
        "## note\nFrom your notes: a dot.\n\n"
        '## assistant\nLet me see.\ncalls look({"n": 1})\n\n'
        "## result of look (error)\nno such file\n"
    )


@pytest.mark.parametrize(("most", "expected"), [(None, None), (100, 999), (2000, 2000)])
def test_a_summary_has_room_and_nothing_that_would_cut_it(most: int | None, expected: int | None) -> None:
    options = GenerationOptions(
        temperature=0.5, max_tokens=most, stop=("\n\n",), tool_choice="required", response_format={"type": "integer"}
    )
    session = compacting(options=options)

    request = asked(session).request

    assert request.options == GenerationOptions(temperature=0.5, max_tokens=expected)
    session(replied(asked(session).effect_id, "", ProposedCall("read"), finish_reason="tool_calls"))
    assert asked(session).request.options == evolve(request.options, tool_choice="none")


def test_a_prompt_that_shows_no_tools_shows_none_for_a_summary() -> None:
    request = asked(talking(options=GenerationOptions(tool_choice="none"))).request

    assert request.messages[-1].id == REQUEST_ID
    assert request.options == GenerationOptions(tool_choice="none")


# ---------------------------------------------------------------------------------------------------- what is kept


@given(TURNS, SCALES, st.integers(500, 5000), st.floats(0, 2))
def test_a_cut_stands_between_turns_or_between_steps_of_the_newest(
    turns: list[tuple[int, list[list[int]], bool]], scale: float, budget: int, share: float
) -> None:
    """Pairs stay whole, the newest message and what is unanswered stay shown, and enough goes."""
    history = conversation(turns)
    window = whole(history, scale)

    until = cutting_point(history, window, budget)

    most = share * window.size
    fewer = cutting_point(history, window, budget, most=most)
    assert (fewer is None) == (until is None)
    if until is None or fewer is None:
        return
    assert fewer <= until
    sizes = [message_size(message) for message in history]
    if sum(sizes[:until]) <= most:
        assert fewer == until
    after = with_summary(history, window, until, Summary("TASK: all."), None)
    assert after.scale == scale
    messages = list(visible_messages(history, after))
    assert find_unpaired(messages) is None
    users = [message for message in history if isinstance(message, UserMessage)]
    assert users[-1] in messages
    assert sum(map(message_size, messages)) == pytest.approx(after.size)
    assert window.size - (after.size - message_size(messages[0])) >= LEAST_SHARE * budget - 1e-6
    if isinstance(history[until], AssistantMessage):
        assert after.summary.asked is not None
        assert messages[1] == users[-1]
    else:
        assert history[until] in users
        assert after.summary.asked is None


def test_without_a_message_of_the_users_there_is_nothing_to_cut() -> None:
    assert cutting_point(History([AssistantMessage("a", "x" * 9000)]), Window(0, 3008.0), 100.0) is None


def test_a_large_message_with_little_before_it_is_no_reason_for_a_summary() -> None:
    session = Session(engine_with(context_tokens=2048, compact_at=0.5))
    session(UserSpoke("Hello"))
    session(replied(asked(session).effect_id, "Hi."))

    session(UserSpoke("word " * 700))

    assert asked(session).purpose == "answer"


def test_a_summary_goes_where_nothing_else_makes_room() -> None:
    """A turn that would fit without it is not lost by it."""
    session = Session(engine_with(READ, context_tokens=2000, compact_at=0.5, limits=ROOMY))
    session(UserSpoke("Read all of it."))
    while not isinstance(session.state.phase, Compacting):
        read(session, "x" * 300)
    summarised(session, "TASK: " + "word " * 200)
    assert session.state.window.summary.text
    call = asked(session)
    session(replied(call.effect_id, "", *(ProposedCall("read", f'{{"n": {n}}}') for n in range(11))))
    for running in told(session, CallTool):
        assert isinstance(running, CallTool)
        session(ToolReturned(running.effect_id, "y" * 200))

    assert asked(session).purpose == "answer"
    window = session.state.window
    assert window.summary.text == ""
    message, note, *_ = asked(session).request.messages
    assert message == session.state.history[0]
    assert note == skipped_message(window.summary), "what the summary stood for is not left out in silence"
    assert window.summary.skipped == window.first - 1 > 0
    assert window.size == pytest.approx(sum(map(message_size, asked(session).request.messages)))


def test_a_later_turn_that_is_too_long_leaves_the_rest_of_a_summarised_one_out() -> None:
    session = compacting()
    summarised(session)
    session(replied(asked(session).effect_id, "All is read."))
    size = len(session.state.history)

    session(UserSpoke("word " * 1900))

    assert asked(session).purpose == "answer"
    assert (session.state.window.first, session.state.window.summary.asked) == (size, None)
    assert [message.id for message in asked(session).request.messages] == ["summary", session.state.history[-1].id]


# ----------------------------------------------------------------------------------------------- states and data


def test_a_configuration_that_was_recorded_before_has_no_compaction() -> None:
    data = to_data(AgentConfig(compact_at=None))

    assert "compact_at" not in data
    assert from_data(data, AgentConfig).compact_at is None


@pytest.mark.parametrize("waiting", [False, True])
def test_a_state_goes_on_from_its_json(waiting: bool) -> None:
    session = compacting()
    if waiting:
        session(ModelFailed(asked(session).effect_id, BUSY))

    stored = from_data(to_data(session.state), AgentState)

    assert stored == session.state
    assert session.engine.build_prompt(stored) == session.engine.build_prompt(session.state)
    assert session.engine.build_prompt(stored).messages[-1].id == REQUEST_ID


def test_a_state_that_was_made_by_hand_does_not_get_stuck() -> None:
    """Its summary stands for nothing, so that no question for it can be made any more."""
    session = compacting(limits=evolve(ROOMY, seconds=60.0))
    session(ModelFailed(asked(session).effect_id, BUSY))
    phase = session.state.phase
    assert isinstance(phase, Compacting)
    session.state = evolve(session.state, phase=evolve(phase, until=0))
    assert session.engine.build_prompt(session.state).messages[0].id == "m1"

    session(TimerFired(phase.effect_id, at=20.0))

    assert told(session, NotCompacted) == [NotCompacted(NO_ROOM.format(budget=prompt_budget(session.engine.config)))]
    assert (asked(session).purpose, asked(session).seconds) == ("answer", 40.0)


@pytest.mark.parametrize("edition", [1, 2])
def test_a_state_made_by_hand_learns_nothing_from_a_refusal_of_no_request(edition: int) -> None:
    session = compacting(edition=edition)
    phase = session.state.phase
    assert isinstance(phase, Compacting)
    session.state = evolve(session.state, phase=evolve(phase, until=0))

    session(ModelFailed(phase.effect_id, TOO_LONG))

    assert len(told(session, NotCompacted)) == 1
    assert session.state.window.scale == 1.0


def events(session: Session, draw: st.DataObject) -> Iterator[Input]:
    """A long random session: turns that read pages of any size, and summaries of every kind."""
    for _ in range(draw.draw(st.integers(1, 4))):
        yield UserSpoke("word " * draw.draw(st.sampled_from((1, 30, 200))))
        for _ in range(draw.draw(st.integers(0, 12))):
            phase = session.state.phase
            if isinstance(phase, Compacting):
                text = draw.draw(st.sampled_from((SUMMARY, "", "word " * 100, "word " * 3000)))
                yield replied(phase.effect_id, text)
            elif isinstance(phase, Thinking):
                yield replied(phase.effect_id, "", ProposedCall("read", f'{{"n": {session.state.counters.step}}}'))
                sizes = draw.draw(st.sampled_from((0, 100, 1000, 5000)))
                yield from (ToolReturned(d.effect_id, "x" * sizes) for d in told(session, CallTool))  # type: ignore[attr-defined]  # calls of tools
        while not isinstance(session.state.phase, Idle):
            yield replied(session.state.phase.effect_id, "Done.")  # type: ignore[union-attr]  # a model call


@settings(max_examples=60)
@given(st.data(), st.sampled_from((0.3, 0.75, 1.0)), st.sampled_from((1200, 2048, 4096)))
@pytest.mark.behaviour("K18d")
def test_every_law_holds_along_long_sessions(data: st.DataObject, compact_at: float, context: int) -> None:
    engine = LLMEngine(AgentConfig(tools=(READ,), context_tokens=context, compact_at=compact_at, limits=ROOMY))
    session = Session(engine)
    walk = Walk([law for law in laws(engine) if law.name in ("L2", "L3", "L6", "L7", "L9", "L10")])
    for event in events(session, data):
        session(event)
        walk.take(event)

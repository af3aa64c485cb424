"""One turn as the core sees it: the rows of the design's table, then each way in which a turn can go otherwise."""

from __future__ import annotations

from typing import get_args

import pytest

from cognition import (
    AgentState,
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
    AssistantMessage,
    CallJudged,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    Cancelled,
    CogstepError,
    Completed,
    EchoEngine,
    Failed,
    Failure,
    FinishReason,
    GenerationOptions,
    Idle,
    Limits,
    MalformedToolCall,
    ModelFailed,
    Policy,
    ProposedCall,
    Rejected,
    RetryPlanned,
    Rule,
    SessionClosed,
    SessionReset,
    ShutdownAsked,
    StartTimer,
    TimerFired,
    ToolCall,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    fold,
)
from cognition.engine.handlers.model import NUDGE_NOTE
from tests.cognition.session import DELETE, MULTIPLY, WRITE, Session, effect, engine_with, replied


def test_the_turn_of_the_design_table() -> None:
    """User, call, result, answer: the decisions and ids are those of the design page."""
    session = Session(engine_with(MULTIPLY))

    (ask,) = session(UserSpoke("What is 17 * 23?"))

    assert isinstance(ask, CallModel)
    assert ask.effect_id == "1.1.0"
    assert list(ask.request.messages) == [UserMessage("m1", "What is 17 * 23?")]

    run = session(replied("1.1.0", "", ProposedCall("multiply", {"a": 17, "b": 23}), usage=Usage(100, 10)))

    assert (CallTool(effect("1.1.1"), ToolCall("call-1-1-1", "multiply", {"a": 17, "b": 23})),) == run

    (again,) = session(ToolReturned(effect("1.1.1"), "391"))

    assert isinstance(again, CallModel)
    assert again.effect_id == "1.2.0"

    end = session(replied("1.2.0", "17 * 23 is 391.", usage=Usage(120, 12)))

    assert end == (TurnFinished(Completed("17 * 23 is 391."), Usage(220, 22)),)
    assert session.state.phase == Idle()
    assert [
        UserMessage("m1", "What is 17 * 23?"),
        AssistantMessage("m2", "", calls=(ToolCall("call-1-1-1", "multiply", {"a": 17, "b": 23}),)),
        ToolMessage("m3", "call-1-1-1", "multiply", "391"),
        AssistantMessage("m4", "17 * 23 is 391."),
    ] == list(session.state.history)


@pytest.mark.parametrize("reason", [reason for reason in get_args(FinishReason) if reason != "length"])
def test_an_answer_is_told_with_why_the_model_stopped(reason: FinishReason) -> None:
    session = Session(engine_with(MULTIPLY))
    session(UserSpoke("What is 17 * 23?"))

    (end,) = session(replied("1.1.0", "391", finish_reason=reason))

    assert end == TurnFinished(Completed("391", reason), Usage())


@pytest.mark.behaviour("B3")
def test_a_call_that_policy_asks_about_runs_as_approved_once_approval_is_given() -> None:
    """What runs is to the byte what the user was shown."""
    session = Session(engine_with(DELETE))
    session(UserSpoke("Delete x"))
    odd = '{"path" : "x",  "b":1.0}'

    (ask,) = session(replied("1.1.0", "", ProposedCall("delete", odd)))
    (run,) = session(ApprovalGiven(effect("1.1.1")))

    assert isinstance(ask, AskApproval)
    assert isinstance(run, CallTool)
    assert ask.call == run.call
    assert odd == run.call.arguments_json
    assert (ask.effect_id, run.effect_id) == ("1.1.1", "1.1.2")


@pytest.mark.behaviour("B3")
def test_a_refused_call_tells_the_model_why() -> None:
    session = Session(engine_with(DELETE))
    session(UserSpoke("Delete x"))
    session(replied("1.1.0", "", ProposedCall("delete")))

    (ask,) = session(ApprovalRefused(effect("1.1.1"), "not today"))

    assert isinstance(ask, CallModel)
    assert session.results == [("Error: the user refused this call: not today", "refused")]


def test_from_now_on_answers_are_remembered() -> None:
    """An approval or refusal "always" decides later calls of the same tool without asking."""
    for answer, action, expected in (
        (ApprovalGiven(effect("1.1.1"), always=True), "allow", CallTool),
        (ApprovalRefused(effect("1.1.1"), always=True), "deny", CallModel),
    ):
        session = Session(engine_with(DELETE, limits=Limits(refusals=9)))
        session(UserSpoke("Delete x and y"))
        session(replied("1.1.0", "", ProposedCall("delete", {"n": 1}), ProposedCall("delete", {"n": 2})))
        first = session(answer)
        if isinstance(answer, ApprovalGiven):
            first = session(ToolReturned(effect("1.1.2"), "done"))

        judged, decision = first
        assert judged == CallJudged("call-1-1-2", action, "delete")  # type: ignore[arg-type]  # one of the literals
        assert type(decision) is expected


@pytest.mark.behaviour("B4")
def test_two_approvals_given_in_reverse_order_each_run_their_own_call() -> None:
    """Read-only calls may be asked about together; each answer belongs to its own call."""
    peek = ToolSpec("peek", read_only=True, approval=True)
    session = Session(engine_with(peek))
    session(UserSpoke("Peek twice"))
    asks = session(replied("1.1.0", "", ProposedCall("peek", {"n": 1}), ProposedCall("peek", {"n": 2})))
    assert [AskApproval, AskApproval] == [type(ask) for ask in asks]

    (second,) = session(ApprovalGiven(effect("1.1.2")))
    (first,) = session(ApprovalGiven(effect("1.1.1")))

    assert isinstance(first, CallTool)
    assert isinstance(second, CallTool)
    assert (first.call.arguments, second.call.arguments) == ({"n": 1}, {"n": 2})


def test_read_only_neighbours_run_together_and_others_wait_for_their_turn() -> None:
    """Calls run in order, but a contiguous run of read-only ones runs at once (law L4)."""
    session = Session(engine_with(MULTIPLY, WRITE))
    session(UserSpoke("Do five things"))
    names = ["multiply", "multiply", "write", "multiply", "write"]

    first = session(replied("1.1.0", "", *(ProposedCall(name, {"n": i}) for i, name in enumerate(names))))
    assert [d.effect_id for d in first if isinstance(d, CallTool)] == ["1.1.1", "1.1.2"]
    assert session(ToolReturned(effect("1.1.2"), "b")) == ()
    (third,) = session(ToolReturned(effect("1.1.1"), "a"))
    (fourth,) = session(ToolReturned(effect("1.1.3"), "c"))
    (fifth,) = session(ToolFailed(effect("1.1.4"), "broken"))
    (ask,) = session(ToolReturned(effect("1.1.5"), "e"))

    assert [d.call.name for d in (third, fourth, fifth) if isinstance(d, CallTool)] == ["write", "multiply", "write"]
    assert isinstance(ask, CallModel)
    assert session.results == [("a", "ok"), ("b", "ok"), ("c", "ok"), ("Error: broken", "error"), ("e", "ok")]


@pytest.mark.behaviour("I4")
def test_an_unknown_tool_is_answered_with_the_nearest_names() -> None:
    session = Session(engine_with(MULTIPLY, WRITE))
    session(UserSpoke("?"))
    session(replied("1.1.0", "", ProposedCall("multiplie"), ProposedCall("zzz")))

    assert session.results == [
        ("Error: there is no tool 'multiplie'; did you mean multiply?", "error"),
        ("Error: there is no tool 'zzz'; there are multiply, write", "error"),
    ]

    session = Session(engine_with())
    session(UserSpoke("?"))
    session(replied("1.1.0", "", ProposedCall("zzz")))

    assert session.results == [("Error: there is no tool 'zzz'; no tools are offered", "error")]


@pytest.mark.behaviour("I4")
def test_a_denied_call_is_data_for_the_model() -> None:
    """A denial is a result, never an exception out of the loop."""
    session = Session(engine_with(WRITE, policy=Policy((Rule("deny", "wri*", "read only today"),))))
    session(UserSpoke("Write"))
    judged, ask = session(replied("1.1.0", "", ProposedCall("write")))

    assert judged == CallJudged("call-1-1-1", "deny", "wri*", "read only today")
    assert isinstance(ask, CallModel)
    assert session.results == [("Error: this call is not permitted: read only today", "refused")]


def test_cancel_while_a_tool_runs_closes_every_call_and_ignores_late_results() -> None:
    """Settled calls keep their results, open ones get "cancelled", and a result that still arrives is stale."""
    session = Session(engine_with(MULTIPLY, WRITE))
    session(UserSpoke("Do three things"))
    session(replied("1.1.0", "", *(ProposedCall(n) for n in ("multiply", "multiply", "write"))))
    session(ToolReturned(effect("1.1.2"), "6"))

    decisions = session(CancelAsked("enough"))

    assert (CancelEffect(effect("1.1.1")), TurnFinished(Cancelled("enough"), Usage())) == decisions
    assert [status for _, status in session.results] == ["cancelled", "ok", "cancelled"]
    late = session(ToolReturned(effect("1.1.1"), "late"))
    assert [(d.reason, d.detail) for d in late if isinstance(d, Rejected)] == [("stale", "no tool is running")]
    (ask,) = session(UserSpoke("And now?"))
    assert isinstance(ask, CallModel)
    assert ask.effect_id == "2.1.0"


def test_cancel_keeps_what_the_user_has_read() -> None:
    session = Session(engine_with())
    session(UserSpoke("Tell me a story"))

    decisions = session(CancelAsked(partial_text="Once upon"))

    assert (CancelEffect(effect("1.1.0")), TurnFinished(Cancelled("", "Once upon"), Usage())) == decisions
    assert session.state.history[-1] == AssistantMessage("m2", "Once upon", interrupted=True)


def test_cancel_counts_the_tokens_of_the_reply_that_it_stops() -> None:
    """They were computed; whoever pays for them wants to know."""
    session = Session(engine_with())
    session(UserSpoke("Tell me a story"))

    decisions = session(CancelAsked(usage=Usage(20, 7)))

    assert (CancelEffect(effect("1.1.0")), TurnFinished(Cancelled(""), Usage(20, 7))) == decisions
    assert session.state.total == Usage(20, 7)


@pytest.mark.behaviour("B19")
def test_cancel_while_waiting_stops_the_timer() -> None:
    session = Session(engine_with())
    session(UserSpoke("Hello"))
    session(ModelFailed(effect("1.1.0"), Failure("busy", status=429)))

    decisions = session(CancelAsked())

    assert (CancelEffect(effect("1.1.1")), TurnFinished(Cancelled(""), Usage())) == decisions


@pytest.mark.behaviour("B19")
def test_a_rate_limit_is_waited_out_and_the_call_made_again() -> None:
    session = Session(engine_with())
    session(UserSpoke("Hello"))

    plan, timer = session(ModelFailed(effect("1.1.0"), Failure("busy", status=429, retry_after=7.0)))
    (again,) = session(TimerFired(effect("1.1.1")))

    assert plan == RetryPlanned("rate_limit", "busy", 2, 7.0)
    assert StartTimer(effect("1.1.1"), 7.0) == timer
    assert isinstance(again, CallModel)
    assert again.effect_id == "1.1.2"


def test_an_unreadable_call_goes_back_to_the_model_at_most_twice() -> None:
    """The model sees what it wrote and what is wrong with it."""
    session = Session(engine_with(WRITE))
    session(UserSpoke("Write"))
    bad = MalformedToolCall('{"name": "write"', "the object is not closed")
    for step in (1, 2):
        (ask,) = session(replied(f"1.{step}.0", "Well.", malformed=(bad,)))
        assert isinstance(ask, CallModel)
        assert ask.purpose == "repair"
        written, note = ask.request.messages[-2:]
        assert isinstance(written, AssistantMessage)
        assert isinstance(note, UserMessage)
        assert written.text == "Well."
        assert 'the object is not closed\n{"name": "write"' in note.text

    (end,) = session(replied("1.3.0", "Well.", malformed=(bad,)))

    assert isinstance(end, TurnFinished)
    assert isinstance(end.outcome, Failed)
    assert (end.outcome.kind, end.outcome.text) == ("bad_output", "Well.")


def test_a_readable_call_beside_an_unreadable_one_runs_and_the_model_hears_of_the_other() -> None:
    session = Session(engine_with(WRITE))
    session(UserSpoke("Write"))
    session(replied("1.1.0", "", ProposedCall("write"), malformed=(MalformedToolCall("{", "cut"),)))

    (ask,) = session(ToolReturned(effect("1.1.1"), "ok"))

    assert isinstance(ask, CallModel)
    assert [AssistantMessage, ToolMessage, UserMessage] == [type(m) for m in ask.request.messages[-3:]]


@pytest.mark.parametrize("text", ["{", "[1]", "null", '{"a": ' * 100_000])
@pytest.mark.behaviour("I4")
def test_arguments_that_are_no_object_are_unreadable_whoever_parsed_them(text: str) -> None:
    session = Session(engine_with(WRITE))
    session(UserSpoke("Write"))

    (ask,) = session(replied("1.1.0", "", ProposedCall("write", text)))

    assert isinstance(ask, CallModel)
    assert ask.purpose == "repair"


@pytest.mark.behaviour("B6")
def test_an_empty_reply_is_nudged_at_most_twice() -> None:
    """A reply with only reasoning, or with nothing, never stalls the turn (law L10)."""
    session = Session(engine_with())
    session(UserSpoke("Hello"))
    for step in (1, 2):
        (ask,) = session(replied(f"1.{step}.0", " \n", reasoning="Hmm."))
        assert isinstance(ask, CallModel)
        assert ask.request.messages[-1].text == NUDGE_NOTE  # type: ignore[union-attr]  # the note

    (end,) = session(replied("1.3.0"))

    assert end == TurnFinished(Failed("bad_output", "the model gave no answer in 3 replies"), Usage())


def test_reset_forgets_the_conversation_and_goes_on_counting() -> None:
    session = Session(engine_with())
    session(UserSpoke("Hello"))

    decisions = session(SessionReset())

    assert [CancelEffect, TurnFinished] == [type(d) for d in decisions]
    assert len(session.state.history) == 0
    (ask,) = session(UserSpoke("Again"))
    assert isinstance(ask, CallModel)
    assert (ask.effect_id, len(ask.request.messages)) == ("2.1.0", 1)
    session(replied("2.1.0", "Yes?"))
    assert session(SessionReset()) == ()


def test_shutdown_ends_everything() -> None:
    session = Session(engine_with(WRITE))
    session(UserSpoke("Write"))
    session(replied("1.1.0", "", ProposedCall("write")))

    decisions = session(ShutdownAsked())

    assert [CancelEffect, TurnFinished, SessionClosed] == [type(d) for d in decisions]
    (no,) = session(UserSpoke("Hello?"))
    assert isinstance(no, Rejected)
    assert no.reason == "closed"
    idle = Session(engine_with())
    assert idle(ShutdownAsked()) == (SessionClosed(),)


@pytest.mark.behaviour("B15")
def test_a_long_result_is_shortened_in_history_with_a_note() -> None:
    session = Session(engine_with(WRITE, context_tokens=1000, options=GenerationOptions(max_tokens=500)))
    session(UserSpoke("Read"))
    session(replied("1.1.0", "", ProposedCall("write")))
    session(ToolReturned(effect("1.1.1"), "a" * 3000 + "z" * 3000))

    ((content, _),) = session.results

    assert content.startswith("aaa")
    assert content.endswith("zzz")
    assert "characters left out" in content
    assert len(content) < 500


def test_nothing_happened_nothing_to_do() -> None:
    engine = engine_with()
    state = fold(engine, [UserSpoke("Hello")])

    assert (state, ()) == (engine.step(state, None).next_state, engine.step(state, None).decisions)


def test_what_is_no_input_is_the_programs_mistake() -> None:
    with pytest.raises(CogstepError, match=r"the inputs are in cognition\.steps\.inputs"):
        engine_with().step(AgentState(), "hello")  # type: ignore[arg-type]  # the mistake itself


def test_the_prompt_can_be_asked_for_in_any_state() -> None:
    """``build_prompt`` gives the request in flight, or the one that would be made."""
    engine = engine_with(MULTIPLY, system="Be brief.", limits=Limits(steps=1))
    session = Session(engine)
    (ask,) = session(UserSpoke("Hello"))
    assert isinstance(ask, CallModel)
    assert ask.request == engine.build_prompt(session.state)
    session(replied("1.1.0", "", ProposedCall("multiply")))
    assert len(engine.build_prompt(session.state).messages) == 2
    _, final = session(ToolReturned(effect("1.1.1"), "1"))
    assert isinstance(final, CallModel)
    assert final.request == engine.build_prompt(session.state)


def test_whether_a_call_needs_approval_can_be_asked() -> None:
    engine = engine_with(DELETE, WRITE)
    call = ToolCall("call-1-1-1", "delete")

    assert engine.requires_approval(call)
    assert not engine.requires_approval(ToolCall("call-1-1-2", "write"))
    assert not engine.requires_approval(ToolCall("call-1-1-3", "unknown"))
    allowed = AgentState(remembered=(Rule("allow", "delete"),))
    assert not engine.requires_approval(call, allowed)


@pytest.mark.behaviour("B1")
def test_the_echo_engine_answers_and_leaves_its_argument_alone() -> None:
    """The smallest engine, and a state that is not mutated."""
    before = AgentState()

    transition = EchoEngine().step(before, UserSpoke("hello"))

    assert transition.decisions == (TurnFinished(Completed("Echo: hello"), Usage()),)
    assert before == AgentState()
    assert [m.text for m in transition.next_state.history] == ["hello", "Echo: hello"]  # type: ignore[union-attr]
    assert before == EchoEngine().step(before, None).next_state


def test_calls_mean_nothing_where_the_program_wants_none() -> None:
    """With ``tool_choice="none"`` a reply is its text, whatever else the model wrote."""
    session = Session(engine_with(WRITE, options=GenerationOptions(tool_choice="none")))
    session(UserSpoke("Work"))

    malformed = (MalformedToolCall("{", "cut"),)
    (end,) = session(replied("1.1.0", "I would write.", ProposedCall("write"), malformed=malformed))

    assert end == TurnFinished(Completed("I would write."), Usage())

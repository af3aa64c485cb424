"""A reply that was cut at its token limit: no answer, never asked for again, and its calls run only where whole."""

from __future__ import annotations

import pytest

from cognition import (
    ApprovalGiven,
    AssistantMessage,
    CallModel,
    CallTool,
    Completed,
    GenerationOptions,
    HookReturned,
    Input,
    LimitHit,
    LimitReached,
    Limits,
    MalformedToolCall,
    ProposedCall,
    TimerFired,
    ToolFailed,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
)
from cognition.values.features import HookPoint
from cognition.values.outcomes import LimitKind
from tests.cognition.session import DELETE, WRITE, Session, effect, engine_with, replied

LOOK = ToolSpec("look", read_only=True)
CUT_CALL = MalformedToolCall('{"name": "write", "argum', "the reply reached the token limit inside the call")


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ({"text": "Hello, I"}, "Hello, I"),
        ({"text": ""}, ""),
        ({"text": " \n"}, " \n"),
        ({"text": "", "reasoning": "Let me think"}, ""),
        ({"text": "So", "reasoning": "Let me think"}, "So"),
        ({"text": "", "malformed": (CUT_CALL,)}, ""),
        ({"text": "I write", "malformed": (CUT_CALL,)}, "I write"),
    ],
)
def test_a_reply_that_was_cut_ends_the_turn_at_its_limit_with_what_had_arrived(
    reply: dict[str, object], text: str
) -> None:
    """Cut in its text, in its reasoning, or within a call: it is no answer, it is not empty, and it is not repeated."""
    session = Session(engine_with(WRITE, options=GenerationOptions(max_tokens=20)))
    session(UserSpoke("Hello"))

    hit, end = session(replied("1.1.0", **reply, finish_reason="length", usage=Usage(9, 20)))  # type: ignore[arg-type]  # keywords of the table

    told = "the reply was cut at its limit of 20 tokens; raise max_tokens, or ask for less at once"
    assert hit == LimitHit("max_tokens", told)
    assert end == TurnFinished(LimitReached("max_tokens", text), Usage(9, 20))
    kept = [one for one in session.state.history if isinstance(one, AssistantMessage)]
    assert all(one.interrupted and not one.calls for one in kept)
    thought = reply.get("reasoning", "")
    assert [(one.text, one.reasoning) for one in kept] == ([(text, thought)] if text or thought else [])


@pytest.mark.parametrize(
    ("most", "took", "whose"),
    [
        (20, 20, "its limit of 20 tokens"),
        (20, 0, "its limit of 20 tokens"),  # a runtime that counts nothing
        (20, 1, "the context of 4096 tokens was full"),
        (20, 19, "the context of 4096 tokens was full"),
        (None, 19, "the context of 4096 tokens was full"),
        (None, 0, "the context of 4096 tokens was full"),
    ],
)
def test_what_is_said_of_the_limit_is_which_one_it_was(most: int | None, took: int, whose: str) -> None:
    """A context may be full before the limit that was given, and is where none was."""
    session = Session(engine_with(options=GenerationOptions(max_tokens=most)))
    session(UserSpoke("Hello"))

    hit, _ = session(replied("1.1.0", "Hello, I", finish_reason="length", usage=Usage(9, took)))

    assert isinstance(hit, LimitHit)
    assert whose in hit.detail
    assert "max_tokens" in hit.detail
    assert hit.detail.endswith("or ask for less at once")


@pytest.mark.parametrize("final", [False, True])
def test_which_limit_it_was_is_also_said_of_a_reply_with_calls_and_of_a_final_answer(final: bool) -> None:
    config = {"options": GenerationOptions(max_tokens=20), "limits": Limits(steps=1 if final else 9)}
    session = Session(engine_with(WRITE, **config))
    session(UserSpoke("Go"))
    call = ProposedCall("write")
    if final:
        session(replied("1.1.0", "", call))
        session(ToolReturned(effect("1.1.1"), "ok"))
        hit, _ = session(replied("1.2.0", "I wro", finish_reason="length", usage=Usage(9, 20)))
    else:
        session(replied("1.1.0", "I wro", call, finish_reason="length", usage=Usage(9, 20)))
        hit, _ = session(ToolReturned(effect("1.1.1"), "ok"))

    told = "the reply was cut at its limit of 20 tokens; raise max_tokens, or ask for less at once"
    assert hit == LimitHit("max_tokens", told)


@pytest.mark.parametrize("malformed", [(), (CUT_CALL,)])
@pytest.mark.behaviour("P13a")
def test_whole_calls_before_the_cut_run_and_then_the_turn_ends(malformed: tuple[MalformedToolCall, ...]) -> None:
    session = Session(engine_with(WRITE))
    session(UserSpoke("Go"))
    calls = ProposedCall("write"), ProposedCall("nowhere")

    (run,) = session(replied("1.1.0", "Both.", *calls, malformed=malformed, finish_reason="length"))
    hit, end = session(ToolReturned(effect("1.1.1"), "ok"))

    assert isinstance(run, CallTool)
    assert isinstance(hit, LimitHit)
    assert end == TurnFinished(LimitReached("max_tokens", "Both."), Usage())
    assert [status for _, status in session.results] == ["ok", "error"]
    kept = session.state.history[1]
    assert isinstance(kept, AssistantMessage)
    assert (kept.text, len(kept.calls), kept.interrupted) == ("Both.", 2, True)
    notes = [one.text for one in session.state.history if isinstance(one, UserMessage) and one.origin == "engine"]
    assert len(notes) == len(malformed)
    (again,) = session(UserSpoke("Go on"))
    assert isinstance(again, CallModel)


@pytest.mark.parametrize(
    ("tool", "hooks", "between"),
    [
        (DELETE, (), [ApprovalGiven(effect("1.1.1"))]),
        (WRITE, ("before_tool",), [HookReturned(effect("1.1.1"))]),
        (
            ToolSpec("write", idempotent=True, retries=(2.0,)),
            (),
            [ToolFailed(effect("1.1.1"), "busy", transient=True), TimerFired(effect("1.1.2"))],
        ),
    ],
)
def test_what_a_call_waits_for_does_not_make_a_cut_reply_whole(
    tool: ToolSpec, hooks: tuple[HookPoint, ...], between: list[Input]
) -> None:
    session = Session(engine_with(tool, hooks=hooks))
    session(UserSpoke("Go"))
    session(replied("1.1.0", "I wro", ProposedCall(tool.name), finish_reason="length"))

    for event in between:
        *_, run = session(event)
    assert isinstance(run, CallTool)
    hit, end = session(ToolReturned(run.effect_id, "ok"))

    assert isinstance(hit, LimitHit)
    assert end == TurnFinished(LimitReached("max_tokens", "I wro"), Usage())


def test_a_final_answer_that_was_cut_is_named_by_the_limit_that_cut_it() -> None:
    """The limit of steps was told before; of what is no whole answer, the one that cut it is to be known."""
    session = Session(engine_with(WRITE, limits=Limits(steps=1)))
    session(UserSpoke("Go"))
    session(replied("1.1.0", "", ProposedCall("write")))
    steps, final = session(ToolReturned(effect("1.1.1"), "ok"))

    hit, end = session(replied("1.2.0", "I wro", finish_reason="length"))

    assert isinstance(steps, LimitHit)
    assert isinstance(final, CallModel)
    assert (steps.limit, hit.limit) == ("steps", "max_tokens")  # type: ignore[union-attr]  # a LimitHit
    assert end == TurnFinished(LimitReached("max_tokens", "I wro"), Usage())
    assert session.state.history[-1] == AssistantMessage("m5", "I wro", interrupted=True)


@pytest.mark.parametrize(
    ("protocol", "text", "readable"),
    [
        ("short_keys", '{"f": "It is 3 k', "It is 3 k"),
        ("short_keys", '{"t": "I need the size", "a": "look", "i": {"pa', ""),
        ("short_keys", '{"t": "I need', ""),
        ("short_keys", '{"t": "easy", "f": "It is\\n3 k\\u00', "It is\n3 k"),
        ("short_keys", '{"f": "It is 3 kB\\', "It is 3 kB"),
        ("short_keys", '{"f": "It \\q is \\u00', "It \\q is \\u00"),
        ("short_keys", '{"a": "look", "i": {"f": "x', ""),
        ("short_keys", '{"f": "It is 3 kB"', "It is 3 kB"),
        ("short_keys", "It is 3 k", "It is 3 k"),
        ("short_keys", '{"f": "It \\"is\\"\n3 k\\u00', 'It "is"\n3 k'),
        ("short_keys", '{"t": 5, "x": 3', ""),
        ("short_keys", 'See {"t": 5}, and {"f": "It is', 'See {"t": 5}, and '),
        ("short_keys", 'See {"t": ' + "[" * 100_000, "See "),
        ("native", '{"f": "It is 3 k', '{"f": "It is 3 k'),
        ("tool_tags", "I look. <tool>lo", ""),
        ("tool_tags", "<response>It is 3 k", "It is 3 k"),
        ("tool_tags", "<tool>look</tool><args>{", ""),
        ("tool_tags", "<tool>lo", ""),
    ],
)
def test_of_a_text_protocol_the_user_gets_what_of_the_answer_had_arrived(
    protocol: str, text: str, readable: str
) -> None:
    session = Session(engine_with(LOOK, protocol=protocol))
    session(UserSpoke("How large is it?"))

    _, end = session(replied("1.1.0", text, finish_reason="length"))

    assert end == TurnFinished(LimitReached("max_tokens", readable), Usage())
    assert session.state.history[1] == AssistantMessage(
        "m2", text, getattr(session.state.history[1], "reasoning", ""), interrupted=True
    )


def test_calls_where_the_program_wants_none_do_not_run_before_the_cut_either() -> None:
    session = Session(engine_with(WRITE, options=GenerationOptions(tool_choice="none")))
    session(UserSpoke("Go"))

    _, end = session(replied("1.1.0", "So", ProposedCall("write"), malformed=(CUT_CALL,), finish_reason="length"))

    assert end == TurnFinished(LimitReached("max_tokens", "So"), Usage())
    assert len(session.state.history) == 2


def test_a_cut_reply_is_not_offered_to_the_stop_hook() -> None:
    """The hook judges answers."""
    session = Session(engine_with(hooks=("stop",)))
    session(UserSpoke("Go"))

    _, end = session(replied("1.1.0", "So", finish_reason="length"))

    assert end == TurnFinished(LimitReached("max_tokens", "So"), Usage())


def test_the_next_turn_is_like_any_other() -> None:
    session = Session(engine_with())
    session(UserSpoke("Hello"))
    session(replied("1.1.0", "Hello, I", finish_reason="length"))
    session(UserSpoke("Go on"))

    (end,) = session(replied("2.1.0", "am well."))

    assert end == TurnFinished(Completed("am well."), Usage())


@pytest.mark.parametrize(
    ("limit", "cut"), [("max_tokens", True), ("seconds", True), ("steps", False), ("cost", False), ("loop", False)]
)
def test_an_outcome_knows_whether_its_text_is_a_whole_answer(limit: LimitKind, cut: bool) -> None:
    assert LimitReached(limit, "So far").cut is cut

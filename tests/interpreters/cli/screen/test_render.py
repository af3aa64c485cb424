"""From events to text: a pure fold, tested without a terminal, a model or an agent."""

from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from cognition import (
    Cancelled,
    Completed,
    EffectId,
    Failed,
    Failure,
    LimitReached,
    MalformedToolCall,
    Outcome,
    ToolCall,
    Usage,
)
from cognition.base.display import shown_text
from cognition.values.messages import ResultStatus
from interpreters import events
from interpreters.cli.screen.render import RENDERERS, call_text, render, usage_text
from interpreters.cli.screen.styled import LONGEST_RESULT, DisplayState, Piece, result_text
from interpreters.observing.events import Event
from tests.cognition.samples import some

CALL = ToolCall("call-1-1-1", "calculate", {"expression": "17 * 23"})
OTHER = ToolCall("call-1-1-2", "current_time")
EFFECTS = {CALL.id: EffectId("1.1.2"), OTHER.id: EffectId("1.1.3")}
ASKED = EffectId("1.1.1")


def happened(value: events.EventValue) -> Event:
    return Event("s", 1, 1, 1, 1, value)


def text(*pieces: str) -> list[Event]:
    return [happened(events.TextDelta(piece)) for piece in pieces]


def thought(*pieces: str) -> list[Event]:
    return [happened(events.ReasoningDelta(piece)) for piece in pieces]


def model_call(
    *inside: Event,
    end: events.EventValue = events.ModelReplied(ASKED, at=10.5),  # noqa: B008 - it is frozen
) -> list[Event]:
    before = happened(events.TimerFired(EffectId("1.1.0"), at=10.0))
    return [before, happened(events.ModelCalled(ASKED, "answer", 1)), *inside, happened(end)]


def called(call: ToolCall) -> Event:
    return happened(events.CallTool(EFFECTS[call.id], call))


def returned(call: ToolCall, content: str) -> Event:
    return happened(events.ToolReturned(EFFECTS[call.id], content))


def failed(call: ToolCall, message: str) -> Event:
    return happened(events.ToolFailed(EFFECTS[call.id], message))


def told(call: ToolCall, content: str, status: ResultStatus = "ok") -> Event:
    return happened(events.ToolMessage("m1", call.id, call.name, content, status))


def turn(*inside: Event, outcome: Outcome | None = None) -> list[Event]:
    asked = happened(events.UserSpoke("What is 17 * 23?", at=9.0))
    outcome = Completed("") if outcome is None else outcome
    return [asked, *inside, happened(events.TurnFinished(outcome, Usage(input_tokens=20)))]


def shown(happening: Iterable[Event], view: DisplayState | None = None) -> list[Piece]:
    view = DisplayState(summary=False) if view is None else view
    pieces: list[Piece] = []
    for event in happening:
        view, more = render(view, event)
        pieces += more
    return pieces


def channel(name: str, pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces if piece.channel == name)


@given(st.sampled_from(list(events.TAGS)).flatmap(some))
def test_whatever_happens_can_be_shown(value: events.EventValue) -> None:
    """Only what may be told has a renderer, and none of them fails whatever the view has seen before."""
    assert set(RENDERERS) < set(events.TAGS)
    render(DisplayState(), happened(value))
    shown([*turn(called(CALL), *model_call()), happened(value)])


def test_a_turn_with_a_tool_call_reads_like_a_story() -> None:
    """Thinking, the call, its result and the answer stand on lines of their own, the answer alone on its channel."""
    pieces = shown(
        turn(
            *model_call(*thought("I need ", "a tool.")),
            called(CALL),
            returned(CALL, "391"),
            told(CALL, "391"),
            *model_call(*text("17 * 23 ", "is 391.")),
            outcome=Completed("17 * 23 is 391."),
        )
    )

    assert channel("answer", pieces) == "17 * 23 is 391.\n"
    assert channel("trace", pieces) == 'I need a tool.\n→ calculate(expression="17 * 23")\n← 391\n'
    assert {piece.style for piece in pieces if "tool." in piece.text} == {"dim"}


def test_thinking_stays_away_where_it_is_not_wanted() -> None:
    """Without ``thinking`` the trace holds none of it, nor an empty line in its place."""
    pieces = shown(turn(*model_call(*thought("Hm."), *text("Yes."))), DisplayState(thinking=False, summary=False))

    assert pieces == [Piece("answer", "Yes."), Piece("answer", "\n")]


@given(st.lists(st.sampled_from([*text("a", "b\n", "\n"), *thought("x", "y\n"), *model_call()])))
def test_channels_never_share_a_line(inside: list[Event]) -> None:
    """However text and thinking alternate, whoever begins to write finds the line of the other ended."""
    written = {"answer": "", "trace": ""}
    for piece in shown(turn(*inside)):
        other = "trace" if piece.channel == "answer" else "answer"

        assert written[other] == "" or written[other].endswith("\n")
        written[piece.channel] += piece.text
    assert all(not end or end.endswith("\n") for end in written.values())


@given(st.lists(st.text(min_size=1), min_size=1))
def test_the_answer_is_what_the_model_said(pieces: list[str]) -> None:
    """Up to blank lines before it and a line break behind it nothing is added to a reply and nothing is lost."""
    said = "".join(pieces)
    answer = channel("answer", shown(turn(*model_call(*text(*pieces)))))
    expected = said.lstrip("\n")

    assert answer == (f"{expected}\n" if expected and not expected.endswith("\n") else expected)


def test_a_warning_in_the_middle_leaves_the_answer_whole() -> None:
    """What comes from outside while the model writes does not break the answer's line in a file."""
    pieces = shown(turn(*model_call(*text("one "), happened(events.WarningRaised("odd")), *text("two"))))

    assert channel("answer", pieces) == "one two\n"
    assert channel("trace", pieces) == "\n! odd\n"


def test_a_runtime_that_does_not_stream_shows_its_answer_too() -> None:
    """An answer of which no delta came is shown when the turn ends."""
    pieces = shown(turn(*model_call(), outcome=Completed("391")))

    assert channel("answer", pieces) == "391\n"


@pytest.mark.parametrize(
    ("happening", "expected"),
    [
        (
            [
                called(CALL),
                called(OTHER),
                returned(OTHER, "noon"),
                returned(CALL, "391"),
                told(CALL, "391"),
                told(OTHER, "noon"),
            ],
            '→ calculate(expression="17 * 23")\n→ current_time()\n← noon\n← calculate(expression="17 * 23"): 391\n',
        ),
        ([told(CALL, "Error: not allowed", "refused")], "← calculate: refused: not allowed\n"),
        (
            [called(CALL), failed(CALL, "no such file"), told(CALL, "Error: no such file", "error")],
            '→ calculate(expression="17 * 23")\n← error: no such file\n',
        ),
        (
            [called(CALL), told(CALL, "Error: stopped", "cancelled")],
            '→ calculate(expression="17 * 23")\n← cancelled: stopped\n',
        ),
        (
            [
                called(CALL),
                happened(events.ToolProgress(EFFECTS[CALL.id], CALL, "half")),
                returned(CALL, "391"),
            ],
            '→ calculate(expression="17 * 23")\n  calculate: half\n← calculate(expression="17 * 23"): 391\n',
        ),
        (
            [called(CALL), happened(events.ToolProgress(EFFECTS[CALL.id], CALL, "one\ntwo\n"))],
            '→ calculate(expression="17 * 23")\n  calculate: two\n',
        ),
        (
            [happened(events.CallMalformed(0, MalformedToolCall('{"name":', "it ends too early")))],
            '✗ the model wrote a call that can\'t be read (it ends too early): {"name":\n',
        ),
        (
            [happened(events.RetryPlanned("rate_limit", "busy", 2, 2.0))],
            "! busy; trying again in 2 s (attempt 2)\n",
        ),
        (
            [happened(events.RetryPlanned("transient", "busy", 2, 0.0))],
            "! busy; trying again now (attempt 2)\n",
        ),
        (
            [called(CALL), happened(events.RetryPlanned("transient", "busy", 2, 2.0, CALL.id))],
            '→ calculate(expression="17 * 23")\n'
            '! calculate(expression="17 * 23"): busy; trying again in 2 s (attempt 2)\n',
        ),
        (
            [happened(events.RetryPlanned("transient", "busy", 2, 2.0, "call-9-9-9"))],
            "! call-9-9-9: busy; trying again in 2 s (attempt 2)\n",
        ),
        (
            [happened(events.ContextAssembled(9, dropped, 10, 10, 3)) for dropped in (0, 4, 4)],
            "! for want of room 3 results of tools are shortened\n"
            "! for want of room the 4 oldest messages are left out\n",
        ),
        (
            [happened(events.ContextAssembled(1, dropped, 10, 10)) for dropped in (0, 4, 4)],
            "! for want of room the 4 oldest messages are left out\n",
        ),
        ([happened(events.LimitHit("steps", "12 steps are used up"))], "! 12 steps are used up\n"),
    ],
)
def test_what_happens_beside_the_answer(happening: list[Event], expected: str) -> None:
    """Each happening is a line on the trace, and a result says whose it is unless it stands under its call."""
    pieces = shown(happening)

    assert channel("trace", pieces) == expected
    assert channel("answer", pieces) == ""


@pytest.mark.parametrize(
    ("status", "style"), [("ok", "plain"), ("error", "error"), ("refused", "error"), ("cancelled", "warning")]
)
def test_results_that_are_none_stand_out(status: ResultStatus, style: str) -> None:
    """A failed call is red, a cancelled one yellow."""
    (piece,) = shown([told(CALL, "x", status)])

    assert piece.style == style


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (
            LimitReached("max_tokens", "x"),
            "! the reply was cut at its token limit; --max-tokens raises it, up to the end of the context\n",
        ),
        (LimitReached("steps"), "! the turn ended at its limit of steps; --max-steps raises it\n"),
        (LimitReached("tool_calls"), "! the turn ended at its limit of tool calls\n"),
        (Cancelled("the user asked to stop"), "! cancelled\n"),
        (Failed("context_overflow", "too long"), "✗ the turn failed (context overflow): too long\n"),
    ],
)
def test_a_turn_that_does_not_end_well_says_why(outcome: Outcome, expected: str) -> None:
    """The last line names what ended the turn and, where there is one, the option that helps."""
    assert channel("trace", shown(turn(*model_call(*text("x")), outcome=outcome))) == expected


def test_the_summary_adds_up_the_turn() -> None:
    """Replies, tokens and time of all model calls of the turn stand on one line, and only of this turn."""
    two_turns = [*turn(*model_call()), *turn(*model_call(), *model_call())]

    *_, last = shown(two_turns, DisplayState())

    assert last == Piece("trace", "2 replies, 20 tokens in, 0 out, 1.00 s in the model\n", "dim")
    assert usage_text(1, Usage(30, 5, 10), 0.25) == "1 reply, 30 tokens in (10 reused), 5 out, 0.25 s in the model"


@pytest.mark.parametrize(
    "end",
    [
        [events.ModelFailed(ASKED, Failure("gone"), at=10.25)],
        [events.ModelInterrupted(ASKED, at=10.25)],
        [events.CancelAsked(at=10.25), events.CancelEffect(ASKED), events.CancelEffect(EffectId("1.1.9"))],
    ],
    ids=lambda end: type(end[0]).__name__,
)
def test_a_reply_counts_however_it_ended(end: list[events.EventValue]) -> None:
    """It took its time, also where nobody read it to its end."""
    asked = model_call()[:2]

    *_, last = shown(turn(*asked, *map(happened, end)), DisplayState())

    assert last.text == "1 reply, 20 tokens in, 0 out, 0.25 s in the model\n"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (CALL, 'calculate(expression="17 * 23")'),
        (OTHER, "current_time()"),
        (ToolCall("c", "f", {"a": 1, "b": [True, None], "ä": "ö\n"}), 'f(a=1, b=[true, null], ä="ö\\n")'),
        (ToolCall("c", "f", "[1"), "f([1)"),
        (ToolCall("c", "f", {"a": "x" * 500}), f'f(a="{"x" * 119}… (502 characters))'),
    ],
)
def test_a_call_is_one_line_whatever_it_holds(call: ToolCall, expected: str) -> None:
    """Calls are written as one would write them, long arguments cut."""
    assert call_text(call) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("391", "391"),
        ("a\nb\n", "a\n  b"),
        ("", "(nothing)"),
        ("\n".join("123456789"), "1\n  2\n  3\n  4\n  5\n  6\n  … (3 more lines)"),
        ("x" * 1000, f"{'x' * 400}\n  … (600 more characters)"),
    ],
)
def test_long_results_are_shortened(content: str, expected: str) -> None:
    """The first lines are shown, indented under the arrow, and what is left out is counted."""
    assert result_text(content) == expected


@given(st.text())
def test_shortened_results_stay_short(content: str) -> None:
    """No result takes more than its lines and characters, and -v shows all of it."""
    most_lines, most_characters = LONGEST_RESULT
    short = result_text(content)

    assert len(short.splitlines()) <= most_lines + 1
    assert len(short) <= most_characters + 3 * most_lines + 40
    assert result_text(content, whole=True).split() == (shown_text(content.rstrip(" \t\r\n")).split() or ["(nothing)"])


# ------------------------------------------------------------------------------------------------- what policy says

DENIED = events.CallJudged("c1", "deny", "Bash(curl:*)", "not from here")


@pytest.mark.parametrize(
    ("judged", "brief", "whole"),
    [
        (DENIED, "• policy denies Bash by the rule Bash(curl:*): not from here\n", True),
        (events.CallJudged("c1", "deny", "", "the mode is plan"), "• policy denies Bash: the mode is plan\n", True),
        (events.CallJudged("c1", "deny"), "• policy denies Bash by default\n", True),
        (events.CallJudged("other", "deny", "Edit"), "• policy denies a call by the rule Edit\n", True),
        (events.CallJudged("c1", "deny", "Bash(\x1b:*)"), "• policy denies Bash by the rule Bash(\\x1b:*)\n", True),
        (events.CallJudged("c1", "ask", "Bash"), "", False),
        (events.CallJudged("c1", "allow"), "", False),
        (events.CallJudged("c1", "allow", "Bash(ls:*)"), "", "• policy allows Bash by the rule Bash(ls:*)\n"),
    ],
)  # fmt: skip
def test_what_policy_denies_is_told_and_what_it_allows_with_v(
    judged: events.CallJudged, brief: str, whole: bool | str
) -> None:
    """One dim line beside the answer, whoever calls: the session or a worker of it."""
    says = happened(events.AssistantMessage("m1", "", calls=(ToolCall("c1", "Bash", {}),)))
    for verbose, expected in ((False, brief), (True, whole if isinstance(whole, str) else brief if whole else "")):
        pieces: list[Piece] = []
        view = DisplayState(whole=verbose)
        for event in (says, happened(judged)):
            view, shown = render(view, event)
            pieces += shown
        assert [(piece.channel, piece.text, piece.style) for piece in pieces] == (
            [("trace", expected, "dim")] if expected else []
        )

        view = DisplayState(whole=verbose, session="parent")
        for event in (says, happened(judged)):
            view, shown = render(view, event)
        assert "".join(piece.text for piece in shown) == (f"  [s] {expected}" if expected else "")

"""The smallest engine: it repeats the user, and has nothing under way that could be answered or cancelled."""

from __future__ import annotations

import pytest

from cognition import (
    AgentState,
    CancelAsked,
    EchoEngine,
    EffectId,
    Input,
    ModeChanged,
    Rejected,
    SessionReset,
    ShutdownAsked,
    TimerFired,
    ToolReturned,
    UserSpoke,
)

ENGINE = EchoEngine()
SPOKEN = ENGINE.step(AgentState(), UserSpoke("Hello")).next_state


@pytest.mark.parametrize("event", [ToolReturned(EffectId("1.1.0"), "391"), TimerFired(EffectId("1.1.0"))])
def test_an_answer_is_foreign_since_nothing_was_asked(event: Input) -> None:
    transition = ENGINE.step(SPOKEN, event)

    assert transition.next_state == SPOKEN
    assert transition.decisions == (
        Rejected("foreign", type(event).__name__, "nothing is under way", EffectId("1.1.0")),
    )


def test_there_is_nothing_to_cancel() -> None:
    transition = ENGINE.step(SPOKEN, CancelAsked("enough"))

    assert transition.next_state == SPOKEN
    assert transition.decisions == (Rejected("out_of_phase", "CancelAsked", "nothing is under way", None),)


@pytest.mark.parametrize("event", [None, ModeChanged("plan"), SessionReset(), ShutdownAsked()])
def test_whatever_else_a_user_may_do_leaves_it_as_it_is(event: Input | None) -> None:
    transition = ENGINE.step(SPOKEN, event)

    assert transition.next_state == SPOKEN
    assert transition.decisions == ()

"""What the model is told of the calls of a turn that was cancelled: what is known of each, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import (
    ApprovalGiven,
    AskApproval,
    CallTool,
    CancelAsked,
    EffectId,
    HookReturned,
    Input,
    ProposedCall,
    SessionReset,
    ShutdownAsked,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    UserSpoke,
)
from tests.cognition.session import DELETE, MULTIPLY, WRITE, Session, effect, engine_with, replied
from tests.cognition.told import FAILED, MAY_HAVE_HAPPENED, NOT_RUN, RAN, STOPPED

FIRST = effect("1.1.1")
WORKER = ProposedCall("spawn_worker", {"name": "a", "objective": "x"})


def calling(call: ProposedCall, **config: Any) -> Session:
    session = Session(engine_with(WRITE, DELETE, MULTIPLY, **config))
    session(UserSpoke("Go"))
    session(replied("1.1.0", "", call))
    return session


@pytest.mark.behaviour("C13a")
@pytest.mark.parametrize(
    ("call", "before", "event", "expected"),
    [
        (ProposedCall("write"), (), CancelAsked(), MAY_HAVE_HAPPENED),
        (ProposedCall("write"), (), CancelAsked(not_begun=(FIRST,)), NOT_RUN),
        (ProposedCall("write"), (), CancelAsked(returned=(FIRST,)), RAN),
        (ProposedCall("write"), (), CancelAsked(not_begun=(effect("1.1.2"),)), MAY_HAVE_HAPPENED),
        (ProposedCall("multiply"), (), CancelAsked(), STOPPED),
        (ProposedCall("multiply"), (), CancelAsked(not_begun=(FIRST,)), NOT_RUN),
        (ProposedCall("multiply"), (), CancelAsked(returned=(FIRST,)), STOPPED),
        (WORKER, (), CancelAsked(), MAY_HAVE_HAPPENED),
        (WORKER, (), CancelAsked(not_begun=(FIRST,)), NOT_RUN),
        (WORKER, (), CancelAsked(returned=(FIRST,)), RAN),
        (ProposedCall("delete"), (), CancelAsked(), NOT_RUN),
        (ProposedCall("delete"), (ApprovalGiven(FIRST),), CancelAsked(), MAY_HAVE_HAPPENED),
        (ProposedCall("delete"), (ApprovalGiven(FIRST),), CancelAsked(not_begun=(effect("1.1.2"),)), NOT_RUN),
        (ProposedCall("write"), (), ShutdownAsked(), MAY_HAVE_HAPPENED),
    ],
)
def test_a_cancelled_call_says_what_is_known_of_it(
    call: ProposedCall, before: tuple[Input, ...], event: Input, expected: str
) -> None:
    """Where nobody knows, it may have happened: the model must not send it again blindly."""
    session = calling(call, features=("workers",))
    for answer in before:
        session(answer)

    session(event)

    assert [(expected, "cancelled")] == session.results


@pytest.mark.behaviour("C13a")
def test_a_call_at_its_hook_has_run_or_has_not() -> None:
    """What the hook after it has not let be shown is not shown; that it ran is said."""
    session = calling(ProposedCall("write"), hooks=("before_tool", "after_tool"))
    before = session.state
    session(CancelAsked())
    assert session.results == [(NOT_RUN, "cancelled")]

    session = calling(ProposedCall("write"), hooks=("before_tool", "after_tool"))
    assert before == session.state
    session(HookReturned(FIRST))
    session(ToolReturned(effect("1.1.2"), "the secret"))
    session(CancelAsked())
    assert session.results == [(RAN, "cancelled")]


@pytest.mark.behaviour("C13a")
def test_a_call_that_failed_is_not_said_to_have_run_to_its_end() -> None:
    """Its arguments may have been wrong, so that it never began; the hook after it has not let that be shown."""
    session = calling(ProposedCall("write"), hooks=("after_tool",))
    session(ToolFailed(FIRST, "wrong arguments for write: n must be a number"))
    session(CancelAsked())
    assert session.results == [(FAILED, "cancelled")]


def test_a_reset_leaves_no_result_behind() -> None:
    session = calling(ProposedCall("write"))

    session(SessionReset())

    assert session.results == []


CALLS = st.lists(st.sampled_from([ProposedCall(name) for name in ("write", "delete", "multiply")]), min_size=1)


@pytest.mark.behaviour("C13a")
@given(CALLS.map(lambda calls: calls[:5]), st.data())
def test_no_call_that_was_let_run_is_said_not_to_have_run(calls: list[ProposedCall], data: st.DataObject) -> None:
    """Over any batch, cancelled at any place of it: only what the interpreter knows never began is told as such."""
    session = Session(engine_with(WRITE, DELETE, MULTIPLY))
    session(UserSpoke("Go"))
    open_ = list(session(replied("1.1.0", "", *calls)))
    running: dict[str, EffectId] = {}  # the effects of the calls that were let run, by the call's id
    for _ in range(data.draw(st.integers(0, 2 * len(calls)))):
        running |= {d.call.id: d.effect_id for d in open_ if isinstance(d, CallTool)}
        waiting = [d for d in open_ if isinstance(d, CallTool | AskApproval)]
        if not waiting:
            break
        one = data.draw(st.sampled_from(waiting))
        open_.remove(one)
        if isinstance(one, CallTool):
            running.pop(one.call.id)
            open_ += session(ToolReturned(one.effect_id, "done"))
        else:
            open_ += session(ApprovalGiven(one.effect_id))
    running |= {d.call.id: d.effect_id for d in open_ if isinstance(d, CallTool)}
    idle = tuple(sorted(data.draw(st.sets(st.sampled_from([*running.values()]))))) if running else ()

    session(CancelAsked(not_begun=idle))

    results = {m.call_id: m for m in session.state.history if isinstance(m, ToolMessage)}
    for call_id, effect_id in running.items():
        told = results[call_id].content
        if effect_id in idle:
            assert told == NOT_RUN
        else:
            assert (STOPPED if results[call_id].name == "multiply" else MAY_HAVE_HAPPENED) == told
    begun = {call_id for call_id, effect_id in running.items() if effect_id not in idle}
    for call_id, message in results.items():
        if message.status == "cancelled" and call_id not in begun:
            assert message.content == NOT_RUN

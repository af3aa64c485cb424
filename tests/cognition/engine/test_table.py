"""The transition table is complete: every input has a row, and where none handles it, it changes nothing."""

from __future__ import annotations

from itertools import product

import pytest

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalGiven,
    ApprovalRefused,
    CompactionAsked,
    EffectId,
    Failure,
    History,
    HookReturned,
    Input,
    LLMEngine,
    MemoryRecalled,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    PlanReviewed,
    ProposedCall,
    QuestionAnswered,
    Rejected,
    ShutdownAsked,
    TimerFired,
    ToolFailed,
    ToolReturned,
    ToolSpec,
    UserMessage,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
    fold,
)
from cognition.engine._table import CLOSED, TABLE
from cognition.steps.inputs import INPUT_TYPES
from cognition.steps.phases import (
    PHASE_TYPES,
    Acting,
    Closed,
    Compacting,
    Hooked,
    Idle,
    Phase,
    Recalling,
    Thinking,
    Waiting,
)
from cognition.testing._sample_inputs import ANSWERING, LETTERS
from cognition.testing._world import readdress

ENGINE = LLMEngine(AgentConfig(tools=(ToolSpec("work"),)))
HELLO = UserSpoke("Hello")
FAILED = ModelFailed(EffectId("1.1.0"), Failure("busy", kind="transient"))
CALLED = ModelReplied(EffectId("1.1.0"), calls=(ProposedCall("work"),))
STATES: dict[type[Phase], AgentState] = {
    Idle: AgentState(),
    Hooked: fold(LLMEngine(AgentConfig(hooks=("user_message",))), [HELLO]),
    Recalling: fold(LLMEngine(AgentConfig(recall_first=True)), [HELLO]),
    Thinking: fold(ENGINE, [HELLO]),
    Waiting: fold(ENGINE, [HELLO, FAILED]),
    Acting: fold(ENGINE, [HELLO, CALLED]),
    Compacting: fold(ENGINE, [CompactionAsked()], AgentState(History([UserMessage("m1", "Hello")]))),
    Closed: fold(ENGINE, [ShutdownAsked()]),
}
FOREIGN = EffectId("9.9.9")
INPUTS: dict[type[Input], Input] = {
    kind: readdress(some[0], FOREIGN) if kind in ANSWERING else some[0] for kind, some in LETTERS.items()
}

ANOTHER = {
    ModelReplied: "another model call is in flight",
    ModelFailed: "another model call is in flight",
    ModelInterrupted: "another model call is in flight",
    TimerFired: "another timer is running",
    ToolReturned: "no tool runs under this id",
    ToolFailed: "no tool runs under this id",
    ApprovalGiven: "no call awaits this approval",
    ApprovalRefused: "no call awaits this approval",
    QuestionAnswered: "no question awaits this answer",
    PlanReviewed: "no plan awaits a review",
    MemoryRecalled: "nothing is being recalled under this id",
    WorkerFinished: "no worker is at work under this id",
    WorkerFailed: "no worker is at work under this id",
    WorkerStalled: "no worker is at work under this id",
    HookReturned: "no hook runs under this id",
}
"""What a live cell says to the answer of another effect than the one in flight."""


def test_the_table_has_a_row_for_each_input_and_handles_none_in_a_closed_session() -> None:
    """A row names phases in their order, and what may follow too."""
    assert list(INPUT_TYPES) == list(TABLE)
    for row in TABLE.values():
        assert row.live
        assert Closed not in row.live
        for phases in (row.live, *(set(live.to) for live in row.live.values())):
            assert set(phases) <= set(PHASE_TYPES)
        assert all(live.to for live in row.live.values())


@pytest.mark.parametrize(("phase", "event"), list(product(PHASE_TYPES, INPUT_TYPES)))
def test_every_cell_gives_a_transition_and_where_nothing_handles_an_input_nothing_changes(
    phase: type[Phase], event: type[Input]
) -> None:
    """A dead cell, and a live one for another effect, leave the state equal and say why in one decision."""
    state, value = STATES[phase], INPUTS[event]
    assert isinstance(state.phase, phase)

    transition = ENGINE.step(state, value)

    live, effect_id = TABLE[event].live.get(phase), getattr(value, "effect_id", None)
    if live is None or effect_id is not None:
        reason = "closed" if phase is Closed else "foreign" if effect_id else "out_of_phase"
        detail = ANOTHER[event] if live else CLOSED if phase is Closed else TABLE[event].otherwise
        assert (Rejected(reason, event.__name__, detail, effect_id),) == transition.decisions  # type: ignore[arg-type]
        assert state == transition.next_state
    else:
        assert [d for d in transition.decisions if isinstance(d, Rejected)] == []
        assert type(transition.next_state.phase) in live.to


@pytest.mark.parametrize(
    ("effect_id", "reason"),
    [
        ("1.1.0", "stale"),
        ("1.1.1", "foreign"),
        ("1.2.0", "foreign"),
        ("0.9.9", "stale"),
        ("nonsense", "foreign"),
        ("1.1.x", "foreign"),
        ("1.1.²", "foreign"),
        ("1.1." + "9" * 5000, "foreign"),
    ],
)
def test_a_rejection_tells_stale_answers_from_foreign_ones(effect_id: str, reason: str) -> None:
    state = fold(ENGINE, [HELLO, ModelReplied(EffectId("1.1.0"), "Hi.")])

    (rejected,) = ENGINE.step(state, ToolReturned(EffectId(effect_id), "")).decisions

    assert isinstance(rejected, Rejected)
    assert reason == rejected.reason

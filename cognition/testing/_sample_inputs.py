"""Sample inputs: a few letters for each input type. Alphabets, strategies and tests are built from them.

Add the letters of a new input here. All other tables derive from these and from ``ANSWERS``, which maps effects to the
inputs that answer them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from cognition.base.ids import EffectId
from cognition.steps.decisions import ANSWERS
from cognition.steps.inputs import (
    ApprovalGiven,
    ApprovalRefused,
    ApprovalsForgotten,
    CancelAsked,
    CompactionAsked,
    HookReturned,
    Input,
    MemoryRecalled,
    ModeChanged,
    ModelChosen,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    PlanReviewed,
    QuestionAnswered,
    SessionReset,
    ShutdownAsked,
    TimerFired,
    ToolFailed,
    ToolReturned,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
)
from cognition.values.features import Mode
from cognition.values.messages import MalformedToolCall, ProposedCall, Usage
from cognition.values.outcomes import Failure

ANY = EffectId("*")
"""In an alphabet, the id of the effect that an input answers. It is replaced by each effect in flight that it can
answer.
"""

REPLIES = (
    ModelReplied(ANY, "Done.", usage=Usage(0, 5)),
    ModelReplied(ANY, reasoning="Hmm."),
    ModelReplied(ANY, calls=(ProposedCall("nowhere"),)),
    ModelReplied(ANY, malformed=(MalformedToolCall("{", "cut"),)),
    ModelReplied(ANY, "Do", finish_reason="length"),
)

LETTERS: Mapping[type[Input], tuple[Input, ...]] = {
    UserSpoke: (UserSpoke("Hello"),),
    ModelReplied: REPLIES,
    ModelFailed: (
        ModelFailed(ANY, Failure("busy", kind="rate_limit", retry_after=1.0)),
        ModelFailed(ANY, Failure("too long", kind="context_overflow"), usage=Usage(0, 5)),
        ModelFailed(ANY, Failure("no", kind="fatal")),
        ModelFailed(ANY, Failure("reset", kind="transient"), "Do"),
    ),
    ModelInterrupted: (ModelInterrupted(ANY), ModelInterrupted(ANY, "Do", late=True)),
    ToolReturned: (ToolReturned(ANY, "ok"),),
    ToolFailed: (ToolFailed(ANY, "no"), ToolFailed(ANY, "busy", transient=True)),
    ApprovalGiven: (
        ApprovalGiven(ANY),
        ApprovalGiven(ANY, always=True),
        ApprovalGiven(ANY, arguments_json='{"n": 3}'),
        ApprovalGiven(ANY, always=True, arguments_json="{"),
    ),
    ApprovalRefused: (
        ApprovalRefused(ANY, "no"),
        ApprovalRefused(ANY, always=True),
        ApprovalRefused(ANY, "no", failed=True),
    ),
    QuestionAnswered: (QuestionAnswered(ANY, (("yes",),)),),
    PlanReviewed: (PlanReviewed(ANY, True), PlanReviewed(ANY, False, "shorter")),
    MemoryRecalled: (MemoryRecalled(ANY, ("a note",)),),
    WorkerFinished: (WorkerFinished(ANY, "found", Usage(0, 5)),),
    WorkerFailed: (WorkerFailed(ANY, "lost"),),
    WorkerStalled: (WorkerStalled(ANY),),
    HookReturned: (
        HookReturned(ANY),
        HookReturned(ANY, "refuse", "not so"),
        HookReturned(ANY, arguments_json='{"n": 3}', context="by a hook"),
        HookReturned(ANY, "go_on", "not yet"),
    ),
    TimerFired: (TimerFired(ANY),),
    CancelAsked: (CancelAsked(),),
    ModeChanged: tuple(ModeChanged(mode) for mode in get_args(Mode)),
    ModelChosen: (ModelChosen(""), ModelChosen("nowhere")),
    ApprovalsForgotten: (ApprovalsForgotten(),),
    CompactionAsked: (CompactionAsked(),),
    SessionReset: (SessionReset(),),
    ShutdownAsked: (ShutdownAsked(),),
}
"""For each input type the inputs that an exploration tries, the plainest first; those with ``ANY`` answer an effect."""

ANSWERING: frozenset[type[Input]] = frozenset(kind for kinds in ANSWERS.values() for kind in kinds)
"""The inputs that answer an effect."""

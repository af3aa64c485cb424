"""What can happen, in few inputs: each input type with its letters, of which alphabets, draws and tests are made.

A new input gets its letters here. All else follows from these and from ``ANSWERS``, which says what answers what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from cognition.decisions import ANSWERS
from cognition.features import Mode
from cognition.ids import EffectId
from cognition.inputs import (
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
from cognition.messages import MalformedToolCall, ProposedCall, Usage
from cognition.outcomes import Failure

ANY = EffectId("*")
"""In an alphabet, the id of the effect that an input answers: each effect in flight that it can answer gets it."""

MODES: tuple[Mode, ...] = get_args(Mode)

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
    ApprovalRefused: (ApprovalRefused(ANY, "no"), ApprovalRefused(ANY, always=True)),
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
    ModeChanged: tuple(ModeChanged(mode) for mode in MODES),
    ModelChosen: (ModelChosen(""), ModelChosen("nowhere")),
    ApprovalsForgotten: (ApprovalsForgotten(),),
    CompactionAsked: (CompactionAsked(),),
    SessionReset: (SessionReset(),),
    ShutdownAsked: (ShutdownAsked(),),
}
"""For each input type what an exploration tries of it, the plainest first; those with ``ANY`` answer an effect."""

ANSWERING: frozenset[type[Input]] = frozenset(kind for kinds in ANSWERS.values() for kind in kinds)
"""The inputs that answer an effect."""

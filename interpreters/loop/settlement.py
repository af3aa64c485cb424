"""Settle effects that a crash interrupted.

An effect on file without an answer may have been carried out completely, partly or not at all. Repeatable effects run
again. For the others, the model receives a note that the effect may have happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from cognition import CallTool, Input, SpawnWorker, StartTimer, ToolFailed, WorkerFailed
from cognition.steps.decisions import Effect
from interpreters.loop.worker_setup import IN_PART
from interpreters.tools.external import ExternalTool
from interpreters.tools.tool import Tool

CALL_UNKNOWN = (
    "the program ended while this call ran, and nobody knows whether it happened; look before you call it again"
)
WORK_UNKNOWN = f"the program ended while it worked; {IN_PART}"


def settle(tools: Mapping[str, Tool[..., Any]], effect: Effect, waited: float) -> Effect | Input:
    """Return the effect to begin again, or the input that answers it.

    - A read-only or idempotent tool runs again. Any other call counts as failed (at most once).
    - A call of an external tool continues to wait for its result.
    - A worker does not run again, since its own calls are unknown here.
    - A timer runs for the rest of its time, ``waited`` seconds less.
    - The model is asked again, and so is the program: approvals, questions, plans, hooks, notes. The process lost the
      question, and a second answer has the same effect as one.
    """
    match effect:
        case CallTool(effect_id=effect_id, call=call):
            tool = tools.get(call.name)
            repeatable = tool is not None and tool.spec.repeatable
            return effect if repeatable or isinstance(tool, ExternalTool) else ToolFailed(effect_id, CALL_UNKNOWN)
        case SpawnWorker(effect_id=effect_id):
            return WorkerFailed(effect_id, WORK_UNKNOWN)
        case StartTimer(seconds=seconds):
            return evolve(effect, seconds=min(max(seconds - waited, 0.0), seconds))
        case _:
            return effect

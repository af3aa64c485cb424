"""What becomes of the effects that a crash interrupted, one by one.

An effect that stands on file without its answer may have been carried out, or half of it, or not: nobody knows. What
may be done twice is done again; of what must not be, the model is told that it may have happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from cognition import CallTool, Input, SpawnWorker, StartTimer, ToolFailed, WorkerFailed
from cognition.decisions import Effect
from interpreters.loop.spawning import IN_PART
from interpreters.tools.external import ExternalTool
from interpreters.tools.tool import Tool

CALL_UNKNOWN = (
    "the program ended while this call ran, and nobody knows whether it happened; look before you call it again"
)
WORK_UNKNOWN = f"the program ended while it worked; {IN_PART}"


def settle(tools: Mapping[str, Tool[..., Any]], effect: Effect, waited: float) -> Effect | Input:
    """The effect to begin again, or the input that answers it.

    - A tool that is read-only or idempotent runs again; of any other the call counts as failed (at most once).
    - A call of an external tool goes on waiting for its result.
    - A worker is not run again: its own calls are not known here.
    - A timer runs for the rest of its time; ``waited`` seconds of it have passed.
    - The model is asked again, and so is the program: approvals, questions, plans, hooks, notes. It lost the question
      with the process, and answering it twice is answering it once.
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

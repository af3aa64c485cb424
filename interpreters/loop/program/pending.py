"""Effects that may be answered later: after ``run`` has returned, in another process, or on another machine.

    def approve(request: ApprovalRequest) -> Answer:
        tickets.open(request.session, request.effect_id, request.call)
        return LATER

    result = agent.run("Pay the invoice.")
    result.pending                             # (AskApproval(effect_id='1.1.1', ...),)
    agent.answer("1.1.1", True)

``run`` returns once only pending answers are left. ``answer`` continues the turn, immediately or in a process that has
resumed the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cognition import AskApproval, AskUser, CallTool, CogstepError, ReviewPlan
from cognition.steps.decisions import Effect
from interpreters.tools.context import LATER as LATER, Later as Later
from interpreters.tools.external import ExternalTool
from interpreters.tools.tool import Tool

Postponable = AskApproval | AskUser | ReviewPlan | CallTool
"""The effects that may be answered with ``LATER``."""

ASKED = (AskApproval, AskUser, ReviewPlan)


def outlives_its_run(effect: Effect, tools: Mapping[str, Tool[..., object]]) -> bool:
    """Return whether only a person or the outside program works on an effect, so that leaving the run loses nothing.

    Such an effect stays pending if a run is interrupted. It is asked again, or answered later.
    """
    if isinstance(effect, CallTool):
        return isinstance(tools.get(effect.call.name), ExternalTool)
    return isinstance(effect, ASKED)


def find_pending(effect_id: str, pending: Iterable[Postponable]) -> Postponable:
    """Return the pending effect with this id.

    Raises:
        CogstepError: there is no such effect.
    """
    known = {str(effect.effect_id): effect for effect in pending}
    if effect_id not in known:
        names = format_pending(known.values()) or "nothing"
        raise CogstepError(f"nothing waits for an answer under {effect_id!r}; pending: {names}")
    return known[effect_id]


def format_pending(pending: Iterable[Postponable]) -> str:
    """List the pending effects for an error message."""
    return ", ".join(f"{type(effect).__name__} {effect.effect_id}" for effect in pending)

"""Effects that may be answered later: after ``run`` has returned, in another process, or on another machine.

def approve(request: ApprovalRequest) -> Answer:
tickets.open(request.session, request.effect_id, request.call)
return LATER

result = agent.run("Pay the invoice.")     # returns once nothing else can go on
result.pending                             # (AskApproval(effect_id='1.1.1', ...),)
agent.answer("1.1.1", True)                # goes on, now or in a process that has resumed the recording
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cognition import AskApproval, AskUser, CallTool, CogstepError, ReviewPlan
from cognition.decisions import Effect
from interpreters.tools.external import ExternalTool
from interpreters.tools.later import LATER as LATER, Later as Later
from interpreters.tools.tool import Tool

Postponable = AskApproval | AskUser | ReviewPlan | CallTool
"""The effects that may be answered with ``LATER``."""

ASKED = (AskApproval, AskUser, ReviewPlan)


def outlives_its_run(effect: Effect, tools: Mapping[str, Tool[..., object]]) -> bool:
    """Whether an effect loses nothing when its run is left: nobody works at it but a person, or the program outside.

    Such an effect stays pending where a run is interrupted, and is asked again or answered later.
    """
    if isinstance(effect, CallTool):
        return isinstance(tools.get(effect.call.name), ExternalTool)
    return isinstance(effect, ASKED)


def waiting_under(effect_id: str, pending: Iterable[Postponable]) -> Postponable:
    """The effect of this id among those that wait for an answer.

    Raises:
        CogstepError: there is none.
    """
    known = {str(effect.effect_id): effect for effect in pending}
    if effect_id not in known:
        names = told(known.values()) or "nothing"
        raise CogstepError(f"nothing waits for an answer under {effect_id!r}; pending: {names}")
    return known[effect_id]


def told(pending: Iterable[Postponable]) -> str:
    """What waits, as errors name it."""
    return ", ".join(f"{type(effect).__name__} {effect.effect_id}" for effect in pending)

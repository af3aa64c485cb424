"""How an embedding program is asked whether a call may run, and how it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any

from attrs import field, frozen

from cognition import ApprovalGiven, ApprovalRefused, AskApproval, ConfigError, EffectId, ToolCall
from cognition.checking import checked
from interpreters.program.asking import Request
from interpreters.program.later import Later
from interpreters.tools.context import ToolContext
from interpreters.tools.previews import Preview
from interpreters.tools.tool import Tool

NOBODY = "nobody is here to approve it"
NOT_ASKED = "the user could not be asked"


@checked
@frozen
class Approval:
    """An answer in full; a plain True or False will do where there is no more to say."""

    allowed: bool
    """Whether the call may run."""
    reason: str = ""
    """Told to the model when the call is refused."""
    always: bool = field(default=False, kw_only=True)
    """The answer holds for every later call of this tool too."""


@frozen
class ApprovalRequest(Request):
    """The session asks whether a call may run."""

    call: ToolCall
    reason: str
    """Why the user is asked."""
    _tool: Tool[..., Any] | None = field(default=None, alias="tool", repr=False, eq=False, kw_only=True)
    _deps: Any = field(default=None, alias="deps", repr=False, eq=False, kw_only=True)

    def preview(self, arguments: Mapping[str, Any] | None = None) -> Preview | None:
        """What the call would do, as things stand now: a diff, a command and where it runs, or what the tool's own
        ``preview=`` says. It is made when it is asked for, and does nothing. None where there is none: then the
        arguments are all that is known.

        Args:
            arguments: another call of the same tool, with these.
        """
        if self._tool is None:
            return None
        context: ToolContext[Any] = ToolContext(
            self._deps, session=self.session, call_id=self.call.id, tool=self.call.name
        )
        try:
            given = self.call.arguments if arguments is None else arguments
        except (ValueError, RecursionError):  # such a call is refused before anybody is asked; but never raise here
            return None
        return self._tool.preview(given, context)


Answer = bool | Approval | Later
Approve = Callable[[ApprovalRequest], Answer | Future[Answer] | Awaitable[Answer]]
"""Asks the user. It runs on the session's own thread, so that it may simply read from the terminal. A program that asks
elsewhere (a window, a chat message) returns a ``Future`` and completes it when the answer is there; a cancellation then
ends the turn without waiting for it. With ``LATER`` the turn is put away until ``agent.answer`` goes on with it. For an
``AsyncAgent`` it may be an ``async def``; a plain one runs on a thread."""


RETURNED = "approve has to return True, False, an Approval, a Future or LATER"
HANDED_IN = "answer takes True, False or an Approval for this approval"


def as_input(effect: AskApproval, answer: object, expected: str = RETURNED) -> ApprovalGiven | ApprovalRefused:
    """The input that tells the engine of an answer; ``expected`` is what an error says of it.

    Raises:
        ConfigError: it is no answer. (None must not count as a refusal, nor a text such as "no" as an approval.)
    """
    if not isinstance(answer, bool | Approval):
        raise ConfigError(f"{expected}, not {answer!r}")
    effect_id: EffectId = effect.effect_id
    approval = answer if isinstance(answer, Approval) else Approval(answer)
    if approval.allowed:
        return ApprovalGiven(effect_id, approval.always)
    return ApprovalRefused(effect_id, approval.reason, approval.always)

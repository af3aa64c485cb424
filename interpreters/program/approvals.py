"""How an embedding program is asked whether a call may run, and how it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, get_args

from attrs import field, frozen

from cognition import ApprovalGiven, ApprovalRefused, AskApproval, ConfigError, EffectId, ToolCall, ToolSpec
from cognition.checking import checked
from cognition.features import Feature, Vocabulary
from cognition.messages import json_object_text
from cognition.policy import proposed_rules, remembered_rule
from cognition.policy.patterns import read_pattern
from cognition.vocabulary import engine_tools
from interpreters.program.asking import Request, check_arguments
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
    """The answer holds for every later call of this tool too, or for those that ``rule`` names."""
    rule: str = field(default="", kw_only=True)
    """With ``always``: the pattern of the calls that it holds for, such as ``"Bash(git commit:*)"``, instead of all of
    this tool. It has to be for this tool, and of an allowance to cover this call."""
    arguments: Mapping[str, Any] | None = field(default=None, kw_only=True, validator=check_arguments)
    """Arguments to run the tool with instead of those in question. They are judged again: what is denied stays so."""

    def __attrs_post_init__(self) -> None:
        if self.rule and not self.always:
            raise ConfigError(f"Approval: rule={self.rule!r} is what holds from now on; give always=True with it")
        if self.arguments is not None and not self.allowed:
            raise ConfigError("Approval: arguments are what the call runs with; leave them out of a refusal")
        if self.rule:
            read_pattern(self.rule)


@frozen
class ApprovalRequest(Request):
    """The session asks whether a call may run."""

    call: ToolCall
    reason: str
    """Why the user is asked."""
    tool: ToolSpec | None = field(default=None, kw_only=True, eq=False, repr=False)
    """What is known of the tool."""
    _made: Tool[..., Any] | None = field(default=None, alias="made", repr=False, eq=False, kw_only=True)
    _deps: Any = field(default=None, alias="deps", repr=False, eq=False, kw_only=True)

    def preview(self, arguments: Mapping[str, Any] | None = None) -> Preview | None:
        """What the call would do, as things stand now: a diff, a command and where it runs, or what the tool's own
        ``preview=`` says. It is made when it is asked for, and does nothing. None where there is none: then the
        arguments are all that is known.

        Args:
            arguments: another call of the same tool, with these.
        """
        if self._made is None:
            return None
        context: ToolContext[Any] = ToolContext(
            self._deps, session=self.session, call_id=self.call.id, tool=self.call.name
        )
        try:
            call = (
                self.call if arguments is None else ToolCall(self.call.id, self.call.name, json_object_text(arguments))
            )
            given = call.arguments  # decoded anew: a preview that changes what it is given changes no call
        except (ConfigError, ValueError, RecursionError):  # such a call runs nowhere; but never raise here
            return None
        return self._made.preview(given, context)

    @property
    def rules(self) -> tuple[str, ...]:
        """Patterns to offer for "from now on", the narrowest first: each is good as ``Approval.rule``."""
        return (self.call.name,) if self.tool is None else proposed_rules(self.call, self.tool)


Answer = bool | Approval | Later
Approve = Callable[[ApprovalRequest], Answer | Future[Answer] | Awaitable[Answer]]
"""Asks the user. It runs on the session's own thread, so that it may simply read from the terminal. A program that asks
elsewhere (a window, a chat message) returns a ``Future`` and completes it when the answer is there; a cancellation then
ends the turn without waiting for it. With ``LATER`` the turn is put away until ``agent.answer`` goes on with it. For an
``AsyncAgent`` it may be an ``async def``; a plain one runs on a thread."""


RETURNED = "approve has to return True, False, an Approval, a Future or LATER"
HANDED_IN = "answer takes True, False or an Approval for this approval"


def spec_of(tools: Mapping[str, Tool[..., Any]], name: str) -> ToolSpec | None:
    """What is known of a tool, be it the program's or one that the engine carries out itself."""
    if name in tools:
        return tools[name].spec
    features: tuple[Feature, ...] = get_args(Feature)
    own = (tool for names in get_args(Vocabulary) for tool in engine_tools(features, names))
    return next((tool for tool in own if tool.name == name), None)


def as_input(
    effect: AskApproval, answer: object, expected: str = RETURNED, tool: ToolSpec | None = None
) -> ApprovalGiven | ApprovalRefused:
    """The input that tells the engine of an answer; ``expected`` is what an error says of it.

    Raises:
        ConfigError: it is no answer, or has a rule that is none for this call. (None must not count as a refusal, nor a
            text such as "no" as an approval.)
    """
    if not isinstance(answer, bool | Approval):
        raise ConfigError(f"{expected}, not {answer!r}")
    effect_id: EffectId = effect.effect_id
    approval = answer if isinstance(answer, Approval) else Approval(answer)
    edited = None if approval.arguments is None else json_object_text(approval.arguments)
    if approval.rule:
        call = effect.call if edited is None else ToolCall(effect.call.id, effect.call.name, edited)
        remembered_rule("allow" if approval.allowed else "deny", approval.rule, call, tool or ToolSpec(call.name))
    if approval.allowed:
        return ApprovalGiven(effect_id, approval.always, approval.rule, edited)
    return ApprovalRefused(effect_id, approval.reason, approval.always, approval.rule)

"""Ask the embedding program whether a call may run, and read its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, get_args

from attrs import field, frozen

from cognition import (
    NO_RULES,
    AccessRules,
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
    ConfigError,
    EffectId,
    ToolCall,
    ToolSpec,
)
from cognition.base.checking import checked
from cognition.policy import proposed_rules, remembered_rule
from cognition.policy.rule_patterns import read_pattern
from cognition.steps.vocabulary import engine_tools
from cognition.values.features import Feature, Vocabulary
from cognition.values.messages import json_object_text
from interpreters.loop.program.pending import Later
from interpreters.loop.program.questions import Request, check_arguments
from interpreters.tools.context import ToolContext
from interpreters.tools.log_lines import Hides
from interpreters.tools.previews import Preview
from interpreters.tools.tool import Tool

NOBODY = "nobody is here to approve it"
NOT_ASKED = "the user could not be asked"


@checked
@frozen
class Approval:
    """A detailed answer. A plain True or False is enough otherwise."""

    allowed: bool
    """Whether the call may run."""
    reason: str = ""
    """Sent to the model if the call is refused."""
    always: bool = field(default=False, kw_only=True)
    """The answer also applies to every later call of this tool, or to those that ``rule`` matches."""
    rule: str = field(default="", kw_only=True)
    """With ``always``: a pattern of calls, such as ``"Bash(git commit:*)"``, instead of all calls of this tool. It
    must be a pattern for this tool. If the call is allowed, the pattern must match it.
    """
    arguments: Mapping[str, Any] | None = field(default=None, kw_only=True, validator=check_arguments)
    """Run the tool with these arguments instead. The policy checks them again, and its denials still apply."""

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
    """The specification of the tool, if known."""
    access: AccessRules = field(default=NO_RULES, kw_only=True, eq=False, repr=False)
    """Policy's rules for the files and programs that the call reaches without naming them."""
    _made: Tool[..., Any] | None = field(default=None, alias="made", repr=False, eq=False, kw_only=True)
    _deps: Any = field(default=None, alias="deps", repr=False, eq=False, kw_only=True)
    _hides: Hides | None = field(default=None, alias="hides", repr=False, eq=False, kw_only=True)

    def preview(self, arguments: Mapping[str, Any] | None = None) -> Preview | None:
        """Return a preview of the call's effect right now, without side effects.

        It is a diff, a command with its directory, or the result of the tool's own ``preview=``. None if there is no
        preview; then show the arguments.

        Args:
            arguments: preview a call of the same tool with these arguments instead.
        """
        if self._made is None:
            return None
        try:
            call = (
                self.call if arguments is None else ToolCall(self.call.id, self.call.name, json_object_text(arguments))
            )
            given = call.arguments  # decoded anew: a preview that changes what it is given changes no call
        except (ConfigError, ValueError, RecursionError):  # such a call runs nowhere; but never raise here
            return None
        return self._made.preview(given, self._context())

    def failure(self) -> str:
        """Return the error with which the call would fail right now, as the model would read it; empty if it may work.

        The arguments are checked, and the tool's ``preview=`` is tried. A session does not ask about such a call.
        """
        if self._made is None:
            return ""
        try:
            return self._made.failure(self.call.arguments, self._context())
        except (ValueError, RecursionError):  # no JSON object, which the engine refuses by itself
            return ""

    def _context(self) -> ToolContext[Any]:
        return ToolContext(
            self._deps,
            session=self.session,
            call_id=self.call.id,
            tool=self.call.name,
            access=self.access,
            hides=self._hides,
        )

    @property
    def rules(self) -> tuple[str, ...]:
        """Patterns to offer for "from now on", narrowest first. Each is valid as ``Approval.rule``."""
        return (self.call.name,) if self.tool is None else proposed_rules(self.call, self.tool)


Answer = bool | Approval | Later
Approve = Callable[[ApprovalRequest], Answer | Future[Answer] | Awaitable[Answer]]
"""Asks the user.

It runs on the session's own thread, so it may read from the terminal. A program that asks elsewhere (a window, a chat
message) returns a ``Future`` and completes it later. A cancellation then ends the turn without waiting for it.
``LATER`` suspends the turn until ``agent.answer``. With an ``AsyncAgent`` it may be an ``async def``; a plain function
runs on a thread.
"""


@frozen
class WouldFail:
    """Instead of an answer: nobody was asked, since the call would fail with this error."""

    error: str


RETURNED = "approve has to return True, False, an Approval, a Future or LATER"
HANDED_IN = "answer takes True, False or an Approval for this approval"


def spec_of(tools: Mapping[str, Tool[..., Any]], name: str) -> ToolSpec | None:
    """Return the specification of a tool of the program or of the engine itself."""
    if name in tools:
        return tools[name].spec
    features: tuple[Feature, ...] = get_args(Feature)
    own = (tool for names in get_args(Vocabulary) for tool in engine_tools(features, names))
    return next((tool for tool in own if tool.name == name), None)


def as_input(
    effect: AskApproval, answer: object, expected: str = RETURNED, tool: ToolSpec | None = None
) -> ApprovalGiven | ApprovalRefused:
    """Return the engine's input for an answer. ``expected`` begins the error message.

    Raises:
        ConfigError: it is not an answer, or its rule does not fit this call. (None must not count as a refusal, nor a
            text such as "no" as an approval.)
    """
    if isinstance(answer, WouldFail):
        return ApprovalRefused(effect.effect_id, answer.error, failed=True)
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

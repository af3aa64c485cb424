"""Which tool calls may run: a pure judgement of (call, tool, rules).

The most severe matching rule wins: deny, then ask, then allow; without a match the tool's own ``approval`` flag and
then the policy's default decide. So adding a deny rule can never permit more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import Attribute, field, frozen

from cognition.checking import checked
from cognition.errors import ConfigError
from cognition.features import Mode
from cognition.messages import ToolCall
from cognition.tools import ToolSpec

Action = Literal["allow", "ask", "deny"]

SEVERITY: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}


@checked
@frozen
class Rule:
    """What to do with calls of the tools that a pattern names."""

    action: Action
    """Whether they run, the user is asked, or they are refused."""
    tool: str = field()
    """A tool's name; a ``*`` at its end stands for any rest (``mcp.files.*``), alone for every tool."""
    reason: str = ""
    """Told to the model when the rule denies."""

    @tool.validator
    def _check_pattern(self, _attribute: Attribute[str], value: str) -> None:
        if not value or "*" in value[:-1]:
            raise ConfigError(f"rule pattern {value!r}: write a tool's name, a prefix with '*' at its end, or '*'")

    def matches(self, name: str) -> bool:
        return name.startswith(self.tool[:-1]) if self.tool.endswith("*") else name == self.tool


@frozen
class Verdict:
    """The judgement of one call, and why."""

    action: Action
    reason: str = ""


BY_DEFAULT: Mapping[Action, Verdict] = {action: Verdict(action) for action in SEVERITY}
BY_TOOL = Verdict("ask", "the tool asks for approval")


@checked
@frozen
class Policy:
    """The embedding program's rules. What the user grants or refuses "from now on" is judged by the same words."""

    rules: tuple[Rule, ...] = ()
    """The most severe of those that match a call decides: deny, then ask, then allow."""
    default: Action = field(default="allow")
    """For calls that no rule matches, of tools that don't ask for approval themselves."""

    def judge(
        self, call: ToolCall, tool: ToolSpec, remembered: tuple[Rule, ...] = (), mode: Mode = "default"
    ) -> Verdict:
        """The verdict on a call.

        ``remembered`` are the user's own "from now on" answers. They can soften an *ask* to an *allow* and harden any
        verdict to a *deny*; they never lift a *deny* of the policy. A mode never lifts a *deny* either.
        """
        verdict = self._configured(call, tool)
        if mode != "default":
            verdict = _in_mode(verdict, tool, mode)
        for rule in remembered:
            if rule.matches(call.name) and (rule.action == "deny" or verdict.action == "ask"):
                verdict = Verdict(rule.action, rule.reason)
                if rule.action == "deny":
                    break
        return verdict

    def _configured(self, call: ToolCall, tool: ToolSpec) -> Verdict:
        worst: Rule | None = None
        for rule in self.rules:
            if rule.matches(call.name) and (worst is None or SEVERITY[rule.action] > SEVERITY[worst.action]):
                worst = rule
        if worst is not None:
            return Verdict(worst.action, worst.reason)
        if tool.approval and self.default != "deny":
            return BY_TOOL
        return BY_DEFAULT[self.default]


def _in_mode(verdict: Verdict, tool: ToolSpec, mode: Mode) -> Verdict:
    """What a mode other than the default makes of a verdict."""
    if mode == "plan" and not tool.read_only:
        return Verdict("deny", "only read-only tools run while planning")
    if mode == "careful" and not tool.read_only and verdict.action == "allow":
        return Verdict("ask", "everything that is not read-only asks")
    if mode == "auto" and verdict.action == "ask":
        return Verdict("allow")
    return verdict

"""Which tool calls may run: a pure judgement of (call, tool, rules, mode).

The most severe rule that matches wins: deny, then what can't be said for certain, then ask, then allow; without a
match the tool's own ``approval`` flag and then the policy's default decide, and the mode last. So adding a deny rule
can never permit more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, Protocol

from attrs import Attribute, Factory, evolve, field, frozen

from cognition.checking import checked
from cognition.features import Mode
from cognition.messages import ToolCall
from cognition.policy.approvals import asks_for_itself, own_patterns
from cognition.policy.patterns import read_pattern
from cognition.policy.rules import SEVERITY, Action, Rule
from cognition.policy.tables import Found, Looked, Table
from cognition.tools import ToolSpec

Origin = Literal["rule", "none", "unsure", "firm"]
"""By what a verdict came about: a rule; no rule; because nobody can say what the call does, ``firm`` if there are rules
that it might evade."""


@frozen
class Verdict:
    """The judgement of one call, and why."""

    action: Action
    reason: str = ""
    rule: Rule | None = field(default=None, eq=False, repr=False)
    """The rule that decided, if one did."""


BY_DEFAULT: Mapping[Action, Verdict] = {action: Verdict(action) for action in SEVERITY}
BY_TOOL = Verdict("ask", "the tool asks for approval")
UNSURE = Verdict("ask", "what this call does can't be said for certain")
PLANNING = Verdict("deny", "only read-only tools run while planning")
CAREFUL = Verdict("ask", "everything that is not read-only asks")
EDITS_ONLY = Verdict("ask", "everything but reading and editing asks")

NO_RULE: Origin = "none"

Weighed = tuple[Verdict, Origin]
WEIGHT: Mapping[tuple[Action, Origin], int] = {
    ("allow", "rule"): 0,
    ("allow", "none"): 1,
    ("ask", "none"): 2,
    ("ask", "unsure"): 3,
    ("ask", "rule"): 4,
    ("ask", "firm"): 5,
    ("deny", "none"): 6,
    ("deny", "rule"): 6,
}
"""The order of severity among layers."""


def _check_patterns(_instance: object, _attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    for text in value:
        read_pattern(text)


class _Ruled(Protocol):
    @property
    def rules(self) -> tuple[Rule, ...]: ...
    @property
    def allow_only(self) -> tuple[str, ...]: ...


def _table(ruled: _Ruled) -> Table:
    return Table(ruled.rules)


def _only(ruled: _Ruled) -> Table | None:
    return Table(Rule("allow", text) for text in ruled.allow_only) if ruled.allow_only else None


@checked
@frozen
class Layer:
    """Rules of somebody below the program, such as an agent or a worker: they can only tighten."""

    rules: tuple[Rule, ...] = ()
    """As a policy's. What they allow speaks against this layer's own default and against nothing above it."""
    default: Action = "allow"
    """For calls that no rule of this layer matches."""
    allow_only: tuple[str, ...] = field(default=(), validator=_check_patterns)
    """Patterns, as of rules: whatever none of them covers is denied. Empty: no limit."""
    _table: Table = field(init=False, repr=False, eq=False, default=Factory(_table, takes_self=True))
    _only: Table | None = field(init=False, repr=False, eq=False, default=Factory(_only, takes_self=True))


@checked
@frozen
class Policy:
    """The embedding program's rules. What the user grants or refuses "from now on" is judged by the same words."""

    rules: tuple[Rule, ...] = ()
    """The most severe of those that match a call decides: deny, then ask, then allow."""
    default: Action = field(default="allow")
    """For calls that no rule matches, of tools that don't ask for approval themselves."""
    allow_only: tuple[str, ...] = field(default=(), validator=_check_patterns)
    """Patterns, as of rules: whatever none of them covers is denied. Empty: no limit."""
    layers: tuple[Layer, ...] = ()
    """Of those below the program, from the top: see ``under``."""
    _table: Table = field(init=False, repr=False, eq=False, default=Factory(_table, takes_self=True))
    _only: Table | None = field(init=False, repr=False, eq=False, default=Factory(_only, takes_self=True))

    def under(self, layer: Layer) -> Policy:
        """This policy with one more layer below it, which permits nothing that this one does not."""
        return evolve(self, layers=(*self.layers, layer))

    def check(self, tools: Sequence[ToolSpec]) -> None:
        """See that every rule can be held against the tools that it is for, and their own patterns too.

        Raises:
            ConfigError: a tool's own pattern is none; an argument for a tool of command lines is not the words of one
                command, or begins with a variable, by which it would never match.
        """
        own, shells = own_patterns(tools), [tool.name for tool in tools if tool.command]
        if not shells:
            return
        from cognition.policy.arguments import check_command

        ruling: list[_Ruled] = [self, *self.layers]
        rules = [[rule.pattern for rule in ruled.rules] for ruled in ruling]
        only = [[read_pattern(text) for text in ruled.allow_only] for ruled in ruling]
        for patterns in (own, *rules, *only):
            for pattern in patterns:
                if pattern.argument and any(map(pattern.names, shells)):
                    check_command(pattern)

    def judge(
        self, call: ToolCall, tool: ToolSpec, remembered: tuple[Rule, ...] = (), mode: Mode = "default"
    ) -> Verdict:
        """The verdict on a call.

        ``remembered`` are the user's own "from now on" answers. They can soften an *ask* to an *allow* and harden any
        verdict to a *deny*; they never lift a *deny* of the policy. A mode never lifts a *deny* either.
        """
        looked, origin = None, NO_RULE
        if self.rules or self.allow_only or self.layers or tool.command or type(tool.approval) is not bool:
            looked = Looked(call, tool)
            verdict, origin = self._weigh(looked)
        else:
            verdict = _unruled(tool, self.default, asks=bool(tool.approval))
        if mode != "default":
            verdict = _in_mode(verdict, origin, tool, mode)
        if not remembered:
            return verdict
        return _remembered(verdict, origin, looked or Looked(call, tool), remembered)

    def _weigh(self, looked: Looked) -> Weighed:
        asks = asks_for_itself(looked)
        worst = _in_layer(self, looked, _unruled(looked.tool, self.default, asks=asks))
        for layer in self.layers:
            one = _in_layer(layer, looked, BY_DEFAULT[layer.default])
            if one[1] == "none" and one[0].action == "allow":
                continue  # it has nothing to say
            if WEIGHT[one[0].action, one[1]] > WEIGHT[worst[0].action, worst[1]]:
                worst = one
        return worst


def _unruled(tool: ToolSpec, default: Action, *, asks: bool) -> Verdict:
    """The verdict on a call that no rule matches; ``asks``: whether the tool itself asks about it."""
    if asks and default != "deny":
        return BY_TOOL
    if default == "ask" and tool.kind == "interaction":
        return BY_DEFAULT["allow"]  # to be asked whether one may be asked
    return BY_DEFAULT[default]


def _in_layer(ruled: Policy | Layer, looked: Looked, default: Verdict) -> Weighed:
    found = ruled._table.find(looked)
    if found.deny is not None:
        return _by(found.deny.rule), "rule"
    if ruled._only is not None and ruled._only.find(looked).allow is None:
        return Verdict("deny", f"only {', '.join(ruled.allow_only)} may be called here"), "rule"
    if default.action == "deny" and found.ask is None and found.allow is None:
        return default, "none"  # a doubt is no reason to ask about what is denied anyway
    if found.perhaps is not None:
        return _unsure(found), "firm"
    if found.ask is not None:
        return _by(found.ask.rule), "rule"
    if looked.tool.command and looked.subjects.unsure:
        return UNSURE, "unsure"
    if found.allow is not None:
        return _by(found.allow.rule), "rule"
    return default, "none"


def _by(rule: Rule) -> Verdict:
    return Verdict(rule.action, rule.reason, rule)


def _unsure(found: Found) -> Verdict:
    return Verdict("ask", UNSURE.reason, found.perhaps.rule if found.perhaps else None)


def _in_mode(verdict: Verdict, origin: Origin, tool: ToolSpec, mode: Mode) -> Verdict:
    """What a mode other than the default makes of a verdict."""
    quiet = tool.read_only or tool.kind == "interaction"
    if mode == "plan" and not quiet:
        return PLANNING
    if verdict.action == "allow":
        if mode == "careful" and not quiet:
            return CAREFUL
        if mode == "acceptEdits" and origin == "none" and tool.tool_class in ("execution", "network"):
            return EDITS_ONLY
    elif verdict.action == "ask" and origin != "firm":
        if mode == "auto" or (mode == "bypassPermissions" and origin != "rule"):
            return BY_DEFAULT["allow"]
        if mode == "acceptEdits" and origin == "none" and tool.tool_class not in ("execution", "network"):
            return BY_DEFAULT["allow"]
    return verdict


def _remembered(verdict: Verdict, origin: Origin, looked: Looked, rules: tuple[Rule, ...]) -> Verdict:
    """What the user's own rules make of a verdict."""
    name = looked.call.name
    for rule in rules:
        if rule.matches(name):
            break
    else:
        return verdict
    found = _table_of(rules).find(looked)
    if found.deny is not None:
        return _by(found.deny.rule)
    if verdict.action == "deny":
        return verdict
    if found.perhaps is not None:
        return _unsure(found)
    if verdict.action == "ask" and origin != "firm":
        if found.allow is not None:
            return _by(found.allow.rule)
        if found.ask is not None:
            return _by(found.ask.rule)
    return verdict


_table_of = lru_cache(maxsize=64)(Table)
"""Cached: a session's rules are the same from call to call."""

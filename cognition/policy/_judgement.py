"""Judge which tool calls may run: a pure function of (call, tool, rules, mode).

The most severe matching rule wins: deny, then uncertain matches, then ask, then allow. Without a match the tool's own
``approval`` decides, then the policy's default. The mode comes last. Adding a deny rule can therefore never permit
more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, Protocol

from attrs import Attribute, Factory, evolve, field, frozen

from cognition.base.checking import checked
from cognition.policy._rule_table import JudgedCall, Table
from cognition.policy.access import NO_RULES, AccessRules, rules_for, set_each_time
from cognition.policy.rule_patterns import Pattern, read_pattern
from cognition.policy.rules import SEVERITY, Action, Rule
from cognition.values.features import Mode
from cognition.values.messages import ToolCall
from cognition.values.tools import ToolSpec

Origin = Literal["rule", "none", "unsure", "firm"]
"""The basis of a verdict: a rule, no rule, or uncertainty about the call. ``firm`` is uncertainty with rules that the
call might evade.
"""


@frozen
class Verdict:
    """The decision on a call, and the reason."""

    action: Action
    reason: str = ""
    rule: Rule | None = field(default=None, eq=False, repr=False)
    """The deciding rule, if there is one."""


BY_DEFAULT: Mapping[Action, Verdict] = {action: Verdict(action) for action in SEVERITY}
BY_TOOL = Verdict("ask", "the tool asks for approval")
UNSURE = Verdict("ask", "what this call does can't be said for certain")
MAY_CONCERN = UNSURE.reason + ", and the rule {rule} may concern it"
EACH_TIME = "the call sets {names}, which needs approval each time"
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


class _RuleSet(Protocol):
    @property
    def rules(self) -> tuple[Rule, ...]: ...
    @property
    def allow_only(self) -> tuple[str, ...]: ...


def _table(ruled: _RuleSet) -> Table:
    return Table(ruled.rules)


def _only(ruled: _RuleSet) -> Table | None:
    return Table(Rule("allow", text) for text in ruled.allow_only) if ruled.allow_only else None


@checked
@frozen
class Layer:
    """Rules from below the program, such as those of an agent or a worker: they can only tighten."""

    rules: tuple[Rule, ...] = ()
    """As a policy's. Allow rules outrank only this layer's own default, never a layer above."""
    default: Action = "allow"
    """The action for calls without a matching rule in this layer."""
    allow_only: tuple[str, ...] = field(default=(), validator=_check_patterns)
    """Patterns, as in rules: calls that no pattern covers are denied. Empty: no limit."""
    _table: Table = field(init=False, repr=False, eq=False, default=Factory(_table, takes_self=True))
    _only: Table | None = field(init=False, repr=False, eq=False, default=Factory(_only, takes_self=True))


@checked
@frozen
class Policy:
    """The embedding program's rules. The user's "from now on" answers use the same patterns."""

    rules: tuple[Rule, ...] = ()
    """The most severe rule that matches a call decides: deny, then ask, then allow."""
    default: Action = field(default="allow")
    """The action for calls without a matching rule, of tools that do not ask for approval themselves."""
    allow_only: tuple[str, ...] = field(default=(), validator=_check_patterns)
    """Patterns, as in rules: calls that no pattern covers are denied. Empty: no limit."""
    layers: tuple[Layer, ...] = ()
    """The layers below the program, from the top: see ``under``."""
    _table: Table = field(init=False, repr=False, eq=False, default=Factory(_table, takes_self=True))
    _only: Table | None = field(init=False, repr=False, eq=False, default=Factory(_only, takes_self=True))

    def under(self, layer: Layer) -> Policy:
        """Return this policy with another layer below it; it permits at most the same calls."""
        return evolve(self, layers=(*self.layers, layer))

    def check(self, tools: Sequence[ToolSpec]) -> None:
        """Check that every rule, and every tool's own pattern, can match calls of its tools.

        Raises:
            ConfigError: a tool's own pattern is invalid, or an argument for a command line tool can never match: it is
                not the words of one command, or it begins with a variable.
        """
        own, shells = own_patterns(tools), [tool.name for tool in tools if tool.command]
        if not shells:
            return
        from cognition.policy._arguments import check_command

        ruling: list[_RuleSet] = [self, *self.layers]
        rules = [[rule.pattern for rule in ruled.rules] for ruled in ruling]
        only = [[read_pattern(text) for text in ruled.allow_only] for ruled in ruling]
        for patterns in (own, *rules, *only):
            for pattern in patterns:
                if pattern.argument and any(map(pattern.names, shells)):
                    check_command(pattern)

    def judge(
        self, call: ToolCall, tool: ToolSpec, remembered: tuple[Rule, ...] = (), mode: Mode = "default"
    ) -> Verdict:
        """Return the verdict on a call.

        ``remembered`` are the user's "from now on" answers. They can turn an *ask* into an *allow* and any verdict into
        a *deny*. They never lift a *deny* of the policy, and neither does a mode.
        """
        looked, origin = None, NO_RULE
        if self.rules or self.allow_only or self.layers or tool.command or type(tool.approval) is not bool:
            looked = JudgedCall(call, tool)
            verdict, origin = self._weigh(looked)
        else:
            verdict = _judge_without_rule(tool, self.default, asks=bool(tool.approval))
        if mode != "default":
            verdict = _apply_mode(verdict, origin, tool, mode)
        if remembered:
            verdict = _apply_remembered(verdict, origin, looked or JudgedCall(call, tool), remembered)
        if tool.asks_with and verdict.action == "allow" and (names := set_each_time(call, tool)):
            return Verdict("ask", EACH_TIME.format(names=", ".join(names)))
        return verdict

    def access_rules(
        self, call: ToolCall, tools: Mapping[str, ToolSpec], remembered: tuple[Rule, ...] = (), mode: Mode = "default"
    ) -> AccessRules:
        """Return the rules that the tool of a call has to hold to while it runs; ``tools`` are all that are offered.

        ``judge`` compares rules with the arguments of the call. These are the rules for the files that it reaches
        without naming them, by a link or in a search, and for what the programs of a command do.
        """
        tool, found = tools[call.name], NO_RULES
        ruled = self.rules or self.allow_only or self.layers or remembered or self.default != "allow"
        if ruled or not isinstance(tool.approval, bool):
            found = rules_for((self, *self.layers), call, tools, remembered, mode)
        granted = set_each_time(call, tool) if tool.asks_with else ()
        return evolve(found, granted=granted) if granted else found

    def _weigh(self, looked: JudgedCall) -> Weighed:
        asks = asks_for_itself(looked)
        worst = _judge_in_layer(self, looked, _judge_without_rule(looked.tool, self.default, asks=asks))
        for layer in self.layers:
            one = _judge_in_layer(layer, looked, BY_DEFAULT[layer.default])
            if one[1] == "none" and one[0].action == "allow":
                continue  # it has nothing to say
            if WEIGHT[one[0].action, one[1]] > WEIGHT[worst[0].action, worst[1]]:
                worst = one
        return worst


def _judge_without_rule(tool: ToolSpec, default: Action, *, asks: bool) -> Verdict:
    """Return the verdict on a call without a matching rule; ``asks``: whether the tool itself asks about it."""
    if asks and default != "deny":
        return BY_TOOL
    if default == "ask" and tool.kind == "interaction":
        return BY_DEFAULT["allow"]  # to be asked whether one may be asked
    return BY_DEFAULT[default]


def _judge_in_layer(ruled: Policy | Layer, looked: JudgedCall, default: Verdict) -> Weighed:
    found = ruled._table.find(looked)
    if found.deny is not None:
        return _verdict_by(found.deny.rule), "rule"
    if ruled._only is not None and ruled._only.find(looked).allow is None:
        return Verdict("deny", f"only {', '.join(ruled.allow_only)} may be called here"), "rule"
    if default.action == "deny" and found.ask is None and found.allow is None:
        return default, "none"  # a doubt is no reason to ask about what is denied anyway
    if found.perhaps is not None:
        return _verdict_on_doubt(found.perhaps.rule), "firm"
    if found.ask is not None:
        return _verdict_by(found.ask.rule), "rule"
    if looked.tool.command and looked.subjects.unsure:
        return UNSURE, "unsure"
    if found.allow is not None:
        return _verdict_by(found.allow.rule), "rule"
    return default, "none"


def _verdict_by(rule: Rule) -> Verdict:
    return Verdict(rule.action, rule.reason, rule)


def _verdict_on_doubt(rule: Rule) -> Verdict:
    return Verdict("ask", MAY_CONCERN.format(rule=rule.tool), rule)


def _apply_mode(verdict: Verdict, origin: Origin, tool: ToolSpec, mode: Mode) -> Verdict:
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


def _apply_remembered(verdict: Verdict, origin: Origin, looked: JudgedCall, rules: tuple[Rule, ...]) -> Verdict:
    name = looked.call.name
    for rule in rules:
        if rule.matches(name):
            break
    else:
        return verdict
    found = _table_of(rules).find(looked)
    if found.deny is not None:
        return _verdict_by(found.deny.rule)
    if verdict.action == "deny":
        return verdict
    if found.perhaps is not None:
        return _verdict_on_doubt(found.perhaps.rule)
    if verdict.action == "ask" and origin != "firm":
        if found.allow is not None:
            return _verdict_by(found.allow.rule)
        if found.ask is not None:
            return _verdict_by(found.ask.rule)
    return verdict


_table_of = lru_cache(maxsize=64)(Table)
"""Cached: a session's rules are the same from call to call."""


def asks_for_itself(looked: JudgedCall) -> bool:
    """Return whether the tool itself asks the user before this call.

    Its patterns match as widely as those of deny rules, in any spelling of the call. An uncertain match counts as a
    match.
    """
    approval = looked.tool.approval
    if isinstance(approval, bool):
        return approval
    found = _own_table(looked.tool.name, approval).find(looked)
    return found.ask is not None or found.perhaps is not None


def own_patterns(tools: Iterable[ToolSpec]) -> list[Pattern]:
    """Return the patterns of all tools that ask about some of their calls.

    Raises:
        ConfigError: a pattern is invalid.
    """
    return [
        read_pattern(f"{tool.name}({argument})")
        for tool in tools
        if not isinstance(tool.approval, bool)
        for argument in tool.approval
    ]


@lru_cache(maxsize=256)
def _own_table(name: str, arguments: tuple[str, ...]) -> Table:
    return Table(Rule("ask", f"{name}({argument})") for argument in arguments)

"""``/policy`` in a chat: show the rules, and take back earlier "from now on" answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cognition import Layer, Policy, Rule, shell_protections
from cognition.base.display import LONGEST_LINE, shown_name

if TYPE_CHECKING:
    from interpreters.agents.agent import Agent
    from interpreters.cli.session.session import Session

USAGE = "! write /policy, /policy forget N for the rule of that number, or /policy forget all"


def policy(session: Session, text: str) -> None:
    """``/policy``, ``/policy forget N`` and ``/policy forget all``."""
    word, _, which = text.partition(" ")
    if not text:
        for line in policy_lines(session.agent):
            session.output.note(line)
    elif word == "forget" and which.strip():
        _forget(session, which.strip())
    else:
        session.output.note(USAGE, "warning")


def _forget(session: Session, which: str) -> None:
    agent = session.agent
    rules = agent.remembered
    if not rules:
        session.output.note("nothing was said from now on", "dim")
    elif which == "all":
        agent.forget()
        session.output.note("all that was said from now on is forgotten", "dim")
    elif which in map(str, range(1, len(rules) + 1)):
        pattern = rules[int(which) - 1].tool
        agent.forget(pattern)
        session.output.note(f"forgotten: {shown_name(pattern, LONGEST_LINE)}", "dim")
    else:
        numbers = f"1 to {len(rules)}" if len(rules) > 1 else "1"
        session.output.note(f"! there is no rule {which}; there is {numbers}, and all", "warning")


def policy_lines(agent: Agent) -> Iterator[str]:
    """Yield the rules for calls. The most severe matching rule decides."""
    rules: Policy = agent.config.policy
    guarded = {rule for tool in agent.config.tools if tool.command for rule in shell_protections(tool.name)}
    yield f"mode: {agent.state.mode}"
    yield from _rule_lines("policy", rules, [rule for rule in rules.rules if rule not in guarded])
    for number, layer in enumerate(rules.layers, 1):
        yield from _rule_lines(f"layer {number} below it", layer, layer.rules)
    protections = [rule for rule in rules.rules if rule in guarded]
    if protections:
        yield "protections, which no answer lifts:"
        yield from map(_rule, protections)
    asking = [tool.name for tool in agent.config.tools if tool.approval]
    if asking:
        yield f"tools that ask for themselves: {', '.join(map(shown_name, asking))}"
    remembered = agent.remembered
    yield "from now on, as you said:" if remembered else "from now on: nothing was said"
    for number, rule in enumerate(remembered, 1):
        yield f"  {number}{_rule(rule)}"
    if remembered:
        yield "/policy forget N takes one back, /policy forget all takes back all"


def _rule_lines(name: str, ruled: Policy | Layer, rules: Iterable[Rule]) -> Iterator[str]:
    listed = list(rules)
    yield f"{name}: what no rule is for is {OTHERWISE[ruled.default]}{':' if listed or ruled.allow_only else ''}"
    yield from map(_rule, listed)
    if ruled.allow_only:
        yield f"  only   {', '.join(shown_name(text, LONGEST_LINE) for text in ruled.allow_only)}"


OTHERWISE = {"allow": "allowed", "ask": "asked about", "deny": "denied"}


def _rule(rule: Rule) -> str:
    reason = f"  ({shown_name(rule.reason)})" if rule.reason else ""
    return f"  {rule.action:<6} {shown_name(rule.tool, LONGEST_LINE)}{reason}"

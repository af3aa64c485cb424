"""Which tool calls may run: a pure judgement of (call, tool, rules, mode). ``docs/policy.md`` says how.

From the top: ``judging`` weighs, ``tables`` finds the rules that match, ``subjects`` says what of a call rules look at,
``commands``, ``paths`` and ``texts`` hold patterns against that, ``shell`` reads command lines, ``programs`` is what it
knows of programs, ``rules`` and ``patterns`` are the words. ``answering`` makes rules of what the user says from now
on, ``proposing`` has those to choose from, and ``dangers`` are data that become rules. What reads commands, paths and
texts is imported when the first rule with an argument asks for it: few programs have one, and it would take as long as
half of the core.
"""

from cognition.policy.answering import covers as covers, remembered_rule as remembered_rule
from cognition.policy.judging import Layer as Layer, Policy as Policy, Verdict as Verdict
from cognition.policy.protections import SHELL_PROTECTIONS as SHELL_PROTECTIONS, shell_protections as shell_protections
from cognition.policy.rules import (
    PATH_ARGUMENTS as PATH_ARGUMENTS,
    SEVERITY as SEVERITY,
    Action as Action,
    Rule as Rule,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cognition.policy.dangers import (
        Danger as Danger,
        Level as Level,
        danger_of as danger_of,
        danger_rules as danger_rules,
        shell_dangers as shell_dangers,
    )
    from cognition.policy.proposing import proposed_rules as proposed_rules

DANGERS = frozenset({"Danger", "Level", "danger_of", "danger_rules", "shell_dangers"})


def __getattr__(name: str) -> object:
    if name == "proposed_rules":
        from cognition.policy.proposing import proposed_rules

        return proposed_rules
    if name in DANGERS:
        from cognition.policy import dangers

        return getattr(dangers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

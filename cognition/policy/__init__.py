"""Judge which tool calls may run: a pure function of (call, tool, rules, mode). See ``docs/guides/policy.md``.

From the top:

- ``_judgement`` decides; ``_rule_table`` finds the rules that match; ``_targets`` extracts from a call the texts that
  rules are compared with.
- ``_command_patterns``, ``_path_patterns`` and ``_text_patterns`` compare patterns with these texts.
- ``_shell`` parses command lines, using the data on programs in ``_programs``.
- ``_special_commands`` reads commands that run nothing (``_closed_arguments``, ``_python_code``), or only the command
  in their words (``_wrapped_commands``).
- ``rules`` and ``rule_patterns`` define rules.
- ``access`` selects the rules that a tool applies to the files that it opens.
- ``_remembered`` turns "from now on" answers into rules, ``_proposals`` offers patterns for them, and ``_risks`` are
  data that become rules.

The modules for commands, paths and texts are imported when the first rule with an argument needs them: few programs
have such a rule, and the import takes as long as half of the core.
"""

from cognition.policy._judgement import Layer as Layer, Policy as Policy, Verdict as Verdict
from cognition.policy._remembered import covers as covers, remembered_rule as remembered_rule
from cognition.policy.access import (
    NO_RULES as NO_RULES,
    AccessRules as AccessRules,
    PathAccess as PathAccess,
)
from cognition.policy.rules import (
    PATH_ARGUMENTS as PATH_ARGUMENTS,
    SEVERITY as SEVERITY,
    SHELL_PROTECTIONS as SHELL_PROTECTIONS,
    Action as Action,
    Rule as Rule,
    shell_protections as shell_protections,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cognition.policy._proposals import proposed_rules as proposed_rules
    from cognition.policy._risks import (
        Danger as Danger,
        Level as Level,
        danger_of as danger_of,
        danger_rules as danger_rules,
        shell_dangers as shell_dangers,
    )

DANGERS = frozenset({"Danger", "Level", "danger_of", "danger_rules", "shell_dangers"})


def __getattr__(name: str) -> object:
    if name == "proposed_rules":
        from cognition.policy._proposals import proposed_rules

        return proposed_rules
    if name in DANGERS:
        from cognition.policy import _risks as dangers

        return getattr(dangers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

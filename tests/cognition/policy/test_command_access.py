"""The rules that a command's sandbox enforces: which of policy's denials, and what they are for."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from cognition import AccessRules, PathAccess, Policy, Rule, ToolCall, ToolSpec
from cognition.policy import Layer
from cognition.policy.access import DeniedPaths

PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = {
    tool.name: tool
    for tool in (
        ToolSpec("Bash", command="command", approval=True),
        ToolSpec("Read", parameters=PATH, read_only=True),
        ToolSpec("Glob", read_only=True),
        ToolSpec("Store", parameters=PATH, kind="mutation"),
        ToolSpec("say"),
    )
}
CALL = ToolCall("call-1-1-1", "Bash", {"command": "true"})


def sorts_of(pattern: str, tools: dict[str, ToolSpec] = TOOLS) -> str:
    """Return the names of the fields that a denial is in."""
    rules = Policy((Rule("deny", pattern),)).access_rules(CALL, tools)
    names = ("paths", "only", "writes", "programs", "arguments")
    return " ".join(name for name in names if getattr(rules, name))


@pytest.mark.parametrize(
    ("pattern", "sorts"),
    [
        ("Bash(curl:*)", "programs"),
        ("Bash(./deploy.sh:*)", "programs"),
        ("Bash(/usr/bin/curl:*)", "programs"),
        ("Bash(g++:*)", "programs"),
        ("Bash(curl)", "arguments"),
        ("Bash(rm -rf:*)", "arguments"),
        ("Bash(> x)", "arguments"),
        ("Bash(mkfs*:*)", "arguments"),
        ("Read(.env)", "paths"),
        ("Glob(src/**)", "paths"),
        ("Grep(secrets/**)", "paths"),  # a tool that is not offered
        ("*(secrets/**)", "paths"),
        ("*(tea:*)", "paths programs"),
        ("B*(tea:*)", "paths programs"),
        ("Store(go.sum)", "writes"),
        ("Sto*(go.sum)", "writes"),
        ("Write(go.sum)", "writes"),
        ("apply_patch(go.sum)", "writes"),
        ("say(hello)", ""),
        ("Bash", ""),
        ("Read", ""),
    ],
)
def test_a_denial_holds_for_what_its_pattern_is_about(pattern: str, sorts: str) -> None:
    assert sorts_of(pattern) == sorts


def test_a_pattern_for_all_tools_hides_files_where_only_the_shell_is_offered() -> None:
    assert sorts_of("*(secrets/**)", {"Bash": TOOLS["Bash"]}) == "paths"


def test_only_denials_count_of_all_layers_and_of_earlier_answers() -> None:
    top, below, earlier = (Rule("deny", f"Read({name})") for name in ("a", "b", "c"))
    policy = Policy((top, Rule("ask", "Read(d)"), Rule("allow", "Read(e)")), "deny", allow_only=("Bash", "Read(f)"))

    rules = policy.under(Layer((below,))).access_rules(CALL, TOOLS, (earlier, Rule("allow", "Read(g)")))

    assert rules == AccessRules(paths=(top, below, earlier))


NAMES = st.sampled_from(("a", "B", "secrets", "x.pem", ".env", "~"))
PATTERNS = st.lists(
    st.sampled_from(("a", "b", "*", "**", "*.pem", "s*", ".env", "..", "~", "")), min_size=1, max_size=4
)


@given(st.lists(PATTERNS.map("/".join).filter(bool), min_size=1, max_size=3), st.lists(NAMES, min_size=1, max_size=4))
@example(["a"], ["~", "a"])  # a folder of this name
def test_a_path_is_denied_name_by_name_as_it_is_at_once(patterns: list[str], names: list[str]) -> None:
    rules = tuple(Rule("deny", f"Read({pattern})") for pattern in patterns)
    places = (["/home/u/a", "/data/a"], "/home/u")
    denied = DeniedPaths(rules, *places)

    reached = denied.beginning
    for name in names:
        reached = denied.after(reached, name)
    rule = denied.rule(reached)

    refusal = PathAccess(AccessRules(rules), *places).refusal("/".join(names))
    assert (rule is not None) == bool(refusal)
    assert rule is None or rule.tool in refusal
    assert reached or rule is None

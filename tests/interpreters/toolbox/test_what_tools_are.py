"""What the tools that come with the package are to policy: each mode does the right thing with each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import Policy, Rule, ToolCall
from cognition.policy._targets import diff_paths
from interpreters.toolbox import file_tools, shell_tools, standard_tools
from interpreters.toolbox._diffs import read_diff
from interpreters.tools.context import ToolError
from interpreters.tools.tool import Tool

LOOKS = ["calculate", "current_time", "Glob", "Grep", "Read", "BashOutput"]
CHANGES = ["Write", "Edit", "MultiEdit", "Patch"]
RUNS = ["Bash", "KillShell"]
IN_MODES = {
    **dict.fromkeys(LOOKS, ("read-only", "allow", "allow", "allow")),
    **dict.fromkeys(CHANGES, ("mutation", "ask", "allow", "deny")),
    "Bash": ("execution", "ask", "ask", "deny"),
    "KillShell": ("execution", "allow", "ask", "deny"),
}
"""The class; and what is done in the modes ``default``, ``acceptEdits`` and ``plan``."""


def tools_in(root: Path) -> dict[str, Tool[..., Any]]:
    return {tool.spec.name: tool for tool in (*standard_tools(root), *shell_tools(root), *file_tools(root))}


@pytest.mark.parametrize("name", [*LOOKS, *CHANGES, *RUNS])
def test_each_mode_does_the_right_thing_with_each_tool(name: str, tmp_path: Path) -> None:
    spec = tools_in(tmp_path)[name].spec
    arguments = (
        {"command": "true"} if name == "Bash" else {"path": "x"} if name != "Patch" else {"patch": "--- x\n+++ x\n"}
    )
    call = ToolCall("1", name, arguments)
    kind, *done = IN_MODES[name]

    assert spec.tool_class == kind
    assert [Policy().judge(call, spec, (), mode).action for mode in ("default", "acceptEdits", "plan")] == done


def test_every_tool_is_in_the_table(tmp_path: Path) -> None:
    assert tools_in(tmp_path).keys() == IN_MODES.keys()


@pytest.mark.parametrize("name", ["Read", "Grep", "Write", "Edit", "MultiEdit", "Patch"])
def test_a_rule_on_a_path_is_met_by_every_tool_that_has_one(name: str, tmp_path: Path) -> None:
    spec = tools_in(tmp_path)[name].spec
    where = "src/../secrets/key"
    arguments = {"patch": f"--- {where}\n+++ {where}\n@@ -1 +1 @@\n-a\n+b\n"} if name == "Patch" else {"path": where}

    assert Policy((Rule("deny", "*(secrets/**)"),)).judge(ToolCall("1", name, arguments), spec).action == "deny"


NAMES = st.text("ab /\t\"'\\é", min_size=1, max_size=12)
HEADS = st.sampled_from(
    [
        "--- {0}\n+++ {1}\n@@ -1 +1 @@\n-a\n+b\n",
        "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-a\n+b\n",
        "--- /dev/null\n+++ b/{1}\n@@ -0,0 +1 @@\n+b\n",
        "diff --git a/{0} b/{1}\nrename from {0}\nrename to {1}\n",
        "diff --git a/{0} b/{0}\nold mode 100644\nnew mode 100755\n",
        "diff --git {0} {0}\nold mode 100644\nnew mode 100755\n",
        "diff --git a/{0} b/{0}\nnew file mode 100644\n",
        'diff --git "a/{0}" "b/{0}"\nnew file mode 100644\n',
    ]
)


@given(st.lists(st.tuples(HEADS, NAMES, NAMES), min_size=1, max_size=3), st.sampled_from(["", "\r"]))
def test_policy_sees_every_path_that_patch_changes(drawn: list[tuple[str, str, str]], end: str) -> None:
    """Whatever the tool takes a head to name is among what rules are held against, or is asked about."""
    diff = "".join(head.format(one, other) for head, one, other in drawn).replace("\n", end + "\n")
    seen, more = diff_paths(diff)
    try:
        changed = read_diff(diff)
    except ToolError:
        return

    assert more or {path for file in changed for path in (file.old, file.new) if path} <= set(seen)

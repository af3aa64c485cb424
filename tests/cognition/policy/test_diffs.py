"""The paths in the heads of a unified diff, as rules see them."""

from __future__ import annotations

import json

import pytest

from cognition import Policy, Rule, ToolCall, ToolSpec
from cognition.policy._targets import diff_paths

PATCH = ToolSpec("Patch", kind="mutation", paths=("patch",))
HUNK = "@@ -1 +1 @@\n-a\n+b\n"


def verdict(rules: tuple[Rule, ...], diff: str) -> str:
    return Policy(rules).judge(ToolCall("1", "Patch", json.dumps({"patch": diff})), PATCH).action


@pytest.mark.parametrize(
    ("diff", "paths", "more"),
    [
        ("--- a/x\n+++ b/y\n", ["a/x", "x", "b/y", "y"], False),
        ("--- x\n+++ x\r\n", ["x"], False),
        (
            "--- /dev/null\n+++ b/new name\t2026\n",
            ["b/new name\t2026", "new name\t2026", "b/new name", "new name"],
            False,
        ),
        ("rename from old\nrename to d/new\n", ["old", "d/new"], False),
        ("copy from old\ncopy to i/new\n", ["old", "i/new", "new"], False),
        ("diff --git a/x b/x\nnew mode 100755\n", ["a/x", "x", "b/x"], False),
        ("diff --git x x\nnew mode 100755\n", ["x"], False),
        ("diff --git a/x b/yz\nrename from x\nrename to yz\n", ["x", "yz"], False),
        ('--- "a/\\141"\n+++ b/x\n', ["b/x", "x"], True),
        ('diff --git "a/\\141" "b/\\141"\nnew mode 100755\n', [], True),
        ("--- /dev/null\n+++ /dev/null\t1970\n", [], True),
        ("nothing\nof it\n", [], True),
        ("--- \n+++ b/\n", ["b/"], False),
        ("--- x  \n+++ X\r\n", ["x  ", "x", "X"], False),
        ("+++ n\tc\td\n+++ m \tc\n", ["n\tc\td", "n", "m \tc", "m ", "m"], False),
        ('diff --git "a/x" b/yz\n', ["b/yz", "yz"], True),
        ("diff --git longname longname\n", ["longname"], False),
    ],
)
def test_each_head_names_a_path(diff: str, paths: list[str], more: bool) -> None:
    found, unsure = diff_paths(diff)

    assert (set(found), unsure) == (set(paths), more)


@pytest.mark.parametrize(
    "head",
    [
        "--- a/secrets/key\n+++ b/secrets/key\n",
        "--- secrets/key\n+++ secrets/key\n",
        "--- a/src/x\n+++ b/src/x\n@@ -1 +1 @@\n-a\n+b\n--- a/src/../secrets//key\n+++ /dev/null\n",
        "diff --git a/src/x b/secrets/x\nrename from src/x\nrename to secrets/x\n",
        "diff --git a/secrets/x b/secrets/x\nnew mode 100755\n",
        "--- a/SECRETS/key\r\n+++ b/SECRETS/key\r\n",
        "--- /dev/null\n+++ w/secrets/key\t1970\n",
    ],
)
def test_a_rule_on_a_path_is_met_by_a_diff_that_names_it(head: str) -> None:
    assert verdict((Rule("deny", "Patch(secrets/**)"),), head + HUNK) == "deny"
    assert verdict((Rule("deny", "Patch(secret/**)"),), head + HUNK) == "allow"


def test_a_name_that_can_not_be_read_is_asked_about_where_a_rule_might_be_evaded() -> None:
    quoted = '--- "a/secr\\145ts/key"\n+++ "b/secr\\145ts/key"\n' + HUNK

    assert verdict((Rule("deny", "Patch(secrets/**)"),), quoted) == "ask"
    assert verdict((), quoted) == "allow"


def test_what_is_allowed_has_to_cover_every_file_of_a_diff() -> None:
    rules = (Rule("ask", "Patch"), Rule("allow", "Patch(src/**)"))
    allowed = Policy((Rule("allow", "Patch(src/**)"),), "ask")
    both = "--- src/x\n+++ src/x\n" + HUNK + "--- docs/y\n+++ docs/y\n" + HUNK

    assert verdict(rules, both) == "ask"
    assert allowed.judge(ToolCall("1", "Patch", json.dumps({"patch": both})), PATCH).action == "ask"
    one = "--- src/x\n+++ src/x\n" + HUNK
    assert allowed.judge(ToolCall("1", "Patch", json.dumps({"patch": one})), PATCH).action == "allow"


def test_a_path_with_a_line_break_in_it_is_no_softer() -> None:
    """No diff, but a name: it may be meant, so rules on it are met, and it is asked about beside."""
    policy = Policy((Rule("deny", "Write(secrets/**)"),))
    write = ToolSpec("Write", paths=("path",))

    def judged(path: str) -> str:
        return policy.judge(ToolCall("1", "Write", json.dumps({"path": path})), write).action

    assert judged("secrets/a\nb") == "deny"
    assert judged("src/a\nb") == "ask"

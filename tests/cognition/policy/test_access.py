"""What a policy forbids beyond the arguments of a call: the rules agree with the judgement of a call that names the
file.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any, get_args

import pytest
from hypothesis import example, given, strategies as st

from cognition import (
    NO_RULES,
    AccessRules,
    CallTool,
    EffectId,
    Layer,
    PathAccess,
    Policy,
    Rule,
    ToolCall,
    ToolSpec,
    from_data,
    to_data,
)
from cognition.values.features import Mode

ROOT, HOME = "/srv/app", "/srv"
PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = ToolSpec("Read", parameters=PATH, read_only=True)
GREP = ToolSpec("Grep", parameters=PATH, read_only=True)
WRITE = ToolSpec("Write", paths=("path",), kind="mutation", approval=True)
SEND = ToolSpec("send", paths=("path",), approval=("a/**", "*.env"))
TOOLS = {tool.name: tool for tool in (READ, GREP, WRITE, SEND)}

NAMES = ("a", "b", "A", "ab", ".env", "c d")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
BELOW = st.lists(st.sampled_from((*NAMES, "*", "a*", "**")), min_size=1, max_size=3).map("/".join)
OUTSIDE = st.builds(str.__add__, st.sampled_from((f"{ROOT}/", "~/app/", "/**/", "../app/", "/*/", "../")), BELOW)
TOOL_NAMES = st.sampled_from((*TOOLS, "*", "R*", "other"))


def patterns(arguments: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Patterns of rules: for all calls of a tool, for paths, or for beginnings of paths."""
    written = arguments.filter(lambda text: text not in ("*", "**")).map(lambda text: f"({text})")
    return st.builds(str.__add__, TOOL_NAMES, st.just("") | written | written.map(lambda text: f"{text[:-1]}:*)"))


def policies(arguments: st.SearchStrategy[str]) -> st.SearchStrategy[Policy]:
    action = st.sampled_from(("allow", "ask", "deny"))
    rules = st.lists(st.builds(Rule, action, patterns(arguments)), max_size=4).map(tuple)
    only = st.just(()) | st.lists(patterns(arguments), max_size=2).map(tuple)
    layers = st.lists(st.builds(Layer, rules, action, only), max_size=2).map(tuple)
    return st.builds(Policy, rules, action, only, layers)


POLICIES, ANY_POLICIES = policies(BELOW), policies(BELOW | OUTSIDE)
REMEMBERED = st.lists(st.builds(Rule, st.sampled_from(("allow", "deny")), patterns(BELOW)), max_size=3).map(tuple)
MODES = st.sampled_from(get_args(Mode))
TOOL = st.sampled_from(list(TOOLS.values()))
Rules = tuple[Rule, ...]


def calling(tool: ToolSpec, path: str) -> ToolCall:
    return ToolCall("1", tool.name, {"path": path})


def refuses(rules: AccessRules, path: str) -> bool:
    return bool(PathAccess(rules, (ROOT,), HOME).refusal(path))


@given(POLICIES, TOOL, PATHS, REMEMBERED, MODES)
def test_an_allowed_call_may_reach_the_file_that_it_names(
    policy: Policy, tool: ToolSpec, path: str, remembered: Rules, mode: Mode
) -> None:
    """Unless the rule is written for absolute paths, as the judgement does not know where the directory is, or a search
    names a file that ``Read`` may not show.
    """
    call = calling(tool, path)
    hidden = tool is GREP and policy.judge(calling(READ, path), READ, remembered, mode).action == "deny"

    if policy.judge(call, tool, remembered, mode).action == "allow" and not hidden:
        assert not refuses(policy.access_rules(call, TOOLS, remembered, mode), path)


@given(ANY_POLICIES, TOOL, PATHS, PATHS, REMEMBERED, MODES)
def test_a_file_that_a_rule_denies_is_out_of_reach_of_every_call(
    policy: Policy, tool: ToolSpec, path: str, other: str, remembered: Rules, mode: Mode
) -> None:
    """By a rule of the policy, of a layer, or of what the user said."""
    verdict = policy.judge(calling(tool, path), tool, remembered, mode)

    if verdict.action == "deny" and verdict.rule is not None and verdict.rule.pattern.argument:
        assert refuses(policy.access_rules(calling(tool, other), TOOLS, remembered, mode), path)


FIRST = Rule("ask", "R*")
KEPT = Policy((FIRST,), layers=(Layer((Rule("allow", "Read"),), "deny"),))


@given(POLICIES, TOOL, PATHS, PATHS, REMEMBERED, MODES)
@example(KEPT, READ, "c d/A", "a", (Rule("allow", "R*(a*)"),), "acceptEdits")
@example(Policy((FIRST,)), READ, "a/b", "a/a", (Rule("allow", "Read(a/a)"),), "default")
@example(Policy((Rule("ask", "Read(a/**)"),)), READ, "a/b", "a/a", (Rule("allow", "Read(a/a)"),), "default")
@example(Policy(), SEND, "a/b", "a/a", (Rule("allow", "send(a/a)"),), "acceptEdits")
@example(Policy(), SEND, "a/b", "b", (), "acceptEdits")
def test_an_allowed_call_reaches_no_file_that_it_may_not_name(
    policy: Policy, tool: ToolSpec, path: str, other: str, remembered: Rules, mode: Mode
) -> None:
    """A file that is asked about when it is named is out of reach of a call that ran without a question. An answer from
    now on counts for the files that it covers.
    """
    if policy.judge(calling(tool, other), tool, remembered, mode).action != "allow":
        return
    if policy.judge(calling(tool, path), tool, remembered, mode).action != "allow":
        assert refuses(policy.access_rules(calling(tool, other), TOOLS, remembered, mode), path)


@given(POLICIES, TOOL, PATHS, PATHS)
def test_a_file_that_a_rule_asks_about_is_out_of_reach_without_the_question(
    policy: Policy, tool: ToolSpec, path: str, other: str
) -> None:
    """Also for a call that the user was asked about for another reason."""
    rule = policy.judge(calling(tool, path), tool).rule
    if rule is None or rule.action != "ask" or not rule.pattern.argument:
        return
    if Policy((rule,)).judge(calling(tool, other), ToolSpec(tool.name, parameters=PATH)).action == "allow":
        access = policy.access_rules(calling(tool, other), TOOLS)
        assert refuses(access, path)
        assert not any(rule.action == "allow" for rule in access.paths)


@given(st.sampled_from((f"{ROOT}/", "~/app/", "../app/")), BELOW, PATHS)
def test_a_rule_on_an_absolute_path_holds_for_the_file_by_its_relative_path(start: str, below: str, path: str) -> None:
    """The same files as the rule on the path below the directory; a pattern that allows too."""
    for rules, absolute in (
        (AccessRules((Rule("deny", f"Read(./{below})"),)), AccessRules((Rule("deny", f"Read({start}{below})"),))),
        (AccessRules((), ((f"Read(./{below})",),)), AccessRules((), ((f"Read({start}{below})",),))),
    ):
        assert refuses(absolute, path) == refuses(rules, path)


@pytest.mark.parametrize(
    ("pattern", "path", "refused"),
    [
        ("/srv/**", "a", True),
        ("/srv/**", ".", True),
        ("/srv/app", ".", True),
        ("/srv/app", "a", False),
        ("/**/.env", ".env", True),
        ("/srv/other/**", "a", False),
        ("/srv/*/a", "a", True),
        ("/SRV/App/a", "a", True),
        ("~/app/a", "a", True),
        ("~/a", "a", False),
        ("~other/a", "a", False),
        ("~other/a", "~other/a", True),
        ("c:/a", "a", False),
        ("../app/a", "a", True),
        ("../../../../srv/app/a", "a", True),
        ("../a", "a", False),
        ("a.", "A", True),
        ("a", "x\\a", False),
        ("x/a", "x\\a", True),
    ],
)
def test_paths_in_rules_are_compared_with_real_paths(pattern: str, path: str, refused: bool) -> None:
    assert refuses(AccessRules((Rule("deny", f"Read({pattern})"),)), path) is refused


def test_each_name_of_the_directory_counts_and_an_unknown_home_matches_nothing() -> None:
    rules = AccessRules((Rule("deny", "Read(/link/a)"), Rule("deny", "Read(~/app/b)")))
    access = PathAccess(rules, ("/srv/app", "/link"))

    assert [bool(access.refusal(path)) for path in ("a", "b")] == [True, False]


def test_a_refusal_gives_the_reason() -> None:
    rules = AccessRules(
        (Rule("deny", "*(a)", "not yours"), Rule("deny", "*(a/**)"), Rule("ask", "*(b/**)")), (("*(a/**)", "*(b/**)"),)
    )
    access = PathAccess(rules, (ROOT,))

    assert access.refusal("a") == "not yours"
    assert access.refusal("a/b") == "the rule *(a/**) denies a/b"
    assert "asks about b/c, which this call does not name" in access.refusal("b/c")
    assert access.refusal("c") == "only *(a/**), *(b/**) may be reached, and this is c"
    assert access.prohibition("c") == ""
    assert "is not a path" in access.refusal("x" * 5_000)
    assert access.skips("x" * 5_000)
    free = PathAccess(NO_RULES, (ROOT,))
    assert (free.refusal("x" * 5_000), free.skips("x" * 5_000), free.skips("a")) == ("", False, False)


@given(ANY_POLICIES, TOOL, PATHS, PATHS, REMEMBERED, MODES, patterns(BELOW | OUTSIDE))
def test_a_denying_rule_more_never_makes_fewer_refusals(
    policy: Policy, tool: ToolSpec, path: str, named: str, remembered: Rules, mode: Mode, pattern: str
) -> None:
    denying, call = Rule("deny", pattern), calling(tool, named)
    if not refuses(policy.access_rules(call, TOOLS, remembered, mode), path):
        return

    more = Policy((denying, *policy.rules), policy.default, policy.allow_only, policy.layers)
    assert refuses(more.access_rules(call, TOOLS, remembered, mode), path)
    assert refuses(policy.under(Layer((denying,))).access_rules(call, TOOLS, remembered, mode), path)
    assert refuses(policy.access_rules(call, TOOLS, (*remembered, denying), mode), path)


# ------------------------------------------------------------------------------------------------------------ searches


RULES = st.builds(
    AccessRules,
    st.lists(st.builds(Rule, st.sampled_from(("ask", "deny")), BELOW.map("*({})".format)), max_size=3).map(tuple),
    st.just(()) | BELOW.map("*({})".format).map(lambda text: ((text,),)),
)


@given(RULES, PATHS, PATHS)
def test_a_folder_is_skipped_only_if_nothing_below_it_may_be_reached(
    rules: AccessRules, folder: str, below: str
) -> None:
    if PathAccess(rules, (ROOT,)).skips(folder):
        assert refuses(rules, f"{folder}/{below}")


@pytest.mark.parametrize(
    ("rules", "folder", "skipped"),
    [
        (AccessRules((Rule("deny", "*(a/**)"),)), "a", True),
        (AccessRules((Rule("deny", "*(a/**)"),)), "a/b/c", True),
        (AccessRules((Rule("deny", "*(**/a/**)"),)), "x/A", True),
        (AccessRules((Rule("deny", "*(a/**)"),)), "b", False),
        (AccessRules((Rule("deny", "*(a/*)"),)), "a", False),
        (AccessRules((Rule("deny", "*(a)"),)), "a", False),
        (AccessRules((Rule("deny", f"*({ROOT}/**)"),)), ".", True),
        (AccessRules((), (("*(a/b/**)",),)), "a", False),
        (AccessRules((), (("*(a/b/**)",),)), ".", False),
        (AccessRules((), (("*(a/b/**)",),)), "b", True),
        (AccessRules((), (("*(a/b)",),)), "a/b", True),
        (AccessRules((), (("*(a)", "*(b/c)"), ("*(b/*)",))), "b", False),
    ],
)
def test_folders_without_a_file_that_may_be_reached_are_skipped(rules: AccessRules, folder: str, skipped: bool) -> None:
    assert PathAccess(rules, (ROOT,)).skips(folder) is skipped


SEARCHED = st.lists(st.sampled_from((*NAMES, "*", "**", "?", "[ab]", "a*", "*b", ".*")), min_size=1, max_size=3)


def is_found(search: list[str], names: list[str]) -> bool:
    if not search:
        return not names
    if search[0] == "**":
        return is_found(search[1:], names) or (bool(names) and is_found(search, names[1:]))
    return bool(names) and fnmatchcase(names[0], search[0]) and is_found(search[1:], names[1:])


@given(RULES, SEARCHED, PATHS)
@example(AccessRules((Rule("deny", "*(c d)"),)), ["c[ ]d"], "c d")
def test_a_search_that_leaves_a_file_out_names_the_rule(rules: AccessRules, search: list[str], path: str) -> None:
    """Whether there is such a file or not: the rules and the pattern of the search decide."""
    if not is_found(search, path.split("/")) or not refuses(rules, path):
        return
    found, groups = PathAccess(rules, (ROOT,)).concerning(search)

    assert found or groups
    for rule in rules.paths:
        if refuses(AccessRules((rule,)), path):
            assert rule in found


@pytest.mark.parametrize(
    ("pattern", "search", "concerned"),
    [
        ("secrets/**", "**/*", True),
        ("secrets/**", "src/**/*", False),
        ("secrets/**", "s?crets/*", True),
        ("secrets/**", "[s]ecrets/key", True),
        ("secrets/**", "SECRETS/key", True),
        ("**/*.pem", "src/**", True),
        ("**/*.pem", "src/*.py", False),
        ("**/*.pem", "src/*.p*", True),
        ("a*c", "b*", False),
        ("a*c", "*d", False),
        ("a*c", "a?", True),
        ("a", "a/b", False),
        ("a/b", "a", False),
        ("a/b/x", "**/x", True),
        ("a/x", "**/b/x", False),
        # A name without a star, and a search for names that begin or end in some way
        ("ab", "abc*", False),
        ("abc", "a*d", False),
        ("axb[c", "a*b[c", True),
        # Names that begin or end with what one of both asks for, and those that no name can meet both
        ("a*c", "abc*", True),
        ("abc*d", "a*", True),
        ("a*x", "ab*x", True),
        ("a*", "ab*", True),
        ("a*b*xc", "*c", True),
        ("a*b*c", "*xc", True),
        ("*c", "a*xc", True),
        ("a*b[c", "a*b[c", True),
        ("a*c", "a*b[xc", True),
        ("a*b", "*a", False),
    ],
)
def test_a_search_elsewhere_names_no_rule(pattern: str, search: str, concerned: bool) -> None:
    access = PathAccess(AccessRules((Rule("deny", f"*({pattern})"),)), (ROOT,))

    assert bool(access.concerning(search.split("/"))[0]) is concerned


@given(RULES, PATHS)
def test_patterns_of_closed_folders_match_files_out_of_reach_alone(rules: AccessRules, path: str) -> None:
    for tree in PathAccess(rules, (ROOT,)).closed_trees():
        if is_found(tree.split("/"), path.lower().split("/")):
            assert refuses(rules, path)


# ------------------------------------------------------------------------------------------------------- in recordings


@given(ANY_POLICIES, TOOL, PATHS, REMEMBERED, MODES)
def test_a_recorded_call_keeps_its_rules(
    policy: Policy, tool: ToolSpec, path: str, remembered: Rules, mode: Mode
) -> None:
    call = calling(tool, path)
    effect = CallTool(EffectId("1.1.1"), call, policy.access_rules(call, TOOLS, remembered, mode))
    written: Any = json.loads(json.dumps(to_data(effect)))

    assert from_data(written, CallTool) == effect


def test_a_call_without_rules_is_written_as_before() -> None:
    call = calling(READ, "a")

    assert Policy().access_rules(call, TOOLS) is NO_RULES
    assert "access" not in to_data(CallTool(EffectId("1.1.1"), call))

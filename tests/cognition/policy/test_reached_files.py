"""The rules that a call carries for the files that it reaches without naming them: which of policy's rules they are."""

from __future__ import annotations

import pytest

from cognition import NO_RULES, AccessRules, Layer, PathAccess, Policy, Rule, ToolCall, ToolSpec
from cognition.policy.access import DeniedPaths
from cognition.values.features import Mode

ROOT, HOME = "/srv/app", "/srv"
PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = ToolSpec("Read", parameters=PATH, read_only=True)
GREP = ToolSpec("Grep", parameters=PATH, read_only=True)
GLOB = ToolSpec("Glob", read_only=True)
LOOK = ToolSpec("look", read_only=True)
WRITE = ToolSpec("Write", paths=("path",), kind="mutation", approval=True)
EDIT = ToolSpec("Edit", paths=("path",), kind="mutation", approval=("a/**",))
SEND = ToolSpec("send", paths=("path",), approval=("a/**", "*.env"))
FETCH = ToolSpec("fetch", paths=("path",), kind="network", approval=("a/**",))
TOOLS = {tool.name: tool for tool in (READ, GREP, GLOB, LOOK, WRITE, EDIT, SEND, FETCH)}


def allow(pattern: str) -> Rule:
    return Rule("allow", pattern)


def ask(pattern: str) -> Rule:
    return Rule("ask", pattern)


def deny(pattern: str) -> Rule:
    return Rule("deny", pattern)


def paths(*rules: Rule) -> AccessRules:
    return AccessRules(rules)


def only(*groups: tuple[str, ...]) -> AccessRules:
    return AccessRules((), groups)


def carried(
    policy: Policy, tool: ToolSpec, path: str, remembered: tuple[Rule, ...] = (), mode: Mode = "default"
) -> AccessRules:
    return policy.access_rules(ToolCall("1", tool.name, {"path": path}), TOOLS, remembered, mode)


@pytest.mark.parametrize(
    ("tool", "pattern", "carries"),
    [
        (READ, "Read(a)", True),
        (GREP, "Grep(a)", True),
        (GREP, "Read(a)", True),
        (GLOB, "Read(a)", True),
        (READ, "Grep(a)", False),
        (LOOK, "Read(a)", False),
        (LOOK, "look(a)", True),
        (WRITE, "Read(a)", False),
        (WRITE, "Write(a)", True),
        (WRITE, "*(a)", True),
        (READ, "Read", False),
    ],
)
def test_a_denial_of_read_holds_for_every_tool_that_opens_files_to_read_them(
    tool: ToolSpec, pattern: str, carries: bool
) -> None:
    """Any other denial holds for the tools that its pattern names."""
    assert carried(Policy((deny(pattern),)), tool, "x") == (paths(deny(pattern)) if carries else NO_RULES)


@pytest.mark.parametrize(
    ("policy", "tool", "path", "remembered", "mode", "expected"),
    [
        # A rule that asks
        (Policy((ask("Read(b/**)"),)), READ, "a", (), "default", paths(ask("Read(b/**)"))),
        (Policy((ask("Read(b/**)"),)), READ, "b/x", (), "default", NO_RULES),
        (Policy((ask("Grep(b/**)"),)), READ, "a", (), "default", NO_RULES),
        (Policy((ask("Read(b/**)"),)), READ, "a", (), "bypassPermissions", paths(ask("Read(b/**)"))),
        (Policy((ask("Read(b/**)"),)), READ, "a", (), "auto", NO_RULES),
        (Policy((deny("*(c)"), ask("*(b)"))), READ, "a", (), "default", paths(deny("*(c)"), ask("*(b)"))),
        (Policy(layers=(Layer((ask("*(b)"),)),)), READ, "a", (), "default", paths(ask("*(b)"))),
        # The user's answers
        (Policy((ask("Read(b/**)"),)), READ, "a", (allow("Read"),), "default", NO_RULES),
        (Policy((ask("Read(b)"),)), READ, "a", (deny("Read"),), "default", paths(ask("Read(b)"))),
        (Policy((ask("Read(b)"),)), READ, "a", (allow("Read(a)"),), "default", paths(ask("Read(b)"))),
        (Policy((ask("Read(a)"),)), READ, "a", (allow("Read(a)"),), "default", only(("Read(a)",))),
        (Policy((ask("Read(a)"),)), READ, "a", (allow("Read(b)"),), "default", NO_RULES),
        (Policy((ask("Read(a)"),)), READ, "a", (allow("Read(a)"),), "auto", NO_RULES),
        (Policy(), READ, "a", (ask("Read(b)"),), "default", paths(ask("Read(b)"))),
        (Policy(), READ, "a", (ask("Grep(b)"),), "default", NO_RULES),
        (Policy(), READ, "a", (deny("Read(b)"),), "default", paths(deny("Read(b)"))),
        # The tool's own questions
        (Policy(), SEND, "x", (), "default", paths(ask("send(a/**)"), ask("send(*.env)"))),
        (Policy(), SEND, "a/x", (), "default", paths(ask("send(*.env)"))),
        (
            Policy((ask("*(b)"),)),
            SEND,
            "x",
            (),
            "default",
            paths(ask("*(b)"), ask("send(a/**)"), ask("send(*.env)")),
        ),
        (Policy(), SEND, "x", (), "careful", paths(ask("send(a/**)"), ask("send(*.env)"))),
        (Policy(), SEND, "x", (), "acceptEdits", paths(ask("send(a/**)"), ask("send(*.env)"))),
        (Policy(), SEND, "x", (), "bypassPermissions", NO_RULES),
        (Policy(), FETCH, "x", (), "acceptEdits", paths(ask("fetch(a/**)"))),
        (Policy(), EDIT, "x", (), "default", paths(ask("Edit(a/**)"))),
        (Policy(), EDIT, "x", (), "acceptEdits", NO_RULES),
    ],
)
def test_a_call_carries_the_questions_about_files_that_it_does_not_name(
    policy: Policy, tool: ToolSpec, path: str, remembered: tuple[Rule, ...], mode: Mode, expected: AccessRules
) -> None:
    """If the mode leaves them. An answer from now on that replaces a question limits the call to its files."""
    assert carried(policy, tool, path, remembered, mode) == expected


ALLOWED = allow("*(a/**)")
GROUP = only(("*(a/**)",))


@pytest.mark.parametrize(
    ("policy", "tool", "remembered", "mode", "expected"),
    [
        # `allow_only`
        (Policy(allow_only=("*(a/**)", "Read(b)", "Grep(c)")), READ, (), "default", only(("*(a/**)", "Read(b)"))),
        (Policy(allow_only=("*(a/**)", "Read")), READ, (), "default", NO_RULES),
        (Policy(allow_only=("*(a/**)",)), READ, (allow("Read"),), "auto", GROUP),
        # The default denies
        (Policy((), "deny"), READ, (), "default", only(())),
        (Policy((ALLOWED,), "deny"), READ, (), "default", GROUP),
        (Policy((ALLOWED,), "deny"), READ, (allow("Read"),), "auto", GROUP),
        (
            Policy((ALLOWED, ask("Read(b)"), deny("Read(c)")), "deny"),
            READ,
            (),
            "default",
            AccessRules((deny("Read(c)"), ask("Read(b)")), (("*(a/**)", "Read(b)"),)),
        ),
        (Policy((ALLOWED, allow("Grep(b)")), "deny"), READ, (), "default", GROUP),
        # The default asks
        (Policy((ALLOWED,), "ask"), READ, (), "default", GROUP),
        (Policy((ALLOWED,), "ask"), READ, (), "careful", GROUP),
        (Policy((ALLOWED,), "ask"), READ, (), "bypassPermissions", NO_RULES),
        (Policy((ALLOWED,), "ask"), READ, (), "acceptEdits", NO_RULES),
        (Policy((ALLOWED,), "ask"), SEND, (), "acceptEdits", AccessRules((ask("send(*.env)"),), (("*(a/**)",),))),
        (Policy((ALLOWED,), "ask"), READ, (allow("Read"),), "default", NO_RULES),
        (Policy((ALLOWED,), "ask"), READ, (allow("Read(b)"),), "default", only(("*(a/**)", "Read(b)"))),
        (Policy((ALLOWED, deny("*(b)")), "ask"), READ, (), "default", AccessRules((deny("*(b)"),), (("*(a/**)",),))),
        (Policy((allow("*(b)"),), "ask"), READ, (), "default", NO_RULES),  # the user was asked about this call
        (Policy((), "ask", layers=(Layer((ALLOWED,), "ask"),)), READ, (), "default", GROUP),
        # The default allows
        (Policy((ALLOWED,)), READ, (), "default", NO_RULES),
        (Policy((ALLOWED,)), READ, (), "careful", NO_RULES),
        # The tool asks about all of its calls: the policy's own rules answer that, not those of a layer
        (Policy((ALLOWED,)), WRITE, (), "default", GROUP),
        (Policy((ALLOWED,)), WRITE, (), "acceptEdits", NO_RULES),
        (Policy(layers=(Layer((ALLOWED,)),)), WRITE, (), "default", NO_RULES),
        (Policy((ALLOWED,), layers=(Layer((allow("Write(a/x)"),)),)), WRITE, (), "default", GROUP),
    ],
)
def test_a_call_that_runs_by_an_allowance_reaches_the_allowed_files_alone(
    policy: Policy, tool: ToolSpec, remembered: tuple[Rule, ...], mode: Mode, expected: AccessRules
) -> None:
    """If a call that names another file would be denied or asked about."""
    assert carried(policy, tool, "a/x", remembered, mode) == expected


def test_a_session_without_a_mode_leaves_all_questions() -> None:
    call = ToolCall("1", "Read", {"path": "a/x"})

    assert Policy((ALLOWED,), "ask").access_rules(call, TOOLS) == GROUP


@pytest.mark.parametrize("rules", [paths(deny("Read(a)")), only(("Read(a)",))])
def test_a_path_that_can_not_be_read_is_refused_with_its_beginning(rules: AccessRules) -> None:
    access, endless = PathAccess(rules, (ROOT,)), "x" * 5_000

    for refusal in (access.refusal(endless), access.prohibition(endless)):
        assert refusal == f"'{'x' * 80}' is not a path that rules can be read for"
    assert access.skips(endless)


def test_a_prohibition_names_the_rule_and_the_path() -> None:
    access = PathAccess(paths(deny("Read(a)"), ask("Read(b)")), (ROOT,))

    assert access.prohibition("a") == "the rule Read(a) denies a"
    assert access.prohibition("b") == (
        "the rule Read(b) asks about b, which this call does not name; call again with this path"
    )


def test_a_name_that_looks_like_a_home_is_a_file_of_the_directory() -> None:
    """A real path is relative to the directory, so ``~`` in it is a name like any other."""
    access = PathAccess(paths(deny("Read(a)"), deny("Read(b/**)")), (ROOT,), HOME)

    assert (access.refusal("~/a"), access.prohibition("~/a"), access.skips("~/b")) == ("", "", False)


@pytest.mark.parametrize(
    ("pattern", "trees"),
    [
        ("secrets/**", ["secrets/**"]),
        ("secrets:*", ["secrets/**"]),
        ("Secrets/**/Keys/**", ["secrets/**/keys/**"]),
        ("secrets/*", []),
        ("secrets", []),
        (f"{ROOT}/secrets/**", ["secrets/**"]),
        ("../app/secrets/**", ["secrets/**"]),
        ("~/app/secrets/**", ["~/app/secrets/**", "secrets/**"]),
        ("/elsewhere/**", []),
    ],
)
def test_closed_folders_are_named_below_the_directory(pattern: str, trees: list[str]) -> None:
    assert PathAccess(paths(deny(f"Read({pattern})")), (ROOT,), HOME).closed_trees() == trees


def test_a_denied_path_may_be_written_from_the_home() -> None:
    denied = DeniedPaths((deny("Read(~/app/b)"),), (ROOT,), HOME)

    assert denied.rule(denied.after(denied.beginning, "b")) == deny("Read(~/app/b)")
    unknown = DeniedPaths((deny("Read(~/app/b)"),), (ROOT,))
    assert unknown.rule(unknown.after(unknown.beginning, "b")) is None

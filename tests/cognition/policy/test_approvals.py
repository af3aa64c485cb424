"""A tool's own word on which of its calls are asked about: all, none, or those that its patterns name."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from cognition import (
    SHELL_PROTECTIONS,
    AgentConfig,
    ApprovalRefused,
    AskApproval,
    CallTool,
    CodecError,
    ConfigError,
    LLMEngine,
    Policy,
    ProposedCall,
    Rule,
    ToolCall,
    ToolSpec,
    from_data,
    to_data,
)
from cognition.values.features import Mode
from tests.cognition.session import Session, calling

BASH = ToolSpec("Bash", approval=("rm:*", "git push:*"), command="command")
WRITE = ToolSpec("Write", approval=("src/**",), paths=("path",))
SAY = ToolSpec("say", approval=("secret",))


def action(tool: ToolSpec, policy: Policy = Policy(), remembered: tuple[Rule, ...] = (), **arguments: Any) -> str:  # noqa: B008 - a value
    return policy.judge(ToolCall("call-1-1-1", tool.name, arguments), tool, remembered).action


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls", "allow"),
        ("git pull", "allow"),
        ("git push origin", "ask"),
        ("git  push", "ask"),
        ("/bin/rm -rf x", "ask"),
        ("true && rm x", "ask"),
        ("echo $(rm x)", "ask"),
        ("$X x", "ask"),
        ("rm 'x", "ask"),
    ],
)
def test_a_tool_of_command_lines_asks_before_the_commands_that_it_names_however_they_are_spelt(
    command: str, expected: str
) -> None:
    assert action(BASH, command=command) == expected


@pytest.mark.parametrize(
    ("path", "expected"), [("src/a.py", "ask"), ("./src/../src/b.py", "ask"), ("README.md", "allow")]
)
def test_a_tool_of_paths_asks_before_those_that_it_names(path: str, expected: str) -> None:
    assert action(WRITE, path=path) == expected


def test_any_other_tool_asks_by_its_texts() -> None:
    assert action(SAY, text="secret") == "ask"
    assert action(SAY, text="hello") == "allow"


def test_a_call_that_can_not_be_read_is_asked_about() -> None:
    call = ToolCall("call-1-1-1", "say", '{"text": 1' + "0" * 5000 + "}")

    assert Policy().judge(call, SAY).action == "ask"


def test_no_patterns_ask_about_nothing_and_a_star_about_all() -> None:
    assert action(ToolSpec("x", approval=()), n=1) == "allow"
    assert action(ToolSpec("x", approval=("*",)), n=1) == "ask"


def test_it_is_the_tools_word_and_so_rules_go_before_it() -> None:
    """As with ``approval=True``: a rule allows or denies, and what the user said from now on lifts the question."""
    assert action(SAY, Policy((Rule("allow", "say"),)), text="secret") == "allow"
    assert action(SAY, Policy((Rule("deny", "say(secret)"),)), text="secret") == "deny"
    assert action(SAY, Policy(default="deny"), text="secret") == "deny"
    assert action(SAY, Policy(default="ask"), text="hello") == "ask"
    assert action(SAY, Policy(), (Rule("allow", "say"),), text="secret") == "allow"


@given(st.dictionaries(st.sampled_from(("path", "text")), st.text() | st.integers() | st.lists(st.text()), max_size=2))
def test_it_asks_where_a_rule_of_the_policy_would(arguments: dict[str, Any]) -> None:
    plain, call = ToolSpec("Write", paths=("path",)), ToolCall("call-1-1-1", "Write", json.dumps(arguments))
    ruled = Policy((Rule("ask", "Write(src/**)"),)).judge(call, plain)

    assert Policy().judge(call, WRITE).action == ruled.action


def test_the_engine_asks_before_such_calls_alone() -> None:
    session = Session(LLMEngine(AgentConfig(tools=(SAY,))))

    (runs,) = calling(session, ProposedCall("say", {"text": "hello"}))
    asks = Session(LLMEngine(AgentConfig(tools=(SAY,))))
    (asked,) = calling(asks, ProposedCall("say", {"text": "secret"}))

    assert isinstance(runs, CallTool)
    assert isinstance(asked, AskApproval)
    assert asked.reason == "the tool asks for approval"


@pytest.mark.parametrize(
    ("tool", "wrong"),
    [
        (ToolSpec("Bash", approval=("rm; ls",), command="command"), "it is for one command"),
        (ToolSpec("Bash", approval=("X=1 rm",), command="command"), "a variable is no part of the command"),
        (ToolSpec("say", approval=("",)), "nothing stands between"),
        (ToolSpec("say", approval=("a:*b",)), "stands at the end only"),
    ],
)
def test_a_pattern_that_can_not_be_read_is_refused_with_the_configuration(tool: ToolSpec, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        AgentConfig(tools=(tool,))


def test_one_text_is_no_list_of_patterns() -> None:
    with pytest.raises(ConfigError, match="approval must be True or False or a list"):
        ToolSpec("say", approval="secret")  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("tool", [BASH, WRITE, SAY, ToolSpec("x", approval=True), ToolSpec("x", approval=())])
def test_it_comes_back_from_a_recording(tool: ToolSpec) -> None:
    assert from_data(json.loads(json.dumps(to_data(tool))), ToolSpec) == tool


@pytest.mark.parametrize("approval", [1, "rm", None, [1], [["rm"]], {"rm": 1}])
def test_data_that_is_neither_is_refused(approval: Any) -> None:
    with pytest.raises(CodecError, match="approval"):
        from_data({"name": "x", "approval": approval}, ToolSpec)


NETWORKED = ToolSpec("Bash", command="command", asks_with=("network",))


@given(
    rule=st.sampled_from((None, "Bash", "Bash(ls:*)", "*")),
    remembered=st.sampled_from(((), (Rule("allow", "Bash"),), (Rule("allow", "Bash(ls:*)"),))),
    mode=st.sampled_from(get_args(Mode)),
    network=st.sampled_from((True, "true", 1, {})),
)
def test_what_needs_approval_each_time_is_asked_about_whatever_was_allowed(
    rule: str | None, remembered: tuple[Rule, ...], mode: Mode, network: Any
) -> None:
    policy = Policy(() if rule is None else (Rule("allow", rule),))

    def judge(**arguments: Any) -> str:
        call = ToolCall("call-1-1-1", "Bash", {"command": "ls", **arguments})
        return policy.judge(call, NETWORKED, remembered, mode).action

    call = ToolCall("call-1-1-1", "Bash", {"command": "ls", "network": network})
    assert policy.access_rules(call, {"Bash": NETWORKED}, remembered, mode).granted == ("network",)
    assert judge(network=network) == ("deny" if mode == "plan" else "ask")
    assert judge(network=False) == judge(network=None) == judge()


def test_what_needs_approval_each_time_is_named_and_a_denial_stands() -> None:
    call = ToolCall("call-1-1-1", "Bash", {"command": "curl x", "network": True})

    assert "network" in Policy().judge(call, NETWORKED).reason
    assert Policy(SHELL_PROTECTIONS).judge(call, NETWORKED).action == "deny"


def test_a_call_whose_arguments_are_none_asks_for_nothing() -> None:
    call = ToolCall("call-1-1-1", "fetch", '{"network": 1' + "0" * 5000 + "}")
    tool = ToolSpec("fetch", asks_with=("network",))

    assert Policy().judge(call, tool).action == "allow"
    assert Policy().access_rules(call, {"fetch": tool}).granted == ()


@pytest.mark.parametrize("always", [False, True])
def test_a_call_that_would_fail_is_a_failure_and_no_refusal(always: bool) -> None:
    """Nobody was asked, so nothing is remembered, and the turn does not end for the refusals."""
    session = Session(LLMEngine(AgentConfig(tools=(BASH,))))
    (*_, asked) = calling(session, ProposedCall("Bash", {"command": "git push"}))
    assert isinstance(asked, AskApproval)

    session(ApprovalRefused(asked.effect_id, "no such branch", always, failed=True))

    assert session.results == [("Error: no such branch", "error")]
    assert (session.state.remembered, session.state.spent.refusals) == ((), 0)

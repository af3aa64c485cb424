"""What rules, layers, classes and modes come to together."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from attrs import evolve

from cognition import (
    SHELL_PROTECTIONS,
    AgentConfig,
    AgentState,
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
    CallTool,
    ConfigError,
    EffectId,
    Layer,
    LLMEngine,
    ModelReplied,
    Policy,
    ProposedCall,
    Rule,
    ToolCall,
    ToolReturned,
    ToolSpec,
    UserSpoke,
    Verdict,
    fold,
    from_data,
    shell_protections,
    to_data,
)
from cognition.policy import SEVERITY, Action, proposed_rules
from cognition.policy._rule_table import MOST_NAMES
from cognition.values.features import Mode
from cognition.values.tools import ToolClass
from tests.cognition.naming import case_name

BASH = ToolSpec("Bash", command="command")
CALL = ToolCall("1", "work", {"about": "a b"})
CLASSES: tuple[ToolClass, ...] = get_args(ToolClass)

# For each mode and class: what is done where an allowing rule, no rule, an asking rule matches (docs/guides/policy.md).
FREELY = ("allow", "allow", "ask")
TABLE: dict[Mode, dict[ToolClass, tuple[str, str, str]]] = {
    "default": dict.fromkeys(CLASSES, FREELY),
    "careful": {**dict.fromkeys(CLASSES, ("ask", "ask", "ask")), "read-only": FREELY, "interaction": FREELY},
    "acceptEdits": {
        **dict.fromkeys(CLASSES, FREELY),
        "execution": ("allow", "ask", "ask"),
        "network": ("allow", "ask", "ask"),
    },
    "plan": {**dict.fromkeys(CLASSES, ("deny", "deny", "deny")), "read-only": FREELY, "interaction": FREELY},
    "bypassPermissions": dict.fromkeys(CLASSES, FREELY),
    "auto": dict.fromkeys(CLASSES, ("allow", "allow", "allow")),
}
CELLS = [(mode, kind, cell) for mode, row in TABLE.items() for kind, cell in row.items()]


def work(kind: ToolClass | None = None, **more: Any) -> ToolSpec:
    return ToolSpec("work", kind=kind, read_only=kind == "read-only", **more)


@pytest.mark.parametrize(("mode", "kind", "cell"), CELLS)
@pytest.mark.behaviour("B10")
def test_mode_class_and_rule(mode: Mode, kind: ToolClass, cell: tuple[str, str, str]) -> None:
    """The table of the documentation, and a rule that denies in each of its cells."""
    policies = Policy((Rule("allow", "work"),)), Policy(), Policy((Rule("ask", "work"),))
    denying = Policy((Rule("allow", "work"), Rule("ask", "*"), Rule("deny", "work(a:*)")))

    assert cell == tuple(policy.judge(CALL, work(kind), mode=mode).action for policy in policies)
    assert denying.judge(CALL, work(kind), mode=mode).action == "deny"


def test_the_table_has_every_mode() -> None:
    assert set(TABLE) == set(get_args(Mode))


@pytest.mark.parametrize(
    ("mode", "quiet", "others"),
    [
        ("default", "ask", "ask"),
        ("careful", "ask", "ask"),
        ("acceptEdits", "allow", "ask"),
        ("bypassPermissions", "allow", "allow"),
        ("auto", "allow", "allow"),
    ],
)
@pytest.mark.parametrize(
    ("policy", "approval"),
    [(Policy(), True), (Policy(default="ask"), False), (Policy(layers=(Layer(default="ask"),)), False)],
)
def test_questions_that_no_rule_asks_are_the_modes_to_lift(
    mode: Mode, quiet: Action, others: Action, policy: Policy, approval: bool
) -> None:
    for kind in ("read-only", "mutation"):
        assert quiet == policy.judge(CALL, work(kind, approval=approval), mode=mode).action
    for kind in ("execution", "network", None):
        assert others == policy.judge(CALL, work(kind, approval=approval), mode=mode).action


def test_who_talks_to_the_user_is_not_asked_about_by_default() -> None:
    assert Policy(default="ask").judge(CALL, work("interaction")).action == "allow"
    assert Policy(default="ask").judge(CALL, work("interaction", approval=True)).action == "ask"
    assert Policy(default="deny").judge(CALL, work("interaction")).action == "deny"


def test_a_tool_that_reads_over_the_network_reads() -> None:
    fetch = ToolSpec("work", kind="network", read_only=True)
    for mode in ("careful", "plan"):
        assert Policy().judge(CALL, fetch, mode=mode).action == "allow"  # type: ignore[arg-type]  # modes


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "read-only"},
        {"kind": "mutation", "read_only": True},
        {"kind": "execution", "read_only": True},
        {"command": "c", "read_only": True},
        {"command": "c", "paths": ("p",)},
    ],
)
def test_a_specification_does_not_contradict_itself(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="tool 'work'"):
        ToolSpec("work", **wrong)


def test_the_class_follows_from_read_only_where_nothing_is_said() -> None:
    assert ToolSpec("work").tool_class == "execution"
    assert ToolSpec("work", read_only=True).tool_class == "read-only"
    assert ToolSpec("work", kind="mutation").tool_class == "mutation"


def test_a_verdict_tells_its_rule() -> None:
    first, second = Rule("deny", "work(a:*)", "no"), Rule("deny", "work(a b)", "neither")
    policy = Policy((Rule("ask", "work"), first, second), layers=(Layer((Rule("deny", "work"),)),))

    assert (Verdict("deny", "no"), first) == (verdict := policy.judge(CALL, work()), verdict.rule)
    assert Policy().judge(CALL, work()).rule is None
    later = Policy((Rule("deny", "w*(a b)", "second"), Rule("deny", "work(a b)", "third")))
    assert later.judge(CALL, work()).reason == "second"


@pytest.mark.parametrize(
    ("tool", "arguments", "patterns"),
    [
        (work(), {"about": "a b"}, ("work(a:*)", "work(a*)")),
        (work(), {"about": "a b"}, ("work(a*)", "work(a:*)")),
        (work(), {"about": "a b"}, ("w*(a:*)", "work(a:*)")),
        (work(), {"about": "a b"}, ("work(a:*)", "w*(a:*)")),
        (BASH, {"command": "ls a"}, ("Bash(ls:*)", "Bash(l*:*)")),
        (BASH, {"command": "ls a"}, ("B*(l*:*)", "Bash(ls a)")),
    ],
)
def test_of_equal_allowances_the_first_is_told(
    tool: ToolSpec, arguments: dict[str, Any], patterns: tuple[str, ...]
) -> None:
    """Wherever they are looked up: by their first word, among those with a star, by the beginning of names."""
    rules = tuple(Rule("allow", pattern, pattern) for pattern in patterns)

    assert Policy(rules, "ask").judge(ToolCall("1", tool.name, arguments), tool).reason == patterns[0]


# -------------------------------------------------------------------------------------------------- what a call is for


def judged(policy: Policy, tool: ToolSpec, arguments: str | dict[str, Any], mode: Mode = "default") -> str:
    return policy.judge(ToolCall("1", tool.name, arguments), tool, mode=mode).action


def test_every_subject_has_to_be_allowed_and_one_is_enough_to_deny() -> None:
    some = Policy((Rule("allow", "work(a)"), Rule("allow", "w*(b:*)")), "ask")
    assert judged(some, work(), {"x": "a", "y": {"z": ["b c", 1, None]}}) == "allow"
    assert judged(some, work(), {"x": "a", "y": "c"}) == "ask"
    assert judged(some, work(), {}) == "ask"
    assert judged(some, work(), {"x": 5}) == "ask"
    assert judged(Policy((Rule("deny", "work(a)"),)), work(), {"x": {"y": [[["a"]]]}, "b": "b"}) == "deny"


def test_arguments_that_can_not_be_read_may_be_anything() -> None:
    deep = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"
    deny, allow = Policy((Rule("deny", "work(a)"),)), Policy((Rule("allow", "work(a)"),), "ask")
    for arguments in ("[]", "{", deep, '{"a": NaN}'):
        assert judged(deny, work(), arguments) == "ask"
        assert judged(deny, work(), arguments, "auto") == "ask"
        assert judged(allow, work(), arguments) == "ask"
        assert judged(Policy(), work(), arguments) == "allow"


def test_ten_megabytes_are_judged_too() -> None:
    much = "x" * 10_000_000
    policy = Policy((Rule("deny", "*(y*y*z*y:*)"), Rule("deny", "*(a:*)"), Rule("allow", "work(x*x)")), "ask")
    assert judged(policy, work(), {"a": much}) == "allow"
    assert judged(policy, work(), {"a": "a " + much}) == "deny"
    assert judged(policy, ToolSpec("work", paths=("a",)), {"a": much}) == "ask"
    assert judged(policy, ToolSpec("work", command="a"), {"a": much}) == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "1" * 20_000 + "a1 x",
        "git" + "1-" * 10_000 + "x1",
        "sqlite3 x '" + "\n" * 30_000 + "'",
        "{ " * 6_000 + "<a " * 5_000,
        "ls;" * 5_000 + "{ " + "<a " * 5_000,
        "cd a && " * 3_000 + "ls",
        "unknown " + "-" * 30_000,
        "unknown " + "-a" * 10_000,
        "sed '" + "s/a/b/;" * 3_000 + "' f",
        "cat <<E" + "\n$X" * 6_000 + "\nE",
    ],
    ids=case_name,
)
def test_lines_of_many_thousand_characters_are_judged_too(line: str) -> None:
    """Each of them once took minutes, or might: time has to grow with their length, not with its square."""
    policy = Policy((Rule("deny", "work(curl:*)"), Rule("deny", "work(git push:*)")))
    tool = ToolSpec("work", command="a")
    assert judged(policy, tool, {"a": line}) in ("allow", "ask")
    assert proposed_rules(ToolCall("1", "work", {"a": line}), tool)[-1] == "work"


def test_which_arguments_are_paths_is_said_or_known_by_their_names() -> None:
    def tool(*names: str) -> ToolSpec:
        return ToolSpec("work", "", {"type": "object", "properties": {name: {} for name in names}})

    policy = Policy((Rule("deny", "work(a/b)"),))
    roundabout = "./a//b"
    assert judged(policy, tool("path", "content"), {"path": roundabout, "content": ""}) == "deny"
    assert judged(policy, tool("path", "content"), {"path": "x", "content": "a/b"}) == "allow"
    assert judged(policy, tool("other"), {"other": roundabout}) == "allow"
    assert judged(policy, ToolSpec("work", paths=("other",)), {"other": roundabout}) == "deny"
    assert judged(policy, ToolSpec("work", paths=("other",)), {"other": ["x", {"y": roundabout}]}) == "deny"
    assert judged(policy, ToolSpec("work", "", {"properties": 5}), {"path": "a/b"}) == "deny"


def test_no_path_is_the_working_directory_and_one_that_is_no_text_may_be_any() -> None:
    tool, policy = ToolSpec("work", paths=("path",)), Policy((Rule("deny", "work(.)"),))
    assert judged(policy, tool, {}) == "deny"
    assert judged(policy, tool, {"path": None}) == "deny"
    assert judged(policy, tool, {"path": "a"}) == "allow"
    assert judged(policy, tool, {"path": 5}) == "ask"
    assert judged(policy, tool, {"path": []}) == "ask"


@pytest.mark.parametrize("arguments", [{}, {"command": None}, {"command": ["ls"]}, {"command": "eval $X"}])
def test_a_command_line_that_can_not_be_read_is_asked_about(arguments: dict[str, Any]) -> None:
    for policy in (Policy(), Policy((Rule("allow", "Bash"),)), Policy(SHELL_PROTECTIONS)):
        for mode in ("default", "careful", "acceptEdits"):
            assert judged(policy, BASH, arguments, mode) == "ask"  # type: ignore[arg-type]  # modes
        assert judged(policy, BASH, arguments, "plan") == "deny"
    assert judged(Policy((Rule("deny", "Bash"),)), BASH, arguments) == "deny"
    assert judged(Policy(default="deny"), BASH, arguments) == "deny"
    assert judged(Policy(SHELL_PROTECTIONS, "deny"), BASH, arguments) == "deny"
    assert judged(Policy((Rule("allow", "Bash"),), "deny"), BASH, arguments) == "ask"
    assert judged(Policy((Rule("ask", "Bash"),)), BASH, arguments, "bypassPermissions") == "ask"


def test_fetching_is_denied_where_a_policy_takes_the_protections() -> None:
    assert judged(Policy(), BASH, {"command": "curl x"}) == "allow"
    assert judged(Policy(SHELL_PROTECTIONS), BASH, {"command": "curl x"}, "auto") == "deny"
    assert judged(Policy(shell_protections("sh")), ToolSpec("sh", command="c"), {"c": "wget x"}) == "deny"


# --------------------------------------------------------------------------------------- layers, and what the user said


def test_a_layer_tightens_and_never_lifts() -> None:
    policy = Policy((Rule("ask", "work(a:*)"), Rule("deny", "work(secret)")), "ask")
    for layer in (
        Layer((Rule("allow", "*"),)),
        Layer((Rule("allow", "work(secret)"),), "allow"),
        Layer(allow_only=("*",)),
        Layer(),
    ):
        child = policy.under(layer)
        for text in ("a b", "secret", "other"):
            assert judged(policy, work(), {"x": text}) == judged(child, work(), {"x": text})
    assert judged(Policy().under(Layer((Rule("deny", "work(a:*)"),))), work(), {"x": "a"}) == "deny"
    assert judged(Policy().under(Layer(default="ask")).under(Layer(default="deny")), work(), {}) == "deny"
    assert judged(Policy().under(Layer()).under(Layer((Rule("deny", "work"),))), work(), {}) == "deny"
    reader = Policy().under(Layer((Rule("allow", "work(a:*)"),), "deny"))
    assert judged(reader, work(), {"x": "a"}) == "allow"
    assert judged(reader, work(), {"x": "b"}) == "deny"


def test_a_lower_allowance_does_not_speak_for_the_upper_default() -> None:
    """In ``acceptEdits`` what no rule allows asks; an allowance of the policy's own counts, one below it does not."""
    allowing = (Rule("allow", "work"),)
    assert judged(Policy().under(Layer(allowing)), work(), {}, "acceptEdits") == "ask"
    assert judged(Policy(allowing).under(Layer()), work(), {}, "acceptEdits") == "allow"


def test_allow_only_denies_the_rest() -> None:
    only = Policy(allow_only=("look", "Bash(git status:*)", "Bash(ls)"))
    assert judged(only, ToolSpec("look"), {}) == "allow"
    assert judged(only, work(), {}) == "deny"
    assert judged(only, BASH, {"command": "git status -s && ls"}) == "allow"
    assert judged(only, BASH, {"command": "git status; git push"}) == "deny"
    assert judged(only, BASH, {"command": "eval $X"}) == "deny"
    verdict = only.under(Layer(allow_only=("Bash",))).judge(CALL, ToolSpec("look"))
    assert verdict == Verdict("deny", "only look, Bash(git status:*), Bash(ls) may be called here")


@pytest.mark.parametrize(
    ("remembered", "line", "expected"),
    [
        ((Rule("allow", "Bash(git push:*)"),), "git push", "allow"),
        ((Rule("allow", "Bash(git push:*)"),), "git push; ls", "ask"),
        ((Rule("allow", "Bash"),), "ls", "allow"),
        ((Rule("allow", "Bash"),), "rm x", "deny"),
        ((Rule("allow", "Bash"),), "eval $X", "ask"),
        ((Rule("deny", "Bash(ls:*)"), Rule("allow", "Bash")), "ls", "deny"),
        ((Rule("deny", "Bash(ls:*)"), Rule("allow", "Bash")), "git push", "allow"),
        ((Rule("ask", "Bash(ls:*)"),), "ls", "ask"),
        ((Rule("deny", "Bash(rm:*)", "mine"),), "rm x", "deny"),
        ((Rule("allow", "Bash(rm:*)"),), "rm x", "deny"),
    ],
)
def test_what_the_user_said_of_arguments(remembered: tuple[Rule, ...], line: str, expected: str) -> None:
    policy = Policy((Rule("deny", "Bash(rm:*)"),), "ask")

    assert expected == policy.judge(ToolCall("1", "Bash", {"command": line}), BASH, remembered).action


def test_what_the_user_forbade_of_arguments_makes_doubts() -> None:
    remembered = (Rule("deny", "Bash(rm:*)"),)

    assert Policy().judge(ToolCall("1", "Bash", {"command": "eval $X"}), BASH, remembered, "auto").action == "ask"
    assert Policy().judge(ToolCall("1", "Bash", {"command": "ls"}), BASH, remembered, "auto").action == "allow"


@pytest.mark.parametrize(
    ("policy", "mode"),
    [(Policy(default="deny"), "default"), (Policy((Rule("deny", "Bash"),)), "auto"), (Policy(), "plan")],
)
def test_a_doubt_about_what_the_user_forbade_never_softens_a_refusal(policy: Policy, mode: Mode) -> None:
    remembered = (Rule("deny", "Bash(rm:*)"),)

    assert policy.judge(ToolCall("1", "Bash", {"command": "eval $X"}), BASH, remembered, mode).action == "deny"


# ------------------------------------------------------------------------------------------------------- in the engine


class Wary(LLMEngine):
    """Asks about large amounts."""

    def requires_approval(self, call: ToolCall, state: AgentState | None = None) -> bool:
        return super().requires_approval(call, state) or (call.arguments.get("amount", 0) > 100 and state is not None)


class Trusting(LLMEngine):
    def requires_approval(self, call: ToolCall, state: AgentState | None = None) -> bool:
        return False


def decided(engine: LLMEngine, arguments: dict[str, Any], name: str = "pay") -> Any:
    state = fold(engine, [UserSpoke("Go")])
    return engine.step(state, ModelReplied(EffectId("1.1.0"), calls=(ProposedCall(name, arguments),)))


def test_an_engine_of_ones_own_asks_about_more() -> None:
    engine = Wary(AgentConfig(tools=(ToolSpec("pay"),), features=("tasks",)))
    asked = decided(engine, {"amount": 500})

    assert isinstance(asked.decisions[0], AskApproval)
    given = engine.step(asked.next_state, ApprovalGiven(asked.decisions[0].effect_id))
    assert isinstance(given.decisions[0], CallTool)
    refused = engine.step(asked.next_state, ApprovalRefused(asked.decisions[0].effect_id))
    assert not any(isinstance(decision, CallTool) for decision in refused.decisions)
    assert isinstance(decided(engine, {"amount": 5}).decisions[0], CallTool)
    assert not isinstance(decided(engine, {"amount": 500}, "update_tasks").decisions[0], AskApproval)


@pytest.mark.parametrize(
    ("given", "asks"),
    [
        (ApprovalGiven(EffectId("1.1.1"), always=True), False),
        (ApprovalGiven(EffectId("1.1.1"), always=True, rule="pay(a)"), True),
        (ApprovalGiven(EffectId("1.1.1")), True),
    ],
)
def test_an_answer_from_now_on_ends_the_questions_of_an_engine_of_ones_own(given: ApprovalGiven, asks: bool) -> None:
    """For the calls that it covers, and for no others."""
    engine = Wary(AgentConfig(tools=(ToolSpec("pay"), ToolSpec("send"))))
    asked = decided(engine, {"amount": 500, "to": "a"})
    given = evolve(given, effect_id=asked.decisions[0].effect_id)
    state = engine.step(asked.next_state, given).next_state
    state = engine.step(state, ToolReturned(EffectId("1.1.2"), "paid")).next_state

    for name, expected in (("pay", asks), ("send", True)):
        call = ProposedCall(name, {"amount": 600, "to": "b"})
        again = engine.step(state, ModelReplied(EffectId("1.2.0"), calls=(call,)))
        assert isinstance(again.decisions[0], AskApproval) is expected


def test_an_engine_of_ones_own_takes_no_question_away_and_is_not_asked_about_what_is_denied() -> None:
    asking = Trusting(AgentConfig(tools=(ToolSpec("pay", approval=True),)))
    denying = Wary(AgentConfig(tools=(ToolSpec("pay"),), policy=Policy((Rule("deny", "pay"),))))

    assert isinstance(decided(asking, {}).decisions[0], AskApproval)
    assert not any(isinstance(d, AskApproval | CallTool) for d in decided(denying, {"amount": 500}).decisions)


# ----------------------------------------------------------------------------------------------------------- recordings


def test_what_was_recorded_before_is_read() -> None:
    """Policies, rules and tools as they were written before they had arguments, classes and layers."""
    old = {"rules": [{"action": "deny", "tool": "x*", "reason": "no"}], "default": "ask"}

    assert from_data(old, Policy) == Policy((Rule("deny", "x*", "no"),), "ask")
    assert from_data({"name": "a", "read_only": True}, ToolSpec) == ToolSpec("a", read_only=True)
    assert from_data({"mode": "careful", "remembered": [{"action": "allow", "tool": "a"}]}, AgentState) == AgentState(
        mode="careful", remembered=(Rule("allow", "a"),)
    )
    assert to_data(Policy((Rule("deny", "x*", "no"),), "ask")) == old


def test_a_whole_policy_comes_back_and_judges_the_same() -> None:
    policy = Policy((Rule("deny", "Bash(rm -rf:*)"),), "ask", ("Bash",), (Layer((Rule("ask", "*"),), "deny", ("*",)),))
    again = from_data(json.loads(json.dumps(to_data(policy))), Policy)

    assert again == policy
    assert judged(again, BASH, {"command": "rm -fr x"}) == "deny"
    assert SEVERITY[policy.judge(CALL, work()).action] == 2


def test_a_name_that_is_shorter_than_the_beginning_of_a_rule_is_not_meant() -> None:
    assert judged(Policy((Rule("deny", "mcp.files.*"),)), ToolSpec("mcp"), {}) == "allow"


def test_more_names_than_a_table_keeps_are_judged_alike() -> None:
    policy = Policy((Rule("deny", "a*"), Rule("ask", "b1500(x)")))
    for number in range(MOST_NAMES + 20):
        tool = ToolSpec(f"{'ab'[number % 2]}{number}")
        assert policy.judge(ToolCall("1", tool.name), tool).action == ("allow" if number % 2 else "deny")
    call = ToolCall("1", "b1500", {"text": "x"})
    assert [policy.judge(call, ToolSpec("b1500")).action for _ in range(2)] == ["ask", "ask"]

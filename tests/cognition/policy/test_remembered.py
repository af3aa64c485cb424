"""What the user says from now on, as rules: narrow ones are offered, and none lets run what it does not cover."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import assume, given, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalGiven,
    ApprovalsForgotten,
    AskApproval,
    CallTool,
    ConfigError,
    EffectId,
    Input,
    LLMEngine,
    ModelReplied,
    Policy,
    ProposedCall,
    Rule,
    ToolCall,
    ToolSpec,
    Transition,
    UserSpoke,
    policy as rooms,
)
from cognition.policy import SEVERITY, covers, proposed_rules, remembered_rule
from cognition.policy._proposals import LONGEST
from cognition.policy._shell import read_commands
from cognition.policy.rule_patterns import read_pattern
from tests.cognition.naming import case_name
from tests.cognition.policy.hostile import BASH, UNSURE, WRITE
from tests.cognition.policy.test_properties import CALLS, LINES, PATHS, PATTERNS, POLICIES, RULES, Called, severity

PAY = ToolSpec("pay")
ASKS = Policy(default="ask")


def bash(line: str) -> ToolCall:
    return ToolCall("1", "Bash", {"command": line})


def write(path: str) -> ToolCall:
    return ToolCall("1", "Write", {"path": path})


# ------------------------------------------------------------------------------------------------------------- offering


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git commit -m 'x y'", ("git commit -m 'x y'", "git commit:*")),
        ("git status", ("git status", "git status:*")),
        ("ls", ("ls", "ls:*")),
        ("pytest -q tests", ("pytest -q tests", "pytest:*")),
        ("npm run test -- -x", ("npm run test -- -x", "npm run test:*")),
        ("cargo test", ("cargo test", "cargo test:*")),
        ("make", ("make",)),
        ("make test", ("make test", "make test:*")),
        ("./run.sh a", ("./run.sh a", "./run.sh:*")),
        ("timeout 5 git status", ("git status", "git status:*")),
        ("git -C x push", ("git -C x push",)),
        ("rm -rf build", ("rm -rf build",)),
        ("/bin/rm -rf build", ("/bin/rm -rf build",)),
        ("python x.py", ("python x.py",)),
        ("python3.11 x.py", ("python3.11 x.py",)),
        ("find . -name x", ("find . -name x",)),
        ("echo 'a(b)'", ("echo 'a(b)'", "echo:*")),
        ("echo 'it'\\''s'", ("echo 'it'\\''s'", "echo:*")),
        ("tar tf a.tar", ("tar tf a.tar",)),
        ("sort names", ("sort names",)),
        ("sudo ls", ()),
        ("env A=1 ls", ()),
        ("A=1 ls", ()),
        ("bash -c ls", ()),
        ("git log | head", ()),
        ("cd src && ls", ("ls", "ls:*")),
        ("cd /src && ls", ()),
        ("cat > x", ()),
        ("echo $X", ()),
        ("echo 'a*b'", ()),
        ("eval x", ()),
        ("uv run pytest", ("uv run pytest", "uv run pytest:*")),
        ("", ()),
        ("echo " + "x" * 400, ("echo:*",)),
    ],
    ids=case_name,
)
def test_what_is_offered_for_a_command_line(line: str, expected: tuple[str, ...]) -> None:
    assert proposed_rules(bash(line), BASH) == (*(f"Bash({text})" for text in expected), "Bash")


@pytest.mark.parametrize(("characters", "shown"), [(LONGEST, True), (LONGEST + 1, False)])
def test_a_pattern_is_offered_up_to_its_longest(characters: int, shown: bool) -> None:
    """A user does not read more before agreeing."""
    line = "echo " + "x" * (characters - len("Bash(echo )"))

    whole = f"Bash({line})"
    assert len(whole) == characters
    assert proposed_rules(bash(line), BASH) == (whole, "Bash(echo:*)", "Bash")[not shown :]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/a.py", ("src/a.py", "src/**")),
        ("src/lib/a.py", ("src/lib/a.py", "src/lib/**")),
        ("./src//x/", ("src/x", "src/**")),
        ("a.py", ("a.py",)),
        ("/etc/x", ("/etc/x", "/etc/**")),
        ("/x", ("/x",)),
        ("../x", ("../x",)),
        ("../a/x", ("../a/x", "../a/**")),
        ("~/x", ("~/x",)),
        ("src/../x", ()),
        ("a b/c (d).txt", ("a b/c (d).txt", "a b/**")),
        ("src/*.py", ()),
        ("a\\b/c", ()),
        ("", ()),
    ],
    ids=case_name,
)
def test_what_is_offered_for_a_path(path: str, expected: tuple[str, ...]) -> None:
    assert proposed_rules(write(path), WRITE) == (*(f"Write({text})" for text in expected), "Write")


def test_of_several_paths_the_directory_that_all_are_in_is_offered() -> None:
    move = ToolSpec("move", paths=("source", "target"))

    def offered(source: str, target: str) -> tuple[str, ...]:
        return proposed_rules(ToolCall("1", "move", {"source": source, "target": target}), move)

    assert offered("src/a/x", "src/b/y") == ("move(src/**)", "move")
    assert offered("src/x", "src/b/y") == ("move(src/**)", "move")
    assert offered("src/x", "lib/y") == ("move",)
    assert offered("x", "y") == ("move",)


def test_of_a_tool_that_takes_texts_the_whole_is_offered() -> None:
    """The same text may stand beside another sum."""
    assert proposed_rules(ToolCall("1", "pay", {"to": "Bob", "amount": 5}), PAY) == ("pay",)


@pytest.mark.parametrize("line", [line for line in UNSURE if read_commands(line).unsure], ids=case_name)
def test_for_what_nobody_can_say_the_tool_alone_is_offered(line: str) -> None:
    assert proposed_rules(bash(line), BASH) == ("Bash",)


@given(CALLS | LINES.map(lambda line: (BASH, bash(line))) | PATHS.map(lambda path: (WRITE, write(path))))
def test_all_that_is_offered_can_be_read_and_covers_the_call(called: Called) -> None:
    """Of the tool alone, the narrowest first, and each would be remembered."""
    tool, call = called

    offered = proposed_rules(call, tool)

    assert offered[-1] == tool.name
    assert len(set(offered)) == len(offered)
    for text in offered:
        rule = remembered_rule("allow", text, call, tool)
        assert covers(rule, call, tool)
        assert rule.pattern.name == tool.name
        assert ASKS.judge(call, tool, (rule,)).action == "allow"


def test_the_room_gives_what_it_names_and_nothing_else() -> None:
    assert rooms.proposed_rules is proposed_rules
    with pytest.raises(AttributeError, match="has no attribute 'proposed_rule'"):
        rooms.proposed_rule  # noqa: B018  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------- remembering


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Bash(", "nothing stands|is not closed"),
        ("*", r"the question was about 'Bash'.* write 'Bash'"),
        ("Ba*(git:*)", r"write 'Bash\(git:\*\)'"),
        ("Write(src/**)", r"the question was about 'Bash'.* write 'Bash\(src/\*\*\)'"),
        ("Bash(git push:*)", "does not cover the call that is approved"),
        ("Bash(git commit)", "does not cover the call that is approved"),
        ("Bash(a; b)", "it is for one command"),
        ("Bash(A=1 git:*)", "a variable is no part of the command"),
    ],
    ids=case_name,
)
def test_a_pattern_that_is_none_for_this_call_is_an_error_that_says_what_to_do(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        remembered_rule("allow", text, bash("git commit -m x"), BASH)


def test_a_refusal_need_not_cover_the_call() -> None:
    rule = remembered_rule("deny", "Bash(git push:*)", bash("git commit"), BASH, "no")

    assert (rule.action, rule.tool, rule.reason) == ("deny", "Bash(git push:*)", "no")


def agent(tool: ToolSpec, policy: Policy) -> LLMEngine:
    return LLMEngine(AgentConfig(tools=(tool,), policy=policy))


def after(engine: LLMEngine, state: AgentState, *inputs: Input) -> Transition:
    transition = Transition(state)
    for event in inputs:
        transition = engine.step(transition.next_state, event)
    return transition


def called(call: ToolCall, step: str = "1.1.0") -> ModelReplied:
    return ModelReplied(EffectId(step), calls=(ProposedCall(call.name, call.arguments_json),))


HELLO = UserSpoke("Hello")
FIRST = EffectId("1.1.1")


PAIRS = st.one_of(
    st.tuples(st.just(BASH), LINES.map(bash), LINES.map(bash)),
    st.tuples(st.just(WRITE), PATHS.map(write), PATHS.map(write)),
    CALLS.map(lambda pair: (pair[0], pair[1], pair[1])),
)
"""Two calls of one tool."""
ASKS_ALWAYS = Policy((Rule("ask", "*"),))


@given(PAIRS, PATTERNS)
def test_a_rule_never_lets_run_a_call_that_it_does_not_cover(
    calls: tuple[ToolSpec, ToolCall, ToolCall], pattern: str
) -> None:
    """Whatever pattern comes with an approval: another call runs afterwards only if that pattern is for it."""
    tool, call, other = calls
    given = after(agent(tool, ASKS_ALWAYS), AgentState(), HELLO, called(call), ApprovalGiven(FIRST, True, pattern))
    remembered = given.next_state.remembered

    verdict = ASKS_ALWAYS.judge(other, tool, remembered)

    if verdict.action == "allow":
        assert remembered == (Rule("allow", pattern),)
        assert read_pattern(pattern).name == tool.name
        assert covers(Rule("allow", pattern), call, tool)
        assert covers(Rule("allow", pattern), other, tool)
    if not remembered:
        assert verdict == ASKS_ALWAYS.judge(other, tool)


@given(POLICIES, PAIRS, RULES)
def test_an_edited_call_is_judged_no_softer_than_the_same_of_the_models(
    policy: Policy, calls: tuple[ToolSpec, ToolCall, ToolCall], remembered: tuple[Rule, ...]
) -> None:
    """What policy denies does not run, however it came about; all else the user has approved."""
    tool, call, edited = calls
    asked = after(agent(tool, ASKS_ALWAYS), AgentState(), HELLO, called(call))
    assert isinstance(asked.decisions[-1], AskApproval)
    state = evolve(asked.next_state, remembered=remembered)

    given = after(agent(tool, policy), state, ApprovalGiven(FIRST, arguments_json=edited.arguments_json))

    runs = [one.call.arguments_json for one in given.decisions if isinstance(one, CallTool)]
    denied = severity(policy, (tool, edited), remembered) == SEVERITY["deny"]
    assert runs == ([] if denied else [edited.arguments_json])


# ----------------------------------------------------------------------------------------------------------- forgetting


@given(POLICIES, CALLS, RULES, st.sets(st.integers(0, 4)))
def test_what_is_left_permits_no_more_than_its_allowances_did(
    policy: Policy, call: Called, remembered: tuple[Rule, ...], places: set[int]
) -> None:
    """To forget an allowance never permits more. To forget a refusal may: that is the user's own act, and then no more
    is permitted than where it never was said.
    """
    forgotten = tuple({rule.tool for place, rule in enumerate(remembered) if place in places})
    assume(forgotten)
    left = after(
        agent(call[0], policy), AgentState(remembered=remembered), ApprovalsForgotten(forgotten)
    ).next_state.remembered

    assert left == tuple(rule for rule in remembered if rule.tool not in forgotten)
    lost = {rule.action for rule in remembered if rule.tool in forgotten}
    if lost == {"allow"}:
        assert severity(policy, call, remembered) <= severity(policy, call, left)
    without_refusals = tuple(rule for rule in remembered if rule.action == "allow")
    assert severity(policy, call, without_refusals) <= severity(policy, call, left)


@given(POLICIES, CALLS, RULES)
def test_a_session_that_has_forgotten_all_is_one_that_never_remembered(
    policy: Policy, call: Called, remembered: tuple[Rule, ...]
) -> None:
    engine = agent(call[0], policy)
    before = after(engine, AgentState(remembered=remembered), ApprovalsForgotten())

    assert before.next_state == AgentState()
    assert after(engine, before.next_state, HELLO, called(call[1])) == after(
        engine, AgentState(), HELLO, called(call[1])
    )

"""What holds of every policy: it is total, a prohibition more permits nothing more, and spelling hides nothing."""

from __future__ import annotations

from typing import get_args

from hypothesis import given, strategies as st

from cognition import Layer, Policy, Rule, ToolCall, ToolSpec
from cognition.policy import SEVERITY
from cognition.values.features import Mode
from cognition.values.tools import ToolClass
from tests.cognition.policy.hostile import ALLOWED, ALLOWED_PATHS, BASH, CURL, DENIED_PATHS, REMOVED, UNSURE, WRITE

ACTIONS = st.sampled_from(("allow", "ask", "deny"))
MODES = st.sampled_from(get_args(Mode))
NAMES = ("Bash", "Write", "look", "mcp.files.list")
ARGUMENTS = (
    "", "(*)", "(curl:*)", "(rm -rf:*)", "(git push)", "(ls:*)", "(echo a)", "(> out)", "(src/**)", "(**/*.py)",
    "(.env)", "(/etc/**)", "(secrets:*)", "(a*b)", "(git:*)",
)  # fmt: skip
PATTERNS = st.builds(str.__add__, st.sampled_from((*NAMES, "*", "mcp.*", "W*")), st.sampled_from(ARGUMENTS))
RULES = st.lists(st.builds(Rule, ACTIONS, PATTERNS), max_size=5).map(tuple)
ONLY = st.just(()) | st.lists(PATTERNS, max_size=2).map(tuple)
LAYERS = st.builds(Layer, RULES, ACTIONS, ONLY)
POLICIES = st.builds(Policy, RULES, ACTIONS, ONLY, st.lists(LAYERS, max_size=2).map(tuple))

SHORT = [line for line in (*CURL, *REMOVED, *UNSURE, *ALLOWED) if len(line) < 200]
LINES = (
    st.sampled_from(SHORT)
    | st.text(st.sampled_from("curl -rfgit'\"\\$(){}`;&|<>\n*=~#!x"), max_size=12)
    | st.text(max_size=5)
)
PATHS = st.sampled_from((*DENIED_PATHS, *ALLOWED_PATHS)) | st.text(st.sampled_from("./~\\a*é"), max_size=8)
TEXTS = st.text(st.sampled_from("ab git"), max_size=6)
KINDS = st.none() | st.sampled_from([kind for kind in get_args(ToolClass) if kind != "read-only"])
CALLS = st.one_of(
    st.tuples(st.just(BASH), LINES.map(lambda line: {"command": line})),
    st.tuples(st.just(WRITE), PATHS.map(lambda path: {"path": path})),
    st.tuples(
        st.builds(ToolSpec, st.sampled_from(NAMES), approval=st.booleans(), kind=KINDS),
        st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=2) | st.integers(), max_size=2),
    ),
).map(lambda pair: (pair[0], ToolCall("1", pair[0].name, pair[1])))
Called = tuple[ToolSpec, ToolCall]


def severity(policy: Policy, called: Called, remembered: tuple[Rule, ...] = (), mode: Mode = "default") -> int:
    return SEVERITY[policy.judge(called[1], called[0], remembered, mode).action]


@given(POLICIES, CALLS, RULES, MODES, PATTERNS, st.integers(0, 5))
def test_a_prohibition_more_never_permits_more(
    policy: Policy, called: Called, remembered: tuple[Rule, ...], mode: Mode, pattern: str, place: int
) -> None:
    """In the policy, in a layer, and among what the user said; asking instead of nothing permits no more either."""
    before, denying = severity(policy, called, remembered, mode), Rule("deny", pattern)
    rules = (*policy.rules[:place], denying, *policy.rules[place:])

    assert before <= severity(Policy(rules, policy.default, policy.allow_only, policy.layers), called, remembered, mode)
    assert before <= severity(policy.under(Layer((denying,))), called, remembered, mode)
    assert before <= severity(policy, called, (*remembered, denying), mode)


@given(POLICIES, LAYERS, CALLS, RULES, MODES)
def test_a_child_never_exceeds_its_parent(
    policy: Policy, layer: Layer, called: Called, remembered: tuple[Rule, ...], mode: Mode
) -> None:
    child = policy.under(layer)

    assert severity(policy, called) <= severity(child, called)
    assert severity(policy, called, remembered, mode) <= severity(child, called, remembered, mode)


@given(RULES, st.randoms(use_true_random=False), ACTIONS, ONLY, CALLS, RULES, MODES)
def test_the_order_of_a_list_decides_nothing(
    rules: tuple[Rule, ...],
    random: st.random.Random,  # type: ignore[name-defined]
    default: str,
    only: tuple[str, ...],
    called: Called,
    remembered: tuple[Rule, ...],
    mode: Mode,
) -> None:
    def shuffled(items: tuple) -> tuple:  # type: ignore[type-arg]
        return tuple(random.sample(items, len(items)))

    one = Policy(rules, default, only, (Layer(rules, "allow", only),))  # type: ignore[arg-type]  # an action
    other = Policy(shuffled(rules), default, shuffled(only), (Layer(shuffled(rules), "allow", shuffled(only)),))  # type: ignore[arg-type]  # as above

    assert severity(one, called, remembered, mode) == severity(other, called, shuffled(remembered), mode)


@given(POLICIES, st.text(max_size=30), st.sampled_from((BASH, WRITE, ToolSpec("look"))), RULES, MODES)
def test_judging_is_total(
    policy: Policy, arguments: str, tool: ToolSpec, remembered: tuple[Rule, ...], mode: Mode
) -> None:
    assert severity(policy, (tool, ToolCall("1", tool.name, arguments)), remembered, mode) in (0, 1, 2)


@given(POLICIES, LINES, st.data())
def test_a_line_in_another_spelling_is_judged_no_softer(policy: Policy, line: str, data: st.DataObject) -> None:
    """What carries a command and does nothing else, quotes around plain letters, more space."""
    quoted = "'" + line.replace("'", "'\\''") + "'"
    spelt = data.draw(
        st.sampled_from(
            [
                f" {line}",
                f"{line} ",
                f"{line}\n",
                f"true && {line}",
                f"({line}\n)",
                f"bash -c {quoted}",
                f"eval {quoted}",
            ]
            + [f"{carrier} {line}" for carrier in ("env", "nohup", "timeout 5", "nice", "command", "exec", "sudo")]
            * line[:1].isalpha()
        )
    )
    one, other = ((BASH, ToolCall("1", "Bash", {"command": text})) for text in (line, spelt))
    if line.split("\n")[0] != line or any(letter in line for letter in "#\\;&|\n"):
        other = (BASH, ToolCall("1", "Bash", {"command": f"true\n{line}"}))
    strict = Policy(tuple(rule for rule in policy.rules if rule.action != "allow"), "allow")

    assert severity(strict, one) <= severity(strict, other)


@given(POLICIES, PATHS.filter(bool), st.lists(st.sampled_from(("./", "x/../", ".//")), max_size=3))
def test_a_path_in_another_spelling_is_judged_no_softer(policy: Policy, path: str, before: list[str]) -> None:
    spelt = path.replace("/", "/./") + "/" if path[:1] in ("/", "~") else "".join(before) + path + "//"
    one, other = ((WRITE, ToolCall("1", "Write", {"path": text})) for text in (path, spelt))

    assert severity(policy, one) <= severity(policy, other)

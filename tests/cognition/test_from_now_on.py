"""What the user says of a call beyond yes and no: from now on by a pattern, with other arguments, and taken back."""

from __future__ import annotations

import pytest

from cognition import (
    AgentState,
    ApprovalGiven,
    ApprovalRefused,
    ApprovalsForgotten,
    AskApproval,
    CallJudged,
    CallModel,
    CallTool,
    CancelAsked,
    HookReturned,
    Layer,
    Limits,
    ModeChanged,
    Policy,
    ProposedCall,
    Rule,
    RulesForgotten,
    RunHook,
    SessionReset,
    SpawnWorker,
    ToolCall,
    ToolReturned,
    ToolSpec,
    UserSpoke,
    from_data,
    to_data,
)
from cognition.steps.inputs import Input
from tests.cognition.session import DELETE, WRITE, Session, calling, effect, engine_with, replied

BASH = ToolSpec("Bash", command="command", approval=True)
EDIT = ToolSpec("Edit", paths=("path",), approval=True)
FIRST, NEXT = effect("1.1.1"), effect("1.1.2")


def line(command: str) -> ProposedCall:
    return ProposedCall("Bash", {"command": command})


def asked(*calls: ProposedCall, **config: object) -> Session:
    """A session in which the user is asked about the first of these calls."""
    session = Session(engine_with(BASH, EDIT, DELETE, **config))
    decisions = calling(session, *calls)
    assert isinstance(decisions[-1], AskApproval)
    return session


def test_a_pattern_is_remembered_in_place_of_the_whole_tool() -> None:
    session = asked(line("git commit -m x"), line("git commit -m y"), line("git push"))

    session(ApprovalGiven(FIRST, always=True, rule="Bash(git commit:*)"))

    assert session.state.remembered == (Rule("allow", "Bash(git commit:*)"),)
    judged, run = session(ToolReturned(NEXT, "done"))
    assert judged == CallJudged("call-1-1-2", "allow", "Bash(git commit:*)")
    assert isinstance(run, CallTool)
    (ask,) = session(ToolReturned(run.effect_id, "done"))
    assert isinstance(ask, AskApproval)
    assert ask.call.arguments == {"command": "git push"}


def test_a_refusal_from_now_on_may_be_of_a_pattern_too() -> None:
    session = asked(line("git push"), line("git -C x push --force"), line("ls"))

    judged, ask = session(ApprovalRefused(FIRST, "never push", always=True, rule="Bash(git push:*)"))

    assert session.state.remembered == (Rule("deny", "Bash(git push:*)", "never push"),)
    assert judged == CallJudged("call-1-1-2", "deny", "Bash(git push:*)", "never push")
    assert isinstance(ask, AskApproval)
    assert ask.call.arguments == {"command": "ls"}


@pytest.mark.parametrize(
    "rule",
    [
        "Bash(git commit:*",
        "Bash(git push:*)",
        "Bash(git commit)",
        "Bash(git commit && ls)",
        "Bash(A=1 git commit:*)",
        "Ba*",
        "*",
        "*(git commit:*)",
        "Edit",
        "Edit(git commit:*)",
        " Bash",
    ],
)
def test_a_pattern_that_is_none_for_this_call_is_not_remembered_and_nothing_in_its_place(rule: str) -> None:
    """The call itself was approved all the same."""
    session = asked(line("git commit -m x"))

    (run,) = session(ApprovalGiven(FIRST, always=True, rule=rule))

    assert isinstance(run, CallTool)
    assert session.state.remembered == ()


@pytest.mark.parametrize("rule", ["Bash(", "*", "Edit", "Bash(a; b)", "Bash(A=1 b)"])
def test_nor_is_such_a_refusal(rule: str) -> None:
    session = asked(line("git commit -m x"))

    session(ApprovalRefused(FIRST, always=True, rule=rule))

    assert session.state.remembered == ()
    assert session.results == [("Error: the user refused this call", "refused")]


def test_a_pattern_without_always_says_nothing_of_later_calls() -> None:
    session = asked(line("git commit"), line("git commit"))

    session(ApprovalGiven(FIRST, rule="Bash(git commit:*)"))
    (ask,) = session(ToolReturned(NEXT, "done"))

    assert isinstance(ask, AskApproval)
    assert session.state.remembered == ()


def test_what_the_user_has_edited_is_what_runs_and_the_model_is_told() -> None:
    session = asked(line("rm -rf build"))

    (run,) = session(ApprovalGiven(FIRST, arguments_json='{"command": "rm -rf build/tmp"}'))

    assert run == CallTool(NEXT, ToolCall("call-1-1-1", "Bash", '{"command": "rm -rf build/tmp"}'))
    session(ToolReturned(NEXT, "gone"))
    note = 'The user changed the arguments of this call to {"command": "rm -rf build/tmp"}'
    assert session.results == [(f"gone\n{note}", "ok")]


def test_the_note_stands_behind_that_of_a_hook_and_the_hook_is_not_asked_again() -> None:
    session = Session(engine_with(BASH, hooks=("before_tool",)))
    calling(session, line("ls"))
    session(HookReturned(FIRST, context="Mind the gap."))

    (run,) = session(ApprovalGiven(NEXT, arguments_json='{"command": "ls -l"}'))

    assert isinstance(run, CallTool)
    session(ToolReturned(run.effect_id, "ok"))
    note = 'The user changed the arguments of this call to {"command": "ls -l"}'
    assert session.results == [(f"ok\nMind the gap.\n{note}", "ok")]


def test_arguments_as_they_were_are_no_edit() -> None:
    session = asked(line("ls"))

    session(ApprovalGiven(FIRST, arguments_json='{"command": "ls"}'))
    session(ToolReturned(NEXT, "ok"))

    assert session.results == [("ok", "ok")]


def test_an_edited_call_is_judged_again() -> None:
    """The user's word covers a question, and no denial."""
    policy = Policy((Rule("deny", "Bash(curl:*)", "no network"), Rule("ask", "Bash(rm:*)")))
    session = asked(line("ls"), line("ls"), policy=policy)

    judged, ask = session(ApprovalGiven(FIRST, arguments_json='{"command": "ls; curl x"}'))

    assert judged == CallJudged("call-1-1-1", "deny", "Bash(curl:*)", "no network")
    assert isinstance(ask, AskApproval)  # the second call
    (run,) = session(ApprovalGiven(ask.effect_id, arguments_json='{"command": "rm x"}'))
    assert isinstance(run, CallTool)
    session(ToolReturned(run.effect_id, "ok"))
    assert session.results[0] == (
        "Error: this call is not permitted any more: no network\n"
        'The user changed the arguments of this call to {"command": "ls; curl x"}',
        "refused",
    )


UNCERTAIN = "what this call does can't be said for certain"
HALF = '{"command": "a\\ud800"}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "7", '{"command": NaN}', '{"command": "a", "command": "b"}'),
        *(HALF, '{"command": "a\ud800"}', '{"command": "a", "\\udc00": [1]}', '{"command": "\ud83d\ude00"}'),
    ],
)
def test_arguments_that_are_none_run_nothing_and_are_not_remembered(text: str) -> None:
    session = asked(line("ls"))

    (again,) = session(ApprovalGiven(FIRST, always=True, arguments_json=text))

    assert isinstance(again, CallModel)
    ((content, status),) = session.results
    assert content.startswith("Error: the user gave unusable arguments, and nothing ran: ")
    assert status == "error"
    assert session.state.remembered == ()


def test_arguments_with_half_a_character_are_refused_in_plain_words_and_whole_ones_are_not() -> None:
    """No file, process or wire has a form for half of one: what a tool does with it would be anybody's guess."""
    session, whole = asked(line("ls")), asked(line("ls"))

    session(ApprovalGiven(FIRST, arguments_json=HALF))
    (run,) = whole(ApprovalGiven(FIRST, arguments_json='{"command": "\\ud83d\\ude00"}'))

    assert session.results[0][0].endswith(
        "nothing ran: they hold half a character (a lone surrogate, as in \\ud800); write whole characters"
    )
    assert isinstance(run, CallTool)
    assert run.call.arguments == {"command": "\U0001f600"}


def test_a_pattern_has_to_cover_the_call_as_it_was_edited() -> None:
    edited = '{"command": "git status"}'
    for rule, expected in (("Bash(git commit:*)", ()), ("Bash(git status)", (Rule("allow", "Bash(git status)"),))):
        session = asked(line("git commit"))

        session(ApprovalGiven(FIRST, always=True, rule=rule, arguments_json=edited))

        assert session.state.remembered == expected


@pytest.mark.parametrize(("arguments", "kept"), [(None, True), ('{"path": "a"}', True), ("{", False)])
def test_an_answer_at_a_limit_is_remembered_and_its_call_does_not_run(arguments: str | None, kept: bool) -> None:
    peek = ToolSpec("peek", read_only=True, approval=True, paths=("path",))
    session = Session(engine_with(peek, limits=Limits(tool_calls=1)))
    calling(session, ProposedCall("peek", {"path": "b"}), ProposedCall("peek", {"path": "a"}))
    session(ApprovalGiven(FIRST))

    decisions = session(ApprovalGiven(NEXT, always=True, rule="peek(a)", arguments_json=arguments))

    assert decisions == ()
    assert session.state.remembered == (Rule("allow", "peek(a)"),) * kept
    session(ToolReturned(effect("1.1.3"), "seen"))
    assert session.results[1] == ("Not run: the limit of 1 tool calls is reached.", "error")


def test_a_worker_that_the_user_has_edited_is_the_one_that_is_spawned() -> None:
    policy = Policy((Rule("ask", "spawn_worker"),))
    session = Session(engine_with(WRITE, features=("workers",), policy=policy))
    calling(session, ProposedCall("spawn_worker", {"name": "a", "objective": "all"}))

    decisions = session(ApprovalGiven(FIRST, arguments_json='{"name": "a", "objective": "a part"}'))

    (spawn,) = [one for one in decisions if isinstance(one, SpawnWorker)]
    assert spawn.worker.objective == "a part"


@pytest.mark.parametrize("by_hook", [True, False])
def test_a_worker_whose_arguments_were_spoilt_is_none_that_another_can_wait_for(by_hook: bool) -> None:
    """The spoilt ones stand nowhere, so that nobody stumbles over them."""
    one = ProposedCall("spawn_worker", {"name": "a", "objective": "x"})
    two = ProposedCall("spawn_worker", {"name": "b", "objective": "y", "after": ["a"]})
    given: dict[str, object] = {"hooks": ("before_tool",)} if by_hook else {"policy": Policy(default="ask")}
    session = Session(engine_with(WRITE, features=("workers",), **given))
    calling(session, one, two)

    if by_hook:
        session(HookReturned(FIRST, arguments_json="{"))
        session(HookReturned(NEXT))
    else:
        session(ApprovalGiven(FIRST, arguments_json="{"))
        session(ApprovalGiven(NEXT))

    spoilt, waiting = (content for content, _ in session.results)
    assert "unusable arguments" in spoilt
    assert waiting == "Error: worker 'b' is cancelled because 'a', which it needs, did not succeed"


# ----------------------------------------------------------------------------------------------------------- forgetting


REMEMBERED = (Rule("allow", "Bash(ls:*)"), Rule("deny", "delete", "no"), Rule("allow", "Edit"), Rule("deny", "Edit"))


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ((), ()),
        (("Edit",), REMEMBERED[:2]),
        (("delete", "Bash(ls:*)"), REMEMBERED[2:]),
        (("Bash",), REMEMBERED),
        (("nowhere", "delete"), (REMEMBERED[0], *REMEMBERED[2:])),
    ],
)
def test_what_was_said_from_now_on_is_taken_back_by_its_pattern(rules: tuple[str, ...], left: tuple[Rule, ...]) -> None:
    engine = engine_with(BASH, EDIT, DELETE)

    transition = engine.step(AgentState(remembered=REMEMBERED), ApprovalsForgotten(rules))

    assert transition.next_state == AgentState(remembered=left)
    assert transition.decisions == (RulesForgotten(rules),)


def test_it_holds_for_calls_that_already_wait() -> None:
    session = asked(line("git push"), line("ls"))
    session(ApprovalGiven(FIRST, always=True))
    session(ApprovalsForgotten())

    (ask,) = session(ToolReturned(NEXT, "pushed"))

    assert isinstance(ask, AskApproval)


def test_a_reset_forgets_nothing_of_it_and_it_may_be_taken_back_between_turns() -> None:
    session = asked(line("ls"))
    session(ApprovalGiven(FIRST, always=True))
    session(CancelAsked())
    session(SessionReset())
    assert session.state.remembered == (Rule("allow", "Bash"),)

    session(ApprovalsForgotten(("Bash",)))

    assert session.state.remembered == ()


# ------------------------------------------------------------------------------------------------------- what is judged


@pytest.mark.parametrize(
    ("policy", "call", "expected"),
    [
        (Policy(), ProposedCall("write"), ()),
        (Policy(default="ask"), ProposedCall("write"), ()),
        (Policy(default="deny"), ProposedCall("write"), (("deny", "", ""),)),
        (Policy(allow_only=("look",)), ProposedCall("write"), (("deny", "", "only look may be called here"),)),
        (Policy((Rule("allow", "*"),)), ProposedCall("write"), (("allow", "*", ""),)),
        (Policy((Rule("ask", "wri*", "why?"),)), ProposedCall("write"), (("ask", "wri*", "why?"),)),
        (Policy((Rule("deny", "write", "no"),)), ProposedCall("write"), (("deny", "write", "no"),)),
        (Policy(layers=(Layer((Rule("deny", "write", "no"),)),)), ProposedCall("write"), (("deny", "write", "no"),)),
        (
            Policy((Rule("deny", "Bash(rm:*)"),)),
            line("eval $X"),
            (("ask", "Bash(rm:*)", f"{UNCERTAIN}, and the rule Bash(rm:*) may concern it"),),
        ),
        (Policy(), line("eval $X"), ()),
        (Policy((Rule("deny", "nowhere"),)), ProposedCall("nowhere"), ()),
    ],
)
def test_what_a_rule_decides_and_every_denial_is_told(
    policy: Policy, call: ProposedCall, expected: tuple[tuple[str, str, str], ...]
) -> None:
    """Where nothing but a default lets a call run, or has the user asked, nothing is told: the effect says it."""
    session = Session(engine_with(WRITE, BASH, policy=policy))

    decisions = calling(session, call)

    told = tuple((one.action, one.rule, one.reason) for one in decisions if isinstance(one, CallJudged))
    assert told == expected
    assert [one.call_id for one in decisions if isinstance(one, CallJudged)] == ["call-1-1-1"] * len(expected)


@pytest.mark.parametrize(("mode", "told"), [("default", ["ask"]), ("auto", []), ("plan", ["deny"])])
def test_what_a_mode_lifts_no_rule_has_decided(mode: str, told: list[str]) -> None:
    session = Session(engine_with(WRITE, policy=Policy((Rule("ask", "write"),))))
    session(ModeChanged(mode))  # type: ignore[arg-type]  # one of the literals

    decisions = calling(session, ProposedCall("write"))

    assert [one.action for one in decisions if isinstance(one, CallJudged)] == told


def test_an_allowing_rule_is_not_told_where_the_user_is_asked_all_the_same() -> None:
    session = Session(engine_with(WRITE, policy=Policy((Rule("allow", "write"),))))
    session(UserSpoke("Hi"))

    (ask,) = session(replied("1.1.0", "", ProposedCall("write", confirm=True)))

    assert isinstance(ask, AskApproval)


def test_a_call_that_a_hook_refuses_is_not_judged() -> None:
    session = Session(engine_with(WRITE, hooks=("before_tool",), policy=Policy((Rule("deny", "write"),))))
    (hook,) = calling(session, ProposedCall("write"))
    assert isinstance(hook, RunHook)

    (again,) = session(HookReturned(FIRST, "refuse"))

    assert isinstance(again, CallModel)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ({"type": "approval_given", "effect_id": "1.1.1", "always": True}, ApprovalGiven(FIRST, True)),
        ({"type": "approval_refused", "effect_id": "1.1.1", "reason": "no"}, ApprovalRefused(FIRST, "no")),
        ({"type": "approvals_forgotten"}, ApprovalsForgotten()),
    ],
)
def test_what_earlier_versions_recorded_reads_as_it_was(data: dict[str, object], value: Input) -> None:
    assert from_data(data, Input) == value
    assert to_data(value, Input) == data

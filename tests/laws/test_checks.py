"""Each check can fail: a real step, tampered with in one place, and what the law says of it."""

from __future__ import annotations

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalGiven,
    ApprovalRefused,
    ApprovalsForgotten,
    AskApproval,
    AssistantMessage,
    CallJudged,
    CallTool,
    CancelAsked,
    CancelEffect,
    Completed,
    Decision,
    Failure,
    History,
    HookReturned,
    Idle,
    Input,
    LimitReached,
    LLMEngine,
    ModeChanged,
    ModelFailed,
    ModelReplied,
    Policy,
    Rejected,
    RetryPlanned,
    Rule,
    RulesForgotten,
    SpawnWorker,
    StartTimer,
    Thinking,
    TimerFired,
    ToolCall,
    ToolFailed,
    ToolReturned,
    Transition,
    TurnFinished,
    Usage,
    UserMessage,
    Waiting,
)
from cognition.steps.decisions import Remember
from cognition.steps.phases import ModelAttempt
from cognition.testing import laws
from cognition.testing._search import Walk
from tests.laws.tampering import (
    ANSWERED,
    CONFIG,
    ENGINE,
    HELLO,
    LOOK,
    LOOKED,
    READ,
    READ_LATER,
    RETRYING,
    SORT,
    SPAWN,
    WORKERS,
    Change,
    add,
    call,
    calling,
    cut,
    edge_after,
    effect,
    only,
    request,
    same,
    state,
    without,
)


def busy(effect_id: str) -> ToolFailed:
    return ToolFailed(effect(effect_id), "busy", transient=True)


NEVER_WRITE = (HELLO, calling("1.1.0", "write"), ApprovalRefused(effect("1.1.1"), always=True))
RULES = (Rule("allow", "l*"), Rule("ask", "so*"), Rule("deny", "write", "no"))
RULED = LLMEngine(evolve(CONFIG, policy=Policy(RULES)))

CASES: list[tuple[str, LLMEngine, tuple[Input, ...], Change, str]] = [
    # L2
    ("L2", ENGINE, (HELLO, HELLO), only(), "not one Rejected and nothing else"),
    ("L2", ENGINE, (HELLO, HELLO), state(total=Usage(1)), "was rejected and changed the state"),
    (
        "L2",
        ENGINE,
        (HELLO, ANSWERED),
        only(Rejected("stale", "x", "y")),
        "answers an effect in flight and was rejected",
    ),
    (
        "L2",
        ENGINE,
        (HELLO, calling("1.1.0", "look")),
        only(CallTool(effect("1.1.0"), call(1, "look"))),
        "a second time",
    ),
    # L3
    ("L3", ENGINE, LOOKED, request(lambda m: History(m[:2])), "call-1-1-1 has no result"),
    ("L3", ENGINE, LOOKED, request(lambda m: History([*m, m[2]])), "which no call before it waits for"),
    ("L3", ENGINE, LOOKED, request(lambda m: History([*m[:2], evolve(m[2], call_id="x")])), "where that of call-1-1-1"),  # type: ignore[type-var]
    ("L3", ENGINE, LOOKED, request(lambda m: History([*m[:2], m[0], m[2]])), "call-1-1-1 has no result"),
    # L4
    (
        "L4",
        ENGINE,
        (HELLO, calling("1.1.0", "look")),
        add(CallTool(effect("1.1.2"), ToolCall("nowhere", "look"))),
        "stands in no reply",
    ),
    (
        "L4",
        ENGINE,
        (HELLO, calling("1.1.0", "sort", "sort")),
        add(CallTool(effect("1.1.2"), call(2, "sort"))),
        "runs while call-1-1-1 is open",
    ),
    (
        "L4",
        ENGINE,
        (HELLO, calling("1.1.0", "sort", "look")),
        only(
            CallTool(effect("1.1.2"), call(2, "look")),
            CancelEffect(effect("1.1.2")),
            CallTool(effect("1.1.1"), call(1, "sort")),
        ),
        "runs after call-1-1-2",
    ),
    (
        "L4",
        ENGINE,
        (HELLO, calling("1.1.0", "look"), ToolFailed(effect("1.1.1"), "no")),
        only(CallTool(effect("1.1.2"), call(1, "look"))),
        "runs a second time, and did not fail in a way that may pass",
    ),
    (
        "L4",
        RETRYING,
        (HELLO, calling("1.1.0", "sort", "sort"), busy("1.1.1"), ToolReturned(effect("1.1.2"), "ok")),
        add(CallTool(effect("1.1.3"), call(1, "sort"))),
        "runs a second time, and 'sort' must not",
    ),
    (
        "L4",
        RETRYING,
        (
            *(HELLO, calling("1.1.0", "fetch", "fetch"), busy("1.1.1"), TimerFired(effect("1.1.3")), busy("1.1.4")),
            ToolReturned(effect("1.1.2"), "ok"),
        ),
        add(CallTool(effect("1.1.5"), call(1, "fetch"))),
        "runs a further time after 2, and the plan of 'fetch' is [2.0]",
    ),
    (
        "L4",
        RETRYING,
        (HELLO, calling("1.1.0", "fetch"), busy("1.1.1")),
        only(RetryPlanned("transient", "busy", 2, 1.0, "call-1-1-1"), StartTimer(effect("1.1.2"), 1.0)),
        "is to run again after 1 seconds, and its tool's plan is [2.0]",
    ),
    (
        "L4",
        RETRYING,
        (HELLO, calling("1.1.0", "fetch"), busy("1.1.1")),
        without(StartTimer),
        "is to run again, and the timers are []",
    ),
    (
        "L4",
        RETRYING,
        (HELLO, calling("1.1.0", "sort"), busy("1.1.1")),
        only(RetryPlanned("transient", "busy", 2, 2.0, "call-1-1-1"), StartTimer(effect("1.1.2"), 2.0)),
        "is to run again after 2 seconds, and its tool's plan is []",
    ),
    # L5
    ("L5", ENGINE, (HELLO, ANSWERED), state(remembered=(Rule("allow", "*"),)), "which the user did not say"),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write"), ApprovalGiven(effect("1.1.1"), always=True)),
        state(remembered=(Rule("allow", "*"),)),
        "which the user did not say",
    ),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write"), ApprovalGiven(effect("1.1.1"), always=True, rule="*")),
        state(remembered=(Rule("allow", "*"),)),
        "which the user did not say",
    ),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write"), ApprovalGiven(effect("1.1.1"), always=True, rule="write(x)")),
        state(remembered=(Rule("allow", "write(x)"),)),
        "which the user did not say",
    ),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write"), ApprovalGiven(effect("1.1.1"), rule="write")),
        state(remembered=(Rule("allow", "write"),)),
        "which the user did not say",
    ),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write"), ApprovalGiven(effect("1.1.1"), always=True, arguments_json="{")),
        state(remembered=(Rule("allow", "write"),)),
        "which the user did not say",
    ),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write"), ApprovalRefused(effect("1.1.1"), always=True, rule="write(x)")),
        state(remembered=(Rule("deny", "write"),)),
        "which the user did not say",
    ),
    (
        "L5",
        ENGINE,
        (*NEVER_WRITE, ApprovalsForgotten(("look",))),
        state(remembered=()),
        "the user took back ['look'], and what is remembered became []",
    ),
    (
        "L5",
        ENGINE,
        (*NEVER_WRITE, ApprovalsForgotten()),
        state(remembered=(Rule("deny", "write"),)),
        "the user took back all rules, and what is remembered became [",
    ),
    (
        "L5",
        WORKERS,
        (HELLO, SPAWN, HookReturned(effect("1.1.1")), ApprovalsForgotten(("look",))),
        without(RulesForgotten),
        "the user took back ['look'], and the workers are not told",
    ),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write"), ApprovalGiven(effect("1.1.1"), arguments_json='{"n": 3}')),
        only(CallTool(effect("1.1.2"), call(1, "write"))),
        "and it should be",
    ),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write"), ApprovalGiven(effect("1.1.1"), arguments_json="{")),
        add(CallTool(effect("1.1.2"), call(1, "write"))),
        "nobody approved it",
    ),
    ("L5", RULED, (HELLO, calling("1.1.0", "look")), without(CallJudged), "met by the rule 'l*', and nothing says so"),
    ("L5", RULED, (HELLO, calling("1.1.0", "sort")), without(CallJudged), "met by the rule 'so*', and nothing says"),
    ("L5", RULED, (HELLO, calling("1.1.0", "write")), without(CallJudged), "is denied (no), and nothing says so"),
    (
        "L5",
        RULED,
        (HELLO, calling("1.1.0", "nowhere")),
        add(CallJudged("call-1-1-1", "deny", "", "no")),
        "is said, and policy says None",
    ),
    (
        "L5",
        RULED,
        (HELLO, calling("1.1.0", "sort", "write"), ApprovalGiven(effect("1.1.1")), ToolReturned(effect("1.1.2"), "")),
        without(CallJudged),
        "call-1-1-2 is denied (no), and nothing says so",
    ),
    (
        "L5",
        RULED,
        (HELLO, calling("1.1.0", "write", "look")),
        lambda t: evolve(t, decisions=tuple(d for d in t.decisions if getattr(d, "action", "") != "deny")),
        "call-1-1-1 is denied (no), and nothing says so",
    ),
    (
        "L5",
        RULED,
        (HELLO, calling("1.1.0", "look")),
        lambda t: evolve(t, decisions=(CallJudged("call-1-1-1", "allow", "look"), *t.decisions)),
        "is said, and policy says",
    ),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "look")),
        add(CallJudged("nowhere", "allow")),
        "is said, and policy says None",
    ),
    ("L5", ENGINE, (HELLO, ANSWERED), state(mode="auto"), "the mode became 'auto'"),
    ("L5", ENGINE, (ModeChanged("careful"),), state(mode="auto"), "the mode became 'auto'"),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "look")),
        state(
            history=History(
                [UserMessage("m1", "Hello"), AssistantMessage("m2", calls=(call(1, "look", '{"n": 2}'),))],
            )
        ),
        "which the model did not propose",
    ),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "look")),
        only(CallTool(effect("1.1.1"), call(1, "look", '{"n": 2}'))),
        "and it should be",
    ),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write")),
        only(AskApproval(effect("1.1.1"), call(1, "write", '{"n": 2}'))),
        "is shown for approval, and it should be",
    ),
    ("L5", ENGINE, (HELLO, calling("1.1.0", "no")), add(CallTool(effect("1.1.1"), call(1, "no"))), "there is no tool"),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write")),
        add(CallTool(effect("1.1.2"), call(1, "write"))),
        "nobody approved it",
    ),
    (
        "L5",
        LLMEngine(evolve(CONFIG, policy=Policy((Rule("deny", "look"),)))),
        (HELLO, calling("1.1.0", "look")),
        add(CallTool(effect("1.1.2"), call(1, "look"))),
        "the word is 'deny'",
    ),
    (
        "L5",
        ENGINE,
        (ModeChanged("plan"), HELLO, calling("1.1.0", "sort")),
        add(CallTool(effect("1.1.2"), call(1, "sort"))),
        "the word is 'deny'",
    ),
    (
        "L5",
        LLMEngine(evolve(CONFIG, features=("memory",), policy=Policy((Rule("deny", "remember"),)))),
        (HELLO, calling("1.1.0", "remember", arguments='{"text": "x"}')),
        add(Remember("x")),
        "remember is carried out",
    ),
    # L6
    ("L6", ENGINE, (HELLO, ANSWERED), without(TurnFinished), "no TurnFinished was decided"),
    ("L6", ENGINE, (HELLO, ANSWERED), add(TurnFinished(Completed("x"), Usage())), "finished 2 times"),
    ("L6", ENGINE, (ModeChanged("auto"),), add(TurnFinished(Completed("x"), Usage())), "none was under way"),
    ("L6", ENGINE, (HELLO, ANSWERED), add(CancelEffect(effect("1.1.0"))), "not the turn's last decision"),
    (
        "L6",
        ENGINE,
        (HELLO, ANSWERED),
        state(phase=Waiting(effect("1.1.0"), ModelAttempt())),
        "finished and the phase is Waiting",
    ),
    ("L6", ENGINE, (HELLO, CancelAsked()), without(CancelEffect), "1.1.0 is still in flight"),
    (
        "L6",
        ENGINE,
        (HELLO, ANSWERED),
        only(TurnFinished(Completed("Done."), Usage())),
        "was reported",
    ),
    (
        "L6",
        ENGINE,
        (HELLO, ANSWERED),
        only(TurnFinished(LimitReached("steps"), Usage(0, 5))),
        "the limit of steps, which was not reached",
    ),
    (
        "L6",
        ENGINE,
        (HELLO, calling("1.1.0", "look", "look")),
        add(CallTool(effect("1.1.3"), call(2, "look"))),
        "is run as call 3 of a turn that may run 2",
    ),
    (
        "L6",
        ENGINE,
        (*LOOKED, calling("1.2.0", "nowhere")),
        request(same, tools=(LOOK,)),
        "after 2 replies, the limit, the model is called with tools",
    ),
    (
        "L6",
        ENGINE,
        (HELLO, calling("1.1.0", "write", "write"), ApprovalRefused(effect("1.1.1")), ApprovalRefused(effect("1.1.2"))),
        lambda t: Transition(
            evolve(t.next_state, phase=Waiting(effect("1.1.3"), ModelAttempt())),
            (AskApproval(effect("1.1.3"), call(1, "write")),),
        ),
        "AskApproval is decided after 2 refusals in a row",
    ),
    (
        "L6",
        ENGINE,
        (HELLO, evolve(calling("1.1.0", "look"), usage=Usage(0, 100))),
        lambda t: Transition(
            evolve(t.next_state, phase=Waiting(effect("1.1.1"), ModelAttempt())),
            (CallTool(effect("1.1.1"), call(1, "look")),),
        ),
        "decided though output_tokens are used up",
    ),
    # L7
    ("L7", ENGINE, (HELLO, ANSWERED), add(CancelEffect(effect("9.9.9"))), "9.9.9 is cancelled and was not in flight"),
    # L8
    ("L8", ENGINE, (HELLO, ANSWERED), only(TurnFinished(Completed("x", {1}), Usage())), "can't be recorded"),  # type: ignore[arg-type]
    # L9
    ("L9", ENGINE, LOOKED, request(lambda m: m.drop(1)), "lacks the newest user message"),
    ("L9", ENGINE, (HELLO,), request(lambda m: History([UserMessage("m0", "x", "engine"), *m])), "begin at a turn"),
    ("L9", ENGINE, LOOKED, request(lambda m: History([m[0], m[2]])), "leaves out messages between"),
    ("L9", ENGINE, READ, request(lambda m: cut(m, "ok\n[... 199 characters ...]\nko")), "not in history"),
    ("L9", ENGINE, READ, request(lambda m: cut(m, "ko\n[... 199 characters ...]\nok")), "not in history"),
    ("L9", ENGINE, READ, request(lambda m: cut(m, f"ok\n[... {'9' * 200} ...]\nok")), "not in history"),
    ("L9", ENGINE, READ, request(lambda m: cut(m, "ok\n[... 199 characters ...]\nok", 195)), "not in history"),
    ("L9", ENGINE, READ, request(lambda m: History([m[0], evolve(m[1], text="?"), m[2]])), "not in history"),  # type: ignore[type-var]
    (
        "L9",
        ENGINE,
        READ_LATER,
        request(lambda m: cut(m, "ok\n[... 199 characters ...]\nok")),
        "has not answered, and shows an older turn",
    ),
    ("L9", ENGINE, (HELLO,), request(same, system="Be long."), "another system prompt"),
    (
        "L9",
        LLMEngine(evolve(CONFIG, context_tokens=800, edition=1)),
        (HELLO,),
        lambda t: state(window=evolve(t.next_state.window, scale=4.0))(t),
        "tokens, and 400 fit",
    ),
    (
        "L9",
        LLMEngine(evolve(CONFIG, context_tokens=800)),
        READ,
        lambda t: state(window=evolve(t.next_state.window, scale=4.0))(t),
        "tokens, and 700 fit",
    ),
]


@pytest.mark.parametrize(("name", "engine", "inputs", "change", "expected"), CASES, ids=lambda value: None)
def test_a_step_that_was_tampered_with_is_found(
    name: str, engine: LLMEngine, inputs: tuple[Input, ...], change: Change, expected: str
) -> None:
    """The same step without the change is in order; with it, the law says what is wrong."""
    law = next(law for law in laws(engine) if law.name == name)

    problem = law.step(edge_after(engine, inputs, change))

    assert problem is not None
    assert expected in problem.text
    assert law.step(edge_after(engine, inputs, lambda transition: transition)) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mode": "auto"}, "gets the mode 'auto'"),
        ({"remembered": (Rule("allow", "*"),)}, "other rules than those that its parent remembers"),
        ({"limits": evolve(CONFIG.limits, steps=99)}, "gets 99 steps, and its parent has 2"),
        ({"tools": ("root",)}, "gets tools that its parent does not have"),
    ],
)
def test_a_worker_that_may_do_more_than_its_parent_is_found(changes: dict[str, object], expected: str) -> None:
    """The worker's rules, mode, tools and budgets are the parent's at this moment (law L5)."""
    law = next(law for law in laws(WORKERS) if law.name == "L5")

    def change(decision: Decision) -> Decision:
        if not isinstance(decision, SpawnWorker):
            return decision
        if "tools" in changes:
            return evolve(decision, worker=evolve(decision.worker, **changes))  # type: ignore[arg-type]  # by the test
        return evolve(decision, **changes)  # type: ignore[arg-type]  # as above

    inputs = (HELLO, SPAWN, HookReturned(effect("1.1.1")))
    problem = law.step(edge_after(WORKERS, inputs, lambda t: evolve(t, decisions=tuple(map(change, t.decisions)))))

    assert problem is not None
    assert expected in problem.text


def test_a_second_worker_and_a_third_go_on_are_found() -> None:
    law = next(law for law in laws(WORKERS) if law.name == "L6")
    spawned = edge_after(WORKERS, (HELLO, SPAWN, HookReturned(effect("1.1.1"))), lambda t: t)
    worker = next(d for d in spawned.transition.decisions if isinstance(d, SpawnWorker))
    twice = add(evolve(worker, effect_id=effect("1.1.9")))(spawned.transition)

    problem = law.step(evolve(spawned, transition=twice))

    assert problem is not None
    assert problem.text == "worker 2 of a turn that may have 1 is spawned"


def test_what_a_hook_changed_is_what_has_to_run() -> None:
    """Other arguments than the hook's are found, though they are the model's own (law L5)."""
    law = next(law for law in laws(WORKERS) if law.name == "L5")
    changed = HookReturned(effect("1.1.1"), arguments_json='{"n": 3}')
    inputs = (HELLO, calling("1.1.0", "look"), changed)

    assert law.step(edge_after(WORKERS, inputs, lambda t: t)) is None
    problem = law.step(edge_after(WORKERS, inputs, only(CallTool(effect("1.1.2"), call(1, "look")))))

    assert problem is not None
    assert "and it should be" in problem.text


def test_results_of_a_turn_that_failed_before_they_were_answered_are_as_old_as_that_turn() -> None:
    """They may be shortened where the next turn is shown; the law said that no result may be which nobody answered."""
    engine = LLMEngine(AgentConfig(tools=(SORT,), compact_at=0.4, context_tokens=1200))
    walk, now = Walk(laws(engine)), AgentState()

    def take(event: Input) -> None:
        nonlocal now
        now = engine.step(now, event).next_state
        walk.take(event)

    overflow = Failure("too long", kind="context_overflow")
    take(HELLO)
    take(calling("1.1.0", "sort"))
    take(ToolReturned(effect("1.1.1"), "x" * 400))
    take(ModelReplied(effect("1.2.0"), "Done."))
    take(HELLO)
    take(ModelFailed(effect("2.1.0"), overflow))
    take(calling("2.1.1", "sort"))
    take(ToolReturned(effect("2.1.2"), "x" * 400))
    take(ModelFailed(effect("2.2.0"), overflow))
    assert isinstance(now.phase, Idle)

    take(HELLO)  # raises where a law is broken

    assert isinstance(now.phase, Thinking)

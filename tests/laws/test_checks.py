"""Each check can fail: a real step, tampered with in one place, and what the law says of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
    AssistantMessage,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    Cancelled,
    Completed,
    Decision,
    EffectId,
    Failed,
    History,
    HookReturned,
    Idle,
    Input,
    LimitReached,
    Limits,
    LLMEngine,
    ModeChanged,
    ModelReplied,
    Policy,
    ProposedCall,
    Rejected,
    Rule,
    SessionReset,
    SpawnWorker,
    ToolCall,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    Transition,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    Waiting,
    WorkerFinished,
    from_data,
    to_data,
)
from cognition.decisions import ModeSet, Remember, RunHook
from cognition.phases import ModelAttempt
from cognition.testing import ANY, Edge, LawViolation, Turn, World, explore, laws
from cognition.testing.search import Walk
from cognition.testing.story import contrast, shortened
from cognition.testing.strategies import policies, replies, states
from cognition.testing.world import after, count, take

LOOK, WRITE, SORT = ToolSpec("look", read_only=True), ToolSpec("write", approval=True), ToolSpec("sort")
CONFIG = AgentConfig(
    system="Be brief.",
    tools=(LOOK, WRITE, SORT),
    limits=Limits(steps=2, tool_calls=2, refusals=2, output_tokens=100, workers=1, hook_continuations=1),
)
ENGINE = LLMEngine(CONFIG)
WORKERS = LLMEngine(evolve(CONFIG, features=("workers", "memory"), hooks=("before_tool", "stop")))


def effect(text: str) -> EffectId:
    return EffectId(text)


def calling(identity: str, *names: str, arguments: str = "{}") -> ModelReplied:
    return ModelReplied(effect(identity), calls=tuple(ProposedCall(name, arguments) for name in names))


HELLO = UserSpoke("Hello")
ANSWERED = ModelReplied(effect("1.1.0"), "Done.", usage=Usage(0, 5))
LOOKED = (HELLO, calling("1.1.0", "look"), ToolReturned(effect("1.1.1"), "ok"))

Change = Callable[[Transition], Transition]


def add(*decisions: Decision) -> Change:
    return lambda transition: evolve(transition, decisions=transition.decisions + decisions)


def only(*decisions: Decision) -> Change:
    return lambda transition: evolve(transition, decisions=decisions)


def without(kind: type[Decision]) -> Change:
    return lambda t: evolve(t, decisions=tuple(d for d in t.decisions if not isinstance(d, kind)))


def state(**changes: object) -> Change:
    return lambda t: evolve(t, next_state=evolve(t.next_state, **changes))  # type: ignore[arg-type]  # by the test


def request(change: Callable[[History], History], **more: object) -> Change:
    def changed(decision: Decision) -> Decision:
        if not isinstance(decision, CallModel):
            return decision
        messages = change(decision.request.messages)
        return evolve(decision, request=evolve(decision.request, messages=messages, **more))  # type: ignore[arg-type]

    return lambda t: evolve(t, decisions=tuple(map(changed, t.decisions)))


def same(messages: History) -> History:
    return messages


def call(number: int, name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(f"call-1-1-{number}", name, arguments)


def edge_after(engine: LLMEngine, inputs: tuple[Input, ...], change: Change) -> Edge:
    """The last of these steps, with its transition changed."""
    world = World()
    for event in inputs[:-1]:
        world = take(engine, world, event).after
    edge = take(engine, world, inputs[-1])
    transition = change(edge.transition)
    return Edge(world, inputs[-1], transition, after(world, inputs[-1], transition))


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
    # L5
    ("L5", ENGINE, (HELLO, ANSWERED), state(remembered=(Rule("allow", "*"),)), "which the user did not say"),
    (
        "L5",
        ENGINE,
        (HELLO, calling("1.1.0", "write"), ApprovalGiven(effect("1.1.1"), always=True)),
        state(remembered=(Rule("allow", "*"),)),
        "which the user did not say",
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
    ("L9", ENGINE, (HELLO,), request(same, system="Be long."), "another system prompt"),
    (
        "L9",
        LLMEngine(evolve(CONFIG, context_tokens=800)),
        (HELLO,),
        lambda t: state(window=evolve(t.next_state.window, scale=4.0))(t),
        "tokens, and 288 fit",
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


SPAWN = calling("1.1.0", "spawn_worker", arguments='{"name": "w", "objective": "look"}')


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


class Tampered(LLMEngine):
    """An engine whose steps go through a function of the test."""

    def __init__(
        self, change: Callable[[AgentState, Input, Transition], Transition], config: AgentConfig = CONFIG
    ) -> None:
        super().__init__(config)
        self.change = change

    def step(self, state: AgentState, input: Input | None) -> Transition:
        transition = super().step(state, input)
        return transition if input is None else self.change(state, input, transition)


def on_cancel(change: Change) -> Callable[[AgentState, Input, Transition], Transition]:
    return lambda _state, event, t: change(t) if isinstance(event, CancelAsked) else t


def uncancelled(transition: Transition) -> Transition:
    messages = [evolve(m, status="ok") if isinstance(m, ToolMessage) else m for m in transition.next_state.history]
    return state(history=History(messages))(transition)


def unanswered(transition: Transition) -> Transition:
    return state(history=History([m for m in transition.next_state.history if not isinstance(m, ToolMessage)]))(
        transition
    )


def by_arrival(before: AgentState, event: Input, transition: Transition) -> Transition:
    if isinstance(event, ToolReturned):
        note = UserMessage("m9", event.content)
        return state(history=transition.next_state.history.append(note))(transition)
    return transition


STATE_CASES: list[tuple[str, Callable[[AgentState, Input, Transition], Transition], tuple[Input, ...], str]] = [
    ("L3", by_arrival, (HELLO, calling("1.1.0", "look", "look")), "history depends on whether 1.1.1 or 1.1.2"),
    ("L7", on_cancel(only(Rejected("stale", "x", "y"))), (HELLO,), "cancelling it is rejected"),
    ("L7", on_cancel(state(phase=Waiting(effect("1.1.0"), ModelAttempt()))), (HELLO,), "the phase is Waiting"),
    ("L7", on_cancel(without(CancelEffect)), (HELLO,), "is cancelled 0 times"),
    ("L7", on_cancel(add(TurnFinished(Failed("fatal", ""), Usage()))), (HELLO,), "does not end as cancelled"),
    ("L7", on_cancel(uncancelled), (HELLO, calling("1.1.0", "look")), "has 'ok', not 'cancelled'"),
    ("L7", on_cancel(unanswered), (HELLO, calling("1.1.0", "nowhere", "look")), "not 'cancelled'"),
    (
        "L7",
        lambda s, e, t: only()(t) if isinstance(e, UserSpoke) and e.text == "Go on." else t,
        (HELLO,),
        "leads to no model call",
    ),
    ("L10", lambda s, e, t: only()(t), (HELLO,), "nothing is in flight and the phase is Thinking"),
    (
        "L10",
        lambda s, e, t: without(TurnFinished)(state(phase=s.phase)(t)) if isinstance(e, ModelReplied) else t,
        (HELLO,),
        "nothing is in flight",
    ),
]


@pytest.mark.parametrize(("name", "change", "inputs", "expected"), STATE_CASES, ids=lambda value: None)
def test_a_situation_that_was_tampered_with_is_found(
    name: str,
    change: Callable[[AgentState, Input, Transition], Transition],
    inputs: tuple[Input, ...],
    expected: str,
) -> None:
    law = next(law for law in laws(Tampered(change)) if law.name == name)
    with pytest.raises(LawViolation) as raised:  # noqa: PT012 - any of the steps may be the one
        walk = Walk([law])
        for event in inputs:
            walk.take(event)

    assert expected in raised.value.problem


def test_an_engine_that_nags_for_ever_is_found() -> None:
    """It forgets how often it has reminded the model already (law L10)."""

    def forgetful(_before: AgentState, _event: Input, transition: Transition) -> Transition:
        return state(spent=evolve(transition.next_state.spent, nudges=0))(transition)

    law = next(law for law in laws(Tampered(forgetful, evolve(CONFIG, limits=Limits()))) if law.name == "L10")
    with pytest.raises(LawViolation) as raised:
        Walk([law]).take(HELLO)

    assert raised.value.problem == "3 replies without text and calls do not end the turn"


def test_a_session_that_a_reset_does_not_mend_is_found() -> None:
    """What came before must not keep later messages from the model for ever (law L10)."""

    def spoilt(_before: AgentState, event: Input, transition: Transition) -> Transition:
        window = evolve(transition.next_state.window, scale=1000.0)
        return state(window=window)(transition) if isinstance(event, SessionReset) else transition

    law = next(law for law in laws(Tampered(spoilt)) if law.name == "L10")
    world = World()
    for event in (HELLO, CancelAsked()):
        world = take(law.subject.engine, world, event).after
    problem = law.state(world)

    assert problem is not None
    assert problem.text == "after a reset a message leads to no model call, though it does in a new session"


def test_an_argument_that_is_changed_is_found() -> None:
    """L1 reads the arguments before the step and after it."""

    def change(before: AgentState, _event: Input, transition: Transition) -> Transition:
        object.__setattr__(before, "total", Usage(before.total.input_tokens + 1))
        return transition

    law = laws(Tampered(change))[0]

    problem = law.before(World(AgentState()), HELLO)

    assert problem is not None
    assert problem.text.startswith("step changed its argument, the state")


def test_a_world_tells_what_an_interpreter_would_know() -> None:
    """Decided and unanswered is in flight; the account of the turn is counted from outside."""
    world = World()
    assert world.turn is None
    for event in (HELLO, calling("1.1.0", "look", "look"), ToolReturned(effect("1.1.1"), "ok")):
        world = take(ENGINE, world, event).after

    assert [e.effect_id for e in world.open] == ["1.1.2"]
    assert [e.effect_id for e in world.over] == ["1.1.0", "1.1.1"]
    assert world.turn == Turn(0.0, 1, 2, ran=(call(1, "look"), call(2, "look")))
    assert take(ENGINE, world, CancelAsked()).after.open == ()


def test_what_a_cancelled_reply_cost_is_counted() -> None:
    """The exact cost too, which no token stands for."""
    world = take(ENGINE, World(), HELLO).after
    cancel = CancelAsked(usage=Usage(cost=0.25))

    assert count(world, cancel) == Turn(0.0, usage=Usage(cost=0.25))
    assert TurnFinished(Cancelled(), Usage(cost=0.25)) in take(ENGINE, world, cancel).transition.decisions


def test_a_worker_and_a_hook_are_counted() -> None:
    world = World()
    events: tuple[Input, ...] = (
        HELLO,
        SPAWN,
        HookReturned(effect("1.1.1")),
        ApprovalGiven(effect("1.1.2")),
        WorkerFinished(effect("1.1.2"), "x", Usage(0, 7)),
        ModelReplied(effect("1.2.0"), "Done."),
        HookReturned(effect("1.2.1"), "go_on", "more"),
    )
    for event in events:
        world = take(WORKERS, world, event).after

    assert world.turn is not None
    assert (world.turn.workers, world.turn.usage, world.turn.continued) == (1, Usage(0, 7), 1)


def test_differences_are_told_by_their_place() -> None:
    """Two lines, side by side: what was first, what was second."""
    one, other = World(AgentState(phase=Idle())), World(AgentState(total=Usage(5)))

    assert contrast(one, other).splitlines() == ["state.total.input_tokens", "    first:  0", "    second: 5"]
    assert contrast((1, 2), (1, 3)).startswith("[1]")
    assert contrast(1, 2).startswith("the whole")
    assert contrast((1,), (1, 2)).startswith("the whole")


def test_long_texts_are_cut_and_counted() -> None:
    assert shortened("x" * 50, 4) == '"xxxx…" (+46)'
    assert shortened("a\nb") == '"a\\nb"'


def test_mode_and_hook_decisions_are_told() -> None:
    from cognition.testing.story import describe

    assert describe(ModeSet("plan")).split() == ["ModeSet", '"plan"']
    assert describe(RunHook(effect("1.1.0"), "stop", "Done.")).split() == ["RunHook", "1.1.0", '"stop",', '"Done."']


def test_calls_that_differ_from_those_approved_are_found() -> None:
    """What runs is what was approved, to the byte (law L5)."""
    hooked = LLMEngine(evolve(CONFIG, hooks=("before_tool",)))
    law = next(law for law in laws(hooked) if law.name == "L5")
    asked = (HELLO, calling("1.1.0", "write"), HookReturned(effect("1.1.1"), arguments_json='{"n": 3}'))
    world = World()
    for event in asked:
        world = take(hooked, world, event).after
    assert [e.effect_id for e in world.open] == ["1.1.2"]
    given = ApprovalGiven(effect("1.1.2"))
    right = take(hooked, world, given)
    forgotten = evolve(world, changed=())
    transition = only(CallTool(effect("1.1.3"), call(1, "write")))(right.transition)

    problem = law.step(Edge(forgotten, given, transition, after(forgotten, given, transition)))

    assert law.step(right) is None
    assert problem is not None
    assert problem.text == "call-1-1-1 runs with other arguments than those that were approved"


def test_too_many_model_calls_and_continuations_are_found() -> None:
    law = next(law for law in laws(WORKERS) if law.name == "L6")
    for turn, event, expected in (
        (Turn(replies=2), ModelReplied(effect("1.1.0")), "after 3 replies; the limit is 2 and one"),
        (Turn(continued=1), HookReturned(effect("1.1.0"), "go_on"), "for the 2th time to go on"),
    ):
        asked = take(WORKERS, World(), HELLO)
        hook = RunHook(effect("1.1.0"), "stop", "Done.")
        world = evolve(asked.after, open=(hook,), turn=turn)
        edge = Edge(world, event, asked.transition, asked.after)

        problem = law.step(edge)

        assert problem is not None
        assert expected in problem.text


def test_an_engine_that_raises_on_none_or_never_arrives_is_found() -> None:
    class Fussy(LLMEngine):
        def step(self, state: AgentState, input: Input | None) -> Transition:
            if input is None:
                raise ValueError("nothing")
            return super().step(state, input)

    class Circling(LLMEngine):
        def step(self, state: AgentState, input: Input | None) -> Transition:
            transition = super().step(state, input)
            if isinstance(input, ModelReplied) and not any(isinstance(d, Rejected) for d in transition.decisions):
                return super().step(evolve(state, phase=Idle()), UserSpoke("Again"))
            return transition

    on_none = laws(Fussy(CONFIG))[1].state(World())
    circling = next(law for law in laws(Circling(CONFIG)) if law.name == "L10")
    arrives = circling.state(take(circling.subject.engine, World(), HELLO).after)

    assert on_none is not None
    assert on_none.text == "step raised ValueError: nothing on None as input"
    assert arrives is not None
    assert arrives.text == "200 benign answers do not lead to idle"


def test_a_state_that_goes_on_otherwise_after_it_was_stored_is_found() -> None:
    """What an engine knows besides its state is lost when a session is resumed (law L8)."""

    class Attached(LLMEngine):
        def __init__(self, config: AgentConfig) -> None:
            super().__init__(config)
            self.known: list[AgentState] = []

        def step(self, state: AgentState, input: Input | None) -> Transition:
            transition = super().step(state, input)
            if isinstance(input, ModelReplied) and not any(state is one for one in self.known):
                return only()(transition)
            self.known.append(transition.next_state)
            return transition

    law = next(law for law in laws(Attached(CONFIG)) if law.name == "L8")
    problem = law.state(take(law.subject.engine, World(), HELLO).after)

    assert problem is not None
    assert problem.text.startswith("a stored state goes on otherwise than the live one: decisions")


def test_an_exploration_finds_what_changes_its_arguments_and_tells_how_far_it_is() -> None:
    def change(before: AgentState, event: Input, transition: Transition) -> Transition:
        if isinstance(event, CancelAsked) and before.history:
            object.__setattr__(before, "resume_mode", "careful")
            return state(resume_mode="default")(transition)  # so that both transitions are equal
        return transition

    seen: list[int] = []
    only_l1 = tuple(law.name for law in laws(ENGINE) if law.name != "L1")
    found = explore(
        Tampered(change), limit=50, leave_out=only_l1, on_progress=lambda so_far: seen.append(so_far.states)
    )

    assert found.violation is not None
    assert found.violation.law.name == "L1"
    assert "step changed its argument, the state" in found.violation.problem
    assert [type(event) for event in found.violation.story.inputs] == [UserSpoke, CancelAsked]
    assert seen[0] == 1


def test_an_alphabet_that_comes_to_an_end_is_explored_completely() -> None:
    """Without messages of the user nothing happens: the search says that there is nothing more."""
    found = explore(ENGINE, [CancelAsked(), ModeChanged("auto"), ModeChanged("default")], limit=50)

    assert (found.states, found.complete, found.violation) == (2, True, None)


def test_a_law_says_what_it_is_and_searches_an_alphabet_when_it_is_given_one() -> None:
    law = laws(ENGINE, alphabet=[HELLO, ModelReplied(ANY, "Done."), CancelAsked()])[0]

    assert str(law) == f"L1 (pure): {law.statement}"
    law.check(max_examples=10)


def test_an_engine_that_no_configuration_alone_can_make_is_searched_as_it_is() -> None:
    """A deny rule more can't be tried on it; the rest of L5 can."""
    other = Tampered(lambda before, event, transition: transition)

    next(law for law in laws(other) if law.name == "L5").check(max_examples=10)


@settings(max_examples=20)
@given(st.data())
def test_policies_and_states_are_drawn(data: st.DataObject) -> None:
    """States that were reached by runs come back from JSON; a policy's verdict on a reply's calls is one of three."""
    state = data.draw(states(WORKERS))
    policy = data.draw(policies())

    assert from_data(to_data(state), AgentState) == state
    for proposed in data.draw(replies(CONFIG)).calls:
        tool = next((tool for tool in CONFIG.tools if tool.name == proposed.name), LOOK)
        assert policy.judge(ToolCall("c", proposed.name), tool).action in ("allow", "ask", "deny")

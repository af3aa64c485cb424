"""The laws meet engines of other people: without a configuration, impure, raising, impossible to record."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalGiven,
    AskApproval,
    AskUser,
    CallTool,
    CancelAsked,
    CancelEffect,
    CognitiveEngine,
    EchoEngine,
    EffectId,
    GenerationOptions,
    HookReturned,
    Input,
    LimitHit,
    Limits,
    LLMEngine,
    ModelReplied,
    Policy,
    ProposedCall,
    Question,
    Rule,
    RunHook,
    ShutdownAsked,
    SpawnWorker,
    TimerFired,
    ToolCall,
    ToolFailed,
    ToolReturned,
    ToolSpec,
    Transition,
    Usage,
    UserSpoke,
    WorkerSpec,
    from_data,
    to_data,
)
from cognition.testing import (
    ANY,
    Edge,
    Turn,
    World,
    default_alphabet,
    explore,
    laws,
    moves,
)
from cognition.testing._engine_under_test import EngineUnderTest, Problem
from cognition.testing._law import Law
from cognition.testing._search import Walk
from cognition.testing._situations import situation
from cognition.testing._trace import contrast
from cognition.testing._world import after, can_answer, changed_by, count, granted_by, take
from cognition.testing.strategies import answers

LOOK, WRITE = ToolSpec("look", read_only=True), ToolSpec("write", approval=True)
CONFIG = AgentConfig(
    tools=(LOOK, WRITE),
    limits=Limits(steps=3, workers=2, hook_continuations=1),
    options=GenerationOptions(max_tokens=100),
    features=("questions", "tasks", "plan", "memory", "workers"),
    hooks=("before_tool", "stop"),
)
HELLO = UserSpoke("Hello")
Change = Callable[[AgentState, Input, Transition], Transition]


def law_of(engine: object, name: str) -> Law:
    return next(law for law in laws(engine) if law.name == name)  # type: ignore[arg-type]  # an engine of the test


def others(name: str) -> tuple[str, ...]:
    return tuple(law.name for law in laws(EchoEngine()) if law.name != name)


def calling(effect_id: str, *names: str) -> ModelReplied:
    return ModelReplied(EffectId(effect_id), calls=tuple(map(ProposedCall, names)))


class Changed(LLMEngine):
    """An engine whose steps go through a function of the test."""

    def __init__(self, change: Change, config: AgentConfig = CONFIG) -> None:
        super().__init__(config)
        self.change = change

    def step(self, state: AgentState, input: Input | None) -> Transition:
        transition = super().step(state, input)
        return transition if input is None else self.change(state, input, transition)


class Opaque:
    """An engine that shows nothing but its ``step``."""

    def __init__(self, config: AgentConfig) -> None:
        self._engine = LLMEngine(config)

    def step(self, state: AgentState, input: Input | None) -> Transition:
        return self._engine.step(state, input)


# --------------------------------------------------------------------------------------- what keeps the laws


@pytest.mark.parametrize("hooks", [(), CONFIG.hooks], ids=["without hooks", "with hooks"])
def test_an_engine_without_a_configuration_is_held_to_what_can_be_told_without_one(hooks: tuple[str, ...]) -> None:
    """Tools, policy and limits are then unknown; no law claims that they were broken."""
    config = evolve(CONFIG, hooks=hooks)
    engine = Opaque(config)
    found = explore(engine, default_alphabet(config), limit=250)

    assert (found.violation, found.states) == (None, 250)
    assert EngineUnderTest.of(engine).stricter(Rule("deny", "*")) is None


def test_an_engine_that_remembers_notes_without_a_configuration_is_believed() -> None:
    engine = Opaque(AgentConfig(features=("memory", "workers")))
    worker = ProposedCall("spawn_worker", '{"name": "one", "objective": "look"}')
    note = ProposedCall("remember", '{"text": "a note"}')
    walk = Walk(laws(engine))
    for event in (HELLO, ModelReplied(EffectId("1.1.0"), calls=(note, worker))):
        walk.take(event)

    assert [type(effect).__name__ for effect in walk.world.open] == ["SpawnWorker"]


@pytest.mark.parametrize("made", [LLMEngine, Opaque], ids=["with its configuration", "without"])
def test_a_call_that_its_tool_lets_be_tried_again_breaks_no_law(made: Callable[[AgentConfig], CognitiveEngine]) -> None:
    walk = Walk(laws(made(AgentConfig(tools=(ToolSpec("fetch", read_only=True, retries=(2.0,)),)))))
    for event in (
        HELLO,
        calling("1.1.0", "fetch"),
        ToolFailed(EffectId("1.1.1"), "busy", transient=True),
        TimerFired(EffectId("1.1.2")),
    ):
        walk.take(event)

    assert [type(effect).__name__ for effect in walk.world.open] == ["CallTool"]


@pytest.mark.parametrize("made", [LLMEngine, Opaque], ids=["with its configuration", "without"])
def test_a_call_that_is_denied_breaks_no_law(made: Callable[[AgentConfig], CognitiveEngine]) -> None:
    walk = Walk(laws(made(AgentConfig(tools=(LOOK, WRITE), policy=Policy((Rule("deny", "write"),))))))
    for event in (HELLO, calling("1.1.0", "write")):
        walk.take(event)

    assert [type(effect).__name__ for effect in walk.world.open] == ["CallModel"]


def test_an_engine_may_build_its_state_anew_at_each_step() -> None:
    """Equal is the same: what was remembered before is not taken for something that the user did not say."""

    def rebuilt(_before: AgentState, _event: Input, transition: Transition) -> Transition:
        state: AgentState = from_data(to_data(transition.next_state), AgentState)
        return evolve(transition, next_state=state)

    walk = Walk(laws(Changed(rebuilt, evolve(CONFIG, hooks=()))))
    for event in (
        HELLO,
        calling("1.1.0", "write", "look"),
        ApprovalGiven(EffectId("1.1.1"), always=True),
        ToolReturned(EffectId("1.1.2"), "ok"),
        ToolReturned(EffectId("1.1.3"), "ok"),
    ):
        walk.take(event)

    assert [rule.tool for rule in walk.world.state.remembered] == ["write"]


def test_three_calls_at_once_may_be_answered_in_any_order() -> None:
    walk = Walk([law_of(LLMEngine(evolve(CONFIG, hooks=())), "L3")])
    calls = tuple(ProposedCall("look", {"n": number}) for number in range(3))
    for event in (HELLO, ModelReplied(EffectId("1.1.0"), calls=calls)):
        walk.take(event)

    assert len(walk.world.open) == 3


def test_what_never_ends_is_given_up_and_what_raises_is_left_to_the_law_of_totality() -> None:
    """Only L2 speaks of exceptions, and no check waits for an engine that starts one call after another."""

    def endless(before: AgentState, event: Input, transition: Transition) -> Transition:
        if isinstance(event, ToolReturned):
            number = int(event.effect_id.rpartition(".")[2]) + 10
            call = ToolCall(f"call-1-1-{number}", "look")
            return Transition(before, (CallTool(EffectId(f"1.1.{number}"), call),))
        return transition

    def raising(_before: AgentState, event: Input, transition: Transition) -> Transition:
        if isinstance(event, ModelReplied):
            raise ValueError("no")
        return transition

    config = evolve(CONFIG, hooks=())
    world = World()
    for event in (HELLO, calling("1.1.0", "look", "look")):
        world = take(LLMEngine(config), world, event).after
    asked = take(LLMEngine(config), World(), HELLO).after

    assert law_of(Changed(endless, config), "L3").state(world) is None
    assert law_of(Changed(raising, config), "L10").state(asked) is None
    assert law_of(Changed(raising, config), "L8").state(asked) is None
    assert explore(Changed(raising, config), limit=5, leave_out=others("L10")).violation is None


def test_an_engine_that_never_speaks_is_not_asked_to_speak_after_a_reset() -> None:
    """It asks the program for ever, in a new session too: that is another matter than a reset that mends nothing."""

    def asking(before: AgentState, event: Input, transition: Transition) -> Transition:
        if isinstance(event, HookReturned | UserSpoke):
            turn, _, number = getattr(event, "effect_id", "1.0.0").rpartition(".")
            return Transition(before, (RunHook(EffectId(f"{turn}.{int(number) + 1}"), "user_message"),))
        return transition

    assert law_of(Changed(asking), "L10").state(World()) is None


# ------------------------------------------------------------------------------------------ what breaks them


def test_a_call_runs_by_the_mode_of_that_very_moment() -> None:
    """The mode that a step sets holds for what it decides afterwards (law L5)."""
    config = evolve(CONFIG, hooks=())
    engine, law = LLMEngine(config), law_of(LLMEngine(config), "L5")
    world = take(engine, World(), HELLO).after
    edge = take(engine, world, calling("1.1.0", "enter_plan_mode", "look"))
    ran = edge.transition.decisions[-1]
    assert isinstance(ran, CallTool)
    forbidden = evolve(engine.config, tools=(evolve(LOOK, read_only=False), WRITE))

    problem = law_of(LLMEngine(forbidden), "L5").step(edge)

    assert law.step(edge) is None
    assert problem is not None
    assert problem.text == "call-1-1-2 runs, and for 'look' the word is 'deny'"


@pytest.mark.parametrize(
    ("limits", "turn", "expected"),
    [
        (
            Limits(input_tokens=10),
            Turn(usage=Usage(10, 0)),
            "CallTool 1.1.1 is decided though input_tokens are",
        ),
        (Limits(output_tokens=10), Turn(usage=Usage(0, 10)), "though output_tokens are used up"),
        (Limits(cost=0.5), Turn(usage=Usage(cost=0.5)), "though cost are used up"),
        (Limits(seconds=1.0), Turn(started_at=-1.0), "though seconds are used up"),
    ],
)
def test_a_call_beyond_each_budget_is_found(limits: Limits, turn: Turn, expected: str) -> None:
    """Tokens, cost and time are counted from outside (law L6)."""
    config = evolve(CONFIG, hooks=())
    asked = take(LLMEngine(config), World(), HELLO).after
    edge = take(LLMEngine(config), evolve(asked, turn=turn), calling("1.1.0", "look"))
    law = law_of(LLMEngine(evolve(config, limits=limits)), "L6")

    problem = law.step(edge)

    assert problem is not None
    assert expected in problem.text


def test_calls_of_two_replies_do_not_run_together() -> None:
    """Read-only neighbours are those of one reply (law L4)."""
    engine = LLMEngine(evolve(CONFIG, hooks=()))
    world = World()
    for event in (HELLO, calling("1.1.0", "look"), ToolReturned(EffectId("1.1.1"), "ok"), calling("1.2.0", "look")):
        world = take(engine, world, event).after
    late = CallTool(EffectId("1.2.9"), ToolCall("call-1-1-1", "look"))
    transition = Transition(world.state, (late,))

    problem = law_of(engine, "L4").step(Edge(world, CancelAsked(), transition, world))

    assert problem is not None
    assert problem.text == "call-1-1-1 runs while call-1-2-1 is open, and not all may run together"


def test_what_stands_between_decisions_of_calls_changes_nothing() -> None:
    """Notices are none of L4's matter, and what was decided a moment ago may be cancelled (law L7)."""
    engine = LLMEngine(evolve(CONFIG, hooks=()))
    asked = take(engine, World(), HELLO).after
    edge = take(engine, asked, calling("1.1.0", "look"))
    ran = edge.transition.decisions[-1]
    assert isinstance(ran, CallTool)
    more = evolve(edge.transition, decisions=(ran, LimitHit("steps", "no more"), CancelEffect(ran.effect_id)))

    assert law_of(engine, "L4").step(evolve(edge, transition=more)) is None
    assert law_of(engine, "L7").step(evolve(edge, transition=more)) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"phase": object()}, "the state can't be recorded: ConfigError"),
        ({"remembered": []}, "the state comes back from its JSON changed: remembered"),
    ],
)
def test_a_state_that_json_can_not_carry_is_found(changes: dict[str, object], expected: str) -> None:
    """What lies beside the types is lost when a session is stored (law L8)."""

    def spoilt(_before: AgentState, event: Input, transition: Transition) -> Transition:
        if not isinstance(event, UserSpoke):
            return transition
        return evolve(transition, next_state=evolve(transition.next_state, **changes))  # type: ignore[arg-type]

    found = explore(Changed(spoilt), limit=20, leave_out=others("L8"))

    assert found.violation is not None
    assert expected in found.violation.problem
    assert list(found.violation.story.inputs) == [HELLO]


def test_what_an_engine_knows_besides_its_state_is_found_by_an_exploration() -> None:
    """It goes on otherwise from a state that was stored (law L8)."""
    known: list[AgentState] = []

    def attached(before: AgentState, event: Input, transition: Transition) -> Transition:
        if isinstance(event, ModelReplied) and not any(before is one for one in known):
            return evolve(transition, decisions=())
        known.append(transition.next_state)
        return transition

    found = explore(Changed(attached, evolve(CONFIG, hooks=())), limit=20, leave_out=others("L8"))

    assert found.violation is not None
    assert found.violation.problem.startswith("a stored state goes on otherwise than the live one: decisions")


def test_an_input_that_a_step_changes_is_found_although_nothing_comes_of_it() -> None:
    """Inputs are kept beside copies that no engine sees (law L1)."""

    def stamping(before: AgentState, event: Input, transition: Transition) -> Transition:
        if isinstance(event, CancelAsked) and before.mode == "auto":
            object.__setattr__(event, "at", 5.0)
        return transition

    found = explore(Changed(stamping), limit=20, leave_out=others("L1"))

    assert found.violation is not None
    assert "step changed its argument, the input" in found.violation.problem
    assert isinstance(found.violation.story.inputs[-1], CancelAsked)


def test_a_change_that_can_not_be_seen_a_second_time_is_told_as_that() -> None:
    """An engine that changes its argument once, and never again, leaves no better story (law L1)."""
    done: list[bool] = []

    def once(before: AgentState, event: Input, transition: Transition) -> Transition:
        if isinstance(event, ShutdownAsked) and before.history:
            if not done:
                object.__setattr__(before, "resume_mode", "careful")
            done.append(True)
            return evolve(transition, next_state=evolve(transition.next_state, resume_mode="default"))
        return transition

    found = explore(Changed(once), limit=20, leave_out=others("L1"))

    assert found.violation is not None
    assert "the same steps do not lead to the same again" in found.violation.problem


def test_a_mistake_in_a_check_is_no_finding_about_the_engine() -> None:
    """What a law of one's own raises by mistake comes out as it is."""

    def broken(_subject: EngineUnderTest, _edge: Edge) -> Problem | None:
        raise ZeroDivisionError

    law = evolve(law_of(LLMEngine(CONFIG), "L6"), edges=(broken,))

    with pytest.raises(ZeroDivisionError):
        law.check(max_examples=20)


# ------------------------------------------------------------------------------------------------ the tools


def test_what_an_alphabet_has_no_answer_for_is_not_answered() -> None:
    """Late answers are made of letters; without a letter there is none."""
    world = World()
    for event in (HELLO, CancelAsked()):
        world = take(LLMEngine(CONFIG), world, event).after
    assert [type(effect).__name__ for effect in world.over] == ["CallModel"]

    assert moves(world, [HELLO, CancelAsked()]) == [HELLO, CancelAsked()]
    assert moves(world, [ModelReplied(ANY, "Done.")])[0] == ModelReplied(EffectId("1.1.0"), "Done.")


@settings(max_examples=30)
@given(st.data())
def test_answers_to_questions_fit_the_questions(data: st.DataObject) -> None:
    """One choice each, or all where several are allowed."""
    questions = data.draw(
        st.lists(st.builds(Question, st.just("Which?"), st.just(("one", "two")), st.booleans()), min_size=1, max_size=4)
    )
    effect = AskUser(EffectId("1.1.1"), tuple(questions))

    assert can_answer(data.draw(answers(effect)), effect)


def test_an_engine_that_can_not_be_built_from_a_configuration_has_no_stricter_one() -> None:
    class Named(LLMEngine):
        def __init__(self, config: AgentConfig, *, name: str) -> None:
            super().__init__(config)
            self.name = name

    assert EngineUnderTest.of(Named(CONFIG, name="one")).stricter(Rule("deny", "*")) is None


def test_a_world_counts_what_an_accepted_input_means_and_nothing_else() -> None:
    """What was not asked about is not granted, and a hook changes the arguments of calls only."""
    write, look = ToolCall("call-1-1-1", "write"), ToolCall("call-1-1-2", "look")
    hook = RunHook(EffectId("1.1.1"), "stop", "Done.")
    world = World(open=(hook, AskApproval(EffectId("1.1.2"), look)), granted=(write,))
    worker = SpawnWorker(EffectId("1.1.9"), WorkerSpec("one", "look"), (), Limits(), (), "default")
    spawned = Transition(world.state, (worker,))

    assert granted_by(world, ApprovalGiven(EffectId("1.1.1"))) == (write,)
    assert granted_by(world, ApprovalGiven(EffectId("1.1.2"))) == (write, look)
    assert changed_by(world, HookReturned(EffectId("1.1.1"), arguments_json="{}")) == ()
    assert count(world, calling("1.1.0", "look")) is None
    assert after(world, CancelAsked(), spawned).granted == (write,)


def test_situations_are_equal_up_to_names_and_keep_which_things_share_one() -> None:
    """Ids may have any text, and two of them stay two however little they differ."""

    def running(*names: str) -> World:
        return World(open=tuple(CallTool(EffectId(name), ToolCall(f"call-{name}", "look")) for name in names))

    assert situation(running("1.1.1", "2.1.1")) == situation(running("7.1.1", "x"))
    assert situation(running("1.1.1", "2.1.1")) != situation(running("1.1.1", "1.1.1"))


def test_values_without_a_difference_are_told_whole() -> None:
    assert contrast(World(), World()).startswith("the whole\n    first:  World(")

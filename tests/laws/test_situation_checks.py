"""Checks of more than one step can fail, too: whole engines that were tampered with, sessions, explorations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalGiven,
    CallTool,
    CancelAsked,
    CancelEffect,
    Cancelled,
    Failed,
    History,
    HookReturned,
    Idle,
    Input,
    Limits,
    LLMEngine,
    ModeChanged,
    ModelReplied,
    Rejected,
    SessionReset,
    ToolCall,
    ToolMessage,
    ToolReturned,
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
from cognition.steps.decisions import ModeSet, RunHook
from cognition.steps.phases import ModelAttempt
from cognition.testing import ANY, Edge, LawViolation, Turn, World, explore, laws
from cognition.testing._search import Walk
from cognition.testing._trace import contrast, shorten
from cognition.testing._world import after, count, take
from cognition.testing.strategies import policies, replies, states
from tests.laws.tampering import (
    CONFIG,
    ENGINE,
    HELLO,
    LOOK,
    SPAWN,
    WORKERS,
    Change,
    add,
    call,
    calling,
    effect,
    only,
    state,
    without,
)


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

    law = next(law for law in laws(Tampered(spoilt, evolve(CONFIG, edition=1))) if law.name == "L10")
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
    assert shorten("x" * 50, 4) == '"xxxx…" (+46)'
    assert shorten("a\nb") == '"a\\nb"'


def test_mode_and_hook_decisions_are_told() -> None:
    from cognition.testing._trace import describe

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
        (Turn(objected=2), ModelReplied(effect("1.1.0"), "[]", objection="a list"), "the 3th answer that is not"),
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
    law = laws(ENGINE, alphabet=[HELLO, ModelReplied(ANY, "Done."), CancelAsked()], without="tools")[0]

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

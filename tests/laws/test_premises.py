"""A law is held only if a search reached what the law is about; otherwise it is inconclusive."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalGiven,
    ApprovalRefused,
    CallTool,
    CancelAsked,
    ConfigError,
    EchoEngine,
    EffectId,
    Input,
    Limits,
    LLMEngine,
    ModeChanged,
    ModelReplied,
    ProposedCall,
    Rejected,
    ToolReturned,
    ToolSpec,
    Transition,
    TurnFinished,
    UserMessage,
    UserSpoke,
)
from cognition.testing import (
    ANY,
    InconclusiveError,
    Law,
    LawViolation,
    explore,
    laws,
)
from cognition.testing._engine_under_test import EngineUnderTest
from cognition.testing._premises import PREMISES, Coverage
from cognition.testing._scouting import plans
from cognition.testing._world import World, take
from examples.faulty_engines import CONFIG, FAULTY

LOOK, WRITE = ToolSpec("look", read_only=True), ToolSpec("write", approval=True)
PLAIN = LLMEngine(AgentConfig(tools=(LOOK, WRITE)))
HELLO, WORD = UserSpoke("Hello"), UserSpoke("open sesame")
DONE = ModelReplied(ANY, "Done.")
NAMES = list(PREMISES)


def law_of(engine: object, name: str, alphabet: Sequence[Input] | None = None, without: Sequence[str] = ()) -> Law:
    found = laws(engine, alphabet=alphabet, without=without)  # type: ignore[arg-type]  # an engine of the test
    return next(law for law in found if law.name == name)


def texts(premises: Sequence[object]) -> list[str]:
    return [premise.text for premise in premises]  # type: ignore[attr-defined]  # premises


# ------------------------------------------------------------------------------------ faults behind a certain message


class Behind:
    """An engine whose tools start only after a certain message; from then on it has the fault of another engine."""

    def __init__(self, name: str) -> None:
        self.sound, self.faulty = LLMEngine(CONFIG), FAULTY[name]()
        self.config = CONFIG

    def step(self, state: AgentState, input: Input | None) -> Transition:
        spoken = [message for message in state.history if isinstance(message, UserMessage)]
        if any(message.text == WORD.text for message in spoken):
            return self.faulty.step(state, input)
        if isinstance(input, ModelReplied) and (input.calls or input.malformed):
            input = evolve(input, calls=(), malformed=(), text="Done.")
        return self.sound.step(state, input)


@pytest.mark.parametrize("name", NAMES)
def test_no_law_passes_for_an_engine_whose_tools_never_start(name: str) -> None:
    """Each law is also about what happens when a tool runs."""
    law = law_of(Behind(name), name)

    with pytest.raises(InconclusiveError) as raised:
        law.check(max_examples=3)

    assert raised.value.report.status == "inconclusive"
    assert any("tools" in premise.needs for premise in raised.value.report.unreached)
    assert all(premise.text in str(raised.value) for premise in raised.value.report.unreached)
    assert "laws(engine, alphabet=[...])" in str(raised.value)
    assert f"'tools' or '{name}'" in str(raised.value)


LETTERS = (
    WORD,
    ModelReplied(ANY, calls=(ProposedCall("write"), ProposedCall("look"))),
    ModelReplied(ANY, calls=(ProposedCall("look"), ProposedCall("sort"))),
    ModelReplied(ANY),
    DONE,
    ToolReturned(ANY, "ok"),
    ApprovalGiven(ANY),
    ApprovalRefused(ANY, "no"),
    CancelAsked(),
)


@pytest.mark.parametrize("name", NAMES)
def test_an_alphabet_with_that_message_finds_the_fault(name: str) -> None:
    with pytest.raises(LawViolation) as raised:
        law_of(Behind(name), name, LETTERS).check(max_examples=40)

    assert raised.value.law.name == name
    assert WORD in raised.value.story.inputs


class Stubborn:
    """Runs a tool when a message says so, without any configuration, and ignores a cancellation while it runs."""

    def __init__(self, word: str = "weather") -> None:
        self.engine, self.word = LLMEngine(AgentConfig(tools=(LOOK,))), word

    def step(self, state: AgentState, input: Input | None) -> Transition:
        effect_id = getattr(state.phase, "effect_id", None)
        if isinstance(input, CancelAsked) and effect_id is None and type(state.phase).__name__ == "Acting":
            return Transition(state, (Rejected("out_of_phase", "CancelAsked", "a tool is running"),))
        if isinstance(input, ModelReplied):
            input = evolve(input, calls=(), malformed=())
        transition = self.engine.step(state, input)
        if not isinstance(input, UserSpoke) or self.word not in input.text or not transition.decisions:
            return transition
        asked = transition.decisions[-1]
        reply = ModelReplied(getattr(asked, "effect_id", EffectId("")), calls=(ProposedCall("look"),))
        return self.engine.step(transition.next_state, reply)


def test_an_engine_that_ignores_a_cancellation_while_a_tool_runs_is_caught() -> None:
    """No drawn message starts its tool. An alphabet, or the name of the tool in its configuration, does."""
    letters = (UserSpoke("weather"), ToolReturned(ANY, "sunny"), DONE, CancelAsked())
    named = Stubborn("look")
    named.config = named.engine.config  # type: ignore[attr-defined]  # what the kit looks for

    report = law_of(Stubborn(), "L7").report(max_examples=20)
    with pytest.raises(LawViolation, match="a turn is under way and cancelling it is rejected") as by_letters:
        law_of(Stubborn(), "L7", letters).check(max_examples=1, max_inputs=0)
    with pytest.raises(LawViolation, match="a turn is under way and cancelling it is rejected") as by_name:
        law_of(named, "L7").check(max_examples=1, max_inputs=0)

    assert report.status == "inconclusive"
    assert texts(report.unreached) == ["a cancellation arrived while a tool ran"]
    assert [type(event) for event in by_letters.value.story.inputs] == [UserSpoke, CancelAsked]
    assert "look" in by_name.value.story.inputs[0].text  # type: ignore[union-attr]  # a message


# ------------------------------------------------------------------------------- no premise is vacuous


TALK_ONLY = (HELLO, DONE, CancelAsked(), ModeChanged("auto"))


@pytest.mark.parametrize("name", NAMES)
def test_a_premise_is_not_reached_by_inputs_that_do_not_lead_there(name: str) -> None:
    """Talk alone runs no tools and meets no limits; a change of mode alone is only accepted."""
    talk = law_of(PLAIN, name, TALK_ONLY).report(max_examples=10)
    modes = law_of(PLAIN, name, (ModeChanged("auto"),)).report(max_examples=3)

    beyond = [one for one in PREMISES[name] if {"tools", "limits", "context"} & set(one.needs)]
    assert texts(talk.unreached) == texts(beyond)
    assert texts(modes.unreached) == texts(PREMISES[name])
    assert {talk.status, modes.status} == {"inconclusive"}


def reached_by(config: AgentConfig, *inputs: Input) -> dict[str, list[int]]:
    """The steps, from 1 on, by which each premise was reached."""
    world, found = World(), dict[str, list[int]]()
    for number, event in enumerate(inputs, 1):
        edge = take(LLMEngine(config), world, event)
        for premise in dict.fromkeys(premise for some in PREMISES.values() for premise in some):
            coverage = Coverage([premise])
            coverage.see(edge)
            if coverage.counts[0]:
                found.setdefault(premise.text, []).append(number)
        world = edge.after
    return found


def calling(effect_id: str, *names: str) -> ModelReplied:
    return ModelReplied(EffectId(effect_id), calls=tuple(map(ProposedCall, names)))


def test_each_premise_is_reached_by_the_step_that_it_names() -> None:
    late, write = ToolReturned(EffectId("7.7.7"), "late"), ToolSpec("write", approval=True)
    found = reached_by(
        AgentConfig(tools=(LOOK, write), limits=Limits(steps=1)),
        HELLO,
        calling("1.1.0", "look", "write"),
        late,
        ToolReturned(EffectId("1.1.1"), "ok"),
        ApprovalGiven(EffectId("1.1.2")),
        ToolReturned(EffectId("1.1.3"), "ok"),
        ModelReplied(EffectId("1.2.0"), "Done."),
        late,
        HELLO,
        calling("2.1.0", "write"),
        ApprovalRefused(EffectId("2.1.1")),
    )

    assert found == {
        "a message was accepted": [1, 9],
        "a model call was answered": [2, 7, 10],
        "a running tool was answered": [4, 6],
        "the model was called": [1, 6, 9, 11],
        "a cancellation arrived while the model was called": [1, 6, 9, 11],
        "benign answers were given from a model call on": [1, 6, 9, 11],
        "a cancellation arrived while a tool ran": [2, 5],
        "benign answers were given from a running tool on": [2, 5],
        "a call ran": [2, 5],
        "a call ran that was not the only one of its reply": [2, 5],
        "a call ran that the user had approved": [5],
        "a call was denied or refused": [11],
        "an input that did not belong was rejected": [3, 8],
        "an input that did not belong was rejected while a tool ran": [3],
        "the model was called with the result of a call": [6, 9, 11],
        "a limit was reached": [6, 7, 11],
        "a turn ended": [7],
    }


@pytest.mark.parametrize(("compact_at", "steps"), [(None, [3, 5]), (0.5, [3, 4])], ids=["cut", "summarised"])
def test_a_conversation_is_too_long_where_a_request_leaves_something_out(
    compact_at: float | None, steps: list[int]
) -> None:
    """The fifth message fits no context; with summaries one is under way by then."""
    long = UserSpoke("long " * 150)
    config = AgentConfig(context_tokens=700, compact_at=compact_at)
    found = reached_by(
        config,
        long,
        ModelReplied(EffectId("1.1.0"), "Done."),
        long,
        ModelReplied(EffectId("2.1.0"), "Done."),
        UserSpoke("long " * 900),
    )

    assert found["the conversation was too long for a request"] == steps
    assert "a limit was reached" not in found


# ------------------------------------------------------------------------------- what an engine lacks


def test_what_an_engine_lacks_is_not_required_and_is_still_counted() -> None:
    report = law_of(EchoEngine(), "L2", without=("model", "tools")).check(max_examples=5)

    assert report.status == "held"
    assert str(report).splitlines() == [
        "L2 total: held",
        f"{report.counts[0]:>8}  a message was accepted",
        f"{report.counts[1]:>8}  an input that did not belong was rejected",
        "       -  an input that did not belong was rejected while a tool ran",
    ]


def test_a_law_that_does_not_apply_is_named_and_still_checked() -> None:
    sound = law_of(LLMEngine(AgentConfig()), "L4", without=("L4",)).check(max_examples=2)

    assert (sound.status, sound.law.required) == ("not applicable", ())
    with pytest.raises(LawViolation):
        law_of(FAULTY["L4"](), "L4", without=("L4",)).check(max_examples=200)


@pytest.mark.parametrize(("part", "problem"), [("tools", "the engine runs 'look'"), ("model", "calls a model")])
def test_an_engine_that_has_what_it_is_said_to_lack_is_an_error(part: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        law_of(LLMEngine(AgentConfig(tools=(LOOK,))), "L3", without=(part,)).check(max_examples=30)


def test_an_unknown_word_is_an_error() -> None:
    with pytest.raises(ConfigError, match="without='tool': an engine may lack 'model', 'tools'"):
        laws(EchoEngine(), without="tool")


# ----------------------------------------------------------------------------------------------- runs made on purpose


class Fixed(LLMEngine):
    """An engine that can't be created from a configuration alone, so that no rule or limit can be added to it."""

    def __init__(self, config: AgentConfig, *, name: str) -> None:
        super().__init__(config)
        self.name = name


@pytest.mark.parametrize("name", NAMES)
def test_a_single_drawn_run_is_enough_to_reach_every_premise(name: str) -> None:
    """The kit makes the tools of a configuration start by itself."""
    engine = Fixed(AgentConfig(tools=(LOOK, WRITE)), name="one")

    report = law_of(engine, name).check(max_examples=1, max_inputs=0)

    assert report.status == "held"
    assert all(report.counts)


def test_an_engine_without_tools_still_meets_inputs_that_do_not_belong() -> None:
    report = law_of(LLMEngine(AgentConfig()), "L2", without=("tools",)).check(max_examples=1, max_inputs=0)

    assert report.counts[:2] == (1, 1)


def test_rules_and_limits_are_added_where_an_engine_has_none() -> None:
    """Nothing asks or denies here, and the limit of 1,000 steps is far away."""
    engine = LLMEngine(AgentConfig(tools=(LOOK,), limits=Limits(steps=1000, tool_calls=None)))
    letters = (HELLO, calling("*", "look"), ModelReplied(ANY), ToolReturned(ANY, "ok"), DONE, ApprovalGiven(ANY))

    for name in ("L5", "L6"):
        assert all(law_of(engine, name).check(max_examples=1, max_inputs=0).counts)
        assert all(law_of(engine, name, letters).check(max_examples=1, max_inputs=0).counts)


def test_a_run_made_on_purpose_ends_where_the_engine_raises_or_breaks_the_law() -> None:
    class Raising(LLMEngine):
        def step(self, state: AgentState, input: Input | None) -> Transition:
            if isinstance(input, ToolReturned):
                raise KeyError("result")
            return super().step(state, input)

    with pytest.raises(InconclusiveError, match="a running tool was answered"):
        law_of(Raising(AgentConfig(tools=(LOOK,))), "L1").check(max_examples=1, max_inputs=0)
    with pytest.raises(LawViolation, match="step raised KeyError"):
        law_of(Raising(AgentConfig(tools=(LOOK,))), "L2").check(max_examples=1, max_inputs=0)


def test_the_runs_begin_with_the_names_of_the_tools_and_end_with_a_long_conversation() -> None:
    subject = EngineUnderTest.of(PLAIN)
    found = list(plans(subject))
    without = list(plans(EngineUnderTest.of(EchoEngine())))

    assert [plan.messages[0].text for plan in found[:4]] == ["look", "Call look.", "write", "Call write."]
    assert len(found[-1].messages[0].text) * len(found[-1].messages) > 3 * subject.budget
    assert without[-2].replies[0].calls == (ProposedCall("nowhere", '{"n": 0}'),)


# ------------------------------------------------------------------------------- explorations


def test_an_exploration_reports_what_it_reached() -> None:
    engine = LLMEngine(AgentConfig(tools=(LOOK,), limits=Limits(steps=2)))
    found = explore(engine, limit=60, leave_out=("L4", "L5", "L9"))
    talk = explore(engine, TALK_ONLY, limit=20, without="tools")

    assert [(report.law.name, report.status) for report in found.reports] == [
        (name, "held") for name in ("L1", "L2", "L3", "L6", "L7", "L8", "L10")
    ]
    assert all(sum(report.counts) <= 3 * found.transitions for report in found.reports)
    assert [report.law.name for report in talk.reports if report.status == "inconclusive"] == ["L6", "L9"]
    assert [report.law.name for report in talk.reports if report.status == "not applicable"] == ["L3", "L4", "L5"]
    assert explore(engine, TALK_ONLY, limit=5, leave_out=NAMES).reports == ()


def test_an_exploration_reports_the_law_that_is_broken() -> None:
    found = explore(FAULTY["L7"](), limit=300)

    assert [report.law.name for report in found.reports if report.status == "broken"] == ["L7"]
    assert [report.violation for report in found.reports if report.violation] == [found.violation]


def test_a_tool_that_a_reader_of_an_engine_expects_is_a_call_that_runs() -> None:
    """The premises read decisions, so an engine that finishes its turns without tools reaches none about them."""
    edge = take(EchoEngine(), World(), HELLO)
    kinds = [type(decision) for decision in edge.transition.decisions]
    coverage = Coverage(PREMISES["L7"])
    coverage.see(edge)

    assert (kinds, CallTool in kinds, coverage.counts) == ([TurnFinished], False, [0, 0])

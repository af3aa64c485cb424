"""Every value becomes JSON data and comes back equal; data that is no value says where and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import pytest
from attrs import frozen
from hypothesis import example, given, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CodecError,
    ConfigError,
    Decision,
    EffectId,
    FinishReason,
    GenerationOptions,
    History,
    Input,
    Limits,
    LLMEngine,
    MalformedToolCall,
    Message,
    ModelReplied,
    Outcome,
    Policy,
    ProposedCall,
    Rule,
    ToolReturned,
    ToolSpec,
    Usage,
    UserMessage,
    UserSpoke,
    fold,
    from_data,
    to_data,
    transitions,
)
from cognition.steps import codec
from cognition.steps.codec import tags_of
from cognition.steps.inputs import INPUT_TYPES
from cognition.steps.phases import CallStatus
from tests.cognition.samples import UNIONS, some

CONFIG = AgentConfig(
    system="Be brief.",
    tools=(ToolSpec("work", "Works.", {"type": "object", "properties": {"n": {"type": "integer"}}}, read_only=True),),
    options=GenerationOptions(0.7, 1, 99, ("stop",), True, logit_bias=((3, 1.5),)),
    limits=Limits(3, 4, 5, 6, 7, 0.5, 9.5),
    policy=Policy((Rule("deny", "x*", "no"),), "ask"),
)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("union", UNIONS)
def test_every_member_of_a_union_has_its_own_tag(union: Any) -> None:
    tags = tags_of(union)

    assert set(get_args(union)) == set(tags)
    assert len(tags) == len(set(tags.values()))
    assert all(tags[member] == vars(member)["tag"] for member in tags), "said by the class itself, not inherited"


@frozen
class Circle:
    tag: ClassVar[str] = "circle"
    radius: int = 1


@frozen
class Ring(Circle):
    """It inherits the tag, and says none itself."""


@frozen
class Disc:
    tag: ClassVar[str] = "circle"


@frozen
class Drawing:
    shape: Circle | UserMessage


def test_a_union_of_a_package_above_needs_no_announcement() -> None:
    """Its members say their tags, and fields of its type are written and read with them."""
    drawing = Drawing(Circle(2))

    assert to_data(drawing) == {"shape": {"type": "circle", "radius": 2}}
    assert from_data(through_json(to_data(drawing)), Drawing) == drawing
    with pytest.raises(CodecError, match="unknown type 'square'; expected one of: circle, user"):
        from_data({"shape": {"type": "square"}}, Drawing)


def test_a_union_whose_members_can_t_be_told_apart_is_none() -> None:
    assert tags_of(Circle | Ring) == {}
    assert tags_of(Circle | None) == {}
    assert tags_of(Circle) == {}
    with pytest.raises(ConfigError, match="a tag of its own"):
        tags_of(Circle | Disc)


INPUTS = st.one_of(*(some(kind) for kind in INPUT_TYPES))


@given(INPUTS)
def test_an_input_comes_back_equal(value: Input) -> None:
    """``structure(unstructure(x)) == x`` (law L8), through real JSON."""
    assert value == from_data(through_json(to_data(value)), Input)


@given(some(Outcome))
def test_an_outcome_comes_back_equal(value: Outcome) -> None:
    assert value == from_data(through_json(to_data(value)), Outcome)


@given(some(CallStatus))
def test_a_call_status_comes_back_equal(value: CallStatus) -> None:
    assert value == from_data(through_json(to_data(value)), CallStatus)


@given(INPUTS)
def test_a_tagged_value_is_read_with_its_own_class_as_well(value: Input) -> None:
    """Its tag says nothing else than the class, and a value without one is read as before."""
    data = through_json(to_data(value))

    assert value == from_data(data, type(value))
    assert [value] == from_data([data], list[type(value)])  # type: ignore[misc]  # a class that is drawn
    assert value == from_data({name: inner for name, inner in data.items() if name != "type"}, type(value))


@given(st.lists(some(Message), max_size=3))
def test_values_in_a_list_are_written_with_their_tags(values: list[Message]) -> None:
    for data in (to_data(values), to_data(tuple(values)), to_data({"them": values})["them"]):
        assert values == from_data(through_json(data), list[Message])
    assert values == list(from_data(through_json(to_data(values)), Sequence[Message]))


SPOKE = UserSpoke("Hi")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: from_data(UserSpoke, to_data(SPOKE)), "second argument has to be a type, such as .*not a dict"),
        (lambda: from_data(to_data(SPOKE), SPOKE), "not an UserSpoke"),
        (lambda: from_data(to_data(SPOKE), "UserSpoke"), "not 'UserSpoke'"),
        (lambda: from_data(to_data(SPOKE), None), "not None"),
        (lambda: from_data(to_data(SPOKE), [UserSpoke]), "not a list"),
        (lambda: from_data({}, LLMEngine), "no data can be read as"),
        (lambda: from_data({}, str | int), "no data can be read as"),
        (lambda: to_data(UserSpoke, SPOKE), "second argument has to be a type"),
        (lambda: to_data(SPOKE, to_data(SPOKE)), "second argument has to be a type"),
        (lambda: to_data(SPOKE, AgentState), "no AgentState, but an UserSpoke"),
        (lambda: to_data(SPOKE, Message), "an UserSpoke can't be written as"),
        (lambda: to_data([SPOKE], list[Message]), "a list can't be written as"),
        (lambda: to_data(UserSpoke), "type is no class of the core"),
        (lambda: to_data([LLMEngine()]), "LLMEngine is no class of the core"),
        (lambda: to_data({1: SPOKE}), "the key 1 is no text"),
    ],
)
def test_a_mistaken_argument_is_told_as_one(call: Callable[[], Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        call()


@dataclass
class Point:
    """A class of the program's own."""

    x: int = 0
    y: int = 0


@pytest.mark.parametrize(
    ("value", "kind", "data"),
    [
        (Point(3), Point, {"x": 3}),
        (EffectId("1.1.0"), EffectId, "1.1.0"),
        ([1, "a"], Any, [1, "a"]),
        ((1, 2), Sequence[int], [1, 2]),
        ([1, 2], list[int], [1, 2]),
        ((Point(), Point(0, 4)), Sequence[Point], [{}, {"y": 4}]),
    ],
)
def test_types_that_are_no_classes_of_the_core_have_their_data_too(value: Any, kind: Any, data: Any) -> None:
    """A dataclass, a type with another name, any data, and what is said to be a sequence, which is read as a tuple."""
    assert (through_json(to_data(value, kind)), from_data(data, kind)) == (data, value)
    assert type(from_data(data, kind)) is type(value)


def test_a_dataclass_is_written_by_its_own_class_and_nothing_else_is_written_as_one() -> None:
    assert to_data([Point(3)]) == [{"x": 3}]
    with pytest.raises(ConfigError, match="this is no Point, but an UserSpoke"):
        to_data(SPOKE, Point)


@pytest.mark.parametrize(
    ("data", "kind", "told"),
    [
        (
            {"type": "model_replied", "text": "x"},
            UserSpoke,
            "the type is 'model_replied', and 'user_spoke' is expected",
        ),
        ({"type": 5, "text": "x"}, UserSpoke, "the type is 5"),
        (json.dumps({"text": "x"}), UserSpoke, "expected an object, got str"),
        ({"a": 1}, list[str], "expected an array, got dict"),
        ("ab", list[str], "expected an array, got str"),
        ("ab", Sequence[str], "expected an array, got str"),
        ("ab", list, "expected an array, got str"),
        ([["a", 1]], dict[str, int], "expected an object"),
        ([{"type": "user", "id": "m1", "text": 5}], list[Message], r"expected str, got int @ \$\[0\].text"),
        ({"name": "x", "approval": "yes"}, ToolSpec, "expected bool or an array of texts, got str"),
    ],
)
def test_data_of_another_shape_is_no_value(data: Any, kind: Any, told: str) -> None:
    with pytest.raises(CodecError, match=told):
        from_data(data, kind)


def test_plain_data_is_its_own() -> None:
    plain = [None, True, 1, 1.5, "x", {"a": [1]}]

    assert plain == to_data(plain) == from_data(plain, list)
    assert from_data([[1, "a"]], list[list[Any]]) == [[1, "a"]]


def test_a_configuration_comes_back_equal() -> None:
    assert from_data(through_json(to_data(CONFIG)), AgentConfig) == CONFIG


@given(
    st.builds(
        GenerationOptions,
        temperature=st.floats(0, 2),
        seed=st.none() | st.integers(),
        stop=st.lists(st.text(), max_size=2).map(tuple),
        thinking=st.none() | st.booleans(),
        logit_bias=st.lists(st.tuples(st.integers(0, 100), st.floats(-100, 100)), max_size=3).map(tuple),
        top_p=st.floats(0, 1, exclude_min=True),
    )
)
@example(GenerationOptions(logit_bias=((3, 1.5), (4, -2.0))))
def test_options_come_back_equal(value: GenerationOptions) -> None:
    """Pairs of unlike things included."""
    assert value == from_data(through_json(to_data(value)), GenerationOptions)


@pytest.mark.behaviour("I6")
def test_states_and_decisions_of_a_run_come_back_equal() -> None:
    inputs = [
        UserSpoke("Hello", at=1.5),
        ModelReplied(
            EffectId("1.1.0"),
            calls=(ProposedCall("work", {"n": 1}, ("trailing comma",)),),
            malformed=(MalformedToolCall("{", "cut"),),
            usage=Usage(1, 2, 3, 0.25),
        ),
    ]
    engine = LLMEngine(CONFIG)
    for transition in transitions(engine, inputs):
        assert transition.next_state == from_data(through_json(to_data(transition.next_state)), AgentState)
        for decision in transition.decisions:
            assert decision == from_data(through_json(to_data(decision)), Decision)


def test_defaults_are_left_out_and_tags_are_explicit() -> None:
    """The written form is part of the protocol: a change of it is a change of PROTOCOL_VERSION."""
    assert to_data(UserSpoke("Hi")) == {"type": "user_spoke", "text": "Hi"}
    assert to_data(ToolReturned(EffectId("1.1.1"), "x", at=2.5)) == {
        "type": "tool_returned",
        "effect_id": "1.1.1",
        "content": "x",
        "at": 2.5,
    }
    assert to_data(History([UserMessage("m1", "Hi")])) == [{"type": "user", "id": "m1", "text": "Hi"}]
    (_, call), *_ = (t.decisions for t in transitions(LLMEngine(), [UserSpoke("Hi")]))
    assert isinstance(call, CallModel)
    data = to_data(call)
    assert (data["type"], data["effect_id"]) == ("call_model", "1.1.0")
    assert to_data(AgentState()) == {}
    assert to_data(UserSpoke("Hi"), UserSpoke) == {"text": "Hi"}  # asked for as the class, not as one of many
    assert to_data(UserSpoke("Hi"), Input) == to_data(UserSpoke("Hi"))


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        ({"type": "user_spoke"}, Input, "the field is missing @ $.text"),
        ({"type": "user_spoke", "text": 5}, Input, "expected str, got int @ $.text"),
        ({"type": "user_spoke", "text": "a", "x": 1}, Input, "unknown field @ $.x"),
        ({"type": "user_spok", "text": "a"}, Input, "unknown type 'user_spok'; expected one of: user_spoke, "),
        ({"text": "a"}, Input, "the field 'type' is missing; expected one of: "),
        ({"type": ["a"]}, Input, "unknown type ['a']"),
        ([], Input, "expected an object, got list @ $"),
        (None, Input, "expected an object, got NoneType @ $"),
        ({"type": "user_spoke", "text": "a", "at": True}, Input, "expected float, got bool @ $.at"),
        ({"phase": {"type": "waiting", "effect_id": "1.1.1", "attempt": 3}}, AgentState, "got int @ $.phase.attempt"),
        ({"remembered": "x"}, AgentState, "expected an array, got str @ $.remembered"),
        ({"history": "x"}, AgentState, "expected an array, got str @ $.history"),
        ({"history": [{"type": "user", "id": "m1"}]}, AgentState, "the field is missing @ $.history[0].text"),
        (
            {"phase": {"type": "acting", "slots": [{"call": {"id": "a"}, "status": {"type": "proposed"}}]}},
            AgentState,
            "the field is missing @ $.phase.slots[0].call.name",
        ),
        ({"tools": [{"name": "no spaces"}]}, AgentConfig, "tool name 'no spaces'"),
        ({"options": {"temperature": 9}}, AgentConfig, "temperature must be between 0 and 2"),
        ({"options": {"logit_bias": [[3]]}}, AgentConfig, "expected an array of 2, got 1 @ $.options.logit_bias[0]"),
        ({"options": {"logit_bias": [[3, "x"]]}}, AgentConfig, "expected float, got str @ $.options.logit_bias[0]"),
        ({"policy": {"default": "perhaps"}}, AgentConfig, "$.policy.default"),
        ({"counters": {"turn": 1.5}}, AgentState, "expected int, got float @ $.counters.turn"),
        ("bored", FinishReason, "'bored' is not one of: stop, tool_calls"),
    ],
)
def test_wrong_data_names_the_place_and_the_problem(data: object, kind: Any, message: str) -> None:
    with pytest.raises(CodecError) as caught:
        from_data(data, kind)

    assert message in str(caught.value)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(CodecError) as caught:
        from_data({"type": "tool_returned", "effect_id": 5, "x": 1}, Input)

    assert caught.value.problems == (
        ("$.effect_id", "expected str, got int"),
        ("$.content", "the field is missing"),
        ("$.x", "unknown field"),
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.sampled_from([tag for union in UNIONS for tag in tags_of(union).values()]))
def test_hostile_data_gives_a_codec_error_or_a_value_and_nothing_else(data: Any, tag: str) -> None:
    """Whatever stands in a journal, reading it never raises anything but our own error."""
    for candidate in (data, {"type": tag, **data} if isinstance(data, dict) else data):
        for kind in (Input, Decision, AgentState, AgentConfig):
            try:
                value = from_data(candidate, kind)
            except CodecError:
                continue
            assert value == from_data(to_data(value), kind)


RUN = (
    UserSpoke("Hello", at=1.5),
    ModelReplied(
        EffectId("1.1.0"), calls=(ProposedCall("work", {"n": 1}),), malformed=(MalformedToolCall("{", "cut"),)
    ),
)
STATE = to_data(fold(LLMEngine(CONFIG), RUN))


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every container within some data, with each of its keys."""
    keys = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, list) else []
    return [(data, key) for key in keys] + [found for key in keys for found in places(data[key])]


@given(st.data())
def test_damaged_data_is_refused_and_all_else_is_read_as_it_was(drawn: st.DataObject) -> None:
    """Reading is quick first and careful when something is wrong; both take and refuse the same."""
    data = through_json(STATE)
    container, key = drawn.draw(st.sampled_from(places(data)))
    if drawn.draw(st.booleans()) and isinstance(container, dict):
        container[drawn.draw(st.text(max_size=3)) if drawn.draw(st.booleans()) else "type"] = drawn.draw(JSON)
    elif drawn.draw(st.booleans()):
        del container[key]
    else:
        container[key] = drawn.draw(JSON)

    def read(*, detailed: bool) -> str | None:
        try:
            return repr(codec._converter(detailed).structure(data, AgentState))
        except Exception:  # of any kind: what is raised is the careful reading's matter
            return None

    assert read(detailed=True) == read(detailed=False)


@pytest.mark.behaviour("B22", "I6")
def test_a_fold_over_recorded_inputs_gives_the_live_state() -> None:
    engine = LLMEngine(CONFIG)
    inputs: list[Input] = [UserSpoke("Hi"), ModelReplied(EffectId("1.1.0"), "Hello.", usage=Usage(9, 9))]
    live = AgentState()
    for event in inputs:
        live = engine.step(live, event).next_state
    recorded = [from_data(through_json(to_data(event)), Input) for event in inputs]

    assert live == fold(engine, recorded)
    assert live == fold(engine, recorded[1:], fold(engine, recorded[:1]))


def test_pairs_are_written_as_arrays() -> None:
    """Each item by its own type."""
    options = GenerationOptions(logit_bias=((3, 1.5), (4, -2.0)))

    assert to_data(options)["logit_bias"] == [[3, 1.5], [4, -2.0]]
    assert to_data(AgentConfig(options=options))["options"]["logit_bias"] == [[3, 1.5], [4, -2.0]]


@frozen
class _Labelled:
    """A class that has a field of this name, and says no tag of itself."""

    tag: str = "a label"


@pytest.mark.parametrize("kind", [list[UserSpoke], UserSpoke, UserSpoke | None, _Labelled | UserSpoke, int | str])
def test_what_is_no_union_of_tagged_classes_has_no_tags(kind: Any) -> None:
    """A list of one of them is none, nor is one with a member that only has a field named so."""
    assert tags_of(kind) == {}

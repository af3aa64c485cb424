"""What a program hands in is what its declaration says, or a ConfigError that names it: never silence, nothing raw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from enum import IntEnum
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_type_hints

import pytest
from attrs import field, fields, frozen
from hypothesis import given, strategies as st

from cognition import AgentConfig, ConfigError, GenerationOptions, Limits, Policy, RetryPolicy, Rule, ToolSpec
from cognition.base.checking import MismatchError, check_of, checked, describe_type, nearest, parts_of, show
from tests.cognition.session import has_type

KINDS: Mapping[type, Mapping[str, Any]] = {
    GenerationOptions: {},
    Limits: {},
    RetryPolicy: {},
    AgentConfig: {},
    Rule: {"action": "allow", "tool": "x"},
    Policy: {},
    ToolSpec: {"name": "x"},
}
"""The classes that a program makes, each with what it has to say."""

NAMES = {kind: [one.alias for one in fields(kind) if one.init] for kind in KINDS}

ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=3)
    | st.sampled_from((object(), int, print, {1, 2}, Limits(), Rule("deny", "x"), "deny", "plan", 10**400, "1")),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=2)
    ),
    max_leaves=4,
)
"""What may stand where something else was meant."""


@given(st.sampled_from(list(KINDS)), st.data())
def test_a_value_is_of_its_type_or_refused(kind: type, data: st.DataObject) -> None:
    """Judged by a walk over the types that knows nothing of the checks."""
    name = data.draw(st.sampled_from(NAMES[kind]))
    value = data.draw(ODD)
    try:
        made = kind(**{**KINDS[kind], name: value})
    except ConfigError:
        return
    assert has_type(getattr(made, name), get_type_hints(kind)[name])


@given(st.sampled_from(list(KINDS)), st.text(max_size=12), ODD)
def test_a_name_that_is_none_is_refused(kind: type, name: str, value: object) -> None:
    if name not in NAMES[kind]:
        with pytest.raises(ConfigError, match="has no option"):
            kind(**{**KINDS[kind], name: value})


@given(st.sampled_from(list(KINDS)), st.data())
def test_the_nearest_name_is_told(kind: type, data: st.DataObject) -> None:
    """A letter left out."""
    name = data.draw(st.sampled_from([name for name in NAMES[kind] if len(name) > 5]))
    place = data.draw(st.integers(0, len(name) - 1))
    wrong = name[:place] + name[place + 1 :]

    with pytest.raises(ConfigError) as caught:
        kind(**{**KINDS[kind], wrong: 1})
    assert f"did you mean {name!r}?" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Rule("forbid", "delete"), "Rule.action must be one of 'allow', 'ask', 'deny', not 'forbid'"),  # type: ignore[arg-type]
        (lambda: Rule("allowed", "x"), "not 'allowed'; did you mean 'allow'?"),  # type: ignore[arg-type]
        (lambda: Policy((Rule("delete", "deny"),)), "Rule.action must be one of"),  # type: ignore[arg-type]
        (lambda: Policy((Rule("deny", "x"), "x")), "Policy.rules[1] must be a Rule, not 'x'"),  # type: ignore[arg-type]
        (lambda: Policy("deny"), "Policy.rules must be a list, not 'deny'"),  # type: ignore[arg-type]
        (lambda: Limits(steps=True), "Limits.steps must be a whole number, not True"),
        (lambda: Limits(steps=10**5000, cost=-1), "Limits.cost must be above 0, not -1"),
        (lambda: Limits(cost="1" * 100), f"must be a number or None, not '{'1' * 59}..."),  # type: ignore[arg-type]
        (lambda: Limits(seconds=float("nan")), "Limits.seconds must be above 0, not nan"),
        (lambda: Limits(3, steps=4), "Limits was given 'steps' twice"),  # type: ignore[misc]
        (lambda: RetryPolicy(1, 2, 3, 4), "RetryPolicy takes at most 3 values by their place, and got 4"),  # type: ignore[call-arg]
        (lambda: Rule("deny"), "Rule needs tool"),  # type: ignore[call-arg]
        (lambda: Rule(), "Rule needs action, tool"),  # type: ignore[call-arg]
        (lambda: AgentConfig(limits={"steps": 3}), "limits must be a Limits, not a mapping; write Limits(steps=...)"),  # type: ignore[arg-type]
        (lambda: AgentConfig(seed=1), "AgentConfig has no option 'seed'; write options=GenerationOptions(seed="),  # type: ignore[call-arg]
        (lambda: AgentConfig(limits=Limits), "must be a Limits, not the class Limits"),  # type: ignore[arg-type]
        (lambda: AgentConfig(zzz=1), "has no option 'zzz'; there are system, tools,"),  # type: ignore[call-arg]
        (lambda: GenerationOptions(logit_bias=((1,),)), "logit_bias[0] must be 2 values, not a tuple"),  # type: ignore[arg-type]
        (lambda: GenerationOptions(logit_bias=(("x", 1.0),)), "logit_bias[0] must be a whole number, not 'x'"),  # type: ignore[arg-type]
        (lambda: GenerationOptions(temperature=print), "temperature must be a number or None, not a function"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_the_message_says_what_to_write(make: Callable[[], object], told: str) -> None:
    """These are the cases that were accepted in silence once, and their kin."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert told in str(caught.value)


def test_lists_stand_for_tuples() -> None:
    """A value is what it would have been with tuples, and can be hashed."""
    assert Policy((Rule("deny", "x"),)) == Policy([Rule("deny", "x")])  # type: ignore[arg-type]  # that is the point
    assert hash(GenerationOptions(logit_bias=((1, 2.0),))) == hash(GenerationOptions(logit_bias=[[1, 2.0]]))  # type: ignore[arg-type]  # as above


class Talker(Protocol):
    volume: int
    _mood: str

    def talk(self) -> None: ...


class Singer(Talker, Protocol):
    def sing(self) -> None: ...


class Flock(Sized, Protocol):
    """Python's own class beside it is no protocol."""

    def land(self) -> None: ...


class Geese(list[str]):
    def land(self) -> None: ...


class Xenops:
    """A bird whose name begins with a letter that only sounds like a vowel."""


class Parrot:
    volume = 3

    def talk(self) -> None: ...


class Mute:
    def sing(self) -> None: ...


class Canary(Parrot, Mute):
    """It sings, too."""


class Size(IntEnum):
    SMALL = 1


Any_ = TypeVar("Any_")


@pytest.mark.parametrize(
    ("hint", "right", "wrong", "words"),
    [
        (Talker, [Parrot()], [Parrot, 3, None], "a Talker"),
        (Singer, [Canary()], [Parrot(), Mute(), Canary], "a Singer"),
        (Annotated[Talker, "somebody who talks"], [Parrot()], [3], "somebody who talks"),
        (Annotated[Talker, 5, "somebody"], [Parrot()], [3], "somebody"),
        (Flock, [Geese()], [["a"], Geese, None], "a Flock"),
        (Xenops, [], [Xenops, 3], "a Xenops"),
        (bool, [True, False], [1, "True", None], "True or False"),
        (int, [3, Size.SMALL], [True, 3.0], "a whole number"),
        (Iterable[str], [("a",)], [("a", 1)], "a list of which each is a text"),
        (Annotated[int, 5], [3], ["x"], "a whole number"),
        (Callable[[int], int], [print, int], [3], "a function"),
        (Mapping[str, int], [{}, {"a": 1}], [{"a": "b"}, {1: 1}, [("a", 1)]], "a mapping"),
        (Mapping, [{}], [3], "a mapping"),
        (Mapping[str, Any], [{"a": 1}], [{1: 1}], "a mapping"),
        (Mapping[Any, int], [{1: 1}], [{1: "x"}], "a mapping"),
        (Iterable[int], [(1, 2), ()], ["12", {1: 2}, 5, (1, "x")], "a list of which each is a whole number"),
        (tuple[int, ...], [(1,)], [("x",), 3], "a list of which each is a whole number"),
        (Sequence[str], [("a",)], ["ab", ("a", 1)], "a list of which each is a text"),
        (tuple[int], [(1,)], [(), (1, 2), ("x",)], "1 value"),
        (tuple[int, Any], [(1, "x")], [(1,), ("x", 1), "12"], "2 values"),
        (list[int], [[1]], [3], "a list"),
        (Literal["a"], ["a"], ["b", 3], "'a'"),
        (Literal[1, 2], [1], [True, 1.0], "one of 1, 2"),
        (int | str | None, [1, "x", None], [2.5], "a whole number or a text or None"),
        (bytes, [b"x"], ["x"], "bytes"),
        (float, [1, 2.5], [True, "1"], "a number"),
        (int | list[int], [3, []], ["x"], "a whole number or a list"),
        (Exception, [ValueError()], [3], "an Exception"),
    ],
)  # fmt: skip
def test_types_are_checked_as_they_read(hint: Any, right: list[Any], wrong: list[Any], words: str) -> None:
    check = check_of(hint)

    assert check is not None
    assert describe_type(hint) == words
    assert [check(one) for one in right] == right
    for one in wrong:
        with pytest.raises(MismatchError):
            check(one)


ACTION = Literal["allow", "ask", "deny"]


@pytest.mark.parametrize(
    ("hint", "value", "told"),
    [
        (Talker, 3, "must be a Talker, not 3"),
        (Annotated[Talker, "somebody who talks"], 3, "must be somebody who talks, not 3"),
        (Annotated[int, 5], "x", "must be a whole number, not 'x'"),
        (Callable[[int], int], 3, "must be a function, not 3"),
        (Mapping[str, int], 3, "must be a mapping, not 3"),
        (Mapping[str, int], {1: 1}, "has the key 1; each must be a text, not 1"),
        (Mapping[str, int], {"a": "b"}, "['a'] must be a whole number, not 'b'"),
        (Iterable[int], "12", "must be a list, not '12'"),
        (Iterable[int], (1, "x"), "[1] must be a whole number, not 'x'"),
        (tuple[int, ...], 3, "must be a list, not 3"),
        (tuple[int, Any], (1,), "must be 2 values, not a tuple"),
        (tuple[int, str], ["x", "y"], "must be a whole number, not 'x'"),
        (ACTION, "alow", "must be one of 'allow', 'ask', 'deny', not 'alow'; did you mean 'allow'?"),
        (ACTION, 3, "must be one of 'allow', 'ask', 'deny', not 3"),
        (Literal["allow", "allows"], "allo", "must be one of 'allow', 'allows', not 'allo'; did you mean 'allow'?"),
        (Literal["a"], "b", "must be 'a', not 'b'"),
        (Literal["deny"], "denny", "must be 'deny', not 'denny'; did you mean 'deny'?"),
        (int | str | None, 2.5, "must be a whole number or a text or None, not 2.5"),
        (int | None, "x, not y", "must be a whole number or None, not 'x, not y'"),
        (ACTION | None, "zz", "must be one of 'allow', 'ask', 'deny' or None, not 'zz'"),
        (bool, 1, "must be True or False, not 1"),
        (Exception, {}, "must be an Exception, not a dict"),
        (Limits, {"steps": 3, "cost": 1}, "must be a Limits, not a mapping; write Limits(steps=..., cost=...)"),
        (Limits, print, "must be a Limits, not a function"),
        (Limits | None, 3, "must be a Limits or None, not 3"),
        (Limits | str, 3, "must be a Limits or a text, not 3"),
    ],
)  # fmt: skip
def test_a_problem_is_told_in_these_words(hint: Any, value: object, told: str) -> None:
    """What was expected, what came, and what may have been meant; a second ``not`` stands in the value itself."""
    check = check_of(hint)
    assert check is not None

    with pytest.raises(MismatchError) as caught:
        check(value)
    assert str(caught.value) == told


def test_the_nearest_name_or_all_of_them() -> None:
    assert nearest("stepz", ["stop", "step"]) == "; did you mean 'step'?"
    assert nearest("zzz", ["a", "b"]) == "; there are a, b"
    assert nearest("zzz", []) == ""


def test_the_parts_among_the_types_of_options() -> None:
    """An option that stands in one of them is told where it belongs."""
    hints = {"a": Limits, "b": Limits | None, "c": Annotated[Rule, "a rule"], "d": int, "e": Annotated[int, Limits]}

    assert parts_of(hints) == {"a": Limits, "b": Limits, "c": Rule}


def test_a_class_may_take_nothing_by_its_place() -> None:
    @checked
    @frozen(kw_only=True)
    class Named:
        row: int = 0

    with pytest.raises(ConfigError) as caught:
        Named(3)  # type: ignore[misc]  # that is the point
    assert str(caught.value) == "Named takes no values by their place, and got 1; write the others as name=value"


def test_what_a_class_declares() -> None:
    """By place go those that are not keyword-only; aliases are the names; a word beside a type stands for it."""

    @checked
    @frozen
    class Seat:
        _row: Annotated[int, "a number of a row"]
        limits: Limits = Limits()
        side: str = field(default="left", kw_only=True)
        made: str = field(default="", init=False)

    by_place = "Seat takes at most 2 values by their place"
    assert Seat(3).limits == Limits()
    for make, told in (
        (lambda: Seat("x"), "Seat.row must be a number of a row, not 'x'"),  # type: ignore[arg-type]  # that is the point
        (lambda: Seat(), "Seat needs row"),  # type: ignore[call-arg]  # as above
        (lambda: Seat(1, Limits(), "left"), f"{by_place}, and got 3; write the others as name=value"),  # type: ignore[misc]  # as above
        (lambda: Seat(1, steps=3), "Seat has no option 'steps'; write limits=Limits(steps=...)"),  # type: ignore[call-arg]  # as above
        (lambda: Seat(1, made="x"), "Seat has no option 'made'; there are row, limits, side"),  # type: ignore[call-arg]  # as above
    ):
        with pytest.raises(ConfigError) as caught:
            make()
        assert str(caught.value) == told


@pytest.mark.parametrize("hint", [Any, object, Any_, int | Any, Annotated[Any, "whatever"], "odd"], ids=str)
def test_what_may_be_anything_is_not_checked(hint: Any) -> None:
    assert check_of(hint) is None


def test_anything_is_called_so() -> None:
    """And a type that is only known by a text by that text."""
    assert describe_type(Any) == "anything"
    assert describe_type("Seat") == "a Seat"


def test_a_tuple_of_anything_is_one() -> None:
    check = check_of(tuple[Any, ...])

    assert check is not None
    assert check(["x", 3]) == ("x", 3)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        ("x" * 58, "'" + "x" * 58 + "'"),
        ("x" * 80, "'" + "x" * 59 + "..."),
        (10**5000, "a number of thousands of digits"),
        (int, "the class int"),
        (print, "a function"),
        (Limits(), "a Limits"),
        ({}, "a dict"),
        (ValueError(), "a ValueError"),
        (object(), "an object"),
    ],
    ids=lambda value: str(value)[:10] if not isinstance(value, int) else "number",
)
def test_values_are_shown_briefly(value: object, text: str) -> None:
    """Those of programs by their kind only: what they hold may be long, or secret."""
    assert show(value) == text


def test_a_class_of_a_program_can_be_checked_too() -> None:
    """What has a converter is left to that."""

    @checked
    @frozen
    class Seat:
        row: int
        name: str = field(converter=str, default="", kw_only=True)

    assert Seat(3, name=5).name == "5"
    with pytest.raises(ConfigError, match=r"Seat\.row must be a whole number, not 'x'"):
        Seat("x")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ConfigError, match="Seat takes at most 1 values"):
        Seat(1, "x")  # type: ignore[call-arg]  # as above


@pytest.mark.parametrize("value", [1, 7, 10**22])
def test_a_whole_number_where_others_may_stand_is_the_same_number(value: int) -> None:
    """Of one type, so that its text in a recording is the same each time."""
    seconds = Limits(seconds=value).seconds

    assert type(seconds) is float
    assert seconds == value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (True, "must be a number or None, not True"),
        (10**400, "must be a number that a float has room for or None, not 1000"),
    ],
)
def test_what_is_no_such_number_is_refused(value: int, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Limits(seconds=value)


def test_a_whole_number_for_a_float_alone_is_one_too() -> None:
    @checked
    @frozen
    class Wait:
        seconds: float

    assert type(Wait(2).seconds) is float
    with pytest.raises(ConfigError, match="must be a number that a float has room for, not 1000"):
        Wait(10**400)

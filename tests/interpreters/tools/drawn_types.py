"""Types drawn at random, nested, each with values of it and the JSON data that these stand for."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import annotated_types as at
import attrs
import pydantic
from hypothesis import strategies as st

from interpreters.tools.type_shapes import Shapes

Pair = tuple[Any, Any]
"""A value, and its JSON data."""


@attrs.frozen
class Kind:
    """A type with its values."""

    type: Any
    pairs: st.SearchStrategy[Pair]
    form: str
    """The form of its data in JSON, by which the members of a union are told apart."""
    hashable: bool = False


@attrs.frozen
class Tree:
    value: int
    children: list[Tree] = attrs.Factory(list)


@dataclasses.dataclass
class Chain:
    name: str
    next: Chain | None = None


class Folder(TypedDict):
    name: str
    within: NotRequired[dict[str, Folder]]


class Model(pydantic.BaseModel):
    n: int = pydantic.Field(ge=0)
    others: list[Model] = []


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), max_size=5)
"""No control characters, which a grammar does not write."""
WORDS = st.text("abcxyz", min_size=1, max_size=3)
INTEGERS = st.integers(-(10**17), 10**17)
FLOATS = st.integers(-(10**6), 10**6).map(lambda number: number / 1000)


def schema_of(kind: Any, path: str) -> dict[str, Any]:
    """The schema of a single type."""
    shapes = Shapes()
    return shapes.root(shapes.of(kind, path))


def same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Pair]:
    return values.map(lambda value: (value, value))


def by(values: st.SearchStrategy[Any], written: Callable[[Any], Any]) -> st.SearchStrategy[Pair]:
    return values.map(lambda value: (value, written(value)))


ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
DAY = date(2020, 1, 1)
LEAVES = [
    Kind(str, same(TEXTS), "text", True),
    Kind(int, same(INTEGERS), "number", True),
    Kind(float, same(FLOATS), "number", True),
    Kind(bool, same(st.booleans()), "boolean", True),
    Kind(date, by(st.dates(), date.isoformat), "text", True),
    Kind(datetime, by(st.datetimes(timezones=ZONES), datetime.isoformat), "text", True),
    Kind(time, by(st.times(), time.isoformat), "text", True),
    Kind(UUID, by(st.uuids(), str), "text", True),
    Kind(PurePosixPath, by(WORDS.map(PurePosixPath), str), "text", True),
    Kind(Decimal, by(st.decimals(allow_nan=False, allow_infinity=False, places=3), str), "decimal", True),
    Kind(Colour, by(st.sampled_from(Colour), lambda one: one.value), "text", True),
    Kind(Level, by(st.sampled_from(Level), lambda one: one.value), "number", True),
    Kind(Literal["a", "b"], same(st.sampled_from("ab")), "text", True),
    Kind(Literal[1, 2], same(st.sampled_from([1, 2])), "number", True),
    Kind(Annotated[int, at.Gt(0), at.Lt(10**6)], same(st.integers(1, 10**6 - 1)), "number", True),
    Kind(Annotated[int, at.Interval(ge=-5, le=5)], same(st.integers(-5, 5)), "number", True),
    Kind(Annotated[int, pydantic.Field(ge=7, description="seven")], same(st.integers(7, 10**6)), "number", True),
    Kind(Annotated[int, at.MultipleOf(5), at.Ge(0)], same(st.integers(0, 999).map(lambda n: 5 * n)), "number", True),
    Kind(Annotated[float, at.Ge(0), at.Le(1)], same(st.integers(0, 1000).map(lambda n: n / 1000)), "number", True),
    Kind(
        Annotated[Decimal, at.Gt(0)],
        by(st.integers(1, 10**6).map(lambda n: Decimal(n) / 1000), float),
        "number",
        True,
    ),
    Kind(Annotated[str, at.Len(1, 3)], same(WORDS), "text", True),
    Kind(Annotated[str, at.MinLen(2), "two"], same(st.text("ab", min_size=2, max_size=5)), "text", True),
    Kind(Annotated[str, pydantic.Field(pattern="^[a-c]+$")], same(st.text("abc", min_size=1)), "text", True),
    Kind(Annotated[str, at.Predicate(str.islower)], same(st.text("ab", min_size=1)), "text", True),
    Kind(Annotated[date, at.Ge(DAY)], by(st.dates(DAY), date.isoformat), "text", True),
    Kind(pydantic.PositiveInt, same(st.integers(1, 99)), "number", True),
]  # fmt: skip
"""A line more is a type more."""


def trees(depth: int) -> st.SearchStrategy[Pair]:
    below = st.lists(trees(depth - 1), max_size=2) if depth else st.just([])
    return st.tuples(INTEGERS, below).map(
        lambda made: (
            Tree(made[0], [value for value, _ in made[1]]),
            {"value": made[0], "children": [data for _, data in made[1]]},
        )
    )


def chains(depth: int) -> st.SearchStrategy[Pair]:
    behind = st.just((None, None)) | chains(depth - 1) if depth else st.just((None, None))
    return st.tuples(TEXTS, behind).map(
        lambda made: (Chain(made[0], made[1][0]), {"name": made[0], "next": made[1][1]})
    )


def folders(depth: int) -> st.SearchStrategy[Pair]:
    if not depth:
        return same(TEXTS.map(lambda name: {"name": name}))
    within = st.dictionaries(WORDS, folders(depth - 1), max_size=2)
    return same(st.tuples(TEXTS, within).map(
        lambda made: {"name": made[0], "within": {name: value for name, (value, _) in made[1].items()}}
    ))  # fmt: skip


def models(depth: int) -> st.SearchStrategy[Pair]:
    others = st.lists(models(depth - 1), max_size=2) if depth else st.just([])
    return st.tuples(st.integers(0, 99), others).map(
        lambda made: (
            Model(n=made[0], others=[value for value, _ in made[1]]),
            {"n": made[0], "others": [data for _, data in made[1]]},
        )
    )


RECURSIVE = [
    Kind(Tree, trees(2), "object"),
    Kind(Chain, chains(3), "object"),
    Kind(Folder, folders(2), "object"),
    Kind(Model, models(2), "object"),
]

NUMBERS = itertools.count()


@st.composite
def records(draw: st.DrawFn, inner: st.SearchStrategy[Kind]) -> Kind:
    """A class of one of four sorts, with fields of drawn types, some of which may be left out."""
    members = {f"f{number}": kind for number, kind in enumerate(draw(st.lists(inner, min_size=1, max_size=3)))}
    sort, name = draw(st.sampled_from(["attrs", "dataclass", "dict", "tuple", "model"])), f"R{next(NUMBERS)}"
    annotations = {one: kind.type for one, kind in members.items()}
    made: Any
    if sort == "attrs":
        made = attrs.make_class(name, {one: attrs.field(type=kind) for one, kind in annotations.items()})
    elif sort == "dataclass":
        made = dataclasses.make_dataclass(name, list(annotations.items()))
    elif sort == "dict":
        made = TypedDict(name, annotations)  # type: ignore[misc, operator]  # made of what was drawn
    elif sort == "tuple":
        made = NamedTuple(name, list(annotations.items()))  # type: ignore[misc]  # as above
    else:
        plain = {one: (kind, ...) for one, kind in annotations.items()}
        try:
            made = pydantic.create_model(name, **plain)  # type: ignore[call-overload]  # as above
        except Exception:  # pydantic knows no attrs classes
            made = dataclasses.make_dataclass(name, list(annotations.items()))

    def of(pairs: dict[str, Pair]) -> Pair:
        return made(**{one: pairs[one][0] for one in members}), {one: pairs[one][1] for one in members}

    return Kind(made, st.fixed_dictionaries({one: kind.pairs for one, kind in members.items()}).map(of), "object")


def lists(kind: Kind) -> Kind:
    pairs = st.lists(kind.pairs, max_size=3).map(lambda made: ([v for v, _ in made], [d for _, d in made]))
    return Kind(list[kind.type], pairs, "array")  # type: ignore[name-defined]  # as drawn


def bounded_lists(kind: Kind) -> Kind:
    pairs = st.lists(kind.pairs, min_size=1, max_size=2).map(lambda made: ([v for v, _ in made], [d for _, d in made]))
    return Kind(Annotated[list[kind.type], at.Len(1, 2)], pairs, "array")  # type: ignore[name-defined]  # as drawn


def tuples(kinds: list[Kind]) -> Kind:
    pairs = st.tuples(*(kind.pairs for kind in kinds)).map(
        lambda made: (tuple(v for v, _ in made), [d for _, d in made])
    )
    return Kind(tuple[tuple(kind.type for kind in kinds)], pairs, "array")  # type: ignore[misc]  # as drawn


def dictionaries(kind: Kind) -> Kind:
    pairs = st.dictionaries(WORDS, kind.pairs, max_size=3).map(
        lambda made: ({k: v for k, (v, _) in made.items()}, {k: d for k, (_, d) in made.items()})
    )
    return Kind(dict[str, kind.type], pairs, "object")  # type: ignore[name-defined]  # as drawn


def sets(kind: Kind) -> Kind:
    unique = st.lists(kind.pairs, max_size=3, unique_by=(lambda pair: pair[0], lambda pair: json.dumps(pair[1])))
    pairs = unique.map(lambda made: ({v for v, _ in made}, [d for _, d in made]))
    return Kind(set[kind.type], pairs, "array")  # type: ignore[name-defined]  # as drawn


def unions(kinds: list[Kind]) -> Kind:
    """Of types that are told apart by the form of their data, and None."""
    forms = {kind.form: kind for kind in kinds if kind.form != "decimal"}
    if "number" in forms and forms["number"].type == Annotated[Decimal, at.Gt(0)]:
        forms.pop("text", None)  # it comes back as a text, which then is one
    apart = list(forms.values())
    made: Any = None
    for kind in apart:
        made = kind.type | None if made is None else made | kind.type
    return Kind(made, st.one_of(st.just((None, None)), *(kind.pairs for kind in apart)), "union")


leaves = st.sampled_from(LEAVES)
kinds: st.SearchStrategy[Kind] = st.recursive(
    leaves | st.sampled_from(RECURSIVE),
    lambda inner: st.one_of(
        inner.map(lists),
        inner.map(bounded_lists),
        st.lists(inner, min_size=1, max_size=3).map(tuples),
        inner.map(dictionaries),
        leaves.filter(lambda kind: kind.form not in ("decimal",)).map(sets),
        st.lists(inner.filter(lambda kind: kind.form != "union"), min_size=1, max_size=3)
        .filter(lambda drawn: any(kind.form != "decimal" for kind in drawn))
        .map(unions),
        records(inner),
    ),
    max_leaves=5,
)

"""Pydantic's models and types: their own schema is promised and checked, and their own validator is asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, HttpUrl, RootModel, field_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass

from interpreters import Agent, Tool, ToolContext, ToolError, fakes

T = TypeVar("T")


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")
    price: Decimal = Field(gt=0)
    when: date
    tags: set[str] = set()

    @field_validator("price")
    @classmethod
    def _lucky(cls, value: Decimal) -> Decimal:
        if value == 13:
            raise ValueError("unlucky")
        return value


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]
    bark: str


class Pet(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date


class Renamed(BaseModel):
    begin: int = Field(alias="from")


class Box(BaseModel, Generic[T]):
    inside: T


class Numbers(RootModel[list[int]]): ...


@pydantic_dataclass
class Big:
    n: int = Field(ge=3)


@dataclass
class Order:
    item: Item


def even(value: int) -> int:
    if value % 2:
        raise ValueError("odd")
    return value


GOOD = {"price": 1.5, "when": "2026-01-01"}


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (Item, GOOD, Item(price=Decimal("1.5"), when=date(2026, 1, 1))),
        (Item | None, None, None),
        (list[Item], [GOOD], [Item(price=Decimal("1.5"), when=date(2026, 1, 1))]),
        (Order, {"item": GOOD}, Order(Item(price=Decimal("1.5"), when=date(2026, 1, 1)))),
        (Pet, {"pet": {"kind": "dog", "bark": "woof"}}, Pet(pet=Dog(kind="dog", bark="woof"))),
        (Strict, {"day": "2026-01-01"}, Strict(day=date(2026, 1, 1))),
        (Renamed, {"from": 1}, Renamed(**{"from": 1})),
        (Box[int], {"inside": 1}, Box[int](inside=1)),
        (Numbers, [1], Numbers([1])),
        (Big, {"n": 3}, Big(3)),
        pytest.param(Annotated[int, AfterValidator(even)], 2, 2, id="a validator"),
        (HttpUrl, "https://example.org/", HttpUrl("https://example.org/")),
    ],
    ids=str,
)
def test_a_value_is_pydantics_own(kind: Any, data: Any, expected: Any) -> None:
    given: list[Any] = []

    def take(value):  # type: ignore[no-untyped-def]  # annotated below
        given.append(value)
        return value

    take.__annotations__["value"] = kind
    Tool(take).call({"value": data}, ToolContext(None))

    assert given == [expected]


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        (Item, {**GOOD, "price": 13}, "value.price is refused: Value error, unlucky"),
        (Item, {**GOOD, "price": -1}, "value.price"),
        (Item, {**GOOD, "more": 1}, "value.more is unknown"),
        (Item, {**GOOD, "tags": ["a", "a"]}, "nothing stands twice|non-unique"),
        (list[Item], [{"price": 1}], r"value\[0\].when is missing"),
        (Pet, {"pet": {"kind": "dog", "bark": 1}}, "value.pet.bark must be a text"),
        (Renamed, {"begin": 1}, "value.from is missing"),
        (Box[int], {"inside": "1"}, "must be a whole number"),
        (Numbers, ["1"], "must be a whole number"),
        (Big, {"n": 2}, "must be at least 3"),
        pytest.param(Annotated[int, AfterValidator(even)], 3, "value is refused: Value error, odd", id="a validator"),
        (HttpUrl, "x", "is not a 'uri'"),
    ],
    ids=str,
)
def test_nothing_is_coerced_and_every_problem_is_told(kind: Any, data: Any, told: str) -> None:
    """The schema says a whole number, so that pydantic never gets to read one out of a text."""

    def take(value):  # type: ignore[no-untyped-def]  # annotated below
        raise AssertionError("the function was called")

    take.__annotations__["value"] = kind
    with pytest.raises(ToolError, match=told):
        Tool(take).call({"value": data}, ToolContext(None))


Price = Annotated[Decimal, Field(max_digits=5, decimal_places=2)]
DIGITS, PLACES = "at most 5 digits in all", "at most 2 digits behind the decimal point; at most 3 digits before it"


class Bill(BaseModel):
    """What is to be paid."""

    price: Decimal = Field(max_digits=5, description="the price")
    tip: Price | None = None
    max_digits: int = 3


def test_the_digits_of_a_decimal_are_promised_where_they_are_checked() -> None:
    """JSON Schema has no keyword for them, so that they stand in descriptions, behind what stands there already."""

    def pay(one: Price, other: Price, all: list[Price], bill: Bill, named: Annotated[Price, Field(description="it")]):  # type: ignore[no-untyped-def]
        """Pay.

        Args:
            other: the other one
        """

    found = Tool(pay).spec.parameters["properties"]

    assert found["one"]["description"] == f"{DIGITS}; {PLACES}"
    assert found["other"]["description"] == f"the other one; {DIGITS}; {PLACES}"
    assert found["named"]["description"] == f"it; {DIGITS}; {PLACES}"
    assert found["all"]["items"] == found["one"]
    assert found["bill"]["description"] == "What is to be paid."
    fields = found["bill"]["properties"]
    assert fields["price"]["description"] == f"the price; {DIGITS}"
    assert found["one"] in fields["tip"]["anyOf"]
    assert fields["max_digits"] == {"type": "integer", "title": "Max Digits", "default": 3}


@pytest.mark.parametrize("wrong", [123456, 1.234, 1234.5])
def test_the_digits_of_a_decimal_are_checked(wrong: float) -> None:
    def pay(price: Price) -> None:
        """Pay."""

    with pytest.raises(ToolError, match="price is refused: Decimal input should have no more than"):
        Tool(pay).call({"price": wrong}, ToolContext(None))


def test_an_answer_may_be_a_model_and_is_mended_by_its_own_validator() -> None:
    replies = ['{"price": "1"}', '{"price": 13, "when": "2026-01-01"}', '{"price": 2, "when": "2026-01-01"}']
    with Agent(fakes.ScriptedModel(replies)) as agent:
        result = agent.run("What does it cost?", returns=Item)

    assert result.value == Item(price=Decimal(2), when=date(2026, 1, 1))

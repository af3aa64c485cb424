"""What has the attributes of a protocol is one of its instances, on every Python."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import pytest

from cognition.base.protocols import AttributeProtocolMeta


@runtime_checkable
class Speaker(Protocol, metaclass=AttributeProtocolMeta):
    name: str

    def speak(self) -> str: ...


class Dog(Speaker):
    """A class of the protocol, by inheritance."""

    name = "Rex"

    def speak(self) -> str:
        return "Woof"


class Cat:
    """Has the attributes, and does not know the protocol."""

    name = "Tom"

    def speak(self) -> str:
        return "Meow"


class Wrapper:
    """Forwards each attribute."""

    def __init__(self, wrapped: object) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


class Mute(Cat):
    speak = None  # type: ignore[assignment]  # as a class does that takes a method away


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Dog(), True),
        (Cat(), True),
        (Wrapper(Cat()), True),
        (Wrapper(Wrapper(Dog())), True),
        (Wrapper(3), False),
        (Mute(), False),
        (3, False),
    ],
)
def test_an_object_with_all_attributes_is_an_instance(value: object, expected: bool) -> None:
    assert isinstance(value, Speaker) == expected


def test_other_classes_with_the_attributes_are_no_instances_of_a_class_of_the_protocol() -> None:
    assert [isinstance(value, Dog) for value in (Dog(), Cat(), Wrapper(Cat()))] == [True, False, False]


class Forwarding(type):
    """A class of classes that have one attribute more."""

    def __getattr__(cls, name: str) -> str:
        if name == "growl":
            return "Grr"
        raise AttributeError(name)


class Bear(metaclass=Forwarding):
    pass


@pytest.mark.parametrize(
    ("value", "names", "expected"),
    [
        (Wrapper(Cat()), {"name"}, True),
        (Wrapper(Cat()), {"name", "speak"}, True),
        (Wrapper(Cat()), {"name", "growl"}, False),
        (Wrapper(Cat()), {"growl"}, False),
        (Wrapper(Mute()), {"name", "speak"}, False),
        (Bear, {"growl"}, False),
    ],
)
def test_the_attributes_that_python_lists_decide(
    value: object, names: set[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from Python 3.12 on, which writes the list itself; here it is another one than Python 3.11 looks for."""

    @runtime_checkable
    class Quiet(Protocol, metaclass=AttributeProtocolMeta):
        whisper: str

    class Whisperer(Quiet):
        pass

    monkeypatch.setattr(Quiet, "__protocol_attrs__", frozenset(names), raising=False)
    assert isinstance(value, Quiet) == expected
    assert not isinstance(value, Whisperer)

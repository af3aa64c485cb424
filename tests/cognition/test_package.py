"""The package gives each public name at its first use, and each name is what it says."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

import cognition


@pytest.mark.parametrize("name", cognition.__all__)
def test_every_public_name_is_given_by_its_module(name: str) -> None:
    """A name that a submodule has too would turn into that submodule."""
    (home,) = (module for module, names in cognition.HOMES.items() if name in names.split())

    value = getattr(cognition, name)

    assert not isinstance(value, ModuleType)
    assert value is getattr(importlib.import_module(f"cognition.{home}"), name)
    assert name in dir(cognition)


def test_the_names_are_listed_once_and_no_other_is_given() -> None:
    assert sorted(name for names in cognition.HOMES.values() for name in names.split()) == sorted(cognition.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = cognition.nonsense

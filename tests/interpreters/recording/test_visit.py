"""The texts of any value of the core: all are met, and a copy differs in what was changed and in nothing else."""

from __future__ import annotations

from typing import Any, get_args

from attrs import evolve, fields, fields_dict
from hypothesis import given, strategies as st

from cognition import (
    CancelAsked,
    Decision,
    Input,
    MemoryRecalled,
    Message,
    ModelFailed,
    ToolMessage,
    ToolReturned,
    UserMessage,
)
from interpreters.recording._visit import collect, copy_with, map_texts
from tests.cognition.samples import some

KINDS = (*get_args(Input), *get_args(Decision), *get_args(Message))
LENIENT = (UserMessage, ToolMessage, ToolReturned, ModelFailed, MemoryRecalled, CancelAsked)
"""Some that take any text in place of another."""
kinds = st.sampled_from(KINDS)
values = kinds.flatmap(some)


@given(values)
def test_the_texts_that_are_collected_are_those_that_are_mapped(value: Any) -> None:
    collected: list[str] = []
    collect(value, collected)
    met: list[str] = []

    def look(text: str, _place: str) -> str:
        met.append(text)
        return text

    assert map_texts(value, look) is value
    assert [text for text in met if text] == [text for text in collected if text]


@given(st.sampled_from(LENIENT).flatmap(some))
def test_every_text_is_changed_and_can_be_changed_back(value: Any) -> None:
    changed = map_texts(value, lambda text, _place: f"<{text}>")
    texts: list[str] = []
    collect(changed, texts)

    # A message's text is made of its parts: beside an empty one it begins or ends with what stands between them.
    assert all(text.strip()[0] == "<" and text.strip()[-1] == ">" for text in texts if text.strip())
    assert value == map_texts(changed, lambda text, _place: text[1:-1])


@given(kinds.flatmap(lambda kind: st.tuples(some(kind), some(kind))), st.data())
def test_a_copy_is_as_evolve_makes_it(two: tuple[Any, Any], data: st.DataObject) -> None:
    value, other = two
    names = data.draw(st.sets(st.sampled_from(sorted(fields_dict(type(value))) or [""])))  # some have no fields
    changes = {item.name: getattr(other, item.name) for item in fields(type(value)) if item.name in names}

    assert evolve(value, **changes) == copy_with(value, changes)

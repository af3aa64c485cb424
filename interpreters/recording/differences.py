"""Differences between two values that should be equal: plain data, and model requests part by part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from attrs import fields, frozen

from cognition import GenerationOptions, ModelRequest, to_data
from cognition.base.display import LONGEST_LINE, shown_name

ABSENT = "(nothing)"
"""Shown in place of a missing value."""

BEFORE = 40
"""Characters shown of two long texts before the first difference."""

MISSING = object()


@frozen
class Difference:
    """One value that differs. ``str()`` gives the path and two lines, one per side."""

    field: str
    """Path of the value, such as ``decisions[0].request.options.temperature``."""
    recorded: Any
    decided: Any
    _texts: tuple[str, str]

    def __str__(self) -> str:
        left, right = (shown_name(text, LONGEST_LINE) for text in self._texts)
        return f"{shown_name(self.field, LONGEST_LINE)}\n  recorded: {left}\n  decided:  {right}"


def differences(recorded: Any, decided: Any, path: str) -> Iterator[Difference]:
    """Yield all leaves of plain data that differ, in order. They are compared as JSON: ``1`` and ``true`` differ."""
    if isinstance(recorded, dict) and isinstance(decided, dict):
        for name in (*recorded, *(name for name in decided if name not in recorded)):
            yield from differences(recorded.get(name, MISSING), decided.get(name, MISSING), f"{path}.{name}")
    elif isinstance(recorded, list) and isinstance(decided, list):
        for index, (left, right) in enumerate(zip_longest(recorded, decided, fillvalue=MISSING)):
            yield from differences(left, right, f"{path}[{index}]")
    elif _type(recorded) is not _type(decided) or recorded != decided:
        yield _difference(path, recorded, decided)


def request_differences(recorded: ModelRequest, decided: ModelRequest, path: str) -> Iterator[Difference]:
    """Yield the differences of two requests: system prompt, tools by name, each option, and the first message that
    differs.
    """
    if recorded.system != decided.system:
        yield _difference(f"{path}.system", recorded.system, decided.system)
    then, now = ({tool.name: to_data(tool) for tool in request.tools} for request in (recorded, decided))
    for name in (*then, *(name for name in now if name not in then)):
        if then.get(name) != now.get(name):
            yield from differences(then.get(name, MISSING), now.get(name, MISSING), f"{path}.tools.{name}")
    if then == now and list(then) != list(now):  # prompts name them in another order
        yield _difference(f"{path}.tools", list(then), list(now))
    for option in fields(GenerationOptions):
        left, right = (getattr(request.options, option.name) for request in (recorded, decided))
        if left != right:
            yield _difference(f"{path}.options.{option.name}", left, right)
    if recorded.protocol != decided.protocol:
        yield _difference(f"{path}.protocol", recorded.protocol, decided.protocol)
    if len(recorded.messages) != len(decided.messages):
        yield _difference(f"{path}.messages.length", len(recorded.messages), len(decided.messages))
        return
    for index, (left, right) in enumerate(zip(recorded.messages, decided.messages, strict=True)):
        if left is not right and left != right:
            yield from differences(to_data(left), to_data(right), f"{path}.messages[{index}]")
            return


def _difference(path: str, recorded: Any, decided: Any) -> Difference:
    return Difference(
        path,
        None if recorded is MISSING else recorded,
        None if decided is MISSING else decided,
        _format_pair(recorded, decided),
    )


def _type(value: Any) -> Any:
    return float if type(value) is int else type(value)


def _format_pair(left: Any, right: Any) -> tuple[str, str]:
    """Return both values as JSON. Long texts with a common beginning start just before their first difference."""
    if isinstance(left, str) and isinstance(right, str):
        alike = next((place for place, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None)
        begin = (min(len(left), len(right)) if alike is None else alike) - BEFORE
        if begin > 0:
            return f"…{_format_value(left[begin:])}", f"…{_format_value(right[begin:])}"
    return _format_value(left), _format_value(right)


def _format_value(value: Any) -> str:
    return ABSENT if value is MISSING else json.dumps(value, ensure_ascii=False)

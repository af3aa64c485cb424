"""Convert the result of a tool to text for the model."""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import attrs

from interpreters.tools._records import is_named_tuple
from interpreters.tools.context import ToolError
from interpreters.tools.deferred import LATER

AS_TEXT = (date, datetime, time, Decimal, PurePath, UUID)
"""Types that become their text in JSON."""


def text_of(value: Any, name: str) -> str:
    """Return a text unchanged and any other result as JSON.

    Raises:
        ToolError: the result has no JSON form.
    """
    if isinstance(value, str):
        return value
    if value is LATER:
        raise ToolError(f"{name} can't answer later; give the agent a ToolSpec in its place, and hand the result in")
    if type(value) is int:  # the commonest of the others, and three times as fast as through JSON
        return str(value)
    try:
        return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"{name} returned a value that has no form in JSON: {error}") from error


def _plain(value: Any) -> Any:
    """Convert a value to plain JSON data by its actual types, not by the declared types of its class."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, AS_TEXT):
        return str(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(one) for name, one in value.items()}
    if is_named_tuple(type(value)):
        return {name: _plain(one) for name, one in zip(value._fields, value, strict=True)}
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [_plain(one) for one in value]
    if isinstance(value, str | int | float):
        return value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)  # a model of pydantic's
    if attrs.has(type(value)):
        return {one.name: _plain(getattr(value, one.name)) for one in attrs.fields(type(value)) if one.init}
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value) if one.init}
    if hasattr(type(value), "__get_pydantic_core_schema__"):  # a type of pydantic's, such as an address
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")

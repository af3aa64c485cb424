"""Tools that others have described: a JSON Schema, and a function that takes what fits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_origin, get_type_hints

from cognition import ConfigError, ToolSpec
from interpreters.context import ToolContext
from interpreters.full_check import FullCheck
from interpreters.tools import Tool, ToolError, is_async
from runtime.constrained.tools import read_tool


class SchemaTool(Tool[..., Any]):
    """Made by ``Tool.from_schema``, which says what the arguments mean and what is raised."""

    def __init__(self, spec: ToolSpec, function: Callable[..., Any], *, timeout: float | None = None) -> None:
        if timeout is not None and timeout <= 0:
            raise ConfigError(f"tool {spec.name!r}: timeout must be above 0 seconds, not {timeout!r}")
        if not callable(function):
            raise ConfigError(f"tool {spec.name!r} needs a function, not {function!r}")
        self.function = function
        self.timeout = timeout
        self.is_async = is_async(function)
        self.spec = spec
        self._derived = spec.parameters
        self._context_name = _context_name(function)
        self._full = FullCheck(spec.parameters, f"the parameters of tool {spec.name!r}")
        read_tool(spec)

    def prepare(self) -> None:
        if self.spec.parameters is not self._derived:
            self._full = FullCheck(self.spec.parameters, f"the parameters of tool {self.spec.name!r}")
            self._derived = self.spec.parameters

    def _call(self, given: dict[str, Any], context: ToolContext[Any]) -> Any:
        return (
            self.function(given)
            if self._context_name is None
            else self.function(given, **{self._context_name: context})
        )

    def _structured(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.prepare()
        assert self._full is not None  # made with the tool
        given = dict(arguments)
        if wrong := self._full.problems(given):
            raise ToolError(f"wrong arguments for {self.spec.name}: {'; '.join(wrong)}")
        return given


def _context_name(function: Callable[..., Any]) -> str | None:
    """The parameter that takes the context."""
    try:
        hints = get_type_hints(function if hasattr(function, "__annotations__") else type(function).__call__)
    except (NameError, TypeError, AttributeError):  # annotations of others may name what is not there
        return None
    return next((name for name, kind in hints.items() if ToolContext in (kind, get_origin(kind))), None)

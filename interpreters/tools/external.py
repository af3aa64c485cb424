"""Tools that the embedding program runs: a specification without a function.

Their calls are checked like any other. The turn is then suspended until the program hands in the result
(``agent.answer``), in this process or in another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from cognition import ConfigError, ToolSpec
from interpreters.tools.tool import SchemaTool, Tool, ToolError


class ExternalTool(SchemaTool):
    """Made from a ``ToolSpec`` in an agent's ``tools``."""

    def __init__(self, spec: ToolSpec) -> None:
        super().__init__(spec, _refuse_call)

    def problems(self, arguments: Mapping[str, Any]) -> str:
        """Return the error message for invalid arguments, or an empty text if they are valid."""
        try:
            self._structured(arguments)
        except ToolError as error:
            return str(error)
        return ""


def _refuse_call(arguments: dict[str, Any]) -> NoReturn:
    raise ConfigError("an external tool has no function here; hand in the result of its call by agent.answer()")


Usable = Tool[..., Any] | ToolSpec | Callable[..., Any]
"""The tools that an agent accepts: made by ``@tool``, a plain function, or a ``ToolSpec`` that the program itself runs.
"""


def as_tools(usable: Iterable[Usable]) -> tuple[Tool[..., Any], ...]:
    """Convert an agent's ``tools`` to ``Tool`` objects.

    Raises:
        ConfigError: a parameter of a function has no type, or a type without a JSON form.
    """
    return tuple(_as_tool(one) for one in usable)


def _as_tool(one: Usable) -> Tool[..., Any]:
    if isinstance(one, ToolSpec):
        return ExternalTool(one)
    made = one if isinstance(one, Tool) else Tool(one)
    if made.is_method:
        name = made.function.__qualname__
        raise ConfigError(f"{name} is a method of a class: give it of an object, as in shop.{made.function.__name__}")
    return made

"""Tools that the embedding program runs itself: a specification without a function.

A call of one is checked like any other, and then the turn is put away until the program hands in its result
(``agent.answer``), in this process or another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from cognition import ConfigError, ToolSpec
from interpreters.tools.tool import SchemaTool, Tool, ToolError


class ExternalTool(SchemaTool):
    """Made of a ``ToolSpec`` among an agent's ``tools``."""

    def __init__(self, spec: ToolSpec) -> None:
        super().__init__(spec, _nobody)

    def problems(self, arguments: Mapping[str, Any]) -> str:
        """What the model is told of arguments that the schema forbids; empty where it allows them."""
        try:
            self._structured(arguments)
        except ToolError as error:
            return str(error)
        return ""


def _nobody(arguments: dict[str, Any]) -> NoReturn:
    raise ConfigError("an external tool has no function here; hand in the result of its call by agent.answer()")


Usable = Tool[..., Any] | ToolSpec | Callable[..., Any]
"""What an agent takes for a tool: one that ``@tool`` made; a plain function, which is then made one; or a specification
of a tool that the program runs itself, outside of the agent."""


def as_tools(usable: Iterable[Usable]) -> tuple[Tool[..., Any], ...]:
    """Tools of whatever an agent was given.

    Raises:
        ConfigError: a function has a parameter without a type, or with one that JSON has no form for.
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

"""System prompts from a function of the program, called for each user message.

    def system(deps: User) -> str:
        return f"You help {deps.name}. Today is {date.today():%A}."

    agent = Agent(model, system=system, deps=user)

The prompt is part of the input that begins the turn. So a recording contains it, and a replay does not call the
function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from attrs import frozen

from cognition import CogstepError, ConfigError
from cognition.base.checking import show
from interpreters.tools.context import ToolContext
from interpreters.tools.signature import context_name
from interpreters.tools.tool import describe, is_async

PromptFunction = Callable[..., Any]
"""Returns the system prompt as a text. It may take ``deps`` and the same ``ToolContext`` as tools."""

Given = Literal["context", "deps", "text"]

Filled = tuple[str, Given]
"""A parameter's name and the kind of its value. The name is empty for a positional-only parameter."""

CONTEXTS = ("context", "ctx")
"""Names of parameters that receive the context without an annotation."""

UNSAID = "nothing was said to the model, and the session can go on"


class SystemPromptError(CogstepError):
    """The function that makes the system prompt failed, or did not return a text. The turn has not started."""


@frozen(eq=False)
class PromptSource:
    """The prompt function and the parameters to pass to it."""

    function: PromptFunction
    given: tuple[Filled, ...]

    @property
    def is_async(self) -> bool:
        return is_async(self.function)

    def call_for(self, deps: Any, session: str) -> Callable[[], Any]:
        """Return the call that makes the prompt. Its result may be awaitable."""
        places, names = values_of(self.given, deps, session)
        return partial(self.function, *places, **names)

    def make(self, deps: Any, session: str) -> str:
        """Return the prompt, without an event loop.

        Raises:
            SystemPromptError: the function failed, or did not return a text.
        """
        try:
            answer = self.call_for(deps, session)()
        except Exception as error:
            raise prompt_error(error) from error
        return prompt_text(answer)


def prompt_source(function: Any) -> PromptSource:
    """Read the parameters of the function in ``system``.

    Raises:
        ConfigError: it is not a function, or has a parameter that can't be filled.
    """
    if not callable(function) or isinstance(function, type):
        raise ConfigError(f"system must be a text, or a function that gives one, not {show(function)}")
    return PromptSource(function, fillable_parameters(function, "system"))


def fillable_parameters(function: Callable[..., Any], option: str, *, takes_text: bool = False) -> tuple[Filled, ...]:
    """Return the parameters to fill in an option's function, each with the kind of its value.

    ``takes_text``: whether a parameter ``text`` receives the user's message.

    Raises:
        ConfigError: a parameter can't be filled.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some of those that are written in C don't tell
        return ()
    annotated = context_name(function)
    given: list[Filled] = []
    for one in parameters:
        what: Given = "deps"
        if one.name == annotated or one.name in CONTEXTS:
            what = "context"
        elif takes_text and one.name == "text":
            what = "text"
        wanted = what != "deps" or one.name == "deps" or one.default is one.empty
        if wanted and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            given.append(("" if one.kind is one.POSITIONAL_ONLY else one.name, what))
    if len({what for _, what in given}) < len(given):
        may = "what the user said as text, the deps, and a ToolContext" if takes_text else "the deps, and a ToolContext"
        names = ", ".join(one.name for one in parameters)
        raise ConfigError(f"the function of {option} takes {names}; it may take {may}")
    return tuple(given)


def values_of(given: tuple[Filled, ...], deps: Any, session: str, text: str = "") -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the keyword arguments for such a function."""
    values = {"context": ToolContext(deps, session=session), "deps": deps, "text": text}
    places = [values[what] for name, what in given if not name]
    return places, {name: values[what] for name, what in given if name}


def prompt_error(error: Exception) -> SystemPromptError:
    """Return the error for an exception that the function raised."""
    return SystemPromptError(f"the function of system failed ({describe(error)}); {UNSAID}")


def prompt_text(answer: Any) -> str:
    """Check the function's result.

    Raises:
        SystemPromptError: it is not a text.
    """
    if not isinstance(answer, str):
        if inspect.iscoroutine(answer):
            answer.close()  # or Python warns that nobody awaited it
        raise SystemPromptError(f"the function of system has to return a text, not {show(answer)}; {UNSAID}")
    return str(answer)

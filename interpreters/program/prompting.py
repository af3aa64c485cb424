"""A system prompt that a function of the program's makes, anew for each message of the user's.

    def system(deps: User) -> str:
        return f"You help {deps.name}. Today is {date.today():%A}."

    agent = Agent(model, system=system, deps=user)

What it gave is part of the input that begins the turn, so that a recording has it, and a replay needs no function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from attrs import frozen

from cognition import CogstepError, ConfigError
from cognition.checking import shown
from interpreters.tools.context import ToolContext
from interpreters.tools.signature import context_name
from interpreters.tools.tool import describe, is_async

PromptFunction = Callable[..., Any]
"""Gives the system prompt as a text. Takes nothing, or ``deps``, or the ``ToolContext`` that tools are given too."""

Given = Literal["context", "deps", "text"]

Filled = tuple[str, Given]
"""A parameter that is filled, by its name, and with what; the name is empty for one that is given by its place."""

CONTEXTS = ("context", "ctx")
"""Names of parameters that get the context without an annotation."""

UNSAID = "nothing was said to the model, and the session can go on"


class SystemPromptError(CogstepError):
    """The function that makes the system prompt failed, or gave no text. Nothing of the message's turn has begun."""


@frozen(eq=False)
class Prompting:
    """The function, and what it is to be called with."""

    function: PromptFunction
    given: tuple[Filled, ...]

    @property
    def is_async(self) -> bool:
        return is_async(self.function)

    def call_for(self, deps: Any, session: str) -> Callable[[], Any]:
        """The call that makes the prompt; what it gives may have to be awaited."""
        places, names = values_of(self.given, deps, session)
        return partial(self.function, *places, **names)

    def made(self, deps: Any, session: str) -> str:
        """The prompt, where nothing can be awaited.

        Raises:
            SystemPromptError: the function failed, or gave no text.
        """
        try:
            answer = self.call_for(deps, session)()
        except Exception as error:
            raise failed(error) from error
        return prompt_text(answer)


def prompting(function: Any) -> Prompting:
    """What a function needs that is given as ``system``.

    Raises:
        ConfigError: it is no function, or takes what it can't be given.
    """
    if not callable(function) or isinstance(function, type):
        raise ConfigError(f"system must be a text, or a function that gives one, not {shown(function)}")
    return Prompting(function, filled_in(function, "system"))


def filled_in(function: Callable[..., Any], option: str, *, takes_text: bool = False) -> tuple[Filled, ...]:
    """The parameters of a function of an option's that are filled, and with what.

    ``takes_text``: whether it may take what the user said, as ``text``.

    Raises:
        ConfigError: it takes what it can't be given.
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
    """What such a function is called with: by place, and by name."""
    values = {"context": ToolContext(deps, session=session), "deps": deps, "text": text}
    places = [values[what] for name, what in given if not name]
    return places, {name: values[what] for name, what in given if name}


def failed(error: Exception) -> SystemPromptError:
    """What is raised where the function raised something."""
    return SystemPromptError(f"the function of system failed ({describe(error)}); {UNSAID}")


def prompt_text(answer: Any) -> str:
    """The prompt that the function gave.

    Raises:
        SystemPromptError: it is no text.
    """
    if not isinstance(answer, str):
        if inspect.iscoroutine(answer):
            answer.close()  # or Python warns that nobody awaited it
        raise SystemPromptError(f"the function of system has to return a text, not {shown(answer)}; {UNSAID}")
    return str(answer)

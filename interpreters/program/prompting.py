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

Given = Literal["context", "deps"]

CONTEXTS = ("context", "ctx")
"""Names of parameters that get the context without an annotation."""

UNSAID = "nothing was said to the model, and the session can go on"


class SystemPromptError(CogstepError):
    """The function that makes the system prompt failed, or gave no text. Nothing of the message's turn has begun."""


@frozen(eq=False)
class Prompting:
    """The function, and what it is to be called with."""

    function: PromptFunction
    given: tuple[tuple[str, Given], ...]
    """Its parameters that are filled, by their names; the name is empty for one that is given by its place."""

    @property
    def is_async(self) -> bool:
        return is_async(self.function)

    def call_for(self, deps: Any, session: str) -> Callable[[], Any]:
        """The call that makes the prompt; what it gives may have to be awaited."""
        values = {"context": ToolContext(deps, session=session), "deps": deps}
        places = [values[what] for name, what in self.given if not name]
        return partial(self.function, *places, **{name: values[what] for name, what in self.given if name})

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
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some of those that are written in C don't tell
        return Prompting(function, ())
    annotated = context_name(function)
    given: list[tuple[str, Given]] = []
    for one in parameters:
        contextual = one.name == annotated or one.name in CONTEXTS
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) or not (
            contextual or one.name == "deps" or one.default is one.empty
        ):
            continue
        name = "" if one.kind is one.POSITIONAL_ONLY else one.name
        given.append((name, "context" if contextual else "deps"))
    if len({what for _, what in given}) < len(given):
        raise ConfigError(
            f"the function of system takes {', '.join(one.name for one in parameters)}; it may take the deps, and a "
            "ToolContext"
        )
    return Prompting(function, tuple(given))


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

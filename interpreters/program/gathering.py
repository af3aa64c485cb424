"""Candidates for a prompt, which functions of the program's give anew for each message of the user.

    def prices(text: str, deps: Shop) -> list[Candidate]:
        return [Candidate("memory", str(price), "price list") for price in deps.prices_for(text)]

    agent = Agent(model, context=[prices], deps=shop)

What they gave is part of the input that begins the turn, so that a recording has it, and a replay needs no function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from attrs import frozen

from cognition import Candidate, CogstepError, ConfigError
from cognition.checking import shown
from interpreters.program.prompting import UNSAID, Filled, filled_in, values_of
from interpreters.tools.tool import describe, is_async

ContextFunction = Callable[..., Any]
"""Gives candidates. Takes nothing, or what the user said as ``text``, or the deps, or the ``ToolContext`` that tools
are given too."""


class ContextSourceError(CogstepError):
    """A function that gives candidates failed, or gave something else. Nothing of the message's turn has begun."""


@frozen(eq=False)
class Source:
    """A function that gives candidates, and what it is to be called with."""

    function: ContextFunction
    given: tuple[Filled, ...]

    @property
    def name(self) -> str:
        """Of the function, for messages."""
        return getattr(self.function, "__name__", "") or type(self.function).__name__

    @property
    def is_async(self) -> bool:
        return is_async(self.function)

    def call_for(self, text: str, deps: Any, session: str) -> Callable[[], Any]:
        """The call that gives the candidates for a message; what it gives may have to be awaited."""
        places, names = values_of(self.given, deps, session, text)
        return partial(self.function, *places, **names)

    def made(self, text: str, deps: Any, session: str) -> tuple[Candidate, ...]:
        """The candidates for a message, where nothing can be awaited.

        Raises:
            ContextSourceError: the function failed, or gave something else.
        """
        try:
            answer = self.call_for(text, deps, session)()
            return self.read(answer)
        except ContextSourceError:
            raise
        except Exception as error:
            raise self.failed(error) from error

    def read(self, answer: Any) -> tuple[Candidate, ...]:
        """The candidates that the function gave.

        Raises:
            ContextSourceError: it gave something else.
        """
        if inspect.iscoroutine(answer):
            answer.close()  # or Python warns that nobody awaited it
        if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
            raise ContextSourceError(f"{self._named} has to return Candidates, not {shown(answer)}; {UNSAID}")
        found = tuple(answer)
        others = [one for one in found if not isinstance(one, Candidate)]
        if others:
            raise ContextSourceError(f"{self._named} has to return Candidates, and gave {shown(others[0])}; {UNSAID}")
        return found

    def failed(self, error: Exception) -> ContextSourceError:
        """What is raised where the function raised something."""
        said = (
            str(error) if isinstance(error, CogstepError) else describe(error)
        )  # which names the file that it is about
        return ContextSourceError(f"{self._named} failed ({said}); {UNSAID}")

    @property
    def _named(self) -> str:
        return f"the function {self.name!r} of context"


def sources_of(given: Any) -> tuple[Source, ...]:
    """The sources that functions given as ``context`` are; those that are one already stay.

    Raises:
        ConfigError: one is no function, or takes what it can't be given.
    """
    if callable(given) or isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigError(f"context must be a list of functions that give Candidates, not {shown(given)}")
    return tuple([_source(one) for one in given])


def _source(function: Any) -> Source:
    if isinstance(function, Source):
        return function
    if not callable(function) or isinstance(function, type):
        hint = "; write Class() for what it makes" if isinstance(function, type) else ""
        raise ConfigError(f"context must be a list of functions that give Candidates, and has {shown(function)}{hint}")
    return Source(function, filled_in(function, "context", takes_text=True))

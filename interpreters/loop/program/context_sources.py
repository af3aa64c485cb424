"""Context functions of the program: they return candidates for the prompt of each user message.

    def prices(text: str, deps: Shop) -> list[Candidate]:
        return [Candidate("memory", str(price), "price list") for price in deps.prices_for(text)]

    agent = Agent(model, context=[prices], deps=shop)

The candidates are part of the input that begins the turn. So a recording contains them, and a replay does not call the
function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from attrs import frozen

from cognition import Candidate, CogstepError, ConfigError
from cognition.base.checking import show
from interpreters.loop.program.system_prompt import UNSAID, Filled, fillable_parameters, values_of
from interpreters.tools.tool import describe, is_async

ContextFunction = Callable[..., Any]
"""Returns candidates. It may take the user's message as ``text``, ``deps``, and the same ``ToolContext`` as tools."""


class ContextSourceError(CogstepError):
    """A context function failed or returned something other than candidates. The turn has not started."""


@frozen(eq=False)
class Source:
    """A context function and the parameters to pass to it."""

    function: ContextFunction
    given: tuple[Filled, ...]

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return getattr(self.function, "__name__", "") or type(self.function).__name__

    @property
    def is_async(self) -> bool:
        return is_async(self.function)

    def call_for(self, text: str, deps: Any, session: str) -> Callable[[], Any]:
        """Return the call for a message. Its result may be awaitable."""
        places, names = values_of(self.given, deps, session, text)
        return partial(self.function, *places, **names)

    def make(self, text: str, deps: Any, session: str) -> tuple[Candidate, ...]:
        """Return the candidates for a message, without an event loop.

        Raises:
            ContextSourceError: the function failed, or returned something else.
        """
        try:
            answer = self.call_for(text, deps, session)()
            return self.read(answer)
        except ContextSourceError:
            raise
        except Exception as error:
            raise self.source_error(error) from error

    def read(self, answer: Any) -> tuple[Candidate, ...]:
        """Check the function's result.

        Raises:
            ContextSourceError: it is not an iterable of candidates.
        """
        if inspect.iscoroutine(answer):
            answer.close()  # or Python warns that nobody awaited it
        if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
            raise ContextSourceError(f"{self._describe} has to return Candidates, not {show(answer)}; {UNSAID}")
        found = tuple(answer)
        others = [one for one in found if not isinstance(one, Candidate)]
        if others:
            raise ContextSourceError(f"{self._describe} has to return Candidates, and gave {show(others[0])}; {UNSAID}")
        return found

    def source_error(self, error: Exception) -> ContextSourceError:
        """Return the error for an exception that the function raised."""
        said = (
            str(error) if isinstance(error, CogstepError) else describe(error)
        )  # which names the file that it is about
        return ContextSourceError(f"{self._describe} failed ({said}); {UNSAID}")

    @property
    def _describe(self) -> str:
        return f"the function {self.name!r} of context"


def sources_of(given: Any) -> tuple[Source, ...]:
    """Convert the functions in ``context`` to sources. Leaves existing sources unchanged.

    Raises:
        ConfigError: an item is not a function, or has a parameter that can't be filled.
    """
    if callable(given) or isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigError(f"context must be a list of functions that give Candidates, not {show(given)}")
    return tuple([_source(one) for one in given])


def _source(function: Any) -> Source:
    if isinstance(function, Source):
        return function
    if not callable(function) or isinstance(function, type):
        hint = "; write Class() for what it makes" if isinstance(function, type) else ""
        raise ConfigError(f"context must be a list of functions that give Candidates, and has {show(function)}{hint}")
    return Source(function, fillable_parameters(function, "context", takes_text=True))

"""Functions of the program that are called for each user message: for the system prompt, and for candidates.

    def system(deps: User) -> str:
        return f"You help {deps.name}. Today is {date.today():%A}."

    def prices(text: str, deps: Shop) -> list[Candidate]:
        return [Candidate("memory", str(price), "price list") for price in deps.prices_for(text)]

    agent = Agent(model, system=system, context=[prices], deps=user)

Their results are part of the input that begins the turn. So a recording contains them, and a replay does not call the
functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Literal

from attrs import frozen

from cognition import Candidate, CogstepError, ConfigError
from cognition.base.checking import show
from interpreters.tools.context import ToolContext
from interpreters.tools.offloading import await_answer
from interpreters.tools.signature import context_name
from interpreters.tools.tool import describe, is_async

PromptFunction = Callable[..., Any]
"""Returns the system prompt as a text. It may take ``deps`` and the same ``ToolContext`` as tools."""

ContextFunction = Callable[..., Any]
"""Returns candidates. It may take the user's message as ``text``, ``deps``, and the same ``ToolContext`` as tools."""

Given = Literal["context", "deps", "text"]

Filled = tuple[str, Given]
"""A parameter's name and the kind of its value. The name is empty for a positional-only parameter."""

CONTEXTS = ("context", "ctx")
"""Names of parameters that receive the context without an annotation."""

UNSAID = "nothing was said to the model, and the session can go on"


class SystemPromptError(CogstepError):
    """The function that makes the system prompt failed, or did not return a text. The turn has not started."""


class ContextSourceError(CogstepError):
    """A context function failed or returned something other than candidates. The turn has not started."""


@frozen(eq=False)
class Source:
    """A function of the program and the parameters to pass to it. Subclasses read its result."""

    function: Callable[..., Any]
    given: tuple[Filled, ...]
    error: ClassVar[type[CogstepError]]

    @property
    def what(self) -> str:
        """The function's name, for messages."""
        return "the function of system"

    @property
    def is_async(self) -> bool:
        return is_async(self.function)

    def make(self, deps: Any, session: str, text: str) -> Any:
        """Return the result for a message, without an event loop.

        Raises:
            SystemPromptError, ContextSourceError: the function failed, or returned something else.
        """
        try:
            return self.read(self._call_for(deps, session, text)())
        except self.error:
            raise
        except Exception as error:
            raise self._failure(error) from error

    async def make_async(self, deps: Any, session: str, text: str) -> Any:
        """``make`` under asyncio: an ``async def`` runs in the loop, others on a thread."""
        try:
            return self.read(await await_answer(self._call_for(deps, session, text)))
        except self.error:
            raise
        except Exception as error:
            raise self._failure(error) from error

    def read(self, answer: Any) -> Any:
        """Check the function's result."""
        raise NotImplementedError

    def _call_for(self, deps: Any, session: str, text: str) -> Callable[[], Any]:
        values = {"context": ToolContext(deps, session=session), "deps": deps, "text": text}
        places = [values[what] for name, what in self.given if not name]
        return partial(self.function, *places, **{name: values[what] for name, what in self.given if name})

    def _failure(self, error: Exception) -> CogstepError:
        return self.error(f"{self.what} failed ({describe(error)}); {UNSAID}")


class PromptSource(Source):
    """Makes the system prompt."""

    error: ClassVar[type[CogstepError]] = SystemPromptError

    def read(self, answer: Any) -> str:
        if not isinstance(answer, str):
            _close(answer)
            raise SystemPromptError(f"{self.what} has to return a text, not {show(answer)}; {UNSAID}")
        return str(answer)


class ContextSource(Source):
    """Returns candidates."""

    error: ClassVar[type[CogstepError]] = ContextSourceError

    @property
    def what(self) -> str:
        return f"the function {getattr(self.function, '__name__', '') or type(self.function).__name__!r} of context"

    def read(self, answer: Any) -> tuple[Candidate, ...]:
        _close(answer)
        if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
            raise ContextSourceError(f"{self.what} has to return Candidates, not {show(answer)}; {UNSAID}")
        found = tuple(answer)
        others = [one for one in found if not isinstance(one, Candidate)]
        if others:
            raise ContextSourceError(f"{self.what} has to return Candidates, and gave {show(others[0])}; {UNSAID}")
        return found

    def _failure(self, error: Exception) -> CogstepError:
        if isinstance(error, CogstepError):  # its text is complete: it names the file that it is about
            return ContextSourceError(f"{self.what} failed ({error}); {UNSAID}")
        return super()._failure(error)


def _close(answer: Any) -> None:
    """Close a coroutine, or Python warns that nobody awaited it."""
    if inspect.iscoroutine(answer):
        answer.close()


def prompt_source(function: Any) -> PromptSource:
    """Read the parameters of the function in ``system``.

    Raises:
        ConfigError: it is not a function, or has a parameter that can't be filled.
    """
    if not callable(function) or isinstance(function, type):
        raise ConfigError(f"system must be a text, or a function that gives one, not {show(function)}")
    return PromptSource(function, _fillable_parameters(function, "system"))


def sources_of(given: Any) -> tuple[ContextSource, ...]:
    """Convert the functions in ``context`` to sources. Leaves existing sources unchanged.

    Raises:
        ConfigError: an item is not a function, or has a parameter that can't be filled.
    """
    if callable(given) or isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigError(f"context must be a list of functions that give Candidates, not {show(given)}")
    return tuple([_context_source(one) for one in given])


def _context_source(function: Any) -> ContextSource:
    if isinstance(function, ContextSource):
        return function
    if not callable(function) or isinstance(function, type):
        hint = "; write Class() for what it makes" if isinstance(function, type) else ""
        raise ConfigError(f"context must be a list of functions that give Candidates, and has {show(function)}{hint}")
    return ContextSource(function, _fillable_parameters(function, "context"))


def _fillable_parameters(function: Callable[..., Any], option: Literal["system", "context"]) -> tuple[Filled, ...]:
    """Return the parameters to fill in an option's function, each with the kind of its value.

    A parameter ``text`` receives the user's message in functions of ``context``.

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
        elif option == "context" and one.name == "text":
            what = "text"
        wanted = what != "deps" or one.name == "deps" or one.default is one.empty
        if wanted and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            given.append(("" if one.kind is one.POSITIONAL_ONLY else one.name, what))
    if len({what for _, what in given}) < len(given):
        may = f"{'what the user said as text, ' if option == 'context' else ''}the deps, and a ToolContext"
        names = ", ".join(one.name for one in parameters)
        raise ConfigError(f"the function of {option} takes {names}; it may take {may}")
    return tuple(given)

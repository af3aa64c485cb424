"""Tools whose results a test defines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from interpreters.testing.fakes.scripts import ScriptError
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import Tool


class ScriptedTool(Tool[..., Any]):
    """Replaces a tool: the same specification and the same check of arguments, with scripted results.

    >>> from interpreters import tool
    >>> @tool(approval=True)
    ... def order(item: str) -> str:
    ...     '''Order something.'''
    ...     raise ConnectionError("a test must not get here")
    >>> scripted = ScriptedTool(order, ["ordered", TimeoutError("the shop is closed")])
    >>> scripted.spec == order.spec
    True

    Args:
        like: the tool to replace, or a function whose name, signature and docstring define it.
        results: the results of the calls, in order. An exception is raised; a function is called with the arguments.

    Attributes:
        calls: the arguments of each call that ran, in order. Calls with wrong arguments are not included.
    """

    def __init__(self, like: Tool[..., Any] | Callable[..., Any], results: Iterable[Any]) -> None:
        self._like = like if isinstance(like, Tool) else None
        if isinstance(like, Tool):
            vars(self).update(vars(like))
            self._previewing = None
        else:
            super().__init__(like)
        self.is_async = False  # whatever stood here: this one waits for nothing
        self.calls: list[dict[str, Any]] = []
        self._results = iter(results)
        self._missing = 0

    def prepare(self) -> None:
        if self._like is None:
            super().prepare()
        else:
            self._like.prepare()

    def _structured(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return super()._structured(arguments) if self._like is None else self._like._structured(arguments)

    def _call(self, given: dict[str, Any], context: ToolContext[Any]) -> Any:
        self.calls.append(given)
        try:
            result = next(self._results)
        except StopIteration:
            self._missing += 1
            raise ScriptError(
                f"the script of {self.spec.name} has {len(self.calls) - self._missing} results, and it was called "
                f"once more, with {given}"
            ) from None
        if isinstance(result, BaseException):
            raise result
        return result(**given) if callable(result) else result

    def check(self) -> None:
        """Check that the script and the calls match.

        An exception of a tool becomes a result for the model, so a call beyond the script does not fail the test
        without this check.

        Raises:
            ScriptError: there was a call beyond the script, or a result is unused.
        """
        if self._missing:
            raise ScriptError(f"{self.spec.name} was called {self._missing} times more than its script has results")
        left = list(self._results)
        if left:
            raise ScriptError(f"{self.spec.name} was called {len(self.calls)} times; left over is {left[0]!r}")

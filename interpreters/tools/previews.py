"""Show the effect of a call before the user approves it: ``@tool(preview=function)``.

    def shown(to: str, amount: int) -> str:
        return f"{amount} of {balance()} go to {to}"

    @tool(approval=True, preview=shown)
    def pay(to: str, amount: int) -> str: ...

A preview is a help, not a check: it does not change how a call runs or fails. A failing preview never affects the
session.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from attrs import evolve, field, frozen

from cognition import ConfigError
from cognition.base.checking import checked, nearest, show
from interpreters.tools.context import ToolContext, ToolError
from interpreters.tools.failures import is_fault, message_of
from interpreters.tools.log_lines import Hides, log_error
from interpreters.tools.signature import Parameter, context_name, declarations, is_async, is_method

Sort = Literal["text", "diff", "command"]


def _lines(given: object) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping | bytes | bytearray):
        raise ConfigError(f"Preview: lines must be a text or several, not {show(given)}")
    found = list(texts)
    for text in found:
        if not isinstance(text, str):
            raise ConfigError(f"Preview: each of its lines must be a text, not {show(text)}")
    if any("\n" in text for text in found):
        found = [line for text in found for line in text.removesuffix("\n").split("\n")]
    return () if given == "" else tuple(found)


@checked
@frozen
class Preview:
    """The effect that a call would have, as text.

    >>> Preview(("one", "two")).lines
    ('one', 'two')
    """

    lines: tuple[str, ...] = field(default=(), converter=_lines)
    """The text, unescaped: escape it before you show it. A single text is split into lines."""
    sort: Sort = field(default="text", kw_only=True)
    """The meaning of the lines:

    - ``diff``: ``+`` begins an added line and ``-`` a removed one; a blank, ``@@`` or a backslash begins context. Any
      other line is a heading.
    - ``command``: the lines are the input of a shell.
    """
    note: str = field(default="", kw_only=True)
    """One line about the circumstances, such as the directory; or the reason why the call would fail."""


@frozen
class PreviewFunction:
    """The preview function of a tool, and the arguments that it takes."""

    function: Callable[..., Any]
    names: frozenset[str] | None
    """The names of the arguments that it takes. None if it takes all of them as one dictionary."""
    context: str | None
    defaults: Mapping[str, Any] = field(factory=dict)
    unbound: bool = False
    """Whether it is a method without its object."""

    def call(self, given: Mapping[str, Any], context: ToolContext[Any]) -> Any:
        more = {} if self.context is None else {self.context: context}
        if self.names is None:
            return self.function(dict(given), **more)
        taken = {name: value for name, value in {**self.defaults, **given}.items() if name in self.names}
        return self.function(**taken, **more)

    def of(self, instance: object) -> PreviewFunction:
        """Bind it to an object, if it is a method."""
        return evolve(self, function=self.function.__get__(instance), unbound=False) if self.unbound else self


def read_preview_function(
    function: Callable[..., Any] | None, label: str, parameters: Mapping[str, Parameter] | None = None
) -> PreviewFunction | None:
    """Check a preview function against the tool's parameters.

    Without ``parameters`` (a tool made from a schema), the function receives all arguments as one dictionary.

    Raises:
        ConfigError: the function can't be called with the tool's arguments.
    """
    if function is None:
        return None
    where = f"tool {label!r}, preview"
    if not callable(function):
        raise ConfigError(f"{where} has to be a function, not {function!r}")
    if is_async(function):
        raise ConfigError(f"{where} has to be a plain function: what it gives is shown at once, and never awaited")
    context = context_name(function)
    if parameters is None:
        return PreviewFunction(function, None, context)
    taken = set[str]()
    for one in declarations(function, where):
        if one.kind is one.VAR_KEYWORD:
            taken |= parameters.keys()
        elif one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise ConfigError(f"{where}: it is called with the arguments by their names; *args and '/' get none")
        elif one.name in parameters:
            taken.add(one.name)
        elif one.name != context and one.default is one.empty:
            raise ConfigError(
                f"{where} takes {one.name!r}, which is no argument of the tool{nearest(one.name, parameters)}"
            )
    defaults = {name: item.default for name, item in parameters.items() if not item.required}
    return PreviewFunction(function, frozenset(taken), context, defaults, is_method(function))


def make_preview(make: Callable[[], Any], name: str, hides: Hides | None = None) -> Preview | None:
    """Return the preview, or None if the function returns None or fails with anything but a ``ToolError``.

    Does not catch an interrupt, or an exception from a signal handler of the program.
    """
    try:
        given = make()
        if given is None or isinstance(given, Preview):
            return given
        if inspect.isawaitable(given):
            raise TypeError("a preview is shown at once, and never awaited")
        return Preview(given)
    except ToolError as error:
        first = message_of(error, error).strip().partition("\n")[0].rstrip(":")
        return Preview(note=f"this call would fail: {first}")
    except BaseException as error:  # of any kind, as with tools: who is asked sees the arguments then
        if not is_fault(error):
            raise
        log_error(logging.WARNING, f"the preview of the tool {name} failed", error, hides)
        return None

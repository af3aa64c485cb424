"""Tools are plain functions: ``@tool`` derives the schema from the signature, checks arguments and words errors.

    @tool(read_only=True)
    def multiply(a: int, b: int) -> int:
        '''Multiply two whole numbers.'''
        return a * b

    multiply.spec.parameters
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}

The tool has the function's name. Its description is the docstring without the descriptions of parameters, which go to
them: in an ``Args:`` section, in the style of NumPy or of Sphinx, or with ``Annotated[int, "how many"]``. Arguments
that ``functools.partial`` binds are no parameters.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from copy import copy
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack, overload
from uuid import UUID

import attrs

from cognition import RETRY_PLAN, CallTool, ConfigError, ToolFailed, ToolReturned, ToolSpec
from cognition.base.encoding import bounded
from cognition.base.strict_json import DEEPEST as DEEPEST_JSON
from cognition.values.tools import ToolClass
from interpreters.tools._docstrings import read_docstring
from interpreters.tools._records import is_named_tuple
from interpreters.tools.context import (
    LATER,
    ToolCancelled,
    ToolContext,
    ToolError as ToolError,
    ToolRetry as ToolRetry,
)
from interpreters.tools.failures import TaskWatch, describe as describe, is_fault, may_pass, message_of, problems_of
from interpreters.tools.log_lines import Hides, log_error
from interpreters.tools.previews import Preview, PreviewFunction, make_preview, read_preview_function
from interpreters.tools.schema import DEEPEST, Schema, is_within, problems
from interpreters.tools.signature import (
    check_result,
    context_name,
    docstring_of,
    is_async as is_async,
    is_method,
    name_of,
    object_schema,
    parameters,
)
from runtime.checking import checked_call

if TYPE_CHECKING:
    from interpreters.tools.schema_check import FullCheck


AS_TEXT = (date, datetime, time, Decimal, PurePath, UUID)
"""Types that become their text in JSON."""

P = ParamSpec("P")
R = TypeVar("R")


class ToolOptions(TypedDict, total=False):
    """Keyword options of a tool: those of ``ToolSpec``, and a preview of its calls. See ``tool``."""

    read_only: bool
    idempotent: bool
    approval: bool | tuple[str, ...]
    kind: ToolClass | None
    paths: tuple[str, ...]
    command: str
    asks_with: tuple[str, ...]
    parallel: bool | None
    timeout: float | None
    retries: tuple[float, ...] | bool
    output_limit: int | None
    polls: bool
    preview: Callable[..., Any] | None


class Tool(Generic[P, R]):
    """A function with its specification for the model and the policy. Calling it calls the function.

    Attributes:
        spec: name, description, schema and flags.
        function: the undecorated function.
        confinement: what confines the calls, for the user, such as ``commands confined by bubblewrap``; else empty.
    """

    confinement: str = ""

    @checked_call
    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        self.function: Callable[P, R] = function
        self.is_async: bool = is_async(function)
        self.is_method = is_method(function)
        label = name or name_of(function)
        check_result(function, label)
        text, descriptions = read_docstring(docstring_of(function))
        self._parameters, self._context_name, definitions = parameters(function, label, descriptions)
        told = text if description is None else description
        schema = object_schema(self._parameters.values(), definitions)
        self.spec: ToolSpec = _spec_of(label, told, schema, options)
        self._previewing = read_preview_function(options.get("preview"), label, self._parameters)
        self._required = frozenset(item.name for item in self._parameters.values() if item.required)
        self._plain = {item.name: item.shape.plain for item in self._parameters.values()}
        """For each parameter the type whose values need no check; None if its values need a check."""
        self._defaults = {item.name: item.default for item in self._parameters.values() if item.fills_in}
        # Which names there have to be and may be; what stands under them is checked one by one.
        self._names: Schema = {
            **self.spec.parameters,
            "properties": {name: {} for name in self._parameters},
            "additionalProperties": False,
        }
        self._derived = self.spec.parameters
        """The schema that the checks are for. It differs from ``spec.parameters`` if ``spec`` was replaced."""
        self._is_within = is_within(schema)
        """Whether the signature's schema can be checked without ``schema_check``."""
        self._full: FullCheck | None = None if self._is_within else self._full_check()
        functools.update_wrapper(self, function)

    @staticmethod
    @checked_call
    def from_schema(
        *,
        name: str,
        description: str = "",
        parameters: Schema,
        function: Callable[..., Any],
        **options: Unpack[ToolOptions],
    ) -> Tool[..., Any]:
        """Make a tool with a given JSON Schema, such as a tool of an MCP server.

        Every call is checked against the whole schema before the function runs, even if sampling was constrained.

        Args:
            name: name of the tool.
            description: text for the model.
            parameters: JSON Schema of an object, draft 2020-12 or the draft named by ``$schema``.
            function: takes the arguments as one dictionary of decoded JSON; plain or ``async def``. It also receives a
                ``ToolContext`` if it has a parameter of that type.
            options: as for ``tool``; ``preview`` takes the arguments as ``function`` does, and returns a ``Preview``.

        Raises:
            ConfigError: the name is invalid; the schema is invalid or can't be checked; or the extra ``schemas`` is not
                installed.
        """
        return SchemaTool(_spec_of(name, description, parameters, options), function, preview=options.get("preview"))

    @property
    def timeout(self) -> float | None:
        """Seconds until a call counts as failed; None for no limit.

        The timeout cancels an ``async def``. A plain function can't be stopped and keeps running.
        """
        return self.spec.timeout

    def prepare(self) -> None:
        """Prepare the check of the arguments when the tool is offered, not at its first call.

        Raises:
            ConfigError: they can't be checked.
        """
        if self.spec.parameters is not self._derived:
            self._full = self._full_check()
            self._derived = self.spec.parameters

    def _full_check(self) -> FullCheck:
        from interpreters.tools.schema_check import FullCheck

        return FullCheck(self.spec.parameters, f"the parameters of tool {self.spec.name!r}")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.spec.name}>"

    _previewing: PreviewFunction | None = None
    is_method: bool = False
    """Whether it was decorated in a class and needs an object: ``shop.order`` can be called, ``Shop.order`` can't."""

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., Any]:
        if instance is None or not self.is_method:
            return self
        bound = copy(self)
        bound.function, bound.is_method = self.function.__get__(instance), False
        bound._previewing = None if self._previewing is None else self._previewing.of(instance)
        return bound

    def preview(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> Preview | None:
        """Return a preview of a call's effect, without side effects.

        For a call that would fail, it contains the reason. None if the tool has no preview, or the preview failed.
        """
        shown = self._previewing
        if shown is None:
            return None
        return make_preview(lambda: shown.call(self._structured(arguments), context), self.spec.name, context.hides)

    def failure(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> str:
        """Return the error with which a call would fail, as far as its arguments and ``preview`` show; else empty."""
        shown = self._previewing
        try:
            given = self._structured(arguments)
            if shown is not None:
                shown.call(given, context)
        except ToolError as error:
            return "" if may_pass(error) else _error_text(error)
        except BaseException as error:  # of a preview, which says nothing about the call then
            if not is_fault(error):
                raise
        return ""

    def call(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> str:
        """Check and convert the arguments, call the function, and return its result as text.

        An ``async def`` runs in the session's event loop, or in one of its own without a session: this thread must not
        have a running loop. ``context.cancel()`` cancels it at an ``await``.

        Raises:
            ToolError: the arguments are wrong (the message lists each problem), or the function raised it.
            ToolCancelled: the call was cancelled before or during the run, or the function raised it.
        """
        if self.is_async:
            return context.wait_for(self.call_async(arguments, context))
        given = self._structured(arguments)
        context.begin()  # as late as can be, since nothing may begin once a cancellation has returned
        result = self._call(given, context)
        if inspect.isawaitable(result):  # of a plain function around an ``async def``
            result = context.wait_for(result)
        return text_of(result, self.spec.name)

    async def call_async(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> str:
        """Do the same as ``call`` for an ``async def``, in the running event loop. Raises the same errors."""
        given = self._structured(arguments)
        context.begin()
        return text_of(await self._call(given, context), self.spec.name)

    def _call(self, given: dict[str, Any], context: ToolContext[Any]) -> Any:
        if self._context_name is not None:
            given[self._context_name] = context
        function: Callable[..., Any] = self.function
        return function(**given)

    def _structured(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to call the function with.

        Raises:
            ToolError: the arguments are wrong; the message lists each problem.
        """
        self.prepare()
        if self._full is None and self._is_plain(arguments):  # the usual case, in a tenth of the time
            return {**self._defaults, **arguments}
        check_finite(arguments, self.spec.name)
        found: list[str] = []
        if self._full is not None:
            omitted = {name for name, item in self._parameters.items() if item.optional and arguments.get(name) is None}
            found = self._full.problems({name: value for name, value in arguments.items() if name not in omitted})
        values: dict[str, Any] = dict(self._defaults)
        definitions = self.spec.parameters.get("$defs", {})
        try:
            for name, value in arguments.items():
                parameter = self._parameters.get(name)
                if parameter is None or (value is None and parameter.optional) or (found and not self._is_within):
                    values[name] = value
                    continue
                wrong = list(problems(value, parameter.schema, name, definitions)) if self._is_within else []
                if wrong:
                    found += wrong
                    continue
                try:
                    values[name] = parameter.shape.value(value)
                except RecursionError:
                    raise
                except Exception as error:  # a validator of the caller's own class said no, in whatever way it likes
                    found += [f"{name}{place} is refused: {text}" for place, text in problems_of(error)]
            if not (self._required <= arguments.keys() <= self._parameters.keys()):
                found += problems(dict(arguments), self._names)
        except RecursionError:
            found.append(DEEPEST)
        if found:
            raise ToolError(f"wrong arguments for {self.spec.name}: {'; '.join(dict.fromkeys(found))}")
        return values

    def _is_plain(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether the arguments are complete and need neither a check nor a conversion."""
        plain = self._plain
        for name, value in arguments.items():
            if plain.get(name) is not type(value):
                return False
        return self._required <= arguments.keys()


class SchemaTool(Tool[..., Any]):
    """A tool made by ``Tool.from_schema``, which documents arguments and errors."""

    def __init__(
        self, spec: ToolSpec, function: Callable[..., Any], *, preview: Callable[..., Any] | None = None
    ) -> None:
        from runtime.constrained.tools import read_tool

        if not callable(function):
            raise ConfigError(f"tool {spec.name!r} needs a function, not {function!r}")
        check_result(function, spec.name)
        self.function = function
        self.is_async: bool = is_async(function)
        self.spec = spec
        self._derived = spec.parameters
        self._context_name = context_name(function)
        self._previewing = read_preview_function(preview, spec.name)
        self._full = self._full_check()
        read_tool(spec)

    def _call(self, given: dict[str, Any], context: ToolContext[Any]) -> Any:
        more = {} if self._context_name is None else {self._context_name: context}
        return self.function(given, **more)

    def _structured(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.prepare()
        assert self._full is not None  # made with the tool
        given = dict(arguments)
        check_finite(given, self.spec.name)
        if wrong := self._full.problems(given):
            raise ToolError(f"wrong arguments for {self.spec.name}: {'; '.join(wrong)}")
        return given


HARMLESS = frozenset({str, int, bool, type(None)})


def check_finite(arguments: Mapping[str, Any], name: str) -> None:
    """Check that no number in the arguments is infinite or NaN, at any depth.

    Raises:
        ToolError: a number is not finite.
    """
    waiting = list(arguments.values())
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind in HARMLESS:  # by exact type: to ask whether each is a mapping takes ten times as long
            continue
        if kind is float:
            if not isfinite(value):
                raise ToolError(f"wrong arguments for {name}: {value} is no JSON number")
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value


def _spec_of(name: str, description: str, schema: Schema, options: ToolOptions) -> ToolSpec:
    """Return the specification. ``retries=True`` means ``RETRY_PLAN``."""
    flags: Any = {key: value for key, value in options.items() if key != "preview"}
    retries = options.get("retries", ())
    flags["retries"] = (RETRY_PLAN if retries else ()) if isinstance(retries, bool) else tuple(retries)
    flags["paths"] = tuple(options.get("paths", ()))
    return ToolSpec(name, description, schema, **flags)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None, /, **options: Any
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool from a function: ``@tool`` or ``@tool(read_only=True)``.

    Args:
        function: takes typed arguments with a JSON form. It also receives a ``ToolContext`` if it has a parameter of
            that type.
        options: keyword options:

            - ``name`` replaces the function's name, ``description`` its docstring.
            - ``read_only``, ``idempotent``, ``approval``, ``kind``, ``paths``, ``command``, ``asks_with``,
              ``parallel``, ``timeout``, ``retries`` (True: ``RETRY_PLAN``), ``output_limit`` and ``polls``: as in
              ``ToolSpec``.
            - ``preview``: a function that takes some of the same arguments and returns the effect of a call for the
              approving user, as a text, lines or a ``Preview``.

    Raises:
        ConfigError: a parameter has no type, or a type without a JSON form.
    """
    if function is None:
        return lambda decorated: Tool(decorated, **options)
    return Tool(function, **options)


def run_tool(tool: Tool[..., Any], effect: CallTool, context: ToolContext[Any]) -> ToolReturned | ToolFailed:
    """Run a call. Any failure of the tool becomes a result that the model can read.

    Does not catch an interrupt, or an exception from a signal handler of the program.
    """
    try:
        content = tool.call(effect.call.arguments, context)
        return ToolReturned(effect.effect_id, content, images=context.images)
    except BaseException as error:  # of any kind: a tool that calls sys.exit() must not take the session with it
        if not is_fault(error):
            raise
        context.error = error
        return _make_failure(effect, error, context.hides)


async def run_tool_async(
    tool: Tool[..., Any], effect: CallTool, context: ToolContext[Any]
) -> ToolReturned | ToolFailed:
    """Do the same as ``run_tool`` for an ``async def``. Does not catch a cancellation of the task."""
    watch = TaskWatch()
    try:
        content = await tool.call_async(effect.call.arguments, context)
        return ToolReturned(effect.effect_id, content, images=context.images)
    except BaseException as error:
        if not watch.is_fault(error):
            raise
        context.error = error
        return _make_failure(effect, error, context.hides)


def tool_result(effect: CallTool, result: object) -> ToolReturned | ToolFailed:
    """Return the input for a call's result, or for the exception that it failed with.

    Raises:
        ConfigError: the result has no JSON form.
    """
    if isinstance(result, BaseException):
        return _make_failure(effect, result)
    try:
        return ToolReturned(effect.effect_id, text_of(result, effect.call.name))
    except ToolError as error:
        raise ConfigError(str(error)) from error


def too_late(tool: Tool[..., Any], effect: CallTool) -> ToolFailed:
    """Return the failure of a call that exceeded the tool's ``timeout``.

    It is temporary, unless the call still runs and may change something: a retry would then run in parallel.
    """
    transient = tool.is_async or tool.spec.read_only
    message = f"{effect.call.name} took longer than {tool.timeout:g} seconds"
    return ToolFailed(effect.effect_id, message, transient=transient)


LEFT = "the call was cancelled while it ran; it may have happened, in part or in whole"
"""The message to the model for a call that was cancelled while it ran."""

MEANT = (ToolError, ToolCancelled)
"""Exceptions that a tool raises on purpose. Any other exception is a bug in the tool."""


def _make_failure(effect: CallTool, error: BaseException, hides: Hides | None = None) -> ToolFailed:
    level = logging.DEBUG if isinstance(error, MEANT) else logging.WARNING
    log_error(level, f"the tool {effect.call.name} failed", error, hides)
    match error:
        case ToolRetry():
            return ToolFailed(effect.effect_id, _error_text(error))
        case ToolError():
            return ToolFailed(effect.effect_id, _error_text(error), transient=may_pass(error))
        case ToolCancelled() | asyncio.CancelledError():
            return ToolFailed(effect.effect_id, LEFT)
        case _:
            return ToolFailed(effect.effect_id, describe(error), transient=may_pass(error))


def _error_text(error: ToolError) -> str:
    return f"{message_of(error, error)}\nTry again." if isinstance(error, ToolRetry) else message_of(error, error)


def text_of(value: Any, name: str) -> str:
    """Return a text unchanged and any other result as JSON.

    Raises:
        ToolError: the result has no JSON form.
    """
    if isinstance(value, str):
        return value
    if value is LATER:
        raise ToolError(f"{name} can't answer later; give the agent a ToolSpec in its place, and hand the result in")
    if type(value) is int:  # the commonest of the others, and three times as fast as through JSON
        return str(value)
    try:
        return bounded(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False), DEEPEST_JSON)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"{name} returned a value that has no form in JSON: {error}") from error


def _key(value: Any) -> Any:
    """Return the text of a key in JSON. What is no key stays, and is refused."""
    return json.dumps(value) if type(value) in (int, float, bool) or value is None else value


def _plain(value: Any) -> Any:
    """Convert a value to plain JSON data by its actual types, not by the declared types of its class."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, AS_TEXT):
        return str(value)
    if isinstance(value, Mapping):
        made = {_key(_plain(name)): _plain(one) for name, one in value.items()}
        if len(made) < len(value):
            raise TypeError("two keys have the same text")
        return made
    if is_named_tuple(type(value)):
        return {name: _plain(one) for name, one in zip(value._fields, value, strict=True)}
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [_plain(one) for one in value]
    if isinstance(value, str | int | float):
        return value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)  # a model of pydantic's
    if attrs.has(type(value)):
        return {one.name: _plain(getattr(value, one.name)) for one in attrs.fields(type(value)) if one.init}
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value) if one.init}
    if hasattr(type(value), "__get_pydantic_core_schema__"):  # a type of pydantic's, such as an address
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")

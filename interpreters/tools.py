"""Tools are plain functions: ``@tool`` reads the schema off the signature, checks arguments, and words what goes wrong.

    @tool(read_only=True)
    def multiply(a: int, b: int) -> int:
        '''Multiply two whole numbers.'''
        return a * b

    multiply.spec.parameters
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}

The name is the function's, the description the first paragraph of its docstring, and parameters are described by an
``Args:`` section or by ``Annotated[int, "how many"]``.
"""

from __future__ import annotations

import functools
import inspect
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, get_args, get_origin, get_type_hints, overload
from uuid import UUID

from attrs import frozen

from cognition import CallTool, ConfigError, ToolFailed, ToolReturned, ToolSpec
from interpreters.context import ToolCancelled, ToolContext
from interpreters.schema import UNIONS, Schema, accepts, problems, schema_of
from runtime.checking import checked_call

if TYPE_CHECKING:
    from cattrs import Converter

    from interpreters.full_check import FullCheck

# cattrs is imported at the first call of a tool: `cogstep --help` and programs that only declare tools never need it.

P = ParamSpec("P")
R = TypeVar("R")

SECTION = re.compile(r"(?:Args|Arguments|Parameters):\s*$")
ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
AS_TEXT = (date, datetime, Decimal, PurePath, UUID)
"""Values that stand in JSON as their text."""


class ToolError(Exception):
    """Raised by a tool: its message goes to the model word for word."""


class ToolRetry(ToolError):  # noqa: N818 - no error of the tool: it asks for something
    """Raised by a tool to have the model try again: ``raise ToolRetry("the city must be in Europe")``."""


@frozen
class Parameter:
    """One argument of a tool."""

    name: str
    kind: Any
    """Its type, as annotated."""
    schema: Schema
    required: bool
    optional: bool
    """None may be given, though the schema doesn't say so: the default is None."""


class Tool(Generic[P, R]):
    """A function with what the model and the policy have to know of it. Calling it calls the function.

    Attributes:
        spec: name, description, schema and flags.
        function: the undecorated function.
        timeout: seconds after which a call counts as failed; None for no limit. What runs on is left alone.
    """

    @checked_call
    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        approval: bool = False,
        timeout: float | None = None,
    ) -> None:
        self.function = function
        self.timeout = timeout
        self.is_async = is_async(function)
        """Whether it is an ``async def``."""
        label = name or str(getattr(function, "__name__", type(function).__name__))
        if timeout is not None and timeout <= 0:
            raise ConfigError(f"tool {label!r}: timeout must be above 0 seconds, not {timeout!r}")
        text = inspect.getdoc(function) or ""
        self._parameters, self._context_name = _parameters(function, label, _described(text))
        self.spec = ToolSpec(
            label, _summary(text), _object_schema(self._parameters.values()), read_only, idempotent, approval
        )
        self._required = frozenset(item.name for item in self._parameters.values() if item.required)
        # Which names there have to be and may be; what stands under them is checked one by one.
        self._names: Schema = {
            **self.spec.parameters,
            "properties": {name: {} for name in self._parameters},
            "additionalProperties": False,
        }
        self._derived = self.spec.parameters
        """The schema made of the signature; where another one was put into ``spec``, that is checked too, in full."""
        self._full: FullCheck | None = None
        functools.update_wrapper(self, function)

    @staticmethod
    @checked_call
    def from_schema(
        *,
        name: str,
        description: str = "",
        parameters: Schema,
        function: Callable[..., Any],
        read_only: bool = False,
        idempotent: bool = False,
        approval: bool = False,
        timeout: float | None = None,
    ) -> Tool[..., Any]:
        """A tool whose arguments somebody else has described, such as a server of tools.

        Every call is checked against the whole schema before the function is called, whatever the model was held to.

        Args:
            name: of the tool.
            description: for the model.
            parameters: the JSON Schema of an object: draft 2020-12, or the one that its ``$schema`` names.
            function: takes the arguments as one dictionary, decoded from JSON and otherwise as they came; plain or
                ``async def``. A ``ToolContext`` is handed in if asked for.
            read_only, idempotent, approval: as in ``ToolSpec``.
            timeout: in seconds.

        Raises:
            ConfigError: the name can't be used; the schema is none, or can't be checked; the extra ``schemas`` is not
                installed.
        """
        from interpreters.schema_tools import SchemaTool

        spec = ToolSpec(name, description, parameters, read_only, idempotent, approval)
        return SchemaTool(spec, function, timeout=timeout)

    def prepare(self) -> None:
        """Make ready whatever checks the arguments, when the tool is offered and not at its first call.

        Raises:
            ConfigError: they can't be checked.
        """
        if self.spec.parameters is not self._derived and self._full is None:
            from interpreters.full_check import FullCheck

            self._full = FullCheck(self.spec.parameters, f"the parameters of tool {self.spec.name!r}")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.spec.name}>"

    def call(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> str:
        """Check and structure the arguments, call the function, and give its result as text.

        An ``async def`` runs in an event loop of its own; none may run on this thread.

        Raises:
            ToolError: the arguments are wrong, each problem named; or the function raised it.
            ToolCancelled: nobody waits for the call any more, and it has not begun; or the function raised it.
        """
        if self.is_async:
            import asyncio

            return asyncio.run(self.call_async(arguments, context))
        given = self._structured(arguments)
        context.begin()  # as late as can be, since nothing may begin once a cancellation has returned
        return text_of(self._call(given, context), self.spec.name)

    async def call_async(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> str:
        """``call`` for a tool that is an ``async def``, in the event loop that runs here; raises the same."""
        given = self._structured(arguments)
        context.begin()
        return text_of(await self._call(given, context), self.spec.name)

    def _call(self, given: dict[str, Any], context: ToolContext[Any]) -> Any:
        """Call the function with arguments that were checked."""
        if self._context_name is not None:
            given[self._context_name] = context
        function: Callable[..., Any] = self.function
        return function(**given)

    def _structured(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The values that the function is called with.

        Raises:
            ToolError: the arguments are wrong, each problem named.
        """
        self.prepare()
        found: list[str] = [] if self._full is None else self._full.problems(dict(arguments))
        values: dict[str, Any] = {}
        for name, value in arguments.items():
            parameter = self._parameters.get(name)
            if parameter is None or (value is None and parameter.optional):
                values[name] = value
                continue
            wrong = list(problems(value, parameter.schema, name))
            if wrong:
                found += wrong
                continue
            try:
                values[name] = structured(value, parameter.kind)
            except Exception as error:  # a validator of the caller's own class said no, in whatever way it likes
                found += [f"{name} {problem}" for problem in reasons(error)]
        if not (self._required <= arguments.keys() <= self._parameters.keys()):
            found += problems(dict(arguments), self._names)
        if found:
            raise ToolError(f"wrong arguments for {self.spec.name}: {'; '.join(found)}")
        return values


Usable = Tool[..., Any] | Callable[..., Any]
"""What an agent takes for a tool: one that ``@tool`` made, or a plain function, which is then made one."""


def as_tools(usable: Iterable[Usable]) -> tuple[Tool[..., Any], ...]:
    """Tools of whatever an agent was given.

    Raises:
        ConfigError: a function has a parameter without a type, or with one that JSON has no form for.
    """
    return tuple(one if isinstance(one, Tool) else Tool(one) for one in usable)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    approval: bool = False,
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None, /, **options: Any
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a function: ``@tool`` or ``@tool(read_only=True)``.

    Args:
        function: takes arguments that JSON can carry, each with a type; a ``ToolContext`` is handed in if asked for.
        options: ``name`` instead of the function's own; ``read_only``, ``idempotent`` and ``approval`` as in
            ``ToolSpec``; ``timeout`` in seconds.

    Raises:
        ConfigError: a parameter has no type, or one that JSON has no form for.
    """
    if function is None:
        return lambda decorated: Tool(decorated, **options)
    return Tool(function, **options)


def run_tool(tool: Tool[..., Any], effect: CallTool, context: ToolContext[Any]) -> ToolReturned | ToolFailed:
    """Carry out a call. Whatever the tool does wrong becomes a result that the model can read."""
    try:
        return ToolReturned(effect.effect_id, tool.call(effect.call.arguments, context))
    except TOOL_FAULTS as error:
        return _failed(effect, error)


async def run_tool_async(
    tool: Tool[..., Any], effect: CallTool, context: ToolContext[Any]
) -> ToolReturned | ToolFailed:
    """``run_tool`` for a tool that is an ``async def``. A cancellation of the task passes through."""
    try:
        return ToolReturned(effect.effect_id, await tool.call_async(effect.call.arguments, context))
    except TOOL_FAULTS as error:
        return _failed(effect, error)


def too_late(tool: Tool[..., Any], effect: CallTool) -> ToolFailed:
    """What the model is told of a call that did not end within the tool's ``timeout``."""
    return ToolFailed(effect.effect_id, f"{effect.call.name} took longer than {tool.timeout:g} seconds")


LEFT = "the call was cancelled while it ran; it may have happened, in part or in whole"
"""What the model is told of a call that was left in its middle."""

TOOL_FAULTS = (Exception, ToolCancelled, SystemExit)
"""SystemExit: a tool that calls sys.exit() must not take the session with it."""


def _failed(effect: CallTool, error: BaseException) -> ToolFailed:
    match error:
        case ToolRetry():
            return ToolFailed(effect.effect_id, f"{error}\nTry again.")
        case ToolError():
            return ToolFailed(effect.effect_id, str(error))
        case ToolCancelled():
            return ToolFailed(effect.effect_id, LEFT)
        case _:
            return ToolFailed(effect.effect_id, describe(error))


def describe(error: BaseException) -> str:
    """What an exception says, with its type where the message alone would say nothing: ``KeyError: 'name'``."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if " " in message.strip():
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def text_of(value: Any, name: str) -> str:
    """A result as text for the model: a text as it is, everything else as JSON.

    Raises:
        ToolError: JSON has no form for it.
    """
    if isinstance(value, str):
        return value
    if type(value) is int:  # the commonest of the others, and three times as fast as through JSON
        return str(value)
    try:
        if not isinstance(value, int | float | bool | None):
            value = _converter().unstructure(value)
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"{name} returned a value that has no form in JSON: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, AS_TEXT):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _parameters(
    function: Callable[..., Any], label: str, described: Mapping[str, str]
) -> tuple[dict[str, Parameter], str | None]:
    """The parameters that the model fills in, and the name of the one that takes the context."""
    try:
        hints = get_type_hints(_annotated(function), include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"tool {label!r}: an annotation can't be read ({error}); names in it have to be importable from the module"
        ) from error
    parameters: dict[str, Parameter] = {}
    context_name = None
    for name, declared in inspect.signature(function).parameters.items():
        where = f"tool {label!r}, parameter {name!r}"
        kind = hints.get(name)
        if get_origin(kind) is ToolContext or kind is ToolContext:
            context_name = name
            continue
        if declared.kind not in (declared.POSITIONAL_OR_KEYWORD, declared.KEYWORD_ONLY):
            raise ConfigError(f"{where}: models name their arguments; *args, **kwargs and '/' can't be filled in")
        if name not in hints:
            raise ConfigError(f"{where} has no type; write {name}: str, say (for a method, decorate the bound one)")
        parameters[name] = _parameter(name, kind, declared.default, where, described.get(name))
    return parameters, context_name


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await."""
    return inspect.iscoroutinefunction(_annotated(function))


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """What carries the annotations: of a partial its function, of an object its ``__call__``."""
    if isinstance(function, partial):
        return _annotated(function.func)
    return function if inspect.isroutine(function) else type(function).__call__


def _parameter(name: str, kind: Any, default: Any, where: str, description: str | None) -> Parameter:
    required = default is inspect.Parameter.empty
    shown = _without_none(kind) if default is None else kind
    schema = schema_of(shown, where)
    if description and "description" not in schema:
        schema = {**schema, "description": description}
    if not required and _has_a_json_form(default):
        schema = {**schema, "default": default}
    return Parameter(name, kind, schema, required, default is None)


def _has_a_json_form(default: Any) -> bool:
    """Whether a default is shown to the model: JSON has no form for infinity, and None is shown by leaving it out."""
    return type(default) in (str, int, bool) or (type(default) is float and isfinite(default))


def _without_none(kind: Any) -> Any:
    """``Optional[str]`` with the default None is shown as a text that may be left out."""
    origin: Any = get_origin(kind)
    if origin not in UNIONS:
        return kind
    members = tuple(member for member in get_args(kind) if member is not type(None))
    return functools.reduce(lambda left, right: left | right, members)


def _object_schema(parameters: Any) -> Schema:
    listed: list[Parameter] = list(parameters)
    schema: Schema = {"type": "object", "properties": {item.name: item.schema for item in listed}}
    required = [item.name for item in listed if item.required]
    return {**schema, "required": required} if required else schema


def _summary(text: str) -> str:
    first = text.strip().split("\n\n", 1)[0]
    return "" if SECTION.match(first) else " ".join(first.split())


def _described(text: str) -> dict[str, str]:
    """The descriptions of an ``Args:`` section in Google's style, by parameter."""
    found: dict[str, list[str]] = {}
    inside, margin = False, None
    current: list[str] = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if not inside:
            inside = indent == 0 and SECTION.match(line) is not None
            continue
        if indent == 0:
            break
        margin = indent if margin is None else margin
        match = ARGUMENT.match(line.strip()) if indent == margin else None
        if match is not None:
            current = found[match.group(1)] = [match.group(2)]
        else:
            current.append(line.strip())
    return {name: " ".join(part for part in parts if part) for name, parts in found.items()}


def structured(data: Any, kind: Any) -> Any:
    """The value of a type that JSON data stands for, once its schema has let the data pass."""
    return _converter().structure(data, kind)


def reasons(error: BaseException) -> list[str]:
    """What a class's own validator had against a value."""
    if isinstance(error, BaseExceptionGroup):
        return [reason for inner in error.exceptions for reason in reasons(inner)]
    return [f"is refused: {describe(error)}"]


@functools.cache
def _converter() -> Converter:
    """Makes values of arguments that the schema has accepted, so that what is left to it can't be misread."""
    from cattrs import Converter

    converter = Converter()

    def union(value: Any, kind: Any) -> Any:
        if value is None:
            return None
        for member in get_args(kind):
            if accepts(value, schema_of(member, "")):
                return converter.structure(value, member)
        raise TypeError(f"no member of {kind} takes {value!r}")  # the schema has let it pass, so that one does

    converter.register_structure_hook_func(lambda kind: get_origin(kind) in UNIONS, union)
    for kind in (Any, None, type(None)):
        converter.register_structure_hook_func(partial(operator.is_, kind), lambda value, _: value)
    return converter

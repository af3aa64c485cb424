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

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from math import isfinite
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from cognition import RETRY_PLAN, CallTool, ConfigError, ToolFailed, ToolReturned, ToolSpec
from cognition.tools import ToolClass
from interpreters.tools.context import (
    ToolCancelled,
    ToolContext,
    ToolError as ToolError,
    ToolRetry as ToolRetry,
)
from interpreters.tools.failures import TaskWatch, describe as describe, is_fault, message_of
from interpreters.tools.passing import may_pass
from interpreters.tools.previews import Preview, Previewing, made, previewing
from interpreters.tools.refusals import problems_of
from interpreters.tools.results import text_of
from interpreters.tools.schema import DEEPEST, Schema, is_within, problems
from interpreters.tools.signature import (
    context_name,
    described,
    is_async as is_async,
    is_method,
    object_schema,
    parameters,
    summary,
)
from runtime.checking import checked_call

if TYPE_CHECKING:
    from interpreters.tools.full_check import FullCheck

LOG = logging.getLogger("cogstep")

P = ParamSpec("P")
R = TypeVar("R")


class Tool(Generic[P, R]):
    """A function with what the model and the policy have to know of it. Calling it calls the function.

    Attributes:
        spec: name, description, schema and flags.
        function: the undecorated function.
    """

    @checked_call
    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        approval: bool | tuple[str, ...] = False,
        kind: ToolClass | None = None,
        paths: tuple[str, ...] = (),
        command: str = "",
        parallel: bool | None = None,
        timeout: float | None = None,
        retries: tuple[float, ...] | bool = (),
        output_limit: int | None = None,
        preview: Callable[..., Any] | None = None,
    ) -> None:
        self.function = function
        self.is_async = is_async(function)
        """Whether it is an ``async def``."""
        self.is_method = is_method(function)
        label = name or str(getattr(function, "__name__", type(function).__name__))
        text = inspect.getdoc(function) or ""
        self._parameters, self._context_name, definitions = parameters(function, label, described(text))
        told = summary(text) if description is None else description
        schema = object_schema(self._parameters.values(), definitions)
        flags = (read_only, idempotent, approval, kind, tuple(paths), command, parallel, timeout, _plan(retries))
        self.spec = ToolSpec(label, told, schema, *flags, output_limit)
        self._previewing = previewing(preview, label, self._parameters)
        self._required = frozenset(item.name for item in self._parameters.values() if item.required)
        self._plain = {item.name: item.shape.plain for item in self._parameters.values()}
        """For each parameter the type whose values are taken as they are; None where a value has to be looked at."""
        self._defaults = {item.name: item.default for item in self._parameters.values() if item.fills_in}
        # Which names there have to be and may be; what stands under them is checked one by one.
        self._names: Schema = {
            **self.spec.parameters,
            "properties": {name: {} for name in self._parameters},
            "additionalProperties": False,
        }
        self._derived = self.spec.parameters
        """The schema made of the signature, at first; where another one was put into ``spec``, ``_full`` is of that."""
        self._full: FullCheck | None = None
        self._is_within = is_within(schema)
        """Whether the schema made of the signature is checked without the whole check."""
        if not self._is_within:
            self._full = self._full_check()
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
        approval: bool | tuple[str, ...] = False,
        kind: ToolClass | None = None,
        paths: tuple[str, ...] = (),
        command: str = "",
        parallel: bool | None = None,
        timeout: float | None = None,
        retries: tuple[float, ...] | bool = (),
        output_limit: int | None = None,
        preview: Callable[..., Any] | None = None,
    ) -> Tool[..., Any]:
        """A tool whose arguments somebody else has described, such as a server of tools.

        Every call is checked against the whole schema before the function is called, whatever the model was held to.

        Args:
            name: of the tool.
            description: for the model.
            parameters: the JSON Schema of an object: draft 2020-12, or the one that its ``$schema`` names.
            function: takes the arguments as one dictionary, decoded from JSON and otherwise as they came; plain or
                ``async def``. A ``ToolContext`` is handed in if asked for.
            read_only, idempotent, approval, kind, paths, command: as in ``ToolSpec``, and so are the others: parallel,
            timeout, retries (True: ``RETRY_PLAN``), output_limit.
            preview: takes the arguments as ``function`` does, and gives a ``Preview``.

        Raises:
            ConfigError: the name can't be used; the schema is none, or can't be checked; the extra ``schemas`` is not
                installed.
        """
        flags = (read_only, idempotent, approval, kind, tuple(paths), command, parallel, timeout, _plan(retries))
        return SchemaTool(ToolSpec(name, description, parameters, *flags, output_limit), function, preview=preview)

    @property
    def timeout(self) -> float | None:
        """Seconds after which a call counts as failed; None for no limit. An ``async def`` is cancelled then; a plain
        function, which nothing can stop, is left alone.
        """
        return self.spec.timeout

    def prepare(self) -> None:
        """Make ready whatever checks the arguments, when the tool is offered and not at its first call.

        Raises:
            ConfigError: they can't be checked.
        """
        if self.spec.parameters is not self._derived:
            self._full = self._full_check()
            self._derived = self.spec.parameters

    def _full_check(self) -> FullCheck:
        from interpreters.tools.full_check import FullCheck

        return FullCheck(self.spec.parameters, f"the parameters of tool {self.spec.name!r}")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.spec.name}>"

    _previewing: Previewing | None = None
    is_method = False
    """Whether it was decorated in a class and needs an object: ``shop.order`` can be called, ``Shop.order`` can not."""

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., Any]:
        """The tool of an object, where it was decorated in a class."""
        if instance is None or not self.is_method:
            return self
        bound = copy(self)
        bound.function, bound.is_method = self.function.__get__(instance), False
        bound._previewing = None if self._previewing is None else self._previewing.of(instance)
        return bound

    def preview(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> Preview | None:
        """What a call would do, for whoever is asked about it; None where the tool has nothing to say beside the
        arguments, or could not. Of a call that would fail it says why. Nothing is done by it.
        """
        shown = self._previewing
        return None if shown is None else made(lambda: shown.call(self._structured(arguments), context), self.spec.name)

    def call(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> str:
        """Check and structure the arguments, call the function, and give its result as text.

        An ``async def`` runs in an event loop of its own; none may run on this thread. There ``context.cancel()``
        cancels it where it awaits something.

        Raises:
            ToolError: the arguments are wrong, each problem named; or the function raised it.
            ToolCancelled: nobody waits for the call any more: it has not begun, was cancelled, or raised this itself.
        """
        if self.is_async:
            try:
                return asyncio.run(self._call_in_own_loop(arguments, context))
            except asyncio.CancelledError:
                context.check()
                raise
        given = self._structured(arguments)
        context.begin()  # as late as can be, since nothing may begin once a cancellation has returned
        return text_of(self._call(given, context), self.spec.name)

    async def _call_in_own_loop(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> str:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end() -> None:
            with suppress(RuntimeError):  # the loop is closed: the tool came to its end at the same moment
                loop.call_soon_threadsafe(task.cancel)

        context.when_cancelled(end)
        try:
            return await self.call_async(arguments, context)
        finally:
            context.when_cancelled(None)

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
        if self._full is None and self._is_plain(arguments):  # the usual case, in a tenth of the time
            return {**self._defaults, **arguments}
        check_finite(arguments, self.spec.name)
        found: list[str] = (
            [] if self._full is None else self._full.problems(_without_nothing(arguments, self._parameters))
        )
        values: dict[str, Any] = dict(self._defaults)
        try:
            for name, value in arguments.items():
                parameter = self._parameters.get(name)
                if parameter is None or (value is None and parameter.optional) or (found and not self._is_within):
                    values[name] = value
                    continue
                wrong = (
                    []
                    if not self._is_within
                    else list(
                        problems(value, parameter.schema, name, self.spec.parameters.get("$defs", NO_DEFINITIONS))
                    )
                )
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
        """Whether there is nothing to check and nothing to make: all there are, each of a type that says it all."""
        plain = self._plain
        for name, value in arguments.items():
            if plain.get(name) is not type(value):
                return False
        return self._required <= arguments.keys()


class SchemaTool(Tool[..., Any]):
    """Made by ``Tool.from_schema``, which says what the arguments mean and what is raised."""

    def __init__(
        self, spec: ToolSpec, function: Callable[..., Any], *, preview: Callable[..., Any] | None = None
    ) -> None:
        from runtime.constrained.tools import read_tool

        if not callable(function):
            raise ConfigError(f"tool {spec.name!r} needs a function, not {function!r}")
        self.function = function
        self.is_async = is_async(function)
        self.spec = spec
        self._derived = spec.parameters
        self._context_name = context_name(function)
        self._previewing = previewing(preview, spec.name)
        self._full = self._full_check()
        read_tool(spec)

    def _call(self, given: dict[str, Any], context: ToolContext[Any]) -> Any:
        return (
            self.function(given)
            if self._context_name is None
            else self.function(given, **{self._context_name: context})
        )

    def _structured(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.prepare()
        assert self._full is not None  # made with the tool
        given = dict(arguments)
        check_finite(given, self.spec.name)
        if wrong := self._full.problems(given):
            raise ToolError(f"wrong arguments for {self.spec.name}: {'; '.join(wrong)}")
        return given


NO_DEFINITIONS: Mapping[str, Schema] = {}


def _without_nothing(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without each null that may stand for one that is left out."""
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in parameters or not parameters[name].optional
    }


HARMLESS = frozenset({str, int, bool, type(None)})


def check_finite(arguments: Mapping[str, Any], name: str) -> None:
    """See that no number among the arguments is infinite or none, whatever type it is given for.

    Raises:
        ToolError: one is.
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


def _plan(retries: tuple[float, ...] | bool) -> tuple[float, ...]:
    """The waits before further attempts, where True is for the usual ones."""
    return (RETRY_PLAN if retries else ()) if isinstance(retries, bool) else tuple(retries)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    approval: bool | tuple[str, ...] = False,
    kind: ToolClass | None = None,
    paths: tuple[str, ...] = (),
    command: str = "",
    parallel: bool | None = None,
    timeout: float | None = None,
    retries: tuple[float, ...] | bool = (),
    output_limit: int | None = None,
    preview: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None, /, **options: Any
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a function: ``@tool`` or ``@tool(read_only=True)``.

    Args:
        function: takes arguments that JSON can carry, each with a type; a ``ToolContext`` is handed in if asked for.
        options: ``name`` instead of the function's own, ``description`` instead of its docstring's; ``read_only``,
            ``idempotent``, ``approval``, ``kind``, ``paths``, ``command``, ``parallel``, ``timeout``, ``retries`` (True
            for ``RETRY_PLAN``) and ``output_limit`` as in ``ToolSpec``; ``preview``, a function of some of the same
            arguments that gives a text, lines or a ``Preview`` of what a call would do, for whoever is asked about it.

    Raises:
        ConfigError: a parameter has no type, or one that JSON has no form for.
    """
    if function is None:
        return lambda decorated: Tool(decorated, **options)
    return Tool(function, **options)


def run_tool(tool: Tool[..., Any], effect: CallTool, context: ToolContext[Any]) -> ToolReturned | ToolFailed:
    """Carry out a call. Whatever the tool does wrong becomes a result that the model can read.

    An interrupt passes through, and so does what a signal's handler of the program raises.
    """
    try:
        content = tool.call(effect.call.arguments, context)
        return ToolReturned(effect.effect_id, content, images=context.images)
    except BaseException as error:  # of any kind: a tool that calls sys.exit() must not take the session with it
        if not is_fault(error):
            raise
        context.error = error
        return _failed(effect, error)


async def run_tool_async(
    tool: Tool[..., Any], effect: CallTool, context: ToolContext[Any]
) -> ToolReturned | ToolFailed:
    """``run_tool`` for a tool that is an ``async def``. A cancellation of the task passes through."""
    watch = TaskWatch()
    try:
        content = await tool.call_async(effect.call.arguments, context)
        return ToolReturned(effect.effect_id, content, images=context.images)
    except BaseException as error:
        if not watch.is_fault(error):
            raise
        context.error = error
        return _failed(effect, error)


def tool_result(effect: CallTool, result: object) -> ToolReturned | ToolFailed:
    """The input that the result of a call means, or the exception that it failed with.

    Raises:
        ConfigError: JSON has no form for the result.
    """
    if isinstance(result, BaseException):
        return _failed(effect, result)
    try:
        return ToolReturned(effect.effect_id, text_of(result, effect.call.name))
    except ToolError as error:
        raise ConfigError(str(error)) from error


def too_late(tool: Tool[..., Any], effect: CallTool) -> ToolFailed:
    """What the model is told of a call that did not end within the tool's ``timeout``.

    It may pass, unless the call goes on and may change something: a further one would run beside it.
    """
    transient = tool.is_async or tool.spec.read_only
    message = f"{effect.call.name} took longer than {tool.timeout:g} seconds"
    return ToolFailed(effect.effect_id, message, transient=transient)


LEFT = "the call was cancelled while it ran; it may have happened, in part or in whole"
"""What the model is told of a call that was cancelled while it ran."""

MEANT = (ToolError, ToolCancelled)
"""What a tool raises to say something; anything else is a mistake of it, which its author has to find."""


def _failed(effect: CallTool, error: BaseException) -> ToolFailed:
    level = logging.DEBUG if isinstance(error, MEANT) else logging.WARNING
    LOG.log(level, "the tool %s failed", effect.call.name, exc_info=error)
    match error:
        case ToolRetry():
            return ToolFailed(effect.effect_id, f"{message_of(error, error)}\nTry again.")
        case ToolError():
            return ToolFailed(effect.effect_id, message_of(error, error), transient=may_pass(error))
        case ToolCancelled() | asyncio.CancelledError():
            return ToolFailed(effect.effect_id, LEFT)
        case _:
            return ToolFailed(effect.effect_id, describe(error), transient=may_pass(error))

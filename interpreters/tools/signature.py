"""Read a tool's parameters, their schemas and its description from a function's signature and docstring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from math import isfinite
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from attrs import evolve, frozen

from cognition import ConfigError
from interpreters.tools._pydantic_models import default_of, is_field
from interpreters.tools.context import ToolContext
from interpreters.tools.schema import Schema
from interpreters.tools.type_shapes import UNIONS, Shape, Shapes


@frozen
class Parameter:
    """One argument of a tool."""

    name: str
    shape: Shape
    schema: Schema
    required: bool
    optional: bool
    """Whether None is accepted because it is the default, though the schema does not include it."""
    default: Any = None
    fills_in: bool = False
    """Whether the model may omit it but the function needs it: pydantic's ``Field(3)``."""


def parameters(
    function: Callable[..., Any], label: str, described: Mapping[str, str]
) -> tuple[dict[str, Parameter], str | None, dict[str, Schema]]:
    """Return the parameters for the model, the name of the context parameter, and the shared definitions."""
    try:
        hints = get_type_hints(_annotated(function), include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"tool {label!r}: an annotation can't be read ({error}); names in it have to be importable from the module"
        ) from error
    parameters: dict[str, Parameter] = {}
    shapes = Shapes()
    context_name = None
    for declared in declarations(function, f"tool {label!r}"):
        name = declared.name
        where = f"tool {label!r}, parameter {name!r}"
        kind = hints.get(name)
        if get_origin(kind) is ToolContext or kind is ToolContext:
            context_name = name
            continue
        if declared.kind not in (declared.POSITIONAL_OR_KEYWORD, declared.KEYWORD_ONLY):
            raise ConfigError(f"{where}: models name their arguments; *args, **kwargs and '/' can't be filled in")
        if name not in hints:
            raise ConfigError(f"{where} has no type; write {name}: str, say")
        parameters[name] = _parameter(shapes, name, kind, declared.default, where, described.get(name))
    return parameters, context_name, shapes.definitions


def declarations(function: Callable[..., Any], where: str) -> list[inspect.Parameter]:
    """Return the declared parameters of a function, without the object of a method.

    Raises:
        ConfigError: they can't be read.
    """
    try:
        declared = _declared(function)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: its parameters can't be read ({error}); write a function for it") from error
    return declared[1:] if is_method(function) else declared


def _declared(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that can still be filled in: a partial's arguments are no parameters any more.

    Raises:
        TypeError, ValueError: they can't be read.
    """
    if not isinstance(function, partial):
        return list(inspect.signature(function).parameters.values())
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    declared = _declared(function.func)
    for _ in function.args:
        if not declared or declared[0].kind not in (*by_place, inspect.Parameter.VAR_POSITIONAL):
            raise TypeError("the partial binds more arguments than there are")
        declared = declared[1:] if declared[0].kind in by_place else declared
    return [one for one in declared if one.name not in function.keywords]


def name_of(function: Callable[..., Any]) -> str:
    """Return a function's name: of a partial, its function's; of another object, its class's."""
    while isinstance(function, partial) and "__name__" not in vars(function):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def docstring_of(function: Callable[..., Any]) -> str:
    """Return a function's docstring: of a partial, its function's; of another object, that of ``__call__`` or its
    class's.
    """
    while isinstance(function, partial) and "__doc__" not in vars(function):
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, partial):
        own = inspect.getdoc(type(function).__call__)
        if own and own != inspect.getdoc(object.__call__):
            return own
    return inspect.getdoc(function) or ""


def check_result(function: Callable[..., Any], label: str) -> None:
    """Check that a function returns its result.

    Raises:
        ConfigError: it yields several.
    """
    made = inspect.unwrap(_annotated(function))
    if inspect.isgeneratorfunction(made) or inspect.isasyncgenfunction(made):
        raise ConfigError(
            f"tool {label!r} is a generator, and a call has one result; return list(...) of what it yields"
        )


def is_method(function: Callable[..., Any]) -> bool:
    """Return whether a function is a method that is not yet bound to an object."""
    if not inspect.isfunction(function) or not inspect.signature(function).parameters:
        return False
    owner = function.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(function).parameters))
    return first == "self" and "self" not in function.__annotations__ and bool(owner) and not owner.endswith("<locals>")


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether the result of the function must be awaited."""
    return inspect.iscoroutinefunction(_annotated(function))


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the annotations: a partial's function, or an object's ``__call__``."""
    if isinstance(function, partial):
        return _annotated(function.func)
    return function if inspect.isroutine(function) else type(function).__call__


def _parameter(shapes: Shapes, name: str, kind: Any, default: Any, where: str, description: str | None) -> Parameter:
    fills_in = False
    if is_field(default):  # ``n: int = Field(3, gt=0)``, as for pydantic's own functions
        kind, default = Annotated[kind, default], default_of(default)
        fills_in = default is not inspect.Parameter.empty
    required = default is inspect.Parameter.empty
    shape = shapes.of(_without_none(kind) if default is None else kind, where)
    if description and not shape.told and "description" not in shape.schema:
        shape = evolve(shape, told=description)
    schema = shape.described()
    if not required and _has_a_json_form(default):
        schema = {**schema, "default": default}
    return Parameter(name, shape, schema, required, default is None, default, fills_in)


def _has_a_json_form(default: Any) -> bool:
    """Return whether the model sees a default. JSON has no infinity, and a default of None is not shown."""
    return type(default) in (str, int, bool) or (type(default) is float and isfinite(default))


def _without_none(kind: Any) -> Any:
    """Show ``Optional[str]`` with the default None as a string that may be omitted."""
    origin: Any = get_origin(kind)
    if origin is Annotated:
        return Annotated[(_without_none(get_args(kind)[0]), *kind.__metadata__)]
    if origin not in UNIONS:
        return kind
    members = tuple(member for member in get_args(kind) if member is not type(None))
    return functools.reduce(lambda left, right: left | right, members)


def object_schema(parameters: Collection[Parameter], definitions: Mapping[str, Schema]) -> Schema:
    schema: Schema = {"type": "object", "properties": {item.name: item.schema for item in parameters}}
    if required := [item.name for item in parameters if item.required]:
        schema["required"] = required
    return {**schema, "$defs": dict(definitions)} if definitions else schema


def context_name(function: Callable[..., Any]) -> str | None:
    """Return the name of the context parameter."""
    try:
        hints = get_type_hints(function if hasattr(function, "__annotations__") else type(function).__call__)
    except (NameError, TypeError, AttributeError):  # annotations of others may name what is not there
        return None
    return next((name for name, kind in hints.items() if ToolContext in (kind, get_origin(kind))), None)

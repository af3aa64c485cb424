"""``cognition.base.checking`` for functions: check arguments against the function's own signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, Unpack, get_args, get_origin, get_type_hints

from attrs import fields_dict

from cognition.base.checking import Check, Parameters, check_of, parts_of
from cognition.base.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")


def checked_call(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to reject arguments that do not fit its signature, including an ``Unpack`` of a TypedDict.

    It raises ConfigError, and names a constructor by its class. If the class of a method has a method
    ``_explain_arguments(name, known, args, given)``, that may raise a better error first.
    """
    declared: list[Parameters] = []
    bound = int(next(iter(inspect.signature(function).parameters), "") in ("self", "cls"))

    @wraps(function)
    def call(*args: Any, **given: Any) -> R:
        if not declared:
            declared.append(_of_function(function, bound))
        subject = function.__name__
        if bound:
            owner = args[0] if isinstance(args[0], type) else type(args[0])
            explain = getattr(owner, "_explain_arguments", None)
            if explain is not None:
                explain(subject, declared[0].checks, args[bound:], given)
            if subject == "__init__":
                subject = owner.__name__
                _refer_to_method(owner, declared[0], given)
            else:
                subject = f"{owner.__name__}.{subject}"
        return function(*args[:bound], **declared[0].read(subject, ": ", args[bound:], given))

    return call


def _refer_to_method(owner: type, known: Parameters, given: Iterable[str]) -> None:
    """Raise ConfigError if an argument of a constructor belongs to a method of its class."""
    for name in given:
        if name in known.checks or known.more or any(name in fields_dict(part) for part in known.parts.values()):
            continue
        methods = [pair for base in owner.__mro__ for pair in vars(base).items() if inspect.isfunction(pair[1])]
        for method, function in methods:
            if not method.startswith("_") and name in inspect.signature(function).parameters:
                takes = f"{owner.__name__}.{method} takes it: {method}(..., {name}=...)"
                raise ConfigError(f"{owner.__name__} has no option {name!r}; {takes}")


def _of_function(function: Callable[..., Any], bound: int) -> Parameters:
    named = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    hints = get_type_hints(SimpleNamespace(__annotations__=named), function.__globals__, include_extras=True)
    checks: dict[str, Check | None] = {}
    parts = _options_in(hints)
    positional, required, more = list[str](), list[str](), False
    for name, one in list(inspect.signature(function).parameters.items())[bound:]:
        if one.kind is one.VAR_KEYWORD:
            options = get_args(hints[name])[0] if get_origin(hints[name]) is Unpack else None
            if options is None:
                more = True
            else:
                within = get_type_hints(options, include_extras=True)
                checks |= {key: check_of(hint) for key, hint in within.items()}
                parts |= _options_in(within)
            continue
        checks[name] = check_of(hints.get(name, Any))
        if one.kind is one.POSITIONAL_OR_KEYWORD:
            positional.append(name)
        if one.default is one.empty:
            required.append(name)
    return Parameters(checks, tuple(positional), tuple(required), more, parts)


def _options_in(hints: Mapping[str, Any]) -> dict[str, type]:
    """Return the arguments that are classes of options, whose constructors check their arguments."""
    return {name: part for name, part in parts_of(hints).items() if hasattr(vars(part).get("__init__"), "__wrapped__")}

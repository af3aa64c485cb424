"""Check arguments from a program against their declared types, on entry.

A misspelt name, an unknown word or a value of the wrong type raises ``ConfigError``, which names the allowed values: a
misunderstood option must never be ignored. ``checked`` is for attrs classes; ``runtime.checking`` does the same for
functions. Both read the existing declarations.

    >>> from cognition import Limits
    >>> Limits(step=3)
    Traceback (most recent call last):
    ...
    cognition.base.errors.ConfigError: Limits has no option 'step'; did you mean 'steps'?
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from types import BuiltinFunctionType, FunctionType, MethodType, UnionType
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from attrs import NOTHING, fields, fields_dict, frozen, has

from cognition.base.errors import ConfigError

T = TypeVar("T")

Check = Callable[[Any], Any]
"""Returns the value, or its replacement (a tuple for a list); raises ``MismatchError``."""

LONGEST = 60
"""Characters of a value shown in a message."""

SCALARS: Mapping[Any, tuple[str, tuple[type, ...]]] = {
    bool: ("True or False", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    str: ("a text", (str,)),
    bytes: ("bytes", (bytes,)),
    type(None): ("None", (type(None),)),
}


class MismatchError(Exception):
    """A value that does not match. The message continues the value's name: ``"must be a text, not 3"``."""


def nearest(name: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: ``; did you mean 'steps'?``, or all names if none is near."""
    listed = list(known)
    near = get_close_matches(str(name), listed, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are {', '.join(listed)}" if listed else ""


def show(value: object) -> str:
    """Return a value as text for a message: its ``repr`` if it is a plain value, else its kind."""
    if value is None or type(value) in (bool, int, float, str, bytes):
        try:
            text = repr(value)
        except ValueError:  # an integer of thousands of digits
            return "a number of thousands of digits"
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, FunctionType | MethodType | BuiltinFunctionType):
        return "a function"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


# ------------------------------------------------------------------------------------------------------ types as checks


def describe_type(hint: Any) -> str:
    """Return the description of a type in words."""
    return _words_and_check(hint)[0]


def check_of(hint: Any) -> Check | None:
    """Return the check for a type; None if every value is valid."""
    return _words_and_check(hint)[1]


def _words_and_check(hint: Any) -> tuple[str, Check | None]:
    origin, arguments = get_origin(hint), get_args(hint)
    kind = origin or hint
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return "anything", None
    if origin is Annotated:
        words, check = _words_and_check(arguments[0])
        better = next((one for one in arguments[1:] if isinstance(one, str)), "")
        return (better, _reword(check, better)) if better else (words, check)
    if hint in SCALARS:
        return SCALARS[hint][0], _number if hint is float else _scalar(*SCALARS[hint])
    if origin is Literal:
        return f"{'one of ' if len(arguments) > 1 else ''}{', '.join(map(repr, arguments))}", _word(arguments)
    if origin in (Union, UnionType):
        return _union(arguments)
    if kind is Callable:
        return "a function", _instance("a function", callable)
    if origin is tuple and arguments[-1] is not ...:
        words = f"{len(arguments)} value{'s' if len(arguments) > 1 else ''}"
        return words, _row(arguments, words)
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "a mapping", _mapping(*arguments)
    if origin in (tuple, Iterable, Collection, Sequence):
        words, check = _words_and_check(arguments[0])
        return f"a list of which each is {words}", _items(check)
    name = getattr(kind, "__name__", str(hint))
    words = f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"
    if getattr(kind, "_is_protocol", False):
        members = [name for one in kind.__mro__[:-1] if getattr(one, "_is_protocol", False) for name in vars(one)]
        wanted = [name for name in members if not name.startswith("_")]
        return words, _instance(words, lambda value: _has_all(value, wanted))
    if isinstance(kind, type):
        return words, _part(kind, words) if has(kind) else _instance(words, lambda value: isinstance(value, kind))
    return words, None


def _part(kind: type, words: str) -> Check:
    def check(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if isinstance(value, Mapping):
            inside = ", ".join(f"{name}=..." for name in value)
            raise MismatchError(f"must be {words}, not a mapping; write {kind.__name__}({inside})")
        _refuse(words, value)

    return check


def _has_all(value: Any, names: Iterable[str]) -> bool:
    return not isinstance(value, type) and all(hasattr(value, name) for name in names)


def _refuse(words: str, value: object) -> NoReturn:
    raise MismatchError(f"must be {words}, not {show(value)}")


def _scalar(words: str, kinds: tuple[type, ...]) -> Check:
    def check(value: Any) -> Any:
        if type(value) in kinds or (isinstance(value, kinds) and not isinstance(value, bool)):
            return value
        _refuse(words, value)

    return check


def _instance(words: str, holds: Callable[[Any], bool]) -> Check:
    def check(value: Any) -> Any:
        return value if holds(value) else _refuse(words, value)

    return check


def _reword(check: Check | None, words: str) -> Check | None:
    if check is None:
        return None

    def worded(value: Any) -> Any:
        try:
            return check(value)
        except MismatchError:
            _refuse(words, value)

    return worded


def _word(words: tuple[Any, ...]) -> Check:
    def check(value: Any) -> Any:
        if any(type(value) is type(word) and value == word for word in words):
            return value
        near = get_close_matches(value, map(str, words), n=1) if isinstance(value, str) else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        listed = f"one of {', '.join(map(repr, words))}" if len(words) > 1 else repr(words[0])
        raise MismatchError(f"must be {listed}, not {show(value)}{hint}")

    return check


def _number(value: Any) -> Any:
    """Return a number as a float: an int would be recorded as a different text than it is read back as."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse("a number", value)
    try:
        return float(value)
    except OverflowError:
        _refuse("a number that a float has room for", value)


def _union(members: tuple[Any, ...]) -> tuple[str, Check | None]:
    known = [_words_and_check(member) for member in members]
    words = " or ".join(dict.fromkeys(name for name, _ in known))
    found = [check for member, (_, check) in zip(members, known, strict=True) if member is not type(None)]
    checks = [check for check in found if check is not None]
    if len(checks) < len(found):
        return words, None
    optional = type(None) in members

    def check(value: Any) -> Any:
        if value is None and optional:
            return None
        for one in checks:
            try:
                return one(value)
            except MismatchError as problem:
                if len(checks) == 1:  # and None
                    raise MismatchError(str(problem).replace(", not ", " or None, not ", 1)) from None
        _refuse(words, value)

    return words, check


def _each(values: Iterable[Any], check: Check | None) -> tuple[Any, ...]:
    if check is None:
        return tuple(values)
    found = []
    for place, value in enumerate(values):
        try:
            found.append(check(value))
        except MismatchError as problem:
            raise MismatchError(f"[{place}] {problem}") from None
    return tuple(found)


def _items(check: Check | None) -> Check:
    def items(value: Any) -> Any:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            _refuse("a list", value)
        return _each(value, check)

    return items


def _row(arguments: tuple[Any, ...], words: str) -> Check:
    checks = [check_of(one) for one in arguments]

    def row(value: Any) -> Any:
        if not isinstance(value, tuple | list) or len(value) != len(checks):
            _refuse(words, value)
        return tuple(one if check is None else check(one) for one, check in zip(value, checks, strict=True))

    return row


def _mapping(key: Any = Any, of: Any = Any) -> Check:
    keys, values = check_of(key), check_of(of)

    def check(value: Any) -> Any:
        if not isinstance(value, Mapping):
            _refuse("a mapping", value)
        for name, one in value.items():
            try:
                if keys is not None:
                    keys(name)
            except MismatchError as problem:
                raise MismatchError(f"has the key {show(name)}; each {problem}") from None
            try:
                if values is not None:
                    values(one)
            except MismatchError as problem:
                raise MismatchError(f"[{show(name)}] {problem}") from None
        return value

    return check


# --------------------------------------------------------------------------------------------------- classes, functions


@frozen
class Parameters:
    """The accepted arguments: their names in order, with their checks."""

    checks: Mapping[str, Check | None]
    positional: tuple[str, ...]
    required: tuple[str, ...] = ()
    more: bool = False
    """Whether other names are accepted too; they are not checked here."""
    parts: Mapping[str, type] = {}
    """The options that are attrs classes, with these classes."""

    def _elsewhere(self, name: str) -> str:
        for own, part in self.parts.items():
            if name in fields_dict(part):
                return f"; write {own}={part.__name__}({name}=...)"
        return nearest(name, self.checks)

    def read(self, subject: str, sign: str, args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values by name, as converted by their checks.

        ``subject`` names the callee in messages, such as ``Limits``; ``sign`` separates it from an option's name.

        Raises:
            ConfigError: a name is unknown, missing or given twice, or its value is not allowed.
        """
        if len(args) > len(self.positional):
            most = f"at most {len(self.positional)}" if self.positional else "no"
            raise ConfigError(
                f"{subject} takes {most} values by their place, and got {len(args)}; write the others as name=value"
            )
        values = dict(zip(self.positional, args, strict=False))
        for name, value in given.items():
            if name in values:
                raise ConfigError(f"{subject} was given {name!r} twice, by its place and by its name")
            if name not in self.checks and not self.more:
                raise ConfigError(f"{subject} has no option {name!r}{self._elsewhere(name)}")
            values[name] = value
        missing = [name for name in self.required if name not in values]
        if missing:
            raise ConfigError(f"{subject} needs {', '.join(missing)}")
        for name, value in values.items():
            check = self.checks.get(name)
            if check is not None:
                try:
                    values[name] = check(value)
                except MismatchError as problem:
                    wrong = str(problem)
                    raise ConfigError(f"{subject}{sign}{name}{'' if wrong[:1] == '[' else ' '}{wrong}") from None
        return values


def checked(cls: type[T]) -> type[T]:
    """Make the constructor of an attrs class check its arguments against the fields' types. Apply above ``@frozen``.

    A list is accepted for a tuple. Fields with a converter are left to the converter.
    """
    return checked_with(ConfigError)(cls)


def checked_with(error: type[Exception]) -> Callable[[type[T]], type[T]]:
    """``checked``, raising ``error`` with the same message instead of ``ConfigError``."""

    def decorate(cls: type[T]) -> type[T]:
        return _add_checks(cls, error)

    return decorate


def _add_checks(cls: type[T], error: type[Exception]) -> type[T]:
    init = cls.__init__
    declared: list[Parameters] = []

    @wraps(init)
    def construct(self: Any, *args: Any, **given: Any) -> None:
        if not declared:  # at the first use: types may be named before they are there
            declared.append(_of_class(cls))
        try:
            values = declared[0].read(cls.__name__, ".", args, given)
        except ConfigError as mistake:
            raise error(str(mistake)) from None
        init(self, **values)

    cls.__init__ = construct  # type: ignore[method-assign]  # it takes what the other one takes
    return cls


def _of_class(cls: type[Any]) -> Parameters:
    hints = get_type_hints(cls, include_extras=True)
    own = [one for one in fields(cls) if one.init]
    return Parameters(
        {one.alias: None if one.converter else check_of(hints[one.name]) for one in own},
        tuple(one.alias for one in own if not one.kw_only),
        tuple(one.alias for one in own if one.default is NOTHING),
        parts=parts_of({one.alias: hints[one.name] for one in own}),
    )


def parts_of(hints: Mapping[str, Any]) -> dict[str, type]:
    """Return the names whose type is an attrs class, or that class or None, with the class."""
    found = {}
    for name, hint in hints.items():
        bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        for one in get_args(bare) or (bare,):
            if isinstance(one, type) and has(one):
                found[name] = one
    return found

"""Encode every value of the core as plain JSON data and back, with explicit tags and errors that name the path.

All serialisation rules are here; a class only names the ``tag`` of its record. Members of a union carry it under
``"type"``. Tags are part of the recorded format and never change with a class's name. Fields with their default value
are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from functools import cache
from types import GenericAlias, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from cognition.base.checking import show
from cognition.base.errors import CodecError, ConfigError
from cognition.values import messages
from cognition.values.history import History

if TYPE_CHECKING:
    from cattrs import Converter

# cattrs is imported where it is used: it takes half of the time that importing the whole core would take, and a
# program that neither records nor replays never needs it.

PROTOCOL_VERSION = 1
"""Version of everything this module writes. Raised when old data can no longer be read unchanged."""

ABSENT = "cogstep: absent"
"""The key in a field's metadata for its value in data that lacks it, if that is not the default. Such a field is always
written.
"""


def tags_of(kind: Any) -> dict[type, str]:
    """Return the tags of a union's members; empty for any other type, and for a union with an untagged member.

    Unions need no registration: packages above write and read their own unions by the tags of the members.

    Raises:
        ConfigError: two members have the same tag.
    """
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    tags = {member: tag for member in members if (tag := _tag_of(member))}
    if len(tags) < len(members):
        return {}
    if len(set(tags.values())) < len(members):
        raise ConfigError(f"every member of a union needs a tag of its own: {kind}")
    return tags


def _tag_of(kind: Any) -> str:
    """Return the tag defined by the class itself, or empty; tags are not inherited."""
    tag = vars(kind).get("tag") if isinstance(kind, type) else None
    return tag if isinstance(tag, str) else ""


def to_data(value: Any, kind: Any = None) -> Any:
    """Return plain JSON data for a value of the core: dicts, lists, strings, numbers, booleans and None.

    ``kind`` is the type to write it as; for a union the member's tag is added. The default is the value's class, with
    its tag if it has one. Items of a list, tuple or dict are written one by one.

    Raises:
        ConfigError: the value does not belong to the core, or not to ``kind``.
    """
    if kind is None:
        own: type = type(value)
        return _writer_of(own)(value)
    _check_is_type(kind, "to_data(value, kind)")
    if _has_fields(kind) and not isinstance(value, kind):
        raise ConfigError(f"to_data: this is no {kind.__name__}, but {show(value)}")
    try:
        return _converter().unstructure(value, kind)
    except Exception as error:
        raise ConfigError(f"to_data: {show(value)} can't be written as {kind}") from error


def from_data(data: Any, kind: Any) -> Any:
    """Return the value of type ``kind`` (a class, or a union such as ``Input``) written by ``to_data``.

    Raises:
        CodecError: unknown tags, missing or unknown fields, values of a wrong type; names each path.
        ConfigError: ``kind`` is not a type, or not a type the codec can read.
    """
    try:
        read = reader_of(kind)
    except TypeError as error:  # it has no hash: data stands in its place
        raise ConfigError(NO_TYPE.format(call="from_data(data, kind)", found=show(kind))) from error
    return read(data)


@cache
def reader_of(kind: Any) -> Callable[[Any], Any]:
    """Return ``from_data`` for one type as a function to reuse: resolving a union costs as much as a read."""
    from cattrs import StructureHandlerNotFoundError

    _check_is_type(kind, "from_data(data, kind)")
    try:
        read = _converter(detailed=False).get_structure_hook(kind)
    except StructureHandlerNotFoundError as error:
        raise ConfigError(f"no data can be read as {kind}; give a class or a union of the core") from error

    def read_one(data: Any) -> Any:
        try:
            return read(data, kind)
        except Exception:  # whatever it is: the careful reading says what is wrong, and where
            return _read_carefully(data, kind)

    return read_one


NO_TYPE = "{call}: the second argument has to be a type, such as AgentState or Input, not {found}"


def _check_is_type(kind: Any, call: str) -> None:
    """Check that ``kind`` is a type: the two arguments are easily swapped.

    Raises:
        ConfigError: it is not a type.
    """
    if not (isinstance(kind, type) or get_origin(kind) is not None or hasattr(kind, "__supertype__") or kind is Any):
        raise ConfigError(NO_TYPE.format(call=call, found=show(kind)))


def _has_fields(kind: Any) -> bool:
    return isinstance(kind, type) and (hasattr(kind, "__attrs_attrs__") or hasattr(kind, "__dataclass_fields__"))


@cache
def _writer_of(kind: type) -> Callable[[Any], Any]:
    if kind in PLAIN:
        return lambda value: value
    if kind in (list, tuple):
        return lambda value: [to_data(one) for one in value]
    if kind is dict:
        return _write_dict
    if not (_has_fields(kind) or kind is History):
        raise ConfigError(f"to_data: {kind.__name__} is no class of the core, and so has no data")
    write, tag = _converter().get_unstructure_hook(kind), _tag_of(kind)
    return (lambda value: {"type": tag, **write(value)}) if tag else write


PLAIN = (str, int, float, bool, type(None))
"""Values that need no encoding."""


def _write_dict(value: dict[Any, Any]) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise ConfigError(f"to_data: the key {show(key)} is no text, and so has no form in JSON")
    return {key: to_data(one) for key, one in value.items()}


def _read_carefully(data: Any, kind: Any) -> Any:
    """Read like ``from_data`` and collect the path of every problem, which takes twice the time.

    Raises:
        CodecError: names every problem.
    """
    try:
        return _converter().structure(data, kind)
    except Exception as error:
        raise CodecError(*_problems(error, "$")) from error


class TagError(ValueError):
    """The tag of a union's member is missing or unknown."""


def _exactly(kind: type, *others: type) -> Callable[[Any, Any], Any]:
    """Return a structuring hook that coerces nothing (cattrs alone would turn 5 into "5")."""

    def check(value: Any, _type: Any) -> Any:
        if type(value) is kind:
            return value
        if type(value) in others:
            return kind(value)
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")

    return check


def _object(value: Any, _type: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {type(value).__name__}")
    return value


FLAG_OR_WORDS = bool | tuple[str, ...]
"""The only union without tags: its members are different kinds of JSON."""


def _flag_or_words(value: Any, _type: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    if isinstance(value, list) and all(type(one) is str for one in value):
        return tuple(value)
    raise TypeError(f"expected bool or an array of texts, got {type(value).__name__}")


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _strict_tuple(converter: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    """Return a reader of arrays that rejects other iterables, such as a text."""
    item, *others = get_args(kind)
    if others != [...]:
        return _strict_row(converter, (item, *others))
    if converter.detailed_validation:
        items: Any = GenericAlias(MutableSequence, item)  # cattrs' own reader of lists, which notes where a problem is
        return lambda value, _: tuple(converter.structure(_array(value), items))
    read = converter.get_structure_hook(item)
    return lambda value, _: tuple([read(one, item) for one in _array(value)])


def _is_list(kind: Any) -> bool:
    return kind is list or get_origin(kind) in (list, Sequence)


def _strict_list(converter: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    """``_strict_tuple`` for other sequence types; cattrs alone would make a list from a text or an object's keys."""
    (item,) = get_args(kind) or (Any,)
    items = GenericAlias(tuple, (item, ...))
    read, make = converter.get_structure_hook(items), tuple if get_origin(kind) is Sequence else list
    return lambda value, _: make(read(value, items))


def _strict_row(converter: Converter, kinds: tuple[Any, ...]) -> Callable[[Any, Any], Any]:
    def read(value: Any, _type: Any) -> Any:
        items = _array(value)
        if len(items) != len(kinds):
            raise TypeError(f"expected an array of {len(kinds)}, got {len(items)}")
        return tuple([converter.structure(one, kind) for one, kind in zip(items, kinds, strict=True)])

    return read


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _strict_literal(kind: Any) -> Callable[[Any, Any], Any]:
    words = get_args(kind)

    def check(value: Any, _type: Any) -> Any:
        if type(value) is str and value in words:
            return value
        raise ValueError(f"{value!r} is not one of: {', '.join(map(str, words))}")

    return check


def _is_row(kind: Any) -> bool:
    return get_origin(kind) is tuple and get_args(kind)[1:] != (...,)


def _row_writer(converter: Converter, kind: Any) -> Callable[[Any], list[Any]]:
    """Return a writer of such a tuple as an array; cattrs alone leaves it a tuple, unlike the data read from JSON."""
    writers = [converter.get_unstructure_hook(item) for item in get_args(kind)]
    return lambda value: [write(item) for write, item in zip(writers, value, strict=True)]


def _absent_fields(kind: Any) -> dict[str, Any]:
    """Return the fields that are always written, with their values in data from before there was such a field."""
    found = getattr(kind, "__attrs_attrs__", ())
    return {one.name: one.metadata[ABSENT] for one in found if ABSENT in one.metadata}


def _with_absent_fields(kind: Any, read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    absent = _absent_fields(kind)
    return (lambda value, expected: read({**absent, **value}, expected)) if absent else read


def _absent_writer(converter: Converter, kind: Any) -> Callable[[Any], dict[str, Any]]:
    from cattrs.gen import make_dict_unstructure_fn, override

    always: dict[str, Any] = {name: override(omit_if_default=False) for name in _absent_fields(kind)}
    return make_dict_unstructure_fn(kind, converter, _cattrs_omit_if_default=True, **always)


def _strict_class(converter: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    """Return a reader of objects; cattrs alone fails on anything else with an AttributeError."""
    from cattrs.gen import make_dict_structure_fn

    fields = _with_absent_fields(
        kind,
        make_dict_structure_fn(
            kind,
            converter,
            _cattrs_forbid_extra_keys=True,
            _cattrs_detailed_validation=converter.detailed_validation,
        ),
    )
    tag = _tag_of(kind)
    if not tag:
        return lambda value, _: fields(_object(value, None), kind)

    def read_tagged(value: Any, _type: Any) -> Any:
        if "type" in _object(value, None):  # as ``to_data`` writes it; within a union it was read already
            found, value = value["type"], {name: inner for name, inner in value.items() if name != "type"}
            if found != tag:
                raise TagError(f"the type is {found!r}, and {tag!r} is expected")
        return fields(value, kind)

    return read_tagged


def _is_tagged(kind: Any) -> bool:
    return bool(tags_of(kind))


def _union_reader(converter: Converter, union: Any) -> Callable[[Any, Any], Any]:
    """Like cattrs' ``configure_tagged_union``, with errors that list the known tags."""
    structure = {tag: (converter.get_structure_hook(member), member) for member, tag in tags_of(union).items()}

    def read(value: Any, _type: Any) -> Any:
        data = dict(_object(value, None))
        tag = data.pop("type", None)
        if not isinstance(tag, str) or tag not in structure:
            what = f"unknown type {tag!r}" if tag is not None else "the field 'type' is missing"
            raise TagError(f"{what}; expected one of: {', '.join(structure)}")
        hook, member = structure[tag]
        return hook(data, member)

    return read


def _union_writer(converter: Converter, union: Any) -> Callable[[Any], dict[str, Any]]:
    unstructure = {member: (converter.get_unstructure_hook(member), tag) for member, tag in tags_of(union).items()}

    def write(value: Any) -> dict[str, Any]:
        hook, tag = unstructure[type(value)]
        return {"type": tag, **hook(value)}

    return write


@cache
def _converter(detailed: bool = True) -> Converter:
    """Return the converter. With ``detailed``, errors name every problem with its path; without, reads take half the
    time.
    """
    from attrs import has
    from cattrs import Converter

    converter = Converter(omit_if_default=True, forbid_extra_keys=True, detailed_validation=detailed)
    converter.register_structure_hook_factory(has, lambda kind: _strict_class(converter, kind))
    converter.register_structure_hook_factory(_is_list, lambda kind: _strict_list(converter, kind))
    converter.register_structure_hook_factory(_is_tuple, lambda kind: _strict_tuple(converter, kind))
    converter.register_unstructure_hook_factory(
        lambda kind: bool(_absent_fields(kind)), lambda kind: _absent_writer(converter, kind)
    )
    converter.register_unstructure_hook_factory(_is_row, lambda kind: _row_writer(converter, kind))
    converter.register_structure_hook_factory(_is_literal, _strict_literal)
    for kind in (str, int, bool):
        converter.register_structure_hook(kind, _exactly(kind))
    converter.register_structure_hook(float, _exactly(float, int))
    converter.register_structure_hook_func(lambda kind: kind == FLAG_OR_WORDS, _flag_or_words)
    converter.register_unstructure_hook_func(
        lambda kind: kind == FLAG_OR_WORDS, lambda value: value if isinstance(value, bool) else list(value)
    )
    converter.register_structure_hook_func(lambda kind: kind == dict[str, Any], _object)
    converter.register_unstructure_hook_func(lambda kind: kind == dict[str, Any], lambda value: value)
    converter.register_structure_hook(
        History, lambda value, _: History(converter.structure(_array(value), tuple[messages.Message, ...]))
    )
    converter.register_unstructure_hook(
        History, lambda value: converter.unstructure(tuple(value), tuple[messages.Message, ...])
    )
    converter.register_structure_hook_factory(_is_tagged, lambda kind: _union_reader(converter, kind))
    converter.register_unstructure_hook_factory(_is_tagged, lambda kind: _union_writer(converter, kind))
    return converter


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected an array, got {type(value).__name__}")
    return value


def _problems(error: BaseException, path: str) -> list[tuple[str, str]]:
    from cattrs import ForbiddenExtraKeysError
    from cattrs.errors import ClassValidationError, IterableValidationError, IterableValidationNote

    found: list[tuple[str, str]] = []
    if isinstance(error, ClassValidationError | IterableValidationError):
        noted, plain = error.group_exceptions()
        for inner, note in noted:
            where = f"[{note.index}]" if isinstance(note, IterableValidationNote) else f".{note.name}"
            found += _problems(inner, path + where)
        for inner in plain:
            found += _problems(inner, path)
    elif isinstance(error, ForbiddenExtraKeysError):
        found += [(f"{path}.{name}", "unknown field") for name in sorted(error.extra_fields)]
    elif isinstance(error, AttributeError):  # cattrs' reader of a dict has no other word for what is none
        found.append((path, "expected an object"))
    elif isinstance(error, KeyError):
        found.append((path, "the field is missing"))
    else:
        found.append((path, str(error)))
    return found

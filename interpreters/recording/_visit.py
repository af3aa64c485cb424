"""Lists the texts in a value of the core, or changes them in a copy.

A durable step is examined about six times. So facts about a class, such as its fields with texts, are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter, is_
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attrs import fields, has

from cognition import History, Image, Section

IDS = frozenset({"id", "call_id", "effect_id", "section"})
"""Fields with names created by the library, or names of the program's sections. A changed name would mean another
section.
"""

V = TypeVar("V")
Change = Callable[[str, str], str]
"""Takes a text and its path in the value, such as ``calls[0].arguments_json``; returns the replacement."""


def collect(value: Any, texts: list[str]) -> None:
    """Collect all non-empty texts in a value that ``map_texts`` would change."""
    kind = type(value)
    if kind is str:
        texts.append(value)
    elif kind is tuple or kind is list or kind is History:
        for item in value:
            collect(item, texts)
    elif kind is dict:
        for item in value.values():
            collect(item, texts)
    else:
        for name in NAMES[kind] or ():  # of an input this is most of the work: so no function is called for it
            inner = getattr(value, name)
            if not inner:
                continue
            if type(inner) is str:
                texts.append(inner)
            else:
                collect(inner, texts)


def map_texts(value: V, change: Change, place: str = "") -> V:
    """Return a value of the core with its texts changed, or the same object if none changes.

    Names created by the library, and fields limited to certain words, are not changed.
    """
    names = NAMES[type(value)]
    if names is None:
        return _map_plain(value, change, place)
    changed: dict[str, Any] = {}
    for name in names:
        old = getattr(value, name)
        if old:
            inside = f"{place}.{name}" if place else name
            new = change(old, inside) if type(old) is str else map_texts(old, change, inside)
            if new is not old:
                changed[name] = new
    return copy_with(value, changed) if changed else value


def _map_plain(value: V, change: Change, place: str) -> V:
    result: Any = value
    if isinstance(value, str):
        result = change(value, place)
    elif isinstance(value, tuple | list | History):
        items = [map_texts(item, change, f"{place}[{index}]") for index, item in enumerate(value)]
        if not has_same_items(items, value):
            result = type(value)(items)
    elif isinstance(value, Mapping):
        entries = {name: map_texts(item, change, f"{place}.{name}") for name, item in value.items()}
        if not has_same_items(entries.values(), value.values()):
            result = entries
    final: V = result
    return final


def has_same_items(new: Any, old: Any) -> bool:
    """Whether two sequences of equal length contain identical objects."""
    return all(map(is_, new, old))


def copy_with(value: V, changes: dict[str, Any]) -> V:
    """Return a copy with some fields changed. Like ``attrs.evolve``, but with cached fields of the class."""
    kind: Any = type(value)
    read, places, keywords = _copier_of(kind)
    given = list(read(value))
    for name, new in changes.items():
        given[places[name]] = new
    end = len(given) - len(keywords)
    copy: V = kind(*given[:end], **dict(zip(keywords, given[end:], strict=True))) if keywords else kind(*given)
    return copy


class _TextFieldCache(dict[type, "tuple[str, ...] | None"]):
    """Cache of the fields of each class that may contain foreign texts; None for classes outside the core.

    A picture has none: bytes that look like a secret by chance must not change, or the picture is lost.
    """

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        names: tuple[str, ...] | None = None
        if kind is Image or kind is Section:  # a section has no text but its name
            names = ()
        elif has(kind):
            hints = get_type_hints(kind)
            names = tuple(item.name for item in fields(kind) if item.name not in IDS and _has_text(hints[item.name]))
        self[kind] = names
        return names


@cache
def _copier_of(kind: type) -> tuple[Callable[[Any], Iterable[Any]], dict[str, int], tuple[str, ...]]:
    """Return a reader of all constructor arguments of a class, the position of each field, and the names of the
    keyword-only arguments, which come last.
    """
    given = sorted([item for item in fields(kind) if item.init], key=lambda item: item.kw_only)
    names = [item.name for item in given]
    places = {name: place for place, name in enumerate(names)}
    # Of one name, `attrgetter` gives the bare value.
    read = attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, name) for name in names]
    return read, places, tuple(item.alias for item in given if item.kw_only)


NAMES = _TextFieldCache()


def _has_text(kind: Any) -> bool:
    origin = get_origin(kind)
    if origin in (tuple, list, Union, UnionType):
        return any(_has_text(part) for part in get_args(kind))
    return origin is not Literal and (kind is str or origin is dict or kind is History or has(kind))

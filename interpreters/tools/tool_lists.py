"""Lists of tools in OpenAI's form, parted into what the program runs itself and what is handed out.

::

    [{"type": "function", "function": {"name": "search", "parameters": {...}}}]           chat completions
    [{"type": "function", "name": "search", "parameters": {...}}]                         responses

A program that stands between a client and a model gets such a list with every request. Tools that the program has are
*internal*: it runs its own. All others are *external*: their calls are handed out, and the results handed in. What
can't be used is reported, with its place; nothing is left out in silence, and no data makes this raise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from cognition import ConfigError, ToolSpec
from cognition.checking import shown
from interpreters.tools.external import ExternalTool, Usable, as_tools
from interpreters.tools.listings import DEEPEST, Unreadable, decode_listing, unreadable
from interpreters.tools.tool import Tool

LONGEST = 80
"""Characters that a problem shows of a name."""


@frozen
class ListProblem:
    """What is wrong with one definition of a list."""

    place: int | None
    """Its place in the list, from 0; None where there is no list."""
    name: str
    """The name that it gives, or the beginning of it; empty where it gives none."""
    problem: str
    """What is wrong."""
    left_out: bool = True
    """Whether it can't be used. Else the program's own tool of the name is, though its parameters differ."""

    def __str__(self) -> str:
        where = "the list" if self.place is None else f"tool {self.place}"
        return f"{where}{f' ({self.name})' if self.name else ''}: {self.problem}"


@frozen
class ToolList:
    """What a list of definitions holds."""

    tools: tuple[Tool[..., Any] | ToolSpec, ...] = ()
    """All that can be used, in the list's order, as an agent takes them."""
    problems: tuple[ListProblem, ...] = ()
    """What can't, and what differs from the program's own, in the list's order."""

    @property
    def internal(self) -> tuple[Tool[..., Any], ...]:
        """The program's own tools that the list names."""
        return tuple([one for one in self.tools if isinstance(one, Tool)])

    @property
    def external(self) -> tuple[ToolSpec, ...]:
        """The tools that only the list knows: calls are handed to the program."""
        return tuple([one for one in self.tools if isinstance(one, ToolSpec)])


def read_tools(definitions: Any, ours: Iterable[Usable] = ()) -> ToolList:
    """Read a list of tools in OpenAI's form, and part it by the program's own tools.

    Args:
        definitions: the list: JSON as text or bytes, or decoded; also an object that has it under ``tools``. A
            definition in a decoded list may be JSON as text itself.
        ours: the program's own tools. Where a definition has the name of one, that one runs; if its parameters are not
            the same, this is reported.

    Returns:
        The tools, internal and external ones, and what is wrong with the others.

    Raises:
        ConfigError: two of ``ours`` have the same name, or one is a ``ToolSpec``, which the program does not run. What
            the definitions hold raises nothing.
    """
    own = _by_name(ours)
    items, problem = _items(definitions)
    if problem:
        return ToolList((), (ListProblem(None, "", problem),))
    tools: list[Tool[..., Any] | ToolSpec] = []
    problems: list[ListProblem] = []
    places: dict[str, int] = {}
    for place, item in enumerate(items):
        name, read = _read(item)
        if isinstance(read, ToolSpec) and read.name in places:
            read = f"tool {places[read.name]} has this name already"
        if not isinstance(read, ToolSpec):
            problems.append(ListProblem(place, name[:LONGEST], read))
            continue
        places[read.name] = place
        tool = own.get(read.name)
        tools.append(read if tool is None else tool)
        if tool is not None and tool.spec.parameters != read.parameters:
            problems.append(ListProblem(place, name, OTHER_PARAMETERS, left_out=False))
    return ToolList(tuple(tools), tuple(problems))


OTHER_PARAMETERS = "its parameters are not those of the program's own tool of this name, which is the one that runs"
NO_LIST = "this is no list of tools; one is [{'type': 'function', 'function': {'name': ...}}]"


def _by_name(ours: Iterable[Usable]) -> dict[str, Tool[..., Any]]:
    own: dict[str, Tool[..., Any]] = {}
    if isinstance(ours, str | bytes | Mapping) or not isinstance(ours, Iterable):
        raise ConfigError(f"ours must be a list of tools, not {shown(ours)}")
    given = tuple(ours)
    for one in given:
        if not callable(one) and not isinstance(one, Tool | ToolSpec):
            raise ConfigError(f"ours must be a list of tools, and {shown(one)} is in it")
    for tool in as_tools(given):
        name = tool.spec.name
        if isinstance(tool, ExternalTool):
            raise ConfigError(f"tool {name!r} is a ToolSpec, and nothing that could run; leave it out")
        if name in own:
            raise ConfigError(f"two tools are named {name!r}; give one of them another name")
        own[name] = tool
    return own


def _decoded(data: Any) -> Any:
    """What JSON as text or bytes holds, and anything else as it is; ``Unreadable`` for what is no JSON."""
    if isinstance(data, bytes | bytearray):
        try:
            data = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            return Unreadable(f"it is no UTF-8: {error}")
    if not isinstance(data, str):
        return data
    try:
        return decode_listing(data.removeprefix("\ufeff"), twice=False)
    except (ValueError, RecursionError) as error:
        return Unreadable(f"it is no JSON: {error}")


def _items(definitions: Any) -> tuple[list[Any], str]:
    """The definitions, and why there are none."""
    data = _decoded(definitions)
    if isinstance(data, Mapping):
        data = data.get("tools")
    if isinstance(data, Unreadable):
        return [], data.why
    return (list(data), "") if isinstance(data, list | tuple) else ([], NO_LIST)


def _read(item: Any) -> tuple[str, ToolSpec | str]:
    """The name of a definition, and the tool, or why there is none."""
    data = _decoded(item)
    if isinstance(data, Unreadable):
        return "", data.why
    if not isinstance(data, Mapping):
        return "", f"it has to be an object, not {_kind(data)}"
    inner = data.get("function", data)
    name = inner.get("name") if isinstance(inner, Mapping) else None
    name = name if isinstance(name, str) else ""
    sort = data.get("type")
    if sort != "function":
        what = f"its type is {str(sort)[:LONGEST]!r}" if isinstance(sort, str) else "it has no type"
        return name, f"{what}, and only 'function' is known here"
    if isinstance(inner, Unreadable):
        return name, f"it can't be read: {inner.why}"
    if not isinstance(inner, Mapping):
        return name, f"'function' has to be an object, not {_kind(inner)}"
    return name, _specified(inner)


def _specified(data: Mapping[str, Any]) -> ToolSpec | str:
    """The tool that a definition is of, or what is wrong with it."""
    for key in ("name", "description", "parameters"):
        if why := unreadable(data.get(key)):
            return f"its {key} can't be read: {why}"
    name, told, schema = data.get("name"), data.get("description"), data.get("parameters")
    if not isinstance(name, str):
        return "it has no name" if name is None else f"its name has to be a text, not {_kind(name)}"
    if told is not None and not isinstance(told, str):
        return f"its description has to be a text, not {_kind(told)}"
    if schema is None:
        schema = {}
    if not isinstance(schema, Mapping):
        return f"its parameters have to be the JSON Schema of an object, not {_kind(schema)}"
    try:
        spec = ToolSpec(name, told or "", schema or {"type": "object", "properties": {}})
        if spec.parameters.get("type", "object") != "object":
            return f"its parameters have to be the JSON Schema of an object, and their type is {_kind_of(spec)}"
        if _deeper(spec.parameters):
            return "its parameters are nested too deeply"
        ExternalTool(spec)  # what it can't check is found here, not when an agent is made of it
    except ConfigError as error:
        return str(error)[:1000]
    return spec


def _kind_of(spec: ToolSpec) -> str:
    return json.dumps(spec.parameters["type"])[:LONGEST]


def _deeper(data: Any) -> bool:
    """Whether plain data is nested ``DEEPEST`` levels deep or deeper."""
    level = [data]
    for _ in range(DEEPEST):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__

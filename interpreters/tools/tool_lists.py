"""Read tool lists from other programs.

``read_listing`` reads them into the specifications that a model receives::

    {"tools": [{"name": "search", "description": "...", "inputSchema": {...}}]}           MCP, the result of tools/list
    [{"type": "function", "function": {"name": "search", "parameters": {...}}}]           OpenAI
    [{"name": "search", "input_schema": {...}}]                                           Anthropic

``read_tools`` splits a list in OpenAI's form into tools that the program runs and tools whose calls it hands out::

    [{"type": "function", "function": {"name": "search", "parameters": {...}}}]           chat completions
    [{"type": "function", "name": "search", "parameters": {...}}]                         responses

A program between a client and a model receives such a list with every request. The program's own tools are *internal*:
it runs them itself. All others are *external*: their calls are handed out, and their results handed in. Each unusable
definition is reported with its place, and no data makes ``read_tools`` raise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from cognition import ConfigError, ToolSpec
from cognition.base.checking import show
from interpreters.tools.external import ExternalTool, Usable, as_tools
from interpreters.tools.tool import Tool

# ------------------------------------------------------------------------------------------------------------- decoding


@frozen
class Unreadable:
    """Replaces unreadable data in decoded JSON, so that only the tool with that data is lost."""

    why: str


DEEPEST = 150
"""Nesting depth at which a text is no longer decoded. Schemas are limited to fewer levels."""

MOST_DIGITS = 1000
"""Digits of a whole number at most. Python itself reads four times as many."""

SIGNS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]', re.DOTALL)
"""Matches brackets. Also matches whole strings, to skip the brackets in them."""

TOO_DEEP = "-Infinity"
"""Replaces data that is nested too deeply. It is not JSON, but Python's decoder passes it to a hook."""


def decode_listing(text: str, *, twice: bool = True) -> Any:
    """Decode JSON, with ``Unreadable`` in place of unusable parts.

    Unusable are values that are nested too deeply, integers that are too long, and constants such as ``NaN``. With
    ``twice=False``, so are objects with a repeated key, since other readers may choose the other value.

    Raises:
        ValueError: it is not JSON.
    """
    pairs = None if twice else _object
    return json.loads(shallow(text, TOO_DEEP), parse_int=_int, parse_constant=_constant, object_pairs_hook=pairs)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Unreadable:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            return Unreadable(f"it has the key {name[:80]!r} twice")
        found[name] = value
    return found


def _int(digits: str) -> int | Unreadable:
    if len(digits) > MOST_DIGITS:
        return Unreadable(f"it holds a number of {len(digits)} digits")
    return int(digits)


def _constant(text: str) -> Unreadable:
    return Unreadable("it is nested too deeply" if text == TOO_DEEP else f"it holds {text}, which is no JSON")


def shallow(text: str, stand_in: str) -> str:
    """Replace everything nested ``DEEPEST`` brackets deep or deeper by ``stand_in``."""
    kept, depth, begun = [], 0, 0
    for sign in SIGNS.finditer(text):
        if sign[0] in "[{":
            depth += 1
            if depth == DEEPEST:
                kept.append(text[begun : sign.start()])
        elif sign[0] in "]}":
            depth -= 1
            if depth == DEEPEST - 1:
                kept.append(stand_in)
                begun = sign.end()
    return "".join([*kept, text[begun:]]) if depth < DEEPEST else text


def unreadable(data: Any) -> str:
    """Return why a part of decoded data could not be read, or an empty text."""
    waiting, seen = [data], set[int]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, Unreadable):
            return one.why
        if isinstance(one, dict | list) and id(one) not in seen:  # what a program decoded may hold itself
            seen.add(id(one))
            waiting += one.values() if isinstance(one, dict) else one
    return ""


# ------------------------------------------------------------------------------------------------------- specifications


SCHEMAS = ("inputSchema", "input_schema", "parameters")
"""The keys that may contain a tool's schema."""


@frozen
class ListedDefinition:
    """One tool of a list."""

    place: int
    """Its index in the list, from 0."""
    name: str
    """Empty if the tool has no name."""
    spec: ToolSpec | None
    problem: str = ""
    """The reason if ``spec`` is None."""


def read_listing(data: Any) -> tuple[ListedDefinition, ...]:
    """Return the tools of a list, including the unusable ones.

    Args:
        data: decoded JSON: a list, or an object with the list under ``tools``, possibly within ``result``.

    Raises:
        ConfigError: the data does not contain a list of tools.
    """
    if isinstance(data, Mapping) and isinstance(data.get("result"), Mapping):
        data = data["result"]
    items = data.get("tools") if isinstance(data, Mapping) else data
    if not isinstance(items, list):
        raise ConfigError('no list of tools; one is {"name": ..., "inputSchema": JSON Schema}')
    return tuple(_read_entry(place, item) for place, item in enumerate(items))


def _read_entry(place: int, item: Any) -> ListedDefinition:
    item = item.get("function", item) if isinstance(item, Mapping) else None
    item = item if isinstance(item, Mapping) else {}
    name = item.get("name")
    schema: Any = next((item[key] for key in SCHEMAS if item.get(key) is not None), {})
    if not isinstance(schema, dict) or not isinstance(name, str):
        return ListedDefinition(place, "", None, "it has to be an object with a name and, as parameters, a JSON Schema")
    if why := unreadable([schema, item.get("description")]):
        return ListedDefinition(place, name[:80], None, f"it can't be read: {why}")
    try:
        return ListedDefinition(place, name, ToolSpec(name, str(item.get("description") or ""), schema))
    except ConfigError as error:
        return ListedDefinition(place, name[:80], None, str(error)[:1000])


# ------------------------------------------------------------------------------------------ internal and external tools


LONGEST = 80
"""Characters of a name that a problem shows."""


@frozen
class ListProblem:
    """A problem of one definition in a list."""

    place: int | None
    """Its index in the list, from 0; None if the data is not a list."""
    name: str
    """The definition's name, or the beginning of it; empty if it has no name."""
    problem: str
    left_out: bool = True
    """Whether the definition is unusable. If False, the program's own tool of that name is used despite different
    parameters.
    """

    def __str__(self) -> str:
        where = "the list" if self.place is None else f"tool {self.place}"
        return f"{where}{f' ({self.name})' if self.name else ''}: {self.problem}"


@frozen
class ToolList:
    """The tools and problems of a list of definitions."""

    tools: tuple[Tool[..., Any] | ToolSpec, ...] = ()
    """All usable tools, in the list's order, for an agent's ``tools``."""
    problems: tuple[ListProblem, ...] = ()
    """Unusable definitions and those that differ from the program's own tools, in the list's order."""

    @property
    def internal(self) -> tuple[Tool[..., Any], ...]:
        """The program's own tools that the list names."""
        return tuple([one for one in self.tools if isinstance(one, Tool)])

    @property
    def external(self) -> tuple[ToolSpec, ...]:
        """The tools that only the list knows. Their calls are handed to the program."""
        return tuple([one for one in self.tools if isinstance(one, ToolSpec)])


def read_tools(definitions: Any, ours: Iterable[Usable] = ()) -> ToolList:
    """Read a list of tools in OpenAI's form, and split it by the program's own tools.

    Args:
        definitions: the list: JSON as text or bytes, or decoded; also an object with the list under ``tools``. In a
            decoded list, a definition may itself be JSON text.
        ours: the program's own tools. A definition with the name of an own tool selects the own tool; different
            parameters are reported.

    Returns:
        The internal and external tools, and the problems of the other definitions.

    Raises:
        ConfigError: two of ``ours`` have the same name, or one is a ``ToolSpec``, which the program does not run.
            Definitions never cause an error.
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
        raise ConfigError(f"ours must be a list of tools, not {show(ours)}")
    given = tuple(ours)
    for one in given:
        if not callable(one) and not isinstance(one, Tool | ToolSpec):
            raise ConfigError(f"ours must be a list of tools, and {show(one)} is in it")
    for tool in as_tools(given):
        name = tool.spec.name
        if isinstance(tool, ExternalTool):
            raise ConfigError(f"tool {name!r} is a ToolSpec, and nothing that could run; leave it out")
        if name in own:
            raise ConfigError(f"two tools are named {name!r}; give one of them another name")
        own[name] = tool
    return own


def _decode(data: Any) -> Any:
    """Decode JSON text or bytes; return other data unchanged. ``Unreadable`` if it is not JSON."""
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
    data = _decode(definitions)
    if isinstance(data, Mapping):
        data = data.get("tools")
    if isinstance(data, Unreadable):
        return [], data.why
    return (list(data), "") if isinstance(data, list | tuple) else ([], NO_LIST)


def _read(item: Any) -> tuple[str, ToolSpec | str]:
    data = _decode(item)
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
    return name, _read_spec(inner)


def _read_spec(data: Mapping[str, Any]) -> ToolSpec | str:
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
            kind = json.dumps(spec.parameters["type"])[:LONGEST]
            return f"its parameters have to be the JSON Schema of an object, and their type is {kind}"
        if _is_deeper(spec.parameters):
            return "its parameters are nested too deeply"
        ExternalTool(spec)  # what it can't check is found here, not when an agent is made of it
    except ConfigError as error:
        return str(error)[:1000]
    return spec


def _is_deeper(data: Any) -> bool:
    level = [data]
    for _ in range(DEEPEST):
        holders = [one for one in level if isinstance(one, dict | list)]
        level = [inner for one in holders for inner in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return False
    return True


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__

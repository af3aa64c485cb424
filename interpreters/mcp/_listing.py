"""Parsing of a server's lists entry by entry: an invalid entry is dropped and reported without affecting the others.

The SDK gets the tools in the same simple form, since it would reject a whole list for one invalid entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, field, frozen

from cognition.base.display import LONGEST_LINE, shown_name
from interpreters.mcp._json_limits import TOO_DEEP
from interpreters.mcp.server_config import MCPServer, matches

MOST = 1000

LONGEST_DESCRIPTION = 8000

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@frozen
class MCPProblem:
    """A tool or list of a server that can't be used, or only with limits."""

    server: str
    name: str
    """The tool's own name, or the beginning of it; empty if the problem is not about a tool."""
    problem: str
    left_out: bool = True
    """Whether it is omitted. If False, it is offered but not fully enforced."""

    def __str__(self) -> str:
        what = f" tool {shown_name(self.name)}" if self.name else ""
        return f"MCP server {self.server}{what}: {shown_name(self.problem, LONGEST_LINE)}"


@frozen
class ListedTool:
    """A tool as its server lists it."""

    name: str
    description: str
    parameters: dict[str, Any] = field(repr=False)
    hints: Mapping[str, bool] = field(factory=dict)
    """The server's annotations (``readOnlyHint`` and so on): untrusted hints that permit nothing."""

    @property
    def is_destructive(self) -> bool:
        """Whether the server itself declares it destructive."""
        return self.hints.get("destructiveHint") is True

    def as_sent(self) -> dict[str, Any]:
        """Return the fields the SDK needs: the properties that are also sent as headers.

        The SDK would reject a whole list for one invalid schema, and would check results against an output schema
        slowly.
        """
        properties = self.parameters.get("properties")
        found = properties if isinstance(properties, dict) else {}
        schemas = {name: one for name, one in found.items() if isinstance(one, dict)}
        return {"name": self.name, "inputSchema": {"type": "object", "properties": schemas}}


def read_tools(server: MCPServer, items: Any) -> tuple[tuple[ListedTool, ...], tuple[MCPProblem, ...]]:
    """Return the valid tools of a list, and the problems of the others."""
    tools: dict[str, ListedTool] = {}
    problems: list[MCPProblem] = []

    def note_problem(name: str, why: str) -> None:
        problems.append(MCPProblem(server.name, name[:80], why))

    if not isinstance(items, list):
        note_problem("", "its list of tools can't be read")
        items = []
    if len(items) > MOST:
        note_problem("", f"it lists {len(items)} tools, of which the first {MOST} are read")
    for item in items[:MOST]:
        read = _read_tool(item)
        if isinstance(read, str):
            note_problem(_text(item, "name") if isinstance(item, Mapping) else "", read)
        elif read.name in tools:
            note_problem(read.name, "it is listed twice, and the first one is meant")
        else:
            tools[read.name] = read
    chosen = [one for one in tools.values() if matches(one.name, server.tools)]
    for one in chosen:
        if (length := len(one.description)) > LONGEST_DESCRIPTION:
            said = f"of its description of {length} characters the first {LONGEST_DESCRIPTION} are shown"
            problems.append(MCPProblem(server.name, one.name, said, left_out=False))
    shortened = [evolve(one, description=one.description[:LONGEST_DESCRIPTION]) for one in chosen]
    return tuple(shortened), tuple(problems)


def _text(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


def _read_tool(item: Any) -> ListedTool | str:
    if not isinstance(item, Mapping):
        return "an entry of its list of tools is no object"
    name, schema, hints = _text(item, "name"), item.get("inputSchema"), item.get("annotations")
    if not name.strip():
        return "a tool has no name"
    if len(name) > 1000 or "\0" in name:
        return "its name can't be used"
    if not isinstance(schema, dict):
        schema = {"$comment": TOO_DEEP} if schema == TOO_DEEP else {}
    said = _text(item, "description") or _text(item, "title")
    found = {one: hints[one] for one in HINTS if isinstance(hints, Mapping) and isinstance(hints.get(one), bool)}
    return ListedTool(name, said, {"type": "object", **schema}, found)


@frozen
class MCPResource:
    """A readable resource of a server."""

    server: str
    uri: str
    """Its address; for a template with ``{names}`` to fill in."""
    name: str
    description: str = ""
    media_type: str = ""
    template: bool = False


@frozen
class MCPPrompt:
    """A prompt that a server offers to its user."""

    server: str
    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


def read_resources(server: str, items: Any, *, template: bool) -> Iterator[MCPResource]:
    for item in items[:MOST] if isinstance(items, list) else ():
        uri = item.get("uriTemplate" if template else "uri") if isinstance(item, Mapping) else None
        if isinstance(uri, str):
            name, said, kind = (_text(item, key) for key in ("name", "description", "mimeType"))
            yield MCPResource(server, uri, name, said, kind, template)


def read_prompts(server: str, items: Any) -> Iterator[MCPPrompt]:
    for item in items[:MOST] if isinstance(items, list) else ():
        name = item.get("name") if isinstance(item, Mapping) else None
        if isinstance(name, str):
            given = item.get("arguments")
            named = [one for one in (given if isinstance(given, list) else ()) if isinstance(one, Mapping)]
            arguments = [one for one in named if isinstance(one.get("name"), str)]
            required = tuple([one["name"] for one in arguments if one.get("required") is True])
            names = tuple([one["name"] for one in arguments])
            yield MCPPrompt(server, name, _text(item, "description"), names, required)


RESOURCE_TOOLS = (
    ListedTool("list_resources", "List what can be read here: addresses, names, what it is.", {"type": "object"}),
    ListedTool(
        "read_resource",
        "Read what stands under an address, as list_resources gives it.",
        {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
    ),
)
"""Tools of ours for reading the resources of a server."""


def resource_line(resource: MCPResource) -> str:
    return "  ".join(" ".join(one.split()) for one in (resource.uri, resource.name, resource.description) if one)

"""Converts a server's tools to tools of ours: the description for the model, the facts for policy, and the call."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import evolve

from cognition import ConfigError, ToolSpec
from interpreters.mcp._json_limits import TOO_DEEP
from interpreters.mcp._listing import ListedTool, MCPProblem
from interpreters.mcp.server_config import MCPServer, matches
from interpreters.tools.context import ToolContext
from interpreters.tools.schema_repair import OPEN, LeftOut, repair_schema
from interpreters.tools.tool import Tool

RETRIES = (0.5, 2.0)
"""Seconds before further attempts at a repeatable call whose connection was lost."""

LONGEST_SCHEMA = 2000
"""Maximum characters of a schema shown to the model as text if sampling can't enforce any of it."""

MOST_SAID = 5
"""Maximum keywords of a schema named in a problem."""

Call = Callable[[ListedTool, dict[str, Any], ToolContext[Any]], Awaitable[Any]]
"""Calls a tool as it was listed when it was offered."""


def make_tool(
    server: MCPServer, listed: ListedTool, name: str, call: Call
) -> tuple[Tool[..., Any] | None, MCPProblem | None]:
    """Return the tool, and a problem if it can't be offered or fully enforced.

    The server's annotations can only add restrictions: ``destructiveHint`` requires approval. Only the user can declare
    a tool read-only or repeatable.
    """
    read_only = matches(listed.name, server.read_only)
    repeatable = read_only or matches(listed.name, server.idempotent)
    asks = listed.is_destructive if server.approval is None else server.approval

    async def function(arguments: dict[str, Any], context: ToolContext[Any]) -> Any:
        return await call(listed, arguments, context)

    def build(parameters: dict[str, Any], left: tuple[LeftOut, ...]) -> tuple[Tool[..., Any], MCPProblem | None]:
        description = listed.description
        if parameters == OPEN and left and len(text := json.dumps(listed.parameters)) <= LONGEST_SCHEMA:
            description = f"{description}\n\nIts parameters, as a JSON Schema: {text}".strip()
        tool = Tool.from_schema(
            name=name,
            description=description,
            parameters=parameters,
            function=function,
            read_only=read_only,
            idempotent=repeatable,
            approval=asks and not read_only,
            retries=RETRIES if repeatable else (),
            output_limit=server.output_limit,
        )
        return tool, _describe_limits(server, listed, left)

    try:
        return build(*_parameters(listed))
    except ConfigError as error:  # it can be checked, and no model can be held to it, as where it goes in a circle
        left = (LeftOut("$", "the schema", str(error)),)
    try:
        return build(dict(OPEN), left)
    except ConfigError as error:
        return None, MCPProblem(server.name, listed.name[:80], str(error))


def with_recorded_spec(tool: Tool[..., Any], spec: ToolSpec) -> Tool[..., Any]:
    """Return the same tool with the specification from a recording."""
    made = Tool.from_schema(name=spec.name, parameters=spec.parameters, function=tool.function)
    made.spec = evolve(spec)
    made.prepare()
    return made


def _parameters(listed: ListedTool) -> tuple[dict[str, Any], tuple[LeftOut, ...]]:
    parameters = listed.parameters
    if TOO_DEEP in json.dumps(parameters):
        return dict(OPEN), (LeftOut("$", "the schema", "it is nested too deeply"),)
    if parameters.get("type", "object") != "object":
        return dict(OPEN), (LeftOut("$", "type", "parameters are an object"),)
    return repair_schema(parameters)


def _describe_limits(server: MCPServer, listed: ListedTool, left: tuple[LeftOut, ...]) -> MCPProblem | None:
    if not left:
        return None
    more = [f"and {len(left) - MOST_SAID} more"] if len(left) > MOST_SAID else []
    said = f"arguments are not held to all of its schema: {'; '.join([*map(str, left[:MOST_SAID]), *more])}"
    return MCPProblem(server.name, listed.name[:80], said, left_out=False)

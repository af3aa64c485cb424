"""Tools with the trees of their parameters, as grammars need them. The trees are as strict as sampling can enforce."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import evolve, frozen

from cognition import ToolSpec
from runtime.constrained.nodes import Anything, Choice, Either, Member, Members, Node, Schema, Weakened
from runtime.constrained.schema import SchemaError, any_object, read_loosely

OWN_NAME = "[A-Za-z_][A-Za-z0-9_.-]{0,63}"
"""Names of unknown tools that a model may write."""


@frozen
class Tool:
    """A tool with the tree of its parameters."""

    spec: ToolSpec
    schema: Schema
    offered: bool = True
    """Whether the tool is offered. ``NOT_OFFERED`` represents any other name that a model may write."""

    @property
    def weakened(self) -> tuple[Weakened, ...]:
        """The parts of its schema left to the check after the call."""
        return self.schema.weakened

    @property
    def options(self) -> list[Members]:
        return _objects(self.schema, self.schema.root)


def read_tools(tools: Iterable[ToolSpec]) -> tuple[Tool, ...]:
    """Read the tools' schemas as far as sampling can enforce them.

    Raises:
        SchemaError: the parameters of a tool are not a JSON Schema of an object; names every place in them.
    """
    return tuple(map(read_tool, tools))


def read_tool(tool: ToolSpec) -> Tool:
    """Read a tool's schema as far as sampling can enforce it; raises as ``read_tools``."""
    subject = f"the parameters of tool {tool.name!r}"
    read = Tool(tool, read_loosely(tool.parameters, subject))
    if not read.options:
        raise SchemaError((("$", "arguments are an object: the type has to be 'object'"),), subject)
    return read


def loosely(tool: Tool) -> Tool:
    """Return the tool with parameters that allow any object."""
    return evolve(tool, schema=any_object(*tool.weakened, Weakened("$", "the schema", "it is too much for a grammar")))


def _objects(schema: Schema, node: Node) -> list[Members]:
    match schema.resolve(node):
        case Members() as members:
            return [members]
        case Either(options=options):
            return [one for option in options for one in _objects(schema, option)]
        case Anything():
            return [Members(rest=Anything())]
        case Choice(texts=texts):
            return [_members_of(value) for value in map(json.loads, texts) if isinstance(value, dict)]
        case _:
            return []


def _members_of(value: dict[str, Any]) -> Members:
    return Members(
        tuple(Member(key, Choice((json.dumps(one, ensure_ascii=False),)), True) for key, one in value.items())
    )


NOT_OFFERED = Tool(ToolSpec("any"), any_object(), offered=False)

"""Tools: plain functions with a schema, how their arguments are checked, and lists of tools that others wrote."""

from interpreters.tools.context import ToolCancelled as ToolCancelled, ToolContext as ToolContext
from interpreters.tools.tool import Tool as Tool, ToolError as ToolError, ToolRetry as ToolRetry, tool as tool

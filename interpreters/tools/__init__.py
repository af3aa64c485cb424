"""Tools: functions with a schema, the check of their arguments, and tool lists from other programs."""

from interpreters.tools.context import ToolCancelled as ToolCancelled, ToolContext as ToolContext
from interpreters.tools.tool import Tool as Tool, ToolError as ToolError, ToolRetry as ToolRetry, tool as tool

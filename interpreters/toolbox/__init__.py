"""Tools that come with cogstep.

- ``standard_tools`` read and compute, change nothing, and stay inside one directory.
- ``search_tools`` search source code.
- ``shell_tools`` run commands.
- ``file_tools`` change files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from interpreters.toolbox._arithmetic import evaluate
from interpreters.toolbox._search_tools import search_tools as search_tools
from interpreters.toolbox.root_directory import RootDirectory
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import Tool, tool

if TYPE_CHECKING:
    from interpreters.toolbox._file_tools import file_tools as file_tools
    from interpreters.toolbox.shell.tools import ShellTools as ShellTools, shell_tools as shell_tools


def standard_tools(
    root: str | os.PathLike[str], *, now: Callable[[], datetime] = datetime.now
) -> tuple[Tool[..., Any], ...]:
    """Return ``calculate``, ``current_time``, and in brief ``Read``, ``Glob`` and ``Grep`` for the directory ``root``.

    Raises:
        ConfigError: ``root`` is not a directory.
    """
    files = RootDirectory(root)

    @tool(read_only=True, idempotent=True)
    def calculate(expression: str) -> str:
        """Evaluate an arithmetic expression."""
        return evaluate(expression)

    @tool(read_only=True, idempotent=True)
    def current_time() -> str:
        """Get the current date and time."""
        return now().strftime("%Y-%m-%d %H:%M:%S")

    @tool(name="Read", read_only=True, idempotent=True)
    def read(path: str, context: ToolContext[Any]) -> str:
        """Read a text file."""
        return files.read(path, context)

    return (calculate, current_time, read, *search_tools(root, brief=True))


def __getattr__(name: str) -> Any:
    """Import the tools that change files or run commands, and their parts, on first use."""
    if name == "file_tools":
        from interpreters.toolbox._file_tools import file_tools

        return file_tools
    if name not in ("ShellTools", "shell_tools"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from interpreters.toolbox.shell import tools

    return getattr(tools, name)

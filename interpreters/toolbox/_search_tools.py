"""``Glob`` and ``Grep`` for source code: by default without ignored and hidden files.

Both report how to get further results. In brief, both have no options and include hidden files.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from interpreters.toolbox._grep import Query, grep_files
from interpreters.toolbox.root_directory import RootDirectory, SearchScope
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import Tool, ToolError, tool

AROUND = 20
"""Lines before and after a match that a call may request."""
SHOWN = 1_000
"""Lines that a call may request."""


def search_tools(root: str | os.PathLike[str], *, brief: bool = False) -> tuple[Tool[..., Any], ...]:
    """Return ``Glob`` and ``Grep`` for the directory ``root``. They change nothing and need no approval.

    Args:
        root: the directory.
        brief: return them as the shipped model knows them: without options.

    Raises:
        ConfigError: ``root`` is not a directory.
    """
    return (_brief_tools if brief else _tools)(RootDirectory(root))


def _brief_tools(files: RootDirectory) -> tuple[Tool[..., Any], ...]:
    @tool(name="Glob", read_only=True, idempotent=True)
    def glob(pattern: str, context: ToolContext[Any]) -> str:
        """Find files by a glob pattern."""
        return files.glob(pattern, context)

    @tool(name="Grep", read_only=True, idempotent=True)
    def grep(pattern: str, context: ToolContext[Any], path: str | None = None) -> str:
        """Search files for a pattern."""
        return grep_files(files, Query(pattern, path), context)

    return (glob, grep)


def _tools(files: RootDirectory) -> tuple[Tool[..., Any], ...]:
    @tool(name="Glob", read_only=True, idempotent=True)
    def glob(
        pattern: str,
        context: ToolContext[Any],
        hidden: Annotated[bool, "also files and folders whose name begins with a dot"] = False,
        ignored: Annotated[bool, "also what .gitignore leaves out"] = False,
        offset: Annotated[int, "how many paths to skip"] = 0,
    ) -> str:
        """Find files by a glob pattern, such as src/**/*.py."""
        _within("offset", offset, 0, None)
        return files.glob(pattern, context, SearchScope(hidden, ignored), offset)

    @tool(name="Grep", read_only=True, idempotent=True)
    def grep(
        pattern: Annotated[str, "a regular expression"],
        context: ToolContext[Any],
        path: Annotated[str | None, "a file, a folder or a glob pattern; all files where it is left out"] = None,
        glob: Annotated[str | None, "only files that match, such as *.py or *.{ts,tsx}"] = None,
        output_mode: Annotated[
            Literal["content", "files_with_matches", "count"], "the lines, only the files, or how many lines of each"
        ] = "content",
        case_insensitive: bool = False,
        context_before: Annotated[int, "lines to show before each match"] = 0,
        context_after: Annotated[int, "lines to show after each match"] = 0,
        hidden: Annotated[bool, "also files and folders whose name begins with a dot"] = False,
        ignored: Annotated[bool, "also what .gitignore leaves out"] = False,
        offset: Annotated[int, "how many matches to skip"] = 0,
        max_results: Annotated[int, "how many to show"] = 100,
    ) -> str:
        """Search the lines of files for a regular expression."""
        for name, value in (("context_before", context_before), ("context_after", context_after)):
            _within(name, value, 0, AROUND)
        _within("offset", offset, 0, None)
        _within("max_results", max_results, 1, SHOWN)
        query = Query(
            pattern,
            path,
            glob,
            case_insensitive,
            "files" if output_mode == "files_with_matches" else output_mode,
            context_before,
            context_after,
            offset,
            max_results,
            SearchScope(hidden, ignored),
        )
        return grep_files(files, query, context)

    return (glob, grep)


def _within(name: str, value: int, low: int, high: int | None) -> None:
    if value < low or (high is not None and value > high):
        raise ToolError(f"{name} is {value}, and has to be {low} or more" + (f", {high} at most" if high else ""))

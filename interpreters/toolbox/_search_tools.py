"""``Glob`` and ``Grep`` for source code: by default without ignored and hidden files.

Both report how to get further results. In brief, both have no options and include hidden files.

If ripgrep is installed, it names the files that may match (``_ripgrep.py``). Otherwise all files are searched. Then
each file is opened behind the wall and searched here: for a plain text, or for an expression that is always fast. A
child process that can be killed searches for other expressions (``line_search.py``).
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from glob import escape
from pathlib import Path
from typing import Annotated, Any, Literal
from warnings import catch_warnings, simplefilter

from cognition.base.display import shown_name
from interpreters.toolbox import line_search as search
from interpreters.toolbox._ripgrep import Mode, Query, SearchFilter, candidates, read_output
from interpreters.toolbox.root_directory import (
    WILD,
    MissingError,
    RootDirectory,
    SearchScope,
    Walk,
    count_plain,
    format_path,
)
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import Tool, ToolError, tool
from runtime.children import in_memory, start as starting

CODE = in_memory.code_of(search)

AROUND = 20
"""Lines before and after a match that a call may request."""
SHOWN = 1_000
"""Lines that a call may request."""
PATTERN_LIMIT = 1_000
GRACE = 2.0
"""Seconds beyond ``line_search.SECONDS`` for a child process to start and to end."""

LINE_BREAK = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Characters that other programs treat as the end of a line. They are escaped, so that a file's text can't forge a
line of the result.
"""
TAME = re.compile(r"(?:\\[^1-9]|\[\^?\]?(?:[^\]\\]|\\.)*\]|\((?!\?)|\)(?![*+?{])|[^\\\[()])*", re.DOTALL)
REPEATS = re.compile(r"[*+{?]")
ESCAPED = re.compile(r"\\.", re.DOTALL)
BRANCHES = 8
"""An expression may try 2 to this power alternatives at each place."""


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


# ----------------------------------------------------------------------------------------------------------- the search


def grep_files(files: RootDirectory, query: Query, context: ToolContext[Any]) -> str:
    """Return matching lines as ``path:line: text``, context lines as ``path-line- text``, and notes on omitted parts.

    Raises:
        ToolError: the pattern is invalid, or the path does not exist.
    """
    pattern = query.pattern
    if not pattern:
        raise ToolError("invalid pattern: it is empty; to see what is in a file, read it")
    if len(pattern) > PATTERN_LIMIT:
        raise ToolError(f"invalid pattern: {pattern[:80]}... (it is longer than {PATTERN_LIMIT} characters)")
    find_match = search.finder(_compile(pattern, query.ignore_case))

    def find(line: str) -> tuple[int, int] | None:
        context.check()
        return find_match(line)

    with nullcontext() if query.text is not None or is_tame(pattern) else _child(files.root) as child:
        found, notes, left_out = _paths(files, query, context)
        root, paths = str(files.root), _while_wanted(found, context)
        if child is not None:
            items: Iterable[Any] = _ask_child(child, root, list(paths), query, context)
        else:
            items = search.search(root, paths, find, query.output_options)
    lines: list[str] = []
    for item in items:
        context.check()
        if isinstance(item, dict):
            notes.append(item["note"])
        else:
            lines.append(_line(item, query.mode))
    nothing = "No lines match." if query.mode == "content" else "No files match."
    return "\n".join([*(lines or [nothing]), *notes, *left_out])


def is_tame(pattern: str) -> bool:
    """Return whether a pattern is fast on every line: its repetitions can't match a text in many ways."""
    plain = ESCAPED.sub("x", pattern)
    repeats = REPEATS.findall(plain)
    few = len(repeats) <= 2 and len(repeats) - repeats.count("?") <= 1
    return few and plain.count("|") <= BRANCHES and TAME.fullmatch(pattern) is not None


def _compile(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    try:
        with catch_warnings():  # of what may mean something else in a later Python, which no model needs to know
            simplefilter("ignore")
            return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolError(f"invalid pattern: {pattern} ({error})") from error


def _while_wanted(paths: Iterable[str], context: ToolContext[Any]) -> Iterator[str]:
    for path in paths:
        context.check()
        yield path


def _line(item: list[Any], mode: Mode) -> str:
    path = format_path(item[0])
    if mode == "files":
        return path
    if mode == "count":
        return f"{path}:{item[1]}"
    text = LINE_BREAK.sub(lambda found: shown_name(found[0]), item[2])
    return f"{path}:{item[1]}: {text}" if len(item) == 3 else f"{path}-{item[1]}- {text}"


def _paths(files: RootDirectory, query: Query, context: ToolContext[Any]) -> tuple[Iterable[str], list[str], list[str]]:
    """Return the files to search, in order and without links; notes on omitted parts, complete at the end; and notes on
    the files that policy forbids.
    """
    access = files.access(context)
    path = query.path
    explicit, folder = 0, ""
    if not path or path in (".", "./"):
        parts: tuple[str, ...] = ("**", "*")
    else:
        try:
            with files.at(path, access) as place:
                if stat.S_ISREG(place.mode):
                    return ["/".join(place.parts)], [], []
                if not stat.S_ISDIR(place.mode):
                    return [], [], []
                explicit = len(place.parts)
                parts = (*map(escape, place.parts), "**", "*")
                folder = "/".join(place.parts)
        except MissingError:
            if not WILD.search(path):
                raise
            parts = files.parts(path)
            explicit = count_plain(parts)
            folder = "/".join(parts[:explicit])
    walk = Walk(files, parts, context, query.asked, explicit=explicit, access=access)
    chosen = SearchFilter(files, walk, query.glob)
    left_out = chosen.notes(parts)
    found = candidates(str(files.root), folder, query, context, access.globs())
    if found is not None:
        return chosen.of(sorted(found, key=lambda name: name.split("/"))), [], left_out
    return (name for name, real in walk.find() if name == real and chosen.fits(name)), walk.notes, left_out


@contextmanager
def _child(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a child process that searches with a regular expression, and kill it at the end of the block."""
    if not in_memory.is_possible(CODE):
        raise ToolError("invalid pattern: only plain texts and simple expressions can be searched for here")
    command = [in_memory.PYTHON, *in_memory.FLAGS, "-c", in_memory.BOOT, "0", str(len(CODE))]
    with subprocess.Popen(
        command,
        env=starting.without_loader(starting.environment(), root),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    ) as child:
        try:
            assert child.stdin is not None
            with suppress(BrokenPipeError):  # it has ended, which its empty output shows
                os.write(child.stdin.fileno(), CODE)
            yield child
        finally:
            child.kill()


def _ask_child(
    child: subprocess.Popen[str], root: str, paths: list[str], query: Query, context: ToolContext[Any]
) -> list[Any]:
    asked = {"root": root, "paths": paths, "pattern": query.pattern, "ignore_case": query.ignore_case}
    request = json.dumps({**asked, "shown": query.output_options})
    output, _, too_slow = read_output(child, request, search.SECONDS + GRACE, context)
    items = [json.loads(line) for line in output.splitlines()]
    if too_slow and not items:
        raise ToolError(f"the pattern takes too long: {query.pattern}; use a simpler one")
    if too_slow:
        items.append({"note": "[stopped: this pattern takes too long; use a simpler one]"})
    return items

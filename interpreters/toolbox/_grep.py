"""``Grep``: selects the files, chooses where the search runs, and formats the results.

If ripgrep is installed, it names the files that may match (``_ripgrep.py``). Otherwise all files are searched. Then
each file is opened behind the wall and searched here: for a plain text, or for an expression that is always fast. A
child process that can be killed searches for other expressions (``line_search.py``).
"""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from glob import escape
from pathlib import Path
from typing import Any, Literal
from warnings import catch_warnings, simplefilter

from attrs import frozen

from cognition.base.display import shown_name
from interpreters.toolbox import _ripgrep as ripgrep, line_search as search
from interpreters.toolbox._search_filter import SearchFilter
from interpreters.toolbox.root_directory import (
    EVERYTHING,
    WILD,
    MissingError,
    RootDirectory,
    SearchScope,
    Walk,
    format_path,
)
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError

PATTERN_LIMIT = 1_000
GRACE = 2.0
"""Seconds beyond ``line_search.SECONDS`` for a child process to start and to end."""
LOOK = 0.1
"""Seconds between two checks for a cancellation of the call."""

MEANS_SOMETHING = re.compile(r"[\\^$.|?*+()\[\]{}]")
LINE_BREAK = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Characters that other programs treat as the end of a line. They are escaped, so that a file's text can't forge a
line of the result.
"""
TAME = re.compile(r"(?:\\[^1-9]|\[\^?\]?(?:[^\]\\]|\\.)*\]|\((?!\?)|\)(?![*+?{])|[^\\\[()])*", re.DOTALL)
REPEATS = re.compile(r"[*+{?]")
ESCAPED = re.compile(r"\\.", re.DOTALL)
BRANCHES = 8
"""An expression may try 2 to this power alternatives at each place."""

Mode = Literal["content", "files", "count"]


@frozen
class Query:
    """The search: pattern, files and output options."""

    pattern: str
    path: str | None = None
    """A file, a folder, or a glob pattern; None for all files."""
    glob: str | None = None
    """A second pattern for the paths of files; without a slash, for their names."""
    ignore_case: bool = False
    mode: Mode = "content"
    before: int = 0
    after: int = 0
    offset: int | None = None
    """None if the caller has no parameter ``offset``."""
    limit: int | None = None
    asked: SearchScope = EVERYTHING

    @property
    def output_options(self) -> dict[str, Any]:
        """The output options for ``line_search.search``."""
        plain = self.is_plain and not self.ignore_case
        return {
            "mode": self.mode,
            "before": self.before,
            "after": self.after,
            "offset": self.offset,
            "limit": self.limit,
            "text": self.pattern if plain else None,
        }

    @property
    def is_plain(self) -> bool:
        return not MEANS_SOMETHING.search(self.pattern)

    @property
    def is_tame(self) -> bool:
        """Whether the pattern is fast on every line: its repetitions can't match a text in many ways."""
        plain = ESCAPED.sub("x", self.pattern)
        repeats = REPEATS.findall(plain)
        few = len(repeats) <= 2 and len(repeats) - repeats.count("?") <= 1
        return few and plain.count("|") <= BRANCHES and TAME.fullmatch(self.pattern) is not None


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
    regex = _compile(pattern, query.ignore_case)
    in_child = not (query.is_plain and not query.ignore_case) and not query.is_tame
    with _child() if in_child else nullcontext() as child:
        found, notes = _paths(files, query, context)
        root, paths = str(files.root), _while_wanted(found, context)
        if child is not None:
            items: Iterable[Any] = _ask_child(child, root, list(paths), query, context)
        else:
            plain = query.is_plain and not query.ignore_case
            finds = _containing(pattern) if plain else search.finder(regex)
            items = search.search(root, paths, _heeding(finds, context), query.output_options)
    lines: list[str] = []
    for item in items:
        context.check()
        if isinstance(item, dict):
            notes.append(item["note"])
        else:
            lines.append(_line(item, query.mode))
    nothing = "No lines match." if query.mode == "content" else "No files match."
    return "\n".join([*(lines or [nothing]), *notes])


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


def _containing(text: str) -> search.FindMatch:
    def find(line: str) -> tuple[int, int] | None:
        at = line.find(text)
        return None if at < 0 else (at, at + len(text))

    return find


def _heeding(found: search.FindMatch, context: ToolContext[Any]) -> search.FindMatch:
    def heeding(line: str) -> tuple[int, int] | None:
        context.check()
        return found(line)

    return heeding


def _paths(files: RootDirectory, query: Query, context: ToolContext[Any]) -> tuple[Iterable[str], list[str]]:
    """Return the files to search, in order and without links, and notes on omitted parts. The notes are complete at the
    end.
    """
    path = query.path
    explicit, folder = 0, ""
    if path is None or path in ("", ".", "./"):
        parts: tuple[str, ...] = ("**", "*")
    else:
        try:
            with files.at(path) as place:
                if stat.S_ISREG(place.mode):
                    return ["/".join(place.parts)], []
                if not stat.S_ISDIR(place.mode):
                    return [], []
                explicit = len(place.parts)
                parts = (*map(escape, place.parts), "**", "*")
                folder = "/".join(place.parts)
        except MissingError:
            if not WILD.search(path):
                raise
            parts = files.parts(path)
            explicit = next((at for at, part in enumerate(parts) if WILD.search(part)), len(parts))
            folder = "/".join(parts[:explicit])
    chosen = SearchFilter(files, parts, query.asked, explicit, query.glob)
    found = ripgrep.candidates(
        str(files.root),
        folder,
        query.pattern,
        context,
        plain=query.is_plain,
        ignore_case=query.ignore_case,
        asked=query.asked,
        seconds=ripgrep.SECONDS,
    )
    if found is not None:
        return chosen.of(sorted(found, key=lambda name: name.split("/"))), []
    walk = Walk(files, parts, context, query.asked, explicit=explicit)
    return (name for name, real in walk.find() if name == real and chosen.fits(name)), walk.notes


@contextmanager
def _child() -> Iterator[subprocess.Popen[str]]:
    """Start a child process that searches with a regular expression, and kill it at the end of the block."""
    if not sys.executable:
        raise ToolError("invalid pattern: only plain texts and simple expressions can be searched for here")
    command = [sys.executable, "-I", "-S", "-W", "ignore", str(Path(search.__file__))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    ) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()


def _ask_child(
    child: subprocess.Popen[str], root: str, paths: list[str], query: Query, context: ToolContext[Any]
) -> list[Any]:
    deadline = time.monotonic() + search.SECONDS + GRACE
    asked = {"root": root, "paths": paths, "pattern": query.pattern, "ignore_case": query.ignore_case}
    request: str | None = json.dumps({**asked, "shown": query.output_options})
    too_slow, output = False, ""
    while child.returncode is None:
        try:
            output, _ = child.communicate(request, timeout=LOOK)
        except subprocess.TimeoutExpired:
            request = None  # it is on its way
            too_slow = time.monotonic() > deadline
            if too_slow or context.cancelled:
                child.kill()
    context.check()
    items = [json.loads(line) for line in output.splitlines()]
    if too_slow and not items:
        raise ToolError(f"the pattern takes too long: {query.pattern}; use a simpler one")
    if too_slow:
        items.append({"note": "[stopped: this pattern takes too long; use a simpler one]"})
    return items

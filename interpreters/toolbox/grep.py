"""``Grep``: which files are searched, where the search runs, and how what it finds is worded."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

from cognition.shown import shown_name
from interpreters.toolbox import search
from interpreters.toolbox.files import MissingError, Walk, Workspace, listed
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError

PATTERN_LIMIT = 1_000
"""Characters of a pattern."""
GRACE = 2.0
"""Seconds that a child gets beyond ``search.SECONDS`` to start and to end by itself."""
LOOK = 0.1
"""Seconds between two looks at whether the call was cancelled."""

MEANS_SOMETHING = re.compile(r"[\\^$.|?*+()\[\]{}]")
WILD = re.compile(r"[*?\[]")
LINE_BREAK = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What ends a line for others than us. It is shown, so that no text of a file forges a line of the result."""


def grep_files(files: Workspace, pattern: str, path: str | None, context: ToolContext[Any]) -> str:
    """The matching lines as ``path:line: text``, and what was left out.

    Raises:
        ToolError: the pattern is none, or there is nothing at the path.
    """
    if not pattern or len(pattern) > PATTERN_LIMIT:
        raise ToolError(f"invalid pattern: {pattern[:80]}")
    paths, notes = _paths(files, path, context)
    if MEANS_SOMETHING.search(pattern):
        items: Iterable[Any] = _in_child(str(files.root), paths, pattern, context)
    else:
        items = search.search(str(files.root), paths, partial(_contains, context, pattern))
    lines: list[str] = []
    for item in items:
        context.check()
        if isinstance(item, list):
            text = LINE_BREAK.sub(lambda found: shown_name(found[0]), item[2])
            lines.append(f"{listed(item[0])}:{item[1]}: {text}")
        else:
            notes.append(item["note"])
    return "\n".join([*(lines or ["No lines match."]), *notes])


def _contains(context: ToolContext[Any], pattern: str, line: str) -> bool:
    context.check()
    return pattern in line


def _paths(files: Workspace, path: str | None, context: ToolContext[Any]) -> tuple[list[tuple[str, str]], list[str]]:
    """The files to search, each with its path below the root, and notes on what was left out."""
    if path is None or path in ("", ".", "./"):
        parts: tuple[str, ...] = ("**", "*")
    else:
        try:
            with files.at(path) as place:
                real = "/".join(place.parts)
                if stat.S_ISREG(place.mode):
                    return [(real, real)], []
                if not stat.S_ISDIR(place.mode):
                    return [], []
                parts = (*map(escape, place.parts), "**", "*")
        except MissingError:
            if not WILD.search(path):
                raise
            parts = files.parts(path)
    walk = Walk(files, parts, context)
    return list(walk.found()), walk.notes


def _in_child(root: str, paths: list[tuple[str, str]], pattern: str, context: ToolContext[Any]) -> Iterable[Any]:
    """Search with a regular expression in a process that is ended when it takes too long."""
    if not sys.executable:
        raise ToolError(f"invalid pattern: {pattern} (only plain texts can be searched for here)")
    command = [sys.executable, "-I", "-S", "-W", "ignore", str(Path(search.__file__))]
    request: str | None = json.dumps({"root": root, "paths": paths, "pattern": pattern})
    deadline = time.monotonic() + search.SECONDS + GRACE
    too_slow, output = False, ""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    ) as child:
        while child.returncode is None:
            try:
                output, _ = child.communicate(request, timeout=LOOK)
            except subprocess.TimeoutExpired:
                request = None  # it is on its way
                too_slow = time.monotonic() > deadline
                if too_slow or context.cancelled:
                    child.kill()
            except BaseException:  # an interrupt: don't leave it behind
                child.kill()
                raise
    context.check()
    items = [json.loads(line) for line in output.splitlines()]
    for item in items:
        if isinstance(item, dict) and "invalid" in item:
            raise ToolError(f"invalid pattern: {pattern} ({item['invalid']})")
    if too_slow and not items:
        raise ToolError(f"the pattern takes too long: {pattern}; use a simpler one")
    if too_slow:
        items.append({"note": "[stopped: this pattern takes too long; use a simpler one]"})
    return items

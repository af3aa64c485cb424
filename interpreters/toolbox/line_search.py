"""Search lines in files. Runs in this process for plain texts and simple expressions, and as a child process for other
regular expressions.

Python's ``re`` can't be interrupted and does not release the interpreter while it matches. Some patterns take
practically forever on a line of 30 characters. So a child process that can be killed tries them. It runs this module
from memory, reads a JSON request from its input and writes one JSON value per line. A match is ``[path, line
number, text]``, a note is ``{"note": ...}``. To start fast, this module imports nothing else from this project.

Links are never followed: the caller has resolved them, so a link found now was swapped in.
"""

import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

FILE_LIMIT = 16_000_000
"""Bytes of a file that is searched; larger files are skipped."""
LINE_LIMIT = 1_000
"""Characters of a line searched for an expression. For a text the whole line is searched."""
TEXT_LIMIT = 200
"""Characters of a line that are shown."""
BEFORE = 60
"""Characters shown before a match in a longer line."""
MATCH_LIMIT = 100
"""Lines shown, or files in the modes that list files."""
SECONDS = 5.0
"""Seconds after which the search stops."""

BEFORE_IT, MATCH, AFTER = "before", "match", "after"
"""The kind of a shown line."""

FindMatch = Callable[[str], "tuple[int, int] | None"]

OPTIONS = ("mode", "before", "after", "offset", "limit", "text")
"""The output options.

- ``mode``: ``content`` for the lines, with ``before`` and ``after`` lines of context; ``files`` for the matching files;
  ``count`` for the number of matches per file.
- ``offset``: results to skip; None if the caller has no such parameter.
- ``limit``: results to show, at most ``MATCH_LIMIT``.
- ``text``: contained in every match, so that a file without it need not be split into lines.
"""

DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening a folder on the way to a file. With ``O_PATH`` (Linux) it need not be readable."""


def open_directory(path: str) -> int:
    """Open a directory by an absolute path without links, and return its descriptor.

    Raises:
        OSError: it is not a directory, or a name in the path is a link.
    """
    directory = os.open("/", DIRECTORY)
    return below(directory, [name for name in path.split("/") if name])


def below(directory: int, names: list[str]) -> int:
    """Open nested folders, one after another, and close the starting folder."""
    for name in names:
        try:
            inner = os.open(name, DIRECTORY, dir_fd=directory)
        finally:
            os.close(directory)
        directory = inner
    return directory


def open_below(directory: int, path: str) -> int:
    """Open a file for reading by its path below a directory, without links."""
    *folders, name = path.split("/")
    folder = below(os.dup(directory), folders)
    try:  # not blocking, so that a named pipe doesn't wait for a writer
        return os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)


def search(root: str, paths: Iterable[str], found: FindMatch, shown: dict[str, Any]) -> Iterator[Any]:
    """Yield the matches in files under ``root``, then notes on omitted parts.

    Args:
        root: an absolute path without links.
        paths: the files, relative to the root and without links.
        found: returns the span of a match in a line, or None.
        shown: the values of ``OPTIONS``.
    """
    try:
        directory = open_directory(root)
    except OSError:  # it has gone, or is a link by now
        return
    try:
        yield from _search(directory, paths, found, shown)
    finally:
        os.close(directory)


def _search(directory: int, paths: Iterable[str], found: FindMatch, shown: dict[str, Any]) -> Iterator[Any]:
    deadline = time.monotonic() + SECONDS
    large, long = 0, [0]
    mode, first, text = shown["mode"], shown["offset"] or 0, shown["text"]
    end = first + (shown["limit"] or MATCH_LIMIT)
    number = 0  # of the next match
    stopped = ""
    for path in paths:
        if time.monotonic() > deadline:
            stopped = path
            break
        content = read(directory, path)
        if content is None:
            large += 1
            continue
        if "\0" in content or (text is not None and text not in content):
            continue
        lines = content.split("\n")
        if not lines[-1]:
            lines.pop()
        count = 0
        for item in _matches(path, lines, found, shown, long):
            if time.monotonic() > deadline:
                stopped = path
            kind = item.pop()
            count += kind == MATCH
            if mode == "content":
                if kind != AFTER and number == end:
                    yield _more("lines", shown, end)
                    return
                number += kind == MATCH
                if number + (kind == BEFORE_IT) > first:
                    yield item if kind == MATCH else [*item, None]
            if mode == "files" or stopped:
                break
        if mode != "content" and count:
            if number == end:
                yield _more("files", shown, end)
                return
            number += 1
            if number > first:
                yield [path, count]
        if stopped:
            break
    if stopped:
        yield {"note": f"[stopped after {SECONDS:g} seconds, in {json.dumps(stopped)}; narrow the search]"}
    if large:
        yield {"note": f"[files left out because they are larger than {FILE_LIMIT} bytes: {large}]"}
    if long[0]:
        yield {"note": f"[lines of which only the first {LINE_LIMIT} characters were searched: {long[0]}]"}


def _more(what: str, shown: dict[str, Any], end: int) -> dict[str, str]:
    if shown["offset"] is None:
        return {"note": f"[more than {end} {what} match; narrow the search]"}
    return {"note": f"[more {what} match; narrow the search, or go on with offset={end}]"}


def _matches(path: str, lines: list[str], found: FindMatch, shown: dict[str, Any], long: list[int]) -> Iterator[Any]:
    """Yield each match as path, line number, shown text and ``MATCH``, and the context lines around it."""
    before, after = (shown["before"], shown["after"]) if shown["mode"] == "content" else (0, 0)
    whole = shown["text"] is not None
    told = 0  # lines up to here were shown
    last = -1
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_LIMIT and not whole:
            long[0] += 1
            line = line[:LINE_LIMIT]
        at = found(line)
        if at is None:
            if after and last >= 0 and number <= last + after:
                yield [path, number, _cut(lines[number - 1], 0), AFTER]
                told = number
            continue
        for earlier in range(max(told + 1, number - before), number):
            yield [path, earlier, _cut(lines[earlier - 1], 0), BEFORE_IT]
        yield [path, number, _cut(lines[number - 1], at[0]), MATCH]
        told = last = number


def _cut(line: str, at: int) -> str:
    text = line.strip()
    if len(text) <= TEXT_LIMIT:
        return text
    at = max(0, at - (len(line) - len(line.lstrip())))
    begin = 0 if at < TEXT_LIMIT - BEFORE else min(at - BEFORE, len(text) - TEXT_LIMIT)
    end = begin + TEXT_LIMIT
    return ("..." if begin else "") + text[begin:end] + ("..." if end < len(text) else "")


def read(root: int, path: str) -> str | None:
    """Return a file's text. A text with a NUL if it is not a text file; None if it is too large."""
    try:
        descriptor = open_below(root, path)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return "\0"
            if status.st_size > FILE_LIMIT:
                return None
            return file.read(FILE_LIMIT).decode("utf-8", "replace").removeprefix("\ufeff")
    except OSError:
        return "\0"


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    flags = re.IGNORECASE if request["ignore_case"] else 0
    found = finder(re.compile(request["pattern"], flags))
    for item in search(request["root"], request["paths"], found, request["shown"]):
        print(json.dumps(item), flush=True)


def finder(regex: "re.Pattern[str]") -> FindMatch:
    """Return a function that finds an expression in a line."""

    def found(line: str) -> "tuple[int, int] | None":
        match = regex.search(line)
        return None if match is None else match.span()

    return found

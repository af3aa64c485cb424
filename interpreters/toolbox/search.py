"""Looks for lines in files. Runs here for a plain text, and as a program of its own for a regular expression.

Python's ``re`` can't be interrupted and keeps the interpreter to itself while it matches, and some patterns take longer
than anybody lives on a line of 30 characters. So a regular expression is tried in a child process, which can be ended:
``python -I -S search.py`` reads a request from its input and writes one JSON value a line: matches as ``[path, line
number, text]``, notes as ``{"note": ...}``. Nothing of this project is imported here, so that the child starts fast.

No link is followed on the way to a file: whoever asks has resolved them, and a folder that is one by now was swapped.
"""

import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

FILE_LIMIT = 2_000_000
"""Bytes of a file that is searched; larger ones are left out."""
LINE_LIMIT = 1_000
"""Characters of a line that are searched."""
TEXT_LIMIT = 200
"""Characters of a line that are shown."""
MATCH_LIMIT = 100
"""Lines that are shown."""
SECONDS = 5.0
"""After so long no further line is searched."""

Found = Callable[[str], object]


DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Of opening a folder on the way to something. With ``O_PATH``, which Linux has, it need not be readable."""


def open_directory(path: str) -> int:
    """The descriptor of a directory, by an absolute path without links.

    Raises:
        OSError: it is none, or a name in it is a link.
    """
    directory = os.open("/", DIRECTORY)
    return _below(directory, [name for name in path.split("/") if name])


def _below(directory: int, names: list[str]) -> int:
    """The folder that names lead to, one after another; the one that they begin in is closed."""
    for name in names:
        try:
            inner = os.open(name, DIRECTORY, dir_fd=directory)
        finally:
            os.close(directory)
        directory = inner
    return directory


def search(root: str, paths: list[tuple[str, str]], found: Found) -> Iterator[Any]:
    """The matches in files under ``root``, and at the end what was left out.

    Args:
        root: an absolute path without links.
        paths: of each file how it is called, and its path below the root, without links.
        found: what is wanted of a line.
    """
    try:
        directory = open_directory(root)
    except OSError:  # it has gone, or is a link by now
        return
    try:
        yield from _search(directory, paths, found)
    finally:
        os.close(directory)


def _search(directory: int, paths: list[tuple[str, str]], found: Found) -> Iterator[Any]:
    deadline = time.monotonic() + SECONDS
    matches, large, long = 0, 0, 0
    for path, real in paths:
        content = read(directory, real)
        if content is None:
            large += 1
            continue
        if "\0" in content:
            continue
        for number, line in enumerate(content.split("\n"), 1):
            long += len(line) > LINE_LIMIT
            if not found(line[:LINE_LIMIT]):
                continue
            if matches == MATCH_LIMIT:
                yield {"note": f"[more than {MATCH_LIMIT} lines match; narrow the search]"}
                return
            matches += 1
            text = line.strip()
            yield [path, number, text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}..."]
            if time.monotonic() > deadline:
                break
        if time.monotonic() > deadline:
            yield {"note": f"[stopped after {SECONDS:g} seconds, in {json.dumps(path)}; narrow the search]"}
            break
    if large:
        yield {"note": f"[files left out because they are larger than {FILE_LIMIT} bytes: {large}]"}
    if long:
        yield {"note": f"[lines of which only the first {LINE_LIMIT} characters were searched: {long}]"}


def read(root: int, path: str) -> str | None:
    """The text of a file; one with a NUL for what is no text; None for a file that is too large."""
    try:
        *folders, name = path.split("/")
        folder = _below(os.dup(root), folders)
        try:  # not blocking, so that a named pipe doesn't wait for a writer
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return "\0"
            if status.st_size > FILE_LIMIT:
                return None
            return file.read(FILE_LIMIT).decode("utf-8", "replace")
    except OSError:
        return "\0"


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    try:
        found = re.compile(request["pattern"]).search
    except (re.error, RecursionError, OverflowError) as error:
        print(json.dumps({"invalid": str(error)}))
        return
    for item in search(request["root"], request["paths"], found):
        print(json.dumps(item), flush=True)


if __name__ == "__main__":
    main()

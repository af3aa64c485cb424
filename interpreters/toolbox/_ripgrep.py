"""The query of a search, and ripgrep, if installed, to find the files that may match: the others are not opened then.

Only its list of files is used, filtered exactly as a walk through the folders would. The files are opened behind the
wall and searched by the same code as without ripgrep, and our own reading of ``.gitignore`` applies. So the results are
the same, and a trick played on ripgrep can't reveal any file. For this, ripgrep must list every matching file, and may
list more. It is therefore called only for searches that both engines read alike: plain texts, and a subset of regular
expressions. In that subset, characters beyond ASCII count as a possible match.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, AnyStr, Literal

from attrs import frozen

from interpreters.toolbox._gitignore import IGNORE_FILE, Level, enter_folder
from interpreters.toolbox.line_search import OPTIONS, below, open_directory
from interpreters.toolbox.root_directory import EVERYTHING, RootDirectory, SearchScope, Walk
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError
from runtime.children.start import find_program
from runtime.files import closing

SECONDS = 5.0
"""Seconds after which ripgrep is killed and the search runs without it."""
LOOK = 0.05
"""Seconds between two checks for a cancellation of the call."""

MEANS_SOMETHING = re.compile(r"[\\^$.|?*+()\[\]{}]")
BRACES = re.compile(r"\{([^{}]*)\}")
MANY = 64
"""Patterns that one pattern with braces may expand to."""

HIGH = r"[\x80-\xff]+"
"""One or more characters beyond ASCII, or bytes that are not valid text."""

TOKEN = re.compile(
    r"(?P<class>\[\^?(?:[^\\\[\]^&~\-\x00-\x1f\x7f-\U0010ffff]|\w-\w|\\[dDwWsStnrfv.*+?^$|()\[\]{}\\/\-\"'])+\])"
    r"|(?P<kind>\\[dDwWsSbB]|[.^])|(?P<letter>[A-Za-z])"
    r"|[^\\\[\](){}?*+^$|.\x00-\x08\x0a-\x1f\x7f-\U0010ffff]|[$|()]|\(\?:|[*+?]\??|\{\d{1,3}(?:,\d{0,3})?\}\??"
    r"|\\[tnrfv]|\\[.*+?^$|()\[\]{}\\/\-\"'#@=:;,!%~` ]",
    re.ASCII,
)
"""The syntax that Python and ripgrep read alike, in ASCII."""

WIDER = {
    "^": r"(?:^(?-u:\xef\xbb\xbf)?)",
    r"\w": rf"(?-u:\w|{HIGH})",
    r"\d": rf"(?-u:[0-9]|{HIGH})",
    r"\s": rf"(?-u:[\s\x1c-\x1f]|{HIGH})",
    r"\W": rf"(?-u:[^\w\x80-\xff]|{HIGH})",
    r"\D": rf"(?-u:[^0-9\x80-\xff]|{HIGH})",
    r"\S": rf"(?-u:[^\s\x80-\xff]|{HIGH})",
    ".": rf"(?-u:[^\n\x80-\xff]|{HIGH})",
    r"\b": "(?:)",
    r"\B": "(?:)",
}
"""Replacements that match everything that either engine matches."""


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
        return {name: getattr(self, name) for name in OPTIONS}

    @property
    def text(self) -> str | None:
        """The text to find; None if the pattern is an expression, or case is ignored."""
        return None if self.ignore_case or MEANS_SOMETHING.search(self.pattern) else self.pattern


def widen(pattern: str, *, ignore_case: bool = False) -> str | None:
    """Return a ripgrep expression that matches every line that the Python expression matches, and a few more. None if
    the engines may read it differently.

    They differ in letters, digits and blanks beyond ASCII, in invalid UTF-8, and in the Turkish i.
    """
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        token = TOKEN.match(pattern, at)
        if token is None:
            return None
        text = token[0]
        if token["kind"]:
            text = WIDER[text]
        elif token["letter"] and ignore_case and text in "iI":
            text = "[iI\u0130\u0131]"
        elif token["class"] and (ignore_case or "\\" in text or text.startswith("[^")):
            ascii_only = text[:-1] + r"\x{80}-\x{10ffff}]" if text.startswith("[^") else text
            text = rf"(?:{ascii_only}|(?-u:{HIGH}|[\x1c-\x1f]))"
        parts.append(text)
        at = token.end()
    return "".join(parts)


FAILED = 2


@lru_cache(maxsize=16)
def program(root: str) -> str | None:
    """Return the path of ripgrep, without links. Looked up once for a root, and never within it: a command may have put
    it there.
    """
    found = find_program("rg", (Path(root),), os.environ.get("PATH", ""))
    return None if found is None else os.path.realpath(found)


def candidates(
    root: str, folder: str, query: Query, context: ToolContext[Any], excluded: Iterable[str] = ()
) -> list[str] | None:
    """Return the files in a folder that may match, as unordered paths below the root. None if ripgrep can't run the
    search or exceeds the time limit.

    Args:
        root: the working directory, an absolute path.
        folder: folder below the root, without links; empty for the whole root.
        query: the search.
        context: of the call, which may be cancelled.
        excluded: glob patterns of files that ripgrep must not open, in any case of letters.
    """
    rg, text, ignore_case = program(root), query.text, query.ignore_case
    if rg is None or "\ufffd" in query.pattern or (ignore_case and not query.pattern.isascii()):
        return None
    expression = widen(query.pattern, ignore_case=ignore_case) if text is None else text
    if expression is None:
        return None
    command = [rg, "--no-config", "--files-with-matches", "--null", "--no-messages", "--text", "--encoding=none"]
    command += ["--no-ignore-global", "--no-ignore-parent", "--no-ignore-dot", "--no-require-git", "--no-follow"]
    command += ["--no-mmap", "--color=never", "--glob=!.git", "--ignore-case" if ignore_case else "--case-sensitive"]
    command += ["--hidden"] * query.asked.hidden + ["--no-ignore"] * query.asked.ignored
    command += [f"--iglob=!{one}" for one in excluded]
    command += ["--fixed-strings"] * (text is not None) + [f"--regexp={expression}", "--", f"./{folder}"]
    try:
        process = subprocess.Popen(
            command,
            cwd=root,
            env={name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except (OSError, ValueError):  # it has gone by now, or the pattern is no argument of a program
        return None
    with process:
        output, errors, too_slow = read_output(process, None, SECONDS, context)
    if too_slow:
        return None
    if process.returncode not in (0, 1) and (errors or process.returncode != FAILED):  # it could not read the pattern
        return None
    return [os.fsdecode(path).removeprefix("./") for path in output.split(b"\0") if path]


def read_output(
    process: subprocess.Popen[AnyStr], request: AnyStr | None, seconds: float, context: ToolContext[Any]
) -> tuple[AnyStr, AnyStr, bool]:
    """Return the output and the errors of a child process until its end, and whether it was killed for its slowness.

    Raises:
        ToolCancelled: the call was cancelled. The process was killed.
    """
    deadline = time.monotonic() + seconds
    too_slow = False
    try:
        while True:
            try:
                output, errors = process.communicate(request, timeout=LOOK)
                return output, errors, too_slow
            except subprocess.TimeoutExpired:
                context.check()
                request = None  # it is on its way
                too_slow = time.monotonic() > deadline
                if too_slow:
                    process.kill()
    except BaseException:  # a cancellation, or an interrupt: don't leave it behind
        process.kill()
        raise


# ----------------------------------------------------------------------------------------------------------- the filter


Reached = tuple[frozenset[int], Level | None]
"""For a folder: the positions in the pattern that its path reaches, and the git ignore patterns that apply in it."""


class SearchFilter:
    """The files to search: by a pattern, by git's ignore rules and by a second pattern."""

    def __init__(self, files: RootDirectory, walk: Walk, glob: str | None) -> None:
        """``walk`` reaches the files. Their paths must also match ``glob``.

        Raises:
            ToolError: ``glob`` is not a valid pattern.
        """
        self._root, self._walk = str(files.root), walk
        self._globs = [] if glob is None else [files.parts(one) for one in expand_braces(glob)]
        self._named = [parts[0] for parts in self._globs if len(parts) == 1]
        self._pathed = [Walk(files, parts, walk.context, access=walk.access) for parts in self._globs if len(parts) > 1]
        self._folders: dict[str, Reached | None] = {}
        """By path. None: the folder is skipped."""

    def fits(self, path: str) -> bool:
        """Return whether a path matches the second pattern."""
        if not self._globs:
            return True
        names = path.split("/")
        is_named = any(fnmatchcase(names[-1], one) for one in self._named)
        return is_named or any(one.leads_to(names) for one in self._pathed)

    def notes(self, parts: Sequence[str]) -> list[str]:
        """Return a line about the files that policy leaves out. ``parts`` is the pattern of the files."""
        access = self._walk.access
        if self._globs and not any(access.notes(one if len(one) > 1 else ("**", *one)) for one in self._globs):
            return []
        return access.notes(parts)

    def of(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths that a walk would reach. The paths must not contain links."""
        try:
            root = open_directory(self._root)
        except OSError:
            return
        with closing(root):
            for path in paths:
                *folders, name = path.split("/")
                if not self.fits(path) or not self._walk.access.allows(path):
                    continue
                reached = self._reach(root, folders)
                if reached is not None and self._is_reached(path, name, reached):
                    yield path

    def _is_reached(self, path: str, name: str, folder: Reached) -> bool:
        places, level = folder
        after = self._walk.after(places, name)
        explicit = path.count("/") < self._walk.explicit
        return self._walk.is_end(after) and (explicit or not self._walk.is_left_out(path, name, False, level, places))

    def _reach(self, root: int, folders: list[str]) -> Reached | None:
        prefix = "/".join([*folders, ""])
        if prefix not in self._folders:
            self._folders[prefix] = self._enter(root, folders, prefix)
        return self._folders[prefix]

    def _enter(self, root: int, folders: list[str], prefix: str) -> Reached | None:
        above: Level | None = None
        places = self._walk.beginning
        if folders:
            outer = self._reach(root, folders[:-1])
            if outer is None:
                return None
            before, above = outer
            places = self._walk.after(before, folders[-1])
            explicit = len(folders) <= self._walk.explicit
            path = prefix.removesuffix("/")
            if not places or (not explicit and self._walk.is_left_out(path, folders[-1], True, above, before)):
                return None
        if self._walk.asked.ignored:
            return places, None
        try:
            folder = below(os.dup(root), folders)
        except OSError:  # it is a link by now, or has gone
            return None
        with closing(folder):
            there = {name for name in (".git", IGNORE_FILE) if _exists(name, folder)}
            return places, enter_folder(folder, prefix, above, there)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def expand_braces(glob: str) -> list[str]:
    """Expand braces: ``*.{py,md}`` becomes ``*.py`` and ``*.md``.

    Raises:
        ToolError: it expands to too many patterns.
    """
    done: list[str] = []
    todo = [glob]
    while todo:
        one = todo.pop()
        braces = BRACES.search(one)
        if braces is None:
            done.append(one)
        else:
            todo += [one[: braces.start()] + choice + one[braces.end() :] for choice in braces[1].split(",")]
        if len(done) + len(todo) > MANY:
            raise ToolError(f"invalid pattern: {glob[:80]} (its braces stand for more than {MANY} patterns)")
    return done

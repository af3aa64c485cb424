"""Use ripgrep, if installed, to find the files that may match, so that the other files are not opened.

Only its list of files is used. The files are opened behind the wall and searched by the same code as without ripgrep,
and our own reading of ``.gitignore`` applies. So the results are the same, and a trick played on ripgrep can't reveal
any file. For this, ripgrep must list every matching file, and may list more. It is therefore called only for searches
that both engines read alike: plain texts, and a subset of regular expressions. In that subset, characters beyond ASCII
count as a possible match.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from functools import lru_cache
from typing import Any

from interpreters.toolbox.root_directory import SearchScope
from interpreters.tools.context import ToolContext

SECONDS = 5.0
"""Seconds after which ripgrep is killed and the search runs without it."""
LOOK = 0.05
"""Seconds between two checks for a cancellation of the call."""

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
            text = rf"(?:{_ascii_only(text)}|(?-u:{HIGH}|[\x1c-\x1f]))"
        parts.append(text)
        at = token.end()
    return "".join(parts)


def _ascii_only(text: str) -> str:
    return text[:-1] + r"\x{80}-\x{10ffff}]" if text.startswith("[^") else text


FAILED = 2


@lru_cache(maxsize=1)
def program() -> str | None:
    """Return the path of ripgrep. Looked up once, and only in absolute directories, so that no program in the searched
    tree is run.
    """
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    return shutil.which("rg", path=os.pathsep.join(folders)) if folders else None


def candidates(
    root: str,
    folder: str,
    pattern: str,
    context: ToolContext[Any],
    *,
    plain: bool,
    ignore_case: bool,
    asked: SearchScope,
    seconds: float,
) -> list[str] | None:
    """Return the files in a folder that may match, as unordered paths below the root. None if ripgrep can't run the
    search or exceeds the time limit.

    Args:
        root: the working directory, an absolute path.
        folder: folder below the root, without links; empty for the whole root.
        pattern: a text, or an expression.
        context: of the call, which may be cancelled.
        plain: whether ``pattern`` is a text.
        ignore_case: whether to ignore case.
        asked: the files to include.
        seconds: time limit.
    """
    rg = program()
    if rg is None or "\ufffd" in pattern or (ignore_case and not pattern.isascii()):
        return None
    plain = plain and not ignore_case
    expression = pattern if plain else widen(pattern, ignore_case=ignore_case)
    if expression is None:
        return None
    command = [rg, "--no-config", "--files-with-matches", "--null", "--no-messages", "--text", "--encoding=none"]
    command += ["--no-ignore-global", "--no-ignore-parent", "--no-ignore-dot", "--no-require-git", "--no-follow"]
    command += ["--no-mmap", "--color=never", "--glob=!.git", "--ignore-case" if ignore_case else "--case-sensitive"]
    command += ["--hidden"] * asked.hidden + ["--no-ignore"] * asked.ignored
    command += ["--fixed-strings"] * plain + [f"--regexp={expression}", "--", f"./{folder}"]
    deadline = time.monotonic() + seconds
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
    output = errors = b""
    with process:
        while True:
            try:
                output, errors = process.communicate(timeout=LOOK)
                break
            except subprocess.TimeoutExpired:
                if context.cancelled or time.monotonic() > deadline:
                    process.kill()
                    process.communicate()
                    context.check()
                    return None
            except BaseException:  # an interrupt: don't leave it behind
                process.kill()
                raise
    if process.returncode not in (0, 1) and (errors or process.returncode != FAILED):  # it could not read the pattern
        return None
    return [os.fsdecode(path).removeprefix("./") for path in output.split(b"\0") if path]

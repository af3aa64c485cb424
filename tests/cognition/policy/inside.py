"""The program inside the sandbox of `running.py`: it runs command lines and reports their effects.

It reads one JSON object per line from its input and writes one per line. It uses only the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER, TEMPLATE, LOG = Path("/srv/app"), Path("/template"), Path("/run/log")
PLACES = (FOLDER, Path("/home/me"), Path("/tmp"))
"""Folders that a line may change."""
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin", "HOME": "/home/me", "LANG": "C.UTF-8", "USER": "me"}
SET_CHILD_SUBREAPER = 36
LONGEST_ARGUMENT = 100_000
"""Bytes of a line that fits into an argument; a longer one is run as a file."""
DENIED = re.compile(
    r"(?:curl|wget|CURL)\b"
    r"|rm(?=(?:(?! -- ).)*(?: -[a-zA-Z]*[rR]| --r))(?=(?:(?! -- ).)*(?: -[a-zA-Z]*f| --f))"
    r"|git-push\b|git(?: -\S+(?: (?!push\b)[^-]\S*){0,2})* push\b",
    re.DOTALL | re.ASCII,
)
ALLOWED = re.compile(r"(?:ls|echo|true|cat|grep)\b|git status\b|npm run\b")
"""The programs that the rules of ``SHELL`` deny and allow, in the words of the log."""
Files = dict[str, tuple[int, bytes]]


def files() -> Files:
    """Return every file below the folders of a line, with its mode and content."""
    found: Files = {}
    for place in PLACES:
        for path in place.rglob("*"):
            status = path.lstat()
            plain = path.is_file() and not path.is_symlink()
            with contextlib.suppress(OSError):
                found[str(path)] = status.st_mode, path.read_bytes() if plain else b""
    return found


def clean() -> None:
    """Bring every folder into the state of the template."""
    for place in PLACES:
        for path in place.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
    shutil.copytree(TEMPLATE / "app", FOLDER, dirs_exist_ok=True, symlinks=True)
    shutil.copytree(TEMPLATE / "home", "/home/me", dirs_exist_ok=True, symlinks=True)


def descendants() -> list[int]:
    """Return the processes that this one or its children started."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found, mine = [], {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
        found += sorted(more)
    return found


def collect() -> None:
    """Collect children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end_all() -> None:
    """End every descendant and collect it."""
    for _ in range(1000):
        left = descendants()
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        collect()
        if not left:
            return
        time.sleep(0.001)


def noted() -> list[str]:
    """Return the log of the programs, a text for each."""
    return LOG.read_text(errors="replace").split("\1")[1:] if LOG.exists() else []


def run(
    shell: str, line: str, before: str, given: str, variables: dict[str, str], terminal: bool, seconds: float
) -> dict[str, object]:
    """Run one line in a clean folder."""
    clean()
    environment = {**ENVIRONMENT, **variables, **({"TERM": "linux"} if terminal else {})}
    if before:
        subprocess.run(
            ["/real/bash", "-c", before], cwd=FOLDER, env={**ENVIRONMENT, "PATH": "/real"}, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    LOG.unlink(missing_ok=True)
    earlier = files()
    if len(line.encode()) > LONGEST_ARGUMENT or "\0" in line:
        Path("/run/line").write_text(line)
        command = [shell, "/run/line"]
    else:
        command = [shell, "-c", line]
    Path("/run/input").write_text(given)
    with open("/run/input") as source, open("/run/errors", "w+b") as errors:
        began = time.monotonic()
        master, slave = os.openpty() if terminal else (-1, -1)
        running = subprocess.Popen(
            command, cwd=FOLDER, env=environment, stdin=slave if terminal and not given else source,
            stdout=slave if terminal else subprocess.DEVNULL, stderr=errors, start_new_session=True,
        )  # fmt: skip
        ended, wait = False, 0.002
        while (passed := time.monotonic() - began) < seconds:
            if ended:  # a process in the background or at the other end of a pipe may outlive its shell
                collect()
                if not descendants():
                    break
                time.sleep(wait)
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(wait)
                    ended = True
                    continue
            wait = min(wait * 2, 0.05)
            if passed > 0.1 and any(DENIED.match(one) for one in noted()):
                break
        end_all()
        running.poll()
        for end in (master, slave):
            if end >= 0:
                os.close(end)
        errors.seek(0)
        messages = errors.read(2000).decode(errors="replace")
    later = files()
    changed = sorted(path for path in earlier.keys() | later.keys() if earlier.get(path) != later.get(path))
    ran = noted()
    return {
        "denied": [one for one in ran if DENIED.match(one)][:3],
        "other": [one for one in ran if not DENIED.match(one) and not ALLOWED.match(one)][:5],
        "changed": changed[:5],
        "ended": ended,
        "errors": messages,
        "seconds": time.monotonic() - began,
    }


def main() -> None:
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for text in sys.stdin:
        asked = json.loads(text)
        print(json.dumps(run(**asked)), flush=True)


if __name__ == "__main__":
    main()

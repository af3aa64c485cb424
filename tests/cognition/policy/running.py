"""Runs command lines for real: in bubblewrap, in bash and in dash, among programs that note that they ran.

A line can do no harm there. It has no network, no rights, no file of the machine but its programs, and little time.
``curl`` and ``wget``, ``rm`` and others are scripts of ours that only write their words into a log. The other programs
of the machine are real, each behind a script that notes it. `STAND_INS` are programs that are rarely installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attrs import frozen

from tests.fuzz.policy import SHELLS, STRANGE

INSIDE = Path(__file__).with_name("inside.py")
MARKERS = ("curl", "wget", "rm", "CURL", "curl.exe", "shutdown", "mkfs")
"""Programs that do nothing but note themselves."""

REAL = """
apt-get awk basename bc cat cc cmake col cp csplit cut dd diff dirname dpkg echo ed env ex expr find gawk gcc gdb
getopt git gpg grep gzip head install ionice ip ldd less ln logsave ls make man mawk mkdir mkfifo mktemp more mv
nice ninja nl node nohup npm npx od openssl paste patch perl pip printf pwd python3 rev run-parts scp script sed
seq setsid sftp shasum sleep sort split sqlite3 ssh-agent ssh-keyscan start-stop-daemon stdbuf tac tail tar tee
test time timeout touch tr true uname uniq unshare vim vim.basic watch wc x86_64 xargs xz yes zip
""".split()
"""Programs of the machine. A line that names one that is missing isn't tried."""

REST = 'exec "$@"'
AFTER_OPTIONS = 'while :; do case $1 in -*|*=*) shift;; *) break;; esac; done; exec "$@"'
ANY_WORD = """[ $# = 0 ] && exec sh
/real/bash -c 'for one; do case $one in --*=*) one=${one#*=};; -x*) one=${one#-x};; +*) one=${one#+};; esac
eval "$one"; done; exec "$@"' - "$@"
"""
"""The worst that an unknown program may do: it runs each word, and all of them as one command."""
STAND_INS = {
    **STRANGE,
    **dict.fromkeys(
        """
        R bundle cargo conda cross-env debconf direnv docker docker-compose fd fzf go gpg-agent hg kubectl mail mise nix
        nix-shell pandoc parallel php pipenv pipx pnpm poetry pyenv pytest rg rpm rsync ruby rustc rustup script-runner
        sg ssh su svn tini unknown uv uvx xterm
        """.split(),
        ANY_WORD,
    ),
    **dict.fromkeys(("fish", "zsh"), 'exec sh "$@"'),
    **{name: f'exec /real/{real} "$@"' for name, real in {
        "python": "python3", "python3.11": "python3", "gsed": "sed", "gtimeout": "timeout", "genv": "env",
    }.items()},
    "newgrp": "exec sh",
    "sudo": 'while :; do case $1 in -u|-g) shift 2;; -*) shift;; *=*) export "$1"; shift;; *) break;; esac; done; '
    'exec "$@"',
    **dict.fromkeys(("busybox", "toybox", "eatmydata", "catchsegv", "unbuffer", "chronic", "caffeinate"), REST),
    "doas": AFTER_OPTIONS,
}  # fmt: skip
"""Programs that few machines have: their behaviour as far as the lines need it."""


@frozen
class Trial:
    """A line to be run, with its folder, input and variables."""

    line: str
    before: str = ""
    """A script that prepares the folder."""
    given: str = ""
    """The standard input."""
    variables: tuple[tuple[str, str], ...] = ()
    terminal: bool = False
    """Whether it writes to a terminal."""
    seconds: float = 5.0
    """Its time limit."""


@frozen
class Outcome:
    """The effects of a line in one shell."""

    denied: tuple[str, ...]
    """Programs that it ran and a rule denies, with their words."""
    other: tuple[str, ...]
    """Other programs that it ran without a rule that allows them."""
    changed: tuple[str, ...]
    """Files that it wrote."""
    ended: bool
    errors: str
    seconds: float


APP = {
    **dict.fromkeys(("a", "b", "f", "in", "x", "y", "cd"), "curl x\n"),
    "Makefile": "all: a.o\na.o:\n\t@$(CC) x\npublish:\n\t@true\n",
    "package.json": '{"scripts": {"x": "true", "test": "true"}}\n',
    "src/ls": "x",
    "src/lib/a": "x",
    "wrap.js": "require('child_process').spawnSync(process.argv[2])\n",
    "wrap.py": "import sys, subprocess\nsubprocess.call(sys.argv[1:])\n",
    "wrap.sh": '"$@"\n',
    "x.py": "print(1)\n",
}
"""Files in the folder of a line; ``curl``, ``evil``, ``ls`` and ``bin/curl`` are programs there."""


def missing(line: str) -> list[str]:
    """Return the programs that a line names and this machine lacks."""
    return [name for name in REAL if name not in STAND_INS and _found(name) is None and re.search(rf"\b{name}\b", line)]


def _found(name: str) -> str | None:
    return shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")


def reason_not_to_run() -> str | None:
    """Return why lines can't be run on this machine."""
    for name in (*SHELLS, "bwrap"):
        if shutil.which(name) is None:
            return f"{name} is not installed"
    done = subprocess.run(
        ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"], capture_output=True, check=False
    )
    return None if done.returncode == 0 else f"bwrap doesn't work: {done.stderr.decode(errors='replace')}"


class Sandbox:
    """A folder whose contents are bound into the sandbox."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "local").mkdir(parents=True)
        (folder / "bin").mkdir()
        for name in REAL:
            if (real := _found(name)) is not None:
                place = "/real-sbin" if "/sbin/" in real else "/real"
                self.program(f"bin/{name}", f'exec {place}/{name} "$@"')
        for name, script in STAND_INS.items():
            self.program(f"bin/{name}", script)
        for name in MARKERS:
            self.program(f"bin/{name}", "")
        self.program("local/wget", "")
        for name in (*SHELLS, "sh"):
            (folder / "bin" / name).symlink_to(f"/real/{'dash' if name == 'sh' else name}")
        self.file("etc/passwd", "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n")
        self.file("etc/group", "root:x:0:\nme:x:1000:\n")
        for name, text in APP.items():
            self.file(f"template/app/{name}", text)
        for name in ("curl", "evil", "bin/curl"):
            self.file(f"template/app/{name}", noting("curl", ""))
        self.file("template/app/ls", noting("./ls", 'eval "$@"'))
        self.file("template/home/.ssh/id_rsa", "key\n")

    def file(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)

    def program(self, name: str, script: str) -> None:
        self.file(name, noting(name.rpartition("/")[2], script))

    def run(self, shell: str, trials: Sequence[Trial]) -> list[Outcome]:
        """Run lines one after the other in one shell."""
        asked = "".join(
            json.dumps(
                {
                    "shell": f"/usr/bin/{shell}",
                    "line": one.line,
                    "before": one.before,
                    "given": one.given,
                    "variables": dict(one.variables),
                    "terminal": one.terminal,
                    "seconds": one.seconds,
                }
            )
            + "\n"
            for one in trials
        )
        done = subprocess.run(self.command(), input=asked.encode(), capture_output=True, check=False)
        outcomes = [
            Outcome(tuple(one["denied"]), tuple(one["other"]), tuple(one["changed"]), *(one[name] for name in LAST))
            for one in map(json.loads, done.stdout.splitlines())
        ]
        if len(outcomes) != len(trials):
            raise RuntimeError(f"the sandbox ended at {trials[len(outcomes)].line[:200]!r}: {done.stderr[-2000:]!r}")
        return outcomes

    def command(self) -> list[str]:
        python = os.path.realpath(sys.executable)
        if Path(python).parent in (Path("/usr/bin"), Path("/bin")):
            python = f"/real/{Path(python).name}"
        bound = ["/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/manpath.config", sys.base_prefix]
        words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
        words += ["--uid", "1000", "--gid", "1000"]
        for place in bound:
            words += ["--ro-bind-try", place, place]
        for place in ("/bin", "/sbin", "/lib", "/lib64", "/lib32"):
            if os.path.islink(place):
                words += ["--symlink", os.readlink(place), place]
            else:
                words += ["--ro-bind-try", place, place]
        words += ["--ro-bind", "/usr/bin", "/real", "--ro-bind", "/usr/sbin", "/real-sbin"]
        words += ["--ro-bind", f"{self.folder}/bin", "/usr/bin", "--ro-bind", f"{self.folder}/local", "/usr/local/bin"]
        words += ["--ro-bind", f"{self.folder}/template", "/template", "--ro-bind", str(INSIDE), "/inside.py"]
        for name in ("passwd", "group"):
            words += ["--ro-bind", f"{self.folder}/etc/{name}", f"/etc/{name}"]
        words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/srv/app"]
        words += ["--tmpfs", "/home/me", "--chdir", "/srv/app"]
        return [*words, python, "-IS", "/inside.py"]


LAST = ("ended", "errors", "seconds")


def noting(name: str, script: str) -> str:
    """Return a program that notes that it ran, with its words, and then runs a script."""
    return f"#!/usr/bin/dash\nprintf '\\1%s' \"{name} $*\" >> /run/log\n{script}\n"


def run_all(sandbox: Sandbox, trials: Iterable[Trial], jobs: int = 2) -> dict[str, list[Outcome]]:
    """Run lines in every shell, in several sandboxes at a time; return the outcomes of each shell, in order."""
    wanted = list(trials)
    shares = [(shell, wanted[number::jobs]) for shell in SHELLS for number in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        parts = list(pool.map(lambda share: sandbox.run(*share), shares))
    outcomes: dict[str, list[Outcome]] = {}
    for shell in SHELLS:
        mine = [part for (of, _), part in zip(shares, parts, strict=True) if of == shell]
        outcomes[shell] = [mine[number % jobs][number // jobs] for number in range(len(wanted))]
    return outcomes

"""Random command lines against policy: what it lets run is run for real, in bash and in dash.

``make fuzz-policy`` draws lines from a grammar of shell, judges each under two policies, and runs what they allow in
bubblewrap, in a folder of its own, whose programs note that they ran:

- *open*: everything is allowed but ``curl`` and ``push now``. No line that it allows may reach one of them.
- *closed*: a few programs are allowed and nothing else. No line that it allows may run another one or change a file.

Exits with 1 at a breach, and if too few lines were allowed or of a kind came too few: a judge that always asks proves
nothing. The same seed draws the same lines.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))  # for `python tests/fuzz/policy.py`

from cognition import Policy, Rule, ToolCall, ToolSpec
from tests.fuzz.policy_lines import Writer

BASH = ToolSpec("Bash", command="command")
OPEN = Policy((Rule("deny", "Bash(curl:*)"), Rule("deny", "Bash(push now:*)")))
ALLOWED = ("ls", "echo", "true", "grep", "./run", "cat a", "sed -n", "find . -name", "sort", "uniq")
CLOSED = Policy(tuple(Rule("allow", f"Bash({words}:*)") for words in ALLOWED), "ask")
FREE = frozenset({"ls", "grep", "cat", "run", "sed", "find", "sort", "uniq"})
"""Programs that lines of the closed policy may run; ``echo`` and ``true`` are the shells' own."""
CARRIERS = ("env", "nice", "nohup", "timeout", "xargs", "stdbuf", "setsid")
NOTED = (
    *(
        "awk",
        "cp",
        "find",
        "git",
        "head",
        "make",
        "mkdir",
        "mv",
        "python3",
        "sed",
        "sort",
        "sqlite3",
        "tail",
        "tar",
        "tee",
        "touch",
    ),
    *("tr", "wc", "cut", "uniq", "dirname", "basename", "perl"),
)
"""Programs of the system; the closed policy doesn't allow them."""
STRANGE = {
    "wrap": 'exec "$@"',
    "wrapx": 'for one in "$@"; do case $one in -x*) exec ${one#-x};; --run=*) exec ${one#--run=};; esac; done',
    "evalit": 'eval "$*"',
    "readit": "exec sh",
}
"""Programs that no table knows, with what they do."""
OPTIONS = "while :; do case $1 in OTHERS -*) shift;; *) break;; esac; done"
_ALL = 'exec "$@"'
WRAPPERS = {
    "ssh": OPTIONS.replace("OTHERS", '-o) sh -c "${2#*=}"; shift 2;; -[pF]) shift 2;;')
    + '; shift; [ $# = 0 ] && exec sh; exec sh -c "$*"',
    "docker": f"{OPTIONS.replace('OTHERS', 'exec|run|compose) shift;; -e) shift 2;;')}; shift; {_ALL}",
    "kubectl": 'while [ $# -gt 0 ]; do case $1 in --) shift; exec "$@";; esac; shift; done',
    "watch": OPTIONS.replace("OTHERS", f"-x) shift; {_ALL};;") + '; exec sh -c "$*"',
    **dict.fromkeys(("strace", "ltrace", "valgrind"), f"{OPTIONS.replace('OTHERS', '-[oE]) shift 2;;')}; {_ALL}"),
    "hyperfine": 'for one; do sh -c "$one"; done',
    **dict.fromkeys(("uv", "poetry"), f"shift; {_ALL}"),
}
"""Programs that run others, with what they do."""
MARKERS = ("curl", "push")
BATCH = 60
SHELLS = ("bash", "dash")
LEAST_ALLOWED = 0.4
"""The share of lines that one of the policies has to allow."""
LEAST_OF_A_KIND = 0.005
"""The share of lines of each kind."""


# -------------------------------------------------------------------------------------------------------------- running


class Box:
    """A folder with a few programs, in which lines run. Programs note that they ran in its log."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        self.bin, self.home = folder / "bin", folder / "up" / "home"
        self.bin.mkdir(parents=True)
        for name in (*FREE, *CARRIERS, *NOTED, "bash", "dash", "sh"):
            real = shutil.which("dash" if name == "sh" else name)
            if real is not None and name in NOTED:
                self.program(self.bin / name, f'exec {real} "$@"')
            elif real is not None:
                (self.bin / name).symlink_to(real)
        for name, script in (*STRANGE.items(), *WRAPPERS.items()):
            self.program(self.bin / name, script)
        for name in MARKERS:
            self.program(self.bin / name, "")
        self.clean()

    def program(self, path: Path, script: str, note: str = "") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/dash\necho "$LINE {note or path.name} $*" >> {self.log}\n{script}\n')
        path.chmod(0o755)

    def clean(self) -> None:
        """Make the folder in which lines run anew."""
        shutil.rmtree(self.folder / "up", ignore_errors=True)
        for place in (self.home, self.home / "sub", self.home / "sub" / "deep", self.home.parent):
            place.mkdir(parents=True, exist_ok=True)
            for name in ("a", "b"):
                (place / name).write_text("curl x\n")
            self.program(place / "run", "", "run" if place == self.home else "another run")
        for name in ("curl", "wrap"):
            self.program(self.home / "sub" / name, STRANGE.get(name, ""))
        (self.home / "script").write_text("true\n")
        (self.home / "script.py").write_text(
            "import sys, subprocess\nfor one in sys.argv[1:]: subprocess.call(one, shell=True)\n"
        )
        (self.home / "script.pl").write_text("system($_) for @ARGV;\n")
        (self.home / "Makefile").write_text("all:\n\t@$(CC) x\nx:\n\t@true\n")
        (self.home / "sub" / "Makefile").write_text("all:\n\t@$(CC) x\n")
        self.before = self.files()

    def files(self) -> dict[str, tuple[int, int]]:
        found = {}
        for path in self.home.parent.rglob("*"):
            status = path.lstat()
            found[str(path)] = (status.st_mtime_ns if path.is_file() else 0, status.st_size if path.is_file() else 0)
        return found

    def sandbox(self) -> list[str]:
        """The words before a command in which only the folder of lines and the log can be changed."""
        words = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
        words += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
        for place in (self.home.parent, self.log):
            words += ["--bind", str(place), str(place)]
        return [*words, "--chdir", str(self.home), "--"]

    def run(self, shell: str, lines: Sequence[str], seconds: float) -> tuple[dict[int, list[str]], bool]:
        """Run lines in one shell, each in a process of its own; what each ran, and whether all ended in time."""
        self.log.write_text("")
        names = {f"L{number}": line for number, line in enumerate(lines)}
        script = "\n".join(
            f'export LINE={number}; (eval "$L{number}") </dev/null >/dev/null 2>&1' for number in range(len(lines))
        )
        environment = {
            "PATH": str(self.bin),
            "HOME": str(self.home.parent),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            **names,
        }
        running = subprocess.Popen(
            [*self.sandbox(), shutil.which(shell) or shell, "-c", script],
            cwd=self.home, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            running.wait(seconds)
            ended = True
        except subprocess.TimeoutExpired:
            ended = False
        with_group(running)
        ran: dict[int, list[str]] = {}
        for noted in self.log.read_text(errors="replace").splitlines():
            number, _, program = noted.partition(" ")
            if number.isdigit():
                ran.setdefault(int(number), []).append(program)
        return ran, ended


def with_group(running: subprocess.Popen[bytes]) -> None:
    """End a process with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, 9)
    running.wait()


def breaches(policy: str, ran: Sequence[str]) -> list[str]:
    """What of that which a line ran the policy forbids."""
    if policy == "open":
        return [one for one in ran if one.split()[0] == "curl" or (one.split()[0] == "push" and "now" in one.split())]
    return [one for one in ran if one.split()[0] not in FREE or one.startswith("another")]


def try_batch(box: Box, policy: str, lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Run lines in both shells; yield each breach as shell, line and what it did.

    The lines of a batch at fault are run one by one.
    """
    for shell in SHELLS:
        ran, ended = box.run(shell, lines, 30.0)
        bad = {number: breaches(policy, programs) for number, programs in ran.items()}
        changed = box.files() != box.before
        if ended and not any(bad.values()) and not (changed and policy == "closed"):
            if changed:
                box.clean()
            continue
        for line in lines:
            box.clean()
            ran, _ = box.run(shell, [line], 5.0)
            did = breaches(policy, ran.get(0, ()))
            if policy == "closed" and box.files() != box.before:
                did.append("changed a file")
            if did:
                yield shell, line, "; ".join(did)
        box.clean()


class Counts:
    """What was drawn and judged."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.actions: dict[str, Counter[str]] = {"open": Counter(), "closed": Counter()}
        self.free = 0
        """Lines that one of the policies allows."""

    def report(self, lines: int) -> list[str]:
        """Print the counts; return what is missing for them to prove anything."""
        print("  ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items())))
        for policy, actions in self.actions.items():
            print(f"{policy}: " + ", ".join(f"{action} {count / lines:.1%}" for action, count in actions.most_common()))
        print(f"allowed by one of them: {self.free / lines:.1%}")
        wanting = [kind for kind, count in self.kinds.items() if count < LEAST_OF_A_KIND * lines]
        if self.free < LEAST_ALLOWED * lines:
            wanting.append(f"{LEAST_ALLOWED:.0%} of the lines allowed")
        return wanting


def fuzz(seed: int, lines: int, boxes: Sequence[Box]) -> int:
    """Draw, judge and run lines of one seed; return the number of breaches."""
    writer, counts, began = Writer(Random(seed)), Counts(), time.monotonic()
    found: list[tuple[str, str, str, str]] = []
    waiting: dict[str, list[str]] = {"open": [], "closed": []}
    free = list(boxes)
    running: dict[object, tuple[str, Box]] = {}

    with ThreadPoolExecutor(len(boxes)) as pool:

        def collect() -> None:
            for future in list(running):
                if future.done() or not free:  # type: ignore[attr-defined]
                    policy, box = running.pop(future)
                    for shell, text, did in future.result():  # type: ignore[attr-defined]
                        found.append((policy, shell, text, did))
                        print(f"BREACH of {policy} in {shell}: {text!r} did: {did}", flush=True)
                    free.append(box)

        def start(policy: str) -> None:
            while not free:
                collect()
            box, batch = free.pop(), waiting[policy]
            waiting[policy] = []
            running[pool.submit(lambda: list(try_batch(box, policy, batch)))] = policy, box

        for number in range(lines):
            line = writer.line()
            counts.kinds.update(line.kinds)
            call = ToolCall("1", "Bash", {"command": line.text})
            actions = {"open": OPEN.judge(call, BASH).action, "closed": CLOSED.judge(call, BASH).action}
            counts.free += "allow" in actions.values()
            for policy, action in actions.items():
                counts.actions[policy][action] += 1
                if action == "allow":
                    waiting[policy].append(line.text)
                    if len(waiting[policy]) == BATCH:
                        start(policy)
            if number % 10_000 == 9_999:
                print(
                    f"{number + 1} of {lines} lines, {time.monotonic() - began:.0f} s, {len(found)} breaches",
                    flush=True,
                )
        for policy in waiting:
            start(policy)
        while running:
            free.clear()
            collect()

    print(f"seed {seed}: {lines} lines in {time.monotonic() - began:.0f} s, {len(found)} breaches")
    wanting = counts.report(lines)
    if wanting:
        print(f"too few: {', '.join(wanting)}")
    return len(found) + len(wanting)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lines", type=int, default=200_000, help="to draw for each seed (default: %(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="(default: 1)")
    chosen = parser.parse_args()
    if chosen.lines < 1:
        parser.error("--lines must be at least 1")
    missing = [program for program in (*SHELLS, "bwrap") if shutil.which(program) is None]
    if missing:
        print(f"not tried: {' and '.join(missing)} is not installed", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="cogstep-fuzz-") as folder:
        boxes = [Box(Path(folder) / str(number)) for number in range(os.cpu_count() or 2)]
        try:
            return int(sum(fuzz(seed, chosen.lines, boxes) for seed in chosen.seeds) > 0)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130


if __name__ == "__main__":
    sys.exit(main())

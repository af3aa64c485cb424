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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))  # for `python tests/fuzz/policy.py`

from cognition import Policy, Rule, ToolCall, ToolSpec

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
MARKERS = ("curl", "push")
BATCH = 60
SHELLS = ("bash", "dash")
LEAST_ALLOWED = 0.4
"""The share of lines that one of the policies has to allow."""
LEAST_OF_A_KIND = 0.005
"""The share of lines of each kind."""


class Line(NamedTuple):
    text: str
    kinds: frozenset[str]


# -------------------------------------------------------------------------------------------------------------- grammar


class Writer:
    """Draws lines. Each method returns text; ``kinds`` collects what a line has in it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.kinds: set[str] = set()
        self.documents: list[str] = []
        self.depth = 0

    def line(self) -> Line:
        self.kinds, self.documents, self.depth = set(), [], 0
        text = self.listed()
        for document in self.documents:
            text += "\n" + document
        return Line(text, frozenset(self.kinds))

    def one(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    def maybe(self, share: float) -> bool:
        return self.random.random() < share

    def listed(self) -> str:
        text = self.pipeline()
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 2))):
            text += self.one((" && ", "; ", " || ", "\n", " & ")) + self.pipeline()
            if "<<" in text and "\n" in text:
                break
        return text

    def pipeline(self) -> str:
        text = self.command()
        while self.maybe(0.15):
            text += self.one((" | ", " | ", " |& ")) + self.command()
        return text

    def command(self) -> str:
        self.depth += 1
        try:
            if self.depth < 4 and self.maybe(0.14):
                self.kinds.add("compound")
                return self.one(
                    (
                        f"({self.listed()})",
                        f"{{ {self.listed()}; }}",
                        f"if {self.simple()}; then {self.listed()}; fi",
                        f"for x in {self.word()} {self.word()}; do {self.listed()}; done",
                        f"while read x; do {self.simple()}; done <<< b",
                        f"! {self.simple()}",
                        f"[ -f {self.word()} ] && {self.simple()}",
                        f"[[ {self.word()} == {self.word()} || -n {self.word()} ]] && {self.simple()}",
                        f"[[ {self.word()} -eq 1 ]]",
                    )
                )
            return self.simple()
        finally:
            self.depth -= 1

    def simple(self) -> str:
        kind = self.random.random()
        if kind < 0.62:
            text = self.plain()
        else:
            name, make = self.one_kind()
            self.kinds.add(name)
            text = make()
        for _ in range(self.random.choice((0, 0, 0, 0, 1, 1, 2))):
            text = self.carrier(text)
        if self.maybe(0.06):
            self.kinds.add("assignment")
            text = self.one((f"X={self.word()} ", "PATH=sub ", "A=1 ", f"PAGER={self.word()} ")) + text
        if self.maybe(0.12):
            self.kinds.add("redirection")
            text += " " + self.one(
                ("> out", ">> sub/out", "2>/dev/null", "> /dev/null 2>&1", "< a", "<<< b", "< /dev/null")
            )
        if self.maybe(0.03) and not self.documents and self.depth == 1:
            self.kinds.add("here-document")
            self.documents.append(self.one((f"{self.word()}\nE", f"$({self.plain()})\nE", f"'{self.word()}\nE")))
            text += self.one((" <<E", " <<E", " <<-E", " <<'E'"))
        return text

    def one_kind(self) -> tuple[str, Callable[[], str]]:
        kinds: tuple[tuple[str, Callable[[], str]], ...] = (
            ("directory", self.directory),
            ("standard input", self.from_input),
            ("shell", self.shell),
            ("other shell", self.both),
            ("find", self.find),
            ("sed", self.sed),
            ("awk", self.awk),
            ("make", self.make),
            ("git", self.git),
            ("strange", self.strange),
            ("interpreter", self.interpreter),
            ("variable", self.variable),
            ("document within", self.document_within),
            ("named redirection", self.named_redirection),
            ("environment", self.environment),
            ("other name", self.other_name),
            ("writing option", self.writing_option),
        )
        return self.random.choice(kinds)

    def plain(self) -> str:
        program = self.one(
            ("ls", "ls", "echo", "echo", "echo", "true", "cat a", "grep b", "./run", "head", "wc", "sort", "touch")
        )
        return " ".join([program, *[self.word() for _ in range(self.random.choice((0, 0, 1, 1, 2)))]])

    def marker(self) -> str:
        """One of the forbidden commands, in some spelling."""
        return self.one(
            (
                "curl x",
                "curl",
                "c'ur'l x",
                "cu\\rl",
                '"curl" x',
                "push now",
                "push 'now'",
                "push -f now",
                "push later",
                "./curl x",
                "bin/curl",
            )
        )

    def name(self) -> str:
        return self.one(
            ("curl", "curl", "push", "sub/curl", "ls", "run", "cu$Y", "'curl x'", "'c\"u\"rl'", "$Y", "c?rl", "cu*")
        )

    def word(self) -> str:
        kind = self.random.random()
        if kind < 0.5:
            return self.one(
                ("a", "b", "sub", "sub/c", "x", "-l", "-n", "--", "now", "./a", "..", "'a b'", '"a"', "a\\ b")
            )
        if kind < 0.75:
            return self.one(
                (
                    "$X",
                    '"$X"',
                    "*",
                    "s*",
                    "{a,b}",
                    "a$X",
                    "${X}",
                    "$?",
                    "~",
                    "!",
                    "'$(curl x)'",
                    "\\$(curl)",
                    "#a",
                    "a#b",
                )
            )
        if kind < 0.9:
            return self.name()
        if self.depth > 3:
            return "a"
        self.kinds.add("substitution")
        self.depth += 1
        inner = self.simple().replace("\n", " ") if not self.documents else self.plain()
        self.depth -= 1
        return self.one((f"$({inner})", f'"$({inner})"', f"`{inner}`" if "`" not in inner else "a", f"<({inner})"))

    def carrier(self, text: str) -> str:
        self.kinds.add("carrier")
        before = self.one(
            (
                *(
                    "env",
                    "env -i",
                    "env -u X",
                    "env A=1",
                    "env -C sub",
                    "env --",
                    "env -S",
                    "nice",
                    "nice -n 5",
                    "nohup",
                ),
                *(
                    "timeout 5",
                    "timeout -k 1 5",
                    "timeout --foreground 5",
                    "stdbuf -oL",
                    "setsid -w",
                    "setsid -f",
                    "command",
                ),
                *("command -p", "command -v", "builtin", "exec", "exec -a z", "xargs", "xargs -n 1", "xargs -I {}"),
                *("xargs -a a", "echo a | xargs", "time", "time -p", "time -o out", "eval", "!"),
            )
        )
        return f"{before} {text}"

    def directory(self) -> str:
        return (
            self.one(
                (
                    "cd sub",
                    "cd sub",
                    "cd .",
                    "cd ..",
                    "cd $X",
                    "cd",
                    "cd -",
                    "cd sub/deep",
                    "cd sub/..",
                    "cd -P sub",
                    "pushd sub",
                )
            )
            + self.one((" && ", "; ", " || ", "\n", " & ", " | "))
            + self.one(("./run", "ls", "cat a", "echo > out", "../run", "sub/run", self.marker()))
        )

    def from_input(self) -> str:
        before = self.one(("echo curl x |", "echo 'curl x' |", "cat a |", ""))
        program = self.one(
            (
                "python3 -",
                "python3 - a",
                "python3 -u /dev/stdin",
                "sh",
                "bash",
                "bash -s",
                "bash //dev/stdin",
                "readit",
                "sh /dev/stdin",
                "perl -",
                "awk -f -",
                "xargs",
                "bash -",
                "make -f -",
                "cat",
                "grep b",
                "sed -f -",
            )
        )
        return f"{before} {program}"

    def shell(self) -> str:
        script = self.one((self.marker(), self.plain(), "true")).replace("'", '"')
        return self.one(
            (
                f"sh -c '{script}'",
                f"bash -c '{script}'",
                f"sh -c -- '{script}'",
                f"bash -c + '{script}'",
                f"bash -ec '{script}'",
                f"sh -c '{script}' a",
                "sh script",
                f"bash script {self.name()}",
                f"eval '{script}'",
                f"eval {script}",
            )
        )

    def both(self) -> str:
        return self.one(
            (
                f"true &>/dev/null {self.marker()}",
                f"echo a &> out {self.name()}",
                f"true &>> out; {self.plain()}",
                f"ls >& out {self.name()}",
                f"sh -c 'true &>/dev/null {self.marker()}'".replace("''", ""),
            )
        )

    def find(self) -> str:
        tests = [
            self.one(
                (
                    "-name a",
                    "! -name -exec",
                    "-type f",
                    "-name -exec",
                    "-o",
                    "-print",
                    "-maxdepth 1",
                    "-newermt 2020-01-01",
                    "\\( -name b \\)",
                )
            )
            for _ in range(2)
        ]
        act = self.one(
            (
                "",
                f"-exec {self.marker()} \\;",
                f"-exec {self.name()} {{}} +",
                f"-execdir {self.name()} {{}} \\;",
                "-exec ls {} \\;",
                "-exec echo {} +",
                f"-exec env {self.name()} \\;",
            )
        )
        return f"find . {' '.join(tests)} {act}"

    def sed(self) -> str:
        script = self.one(
            (
                "s/a/b/",
                "p",
                "1,2p",
                "$d",
                "1e curl x",
                "s/.*/curl x/e",
                "a x\ne curl",
                "s a b e",
                "s/[/]/x/;e curl",
                "/a/e curl",
                "y/a/b/",
                "s/[a-c]*/x/g",
                "i hello",
                "w out",
                "s/a/b/w out",
                "/a/,/b/p",
                "1!d",
                "{p}",
            )
        )
        return self.one(
            (
                f"sed '{script}' a",
                f"sed -n '{script}' a",
                f"sed -e '{script}' a",
                f"sed -ne '{script}' a",
                f"sed --expression='{script}' a",
                f"sed p -e '{script}' a",
            )
        )

    def document_within(self) -> str:
        last = self.one(("E", "E)", "E ) ;", "EE", "E", "\tE"))
        begun, end = self.one((("$(", ")"), ('"$(', ')"'), ("<(", ")"), ("(", ")"), ("{ ", "; }")))
        mark = self.one(("<<E", "<<'E'", "<<-E", '<<"E"'))
        return f"echo {begun}cat {mark}\n{self.one(('a', self.plain()))}\n{last} {self.marker()}\nE\n{end}"

    def named_redirection(self) -> str:
        name = self.one(("{a}", "{PATH}", "{a['$(curl x)']}", "{a[`curl`]}", "{}", "{a[$X]}", "${X}", "{a,b}"))
        return f"{self.plain()} {name}{self.one(('', chr(92) + chr(10)))}{self.one(('<&0', '>out', '>&2', '<<<x'))}"

    def environment(self) -> str:
        carrier = self.one(("", "", "command ", "builtin ", "time "))
        first = self.one(("export CC", f"export CC={self.name()}", "export X", "readonly CC", "CC=a"))
        value = self.one((f"CC={self.name()}", "CC=$(echo curl)", "CC=cu; CC+=rl", "read CC <<< curl", "CC=b*/c*"))
        return f"{carrier}{first}; {value}; make{self.one(('', ' CC=$CC', ' -e'))}"

    def other_name(self) -> str:
        copy = self.one(("ln -s", "cp", "ln", "mv", "install"))
        text = "sub/ls" if copy == "install" else "a"  # which install would make a script, and no reader sees into it
        source = self.one(("bin/curl", "$PWD/bin/curl", "/dev/stdin", "sub/ls", text))
        use = self.one(("./q x", "q x", "sub/../q", "echo 'all:;curl x' | make -f q", "echo curl x | sh q", "ls"))
        return f"{copy} {source} q; {use}"

    def writing_option(self) -> str:
        return self.one(
            (
                *("sed -n p a", "sed -n -i p a", "sed -n p a -i", "sed -ni p a", "sed -n --in-place p a"),
                *("sed -n 's/a/b/w out' a", "find . -name a", "find . -name out -delete", "find . -name a -fprint out"),
                *("find . -name a -fls out", "sort a", "sort -o out a", "sort -uo out a", "sort --output=out a"),
                *("uniq a", "uniq a out", "uniq -c a out", "sort a --out out", "find . -name a -exec touch out +"),
            )
        )

    def awk(self) -> str:
        script = self.one(
            (
                "{print $1}",
                'BEGIN {system("curl x")}',
                '{print | "curl x"}',
                'BEGIN {"curl x" | getline}',
                "/a/",
                "NR==1",
                '{print > "out"}',
            )
        )
        return self.one((f"awk '{script}' a", f"awk -F: '{script}' a", f"awk -v x=1 '{script}' a", "awk -f script a"))

    def make(self) -> str:
        return self.one(
            (
                f"make CC={self.name()}",
                "make CC='curl x #'",
                f"make SHELL={self.name()}",
                "make",
                "make -j2 all",
                "make --eval='x:;curl'",
                f"make CC=$({self.plain()})",
                f"make -f sub/Makefile CC={self.name()}",
            )
        )

    def git(self) -> str:
        return self.one(
            (
                "git status",
                "git log -1",
                f"git grep -O{self.name()} a",
                f"git -c alias.x='!{self.name()} x' x".replace("''", ""),
                f"git -c core.pager={self.name()} log",
                f"git commit -m {self.word()}",
                f"git grep -m1 {self.name()}",
                f"git difftool -x {self.name()}",
                f"git --exec-path=sub {self.name()}",
            )
        )

    def strange(self) -> str:
        return self.one(
            (
                f"wrap {self.marker()}",
                f"wrapx -x{self.name()}",
                f"wrapx --run={self.name()}",
                self.one(("evalit 'curl x'", "evalit cu", "evalit 'c\"\"url'", "evalit true")),
                f"evalit {self.word()}",
                f"wrap {self.plain()}",
                f"wrap {self.word()} {self.name()}",
                f"sub/wrap {self.marker()}",
                f"wrap wrap {self.marker()}",
                f"wrap sh -c {self.name()}",
            )
        )

    def interpreter(self) -> str:
        return self.one(
            (
                f"python3 script.py {self.name()}",
                "python3 -c 'import os; os.system(\"curl x\")'",
                f"python3 -u script.py {self.word()}",
                "perl -e 'system(\"curl\")'",
                f"perl script.pl {self.name()}",
                "python3 -m timeit -n1 -r1 a",
                f"python3 -m script {self.name()}",
            )
        )

    def variable(self) -> str:
        return self.one(
            (
                f"X={self.name()}; $X",
                f"X={self.name()}; wrap $X",
                "X=$(echo cu); make CC=${X}rl",
                f"export X={self.name()}; ls",
                "read X < a; make CC=$X",
                f"for x in {self.name()}; do wrap $x; done",
                f"X={self.word()}",
                "unset X",
            )
        )


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
        for name, script in STRANGE.items():
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

"""The grammar of shell from which `policy.py` draws its lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple


class Line(NamedTuple):
    text: str
    kinds: frozenset[str]


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
            ("case", self.case),
            ("function", self.function),
            ("wrapper", self.wrapper),
            ("query", self.query),
            ("python code", self.python_code),
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

    def case(self) -> str:
        subject = self.one(("a", "$X", '"$X"', "$(ls)", "$(curl x)"))
        pattern = self.one(("a", "a|b", "*", "(b", "$X", "x*", "'a b'", "[ab]", "esac", "$(curl)"))
        end = self.one(
            (";; esac", "; esac", "; esac", ";; b) ls;; esac", ";& *) ls;; esac", ";;& *) ls;; esac", " esac")
        )
        body = self.one((self.plain(), self.marker(), "sh", "cd sub", "cd sub && ls", "./run", "eval $X", "PATH=sub"))
        behind = self.one(("", "", "; ls", " | cat", " && ./run", " < a", "; curl x"))
        return f"case {subject} in {pattern}) {body}{end}{behind}"

    def function(self) -> str:
        name = self.one(("f", "f", "f", "ls", "g1", "F", "cd", "echo"))
        body = self.one((self.plain(), self.marker(), '"$@"', "$1 x", "make CC=$1", "sh", "echo $1", "cd sub; ./run"))
        use = self.one((name, f"{name} curl x", f"{name} {self.name()}", f"echo curl x | {name}", f"{name} < a"))
        return f"{name}{self.one(('()', ' ()', '( )'))} {{ {body}; }}; {use}"

    def wrapper(self) -> str:
        before = self.one(
            (
                *(
                    "ssh host",
                    "ssh -p 22 host",
                    "ssh -o BatchMode=yes host",
                    "ssh -o ProxyCommand=curl host",
                    "ssh -F a h",
                ),
                *(
                    "docker exec c",
                    "docker exec -it c",
                    "docker exec -e A=b c",
                    "docker compose exec c",
                    "docker run a",
                ),
                *("docker run --rm alpine", "kubectl exec p --", "kubectl exec -it p -c a --", "kubectl exec p"),
                *("watch", "watch -n1", "watch -x", "strace -f", "strace -o out", "strace -E", "uv run", "poetry run"),
                *("hyperfine", "hyperfine -w 1", "hyperfine -S sh", "valgrind -q", "ltrace -S"),
            )
        )
        inner = self.one(
            (self.plain(), self.marker(), f"'{self.marker()}'".replace("''", ""), "'ls; curl x'", "sh", "ls")
        )
        return f"{self.one(('', '', 'echo curl x | '))}{before} {inner}"

    def query(self) -> str:
        text = self.one(
            (
                *(
                    "select 1",
                    "select count(*) from a;",
                    "select edit('a','curl x')",
                    ".tables",
                    ".shell curl x",
                    "\\dt",
                ),
                *(
                    "\\! curl x",
                    "select 1; .system curl x",
                    "copy a to program 'curl x'",
                    "select f('curl')",
                    "system curl",
                ),
            )
        )
        program = self.one(
            ("sqlite3 a.db", "psql -c", "psql -At -c", "mysql -e", "sqlite3 -csv a.db", "psql -o curl -c")
        )
        return f'{program} "{text}"'

    def python_code(self) -> str:
        call = self.one(
            (
                *("os.system('curl x')", "print(os.getcwd())", "print(json.dumps(1))", "print(open('a').read())"),
                *("__import__('os').system('curl x')", "eval('1')", "print(sys.argv)", "f.system('curl x')"),
                *("os.path.os.system('curl x')", "list(map(eval, ['1']))", "open('out', 'w')", "print(1)"),
            )
        )
        imported = self.one(("import os, json, sys", "import os", "import json", "import os as f", "from os import *"))
        return f'python3 -c "{imported}; {call}"{self.one(("", "", " curl x", " < a"))}'

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

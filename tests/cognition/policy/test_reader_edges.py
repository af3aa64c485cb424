"""What the reader of command lines makes of single words: options, directories, here-documents, loops and carriers."""

from __future__ import annotations

import pytest

from cognition.policy._command import Command, Mention, UnsureError, Words, reads_input
from cognition.policy._command_patterns import CommandPattern, CommandSubject
from cognition.policy._mentions import OPEN
from cognition.policy._nested_commands import check_arguments, command_of, commands_of_find, script_of
from cognition.policy._shell import DEEPEST, LONGEST_PATH, MOST_GRAMMAR, MOST_LOOKED_AT, read_commands
from cognition.policy.rule_patterns import NO, PERHAPS, YES, read_pattern
from tests.cognition.naming import case_name

DEEP = "a" * LONGEST_PATH
"""A directory with the longest path that is followed."""


@pytest.mark.parametrize(
    "words",
    [
        # Before its command, git takes settings, which may hold commands
        ("git", "-c", "a=b", "status"),
        ("git", "-ca=b", "status"),
        ("git", "--no-pager", "-c", "a=b", "status"),
        ("git", "-C", "sub", "clone", "--upload-pack=x"),
        ("git", None, "--exec-path=x"),
        ("git", "", "-c", "a=b"),
        ("git", "clone", "-u", "x", "url"),
        ("git", "rebase", "-x", "x"),
        ("git", "difftool", "-yx", "x"),
        ("git", "bisect", "run", "./a"),
        # An interpreter's code
        ("tclsh", None),
        ("tclsh", "a.tcl", None),
        ("guile", "a.scm", "--eval"),
        ("guile", "a.scm", "--eval=x"),
        ("guile", "a.scm", "--eval=x=y"),
        ("python", "-m"),
        ("python", "-u", "-m"),
        ("python", "-m", None),
        ("python", "--test"),
        ("node", "--watch"),
        ("perl", "--test"),
        # A program of awk that comes from its input
        ("awk", "-f"),
        ("awk", "-F:", "-f"),
        ("awk", "-f", "-"),
        ("awk", "-f/dev/stdin"),
        ("awk", "-F:", "-f", "/dev/stdin"),
        ("awk", "-v", "a=1", "-f", "/dev/stdin"),
        ("awk", "-i", "a.awk"),
        # Options that run others
        ("scp", "", "-o", "a"),
        ("scp", None, "-qS", "a"),
        # Files and shells in the options of npm
        ("npm", "install", "--script-shell=x"),
        ("npm", "--script-shell=x", "install"),
        ("npm", "install", "--node-options", "x"),
        ("npm", "install", "--userconfig=x"),
        ("npm", "install", "--globalconfig", "x"),
        ("npm", "install", "--no-call"),
        ("npm", "install", "--Xcall"),
        ("npm", "install", "--node-option"),
        ("npm", "install", "-script-s=x"),
        ("npm", "--prefix", "x", "test"),
        ("npm", "-s", "x", "a"),
        ("npm", "x"),
        ("python", "-m", "trace", "-t", "/dev/stdin"),
        ("npm", "install", "--call", "x"),
        ("pnpm", "install", "-c", "x"),
        # Settings and options of git
        ("git", "rebase", "--exec", "x"),
        ("git", "-p", "-c", "a=b", "status"),
        # A module that may run the file that it is given, in any place
        ("python", "-m", "trace", "/dev/stdin", "a"),
        # Scripts of sed that run a command, write a file, or come from a file. Other words could be scripts, too
        ("sed", "-e1e ls", "p"),
        ("sed", "-ew x", "p"),
        ("sed", "-ne", "w x", "p"),
        ("sed", "--expression=1e ls", "p"),
        ("sed", "--expression", "w x", "p"),
        ("sed", "-f", "x"),
        ("sed", "-nf", "x"),
        ("sed", "-fx", "p"),
        ("sed", "--file=x", "p"),
        ("sed", "--file", "x", "p"),
    ],
    ids=case_name,
)
def test_arguments_that_may_hold_a_command_are_refused(words: Words) -> None:
    with pytest.raises(UnsureError):
        check_arguments(words[0] or "", words)


@pytest.mark.parametrize(
    "words",
    [
        ("git", "commit", "-c", "HEAD"),
        ("git", "merge", "-X", "ours"),
        ("git", "log", "-u"),
        ("git", "clone", "-q", "url"),
        ("guile", "a.scm", "-q"),
        ("tclsh", "a.tcl", "b=--eval"),
        ("python", "-W", "ignore", "a.py"),
        ("python", "-m", "json.tool"),
        ("node", "--test"),
        ("node", "--watch", "--test"),
        ("nodejs", "--test"),
        ("awk",),
        ("awk", "-F:"),
        ("awk", "-f", "a.awk"),
        ("awk", "-v", "a=1", "{ print }"),
        ("awk", "--", "{ print }", "-i"),
        ("rsync", "-a", "--delete", "a", "b"),
        ("tar", "", "x"),
        ("npm", "install", "call"),
        ("npm", "-s", "install", "--tag=x"),
        ("npm", "run", "x", "--", "--script-shell=x"),
        ("python", "-m", "json.tool", "-", "a"),
        ("git", "ls-files", "-c"),
        ("sed", "-es/e/b/"),
        ("sed", "-es/a/ed/"),
        ("sed", "-ne", "s/a/b/p"),
        ("sed", "--expression=s/a=e/b/"),
        ("sed", "--expression", "s/a/b/"),
        ("sed", "--of=p", "p"),
    ],
    ids=case_name,
)
def test_arguments_without_a_command_are_accepted(words: Words) -> None:
    check_arguments(words[0] or "", words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("find", "-O3", ".", "-name", "a"), []),
        (("find", "-H", ".", "-print"), []),
        (("find", "-L", ".", "-print"), []),
        (("find", "-P", ".", "-print"), []),
        (("find", ".", "-newermt", "2026-01-01", "-exec", "ls", ";"), [(("ls",), False)]),
        (("find", ".", "-newer", "a", "-execdir", "ls", "{}", "+"), [(("ls", None), True)]),
    ],
    ids=case_name,
)
def test_find_runs_the_commands_behind_its_places_and_tests(words: Words, expected: list[tuple[Words, bool]]) -> None:
    assert commands_of_find(words) == expected


@pytest.mark.parametrize("option", ["-h", "-l", "-p", "-o3"])
def test_an_unknown_option_of_find_is_refused(option: str) -> None:
    with pytest.raises(UnsureError):
        commands_of_find(("find", option, ".", "-unknown"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("env", "--ignore-environment", "ls"), (("ls",), True)),
        (("env", "--unset=A", "ls"), (("ls",), True)),
        (("env", "--unset", "A", "ls"), (("ls",), True)),
        (("env", "--chdir", "a", "ls"), (("ls",), False)),
        (("timeout", "--foreground", "5", "ls"), (("ls",), True)),
        (("xargs", "--null", "ls"), (("ls", None), True)),
        (("xargs", "--arg-file=a", "ls"), (("ls", None), False)),
    ],
    ids=case_name,
)
def test_long_options_of_a_carrier_are_harmless_or_not(words: Words, expected: tuple[Words, bool]) -> None:
    assert command_of(words[0] or "", words) == expected


@pytest.mark.parametrize(
    "words",
    [
        ("env", "a.b=c", "ls"),
        ("env", "--", "a-b=c", "ls"),
        ("env", "--un", "ls"),
        ("env", "--", "-", "ls"),
    ],
    ids=case_name,
)
def test_a_carrier_with_unclear_words_is_refused(words: Words) -> None:
    with pytest.raises(UnsureError):
        command_of("env", words)


@pytest.mark.parametrize(
    "words", [("bash", "-c", "-"), ("bash", "-c", "+"), ("bash", "-c", ""), ("bash", "-c"), ("bash",)], ids=case_name
)
def test_a_shell_without_a_script_is_refused(words: Words) -> None:
    with pytest.raises(UnsureError):
        script_of(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("bash", "-c", "ls"), ("ls", 2)),
        (("bash", "-c", "ls", "a"), ("ls", 2)),
        (("bash", "-ec", "ls"), ("ls", 2)),
        (("bash", "-c", "-e", "ls"), ("ls", 3)),
        (("bash", "-C", "ls"), (None, 2)),
        (("bash", "ls", "-c"), (None, 1)),
        (("bash", "--", "-c", "ls"), (None, 2)),
    ],
    ids=case_name,
)
def test_a_shell_runs_the_text_behind_c_or_a_file(words: Words, expected: tuple[str | None, int]) -> None:
    assert script_of(words) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("-", True),
        ("-f-", True),
        ("--file=-", True),
        ("-f/dev/stdin", True),
        ("../dev/stdin", True),
        ("a/../../dev/fd/0", True),
        ("/dev/stdin", True),
        ("/proc/self/fd/0", True),
        ("/./dev/stdin", True),
        ("a=/dev/stdin", True),
        ("", False),
        ("--", False),
        ("-a", False),
        ("a-", False),
        ("abc-", False),
        ("-fdev", False),
        ("dev/a", False),
        ("a/dev/b", False),
        ("../a", False),
        ("a..b", False),
    ],
    ids=case_name,
)
def test_a_word_may_stand_for_the_input(word: str, expected: bool) -> None:
    assert reads_input(word) is expected


# --------------------------------------------------------------------------------------------------- the shell's reader


def cd(path: str, where: str | None = "") -> Command:
    return Command(("cd", path), "cd", carries=True, where=where)


FOR = Command(("=",), "=", altered=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # Here-documents
        ("cat <<E\n\tE\nE", [Command(("cat",), "cat")]),
        ("cat <<-E\n E\nE", [Command(("cat",), "cat")]),
        ("cat <<-E\nXE\nE", [Command(("cat",), "cat")]),
        ("cat <<-E\n\t\tE\nls", [Command(("cat",), "cat"), Command(("ls",), "ls")]),
        ("cat <<''\n\nls", [Command(("cat",), "cat"), Command(("ls",), "ls")]),
        ("cat <<E\n$(ls\npwd)\nE", [Command(("ls",), "ls"), Command(("pwd",), "pwd"), Command(("cat",), "cat")]),
        # Loops
        ("for A in b; do ls; done", [FOR, Command(("ls",), "ls")]),
        (
            "for a in b; do ls; cd sub; done",
            [
                Command(("ls",), "ls", True, where=None),
                Command(("cd", "sub"), "cd", altered=True, carries=True, where=None),
            ],
        ),
        # Directories
        ("cd Xa && ls", [cd("Xa"), Command(("ls",), "ls", where="Xa")]),
        (f"cd {DEEP} && ls", [cd(DEEP), Command(("ls",), "ls", where=DEEP)]),
        (f"cd a{DEEP} && ls", [Command(("cd", f"a{DEEP}"), "cd"), Command(("ls",), "ls", True, where=None)]),
        ("cd a; cd b; ls", [cd("a"), cd("b", None), Command(("ls",), "ls", where=None)]),
        (
            "cd a; cd b/..; ls",
            [cd("a"), Command(("cd", "b/.."), "cd", where=None), Command(("ls",), "ls", True, where=None)],
        ),
        # Carriers
        (
            "cd sub && A=1 time -v ls",
            [
                cd("sub"),
                Command(("time", "-v", "ls"), "time", True, where="sub"),
                Command(("-v", "ls"), "-v", True, where="sub"),
                Command(("ls",), "ls", True, where=None),
            ],
        ),
        (
            "time -v ls",
            [
                Command(("time", "-v", "ls"), "time"),
                Command(("-v", "ls"), "-v"),
                Command(("ls",), "ls", True, where=None),
            ],
        ),
        (
            "cd sub && env ls && pwd",
            [
                cd("sub"),
                Command(("env", "ls"), "env", carries=True, where="sub"),
                Command(("ls",), "ls", where="sub"),
                Command(("pwd",), "pwd", where="sub"),
            ],
        ),
        (
            "cd sub && command cd x && ls",
            [
                cd("sub"),
                Command(("command", "cd", "x"), "command", carries=True, where="sub"),
                Command(("cd", "x"), "cd", where="sub"),
                Command(("ls",), "ls", True, where=None),
            ],
        ),
        # Devices
        ("cd /a; python x.py", [Command(("cd", "/a"), "cd"), Command(("python", "x.py"), "python", True, where=None)]),
        (
            "cd /a; cd X; python x.py",
            [
                Command(("cd", "/a"), "cd"),
                Command(("cd", "X"), "cd", True, where=None),
                Command(("python", "x.py"), "python", True, where=None),
            ],
        ),
        ("bash x.sh", [Command(("bash", "x.sh"), "bash"), Command(("x.sh",), "x.sh", carries=True)]),
        ("A=1 bash x.sh", [Command(("bash", "x.sh"), "bash", True), Command(("x.sh",), "x.sh", True, True)]),
        ("cd; ls", [Command(("cd",), "cd"), Command(("ls",), "ls", True, where=None)]),
        (
            "find . -exec cd /a \\; ; ls",
            [
                Command(("find", ".", "-exec", "cd", "/a", ";"), "find"),
                Command(("cd", "/a"), "cd"),
                Command(("ls",), "ls"),
            ],
        ),
        # Words that the shell may make to options
        ("git {a,b}", [Command(("git", None), "git", altered=True)]),
        ("git $X", [Command(("git", None), "git")]),
        # Redirections
        (
            "true &>a 'ls'; pwd",
            [
                Command((">", "a"), ">"),
                Command(("true", "ls"), "true"),
                Command(("ls",), "ls"),
                Command(("pwd",), "pwd"),
            ],
        ),
        (
            "true &>a ls &>b pwd; id",
            [
                Command((">", "a"), ">"),
                Command((">", "b"), ">"),
                Command(("true", "ls", "pwd"), "true"),
                Command(("ls", "pwd"), "ls"),
                Command(("id",), "id"),
            ],
        ),
        # Grammar
        ("[[ -f a ]]; ls", [Command(("[[", "-f", "a", "]]"), "[[", carries=True), Command(("ls",), "ls")]),
        ("{ ls; }; cd a", [Command(("ls",), "ls"), cd("a")]),
        ("(ls); cat <<E\nE", [Command(("ls",), "ls"), Command(("cat",), "cat")]),
        ("cat <<E\n E\nE", [Command(("cat",), "cat")]),
        ("ls\ta", [Command(("ls", "a"), "ls")]),
        ("'ls' 'a' >b", [Command((">", "b"), ">"), Command(("ls", "a"), "ls")]),
        ("! " * MOST_GRAMMAR + "(ls)", [Command(("ls",), "ls")]),
        ("{ ls; }>a", [Command(("ls",), "ls"), Command((">", "a"), ">")]),
        ("ls\n>a", [Command(("ls",), "ls"), Command((">", "a"), ">")]),
        ("[[ a == * ]]", [Command(("[[", "a", "==", "*", "]]"), "[[", carries=True)]),
        # To dash, each part of a test is a command
        (
            "[[ a || Xls 'b*' ]]",
            [
                Command(("[[", "a", "||", "Xls", "'b*'", "]]"), "[[", carries=True),
                Command(("Xls", "b*", "]]"), "xls"),
            ],
        ),
        # In a shell to which a command ends at `&>`, this directory is entered
        (
            "true &>a cd sub; ls",
            [
                Command((">", "a"), ">"),
                Command(("true", "cd", "sub"), "true"),
                Command(("cd", "sub"), "cd"),
                Command(("ls",), "ls", True, where=None),
            ],
        ),
        # Programs in a folder, which may be others than those of the tables
        ("./cd a", [Command(("./cd", "a"), "cd")]),
        ("cd sub && ./cd a", [cd("sub"), Command(("./cd", "a"), "cd", where="sub")]),
        ("./find a", [Command(("./find", "a"), "find")]),
        (
            "./env ls",
            [
                Command(("./env", "ls"), "env"),
                Command(("./env", "ls"), "env", carries=True),
                Command(("ls",), "ls"),
            ],
        ),
        (
            ". a/bin/activate && ls",
            [Command((".", "a/bin/activate"), "."), Command(("ls",), "ls", altered=True)],
        ),
        (
            "cd /dev; find . -name a",
            [Command(("cd", "/dev"), "cd"), Command(("find", ".", "-name", "a"), "find", True, where=None)],
        ),
        # Programs that run another one, which an allowance needn't name
        ("npx", [Command(("npx",), "npx")]),
        ("npx -y ls a", [Command(("npx", "-y", "ls", "a"), "npx")]),
        ("npx ls a", [Command(("npx", "ls", "a"), "npx"), Command(("ls", "a"), "ls", True, True)]),
        ("uv run", [Command(("uv", "run"), "uv")]),
        ("uv run -q ls", [Command(("uv", "run", "-q", "ls"), "uv")]),
        ("uv run ls a", [Command(("uv", "run", "ls", "a"), "uv"), Command(("ls", "a"), "ls", True, True)]),
        ("uv sync ls", [Command(("uv", "sync", "ls"), "uv")]),
        ("npm exec ls", [Command(("npm", "exec", "ls"), "npm"), Command(("ls",), "ls", True, True)]),
        (
            "npx " * DEEPEST + "ls",
            [
                Command(("npx",) * DEEPEST + ("ls",), "npx"),
                *[Command(("npx",) * left + ("ls",), "npx", True, True) for left in range(DEEPEST - 1, 0, -1)],
                Command(("ls",), "ls", True, True),
            ],
        ),
    ],
    ids=case_name,
)
def test_commands_are_recorded_with_their_directory_and_what_changes_them(line: str, expected: list[Command]) -> None:
    found, unsure, _ = read_commands(line)

    assert not unsure
    assert list(found) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat <<''\n", [Command(("cat", None), "cat")]),
        ("for; ls", []),
        ("getopts a b", [Command(("getopts", "a", "b"), "getopts")]),
        (
            "cd /dev; awk -f a b",
            [Command(("cd", "/dev"), "cd"), Command(("awk", "-f", "a", "b"), "awk", True, where=None)],
        ),
        (
            "env " * (DEEPEST - 1) + "case a; ls",
            [Command(("env",) * left + ("case", "a"), "env", carries=True) for left in range(DEEPEST - 1, 0, -1)],
        ),
        (
            "npx " * (DEEPEST + 1) + "ls",
            [
                Command(("npx",) * (DEEPEST + 1) + ("ls",), "npx"),
                *[Command(("npx",) * left + ("ls",), "npx", True) for left in range(DEEPEST, 0, -1)],
            ],
        ),
        ("ls a\u200bb", [Command(("ls", "a\u200bb"), "ls")]),
        ("cat <<E 'a\nb'\nE", None),
        ("cat <&-x", None),
        (">a if ls )", [Command((">", "a"), ">"), Command(("if", "ls", None), "if")]),
        ("cd; python x.py", None),
        ("for PAGER in $X; do ls; done", [FOR, Command(("ls",), "ls")]),
        ("! " * (MOST_GRAMMAR + 1) + "(ls)", None),
        ("env --unknown ls", [Command(("env", "--unknown", "ls"), "env")]),
        ("cd sub && A=1 env --unknown ls", [cd("sub"), Command(("env", "--unknown", "ls"), "env", True, where="sub")]),
    ],
    ids=case_name,
)
def test_what_could_be_read_of_an_unsure_line_is_recorded(line: str, expected: list[Command] | None) -> None:
    found, unsure, _ = read_commands(line)

    assert unsure
    assert expected is None or list(found) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # Values of variables
        ("A=curl; ls", (Mention(frozenset({"curl"})),)),
        ("A=b=c; ls", (Mention(frozenset({"b", "c"})),)),
        ("A+=b; ls", ()),
        ("A=b; A+=c; unknown $A", (Mention(frozenset({"b"})), OPEN)),
        ("A=b*; ls", (Mention(frozenset({"a", "b"}), globs=("b*",)),)),
        ("unknown b; A=$X; ls", (Mention(frozenset({"b"})), Mention(frozenset({"a"})))),
        # Groups that read a file
        ("{ ls; } <a", ()),
        ("{ env ls; } <a", ()),
        ("{ A=1; ls; } <a", (Mention(frozenset({"1"})),)),
        ("{ unknown; } <a", (OPEN,)),
        ("{ unknown; } <<E\nE", (OPEN,)),
        ("{ " + "ls;" * (MOST_LOOKED_AT - 1) + " } <a", ()),
        ("{ " + "ls;" * MOST_LOOKED_AT + " } <a", (OPEN,)),
        ("exec ls <a; unknown", (OPEN,)),
        ("{ ls; unknown; }", ()),
        ("unknown >a", ()),
        ("{ unknown; } >a", ()),
        ("{ unknown; } >/dev/null", ()),
        ("{ unknown; } <<<a", (OPEN,)),
        ("{ unknown; } <&3", (OPEN,)),
        ("{ unknown; } >&2", ()),
        ("ls | (cat)\nunknown", ()),
        ("ls | { cat <(pwd); unknown; }", (OPEN,)),
        ("ls | flake8 a", (Mention(frozenset({"a"})),)),
        # The environment
        ("A=1 unknown", (Mention(frozenset({"1"})),)),
        ("read a; unknown", ()),
        ("read a; A=b ls", (Mention(frozenset({"b"})),)),
        ("read a; B=b; unknown", (Mention(frozenset({"b"})),)),
        ("read a; ! unknown", ()),
        ("export A=1; B=b; unknown", (Mention(frozenset({"1"})), Mention(frozenset({"b"})))),
        ("export A=1; B=$X; unknown", (Mention(frozenset({"1"})), Mention(frozenset({"b"})), OPEN)),
        ("export A=b; ls", (Mention(frozenset({"b"})),)),
        ("A=b export C=d", (Mention(frozenset({"b"})), Mention(frozenset({"d"})))),
        # The output of commands
        ("ls; unknown $X", ()),
        ("ls; unknown `nproc`", (Mention(frozenset({"1"})),)),
        ("ls; unknown $(nproc)", (Mention(frozenset({"1"})),)),
        ("unknown $X_X", ()),
        ("cd a; unknown $PWD", (OPEN,)),
        ("cd a && unknown $PWD", ()),
        # Files that a command finds are no output of another command
        ("find . -exec git log '{}' +", ()),
        ("ls; find . -exec git log '{}' +", ()),
        # Files with another name
        ("cp a b; ./b", (Mention(frozenset({"a", "b"})),)),
        ("cp $X b; ./b", (OPEN,)),
        ("cp 'a(b' c; ./c", (OPEN,)),
        ("cp; ./a", (OPEN,)),
        ("cp a b; ls", ()),
        ("unknown x; cp a b; ./b", (Mention(frozenset({"x"})), Mention(frozenset({"a", "b"})))),
        # Words of a script, and of programs under another PATH
        ("bash -c ls a", (Mention(frozenset({"a"})),)),
        (". a/bin/activate && unknown x y", (Mention(frozenset({"x", "y"})),)),
        ("./cd a", (Mention(frozenset({"a"})),)),
        ("unknown ~+/a", (OPEN,)),
        ("ls | git add a/b", (Mention(frozenset({"a", "b"})),)),
        # Words that xargs reads
        ("ls | xargs flake8", (OPEN,)),
        ("ls | xargs cat", ()),
        # Patterns of names
        ("flake8 -q 'b*'", (Mention(frozenset({"-q", "q", "b"}), globs=("b*",)),)),
        ("flake8 'a *'", (Mention(frozenset({"a"}), globs=("*",)),)),
        ("flake8 'a/*' 'b?'", (Mention(frozenset({"a", "b"}), globs=("b*",)),)),
        # Versions of tools
        ("mypy3 'a(b)'", (Mention(frozenset({"a", "b"})),)),
        ("flake8 'a(b)'", (Mention(frozenset({"a", "b"})),)),
        ("flake8- 'a(b)'", (OPEN,)),
        ("x86_64-linux-gnu-gcc 'a(b)'", (Mention(frozenset({"a", "b"})),)),
        ("gcc-x86_64-linux-gnu 'a(b)'", (Mention(frozenset({"a", "b"})),)),
        # Texts for people
        ("git commit --message=a=b", ()),
        ("git commit --message=a=b c", (Mention(frozenset({"c"})),)),
    ],
    ids=case_name,
)
def test_a_line_mentions_what_its_commands_may_run(line: str, expected: tuple[Mention, ...]) -> None:
    assert read_commands(line).mentions == expected


# ------------------------------------------------------------------------------------------------- patterns of commands


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("git push", Command(("git", "commit"), "git", where=None), NO),
        ("git s*x", Command(("git", "x"), "git", where="sub"), NO),
        ("cat a/b", Command(("cat", ".."), "cat"), NO),
        ("cat a/b", Command(("cat", "../a/b"), "cat"), PERHAPS),
        ("cat a/b", Command(("cat", "b"), "cat", where="a"), YES),
        ("> a", Command((">", "../a"), ">", where="sub"), YES),
        ("> ''", Command((">", ".."), ">", where="sub"), YES),
    ],
    ids=case_name,
)
def test_operands_are_compared_as_files_of_the_directory(pattern: str, command: Command, expected: int) -> None:
    assert CommandPattern.of(read_pattern(f"Bash({pattern})")).prohibits(CommandSubject(command)) == expected


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("python3.11:*", Command(("python3.11", "-V"), "python3.11", where="sub"), True),
        ("python3.11:*", Command(("python3.11", "-V"), "python3.11", where=None), True),
        ("./a:*", Command(("./a", "b"), "a", where="sub"), False),
        ("cat sub/X.txt", Command(("cat", "X.txt"), "cat", where="sub"), True),
        ("cat X.txt", Command(("cat", "X.txt"), "cat", where="sub"), False),
    ],
    ids=case_name,
)
def test_a_program_found_by_its_name_is_the_same_in_any_directory(
    pattern: str, command: Command, expected: bool
) -> None:
    assert CommandPattern.of(read_pattern(f"Bash({pattern})")).covers(CommandSubject(command)) is expected

"""Find commands in the arguments of other commands: ``env``, ``sudo``, ``bash -c``, ``find -exec`` and interpreters.

Every function here raises ``UnsureError`` for unknown syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from cognition.policy._command import UnsureError, Words, program_of, reads_input, unversioned
from cognition.policy._programs import (
    CARRIERS,
    CODE,
    HARMLESS_NAMES,
    INLINE,
    INLINE_LONG,
    RUN_FIRST,
    RUNS,
    RUNS_OTHERS,
    SHELL_FLAGS,
    SHELL_LONG_FLAGS,
    SHELLS,
    Carrier,
)

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
NPM_OPTIONS = frozenset(
    """
    -D -E -F -L -O -P -S -a -d -f -g -h -l -n -p -q -r -s -v -w -y --access --all --cache-min --color --depth --dry-run
    --filter --fix --force --frozen-lockfile --fund --global --help --if-present --ignore-scripts --immutable --include
    --include-workspace-root --json --legacy-peer-deps --lockfile-only --loglevel --long --no-audit --no-color --no-fund
    --no-optional --no-package-lock --no-progress --no-save --no-update-notifier --offline --omit --only --otp
    --package-lock-only --parallel --parseable --prefer-offline --prod --production --progress --quiet --recursive
    --registry --save --save-dev --save-exact --save-optional --save-peer --silent --strict-peer-deps --tag --verbose
    --version --workspace --workspaces --ws --yes
    """.split()
)
"""Options of npm and pnpm that name no program, no file of options and no other project."""
ONLY_TELL = frozenset({"--version", "-V", "--help", "-h"})
NODE_TESTS = re.compile(
    r"--test-(?:name-pattern|skip-pattern|only|concurrency|timeout|reporter-destination)(?:=.*)?"
    r"|--test-reporter=(?:dot|junit|lcov|spec|tap)|--(?:test|watch|no-warnings|enable-source-maps)"
)
"""Options of node behind ``--test`` that load no module."""
NODE_FLAGS = re.compile(
    r"NODE_OPTIONS=(?:\s*--(?:max-(?:old|semi)-space-size=\d+|no-(?:warnings|deprecation)|enable-source-maps"
    r"|trace-(?:warnings|deprecation|uncaught)|preserve-symlinks|openssl-legacy-provider|experimental-vm-modules)\b)*\s*"
)
"""Values of ``NODE_OPTIONS`` that load no module."""
SED_FLAGS = re.compile(r"-[nrEsuz]+|-i[^e]*|--(?:q\w*|s\w*|r[\w-]*|u\w*|n[\w-]*|z[\w-]*|p\w*|d\w*|i[\w-]*(?:=.*)?)")
"""Options of sed without a separate value; long ones may be cut."""
SED_SET = r"\[\^?\]?(?:(?!\1)(?:[^\]\\\n\[]|\\[tfrv]))*+\]"
SED_LINE = r"(?:\d+|\$|/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^]/\\\n\[]*+\])*+/I?)"
SED_PLAIN = re.compile(
    rf"[\s;]*+(?:{SED_LINE}(?:,\s*[+~]?{SED_LINE})?\s*!?\s*)?"
    rf"(?:s([/|,#:@!%_])(?:(?!\1)[^\\\n\[]|\\[^\n]|{SED_SET})*+\1(?:(?!\1)[^\\\n]|\\[^\n])*+\1[gpiI\d]*+|[pdqQ=NnGgHhDPxz]"
    r"|[aic][ \t]*\\?[^\\\n]*+\Z)?\s*(?:[;\n]|\Z)"
)
"""Commands that change, print or delete lines, or insert a text. None of them runs anything or writes a file."""
AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
MODULES = frozenset({"pypy", "pypy3", "python", "python2", "python3"})
"""Interpreters whose ``-m`` runs a module."""
FLAGS = {
    **dict.fromkeys(MODULES, re.compile(r"-[bBdEIOPqRsSuv]+|-[WX].+|-[WX](?P<value>)")),
    **dict.fromkeys(
        ("node", "nodejs"),
        re.compile(
            r"--(?:check|test|watch|no-warnings|trace-warnings|enable-source-maps|experimental-[\w-]+)(?P<value>(?!))?"
            r"|--max-old-space-size=\d+"
        ),
    ),
    **dict.fromkeys(("perl", "ruby", "lua", "luajit"), re.compile(r"-w+(?P<value>(?!))?")),
    "php": re.compile(r"-[lw]+(?P<value>(?!))?"),
}
"""Interpreters whose options end at the first other word, with the options that run nothing."""
ONLY_NAMED = re.compile(r"-[-\w]+(?P<value>(?!))?")
FIND_PLACE = re.compile(r"[^-(!,]|$")
FIND_TESTS: Mapping[str, int] = {
    **dict.fromkeys(
        (
            "! ( ) , -a -and -d -daystart -delete -depth -empty -executable -false -follow -ignore_readdir_race -ls "
            "-mount -noignore_readdir_race -nogroup -noleaf -not -nouser -nowarn -o -or -print -print0 -prune -quit "
            "-readable -true -warn -writable -xdev"
        ).split(),
        0,
    ),
    **dict.fromkeys(
        (
            "-amin -anewer -atime -cmin -cnewer -context -ctime -fls -fprint -fprint0 -fstype -gid -group -ilname "
            "-iname -inum -ipath -iregex -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path "
            "-perm -printf -regex -regextype -samefile -size -type -uid -used -user -wholename -xtype"
        ).split(),
        1,
    ),
    "-fprintf": 2,
}
"""Words of ``find`` with the number of words that belong to each."""
FIND_NEWER = re.compile(r"-newer[aBcmt]{2}")
HAS_CODE = {name: re.compile(pattern).search for name, pattern in CODE.items()}
HAS_CODE_OF_GIT = HAS_CODE.pop("git")
SIGNS = frozenset("-+")
"""The first characters of a shell's options."""
OPTIONS_OF = {
    name: options | {one[:end] for one in options if one[:2] == "--" for end in range(3, len(one))}
    for name, options in RUNS_OTHERS.items()
}
"""The options with all beginnings of long options, which programs accept too."""
OPTIONS_OF_GIT = OPTIONS_OF.pop("git")
LETTERS_OF = {name: {one[1] for one in options if len(one) == 2} for name, options in RUNS_OTHERS.items()}
SETTING_SIGN = re.compile("[-.:=]")
"""Characters of which git's settings and options contain one, except for its commands that run others."""
LETTERS_OF_GIT = {"": "c", "clone": "cu", "difftool": "x", "grep": "O", "rebase": "x"}
"""By git's commands, letters of options that run others; those of the empty one precede a command."""
REPLACED = ("{}", "%")
"""The placeholders allowed for ``xargs -I``."""
CHECKED = INLINE.keys() | CODE.keys() | RUNS_OTHERS.keys() | RUNS.keys() | {"sed", "gsed"}
"""Programs with arguments to check for code."""
READS_OTHERS = SHELLS | CARRIERS.keys() | CHECKED | RUN_FIRST | {"eval", "find"}
"""Programs that run other programs named in their arguments."""


EVALUATING = frozenset({"[", "printf", "test", "wait"})
"""Builtins of shells that evaluate the index of a variable in some of their words."""
COMPARING = frozenset("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef".split())


def may_name_variable(name: str, words: Words, *, unknown: bool, assigned: bool) -> bool:
    """Return whether a word that is unknown, but one word, may name a variable to one of ``EVALUATING``.

    Args:
        name: the program.
        words: its arguments.
        unknown: whether an unknown word may be any text.
        assigned: whether it may be a text of the same line.
    """
    if name == "printf":
        return assigned and words[0] is None and len(words) > 1
    if name == "wait":
        return any(word is not None and word[:1] == "-" for word in words) or (assigned and words.count(None) > 1)
    if name == "[":
        words = words[:-1]
    if "-v" in words:
        return True
    if not (unknown or assigned):
        return False
    while len(words) > 2 and words[0] == "!":
        words = words[1:]
    if len(words) == 3:
        return words[1] not in COMPARING
    return len(words) > 3 or (len(words) == 2 and words[0] is None)


def require_known(word: str | None) -> str:
    if word is None:
        raise UnsureError
    return word


def script_of(words: Words) -> tuple[str | None, int]:
    """Return the script of a shell's ``-c`` (None for a script file), and the index of its word."""
    if len(words) > 2 and words[1] == "-c" and (script := words[2]) and script[0] not in SIGNS:
        return script, 2
    code, at = False, 1
    while at < len(words):
        word = words[at]
        if word is None:
            raise UnsureError
        if word[:1] not in SIGNS or len(word) == 1:
            break
        at += 1
        if word == "--":
            break
        if word not in SHELL_LONG_FLAGS:
            letters = word[1:]
            if letters == "o" or letters == "O":
                at += 1  # its value
            elif not SHELL_FLAGS.issuperset(letters):
                raise UnsureError
            code = code or "c" in letters
    operand = require_known(words[at]) if at < len(words) else ""
    if operand in ("", "-", "+") or (not code and reads_input(operand)):
        raise UnsureError  # it reads its commands from its input
    return (operand if code else None), at


def command_of(name: str, words: Words) -> tuple[Words, bool]:
    """Return the command that a carrier runs (empty without one), and whether its options are harmless."""
    carrier, at = CARRIERS[name], 1
    given: set[str] = set()
    while at < len(words):
        word = require_known(words[at])
        if word == "--":
            at += 1
            break
        if word[:1] == "-" and (len(word) > 1 or name == "env"):
            if carrier.asks and set(carrier.asks) & set(word):
                return (), False
            at += _option(name, carrier, word, words[at + 1 : at + 2], given)
        elif carrier.assignments and ASSIGNMENT.match(word):
            at += 1
        else:
            break
    while carrier.assignments and at < len(words) and ASSIGNMENT.match(require_known(words[at])):
        at += 1  # behind "--"
    if carrier.assignments and at < len(words) and "=" in require_known(words[at]):
        raise UnsureError  # to `env` any name before it is one of a variable
    inner, harmless = words[at + carrier.operands :], given <= carrier.harmless
    if name == "env" and inner[:1] == ("-",):
        raise UnsureError  # the option ``-i``, even behind ``--``
    if not carrier.more or not inner:
        return inner, harmless
    if program_of(inner[0]) in READS_OTHERS and not (inner[0] == "git" and inner[1:2] and inner[1] in HARMLESS_NAMES):
        raise UnsureError
    return (*inner, None), harmless


def has_assignments(words: Words, inner: Words) -> bool:
    return any(word is not None and ASSIGNMENT.match(word) for word in words[1 : len(words) - len(inner)])


def _option(name: str, carrier: Carrier, word: str, following: Words, given: set[str]) -> int:
    """Add the options in this word to those given; return the number of words that they take."""
    if word.startswith("--"):
        option, sign, _ = word.partition("=")
        given.add(option)
        if option in carrier.long_values:
            return 1 if sign else 2
        if option in carrier.long_flags and not sign:
            return 1
        raise UnsureError
    for place, letter in enumerate(word[1:], 2):
        given.add(f"-{letter}")
        if letter in carrier.values:
            if (
                letter == "I"
                and name == "xargs"
                and (word[place:] or require_known((*following, "")[0])) not in REPLACED
            ):
                raise UnsureError
            return 1 if word[place:] else 2
        if letter not in carrier.flags:
            raise UnsureError
    return 1


def commands_of_find(words: Words) -> list[tuple[Words, bool]]:
    """Return the commands that ``find`` runs on its results, and whether each runs in the directories it finds."""
    found: list[tuple[Words, bool]] = []
    texts = [require_known(word) for word in words]
    at = 1
    while at < len(texts) and (FIND_PLACE.match(texts[at]) or texts[at][:2] in ("-O", "-H", "-L", "-P")):
        at += 1
    while at < len(texts):
        test = texts[at]
        at += 1
        if test in ("-exec", "-execdir", "-ok", "-okdir"):
            begun = at
            while at < len(texts) and texts[at] != ";" and (texts[at] != "+" or texts[at - 1] != "{}"):
                at += 1
            inner = texts[begun:at]
            if not inner or at == len(texts):
                raise UnsureError
            at += 1
            if program_of(inner[0]) in READS_OTHERS and any("{}" in word and word != "{}" for word in inner):
                raise UnsureError  # what is found would become a part of what is run
            found.append((tuple([None if word == "{}" else word for word in inner]), test.endswith("dir")))
        elif test in FIND_TESTS:
            at += FIND_TESTS[test]
        elif FIND_NEWER.fullmatch(test):
            at += 1
        else:
            raise UnsureError  # the words behind it may be its own, and hide others
    return found


def check_arguments(program: str, words: Words) -> None:
    """Check that a program's arguments contain no code and no command.

    Raises:
        UnsureError: they may contain some.
    """
    name = program
    if name not in CHECKED:
        name = unversioned(name)
        if name not in CHECKED:
            return
    if name in OWN_CHECKS:
        OWN_CHECKS[name](words)
    if name in HAS_CODE:
        has_code = HAS_CODE[name]
        for word in words[1:]:
            if word is not None and has_code(word):
                raise UnsureError
    if name in OPTIONS_OF:
        options, letters = OPTIONS_OF[name], LETTERS_OF[name]
        for word in words[1:]:
            if not word:
                continue
            if word.partition("=")[0] in options or (word[0] == "-" != word[1:2] and not letters.isdisjoint(word[1:])):
                raise UnsureError


def _check_npm(words: Words) -> None:
    """Check the options, of which some name a shell for scripts, a file with further options, or another project.

    npm takes options with one dash, and the beginnings of their names. Words behind ``--`` are the script's own.
    """
    named = False
    for word in words[1:]:
        if word == "--":
            break
        if word is None or word[:1] != "-":
            if word == "x" and not named:
                raise UnsureError
            named = True
        elif word.partition("=")[0] not in NPM_OPTIONS:
            raise UnsureError


def _check_tar(words: Words) -> None:
    """Check the first word, option letters with or without a ``-``."""
    first = (words[1] if len(words) > 1 else "") or ""
    if LETTERS_OF["tar"] & set(first) and "/" not in first:
        raise UnsureError


def _check_git(words: Words) -> None:
    """Check git's options and settings. Letters mean other things in most commands: ``-c`` precedes a command."""
    command = ""
    for word in words[1:]:
        if not word:
            continue
        if not SETTING_SIGN.search(word):  # neither an option of letters nor a setting
            if word in OPTIONS_OF_GIT:
                raise UnsureError
            command = command or word
            continue
        if HAS_CODE_OF_GIT(word):
            raise UnsureError
        letters = LETTERS_OF_GIT.get(command, "")
        if (len(word) != 2 and word.partition("=")[0] in OPTIONS_OF_GIT) or (
            word[0] == "-" != word[1:2] and not set(letters).isdisjoint(word)
        ):
            raise UnsureError
        command = command or (word if word[0] != "-" else "")


def _check_sed(words: Words) -> None:
    """Check that no sed script has the command ``e``, which runs a command, or the flag ``e`` of a substitution.

    Every possible script is checked: each word that may be an option's value, and the first other word.
    """
    may_be_taken, found = False, False
    for word in words[1:]:
        if word is None:
            raise UnsureError
        if word[:1] == "-" and len(word) > 1:
            if SED_FLAGS.fullmatch(word):
                may_be_taken = False
                continue
            letters, _, value = word[2:].partition("=") if word[:2] == "--" else word[1:].partition("e")
            if "f" in letters[: None if word[:2] != "--" else 1]:
                raise UnsureError  # a script from a file
            _check_sed_script(value)
            may_be_taken, found = True, found or word == "-e"
        elif may_be_taken or not found:
            found = found or not may_be_taken
            _check_sed_script(word)
            may_be_taken = False


def _check_sed_script(script: str) -> None:
    at = 0
    while at < len(script):
        plain = SED_PLAIN.match(script, at)
        if plain is None:
            raise UnsureError
        at = plain.end()


def _check_interpreter(name: str, words: Words) -> None:
    """Check that an interpreter runs a file, and no code of an option or of its input."""
    if name not in FLAGS:
        letters = INLINE[name]
        for word in words[1:]:
            if word is None or word.partition("=")[0] in INLINE_LONG or (word[:1] == "-" and set(letters) & set(word)):
                raise UnsureError  # its options may stand behind a file
    at, flags = 1, FLAGS.get(name, ONLY_NAMED)
    if len(words) > 1 and (ONLY_TELL.issuperset(words[1:]) or (words[1:] == ("-v",) and name not in MODULES)):
        return
    while at < len(words) and (option := flags.fullmatch(require_known(words[at]))):
        at += 2 if option["value"] is not None else 1
    if name in ("node", "nodejs") and "--test" in words[1:at]:
        if any(word is not None and word[:1] == "-" and not NODE_TESTS.fullmatch(word) for word in words[at:]):
            raise UnsureError
        return  # without a file it runs those of the project
    if at < len(words) and words[at] == "-m" and name in MODULES:
        require_known(words[at + 1] if at + 1 < len(words) else None)
        if any(word is not None and "/" in word and reads_input(word) for word in words[at + 2 :]):
            raise UnsureError  # some modules run the file that they are given
        return  # a module, which `CODE` checks
    operand = require_known(words[at]) if at < len(words) else "-"
    if operand[:1] == "-" or reads_input(operand):
        raise UnsureError


def _check_awk(words: Words) -> None:
    """Check that options only set variables and separators, or name a file with the program."""
    if None in words:
        raise UnsureError
    at = 1
    while at < len(words) and (word := words[at]) is not None and word[:1] == "-" and word != "--":
        if word[1:2] not in ("F", "v", "f"):
            raise UnsureError
        value = word[2:] or require_known(words[at + 1] if at + 1 < len(words) else None)
        if word[1] == "f" and reads_input(value):
            raise UnsureError
        at += 1 if word[2:] else 2


OWN_CHECKS: Mapping[str, Callable[[Words], None]] = {
    **{name: partial(_check_interpreter, name) for name in INLINE},
    **dict.fromkeys(AWKS, _check_awk),
    **dict.fromkeys(("sed", "gsed"), _check_sed),
    **dict.fromkeys(("npm", "pnpm"), _check_npm),
    "git": _check_git,
    "tar": _check_tar,
}
"""Checks of a program's own, beside those of ``HAS_CODE`` and ``OPTIONS_OF``."""

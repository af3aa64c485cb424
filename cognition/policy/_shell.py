"""Parse a command line into the commands that it runs, or report that this is uncertain.

The parser knows less than a shell. Its result contains at least every command that runs: an extra command only causes a
question, a missing command would be a hole. Any unknown syntax therefore makes the line unsure.
"""

from __future__ import annotations

import re
from unicodedata import category

from cognition.policy._command import Command, UnsureError, Words, program_of
from cognition.policy._nested_commands import (
    ASSIGNMENT,
    check_arguments,
    command_of,
    commands_of_find,
    has_assignments,
    require_known,
    script_of,
)
from cognition.policy._programs import (
    CARRIERS,
    COMMAND_VARIABLES,
    EXPORTING,
    GRAMMAR,
    SHELLS,
    SKIPPED,
    UNSURE,
    UNSURE_VARIABLES,
)

LONGEST = 100_000
"""The most characters of a command line."""
DEEPEST = 12
"""The most levels of commands within commands."""

PLAIN = re.compile(r"[\w@%+:,./=^-]+", re.ASCII)
PLAIN_LINE = re.compile(r"[\w@%+:,./^-]++(?: [\w@%+:,./=^-]++)*+", re.ASCII)
"""Words separated by single spaces, without characters special to a shell; most command lines are of this form."""
PLAIN_WORDS = re.compile(r"([\w@%+:,./=^-]++(?=[ \t\n;&|()]|$)(?: [\w@%+:,./=^-]++(?=[ \t\n;&|()]|$))*+) *+", re.ASCII)
QUOTED_WORD = re.compile(r"""(?:'[^']*+'|"[^"$`\\]*+")(?=[ \t\n;&|()]|$)""")
"""A word in quotes without characters special to a shell."""
BLANK = re.compile(r"(?:[ \t]|\\\n)+")
COMMENT = re.compile(r"#[^\n]*")
BETWEEN = re.compile(r"(?:&&|\|\||\|&|[;|\n]|&(?!>)) *+")
REDIRECTION = re.compile(r"(?:&>>?|[0-9]*(?:<<<|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\()))")
VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\d|\{(?:#?\w+|[@*#?!$-])\}|[@*#?!$-])", re.ASCII)
LITERAL_BRACE = re.compile(r"\{(?:\}(?=[ \t\n;]|$)|(?=[ \t\n]|$))")
"""Braces that a shell leaves unchanged: ``{}``, and a brace that opens a group."""
PLAIN_IN_QUOTES = re.compile(r'[^"$`\\]+')
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""White space and control characters that shells and readers may take for something else."""
REFUSED = UNSURE | SKIPPED | GRAMMAR
MOVING = frozenset({"cd", "popd", "pushd"})
"""Commands that change the meaning of relative paths."""
CONTINUED = "\\\n"
CONNECTIONS = ("/dev/tcp/", "/dev/udp/")
"""Files that make a shell connect to another machine, even for reading."""
NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
BREAKING = frozenset(" \t\n\\#;&|()<>0123456789")
"""First characters of tokens other than words."""
CONNECTING = frozenset("&|;\n")
"""First characters of tokens between two commands."""
ENDING = frozenset(" \t\n;&|()")
"""Characters that end a word. Redirection signs also do, unless a parenthesis follows."""
EXPANDED = frozenset("$`\\<>(")
"""First characters of expansions in a word without its quotes."""
DESCRIPTOR = re.compile(r"\d+-?|-")


Word = tuple[str | None, str]
"""A word without quotes and escapes (None if the shell would expand it), and its unquoted beginning.

The beginning identifies assignments and words of the grammar.
"""


def read_commands(line: str) -> tuple[Command, ...] | None:
    """Return the commands that a command line runs; None if that is uncertain."""
    if len(line) > LONGEST or not (line.isprintable() or _is_seen(line)):
        return None
    reader = ShellReader(line, 0)
    try:
        if PLAIN_LINE.fullmatch(line) and (words := tuple(line.split(" ")))[0] not in SKIPPED:
            reader.command(words, False, 0)
        else:
            reader.commands_until("")
    except UnsureError:
        return None
    if not MOVING.isdisjoint([command.program for command in reader.found]):
        reader.found += [_elsewhere(command) for command in reader.found if command.program in ("<", ">")]
    return tuple(reader.found)


def _is_seen(line: str) -> bool:
    """Return whether a line has only visible characters, apart from line breaks and tabs."""
    return not UNSEEN.search(line) and (line.isascii() or not any(category(letter) == "Cf" for letter in line))


def _elsewhere(command: Command) -> Command:
    """Return a redirection after a change of directory: a relative file is then unknown."""
    target = command.words[1]
    absolute = target is not None and target.startswith(("/", "~"))
    return command if absolute else command._replace(words=(command.program, None))


def read_words(text: str) -> tuple[str, ...] | None:
    """Return the words of a rule's argument, with stars unchanged; None if it is not one command."""
    reader = ShellReader(text, 0, stars=True)
    words: list[str | None] = []
    try:
        mark = REDIRECTION.match(text)
        if mark is not None:
            words.append(mark.group())
            reader.at = mark.end()
        while reader.at < len(text):
            blank = BLANK.match(text, reader.at)
            if blank is not None:
                reader.at = blank.end()
            else:
                words.append(reader.word()[0])
        return tuple([require_known(word) for word in words])
    except UnsureError:
        return None


class ShellReader:
    """A parser of one command line, from left to right, and of the lines within it."""

    __slots__ = ("at", "depth", "found", "line", "stars")

    def __init__(self, line: str, depth: int, *, stars: bool = False) -> None:
        self.line, self.depth, self.stars = line, depth, stars
        self.at = 0
        self.found: list[Command] = []

    # ------------------------------------------------------------------------------------------------ between commands

    def commands_until(self, closing: str) -> None:
        """Read commands up to the end, or through the closing parenthesis."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnsureError
        line = self.line
        texts: list[str | None] = []
        heads: list[str] = []
        grammar: int | None = None  # how many words stand before the first redirection: only there are they grammar
        while self.at < len(line):
            at = self.at
            letter = line[at]
            if letter == " ":
                self.at += 1
            elif letter not in BREAKING:
                if plain := PLAIN_WORDS.match(line, at):
                    self.at = plain.end()
                    words = plain[1].split(" ")
                    texts += words
                    heads += words
                elif quoted := (letter == "'" or letter == '"') and QUOTED_WORD.match(line, at):
                    self.at = quoted.end()
                    texts.append(line[at + 1 : self.at - 1])
                    heads.append("")
                else:
                    self.word_of(texts, heads)
            elif between := letter in CONNECTING and BETWEEN.match(line, at):
                if line.startswith((";;", ";&"), at):
                    raise UnsureError  # of a `case`
                self.at = between.end()
                self.simple(texts, heads, grammar)
                texts, heads, grammar = [], [], None
            elif blank := BLANK.match(line, at):
                self.at = blank.end()
            elif letter == "#" and (comment := COMMENT.match(line, at)):
                self.at = comment.end()
            elif redirection := REDIRECTION.match(line, at):
                self.at = redirection.end()
                grammar = len(texts) if grammar is None else grammar
                self.redirect(redirection.group().lstrip("0123456789"))
            elif letter == "(":
                if line.startswith(("((", f"({CONTINUED}"), at) or not SKIPPED.issuperset(heads):
                    raise UnsureError  # arithmetic; a function or an array
                self.at += 1
                self.commands_until(")")
            elif letter == ")":
                if not closing:
                    raise UnsureError
                break
            else:
                self.word_of(texts, heads)
        else:
            if closing:
                raise UnsureError
        self.at += 1
        self.simple(texts, heads, grammar)
        self.depth -= 1

    def redirect(self, mark: str) -> None:
        """Record a redirection as a command named by its sign, with the file as its word."""
        if mark == "<<":
            raise UnsureError
        if blank := BLANK.match(self.line, self.at):
            self.at = blank.end()
        begun = self.at
        target = self.word()[0]
        if self.at == begun or (self.line.startswith("-", begun) and target != "-" and mark in (">&", "<&")):
            raise UnsureError  # `>&-` ends at its `-`, and what follows is a command
        if mark == ">&" and target is not None and not EXPANDED.isdisjoint(target):
            raise UnsureError  # bash expands such a word a second time, after its quotes are gone
        if mark == "<<<" or target in NOWHERE:
            return
        if target is not None and mark in (">&", "<&") and DESCRIPTOR.fullmatch(target):
            return
        reads = mark in ("<", "<&") and target is not None and not target.startswith(CONNECTIONS)
        program = "<" if mark in ("<", "<&") else ">"
        self.found.append(Command((program, target), program, carries=reads))

    # ----------------------------------------------------------------------------------------------------------- words

    def word_of(self, texts: list[str | None], heads: list[str]) -> None:
        text, head = self.word()
        texts.append(text)
        heads.append(head)

    def word(self) -> Word:
        line, begun = self.line, self.at
        known = True
        pieces: list[str] = []
        while self.at < len(line):
            letter = line[self.at]
            if plain := PLAIN.match(line, self.at):
                pieces.append(plain.group())
                self.at = plain.end()
            elif letter in ENDING or letter in "<>":
                if (letter == "<" or letter == ">") and line.startswith("(", self.at + 1):
                    self.at += 2
                    self.commands_until(")")
                    known = False
                    continue
                break
            elif letter == "'":
                end = line.find("'", self.at + 1)
                if end < 0:
                    raise UnsureError
                pieces.append(line[self.at + 1 : end])
                self.at = end + 1
            elif letter == '"':
                self.at += 1
                known &= self.double_quotes(pieces)
            elif letter == "\\":
                pieces.append(self.escape())
            elif letter in "$`":
                known &= self.expansion(pieces, quoted=False)
            else:
                if not self.stars and (letter in "*?[" or (letter == "{" and not LITERAL_BRACE.match(line, self.at))):
                    known = False
                pieces.append(letter)
                self.at += 1
        if self.at == begun and self.at < len(line):
            raise UnsureError  # a bracket or an operator where a word should be
        text = "".join(pieces)
        if line[begun : self.at] == text:
            return (text if known else None), text
        # A line that is continued is one line before the shell looks for anything else in it.
        head = PLAIN.match(line[begun : self.at].replace(CONTINUED, ""))
        return (text if known else None), head.group() if head and "=" in head.group() else ""

    def escape(self) -> str:
        letter = self.line[self.at + 1 : self.at + 2]
        if not letter:
            raise UnsureError
        self.at += 2
        return "" if letter == "\n" else letter

    def double_quotes(self, pieces: list[str]) -> bool:
        """Read the rest of a text in double quotes; return whether the shell expands nothing in it."""
        line, known = self.line, True
        while self.at < len(line):
            letter = line[self.at]
            if plain := PLAIN_IN_QUOTES.match(line, self.at):
                pieces.append(plain.group())
                self.at = plain.end()
            elif letter == '"':
                self.at += 1
                return known
            elif letter == "\\":
                if line[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                    pieces.append(self.escape())
                else:
                    pieces.append("\\")
                    self.at += 1
            else:
                known &= self.expansion(pieces, quoted=True)
        raise UnsureError

    def expansion(self, pieces: list[str], *, quoted: bool) -> bool:
        """Read an expansion after ``$`` or a backtick; return whether it is only that character."""
        line, at = self.line, self.at
        if line[at] == "`":
            end = line.find("`", at + 1)
            inner = line[at + 1 : end]
            if end < 0 or "\\" in inner:
                raise UnsureError
            self.within(inner)
            self.at = end + 1
            return False
        if line.startswith(("$((", "$[", f"${CONTINUED}", f"$({CONTINUED}"), at):
            raise UnsureError
        if line.startswith("$(", at):
            self.at = at + 2
            self.commands_until(")")
            return False
        if variable := VARIABLE.match(line, at):
            self.at = variable.end()
            return False
        if line.startswith("${", at) or (not quoted and line[at + 1 : at + 2] in ("'", '"')):
            raise UnsureError
        pieces.append("$")
        self.at = at + 1
        return True

    def within(self, line: str) -> None:
        """Read the commands of a line within this line."""
        outer = self.line, self.at
        self.line, self.at = line, 0
        self.commands_until("")
        self.line, self.at = outer

    # -------------------------------------------------------------------------------------------------------- commands

    def simple(self, texts: list[str | None], heads: list[str], grammar: int | None) -> None:
        """Record the command in these words, and the commands that it carries."""
        first, last = 0, len(texts) if grammar is None else grammar
        while first < last and heads[first] in SKIPPED and texts[first] == heads[first]:
            first += 1
        begun, end = first, len(texts)
        while begun < end and "=" in heads[begun] and ASSIGNMENT.match(heads[begun]):
            self.setting(texts[begun], heads[begun])
            begun += 1
        if begun < end:
            if texts[begun] in EXPORTING:
                for place in range(begun, end):
                    if texts[place] is None:
                        self.setting(None, heads[place])
            self.command(tuple(texts[begun:]), begun > first, self.depth)
        elif begun > first:
            self.found.append(Command(("=",), "=", assigned=True))

    def setting(self, text: str | None, head: str) -> None:
        """Record the command that runs because this word sets a variable, if any."""
        found = ASSIGNMENT.match(head)
        name = found.group().rstrip("+=") if found else ""
        if name in UNSURE_VARIABLES or name.startswith("GIT_CONFIG"):
            raise UnsureError
        if name in COMMAND_VARIABLES:
            self.within(require_known(text).partition("=")[2])

    def command(self, words: Words, assigned: bool, depth: int) -> None:
        """Record a command, and the commands in its arguments."""
        name = program_of(words[0])
        if depth > DEEPEST or not name or name in REFUSED or name[:3] == "ld-" or "{" in name or "%" in name:
            raise UnsureError  # a program may be told to put something else in the place of {} or %
        carrier = CARRIERS.get(name)
        self.found.append(Command(words, name, assigned, carrier is not None and carrier.plain))
        if carrier is not None:
            inner = command_of(name, words)
            for word in words[1 : len(words) - len(inner)] if carrier.assignments else ():
                self.setting(word, word or "")
            if inner:
                self.command(inner, assigned or has_assignments(words, inner), depth + 1)
        elif name in SHELLS:
            script, place = script_of(words)
            if script is not None:
                self.within(script)
            else:  # a file, which a rule may name; what allows `sh x` allows `sh x`
                self.found.append(Command(words[place:], program_of(words[place]), assigned, carries=True))
        elif name == "eval":
            line = [require_known(word) for word in words[1:]]
            self.within(" ".join(line[1:] if line[:1] == ["--"] else line))
        elif name == "find":
            for inner in commands_of_find(words):
                self.command(inner, assigned, depth + 1)
        else:
            check_arguments(name, words)
            for word in words[1:] if name in EXPORTING else ():
                self.setting(word, word or "")

"""Parse a command line into the commands that it runs, and report whether that is uncertain.

The parser knows less than a shell. Its result contains at least every command that runs: an extra command only causes a
question, a missing command would be a hole. Unknown arguments therefore make the line unsure, and reading continues
behind them: a command that is denied stays denied beside them. Unknown syntax ends the reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import category

from cognition.policy._closed_arguments import CLOSED, PYTHONS
from cognition.policy._command import Command, CommandLine, UnreadableError, UnsureError, Words, program_of, unversioned
from cognition.policy._mentions import (
    GLUED,
    OPEN,
    is_known,
    is_of_system,
    mention_of,
    mention_of_copies,
    mention_of_pattern,
    mention_of_value,
    takes_texts,
)
from cognition.policy._nested_commands import (
    ASSIGNMENT,
    AWKS,
    CHECKED,
    EVALUATING,
    NODE_FLAGS,
    check_arguments,
    command_of,
    commands_of_find,
    has_assignments,
    may_name_variable,
    require_known,
    script_of,
)
from cognition.policy._programs import (
    CARRIERS,
    COMMAND_VARIABLES,
    COPYING,
    EXPORTING,
    GRAMMAR,
    INLINE,
    QUIET,
    RUN_FIRST,
    RUN_NEXT,
    SECOND_IS_WRITTEN,
    SETTING,
    SHELLS,
    SKIPPED,
    UNSURE,
    UNSURE_BEGINNINGS,
    UNSURE_VARIABLES,
    WITHOUT_OUTPUT,
    WRITING,
)
from cognition.policy._shell_tokens import (
    BEFORE_PATTERN,
    BETWEEN,
    BLANK,
    CASE,
    CASE_BLANK,
    CASE_IN,
    CASE_PATTERN,
    COMMENT,
    ESAC,
    EXPANDING,
    FOR_VARIABLE,
    FUNCTION,
    FUNCTION_NAME,
    NAME_OF_VARIABLE,
    PLAIN_LINE,
    PLAIN_WORDS,
    PRIVATE,
    QUOTED_WORD,
    REDIRECTION,
    SIMPLE_COMMANDS,
    SIMPLE_LIST,
    SIMPLE_WORDS,
    TEST,
    TEST_WORDS,
    UNSEEN,
)
from cognition.policy._shell_words import CONTINUED
from cognition.policy._special_commands import SPECIALLY_READ, SpecialReader
from cognition.policy._wrapped_commands import WRAPPERS

LONGEST = 100_000
"""The most characters of a command line."""
MOST_GRAMMAR = 1_000
"""The most words before a bracket or a redirection."""
MOST_LOOKED_AT = 1_000
"""The most commands searched for programs that may read the input of their group."""
DEEPEST = 12
"""The most levels of commands within commands."""

REFUSED = UNSURE | SKIPPED
STRUCTURE = SKIPPED | EXPORTING | {"exec", "for"}
"""First words that concern more than their command."""
MARKS = frozenset({"<", ">", "="})
"""Names of the commands that represent a redirection or an assignment. No program has such a name."""
MOVING = frozenset({"cd", "popd", "pushd"})
"""Commands that change the meaning of relative paths."""
IN_ORDER = frozenset({"", "&&", ";", "\n"})
"""Separators beside a command that runs in the shell itself, once, after those before it."""
LONGEST_PATH = 4096
DEVICES = frozenset({"dev", "proc", ".."})
LOOPS = frozenset({"while", "until"})
CONTINUING = frozenset({"&&", "||", "|", "|&"})
"""Separators at the end of a line whose command continues in the next one."""
ENDING = frozenset({"", ";", "\n", "&"})
"""Separators before ``esac``."""
PIPES = frozenset({"|", "|&"})
READING = frozenset({"<", "<&", "<<<", "<>"})
BOTH = frozenset({"&>", "&>>"})
"""Redirections to bash; to other shells they end a command, which runs in the background."""
CONNECTIONS = ("/dev/tcp/", "/dev/udp/")
"""Files that make a shell connect to another machine, even for reading."""
NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
BREAKING = frozenset(" \t\n\\#;&|()<>0123456789")
"""First characters of tokens other than words."""
CONNECTING = frozenset("&|;\n")
"""First characters of tokens between two commands."""
EXPANDED = frozenset("$`\\<>(")
"""First characters of expansions in a word without its quotes."""
RUNNING = REFUSED | MOVING | CARRIERS.keys() | SHELLS | INLINE.keys() | AWKS | SETTING | {"eval", "find"}
"""Programs whose commands are more than their words, and those that are not read everywhere."""
NO_PROGRAMS = MARKS | GRAMMAR | {""}
SOURCING = frozenset({".", "source"})
ENVIRONMENT = re.compile(r"(?:(?!\.\./)[\w.-]+/)+bin/activate")
"""The script of a virtual environment: it puts the environment's programs before others."""
VARIABLES_FILE = re.compile(r"(?:\./)?(?:[\w-]+/)*\.env(?:\.[\w-]+)*", re.ASCII)
"""A file that sets variables."""
BY_PATH = MOVING | CARRIERS.keys() | AWKS | SETTING | {"eval", "find"}
"""Programs that their path may replace by others; the tables are about those of the shell and the system."""
OPTIONAL = frozenset("*?[-")
"""First characters of patterns of files that may match an option."""
KNOWN_OTHERWISE = RUNNING | CHECKED | RUN_FIRST | RUN_NEXT.keys() | CLOSED | WRAPPERS.keys() | NO_PROGRAMS
"""Further programs that are read in ways of their own: no function has such a name."""
SPECIAL = WRITING.keys() | SECOND_IS_WRITTEN
SHELL_SETTING = re.compile(r"[-+][Cefuvx]*o?|errexit|noclobber|noglob|nounset|pipefail|verbose|xtrace")
"""Words of ``set`` that change the meaning of no word."""
DESCRIPTOR = re.compile(r"\d+-?|-")


def read_commands(line: str) -> CommandLine:
    """Return the commands that a command line runs, as far as they can be read."""
    text = line[:LONGEST]
    reader = ShellReader(text, 0)
    reader.unsure = len(line) > LONGEST or not (line.isprintable() or _is_seen(line))
    try:
        if PLAIN_LINE.fullmatch(text) and (words := tuple(text.split(" ")))[0] not in SKIPPED:
            reader.command(words, False, 0)
        else:
            reader.commands()
    except Exception:  # what was read so far counts, also beside a mistake in this reader
        reader.unsure = True
    found = reader.found
    if reader.loops and not MOVING.isdisjoint([command.program for command in found]):
        found = [command._replace(altered=True, where=None) for command in found]  # what stands before runs behind it
    return CommandLine(tuple(found), reader.unsure, tuple(reader.mentions))


def _is_seen(line: str) -> bool:
    """Return whether a line has only visible characters, apart from line breaks and tabs."""
    return not UNSEEN.search(line) and (line.isascii() or not any(category(letter) == "Cf" for letter in line))


def _first_word(texts: Sequence[str | None], heads: Sequence[str], at: int) -> str | None:
    """Return the first word from here on that is no assignment."""
    return next((texts[place] for place in range(at, len(texts)) if not ASSIGNMENT.match(heads[place])), None)


def _are_grammar(heads: list[str]) -> bool:
    """Return whether a command only begins with these words. Ordinary lines have a few of them."""
    if not SKIPPED.issuperset(heads):
        return False
    if len(heads) > MOST_GRAMMAR:
        raise UnreadableError
    return True


def join_path(where: str, path: str) -> str | None:
    """Return a relative path from another directory; None if it leaves the root. Links are not followed."""
    if not where and path.isalnum():
        return path
    names: list[str] = []
    for name in f"{where}/{path}".split("/"):
        if name == "..":
            if not names:
                return None
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return "/".join(names)


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


class ShellReader(SpecialReader):
    """A parser of one command line, from left to right, and of the lines within it."""

    # ------------------------------------------------------------------------------------------------ between commands

    def commands(self) -> None:
        """Read the commands of the whole line."""
        simple = SIMPLE_LIST.fullmatch(self.line)
        if simple is None:
            self.commands_until("")
        else:
            self.simple_commands(SIMPLE_COMMANDS.findall(self.line) if simple[1] else [(self.line, "")])

    def simple_commands(self, commands: list[tuple[str, str]]) -> None:
        """Read the commands of a ``SIMPLE_LIST`` as ``commands_until`` does, in less time."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError
        self.list_fed, self.computed, self.splits, self.shapes = self.fed, False, False, []
        before = ""
        for command, after in commands:
            if "'" in command or '"' in command:
                words = SIMPLE_WORDS.findall(command)
                texts = [plain or single or double for plain, single, double in words]
                heads = [plain for plain, _, _ in words]
            else:
                texts = heads = command.split(" ")
            self.simple(texts, heads, None, in_order=before in IN_ORDER and after in IN_ORDER)
            self.fed, self.computed = self.list_fed or after in PIPES, False
            if self.moved and after and after != "&&":
                self.where, self.moved = None, False
            before = after

    def commands_until(self, closing: str) -> None:
        """Read commands up to the end, through the closing parenthesis, or through ``;;`` of a ``case``, which
        ``esac`` may replace.
        """
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError
        line, outside = self.line, (self.where, self.strayed, self.moved)
        pending, self.pending = self.pending, []
        input_outside = self.fed, self.list_fed, self.computed, self.splits, self.shapes
        self.list_fed, self.computed, self.splits, self.shapes = self.fed, False, False, []
        texts: list[str | None] = []
        heads: list[str] = []
        grammar: int | None = None  # how many words stand before the first redirection: only there are they grammar
        behind: int | None = None  # how many stand before `&>`: to some shells a command begins behind it
        before, grouped = "", False
        try:
            while self.at < len(line):
                at = self.at
                letter = line[at]
                if letter == " ":
                    self.at += 1
                elif letter not in BREAKING:
                    if letter == "e" and closing == ";;" and not texts and grammar is None and ESAC.match(line, at):
                        if grouped or self.pending or before not in ENDING:
                            raise UnreadableError
                        self.at -= 1  # the caller reads it
                        break
                    if (
                        letter == "c"
                        and grammar is None
                        and behind is None
                        and (case := CASE.match(line, at))
                        and _are_grammar(heads)
                    ):
                        if grouped or self.pending:
                            raise UnreadableError
                        self.at = case.end()
                        self.case()
                        texts.append("esac")
                        heads.append("esac")
                    elif plain := PLAIN_WORDS.match(line, at):
                        self.at = plain.end()
                        words = plain[1].split(" ")
                        if "case" in words[1:] and _are_grammar([*heads, *words[: (place := words.index("case", 1))]]):
                            words = words[:place]
                            self.at = at + len(" ".join(words))
                        texts += words
                        heads += words
                    elif quoted := (letter == "'" or letter == '"') and QUOTED_WORD.match(line, at):
                        self.at = quoted.end()
                        texts.append(line[at + 1 : self.at - 1])
                        heads.append("")
                    elif letter == "[" and _are_grammar(heads) and (test := TEST.match(line, at)):
                        self.at = test.end()
                        self.tests(test.group())
                    else:
                        self.word_of(texts, heads)
                    if self.pending and "\n" in line[at : self.at]:
                        raise UnreadableError
                elif letter == "\n" and before in CONTINUING and not texts and grammar is None and not grouped:
                    self.at += 1  # the command goes on in the next line
                    if self.pending:
                        self.documents()
                elif between := letter in CONNECTING and BETWEEN.match(line, at):
                    if line.startswith((";;", ";&"), at):
                        if (
                            closing != ";;"
                            or self.pending
                            or not line.startswith(";;", at)
                            or line[at + 2 : at + 3] == "&"
                        ):
                            raise UnreadableError  # of a `case`
                        self.at += 1
                        break
                    self.at = between.end() if letter != "\n" else at + 1
                    if letter == "\n" and self.pending:
                        self.documents()
                    ended, rest, texts, heads, grammar = (texts, heads, grammar), behind, [], [], None
                    after, behind = between.group().rstrip(" "), None
                    self.simple(*ended, in_order=before in IN_ORDER and after in IN_ORDER)
                    if rest is not None:
                        self.simple(ended[0][rest:], ended[1][rest:], None)
                    self.fed, self.computed, self.shapes = self.list_fed or after in PIPES, False, []
                    self.splits = False
                    if after != "&&" and self.moved:
                        self.where, self.moved = None, False  # it may have failed, or never run
                    before, grouped = after, False
                elif blank := BLANK.match(line, at):
                    self.at = blank.end()
                elif letter == "#" and (comment := COMMENT.match(line, at)):
                    self.at = comment.end()
                elif redirection := REDIRECTION.match(line, at):
                    if line[at - 1 : at] in ("}", "\n") and FOR_VARIABLE.search(line[:at].replace(CONTINUED, "")):
                        raise UnreadableError  # `{name}>file` sets a variable, and runs what its index contains
                    self.at = redirection.end()
                    grammar = len(texts) if grammar is None else grammar
                    mark = redirection.group().lstrip("0123456789")
                    if self.redirect(mark) and _are_grammar(heads) and self.runs_unknown():
                        self.mentions.append(OPEN)  # a group or a loop may have read this file
                    if mark in BOTH:
                        behind = len(texts) if behind is None else behind
                elif (
                    letter == "(" and behind is None and not grouped and (body := self.function(texts, heads, grammar))
                ):
                    texts.pop()
                    heads.pop()
                    self.at = body.end()
                elif letter == "(":
                    if line.startswith(("((", f"({CONTINUED}"), at) or not _are_grammar(heads):
                        raise UnreadableError  # arithmetic; a function or an array
                    self.at += 1
                    self.commands_until(")")
                    grouped = True
                elif letter == ")":
                    if closing != ")" or self.pending:
                        raise UnreadableError
                    break
                else:
                    self.word_of(texts, heads)
            else:
                if closing or self.pending:
                    raise UnreadableError
        except UnreadableError:
            self.simple([*texts, None], [*heads, ""], grammar)  # the command so far, with words that could not be read
            raise
        self.at += 1
        self.pending = pending
        self.simple(texts, heads, grammar, in_order=before in IN_ORDER)
        if behind is not None:
            self.simple(texts[behind:], heads[behind:], None)
        self.fed, self.list_fed, self.computed, self.splits, self.shapes = input_outside
        if closing == ";;":
            if outside != (self.where, self.strayed, self.moved):  # it may run or not, in the shell itself
                self.where, self.strayed, self.moved = None, True, False
        elif closing:
            self.where, self.strayed, self.moved = outside
        self.depth -= 1

    def function(self, texts: Sequence[str | None], heads: Sequence[str], grammar: int | None) -> re.Match[str] | None:
        """Return the beginning of a function's body, if a definition is here. It is read as if it ran here: with any
        texts as its words, more than once, and in any directory.
        """
        name = texts[-1] if texts else None
        body = FUNCTION.match(self.line, self.at)
        if name is None or body is None or grammar is not None or heads[-1] != name or not _are_grammar([*heads[:-1]]):
            return None
        if not FUNCTION_NAME.fullmatch(name) or self.pending or is_known(name, (name,)) or name in KNOWN_OTHERWISE:
            return None
        self.assigned = self.unknown_values = self.loops = self.strayed = True
        self.where, self.moved = None, False
        return body

    def unknown_pattern(self) -> None:
        """Read the commands in the words of a pattern; raises at its end."""
        while self.at < len(self.line):
            if letters := BEFORE_PATTERN.match(self.line, self.at):
                self.at = letters.end()
            self.word()

    def case(self) -> None:
        """Read a ``case`` from its word on. Each of its lists may run."""
        outside = self.computed, self.splits, self.shapes
        self.shapes = []
        self.word()
        self.computed, self.splits, self.shapes = outside
        begun = CASE_IN.match(self.line, self.at)
        if begun is None:
            raise UnreadableError
        self.at = begun.end()
        while (end := ESAC.match(self.line, self.at)) is None:
            pattern = CASE_PATTERN.match(self.line, self.at)
            if pattern is None:
                self.unknown_pattern()
                raise UnreadableError
            self.at = pattern.end()
            self.commands_until(";;")
            self.at = CASE_BLANK.match(self.line, self.at).end()  # type: ignore[union-attr]  # it matches nothing as well
        self.at = end.end()

    def tests(self, text: str) -> None:
        """Record a ``[[``. To dash that is a command, and others stand behind ``&&`` and ``||``."""
        self.found.append(Command(tuple(text.split()), "[[", carries=True))
        words: list[str | None] = []
        heads: list[str] = []
        for word in [*TEST_WORDS.findall(text), "||"]:
            if word not in ("&&", "||"):
                expands = EXPANDING.search(word) and word[0] != "'" and word != "[["
                words.append(None if expands else word.strip("'\""))
                heads.append(word)
                continue
            if words and words[0] != "[[" and heads[0][0] != "-":
                self.simple(words, heads, None)
            words, heads = [], []

    def redirect(self, mark: str) -> bool:
        """Record a redirection as a command named by its sign, with the file as its word; return whether it reads."""
        if mark == "<<":
            self.document()
            return True
        if blank := BLANK.match(self.line, self.at):
            self.at = blank.end()
        begun = self.at
        target = self.word()[0]
        if self.at == begun or (self.line.startswith("-", begun) and target != "-" and mark in (">&", "<&")):
            raise UnreadableError  # `>&-` ends at its `-`, and what follows is a command
        if mark == ">&" and target is not None and not EXPANDED.isdisjoint(target):
            raise UnreadableError  # bash expands such a word a second time, after its quotes are gone
        if target in NOWHERE:
            return False
        self.fed = self.fed or mark in READING
        if mark == "<<<":
            return True
        if target is not None and mark in (">&", "<&") and DESCRIPTOR.fullmatch(target):
            return mark == "<&"
        program = "<" if mark in ("<", "<&") else ">"
        self.found.append(Command((program, target), program, self.strayed, where=self.where))
        return mark in READING

    # ------------------------------------------------------------------------------------------------- lines within it

    def within(self, line: str) -> None:
        """Read the commands of a line within this line, in a process of its own; if that ends early, this line goes
        on.
        """
        outside = self.where, self.strayed, self.moved
        self.evaluate(line)
        self.where, self.strayed, self.moved = outside

    def evaluate(self, line: str) -> None:
        """As ``within``, in this process."""
        outer = self.line, self.at, self.depth
        input_outside = self.fed, self.list_fed, self.computed, self.splits, self.shapes, self.pending
        self.line, self.at = line, 0
        try:
            self.commands()
        except UnreadableError:
            self.unsure = True
        self.line, self.at, self.depth = outer
        self.fed, self.list_fed, self.computed, self.splits, self.shapes, self.pending = input_outside

    # -------------------------------------------------------------------------------------------------------- commands

    def simple(
        self, texts: Sequence[str | None], heads: Sequence[str], grammar: int | None, *, in_order: bool = False
    ) -> None:
        """Record the command in these words, and the commands that it carries.

        ``in_order``: whether it runs in the shell itself, after the command before it and before the next one.
        """
        try:
            if not texts or texts[0] in STRUCTURE or "=" in heads[0]:
                self.record(texts, heads, grammar)
            elif not (in_order and texts[0] == "cd" and grammar is None and self.enter(texts)):
                self.command(tuple(texts), False, self.depth)
        except UnreadableError:
            raise
        except UnsureError:
            self.unsure = True

    def record(self, texts: Sequence[str | None], heads: Sequence[str], grammar: int | None) -> None:
        """Record a command that may begin with grammar or assignments, or have no words."""
        first, last = 0, len(texts) if grammar is None else grammar
        while first < last and heads[first] in SKIPPED and texts[first] == heads[first]:
            self.loops = self.loops or heads[first] in LOOPS
            first += 1
        if self.fed and (first or texts[first : first + 1] == ["exec"]):
            self.list_fed = True  # and so are all commands of this loop or group, or of this shell
        if texts[first : first + 1] == ["for"] and heads[first] == "for" and grammar is None:
            self.loop(texts[first + 1 :])
            return
        begun, end = first, len(texts)
        reads = "read" in texts and _first_word(texts, heads, first) == "read"
        while begun < end and "=" in heads[begun] and ASSIGNMENT.match(heads[begun]):
            if not (reads and heads[begun].startswith("IFS=")):  # which then concerns this command alone
                self.setting(texts[begun], heads[begun])
            self.assign(texts[begun])
            begun += 1
        if begun < end:
            self.unknown_environment |= begun > first and self.unknown_values
            if texts[begun] in EXPORTING:
                for place in range(begun, end):
                    self.assign(texts[place])
                    if texts[place] is None:
                        self.setting(None, heads[place])
                self.exported = True
                self.unknown_environment |= self.unknown_values
            self.command(tuple(texts[begun:]), begun > first, self.depth)
        elif begun > first:
            self.found.append(Command(("=",), "=", altered=True))

    def loop(self, words: Sequence[str | None]) -> None:
        """Record the head of a ``for``: a variable, and the words that become its values."""
        name = words[0] if words else None
        if name is None or not NAME_OF_VARIABLE.fullmatch(name) or words[1:2] not in ([], ["in"]):
            raise UnreadableError
        self.loops = True
        if not PRIVATE.fullmatch(name):
            self.found.append(Command(("=",), "=", altered=True))
        for word in words[2:]:
            self.setting(None if word is None else f"{name}={word}", f"{name}=")
            self.assign(None if word is None else f"{name}={word}")

    def assign(self, text: str | None) -> None:
        """Note the value of a variable, which a later command may run."""
        self.assigned = True
        if text is None:
            self.unknown_values = self.unknown_values or self.computed or any(map(GLUED.search, self.shapes))
            self.mentions += filter(None, map(mention_of_pattern, self.shapes))
            self.unknown_environment = self.unknown_environment or self.exported
        elif "+=" in text:
            self.unknown_values = True
        elif (mention := mention_of_value(text.partition("=")[2])) is not None:
            self.mentions.append(mention)
        self.unknown_environment = self.unknown_environment or (self.exported and self.unknown_values)

    def mention(self, program: str, words: Words) -> None:
        """Note the programs that a command may run because its words name them."""
        computed = self.computed or self.unknown_values
        if self.other_programs:
            words = (f"./{words[0]}", *words[1:])
        found = mention_of(program, words, self.shapes, fed=self.fed, computed=computed, splits=self.splits)
        if program in COPYING:
            self.copied.append(words)
        if self.unknown_environment or (self.fed and (self.devices or self.copied)):
            found = None if is_known(program, words) and program in QUIET - AWKS else OPEN
        elif self.copied and "/" in (words[0] or "/"):
            self.mentions += [mention_of_copies(copied) for copied in self.copied]
        if found is not None:
            self.mentions.append(found)

    def runs_unknown(self) -> bool:
        """Return whether a program that may run code of its input has been found."""
        return len(self.found) > MOST_LOOKED_AT or not all(
            command.program in MARKS or command.program in CARRIERS or is_known(command.program, command.words)
            for command in self.found
        )

    def enter(self, texts: Sequence[str | None]) -> bool:
        """Record a change to a directory that is certainly inside the root; return False for any other."""
        path = texts[1] if len(texts) == 2 else None
        if not path or path[0] in "-/~+" or self.strayed or (self.where is None and ".." in path):
            return False
        inside = join_path(self.where or "", path)
        if inside is None or len(inside) > LONGEST_PATH:
            return False
        self.found.append(Command(tuple(texts), "cd", carries=True, where=self.where))
        self.where, self.moved = None if self.where is None else inside, True
        return True

    def setting(self, text: str | None, head: str) -> None:
        """Record the command that runs because this word sets a variable, if any."""
        found = ASSIGNMENT.match(head)
        name = found.group().rstrip("+=") if found else ""
        if name == "PATH":
            if self.loops:  # commands before it may run once more
                raise UnsureError
            self.other_programs = True
        if name in UNSURE_VARIABLES or name.startswith(UNSURE_BEGINNINGS):
            raise UnsureError
        if name == "NODE_OPTIONS" and not NODE_FLAGS.fullmatch(text or ""):
            raise UnsureError
        if name in COMMAND_VARIABLES:
            self.within(require_known(text).partition("=")[2])

    def command(self, words: Words, altered: bool, depth: int) -> None:
        """Record a command, and the commands in its arguments."""
        name = program_of(words[0])
        if depth > DEEPEST or name in NO_PROGRAMS:
            raise UnreadableError if name in GRAMMAR and depth <= DEEPEST else UnsureError
        altered = altered or self.strayed
        if name in BY_PATH and not is_of_system(words[0] or ""):  # another program of this name
            self.found.append(Command(words, name, altered, False, self.where))
            self.mention(name, words)
            if name not in CARRIERS:
                return
        if None in words and not altered:
            altered = self.may_add_options(name, words)
        if name in SPECIALLY_READ and self.special(name, words, altered, depth):
            return
        if name not in RUNNING:
            self.found.append(Command(words, name, altered, False, self.where))
            if name[:3] == "ld-" or "{" in name or "%" in name:
                raise UnsureError  # a program may be told to put something else in the place of {} or %
            if not self.runs_plainly(name, words):
                self.mention(name, words)
            if name in EVALUATING and None in words:
                self.check_evaluated(name, words)
            check_arguments(name, words)
            if name in RUN_FIRST or name in RUN_NEXT:
                self.run_next(name, words, depth)
            return
        carrier = CARRIERS.get(name)
        if carrier is None:
            self.found.append(Command(words, name, altered, False, self.where))
        if name in SOURCING and len(words) == 2 and ENVIRONMENT.fullmatch(words[1] or ""):
            self.other_programs = self.strayed = True
            return
        if name in SOURCING and len(words) == 2 and VARIABLES_FILE.fullmatch(words[1] or "") and self.is_first():
            self.found.append(Command(words[1:], program_of(words[1]), altered, carries=True, where=self.where))
            self.other_programs = self.strayed = True
            return
        if name == "set" and all(map(SHELL_SETTING.fullmatch, map(str, words[1:]))) and len(words) > 1:
            self.found[-1] = self.found[-1]._replace(carries=True)
            return
        if name in REFUSED:
            raise UnsureError
        if name in MOVING:
            self.where, self.strayed, self.moved = None, True, False
            path = words[1] if len(words) == 2 else None
            self.devices = (
                self.devices or path is None or not DEVICES.isdisjoint(path.split("/")) or path.strip("/-") == ""
            )
        elif carrier is not None:
            self.carried(name, words, altered, depth)
        elif self.devices and (name in SHELLS or name in INLINE or name in AWKS):
            raise UnsureError
        elif name in SHELLS:
            script, place = script_of(words)
            if script is not None:
                self.mention("", words[place:])
                self.within(script)
            else:  # a file, which a rule may name; what allows `sh x` allows `sh x`
                program = program_of(words[place])
                self.found.append(Command(words[place:], program, altered, carries=True, where=self.where))
                self.mention("", words[place:])
        elif name == "eval":
            line = [require_known(word) for word in words[1:]]
            self.evaluate(" ".join(line[1:] if line[:1] == ["--"] else line))
        elif name == "find":
            outside = self.where, self.strayed
            for inner, elsewhere in commands_of_find(words):
                self.where, self.strayed = (None, True) if elsewhere else outside
                self.command(inner, altered, depth + 1)
            self.where, self.strayed = outside
        else:
            self.mention(name, words)
            if name == "getopts":
                raise UnsureError  # it gives one of its words to a variable, such as PATH
            if name == "read":
                self.unknown_values = self.assigned = True
                self.unknown_environment = self.unknown_environment or self.exported
            self.strayed = self.strayed or name in SETTING
            if name == "read" and None in words:
                raise UnsureError  # an index of an array is evaluated
            check_arguments(name, words)
            for word in words[1:] if name in EXPORTING else ():
                self.setting(word, word or "")
            for word in words[1:] if name == "read" else ():
                self.setting(None, f"{word}=")

    def check_evaluated(self, name: str, words: Words) -> None:
        """Check that no word that the shell expands may become the name of a variable: an index in it is evaluated.

        Raises:
            UnsureError: one may.
        """
        unknown = self.computed or self.unknown_values
        several = self.splits and (unknown or any(one[:1] in OPTIONAL for one in self.shapes))
        if several or may_name_variable(name, words[1:], unknown=unknown, assigned=self.assigned):
            raise UnsureError

    def may_add_options(self, name: str, words: Words) -> bool:
        """Return whether the shell may put an option there by which the program writes, or runs others."""
        if name not in CHECKED and unversioned(name) not in CHECKED and name not in SPECIAL:
            return False
        if not self.splits and takes_texts(name, words, self.shapes):
            return False
        any_file = name != "git" or words[1] not in WITHOUT_OUTPUT
        return (
            self.computed
            or self.assigned
            or any("{" in one or (any_file and one[:1] in OPTIONAL) for one in self.shapes)
        )

    def run_next(self, name: str, words: Words, depth: int) -> None:
        """Record the command that a program such as ``npx`` or ``uv run`` runs. Only prohibitions are about it."""
        begun = 1 if name in RUN_FIRST else 2
        if name in RUN_FIRST or (len(words) > 1 and words[1] in RUN_NEXT[name]):
            inner = words[begun:]
            if inner and require_known(inner[0])[:1] != "-":
                place, other = len(self.found), self.other_programs
                plain = self.runs_plainly(name, words)
                if plain and inner[0] in PYTHONS and self.special(inner[0] or "", inner, True, depth + 1):
                    return
                self.other_programs = other or plain  # those of the project come first
                self.command(inner, True, depth + 1)
                self.other_programs = other
                self.found[place:] = [one._replace(carries=True) for one in self.found[place:]]

    def carried(self, name: str, words: Words, altered: bool, depth: int) -> None:
        """Record a program that runs another command, and that command."""
        place = len(self.found)
        self.found.append(Command(words, name, altered, where=self.where))
        inner, harmless = command_of(name, words)
        carries = harmless and CARRIERS[name].plain
        self.found[place] = Command(words, name, altered, carries, self.where)
        for word in words[1 : len(words) - len(inner)] if CARRIERS[name].assignments else ():
            self.setting(word, word or "")
            self.assign(word)
        if name == "time" and not harmless:  # to bash, whose keyword only knows `-p`, the option is the command
            self.found.append(Command(words[1:], program_of(words[1]), altered, where=self.where))
        if inner and inner[0] in SETTING:
            raise UnsureError
        if inner:
            self.computed = self.computed or CARRIERS[name].more  # the words that it reads
            where, self.where = self.where, self.where if harmless else None
            self.command(inner, altered or not harmless or has_assignments(words, inner), depth + 1)
            self.where = None if self.strayed else where

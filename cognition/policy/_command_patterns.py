"""Match commands with patterns such as ``git push:*`` and ``rm -rf:*``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from attrs import frozen

from cognition.policy._command import Command, Mention, Words, program_of
from cognition.policy._mentions import NAME
from cognition.policy._path_patterns import names_of
from cognition.policy._programs import LETTERS, NPM_NAMES, OPTION_VALUES, RUNS, SECOND_IS_WRITTEN, WRITING
from cognition.policy._shell import join_path, read_words
from cognition.policy._text_patterns import fits, fold_text
from cognition.policy.rule_patterns import NO, PERHAPS, YES, Pattern

FEW_LETTERS = 3
"""Letters after one ``-`` that are certainly separate options; more may be a long option with one ``-``."""
SHORTEST_NAME = 5
"""Characters, with the dashes, of a beginning that is most likely the long option itself."""
REDIRECTIONS = frozenset({"<", ">"})
_PATH = re.compile(r"[./]").search
"""Whether a word may be the path of a file: in another directory it is another file."""
_WITH_FOLDER = re.compile("/").search
NO_LETTERS: Mapping[str, str] = {}
_WRITES = {
    program: re.compile(pattern).search if program[-3:] == "awk" else re.compile(pattern).match
    for program, pattern in WRITING.items()
}
_WRITES_ARCHIVE = re.compile(r"-o|--(?:o|f|e|r)").match
SPECIAL = RUNS.keys() | _WRITES.keys() | SECOND_IS_WRITTEN


@frozen
class ParsedCommand:
    """A command as a program reads it: its options, and the other words."""

    options: frozenset[str]
    """Letters with a ``-`` each, and long options without their values."""
    whole: frozenset[str]
    """Unchanged words that begin with one ``-``."""
    operands: Words
    doubtful: frozenset[int] = frozenset()
    """Indices of operands that may be option values: they follow an option that may or may not take one."""


def parse_command(program: str, words: Iterable[str | None]) -> ParsedCommand:
    """Read the words after a program's name."""
    letters, valued = LETTERS.get(program, NO_LETTERS), OPTION_VALUES.get(program, ())
    options: set[str] = set()
    whole: set[str] = set()
    operands: list[str | None] = []
    doubtful: set[int] = set()
    may_take = False
    rest = iter(words)
    for word in rest:
        behind, may_take = may_take, False
        if word == "--":
            operands += [_operand(one) for one in rest]
        elif word is None or word[:1] != "-" or word == "-":
            if behind:
                doubtful.add(len(operands))
            operands.append(_operand(word))
        elif word in valued:
            next(rest, None)
        elif word[1] == "-":
            name, given, _ = word[2:].partition("=")
            may_take = not given
            options.add(_long(name, letters))
        else:
            whole.add(word)
            may_take = True
            options.update([f"-{letters.get(letter, letter)}" for letter in word[1:]])
    if operands and program in NPM_NAMES:
        operands[0] = NPM_NAMES[program].get(operands[0] or "", operands[0])
    return ParsedCommand(frozenset(options), frozenset(whole), tuple(operands), frozenset(doubtful))


def _with_whole_names(wanted: frozenset[str], having: frozenset[str], cut: list[str]) -> tuple[frozenset[str], int]:
    """Return a command's options with the pattern's in place of their beginnings, which most programs accept;
    ``PERHAPS`` if one of these is more likely an option of its own, as ``--force`` is beside ``--force-with-lease``.
    """
    found = YES
    for name in cut:
        for whole in wanted - having:
            if whole.startswith(name):
                having = having - {name} | {whole}
                found = PERHAPS if whole[len(name)] == "-" or len(name) < SHORTEST_NAME else found
    return having, found


def _long(name: str, letters: Mapping[str, str]) -> str:
    """Return a long option, or its letter if it has one. Programs accept the beginning of a name."""
    for known, letter in letters.items():
        if len(known) > 1 and known.startswith(name):
            return f"-{letter}"
    return f"--{name}"


def special_words(program: str, words: Iterable[str | None]) -> frozenset[str]:
    """Return the words by which a program writes a file, deletes one, or runs another program.

    A rule that allows the program does so for none of them that it does not name.
    """
    runs, writes = RUNS.get(program, ()), _WRITES.get(program)
    given = list(words)
    if program == "git" and "archive" in given:
        writes = _WRITES_ARCHIVE
    if None in given and (program == "tree" or program in SECOND_IS_WRITTEN):
        return frozenset({"\0"})  # it may be several words, and no rule names such a one
    if program in SECOND_IS_WRITTEN:
        return frozenset([word for word in given[1:] if word and (word[0] != "-" or word == "-")][1:])
    return frozenset(
        word for word in given if word is not None and (word in runs or (writes is not None and writes(word)))
    )


def _operand(word: str | None) -> str | None:
    if word is None:
        return None
    if "/" in word:
        return "/".join([fold_text(name) for name in names_of(word)[0]]) or "/"
    return fold_text(word)


def _from_root(word: str, where: str | None) -> str | None:
    """Return a word, or the path from the root if it may be a relative path; None if that is uncertain."""
    if not word or word[0] in "-/~":
        return word
    return None if where is None else join_path(where, word)


class CommandSubject:
    """A command to judge, as a ``Target``. Its ``ParsedCommand`` is computed on demand, since few rules need it."""

    __slots__ = ("_reading", "command", "keys", "silent")

    plain = True

    def __init__(self, command: Command) -> None:
        self.command = command
        self.keys = (command.program,)
        self.silent = command.carries
        self._reading: ParsedCommand | None = None

    @property
    def value(self) -> CommandSubject:
        return self

    @property
    def reading(self) -> ParsedCommand:
        if self._reading is None:
            self._reading = parse_command(self.command.program, self.command.words[1:])
        return self._reading


@frozen
class CommandPattern:
    """A pattern's argument for tools that take command lines."""

    words: tuple[str, ...]
    prefix: bool
    program: str
    reading: ParsedCommand
    options: frozenset[str]
    """The options that a command must have. Long words are also compared unchanged."""
    special: frozenset[str]
    """The result of ``special_words``."""
    path: str
    """The pattern of the program's path, if its last name is no name of a program, as in ``secrets/**``; else empty."""

    @classmethod
    def of(cls, pattern: Pattern) -> CommandPattern:
        words = words_of(pattern)
        prefix = pattern.prefix
        if words[-1] == "*" and len(words) > 1:  # `npm run *` is `npm run:*`
            words, prefix = words[:-1], True
        program = program_of(words[0])
        reading = parse_command(program, words[1:])
        path = (_operand(words[0]) or "") if "/" in words[0] and not program.strip("*") else ""
        special = special_words(program, words)
        return cls(words, prefix, program, reading, reading.options, special, path)

    @property
    def keys(self) -> tuple[str, ...]:
        """The program; empty if the pattern leaves it open."""
        return () if "*" in self.program else (self.program,)

    def prohibits(self, subject: CommandSubject | Mention) -> int:
        """Return whether the pattern matches a command in any spelling; ``PERHAPS`` if that is uncertain."""
        if isinstance(subject, Mention):
            return PERHAPS if self._is_mentioned(subject) else NO
        if subject.command.program != self.program and not _same(self.program, subject.command.program):
            return NO
        if self.path and not self._is_in_folder(_operand(subject.command.words[0]) or "", subject.command):
            return NO
        reading, unknown = subject.reading, None in subject.command.words
        wanted, having = self.options, reading.options
        found = YES
        if not wanted <= having and (cut := [name for name in having - wanted if name[:2] == "--"]):
            having, found = _with_whole_names(wanted, having, cut)
        if not (wanted <= having if self.prefix else wanted == having):
            if not unknown:
                return NO
            found = PERHAPS
        elif any(len(word) > FEW_LETTERS + 1 for word in self.reading.whole - reading.whole):
            found = PERHAPS
        met = self._operands(reading.operands, subject.command)
        if met == NO and reading.doubtful:
            met = self._operands_but_values(reading, subject.command)
        return min(found, met)

    def _is_mentioned(self, mention: Mention) -> bool:
        """Return whether a program may run a command of this pattern: it has the program's name and the operands."""
        if self.program in REDIRECTIONS or mention.open:
            return mention.open and self.program not in REDIRECTIONS
        if any(fits(glob.split("*"), self.program) for glob in mention.globs):
            return True
        words = [word for word in self.reading.operands if "*" not in (word or "*")]
        parts = [part for word in words for part in NAME.findall(word or "")] + NAME.findall(self.path)
        return all(any(_same(wanted, name) for name in mention.names) for wanted in (self.program, *parts))

    def _operands(self, having: Words, command: Command) -> int:
        wanted, found = self.reading.operands, YES
        for place, word in enumerate(wanted):
            if place >= len(having):
                return NO
            one = having[place]
            if one is None:
                return PERHAPS  # and so may be any number of words
            if place == 0 and self.program in NPM_NAMES and len(one) > 1 and (word or "").startswith(one):
                continue  # npm takes the beginning of a command's name
            found = min(found, self._operand(word or "", one, command))
        if not self.prefix and len(having) != len(wanted):
            return PERHAPS if None in having[len(wanted) :] else NO
        return found

    def _operands_but_values(self, reading: ParsedCommand, command: Command) -> int:
        """Return ``PERHAPS`` if the pattern would match with some words as option values: ``-j 4 publish``."""
        wanted, reached = self.reading.operands, {0}
        for place, word in enumerate(reading.operands):
            if self.prefix and len(wanted) in reached:
                return PERHAPS
            if word is None and reached:
                return PERHAPS
            on = {at + 1 for at in reached if at < len(wanted) and self._operand(wanted[at] or "", word or "", command)}
            reached = on | reached if place in reading.doubtful else on
        return PERHAPS if len(wanted) in reached else NO

    def _is_in_folder(self, word: str, command: Command) -> bool:
        """Return whether the path of a program is one of the pattern's, by its end if it begins outside of the root."""
        outside = word[:1] in ("/", "~") or word[:3] == "../"
        return self._operand(self.path, word, command) != NO or (outside and _same(f"*/{self.path}", word))

    def _operand(self, wanted: str, word: str, command: Command) -> int:
        """Return whether an operand matches, also as a file of the command's directory."""
        where = command.where
        if _same(wanted, word):
            return YES
        if wanted[:1] in ("/", "~") and not command.altered:
            return NO  # the directory is inside the root
        if where != "" and ("/" in wanted or "/" in word or self.program in REDIRECTIONS):
            path = _from_root(word, where)
            if path is None:
                return PERHAPS
            if _same(wanted, _operand(path) or ""):
                return YES
        outside = (word[:1] in ("/", "~") or word[:3] == "../") and _PATH(wanted) and _same(f"*/{wanted}", word)
        return PERHAPS if outside else NO  # it may be the same file

    def covers(self, subject: CommandSubject) -> bool:
        """Return whether a command is spelt as in the pattern, and nothing before it changes its effect."""
        command = subject.command
        words = command.words
        if command.altered or len(words) < len(self.words) or (len(words) > len(self.words) and not self.prefix):
            return False
        for place, (wanted, word) in enumerate(zip(self.words, words, strict=False)):
            if word is None:
                return False
            if command.where != "" and (_PATH if place else _WITH_FOLDER)(word):
                if ".." in word.split("/"):
                    return False  # the directory may be a link, and what is above it another directory
                path = _from_root(word, command.where)
                if path is None or not (_allows(wanted, path) or _allows(wanted, f"./{path}")):
                    return False
            elif wanted != word and not _allows(wanted, word):
                return False
        special = special_words(command.program, words) if command.program in SPECIAL else ()
        return self.special.issuperset(special)


def words_of(pattern: Pattern) -> tuple[str, ...]:
    """Return the words of a pattern; if it is not one command, split it at spaces."""
    return read_words(pattern.argument) or tuple(pattern.argument.split())


def _allows(wanted: str, word: str) -> bool:
    """Return whether a word of an allowance stands for this word. A star is neither an option nor the way up."""
    if wanted == word:
        return True
    if "*" not in wanted or (wanted[0] == "*" and word[:1] == "-"):
        return False
    return (".." not in word.split("/") or ".." in wanted.split("/")) and fits(wanted.split("*"), word)


def _same(wanted: str, word: str) -> bool:
    return wanted == word or ("*" in wanted and fits(wanted.split("*"), word))

"""Read the words of a command line: quotes, escapes and expansions."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from cognition.policy._command import Command, Mention, UnreadableError, Words
from cognition.policy._mentions import EXPANSION, is_of_system
from cognition.policy._programs import PREDICTABLE, PREDICTABLE_LINES, WRITING_NOTHING
from cognition.policy._shell_tokens import (
    CUT_VARIABLE,
    ESCAPES,
    LITERAL,
    PLACES,
    PLAIN,
    PLAIN_IN_QUOTES,
    PLAIN_PATH,
    SUM,
    TAKEN,
    TILDE,
    VARIABLE,
)

CONTINUED = "\\\n"
PREDICTABLE_LINE = re.compile(PREDICTABLE_LINES)
ENDING = frozenset(" \t\n;&|()")
"""Characters that end a word. Redirection signs also do, unless a parenthesis follows."""

Word = tuple[str | None, str]
"""A word without quotes and escapes (None if the shell would expand it), and its unquoted beginning.

The beginning identifies assignments and words of the grammar.
"""


class WordReader(ABC):
    """The state of a parser of one command line, and its part for single words."""

    fed = False
    """Whether the next command reads the output of another one, or a file."""
    list_fed = False
    """Whether all commands of this list do."""
    computed = False
    """Whether one of the next command's words has the output of another command."""
    splits = False
    """Whether one of them may become several words, or none."""
    assigned = False
    """Whether this line has given a value to a variable."""
    unknown_values = False
    """Whether a variable may have any text as its value."""
    exported = False
    """Whether variables that are set from here on may be in the environment of programs."""
    unknown_environment = False
    """Whether programs may find a variable with any text there."""
    other_programs = False
    """Whether a name may be another program than that of the tables, since ``PATH`` has changed."""
    where: str | None = ""
    """As in ``Command``, for the next command."""
    strayed = False
    """Whether the next command may run outside of the root, or with other variables."""
    devices = False
    """Whether it may run in a folder such as /dev, where a relative file may be its input."""
    moved = False
    """Whether one of the commands joined by ``&&`` has entered a directory."""
    loops = False
    """Whether a command may run more than once."""

    def __init__(self, line: str, depth: int, *, stars: bool = False) -> None:
        self.line, self.depth, self.stars = line, depth, stars
        self.at = 0
        self.unsure = False
        self.found: list[Command] = []
        self.mentions: list[Mention] = []
        self.copied: list[Words] = []
        """The commands that have given a file another name."""
        self.pending: list[tuple[str, bool, bool]] = []
        """The here-documents that begin at the next line: the last line of each, whether shells expand nothing in it,
        and whether they drop the tabs before its lines.
        """
        self.shapes: list[str] = []
        """The words of the next command that the shell would expand, with ``EXPANSION`` in place of each expansion."""

    @abstractmethod
    def commands_until(self, closing: str) -> None:
        """Read the commands of a substitution, through its closing parenthesis."""

    @abstractmethod
    def within(self, line: str) -> None:
        """Read the commands of a line within this line."""

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
                    fed, self.fed = self.fed, self.fed or letter == ">"
                    self.commands_until(")")
                    self.fed = fed
                    pieces.append(EXPANSION)
                    known, self.computed = False, True
                    continue
                break
            elif letter == "'":
                end = line.find("'", self.at + 1)
                if end < 0:
                    raise UnreadableError
                pieces.append(line[self.at + 1 : end])
                self.at = end + 1
            elif letter == '"':
                self.at += 1
                known &= self.double_quotes(pieces)
            elif letter == "\\":
                pieces.append(self.escape())
            elif letter in "$`":
                if not self.expansion(pieces, quoted=False):
                    known, self.splits = False, True
            else:
                if not self.stars and letter in "*?[{" and not LITERAL.match(line, self.at):
                    known, self.splits = False, True
                elif letter == "~" and TILDE.match(line, self.at):  # a directory that the line may have chosen
                    known, self.computed = False, True
                pieces.append(letter)
                self.at += 1
        if self.at == begun and self.at < len(line):
            raise UnreadableError  # a bracket or an operator where a word should be
        text = "".join(pieces)
        if not known:
            self.shapes.append(text)
        if line[begun : self.at] == text:
            return (text if known else None), text
        # A line that is continued is one line before the shell looks for anything else in it.
        head = PLAIN.match(line[begun : self.at].replace(CONTINUED, ""))
        return (text if known else None), head.group() if head and "=" in head.group() else ""

    def escape(self) -> str:
        letter = self.line[self.at + 1 : self.at + 2]
        if not letter:
            raise UnreadableError
        self.at += 2
        return "" if letter == "\n" else letter

    def double_quotes(self, pieces: list[str], *, document: bool = False) -> bool:
        """Read the rest of a text in double quotes, or a here-document; return whether the shell expands nothing in
        it.
        """
        line, known = self.line, True
        while self.at < len(line):
            letter = line[self.at]
            if plain := PLAIN_IN_QUOTES.match(line, self.at):
                pieces.append(plain.group())
                self.at = plain.end()
            elif letter == '"':
                self.at += 1
                if not document:
                    return known
            elif letter == "\\":
                if line[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                    pieces.append(self.escape())
                else:
                    pieces.append("\\")
                    self.at += 1
            else:
                known &= self.expansion(pieces, quoted=True)
        if not document:
            raise UnreadableError
        return known

    def expansion(self, pieces: list[str], *, quoted: bool) -> bool:
        """Read an expansion after ``$`` or a backtick; return whether it is only that character."""
        line, at = self.line, self.at
        if line[at] == "`":
            end = line.find("`", at + 1)
            inner = line[at + 1 : end]
            if end < 0 or "\\" in inner:
                raise UnreadableError
            place = len(self.found)
            self.within(inner)
            self.at = end + 1
            pieces.append(self.output_of(place))
            return False
        if sum_ := SUM.match(line, at):
            self.at = sum_.end()
            pieces.append(EXPANSION)
            return False
        if cut := CUT_VARIABLE.match(line, at):
            self.at = cut.end()
            self.computed = self.computed or self.assigned or self.is_taken(cut[1])
            pieces.append(f"{EXPANSION}{cut[2]}")
            return False
        if not quoted and (escapes := ESCAPES.match(line, at)):  # to dash a text behind a dollar sign
            self.at = escapes.end()
            pieces.append(EXPANSION)
            return False
        if line.startswith(("$((", "$[", f"${CONTINUED}", f"$({CONTINUED}"), at):
            raise UnreadableError
        if line.startswith("$(", at):
            self.at, place = at + 2, len(self.found)
            self.commands_until(")")
            pieces.append(self.output_of(place))
            return False
        if variable := VARIABLE.match(line, at):
            self.at = variable.end()
            self.computed = self.computed or self.is_taken(variable.group().strip("${}"))
            pieces.append(EXPANSION)
            return False
        if line.startswith("${", at) or (not quoted and line[at + 1 : at + 2] in ("'", '"')):
            raise UnreadableError
        pieces.append("$")
        self.at = at + 1
        return True

    def is_taken(self, name: str) -> bool:
        """Return whether the line itself decides a variable of the shell."""
        moved = self.strayed or self.where is None or not PLAIN_PATH.fullmatch(self.where)
        return name in TAKEN or (name in PLACES and moved)

    def output_of(self, place: int) -> str:
        """Return the text in a word for the output of the commands found from here on."""
        programs = {command.program for command in self.found[place:]}
        if self.other_programs or not all(is_of_system(command.words[0] or "") for command in self.found[place:]):
            self.computed = True
        elif programs == {"nproc"}:
            return "1"
        self.computed = self.computed or not (PREDICTABLE.issuperset(programs) or self.is_predictable(place))
        return EXPANSION

    def is_predictable(self, place: int) -> bool:
        """Return whether the commands from here on print what this line can't have chosen."""
        if self.loops or self.copied or self.assigned or self.list_fed:
            return False
        if [command.words for command in self.found[place:]] == [("pwd",)]:
            return not self.strayed and self.where is not None and PLAIN_PATH.fullmatch(self.where) is not None
        return all(
            PREDICTABLE_LINE.fullmatch(" ".join(map(str, command.words)))
            or (number < place and command.program in WRITING_NOTHING)
            for number, command in enumerate(self.found)
        )

"""Read here-documents, and commands that are known well: with harmless arguments, or around another command."""

from __future__ import annotations

import re
from abc import abstractmethod

from cognition.policy._closed_arguments import CLOSED, is_closed
from cognition.policy._command import Command, UnreadableError, UnsureError, Words
from cognition.policy._mentions import EXPANSION, OPEN, is_of_system
from cognition.policy._nested_commands import require_known
from cognition.policy._programs import RUNS_PLAINLY, WRITING_NOTHING
from cognition.policy._shell_tokens import BLANK
from cognition.policy._shell_words import WordReader
from cognition.policy._wrapped_commands import WRAPPERS, Wrapper, wrapped_command

MOUNT = re.compile(rf"{EXPANSION}[\w./-]*:/[\w./:-]*", re.ASCII)
SPECIALLY_READ = CLOSED | WRAPPERS.keys()


class SpecialReader(WordReader):
    """The part of a parser of one command line for these commands."""

    @abstractmethod
    def command(self, words: Words, altered: bool, depth: int) -> None:
        """Record a command, and the commands in its arguments."""

    # --------------------------------------------------------------------------------------------------- here-documents

    def document(self) -> None:
        """Read the head of a here-document: the text of its last line."""
        tabs = self.line.startswith("-", self.at)
        self.at += tabs
        if blank := BLANK.match(self.line, self.at):
            self.at = blank.end()
        begun = self.at
        last = self.word()[0]
        if self.at == begun or last is None or "\n" in self.line[begun : self.at]:
            raise UnreadableError
        self.fed = True
        self.pending.append((last, self.line[begun : self.at] != last, tabs))

    def documents(self) -> None:
        """Read the here-documents that begin at this line, and the commands within them."""
        pending, self.pending = self.pending, []
        for last, literal, tabs in pending:
            lines: list[str] = []
            while True:
                if self.at >= len(self.line):
                    raise UnreadableError  # the last line is missing
                end = self.line.find("\n", self.at)
                end = len(self.line) if end < 0 else end
                text = self.line[self.at : end]
                self.at = end + 1
                bare = text.lstrip("\t") if tabs else text
                if bare == last:
                    break
                if bare.startswith(last):
                    raise UnreadableError  # within a substitution, bash may end the document in this line
                if text.endswith("\\") and not literal:
                    raise UnreadableError  # the next line is a part of this one, and may look like the last one
                lines.append(text)
            if not literal:
                self.expand("\n".join(lines))

    def expand(self, text: str) -> None:
        """Read the commands in a here-document."""
        outer = self.line, self.at
        self.line, self.at = text, 0
        self.double_quotes([], document=True)
        self.line, self.at = outer

    # ------------------------------------------------------------------------------------------------- special commands

    def special(self, name: str, words: Words, altered: bool, depth: int) -> bool:
        """Record a command that certainly runs nothing, or only the command in its words; return False for others."""
        if self.other_programs or not is_of_system(words[0] or ""):
            return False
        if name in CLOSED and self.is_untouched() and is_closed(name, words, fed=self.fed):
            self.found.append(Command(words, name, altered, False, self.where))
            return True
        wrapped = wrapped_command(name, self.with_mounts(words)) if name in WRAPPERS else None
        if wrapped is None:
            return False
        form, inner = wrapped
        if form.runs:
            self.runs_elsewhere(name, words, inner, altered, depth)
            return True
        self.found.append(Command(words, name, altered, False, self.where))
        place = len(self.found)
        self.run_wrapped(form, inner, depth)
        self.found[place:] = [one._replace(altered=True) for one in self.found[place:]]
        return True

    def with_mounts(self, words: Words) -> Words:
        """Return words with a path in place of each ``"$PWD":/path`` that this line can't have chosen."""
        if len(self.shapes) != words.count(None) or self.splits or self.computed or self.assigned:
            return words
        rest = iter(self.shapes)
        texts = [next(rest) if word is None else word for word in words]
        return tuple(
            [
                text.replace(EXPANSION, "_") if MOUNT.fullmatch(text) else word
                for text, word in zip(texts, words, strict=True)
            ]
        )

    def is_first(self) -> bool:
        """Return whether nothing before the next command gives it an input, or may have written a file."""
        before = self.found[:-1]
        return (
            self.is_untouched()
            and not (self.fed or self.loops)
            and all(command.program in WRITING_NOTHING for command in before)
        )

    def is_untouched(self) -> bool:
        """Return whether this line has changed nothing that a program reads beside its arguments and its input."""
        return not (self.assigned or self.unknown_environment or self.copied or self.devices)

    def run_wrapped(self, form: Wrapper, inner: Words, depth: int) -> None:
        """Record the command that a wrapper runs."""
        outside = self.where, self.strayed
        if form.elsewhere:
            self.where, self.strayed = None, True
        if form.joined:
            self.within(" ".join(map(require_known, inner)))
        elif form.lines:
            for line in inner:
                self.within(require_known(line))
        else:
            self.command(inner, True, depth + 1)
        self.where, self.strayed = outside

    def runs_elsewhere(self, name: str, words: Words, inner: Words, altered: bool, depth: int) -> None:
        """Record a command that runs in a container. Only prohibitions are about it.

        If it is uncertain what it runs there, it may be any program.
        """
        place, unsure, outside = len(self.found), self.unsure, (self.where, self.strayed)
        self.found.append(Command(words, name, altered, False, self.where))
        self.where, self.strayed, self.unsure = None, True, False
        try:
            self.command(inner, True, depth + 1)
        except UnsureError:
            self.unsure = True
        if self.unsure:
            self.mentions.append(OPEN)
        self.found[place + 1 :] = [one._replace(carries=True) for one in self.found[place + 1 :]]
        self.unsure, self.where, self.strayed = unsure, *outside

    def runs_plainly(self, name: str, words: Words) -> bool:
        """Return whether a program only runs the command behind its ``run``, and no shell reads that."""
        if name not in RUNS_PLAINLY or len(words) < 3 or words[1] != "run" or self.other_programs:
            return False
        return is_of_system(words[0] or "") and words[2] is not None and words[2][:1] != "-"

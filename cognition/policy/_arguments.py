"""Reject valid pattern arguments that can never match, once the tool is known."""

from __future__ import annotations

from cognition.base.errors import ConfigError
from cognition.policy._command_patterns import CommandPattern, CommandSubject, words_of
from cognition.policy._nested_commands import ASSIGNMENT
from cognition.policy._programs import GRAMMAR, SKIPPED
from cognition.policy._shell import read_commands, read_words
from cognition.policy._shell_tokens import REDIRECTION
from cognition.policy.rule_patterns import NO, Pattern

DIRECTIONS = (">", "<")
"""The commands that represent redirections, with the file as their word."""


def check_command(pattern: Pattern) -> None:
    """Check that an argument for a command line tool is the words of one command.

    Raises:
        ConfigError: it is not, it begins with a variable, another redirection sign or a word of the shell's grammar, or
            it does not match its own text.
    """
    words = read_words(pattern.argument)
    if not words:
        raise ConfigError(
            f"rule pattern with the argument {pattern.argument!r}: it is for one command, without ';', "
            "'|', '&', brackets or open quotes; write a rule for each command, such as "
            f"'{pattern.name}({words_of(pattern)[0].strip(';|&')}:*)'"
        )
    if ASSIGNMENT.match(words[0]):
        named = [word for word in words if not ASSIGNMENT.match(word)] or ["env"]
        raise ConfigError(
            f"rule pattern with the argument {pattern.argument!r}: a variable is no part of the command "
            f"that it is set for; write '{pattern.name}({' '.join(named)}:*)'"
        )
    if REDIRECTION.fullmatch(words[0]) and words[0] not in DIRECTIONS:
        sign = DIRECTIONS["<" in words[0]]
        argument = " ".join((sign, *words[1:]))
        raise ConfigError(
            f"rule pattern with the argument {pattern.argument!r}: however a file is written or read, its sign is "
            f"'>' or '<' here; write '{pattern.name}({argument}{':*' if pattern.prefix else ''})'"
        )
    if words[0] in SKIPPED or words[0] in GRAMMAR:
        raise ConfigError(
            f"rule pattern with the argument {pattern.argument!r}: {words[0]!r} is a word of the shell's grammar and "
            "no command; write a rule for the command behind it"
        )
    itself, (commands, unsure, _) = CommandPattern.of(pattern), read_commands(pattern.argument)
    if not unsure and all(itself.prohibits(CommandSubject(command)) == NO for command in commands):
        read = " ".join(word or "*" for word in commands[0].words)
        raise ConfigError(
            f"rule pattern with the argument {pattern.argument!r}: it would never match, since such a line is read as "
            f"the command {read!r}; write '{pattern.name}({read}{':*' if pattern.prefix else ''})'"
        )

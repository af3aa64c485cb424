"""Arguments of patterns that can be read and would never match: they are refused where the tool is known."""

from __future__ import annotations

from cognition.errors import ConfigError
from cognition.policy.carrying import ASSIGNMENT
from cognition.policy.commands import words_of
from cognition.policy.patterns import Pattern
from cognition.policy.shell import read_words


def check_command(pattern: Pattern) -> None:
    """See that an argument for a tool of command lines is the words of one command.

    Raises:
        ConfigError: it is not, or begins with a variable.
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

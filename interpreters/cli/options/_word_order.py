"""The order of options and words on a command line: any order means the same.

argparse fills an optional word (``nargs="?"`` or ``"*"``) with nothing as soon as an option follows the words before
it, and then refuses the word behind the option: ``cogstep resume FILE --model M "And now?"``. An option whose value may
be missing takes the next word, even if the command then lacks it: ``cogstep context --prompt --model FILE``. With all
options in front of all words, and ``--`` between them, neither happens.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

NUMBER = re.compile(r"-\d+|-\d*\.\d+")


def options_first(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the options, and their values, in front of ``--`` and the words.

    A command line with an error is returned unchanged, so that the error is reported as it was written: an unknown
    option, an option without its value.
    """
    needed = sum(action.nargs is None and not action.option_strings for action in parser._actions)
    for greedy in (True, False):
        split = _split(parser, arguments, greedy)
        if split is None:
            break
        options, words = split
        if len(words) >= needed:
            return [*options, "--", *words] if words else options
    return list(arguments)


def _split(
    parser: argparse.ArgumentParser, arguments: Sequence[str], greedy: bool
) -> tuple[list[str], list[str]] | None:
    """Return the options with their values, and the words; None if there is an error.

    Args:
        greedy: whether an option whose value may be missing takes the next word.
    """
    options: list[str] = []
    words: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return options, [*words, *rest]
        if not _is_option(argument):
            words.append(argument)
            continue
        options.append(argument)
        action = parser._option_string_actions.get(argument.partition("=")[0])
        if action is None:
            return None
        if "=" in argument:
            continue
        least, most = _number_of_values(action, greedy)
        while rest and most and rest[0] != "--" and not _is_option(rest[0]):
            options.append(rest.pop(0))
            least, most = least - 1, most - 1
        if least > 0:
            return None
    return options, words


def _is_option(argument: str) -> bool:
    """Whether an argument looks like an option to argparse: ``-`` alone is standard input, and ``-1`` a number."""
    if len(argument) < 2 or argument[0] != "-" or NUMBER.fullmatch(argument):
        return False
    return " " not in argument.partition("=")[0]


def _number_of_values(action: argparse.Action, greedy: bool) -> tuple[int, int]:
    """Return the least and the largest number of values that an option takes."""
    if action.nargs == "?":
        return 0, int(greedy)
    count = action.nargs if isinstance(action.nargs, int) else 1
    return count, count

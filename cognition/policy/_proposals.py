"""Propose patterns for a "from now on" answer: few, narrow, each covering the call in question."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cognition.base.errors import ConfigError
from cognition.policy._command import Command, unversioned
from cognition.policy._nested_commands import READS_OTHERS
from cognition.policy._path_patterns import Names, Path, leads_out
from cognition.policy._programs import CARRIERS, INLINE, SHELLS, SUBCOMMANDS, UNSURE
from cognition.policy._remembered import remembered_rule
from cognition.policy._shell_tokens import PLAIN
from cognition.policy._targets import Target, targets_of
from cognition.values.messages import ToolCall
from cognition.values.tools import ToolSpec

RUNNING = frozenset({"run", "run-script"})
"""Subcommands of a package manager after which the next word names the script."""

FAR_REACHING = frozenset(
    """
    aws az chgrp chmod chown cp curl dd doas fdisk gcloud kill killall ln mkfs mount mv passwd pkill reboot rm rmdir
    ansible celery coverage file iconv java logsave m4 mail ninja openssl ptx rails rename rsync scp sftp shred shuf
    shutdown tee terraform top truncate umount useradd userdel vagrant wget xxd
    """.split()
)
"""Programs that do harm with some words and not with others; only the whole command is proposed for them."""
FAR_REACHING_COMMANDS = frozenset(
    """
    archive bisect clone compose config daemon difftool exec filter-branch instaweb mergetool rebase sh shell submodule
    """.split()
)
"""Subcommands of programs that do so."""
NEVER = SHELLS | CARRIERS.keys() | INLINE.keys() | UNSURE | FAR_REACHING | {"eval", "find", "awk", "gawk", "sed"}
WORD = re.compile(r"[A-Za-z][\w:.-]*", re.ASCII)
LONGEST = 300
"""The most characters of a pattern that a user still reads before agreeing."""


def proposed_rules(call: ToolCall, tool: ToolSpec) -> tuple[str, ...]:
    """Return patterns for "from now on", the narrowest first; the last is the whole tool.

    - For a command: the command itself, and the words that describe its action (``Bash(git commit:*)``). The latter is
      omitted if the program runs others or can do harm with other words.
    - For paths: a single path, and the directory (``Write(src/**)``).

    Each pattern covers this call, as policy reads it. A call that can't be read with certainty gets only the tool.
    """
    offered: list[str] = []
    subjects = targets_of(call, tool)
    if not subjects.unsure:
        spoken = [subject for subject in subjects.found if not subject.silent]
        arguments = {"command": _of_command, "path": _of_paths, "text": _of_nothing}[subjects.sort](spoken)
        for argument in arguments:
            text = f"{tool.name}({argument})"
            if len(text) <= LONGEST and text not in offered and _is_good(text, call, tool):
                offered.append(text)
    return (*offered, tool.name)


def _is_good(text: str, call: ToolCall, tool: ToolSpec) -> bool:
    try:
        remembered_rule("allow", text, call, tool)
    except ConfigError:
        return False
    return True


def _of_nothing(_subjects: list[Target]) -> Iterator[str]:
    """Propose nothing: the same text may occur with a different number in another argument."""
    yield from ()


def _of_command(subjects: list[Target]) -> Iterator[str]:
    """Yield the whole command, and its beginning."""
    if len(subjects) != 1:
        return
    command: Command = subjects[0].value.command
    words = [word for word in command.words if word is not None and "*" not in word and word]
    if len(words) != len(command.words) or command.altered:
        return
    yield " ".join(map(_quote, words))
    beginning = _beginning(command.program, words)
    if beginning:
        yield f"{' '.join(beginning)}:*"


def _quote(word: str) -> str:
    return word if PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def _beginning(program: str, words: list[str]) -> list[str]:
    """Return the words that describe a command's action; empty if a few words are not enough, as they would cover too
    many of a program's actions.
    """
    if program in NEVER or unversioned(program) in NEVER or not PLAIN.fullmatch(words[0]):
        return []
    if program not in SUBCOMMANDS:
        return [] if program in READS_OTHERS else words[:1]
    count = 1 + SUBCOMMANDS[program]
    if words[1:2] and (words[1] in RUNNING or words[1] == "compose"):
        count += 1
    said = words[:count]
    if said[-1] in FAR_REACHING_COMMANDS:
        return []
    return said if len(said) == count and all(map(WORD.fullmatch, said[1:])) else []


def _of_paths(subjects: list[Target]) -> Iterator[str]:
    """Yield a single path, and the directory of all paths."""
    paths: list[Path] = [subject.value for subject in subjects]
    if not paths or any("*" in name for path in paths for name in path.names):
        return
    if len(paths) == 1:
        yield "/".join(paths[0].names)
    shared = _common_names([path.names[:-1] for path in paths])
    if shared and not leads_out(shared[-1]):
        yield f"{'/'.join(shared)}/**"


def _common_names(ways: list[Names]) -> Names:
    count = 0
    for names in zip(*ways, strict=False):
        if len(set(names)) > 1:
            break
        count += 1
    return ways[0][:count]

"""Patterns to offer where the user says "from now on": few, narrow, and each of them covers the call in question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cognition.errors import ConfigError
from cognition.messages import ToolCall
from cognition.policy.answering import remembered_rule
from cognition.policy.carrying import READS_OTHERS
from cognition.policy.paths import Names, Path, leads_out
from cognition.policy.programs import CARRIERS, INLINE, SHELLS, UNSURE
from cognition.policy.shell import PLAIN
from cognition.policy.subjects import Subject, subjects_of
from cognition.policy.words import Command
from cognition.tools import ToolSpec

SUBCOMMANDS: Mapping[str, int] = {
    **dict.fromkeys(
        """
        apt apt-get brew bundle cargo composer conda dotnet gh git go gradle helm just make mix mvn pip pip3 poetry
        rustup stack swift systemctl tox
        """.split(),
        1,
    ),
    **dict.fromkeys(("docker", "kubectl", "npm", "pnpm", "podman", "uv", "yarn"), 1),
}
"""Programs whose next words say what they do, and how many: without these a beginning would be for all that they do."""
RUNNING = frozenset({"run", "run-script"})
"""Of a package manager: the word behind it says what is run."""

FAR_REACHING = frozenset(
    """
    aws az chgrp chmod chown cp curl dd doas fdisk gcloud kill killall ln mkfs mount mv passwd pkill reboot rm rmdir
    rsync scp sftp shred shutdown tee terraform truncate umount useradd userdel wget
    """.split()
)
"""Programs that do harm with some words and none with others: nothing shorter than the whole command is offered."""
NEVER = SHELLS | CARRIERS.keys() | INLINE.keys() | UNSURE | FAR_REACHING | {"eval", "find", "awk", "gawk", "sed"}
WORD = re.compile(r"[A-Za-z][\w:.-]*", re.ASCII)
VERSION = re.compile(r"[\d.-]+$")
"""What an interpreter's name may end with."""
LONGEST = 300
"""Characters of a pattern that somebody still reads before they say yes to it."""


def proposed_rules(call: ToolCall, tool: ToolSpec) -> tuple[str, ...]:
    """Patterns for "from now on", the narrowest first; the last one is the whole tool.

    Of one command: the command, and the words that say what it does (``Bash(git commit:*)``), where a program is none
    that runs others or does harm with the right words. Of paths: the one path, and its directory (``Write(src/**)``).
    Each covers this very call, as policy reads it; of a call that can't be read for certain there is the tool alone.
    """
    offered: list[str] = []
    subjects = subjects_of(call, tool)
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


def _of_nothing(_subjects: list[Subject]) -> Iterator[str]:
    """A text says too little: the same one may stand beside another number."""
    yield from ()


def _of_command(subjects: list[Subject]) -> Iterator[str]:
    """The command in one piece, and its beginning."""
    if len(subjects) != 1:
        return
    command: Command = subjects[0].value.command
    words = [word for word in command.words if word is not None and "*" not in word and word]
    if len(words) != len(command.words) or command.assigned:
        return
    yield " ".join(map(_quoted, words))
    beginning = _beginning(command.program, words)
    if beginning:
        yield f"{' '.join(beginning)}:*"


def _quoted(word: str) -> str:
    return word if PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def _beginning(program: str, words: list[str]) -> list[str]:
    """The words that say what a command does; none where that can't be said in few."""
    if program in NEVER or VERSION.sub("", program) in NEVER or not PLAIN.fullmatch(words[0]):
        return []
    if program not in SUBCOMMANDS:
        return [] if program in READS_OTHERS else words[:1]
    count = 1 + SUBCOMMANDS[program]
    if words[1:2] and words[1] in RUNNING:
        count += 1
    said = words[:count]
    return said if len(said) == count and all(map(WORD.fullmatch, said[1:])) else []


def _of_paths(subjects: list[Subject]) -> Iterator[str]:
    """The path, and the directory that it is in; of several paths the directory that all are in."""
    paths: list[Path] = [subject.value for subject in subjects]
    if not paths or any("*" in name for path in paths for name in path.names):
        return
    if len(paths) == 1:
        yield "/".join(paths[0].names)
    shared = _shared([path.names[:-1] for path in paths])
    if shared and not leads_out(shared[-1]):
        yield f"{'/'.join(shared)}/**"


def _shared(ways: list[Names]) -> Names:
    """The names with which all of them begin."""
    count = 0
    for names in zip(*ways, strict=False):
        if len(set(names)) > 1:
            break
        count += 1
    return ways[0][:count]

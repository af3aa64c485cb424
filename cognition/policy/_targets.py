"""Extract from a call the subjects that rules' arguments are compared with: its commands, paths or texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from cognition.policy._command import Mention
from cognition.policy._command_patterns import CommandSubject
from cognition.policy._path_patterns import read_path
from cognition.policy._shell import read_commands
from cognition.policy._text_patterns import compose_text, fold_text, keys_of
from cognition.policy.rules import PATH_ARGUMENTS, Sort
from cognition.values.messages import ToolCall
from cognition.values.tools import ToolSpec

HEAD = re.compile(r"(?:---|\+\+\+|rename from|rename to|copy from|copy to) (.*)")
GIT = "diff --git "
DIFF = re.compile(r"diff |--- |\+\+\+ |Index: |From |#|\s")
"""The beginning of a text that is a diff, and no path."""

PREFIXED = re.compile(r"[abciow]/(.+)", re.DOTALL)
"""git's prefixes: ``a/`` and ``b/``, and those of ``diff.mnemonicPrefix``."""

NOTHING = "/dev/null"


class Target(Protocol):
    """A command, path or text of a call."""

    @property
    def value(self) -> Any:
        """What patterns of its sort are compared with."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys to look up patterns with."""

    @property
    def plain(self) -> bool:
        """Whether these keys find all patterns that can match it."""

    @property
    def silent(self) -> bool:
        """Whether an allow rule need not cover it."""


class Subject:
    """Any other target than a command."""

    __slots__ = ("keys", "plain", "value")

    silent = False

    def __init__(self, value: Any, keys: tuple[str, ...], *, plain: bool = True) -> None:
        self.value = value
        self.keys = keys
        self.plain = plain


class Targets:
    """The subjects of a call."""

    __slots__ = ("found", "mentions", "sort", "unsure")

    def __init__(self, sort: Sort, found: list[Target], unsure: bool, mentions: Sequence[Mention] = ()) -> None:
        self.sort = sort
        self.found = found
        self.unsure = unsure
        """Whether there may be more subjects."""
        self.mentions = mentions
        """Further programs that the commands may run. Only deny and ask rules are compared with them."""


def targets_of(call: ToolCall, tool: ToolSpec) -> Targets:
    """Return the subjects of any call, valid or not."""
    paths = paths_of(tool) if not tool.command else ()
    sort: Sort = "command" if tool.command else "path" if paths else "text"
    try:
        arguments = call.arguments
        if sort == "command":
            return _commands(arguments.get(tool.command))
        if sort == "path":
            return _paths([arguments[name] for name in paths if arguments.get(name) is not None])
        return Targets(
            "text", [Subject((text, fold := fold_text(text)), keys_of(fold)) for text in _texts(arguments)], False
        )
    except Exception:  # whatever can't be read is a doubt: a call, or a mistake in a reader of ours
        return Targets(sort, [], True)


def paths_of(tool: ToolSpec) -> tuple[str, ...]:
    """Return the names of a tool's path arguments."""
    if tool.paths:
        return tool.paths
    properties = tool.parameters.get("properties")
    return tuple([name for name in properties if name in PATH_ARGUMENTS]) if isinstance(properties, dict) else ()


def _commands(line: object) -> Targets:
    if not isinstance(line, str):
        return Targets("command", [], True)
    commands, unsure, mentions = read_commands(line)
    return Targets("command", [CommandSubject(command) for command in commands], unsure, mentions)


def _paths(values: list[Any]) -> Targets:
    found: list[Target] = []
    unsure = False
    texts: list[str] = []
    for text in _texts(values) if values else (".",):
        if "\n" not in text:
            texts.append(text)
            continue
        named, more = diff_paths(text)
        texts += named or [text]
        unsure = unsure or more
        if named and not DIFF.match(text):  # a file may have such a name, too
            texts.append(text)
    for text in texts:
        path = read_path(text)
        if path is None:
            unsure = True
        else:
            found.append(Subject(path, path.keys, plain=path.plain))
    return Targets("path", found, unsure or (bool(values) and not found))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield compose_text(value)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def diff_paths(text: str) -> tuple[list[str], bool]:
    """Return every path that any reader could find in a header of the diff, and whether there may be more.

    A file line that looks like a header counts as a header. Names quoted by git are not read.
    """
    found: dict[str, None] = {}
    more = False
    for line in text.split("\n"):
        for name in _paths_in_line(line.rstrip("\r")):
            if name.startswith('"'):
                more = True
            elif name.partition("\t")[0] != NOTHING:
                found.update(dict.fromkeys(_readings(name)))
    return list(found), more or not found


def _paths_in_line(line: str) -> Iterator[str]:
    head = HEAD.match(line)
    if head is not None:
        yield head[1]
    elif line.startswith(GIT):  # names a file twice; of a rename further lines say both names
        names = line[len(GIT) :]
        half = len(names) // 2
        if names.startswith('"') or names[half + 1 :] == names[:half] or names[half + 3 :] == names[2:half]:
            yield from (names[:half], names[half + 1 :])


def _readings(name: str) -> Iterator[str]:
    for reading in dict.fromkeys((name, name.partition("\t")[0], name.partition("\t")[0].rstrip())):
        if reading:
            yield reading
            prefixed = PREFIXED.fullmatch(reading)
            if prefixed is not None:
                yield prefixed[1]

"""What of a call the arguments of rules are held against: its commands, its paths, or its texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cognition.messages import ToolCall
from cognition.policy.commands import Commanded
from cognition.policy.diffs import diff_paths
from cognition.policy.paths import read_path
from cognition.policy.rules import PATH_ARGUMENTS, Sort
from cognition.policy.shell import read_commands
from cognition.policy.texts import composed, folded, run_of
from cognition.tools import ToolSpec


class Subject:
    """One thing of a call, in the forms in which patterns of its sort want it."""

    __slots__ = ("keys", "plain", "silent", "value")

    def __init__(self, value: Any, keys: tuple[str, ...], *, plain: bool = True, silent: bool = False) -> None:
        self.value = value
        self.keys = keys
        """Under which patterns are looked up."""
        self.plain = plain
        """Whether the patterns that can match it are all found so."""
        self.silent = silent
        """Whether what is allowed need not cover it."""


class Subjects:
    """What of one call rules look at."""

    __slots__ = ("found", "sort", "unsure")

    def __init__(self, sort: Sort, found: list[Subject], unsure: bool) -> None:
        self.sort = sort
        self.found = found
        self.unsure = unsure
        """Whether there may be more than was found."""


def subjects_of(call: ToolCall, tool: ToolSpec) -> Subjects:
    """The subjects of a call, whatever it holds."""
    paths = paths_of(tool) if not tool.command else ()
    sort: Sort = "command" if tool.command else "path" if paths else "text"
    try:
        arguments = call.arguments
        if sort == "command":
            return _commands(arguments.get(tool.command))
        if sort == "path":
            return _paths([arguments[name] for name in paths if arguments.get(name) is not None])
        return Subjects(
            "text", [Subject((text, fold := folded(text)), (run_of(fold),)) for text in _texts(arguments)], False
        )
    except (ValueError, RecursionError):  # they can't be read, or are nested thousands deep
        return Subjects(sort, [], True)


def paths_of(tool: ToolSpec) -> tuple[str, ...]:
    """The arguments of a tool that are paths."""
    if tool.paths:
        return tool.paths
    properties = tool.parameters.get("properties")
    return tuple([name for name in properties if name in PATH_ARGUMENTS]) if isinstance(properties, dict) else ()


def _commands(line: object) -> Subjects:
    commands = read_commands(line) if isinstance(line, str) else None
    if commands is None:
        return Subjects("command", [], True)
    found = [Subject(Commanded(command), (command.program,), silent=command.carries) for command in commands]
    return Subjects("command", found, False)


def _paths(values: list[Any]) -> Subjects:
    found, unsure = [], False
    texts: list[str] = []
    for text in _texts(values) if values else (".",):
        if "\n" not in text:
            texts.append(text)
            continue
        named, more = diff_paths(text)
        texts += named or [text]
        unsure = unsure or more
    for text in texts:
        path = read_path(text)
        if path is None:
            unsure = True
        else:
            found.append(Subject(path, path.keys, plain=path.plain))
    return Subjects("path", found, unsure or (bool(values) and not found))


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value, names of members aside."""
    if isinstance(value, str):
        yield composed(value)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)

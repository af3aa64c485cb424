"""Extract from a call the subjects that rules' arguments are compared with: its commands, paths or texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cognition.policy._command_patterns import Commanded
from cognition.policy._diffs import diff_paths
from cognition.policy._path_patterns import read_path
from cognition.policy._shell import read_commands
from cognition.policy._text_patterns import composed, folded, run_of
from cognition.policy.rules import PATH_ARGUMENTS, Sort
from cognition.values.messages import ToolCall
from cognition.values.tools import ToolSpec


class Subject:
    """A command, path or text of a call, in the form that patterns of its sort need."""

    __slots__ = ("keys", "plain", "silent", "value")

    def __init__(self, value: Any, keys: tuple[str, ...], *, plain: bool = True, silent: bool = False) -> None:
        self.value = value
        self.keys = keys
        """Keys to look up patterns with."""
        self.plain = plain
        """Whether these keys find all patterns that can match it."""
        self.silent = silent
        """Whether an allow rule need not cover it."""


class Subjects:
    """The subjects of a call."""

    __slots__ = ("found", "sort", "unsure")

    def __init__(self, sort: Sort, found: list[Subject], unsure: bool) -> None:
        self.sort = sort
        self.found = found
        self.unsure = unsure
        """Whether there may be more subjects."""


def subjects_of(call: ToolCall, tool: ToolSpec) -> Subjects:
    """Return the subjects of any call, valid or not."""
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
    """Return the names of a tool's path arguments."""
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
    if isinstance(value, str):
        yield composed(value)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)

"""The tools of a session: those of cogstep by name, and the user's own as ``MODULE:NAME``."""

from __future__ import annotations

import argparse
import inspect
import shutil
import tempfile
import weakref
from collections import abc
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from cognition import ToolSpec
from interpreters.cli._errors import CommandError
from interpreters.cli.options.default_tools import (
    ALL,
    EDITING,
    GROUPS,
    READ_ON,
    SHELL,
    expand_groups,
    is_shipped,
    offers_all,
)
from interpreters.cli.options.program_options import program_options
from interpreters.cli.options.store_option import name_of
from interpreters.cli.options.user_modules import call_user_function, load_named
from interpreters.recording.journal import Header, JournalReader
from interpreters.recording.output_tool import output_tool
from interpreters.recording.recorder import Where
from interpreters.tools.external import as_tools
from interpreters.tools.tool import Tool
from interpreters.tools.type_shapes import UNIONS

AnyTool = Tool[..., Any]

NO_TOOLS = (str, bytes, bytearray, abc.Mapping, abc.Set, type)
"""Iterables that are not lists of tools. A set has no order, but models see tools in order."""


def directory(options: argparse.Namespace) -> Path:
    """Return the directory that confines the tools."""
    root = Path(options.cwd if options.cwd is not None else ".")
    if not root.is_dir():
        raise CommandError(f"--cwd {root} is no directory; name one that exists")
    return root


def choose_tools(options: argparse.Namespace) -> tuple[AnyTool, ...]:
    """Return the requested tools: first those of cogstep, then the user's own, then those of MCP servers.

    Cogstep's tools always have their usual order, since models learn it. The user's own keep the order of the command
    line.
    """
    return (*_choose(options), *_of_servers(options))


def _of_servers(options: argparse.Namespace, recorded: Iterable[ToolSpec] = ()) -> tuple[AnyTool, ...]:
    """Return the tools of MCP servers, as they are now or as recorded."""
    if not getattr(options, "mcp", None):
        return ()
    from interpreters.cli.options.mcp_servers import open_servers

    servers = open_servers(options)
    return () if servers is None else servers.tools(recorded)


def tool_warnings(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the problems of MCP servers, one sentence each: missing tools, or tools that differ from their
    description.
    """
    servers = getattr(options, "mcp_opened", None)
    return () if servers is None else tuple(map(str, servers.problems))


def _choose(options: argparse.Namespace) -> tuple[AnyTool, ...]:
    root = directory(options)
    if options.no_tools:
        return ()
    recording = getattr(options, "record", None) or getattr(options, "file", None)
    if options.tools is None:
        program = _program_tools(options, root)
        if program is not None:
            return program
        if not offers_all(options):
            return _standard(root)
    names = expand_groups((ALL,) if options.tools is None else options.tools, recording)
    ours = {tool.spec.name: tool for tool in _standard(root)}
    if not set(names).isdisjoint(EDITING) or not is_shipped(getattr(options, "model", None)):
        ours |= _files(root)
    ours |= _tools_on_demand(root, names, recording)
    for name in names:
        if ":" not in name and name not in ours:
            there = dict.fromkeys((*ours, *EDITING, *SHELL, READ_ON))
            raise CommandError(
                f"--tools: there is no tool {name!r}; there are {', '.join(there)}, MODULE:NAME for your own, and "
                f"{', '.join(GROUPS)} and {ALL} for several"
            )
    return _drop_duplicates((*(tool for name, tool in ours.items() if name in names), *own_tools(options, root)))


def recorded_tools(header: Header, path: Where, options: argparse.Namespace, root: Path) -> tuple[AnyTool, ...]:
    """Return the tools that a session was recorded with, for this directory: the user's own, and those of cogstep. If
    two have the same name, the recorded one is used.

    Raises:
        CommandError: a recorded tool is not among the named ones.
    """
    named = {tool.spec.name: tool for tool in own_tools(options, root)}
    if header.config is None:
        return tuple(named.values())
    named |= {tool.spec.name: tool for tool in _of_servers(options, header.config.tools)}
    recorded = {spec.name: spec for spec in header.config.tools}
    missing = {name: spec for name, spec in recorded.items() if name not in named}
    standard = {tool.spec.name: tool for tool in _standard(root)}
    ours = {name: tool for name, tool in standard.items() if tool.spec == missing.get(name)}
    if not missing.keys() <= ours.keys():
        ours = {**standard, **_files(root), **ours}
    ours |= _tools_on_demand(root, missing, getattr(options, "record", None) or path, missing.get("Bash"))
    foreign = [name for name in missing if name not in ours]
    if foreign:
        there = f"; of those named there are only {', '.join(named)}" if named else ""
        have, option = "module that has", "--tools my_tools:TOOLS"
        if all(name.startswith("mcp.") for name in foreign):
            have, option = "servers that have", "--mcp servers.json"
        told = f"{name_of(path)} was recorded with tools of another program ({', '.join(foreign)}){there}"
        raise CommandError(f"{told}; name the {have} them, as in {option}")
    return tuple(named.get(name) or ours[name] for name in recorded)


def read_header(path: Where) -> Header:
    with JournalReader(path) as reader:
        return reader.header


def own_tools(options: argparse.Namespace, root: Path) -> tuple[AnyTool, ...]:
    """Return the tools of the modules in ``--tools``, or without it those of ``--agent``."""
    if options.tools is None:
        return _program_tools(options, root) or ()
    without = "give --no-tools" if "no_tools" in options else "leave the option out"
    return _drop_duplicates(tool for name in options.tools if ":" in name for tool in _tools_of(name, root, without))


def _standard(root: Path) -> tuple[AnyTool, ...]:
    from interpreters import toolbox

    return tuple(toolbox.standard_tools(root))


def _files(root: Path) -> dict[str, AnyTool]:
    """Return the tools that read and edit source code. They share one desk, since only files read at the same desk may
    be edited. Its reading tools replace the shorter ones of the shipped model.
    """
    from interpreters import toolbox

    return {tool.spec.name: tool for tool in (*toolbox.file_tools(root), *toolbox.search_tools(root))}


def _tools_on_demand(
    root: Path, names: Collection[str], recording: Where | None, bash: ToolSpec | None = None
) -> dict[str, AnyTool]:
    """Return the tools that are created only on demand: those of a shell, and ``ReadOutput``.

    Args:
        root: their working directory.
        names: the requested tools.
        recording: the recording that ``ReadOutput`` reads.
        bash: ``Bash`` as recorded. It records whether commands were confined; unconfined sessions stay unconfined.
    """
    made: list[AnyTool] = []
    if not set(names).isdisjoint(SHELL):
        from interpreters import toolbox

        folder = tempfile.mkdtemp(prefix="cogstep-outputs-")
        shell = toolbox.shell_tools(root, output_folder=folder)
        if bash is not None and shell.confined and shell[0].spec != bash:
            free = toolbox.shell_tools(root, output_folder=folder, sandbox="off")
            shell = free if free[0].spec == bash else shell
        made += [tool for tool in shell if tool.spec.name in names]
        weakref.finalize(made[0], shutil.rmtree, folder, ignore_errors=True)  # with the session, or with the program
    if READ_ON in names:
        if recording is None:
            raise CommandError(f"{READ_ON} reads on in the recording of the session; give --record FILE")
        made.append(output_tool(recording))
    return {tool.spec.name: tool for tool in made}


def _drop_duplicates(tools: Iterable[AnyTool]) -> tuple[AnyTool, ...]:
    """Remove duplicates. Two different tools of the same name are an error."""
    found: dict[str, AnyTool] = {}
    for tool in tools:
        name = tool.spec.name
        if found.setdefault(name, tool) is not tool and found[name].function is not tool.function:
            raise CommandError(f"--tools: two tools are named {name!r}; give one of them another name")
    return tuple(found.values())


def _program_tools(options: argparse.Namespace, root: Path) -> tuple[AnyTool, ...] | None:
    """Return the tools of ``--agent``; None if it sets no tools."""
    found = program_options(options).get("tools")
    return None if found is None else _drop_duplicates(_check_tools("--agent", options.agent, found, root))


def _tools_of(name: str, root: Path, without: str) -> tuple[AnyTool, ...]:
    found = _check_tools("--tools", name, load_named("--tools", name), root)
    if not found:
        raise CommandError(f"--tools {name} is empty, and offers no tool; put one in it, or {without}")
    return found


def _check_tools(option: str, name: str, found: Any, root: Path) -> tuple[AnyTool, ...]:
    if is_function(found) and (arguments := _arguments_for(found, root)) is not None:
        found = call_user_function(option, name, found, *arguments)
    listed: tuple[Any, ...]
    if isinstance(found, Tool | ToolSpec) or is_function(found):
        listed = (found,)
    elif isinstance(found, NO_TOOLS) or not isinstance(found, Iterable):
        if inspect.iscoroutine(found):
            found.close()
        raise CommandError(f"{option} {name} is {_kind(found)}; {WANTED}")
    else:
        listed = call_user_function(option, name, tuple, found)
    for one in listed:
        if not isinstance(one, Tool | ToolSpec) and (isinstance(one, type) or not callable(one)):
            raise CommandError(f"{option} {name} holds something that is {_kind(one)}; {WANTED}")
    return tuple(call_user_function(option, name, as_tools, listed, what="making tools of it"))


WANTED = "it has to be a list of functions, tools or ToolSpecs, one of these, or a function that gives them"


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"of the type {type(value).__name__}"


def is_function(value: object) -> bool:
    """Return whether a value is a function that may return tools. A ``Tool`` is not."""
    return not isinstance(value, Tool) and (inspect.isroutine(value) or isinstance(value, partial))


def _arguments_for(function: Callable[..., Any], root: Path) -> tuple[Any, ...] | None:
    """Return the arguments to call a tool-making function with. None for a function that is itself a tool.

    A function makes tools if its return annotation is a tool type; it may then take the directory. Without a return
    annotation, it makes tools if it has no required parameters.
    """
    try:
        taken = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C, and says nothing of itself
        return None
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [one for one in taken if one.default is one.empty and one.kind not in variadic]
    try:
        hints = get_type_hints(function)
    except Exception:  # it names what is imported for type checkers only
        hints = {}
    if "return" not in hints:
        return None if required else ()
    if not _may_be_tools(hints["return"]) or len(required) > 1:
        return None
    return (root,) if required else ()


def _may_be_tools(hint: Any) -> bool:
    kind, inner = get_origin(hint) or hint, [one for one in get_args(hint) if one is not Ellipsis]
    if hint is Any or kind is abc.Callable:
        return True
    if kind in UNIONS:
        return any(map(_may_be_tools, inner))
    if not isinstance(kind, type) or issubclass(kind, NO_TOOLS):
        return False
    listed = issubclass(kind, abc.Iterable) and (not inner or any(map(_may_be_tools, inner)))
    return issubclass(kind, Tool | ToolSpec) or listed

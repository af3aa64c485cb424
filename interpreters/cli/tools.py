"""The tools of a session: those that come with cogstep, by name, and the user's own, by ``MODULE:NAME``."""

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
from interpreters.cli.errors import CommandError
from interpreters.cli.modules import called, load_named
from interpreters.cli.programs import program_options
from interpreters.recording.journal import Header, JournalReader
from interpreters.recording.outputs import output_tool
from interpreters.tools.external import as_tools
from interpreters.tools.shapes import UNIONS
from interpreters.tools.tool import Tool

AnyTool = Tool[..., Any]

SHELL = ("Bash", "BashOutput", "KillShell")
"""Tools that are offered where they are named, and not else: they run whatever the model writes."""

READ_ON = "ReadOutput"
"""It too: it reads on in the results of the session's own recording."""

NO_TOOLS = (str, bytes, bytearray, abc.Mapping, abc.Set, type)
"""What can be gone through, and is no list of tools. A set has no order, which models are told tools in."""


def directory(options: argparse.Namespace) -> Path:
    """The directory that tools are kept inside."""
    root = Path(options.cwd if options.cwd is not None else ".")
    if not root.is_dir():
        raise CommandError(f"--cwd {root} is no directory; name one that exists")
    return root


def choose_tools(options: argparse.Namespace) -> tuple[AnyTool, ...]:
    """The tools that were asked for: those of cogstep in their usual order whatever the order of their names, since
    models learn it, then the user's own in the order in which they were named.
    """
    root = directory(options)
    if options.no_tools:
        return ()
    if options.tools is None:
        program = _program_tools(options, root)
        return _standard(root) if program is None else program
    ours = _ours(root, options.tools, getattr(options, "record", None) or getattr(options, "file", None))
    known = [*(tool.spec.name for tool in ours), *(name for name in (*SHELL, READ_ON) if name not in options.tools)]
    for name in options.tools:
        if ":" not in name and name not in known:
            raise CommandError(
                f"--tools: there is no tool {name!r}; there are {', '.join(known)}, and MODULE:NAME for your own"
            )
    return _unlike((*(tool for tool in ours if tool.spec.name in options.tools), *own_tools(options, root)))


def recorded_tools(header: Header, path: str, options: argparse.Namespace, root: Path) -> tuple[AnyTool, ...]:
    """The tools that a session was recorded with, in this directory: the user's own, and those of cogstep.

    Raises:
        CommandError: it was recorded with tools that nobody has named.
    """
    named = {tool.spec.name: tool for tool in own_tools(options, root)}
    names = [tool.name for tool in header.config.tools] if header.config is not None else list(named)
    ours = {tool.spec.name: tool for tool in _ours(root, names, getattr(options, "record", None) or path)}
    foreign = [name for name in names if name not in named and name not in ours]
    if foreign:
        there = f"; of those named there are only {', '.join(named)}" if named else ""
        raise CommandError(
            f"{path} was recorded with tools of another program ({', '.join(foreign)}){there}; "
            "name the module that has them, as in --tools my_tools:TOOLS"
        )
    return tuple(named.get(name) or ours[name] for name in names)


def read_header(path: str) -> Header:
    with JournalReader(path) as reader:
        return reader.header


def own_tools(options: argparse.Namespace, root: Path) -> tuple[AnyTool, ...]:
    """The tools of the modules that ``--tools`` names; without it those of ``--agent``."""
    if options.tools is None:
        return _program_tools(options, root) or ()
    without = "give --no-tools" if "no_tools" in options else "leave the option out"
    return _unlike(tool for name in options.tools if ":" in name for tool in _tools_of(name, root, without))


def _standard(root: Path) -> tuple[AnyTool, ...]:
    from interpreters import toolbox

    return tuple(toolbox.standard_tools(root))


def _ours(root: Path, names: Collection[str], recording: str | None) -> tuple[AnyTool, ...]:
    """The tools of cogstep that may be meant by these names: some only where one of them is named."""
    more: tuple[AnyTool, ...] = ()
    if READ_ON in names:
        if recording is None:
            raise CommandError(f"{READ_ON} reads on in the recording of the session; give --record FILE")
        more = (output_tool(recording),)
    shell = [name for name in SHELL if name in names]
    if not shell:
        return (*_standard(root), *more)
    from interpreters import toolbox

    folder = tempfile.mkdtemp(prefix="cogstep-outputs-")
    made = [tool for tool in toolbox.shell_tools(root, output_folder=folder) if tool.spec.name in shell]
    weakref.finalize(made[0], shutil.rmtree, folder, ignore_errors=True)  # with the session, or with the program
    return (*_standard(root), *made, *more)


def _unlike(tools: Iterable[AnyTool]) -> tuple[AnyTool, ...]:
    """The tools, one that was named twice once; two of one name are an error."""
    found: dict[str, AnyTool] = {}
    for tool in tools:
        name = tool.spec.name
        if found.setdefault(name, tool) is not tool and found[name].function is not tool.function:
            raise CommandError(f"--tools: two tools are named {name!r}; give one of them another name")
    return tuple(found.values())


def _program_tools(options: argparse.Namespace, root: Path) -> tuple[AnyTool, ...] | None:
    """Those of ``--agent``; None where it says nothing of tools."""
    found = program_options(options).get("tools")
    return None if found is None else _unlike(_listed("--agent", options.agent, found, root))


def _tools_of(name: str, root: Path, without: str) -> tuple[AnyTool, ...]:
    found = _listed("--tools", name, load_named("--tools", name), root)
    if not found:
        raise CommandError(f"--tools {name} is empty, and offers no tool; put one in it, or {without}")
    return found


def _listed(option: str, name: str, found: Any, root: Path) -> tuple[AnyTool, ...]:
    if is_function(found) and (arguments := _called_with(found, root)) is not None:
        found = called(option, name, found, *arguments)
    listed: tuple[Any, ...]
    if isinstance(found, Tool | ToolSpec) or is_function(found):
        listed = (found,)
    elif isinstance(found, NO_TOOLS) or not isinstance(found, Iterable):
        if inspect.iscoroutine(found):
            found.close()
        raise CommandError(f"{option} {name} is {_kind(found)}; {WANTED}")
    else:
        listed = called(option, name, tuple, found)
    for one in listed:
        if not isinstance(one, Tool | ToolSpec) and (isinstance(one, type) or not callable(one)):
            raise CommandError(f"{option} {name} holds something that is {_kind(one)}; {WANTED}")
    return tuple(called(option, name, as_tools, listed, what="making tools of it"))


WANTED = "it has to be a list of functions, tools or ToolSpecs, one of these, or a function that gives them"


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"of the type {type(value).__name__}"


def is_function(value: object) -> bool:
    """Whether it is a function that may make something else; a tool, which has its signature, is none."""
    return not isinstance(value, Tool) and (inspect.isroutine(value) or isinstance(value, partial))


def _called_with(function: Callable[..., Any], root: Path) -> tuple[Any, ...] | None:
    """What a function that makes tools is called with; None for one that is a tool itself, and must not be called.

    A function makes tools if it says that it returns them; it may take the directory then. One that doesn't say what it
    returns makes tools if it takes nothing.
    """
    try:
        taken = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C, and says nothing of itself
        return None
    required = [
        one for one in taken if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
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
    """Whether a type is that of a tool, or of some: a list of texts is neither."""
    kind, inner = get_origin(hint) or hint, [one for one in get_args(hint) if one is not Ellipsis]
    if hint is Any or kind is abc.Callable:
        return True
    if kind in UNIONS:
        return any(map(_may_be_tools, inner))
    if not isinstance(kind, type) or issubclass(kind, NO_TOOLS):
        return False
    return issubclass(kind, Tool | ToolSpec) or (
        issubclass(kind, abc.Iterable) and (not inner or any(map(_may_be_tools, inner)))
    )

"""The MCP servers of a command, from ``--mcp``: parse, connect, and close them when the command ends."""

from __future__ import annotations

import argparse
import logging
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import evolve

from cognition import ConfigError
from cognition.base.checking import show
from interpreters.cli._errors import CommandError
from interpreters.cli.options.user_modules import load_named
from interpreters.mcp.client import MCPServers
from interpreters.mcp.server_config import MCPServer, read_servers

NAMED = re.compile(r"([A-Za-z0-9_-]+)=(.*)", re.DOTALL)


def find_servers(options: argparse.Namespace) -> tuple[MCPServer, ...]:
    """Return the servers in ``--mcp``, in order.

    Each call of their tools asks for approval, unless the file sets ``approval``. The session continues without an
    unreachable server.

    Raises:
        CommandError: a server is not specified correctly.
    """
    found = [server for text in options.mcp or () for server in _servers_of(text)]
    names = [server.name for server in found]
    for name in names:
        if names.count(name) > 1:
            raise CommandError(f"--mcp: two servers are named {name!r}; give one of them another name")
    return tuple([evolve(one, optional=True, approval=one.approval is not False) for one in found])


def _servers_of(text: str) -> Iterator[MCPServer]:
    named = NAMED.fullmatch(text)
    try:
        if named is not None:
            yield _read_one(*named.groups())
        elif text.endswith(".json") or "/" in text or Path(text).is_file():
            yield from read_servers(text)
        elif ":" in text:
            yield from _of_module(text)
        else:
            raise CommandError(
                f"--mcp {text!r}: write NAME=COMMAND, NAME=http://..., a JSON file of servers, or MODULE:NAME"
            )
    except ConfigError as error:
        raise CommandError(f"--mcp: {error}") from error


def _read_one(name: str, way: str) -> MCPServer:
    if way.startswith(("http://", "https://")):
        return MCPServer(name, url=way)
    try:
        command, *args = shlex.split(way) or [""]
    except ValueError as error:
        raise CommandError(f"--mcp {name}: the command can't be read: {error}") from error
    return MCPServer(name, command=command, args=tuple(args))


def _of_module(text: str) -> Iterable[MCPServer]:
    found: Any = load_named("--mcp", text)
    listed = (found,) if isinstance(found, MCPServer) else tuple(found) if isinstance(found, list | tuple) else None
    if listed is None or not all(isinstance(one, MCPServer) for one in listed):
        raise CommandError(f"--mcp {text} has to be an MCPServer or a list of them, not {show(found)}")
    return listed


def open_servers(options: argparse.Namespace) -> MCPServers | None:
    """Return the servers, connected once per command; None without ``--mcp``. ``options.opened`` closes them."""
    if not getattr(options, "mcp", None):
        return None
    known: MCPServers | None = getattr(options, "mcp_opened", None)
    if known is None:
        logging.getLogger("cogstep").addHandler(logging.NullHandler())  # what it would print is told as a warning
        options.opened = stack = ExitStack()
        known = options.mcp_opened = stack.enter_context(MCPServers(find_servers(options)))
    return known

"""What a program may do for a reply, what it gets of ours, and how patient we are with it."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, field, frozen

from cognition.checking import checked
from runtime.errors import ModelOptionsError

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Of an MCP server: what both programs accept, and no place in a command line or a configuration can mean otherwise."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""A session's id. It can't begin like an option."""
TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(?:\([^(),\n]*\))?")
"""A tool's name, of Claude Code with a pattern of calls behind it: ``Bash(git log:*)``."""
CODEX_TOOLS = ("shell", "apply_patch", "web_search")
"""Codex's own tools that can be allowed. MCP tools are named ``mcp__server__tool``, as for Claude Code."""


def _above_zero(options: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value < inf:  # written so that NaN is refused too
        raise ModelOptionsError(f"{type(options).__name__}.{attribute.name} must be above 0, not {value!r}")


def _named(pattern: re.Pattern[str], what: str) -> Any:
    """A validator for a text, or each of several, that has to be a name."""

    def check(options: object, attribute: Attribute[Any], value: str | tuple[str, ...]) -> None:
        for one in (value,) if isinstance(value, str) else value:
            if one and not pattern.fullmatch(one):
                raise ModelOptionsError(f"{type(options).__name__}.{attribute.name}: {one[:60]!r} is no {what}")

    return check


@checked
@frozen(kw_only=True)
class McpServer:
    """An MCP server that a program starts or reaches, for tools of its own reply: ours are never called through it.

    Raises:
        ModelOptionsError: it is neither a command nor a URL, or both.
    """

    name: str = field(validator=_named(NAME, "name of an MCP server (letters, digits, '_' and '-')"))
    """By which its tools are named: ``mcp__name__tool``."""
    command: tuple[str, ...] = ()
    """A program and its arguments, for a server that speaks over stdin and stdout."""
    url: str = ""
    """Of a server that speaks over streamable HTTP."""
    variables: tuple[str, ...] = field(default=(), validator=_named(VARIABLE, "name of an environment variable"))
    """Names of environment variables that the server gets. Their values stand in no file and in no command line."""
    token: str = field(default="", validator=_named(VARIABLE, "name of an environment variable"))
    """The name of the environment variable that holds a bearer token for ``url``."""

    def __attrs_post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ModelOptionsError(f"the MCP server {self.name!r} needs a command or a url, and not both")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ModelOptionsError(f"the MCP server {self.name!r}: a url begins with http:// or https://")
        if self.token and not self.url:
            raise ModelOptionsError(f"the MCP server {self.name!r}: a token is for one with a url")


@checked
@frozen(kw_only=True)
class ProgramOptions:
    """What both programs have; use ``ClaudeOptions`` or ``CodexOptions``. All times are seconds.

    Raises:
        ModelOptionsError: a value is out of its range, or contradicts another one.
    """

    program: str = ""
    """The program's file, or its name on ``PATH``; empty for ``claude`` or ``codex``."""
    tools: tuple[str, ...] = field(default=(), validator=_named(TOOL, "name of a tool"))
    """The tools of the program's own, and of ``mcp_servers``, that it may use without asking. Empty: none at all."""
    mcp_servers: tuple[McpServer, ...] = ()
    """What else the program may reach. The user's own servers are not."""
    dangerously_skip_permissions: bool = False
    """Whether the tools that the program has ask for nothing and are confined by nothing: what they can do to this
    machine, they may. Never so unless it is said here, and each reply then says so."""
    folder: str | Path | None = None
    """Where the program runs, and what it can read and change with tools. None: an empty folder of its own."""
    variables: tuple[str, ...] = field(default=(), validator=_named(VARIABLE, "name of an environment variable"))
    """Names of further environment variables that the program gets, beside those that ``docs/command-line-models.md``
    lists."""
    context_tokens: int = field(default=200_000, validator=_above_zero)
    """The longest prompt and reply together. The programs don't say it of their models."""
    sessions: bool = False
    """Whether the program keeps its sessions on disk, and a conversation that goes on is continued there: only what is
    new of it is sent. Otherwise the whole conversation is sent each time, and nothing is kept."""
    resume: str = field(default="", validator=_named(SESSION, "session id"))
    """A session of the program's in which conversations begin; it needs ``sessions=True``."""
    deadline: float | None = field(default=1800.0, validator=_above_zero)
    """The longest time of one reply, from the start of its process; None for no limit."""
    silence: float | None = field(default=300.0, validator=_above_zero)
    """The longest time without a byte from the program; None for no limit."""
    grace: float = field(default=2.0, validator=_above_zero)
    """The time that an interrupted program has before it is killed, with all that it has started."""
    at_once: int = field(default=4, validator=_above_zero)
    """Processes at a time; further requests wait for their turn."""

    def __attrs_post_init__(self) -> None:
        kind = type(self).__name__
        if self.resume and not self.sessions:
            raise ModelOptionsError(f"{kind}.resume needs sessions=True: what is said then is kept by the program")
        names = [server.name for server in self.mcp_servers]
        if len(set(names)) < len(names):
            raise ModelOptionsError(f"{kind}.mcp_servers: two of them have the same name")
        for tool in self.tools:
            server = tool.removeprefix("mcp__").partition("__")[0]
            if tool.startswith("mcp__") and server not in names:
                raise ModelOptionsError(f"{kind}.tools: there is no MCP server {server!r} for {tool!r}")

    @property
    def own_tools(self) -> tuple[str, ...]:
        """Of ``tools``, those of the program's own."""
        return tuple(tool for tool in self.tools if not tool.startswith("mcp__"))


@checked
@frozen(kw_only=True)
class ClaudeOptions(ProgramOptions):
    """How ``claude`` is asked; for ``load_model("claude", options=...)``.

    Raises:
        ModelOptionsError: as ``ProgramOptions``.
    """

    append_system: bool = False
    """Whether the system prompt stands behind Claude Code's own; otherwise in its place."""
    permission_mode: Literal["default", "acceptEdits", "plan"] = "default"
    """What becomes of calls that ``tools`` don't allow; without a terminal, ``default`` refuses them."""
    settings: tuple[Literal["user", "project", "local"], ...] = ()
    """Which of Claude Code's settings files count; by default none, nor what they allow, hook or put into prompts. A
    key that an ``apiKeyHelper`` gives needs ``("user",)``."""
    max_turns: int | None = field(default=None, validator=_above_zero)
    """Steps of its own loop within one reply."""
    max_cost: float | None = field(default=None, validator=_above_zero)
    """Dollars that one reply may cost."""


@checked
@frozen(kw_only=True)
class CodexOptions(ProgramOptions):
    """How ``codex`` is asked; for ``load_model("codex", options=...)``.

    Raises:
        ModelOptionsError: as ``ProgramOptions``, or a tool has no such name.
    """

    sandbox: Literal["read-only", "workspace-write"] = "read-only"
    """Codex's own sandbox for what its tools do."""
    effort: Literal["", "minimal", "low", "medium", "high", "xhigh"] = ""
    """How long its model thinks; empty for what is usual for the model."""
    user_settings: bool = False
    """Whether the user's ``config.toml`` and rules count, MCP servers and instructions in them included."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        for tool in self.own_tools:
            if tool not in CODEX_TOOLS:
                raise ModelOptionsError(
                    f"CodexOptions.tools: {tool!r} is none of {', '.join(CODEX_TOOLS)} and mcp__server__tool"
                )

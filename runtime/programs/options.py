"""Options of a program: permissions, tools and timeouts."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, field, frozen

from cognition.base.checking import checked
from runtime.errors import ModelOptionsError

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""An MCP server's name: valid in both programs, and without a special meaning in a command line or a configuration."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""A session's id. It cannot start like an option."""
TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(?:\([^(),\n]*\))?")
"""A tool's name; in Claude Code optionally with a pattern of calls: ``Bash(git log:*)``."""
CODEX_TOOLS = ("shell", "apply_patch", "web_search")
"""Codex's own tools that can be allowed. MCP tools are named ``mcp__server__tool``, as in Claude Code."""


def _above_zero(options: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value < inf:  # written so that NaN is refused too
        raise ModelOptionsError(f"{type(options).__name__}.{attribute.name} must be above 0, not {value!r}")


def _name_validator(pattern: re.Pattern[str], what: str) -> Any:
    """Return a validator for a name, or for several."""

    def check(options: object, attribute: Attribute[Any], value: str | tuple[str, ...]) -> None:
        for one in (value,) if isinstance(value, str) else value:
            if one and not pattern.fullmatch(one):
                raise ModelOptionsError(f"{type(options).__name__}.{attribute.name}: {one[:60]!r} is no {what}")

    return check


_variable_name = _name_validator(VARIABLE, "name of an environment variable")


@checked
@frozen(kw_only=True)
class McpServer:
    """An MCP server for the program's own tools. Our tools are never called through it.

    Raises:
        ModelOptionsError: it has neither a command nor a URL, or both.
    """

    name: str = field(validator=_name_validator(NAME, "name of an MCP server (letters, digits, '_' and '-')"))
    """The prefix of its tools: ``mcp__name__tool``."""
    command: tuple[str, ...] = ()
    """A program and its arguments, for a server that communicates over stdin and stdout."""
    url: str = ""
    """The URL of a streamable HTTP server."""
    variables: tuple[str, ...] = field(default=(), validator=_variable_name)
    """Names of environment variables for the server. Their values appear in no file and no command line."""
    token: str = field(default="", validator=_variable_name)
    """The name of the environment variable with a bearer token for ``url``."""

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
    """Options of both programs; use ``ClaudeOptions`` or ``CodexOptions``. All times are in seconds.

    Raises:
        ModelOptionsError: a value is out of range, or contradicts another.
    """

    program: str = ""
    """The program's file, or its name on ``PATH``; empty for ``claude`` or ``codex``."""
    tools: tuple[str, ...] = field(default=(), validator=_name_validator(TOOL, "name of a tool"))
    """The program's own tools, and tools of ``mcp_servers``, that it may use without asking. Empty: none at all."""
    mcp_servers: tuple[McpServer, ...] = ()
    """MCP servers that the program may use. The user's own servers are excluded."""
    dangerously_skip_permissions: bool = False
    """Whether the program's tools run without approval and without a sandbox: they may do to this machine everything
    that they can. Only this option enables it, and each reply then carries a warning.
    """
    folder: str | Path | None = None
    """The working directory of the program, which its tools can read and change. None: an empty folder of its own."""
    variables: tuple[str, ...] = field(default=(), validator=_variable_name)
    """Names of further environment variables that the program receives, beside those in
    ``docs/guides/command-line-models.md``.
    """
    context_tokens: int = field(default=200_000, validator=_above_zero)
    """The maximum length of prompt and reply together. The programs do not report it for their models."""
    sessions: bool = False
    """Whether the program stores its sessions on disk. A conversation then continues in its session, and only new
    messages are sent. Otherwise each request sends the whole conversation, and nothing is stored.
    """
    resume: str = field(default="", validator=_name_validator(SESSION, "session id"))
    """The program's session that new conversations continue; it needs ``sessions=True``."""
    deadline: float | None = field(default=1800.0, validator=_above_zero)
    """Maximum time of one reply, from the start of its process; None for no limit."""
    silence: float | None = field(default=300.0, validator=_above_zero)
    """Maximum time without a byte from the program; None for no limit."""
    grace: float = field(default=2.0, validator=_above_zero)
    """Time between interrupting the program and killing it with all its child processes."""
    at_once: int = field(default=4, validator=_above_zero)
    """Maximum parallel processes; further requests wait for their turn."""

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
    """Options of ``claude``, for ``load_model("claude", options=...)``.

    Raises:
        ModelOptionsError: see ``ProgramOptions``.
    """

    append_system: bool = False
    """Whether to append the system prompt to Claude Code's own; otherwise it replaces it."""
    permission_mode: Literal["default", "acceptEdits", "plan"] = "default"
    """How to treat calls outside ``tools``; without a terminal, ``default`` refuses them."""
    settings: tuple[Literal["user", "project", "local"], ...] = ()
    """Claude Code's settings files to load; by default none, so their permissions, hooks and prompt additions do not
    apply. A key from an ``apiKeyHelper`` needs ``("user",)``.
    """
    max_turns: int | None = field(default=None, validator=_above_zero)
    """Maximum steps of its own loop within one reply."""
    max_cost: float | None = field(default=None, validator=_above_zero)
    """Maximum cost of one reply, in US dollars."""


@checked
@frozen(kw_only=True)
class CodexOptions(ProgramOptions):
    """Options of ``codex``, for ``load_model("codex", options=...)``.

    Raises:
        ModelOptionsError: see ``ProgramOptions``; or an unknown tool name.
    """

    sandbox: Literal["read-only", "workspace-write"] = "read-only"
    """Codex's own sandbox for its tools."""
    effort: Literal["", "minimal", "low", "medium", "high", "xhigh"] = ""
    """Reasoning effort of its model; empty for the model's default."""
    user_settings: bool = False
    """Whether to load the user's ``config.toml`` and rules, including their MCP servers and instructions."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        for tool in self.own_tools:
            if tool not in CODEX_TOOLS:
                raise ModelOptionsError(
                    f"CodexOptions.tools: {tool!r} is none of {', '.join(CODEX_TOOLS)} and mcp__server__tool"
                )

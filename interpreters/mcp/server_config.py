"""``MCPServer``: a server's configuration as a value, and the files that list servers.

::

    {"mcpServers": {
        "files": {"command": "npx", "args": ["some-server", "."], "env": {"TOKEN": "${FILES_TOKEN}"}},
        "wiki": {"url": "https://wiki.example/mcp", "headers": {"Authorization": "Bearer ${WIKI_TOKEN}"}, "timeout": 20}
    }}

Other programs use the same format. ``${NAME}`` is a variable of this program's environment, so that a file need not
contain keys.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from attrs import Attribute, field, fields_dict, frozen

from cognition import ConfigError
from cognition.base.checking import checked, nearest, show
from cognition.base.display import shown_name
from interpreters.recording.redaction import Redaction
from runtime.children.start import SECRET

NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""No dot: a tool's name is ``mcp.SERVER.TOOL``, and a rule for ``mcp.SERVER.*`` must match only this server."""

VARIABLE = re.compile(r"\$\{([^}]*)\}")

KINDS = {"stdio": "command", "http": "url", "streamable-http": "url", "streamable_http": "url", "streamableHttp": "url"}
"""Transport names of other programs, and the field used for each here."""

NOT_OURS = ("alwaysAllow", "autoApprove")
"""Keys of other programs that permit calls without approval."""

HIDDEN = "[hidden]"

SHORTEST = 4
"""Minimum characters of a key to search for; a shorter one would occur in any text."""

PUBLIC = frozenset({"accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version"})
"""Headers that contain no key."""


def _check_name(_instance: object, _attribute: Attribute[Any], value: str) -> None:
    if not NAME.fullmatch(value):
        raise ConfigError(
            f"the MCP server's name {value!r}: use 1 to 32 letters, digits, '_' and '-', since tools are mcp.NAME.TOOL"
        )


def _check_seconds(instance: MCPServer, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value < inf:  # written so that NaN is refused too
        raise ConfigError(f"MCP server {instance.name!r}: {attribute.name} has to be above 0 seconds, not {value!r}")


def _check_pairs(instance: MCPServer, attribute: Attribute[Any], value: Mapping[str, str]) -> None:
    for name, text in value.items():
        bad = "=\0" if attribute.name == "env" else ":\0\r\n"
        if not name or any(sign in name for sign in bad) or any(sign in text for sign in bad[1:]):
            what = f"{attribute.name} has a name or a value that can't be sent"
            raise ConfigError(f"MCP server {instance.name!r}: {what}")


def _names(value: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: ..." for name in value) + "}"


@checked
@frozen
class MCPServer:
    """A server of tools, and its user's settings for it. Its keys (``env``, ``headers``, ``url``) are not in its
    ``repr``.

    >>> MCPServer("files", command="some-server", args=("/srv/files",), env={"TOKEN": "hunter2!"})
    MCPServer(name='files', command='some-server', args=('/srv/files',), env={TOKEN: ...})

    Raises:
        ConfigError: it has neither a command nor a URL, or both; or a value is invalid.
    """

    name: str = field(validator=_check_name)
    """Its tools are named ``mcp.NAME.TOOL``, for rules and for the model."""
    command: str = ""
    """The program to start: a path, or a name on the ``PATH``. Its input and output are the connection."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict, validator=_check_pairs, repr=_names)
    """Environment variables in addition to the system's; the program gets no keys from this program's environment."""
    cwd: str = ""
    """Its working directory; empty: the current directory."""
    url: str = ""
    """Instead of ``command``: the server's URL (streamable HTTP)."""
    headers: Mapping[str, str] = field(factory=dict, validator=_check_pairs, repr=_names)
    """HTTP headers of each request, such as ``Authorization``."""
    timeout: float | None = field(default=60.0, validator=_check_seconds)
    """Seconds per call; None: no limit."""
    connect_timeout: float = field(default=30.0, validator=_check_seconds)
    """Seconds to connect and to list its tools."""
    tools: tuple[str, ...] = ("*",)
    """The tools to offer, as patterns of its own names: ``*`` matches any characters."""
    read_only: tuple[str, ...] = ()
    """Patterns of tools that you declare read-only. A server's own declaration is only a hint."""
    idempotent: tuple[str, ...] = ()
    """Patterns of tools that you declare idempotent: their calls are retried if the connection was lost.
    ``cogstep/idempotency-key`` identifies the call for the server.
    """
    approval: bool | None = None
    """Whether the user must approve each call, except of ``read_only`` tools. None: only for tools that the server
    declares destructive.
    """
    output_limit: int | None = None
    """As in ``ToolSpec``, for each of its tools."""
    optional: bool = False
    """Whether the program continues without it if it can't be reached."""

    def __attrs_post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ConfigError(f"MCP server {self.name!r} needs either a command to start or a url, and not both")
        if self.url:
            _check_url(self)
        foreign, owner = (("args", "env", "cwd"), "a command") if self.url else (("headers",), "a url")
        for one in foreign:
            if getattr(self, one):
                raise ConfigError(f"MCP server {self.name!r} has {one}, which belongs to {owner}")
        if "\0" in "".join((self.command, *self.args, self.cwd)):
            raise ConfigError(f"MCP server {self.name!r}: a NUL can't stand in a command")
        if self.output_limit is not None and self.output_limit < 1:
            raise ConfigError(f"MCP server {self.name!r}: output_limit must be above 0, not {self.output_limit!r}")

    def __repr__(self) -> str:
        """Return the fields that were set, without keys."""
        hide = Hider(self)
        given = {one: getattr(self, one) for one in fields_dict(MCPServer)} | {"args": tuple(map(hide, self.args))}
        told = {one: value for one, value in given.items() if value not in ("", getattr(_USUAL, one))}
        return f"MCPServer({', '.join(f'{one}={SHOWN.get(one, repr)(value)}' for one, value in told.items())})"

    @property
    def where(self) -> str:
        """Its command or URL for display, without parts that may be a key."""
        return hide_url_keys(self.url) if self.url else self.command


@cache
def _shapes() -> Redaction:
    return Redaction()


class Hider:
    """Removes a server's keys from texts.

    Keys are environment variables and arguments that are named or look like a key, headers, and secret parts of the
    URL.
    """

    def __init__(self, server: MCPServer) -> None:
        found = sorted({one for one in _keys(server) if len(one) >= SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, found))) if found else None

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)


def _keys(server: MCPServer) -> Iterator[str]:
    for name, value in server.env.items():
        if SECRET.search(name):
            yield value
        yield from _find_shaped(f"{name}={value}", value)
    before = ""
    for arg in server.args:
        name, sign, value = arg.partition("=")
        if sign and SECRET.search(name.lstrip("-").replace("-", "_")):
            yield value
        elif before.startswith("-") and "=" not in before and SECRET.search(before.lstrip("-").replace("-", "_")):
            yield arg
        yield from _find_shaped(arg, arg)
        before = arg
    for name, value in server.headers.items():
        if name.lower() not in PUBLIC:
            yield value
            yield value.rpartition(" ")[2]  # what stands behind "Bearer"
    if server.url:
        parts = urlsplit(server.url)
        for text in (parts.username, parts.password, *(value for _, value in parse_qsl(parts.query))):
            if text:
                yield from (text, unquote(text))
        yield from (parts.query, parts.fragment)


def _find_shaped(text: str, value: str) -> Iterator[str]:
    for one in _shapes().find_secrets(text):
        part = text[one.start : one.end]
        if part in value:
            yield part


SHOWN: dict[str, Callable[[Any], str]] = {"headers": _names, "env": _names, "url": lambda url: repr(hide_url_keys(url))}
"""How ``repr`` shows fields that may contain keys."""

_USUAL = MCPServer("usual", command="usual")


def _check_url(server: MCPServer) -> None:
    try:
        parts = urlsplit(server.url)
        parts.port  # noqa: B018 - looked at for the error that it raises
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"MCP server {server.name!r}: the url has to be one of http:// or https://")
    if not server.url.isascii() or not server.url.isprintable() or " " in server.url:
        what = "the url has a character that has to be written as %20 and the like"
        raise ConfigError(f"MCP server {server.name!r}: {what}")


def hide_url_keys(url: str) -> str:
    """Return a URL without parts that may be a key: user and password, query values, fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}{'?...' if parts.query else ''}"


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name matches one of these patterns; ``*`` matches any characters."""
    return any(re.fullmatch(".*".join(map(re.escape, one.split("*"))), name, re.DOTALL) for one in patterns)


# --------------------------------------------------------------------------------------------------------------- files


def read_servers(
    source: str | os.PathLike[str] | Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> tuple[MCPServer, ...]:
    """Return the servers of a JSON file, or of its decoded content, in its order.

    Args:
        source: the file, or decoded JSON; see the top of this module.
        environ: the variables for ``${NAME}``; None for this program's environment.

    Raises:
        ConfigError: it can't be read, or a server in it is invalid; the message names it.
    """
    subject = "the list of MCP servers"
    data: Any = source
    if not isinstance(source, Mapping):
        subject = shown_name(str(source))
        try:
            data = json.loads(Path(source).read_text("utf-8-sig"))
        except (OSError, ValueError, RecursionError) as error:
            said = error.strerror if isinstance(error, OSError) else f"it is no JSON: {error}"
            raise ConfigError(f"{subject}: {said}") from error
    listed = data.get("mcpServers") if isinstance(data, Mapping) else None
    if not isinstance(listed, Mapping):
        raise ConfigError(f'{subject} lists no MCP servers; write {{"mcpServers": {{"NAME": {{"command": ...}}}}}}')
    known = os.environ if environ is None else environ
    made = [_read(name, one, known, subject) for name, one in listed.items()]
    return tuple([one for one in made if one is not None])


def _read(name: str, data: Any, environ: Mapping[str, str], subject: str) -> MCPServer | None:
    """Return a server of the list; None if it is disabled."""
    where = f"{subject}: MCP server {shown_name(name)!r}"
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where} has to be an object, not {show(data)}")
    given = dict(data)
    if given.pop("disabled", False) is True:
        return None
    kind = given.pop("type", None)
    if kind is not None and KINDS.get(kind, "?") not in given:
        raise ConfigError(f"{where}: its type {show(kind)} does not fit; there are stdio (a command) and http (a url)")
    for one in given:
        if one in NOT_OURS:
            raise ConfigError(f"{where}: {one} is left to the policy here; write a rule for mcp.{name}.* instead")
        if one not in fields_dict(MCPServer) or one == "name":
            raise ConfigError(f"{where} has no {one!r}{nearest(one, list(fields_dict(MCPServer))[1:])}")
    filled = {one: _fill_variables(value, environ, f"{where}: {one}") for one, value in given.items()}
    try:
        return MCPServer(name, **filled)
    except ConfigError as error:
        raise ConfigError(f"{subject}: {error.args[0]}") from error


def _fill_variables(value: Any, environ: Mapping[str, str], where: str) -> Any:
    """Return a value with its variables replaced. Error messages don't contain their values."""
    if isinstance(value, str):
        return VARIABLE.sub(lambda found: _variable(found[1], environ, where), value)
    if isinstance(value, list):
        return tuple([_fill_variables(one, environ, where) for one in value])
    if isinstance(value, dict):
        return {key: _fill_variables(one, environ, where) for key, one in value.items()}
    return value


def _variable(name: str, environ: Mapping[str, str], where: str) -> str:
    name, given, usual = name.partition(":-")
    if name not in environ and not given:
        raise ConfigError(f"{where} wants the variable {shown_name(name)}, which is not set in the environment")
    return environ.get(name, usual)

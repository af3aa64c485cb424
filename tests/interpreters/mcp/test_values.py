"""Servers as values, files of them, the names of their tools, and what is hidden."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from cognition import ConfigError
from cognition.values.tools import NAME
from interpreters import MCPServers, MCPService
from interpreters.mcp._losses import LONGEST, wait_after
from interpreters.mcp.manager import tool_names
from interpreters.mcp.server_config import Hider, MCPServer, hide_url_keys, matches, read_servers
from runtime.models.installation import install_line

KEY = "sk-or-v1-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"


@given(st.lists(st.text(max_size=80), max_size=12))
def test_every_tool_has_a_name_of_its_own_within_its_server(names: list[str]) -> None:
    """Whatever a server calls its tools, each is meant by one name, and a rule for ``mcp.SERVER.*`` meets it."""
    made = tool_names("files", names)

    assert set(made) == set(names)
    assert len(set(made.values())) == len(made)
    assert all(NAME.fullmatch(name) and name.startswith("mcp.files.") for name in made.values())


@given(st.lists(st.text(st.sampled_from("ab _."), max_size=3), unique=True, max_size=8), st.randoms())
def test_no_name_depends_on_the_order_of_a_list(names: list[str], order: object) -> None:
    shuffled = list(names)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random

    assert tool_names("files", shuffled) == tool_names("files", names)


def test_a_plain_name_stays_and_a_strange_one_is_readable() -> None:
    made = tool_names("files", ["read_file", "read file", "ns.tool", "größe"])

    assert made == {
        "read_file": "mcp.files.read_file",
        "ns.tool": "mcp.files.ns.tool",
        "read file": made["read file"],
        "größe": "mcp.files.gr_e",
    }
    assert made["read file"].startswith("mcp.files.read_file-")


def test_no_key_is_in_a_repr() -> None:
    server = MCPServer("wiki", url=f"https://user:{KEY}@wiki.example/mcp?key={KEY}", headers={"Authorization": KEY})

    assert repr(server) == "MCPServer(name='wiki', url='https://wiki.example/mcp?...', headers={Authorization: ...})"
    assert KEY not in repr(MCPServer("files", command="x", env={"TOKEN": KEY}))
    assert KEY not in repr(MCPServer("files", command="x", args=(f"--api-key={KEY}", "--token", KEY)))
    assert hide_url_keys("https://wiki.example:8080/mcp") == "https://wiki.example:8080/mcp"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "a.b", "command": "x"}, "use 1 to 32 letters"),
        ({"name": "a"}, "either a command to start or a url"),
        ({"name": "a", "command": "x", "url": "http://h"}, "either a command to start or a url"),
        ({"name": "a", "url": "ftp://h"}, "http:// or https://"),
        ({"name": "a", "url": "http://h:port"}, "http:// or https://"),
        ({"name": "a", "url": "http://h/ä"}, "written as %20"),
        ({"name": "a", "url": "http://h", "args": ("x",)}, "which belongs to a command"),
        ({"name": "a", "command": "x", "headers": {"A": "b"}}, "which belongs to a url"),
        ({"name": "a", "command": "x", "timeout": 0.0}, "above 0 seconds"),
        ({"name": "a", "command": "x", "connect_timeout": float("nan")}, "above 0 seconds"),
        ({"name": "a", "url": "http://h", "headers": {"A": "b\r\nC: d"}}, "can't be sent"),
        ({"name": "a", "command": "x", "env": {"A=B": "c"}}, "can't be sent"),
        ({"name": "a", "command": "x", "output_limit": 0}, "above 0"),
        ({"name": "a", "command": "x\0"}, "a NUL"),
        ({"name": "a", "comand": "x"}, "command"),
    ],
)
def test_a_server_that_can_not_be_meant_is_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        MCPServer(**given)  # type: ignore[arg-type]  # mistakes are meant


def test_a_file_of_servers_is_read(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    listed = {
        "files": {"type": "stdio", "command": "serve", "args": ["${ROOT}"], "env": {"TOKEN": "${KEY}"}, "timeout": 5},
        "wiki": {"type": "http", "url": "http://127.0.0.1/mcp", "headers": {"A": "Bearer ${NONE:-none}"}},
        "off": {"command": "never", "disabled": True},
    }
    file.write_text(json.dumps({"mcpServers": listed}))

    assert read_servers(file, {"ROOT": "/srv", "KEY": KEY}) == (
        MCPServer("files", command="serve", args=("/srv",), env={"TOKEN": KEY}, timeout=5),
        MCPServer("wiki", url="http://127.0.0.1/mcp", headers={"A": "Bearer none"}),
    )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "lists no MCP servers"),
        ({"mcpServers": {"a": 5}}, "'a' has to be an object"),
        ({"mcpServers": {"a": {"comand": "x"}}}, "did you mean 'command'"),
        ({"mcpServers": {"a": {"command": "x", "autoApprove": ["*"]}}}, "write a rule for mcp.a"),
        ({"mcpServers": {"a": {"type": "sse", "url": "http://h"}}}, "does not fit"),
        ({"mcpServers": {"a": {"command": "${MISSING}"}}}, "wants the variable MISSING"),
        ({"mcpServers": {"a b": {"command": "x"}}}, "use 1 to 32 letters"),
        ({"mcpServers": {"a": {"command": ["x"]}}}, "command"),
    ],
)
def test_a_list_that_can_not_be_meant_says_where(data: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_servers(data, {})


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")

    with pytest.raises(ConfigError, match="it is no JSON"):
        read_servers(tmp_path / "broken.json")
    with pytest.raises(ConfigError, match="No such file"):
        read_servers(tmp_path / "none.json")


@given(st.text(st.sampled_from("ab*."), max_size=6), st.text(st.sampled_from("ab."), max_size=6))
def test_a_star_stands_for_any_characters(pattern: str, name: str) -> None:
    first, *rest = pattern.split("*")
    expected = name == pattern if not rest else name.startswith(first)
    for part in rest:
        expected = expected and part in name

    assert not matches(name, [pattern]) or expected
    assert matches(name, [name, "*"])


def test_keys_are_hidden_and_nothing_else() -> None:
    """What a server was given as a key is in nothing that it says; a folder that it was given is in all of it."""
    hide = Hider(
        MCPServer(
            "a",
            command="serve",
            args=("--token", "arg-secret", "--api-key=other-secret", "/srv/files"),
            env={"TOKEN": "first-secret", "ROOT": "/srv/files", "OPENROUTER": KEY, "PASSWORD": "abc"},
        )
    )

    said = f"first-secret /srv/files {KEY} arg-secret other-secret abc"
    assert hide(said) == "[hidden] /srv/files [hidden] [hidden] [hidden] abc"
    web = Hider(MCPServer("b", url="http://me:pass%20word@h/mcp?k=value1", headers={"Authorization": "Bearer token-1"}))
    assert (
        web("token-1 Bearer token-1 pass word value1 application") == "[hidden] [hidden] [hidden] [hidden] application"
    )
    assert Hider(MCPServer("c", command="x"))("anything") == "anything"


def test_the_first_call_after_a_loss_connects_at_once_and_later_ones_wait() -> None:
    waits = [wait_after(failures) for failures in range(10)]

    assert waits[:6] == [0.0, 0.0, 1.0, 2.0, 4.0, 8.0]
    assert waits == sorted(waits)
    assert wait_after(10_000) == LONGEST


def test_the_sdk_is_imported_by_nobody_who_connects_to_nothing() -> None:
    modules = "interpreters.mcp.client, interpreters.mcp.service, interpreters.cli.options.mcp_servers"
    code = f"import sys, {modules}\nprint('mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_without_the_sdk_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(ConfigError, match=re.escape(install_line("mcp"))):
        MCPServers([])
    with pytest.raises(ConfigError, match=re.escape(install_line("mcp"))):
        MCPService([])

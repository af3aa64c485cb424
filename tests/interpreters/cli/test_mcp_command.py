"""``cogstep mcp list``, and sessions with ``--mcp``: asked about, recorded, replayed, gone on with."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from pathlib import Path

import pytest

from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep, Start
from tests.interpreters.mcp.parts import PLAIN


@pytest.fixture
def plain(tmp_path: Path) -> str:
    """A server, as ``--mcp`` takes it."""
    return f"files={shlex.join([sys.executable, '-S', str(PLAIN), str(tmp_path)])}"


def test_list_says_what_servers_offer_and_what_is_wrong(here: Cogstep, tmp_path: Path, plain: str) -> None:
    done = here("mcp", "list", "--mcp", f"{plain} 'odd tools'", "--mcp", "gone=no-such-program")

    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"✓ files: {sys.executable}, plain 1, protocol 2025-")
    assert "    mcp.files.echo (asks)  Say it again." in lines
    assert "✗ gone: no-such-program" in lines
    assert (
        "! MCP server gone: it can't be reached: there is no program 'no-such-program' that could be started" in lines
    )
    assert "! MCP server files: a tool has no name" in lines


def test_list_as_data(here: Cogstep, tmp_path: Path) -> None:
    command = {"command": sys.executable, "args": ["-S", str(PLAIN), str(tmp_path)], "approval": False, "tools": ["e*"]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"files": command}}))
    done = here("mcp", "list", "--mcp", "servers.json", "--json")
    data = json.loads(done.stdout)

    assert done.returncode == 0
    assert [one["name"] for one in data["tools"]] == ["mcp.files.echo", "mcp.files.env"]
    assert data["problems"] == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "no server is named"),
        (["--mcp", "files"], "write NAME=COMMAND"),
        (["--mcp", "a=x 'y"], "can't be read"),
        (["--mcp", "a=x", "--mcp", "a=y"], "two servers are named 'a'"),
        (["--mcp", "none.json"], "No such file"),
        (["--mcp", "json:dumps"], "has to be an MCPServer or a list of them"),
        (["--mcp", "a="], "either a command to start or a url"),
    ],
)
def test_a_server_that_can_not_be_meant_is_one_line(here: Cogstep, given: list[str], told: str) -> None:
    done = here("mcp", "list", *given)

    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_session_with_a_server_asks_is_recorded_and_goes_on_without_it(
    here: Cogstep, tmp_path: Path, plain: str
) -> None:
    echo = call("mcp.files.echo", text="one")
    refused = here("run", "Go.", "--no-tools", "--mcp", plain, replies=[echo, "Done."])
    done = here(
        "run", "Go.", "--no-tools", "--mcp", plain, "--approve", "all", "--record", "s.jsonl", replies=[echo, "Done."]
    )
    replayed = here("replay", "s.jsonl")
    resumed = here("resume", "s.jsonl", "On.", "--mcp", "files=no-such-program", "--yes", replies=[echo, "Gone."])
    without = here("resume", "s.jsonl", "On.")

    assert "a call was refused, since nobody was here to approve it" in refused.stderr
    assert "← one" in done.stderr
    assert (done.stdout, replayed.returncode) == ("Done.\n", 0)
    assert "! MCP server files: it can't be reached: there is no program" in resumed.stderr
    assert "the MCP server 'files' can't be reached" in resumed.stderr
    assert resumed.stdout == "Gone.\n"
    assert "name the servers that have them, as in --mcp servers.json" in without.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--token-from", "X"], "--token-from is for --port"),
        (["--token-from", "NOT_THERE", "--port", "0"], "is not set, or empty"),
        (["--approve", "ask"], "nobody is at a terminal here"),
        (["--no-tools"], "there is nothing to serve"),
        (["--tools", "nothing"], "there is no tool 'nothing'"),
    ],
)
def test_what_can_not_be_served_is_one_line(here: Cogstep, given: list[str], told: str) -> None:
    done = here("mcp", "serve", *given)

    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


@pytest.mark.slow
def test_ctrl_c_ends_a_server_at_once(start: Start) -> None:
    """Though nothing has come on stdin, which a thread waits for."""
    server = start("mcp", "serve", "--tools", "calculate")
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    server.stdin.flush()
    assert json.loads(server.stdout.readline())["id"] == 1
    server.send_signal(signal.SIGINT)

    assert server.wait(20) == 130

"""``cogstep mcp``: show the tools of MCP servers, and serve our tools to other programs."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED, INTERRUPTED, UNANSWERED, CommandError
from interpreters.cli.options.arguments import (
    Parser,
    add_command,
    add_group,
    add_mcp_option,
    add_mode_option,
    add_place_options,
    add_sampling_options,
    add_session_options,
    add_tool_options,
)
from interpreters.cli.options.model_options import add_model_options
from interpreters.cli.options.values import COUNT, TURN
from interpreters.cli.screen.terminal import err, out

if TYPE_CHECKING:
    from interpreters.agents.agent import Agent
    from interpreters.cli.screen.styled import Style
    from interpreters.mcp.client import MCPServers

MCP = """\
Use the tools of MCP servers, or serve tools to other programs that speak the Model Context Protocol.

examples:
  cogstep mcp list --mcp files="npx some-server ."
  cogstep mcp serve --tools standard
"""

LIST = """\
Connect to servers and say what they offer: tools with the names that they have here, resources, prompts, and what can't
be used.

A server is named as NAME=COMMAND, NAME=http://..., by a JSON file of servers ({"mcpServers": {...}}, as other programs
have it), or by MODULE:NAME for a list of MCPServer.

examples:
  cogstep mcp list --mcp files="npx some-server ." --mcp wiki=http://127.0.0.1:8000/mcp
  cogstep mcp list --mcp servers.json --json
"""

SERVE = """\
Serve tools to another program: to the one that started this command, on stdin and stdout, or with --port to programs of
this machine, over HTTP. With --as-agent, what is served is an agent that has these tools, as one tool.

Calls are judged as in a session. What asks for an approval is refused, unless --approve says who answers.

examples:
  cogstep mcp serve --tools standard,my_tools:TOOLS
  cogstep mcp serve --as-agent reviewer --model ./qwen3-4b.gguf --tools standard --port 8000
"""


def add(commands: Any) -> None:
    actions = add_group(commands, "mcp", "use and serve tools by the Model Context Protocol", MCP)

    listing = add_command(actions, "list", "say what servers offer", LIST, _list)
    add_mcp_option(listing)
    listing.add_argument("--json", action="store_true", help="print it as one JSON object")

    serve = add_command(actions, "serve", "serve tools to other programs", SERVE, _serve)
    serve.add_argument(
        "--port", type=TURN, metavar="N", help="serve over HTTP, at this port of the loopback; 0: a free one"
    )
    serve.add_argument(
        "--token-from",
        metavar="VARIABLE",
        help="with --port: clients have to send what this variable of the environment holds, as a bearer token",
    )
    serve.add_argument("--as-agent", metavar="NAME", help="serve one tool of this name: an agent that has the tools")
    agent = serve.add_argument_group("agent")
    add_tool_options(agent, "default: standard")
    add_mode_option(agent, "default")
    add_place_options(agent)
    agent.add_argument("--system", metavar="TEXT", help="with --as-agent: its system prompt (default: none)")
    steps = "with --as-agent: replies in one turn (default: 12)"
    agent.add_argument("--max-steps", type=COUNT, metavar="N", help=steps)
    model = serve.add_argument_group("model, with --as-agent")
    add_model_options(model)
    add_sampling_options(model)


# ---------------------------------------------------------------------------------------------------------------- list


def _list(options: argparse.Namespace) -> int:
    from interpreters.cli.options.mcp_servers import open_servers

    servers = open_servers(options)
    if servers is None:
        raise CommandError("no server is named; write --mcp NAME=COMMAND, --mcp NAME=http://..., or --mcp FILE.json")
    servers.tools()  # connects
    connected = all(one.connected for one in servers.status())
    if options.json:
        out().write_json(_as_data(servers), indent=2)
    else:
        out().write_lines(_lines(servers))
    return ANSWERED if connected else UNANSWERED


def _as_data(servers: MCPServers) -> dict[str, Any]:
    from attrs import asdict

    names = ("name", "description", "parameters")
    return {
        "servers": [asdict(one) for one in servers.status()],
        "tools": [{name: getattr(tool.spec, name) for name in names} for tool in servers.tools()],
        "resources": [asdict(one) for one in servers.resources()],
        "prompts": [asdict(one) for one in servers.prompts()],
        "problems": [asdict(one) for one in servers.problems],
    }


def _lines(servers: MCPServers) -> Iterator[tuple[str, Style]]:
    from cognition.base.display import shown_name

    tools, resources, prompts = servers.tools(), servers.resources(), servers.prompts()
    for one in servers.status():
        if one.connected:
            info = f", {shown_name(one.info, 60)}" if one.info else ""
            yield f"✓ {one.name}: {one.where}{info}, protocol {one.protocol}", "plain"
        else:
            yield f"✗ {one.name}: {one.where}", "error"
        for tool in tools:
            if tool.spec.name.startswith(f"mcp.{one.name}."):
                first = tool.spec.description.strip().partition("\n")[0]
                asks = " (asks)" if tool.spec.approval else ""
                yield f"    {tool.spec.name}{asks}  {shown_name(first, 80)}", "plain"
        for resource in resources:
            if resource.server == one.name:
                yield f"    resource {shown_name(resource.uri, 80)}  {shown_name(resource.name, 80)}", "dim"
        for prompt in prompts:
            if prompt.server == one.name:
                yield f"    prompt {shown_name(prompt.name, 80)}({shown_name(', '.join(prompt.arguments), 80)})", "dim"
    for problem in servers.problems:
        yield f"! {problem}", "warning"


# --------------------------------------------------------------------------------------------------------------- serve


def _serve(options: argparse.Namespace) -> int:
    from cognition import Policy
    from interpreters.cli.options.model_options import load_options
    from interpreters.cli.options.program_options import program_options, runtime_options
    from interpreters.cli.options.tool_options import choose_tools
    from interpreters.cli.session.session import new_agent, protect
    from interpreters.mcp.service import MCPService, agent_tool
    from runtime import load_model

    token = _token(options)
    _as_of_a_session(options)
    if options.tools is None and options.agent is None and not options.no_tools:
        options.tools = ("standard",)
    approve, program = _approver(options.approve), program_options(options)
    about: dict[str, Any] = {"approve": approve, "mode": options.mode or "default", "deps": program.get("deps")}
    with contextlib.ExitStack() as at_the_end:
        if options.as_agent is not None:
            begin, more = new_agent(options), {**runtime_options(options), "approve": approve}
            model = load_model(options.model, isolate=bool(options.isolate), **load_options(options, lambda _: None))
            at_the_end.callback(model.close)

            def make() -> Agent:
                agent = begin(model, more)  # type: ignore[arg-type]  # each name of it is one of these
                if options.mode is not None:
                    agent.set_mode(options.mode)
                return agent

            service = MCPService([agent_tool(make, name=options.as_agent)], **about)
        else:
            tools = choose_tools(options)
            if not tools:
                raise CommandError("there is nothing to serve; name tools by --tools")
            given: Any = {"policy": program["policy"]} if "policy" in program else {}
            protect(given, tools)
            service = MCPService(tools, policy=given.get("policy") or Policy(), **about)
        if options.port is None:
            # The thread that reads stdin is not woken by Ctrl-C, and Python would wait for it.
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
            service.serve_stdio()
        else:
            service.serve_http(options.port, token=token, ready=lambda url: err().write_line(f"serving at {url}"))
    return ANSWERED


def _as_of_a_session(options: argparse.Namespace) -> None:
    """Add the defaults of all other options that a command with a session has."""
    session = Parser()
    add_session_options(session)
    for name, usual in vars(session.parse_args([])).items():
        if name not in options:
            setattr(options, name, usual)


def _token(options: argparse.Namespace) -> str:
    if options.token_from is None:
        return ""
    if options.port is None:
        raise CommandError("--token-from is for --port; on stdin and stdout nobody else can ask")
    if not (token := os.environ.get(options.token_from, "")):
        raise CommandError(f"--token-from {options.token_from}: this variable is not set, or empty")
    return token


def _approver(chosen: str | None) -> Any:
    from interpreters.cli.options.user_modules import load_approver

    match chosen:
        case None | "none":
            return None
        case "all":
            return lambda _request: True
        case "ask" | "later":
            raise CommandError(f"--approve {chosen}: nobody is at a terminal here; give all, none or MODULE:NAME")
        case name:
            return load_approver(name)

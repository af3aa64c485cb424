"""The other direction: our tools, and agents as tools, served to other programs over pipes or the loopback interface.

Policy judges a call from outside like a model's call. A call that needs approval is refused unless ``approve`` is set.
A call sent twice with the same ``cogstep/idempotency-key`` (as our client does after a lost connection) runs once.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import socket
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, redirect_stdout
from functools import partial
from importlib.util import find_spec
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from attrs import define

from cognition import AskApproval, CallTool, ConfigError, Image, Policy, ToolCall, ToolFailed, ToolReturned
from cognition.base.errors import CogstepError
from cognition.base.ids import EffectId
from cognition.values.features import Mode
from interpreters.agents.agent import Agent
from interpreters.loop.program.approvals import Approve
from interpreters.loop.program.program import answer_at_once
from interpreters.mcp._tool_call import KEY
from interpreters.tools.context import ToolContext, ToolError
from interpreters.tools.external import ExternalTool, Usable, as_tools
from interpreters.tools.offloading import run_in_thread
from interpreters.tools.tool import LEFT, Tool, run_tool, run_tool_async
from runtime.checking import checked_call
from runtime.models.installation import install_line

if TYPE_CHECKING:
    import mcp.types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

    Asked = ServerRequestContext[Any]

LOOPBACK = "127.0.0.1"

REMEMBERED = 1000
"""Number of keyed calls whose results are stored for a repetition."""

LONGEST_KEY = 200
DESCRIPTION = (
    "Ask an agent that works on its own and answers when it is done. It knows nothing of what was said before."
)
NOBODY = "it needs an approval, and nobody is there who could give one"


class MCPService:
    """Tools for other programs that use MCP.

    >>> from interpreters import MCPService, tool
    >>> @tool
    ... def multiply(a: int, b: int) -> int:
    ...     '''Multiply two whole numbers.'''
    ...     return a * b
    >>> service = MCPService([multiply])  # and then service.serve_stdio() or service.serve_http()

    Args:
        tools: functions, tools made by ``@tool``, ``agent_tool(...)``.
        name: the service's name.
        instructions: its instructions for a model.
        policy: which calls may run. None: ``Policy()``, which allows all calls that need no approval.
        approve: called for calls that need an approval. None: they are refused.
        mode: as in a session.
        deps: passed to tools as ``ToolContext.deps``.

    Raises:
        ConfigError: a tool can't be served, two have the same name, or the extra ``mcp`` is not installed.
    """

    @checked_call
    def __init__(
        self,
        tools: Iterable[Usable],
        *,
        name: str = "cogstep",
        instructions: str = "",
        policy: Policy | None = None,
        approve: Approve | None = None,
        mode: Mode = "default",
        deps: Any = None,
    ) -> None:
        if find_spec("mcp") is None:
            raise ConfigError(f"serving tools needs the official SDK: {install_line('mcp')}")
        self.tools: dict[str, Tool[..., Any]] = {}
        for tool in as_tools(tools):
            if isinstance(tool, ExternalTool):
                raise ConfigError(f"tool {tool.spec.name!r} is a ToolSpec, and nothing that could run; leave it out")
            if tool.spec.name in self.tools:
                raise ConfigError(f"two tools are named {tool.spec.name!r}; give one of them another name")
            tool.prepare()
            self.tools[tool.spec.name] = tool
        self.name = name
        self.instructions = instructions
        self._policy = policy or Policy()
        self._approve = approve
        self._mode: Mode = mode
        self._deps = deps
        self._session = token_hex(16)
        self._numbers = itertools.count(1)
        self._seen: OrderedDict[str, asyncio.Task[types.CallToolResult]] = OrderedDict()

    # ------------------------------------------------------------------------------------------------- ways to serve

    def serve_stdio(self) -> None:
        """Serve the parent process on stdin and stdout, until it closes them. Tools' prints go to stderr."""
        asyncio.run(self._over_pipes())

    async def _over_pipes(self) -> None:
        from mcp.server.stdio import stdio_server

        server = self.server()
        own = sys.stdout if sys.__stdout__ is None else sys.__stdout__  # the SDK wants the stream of Python's own
        async with AsyncExitStack() as stack:
            with redirect_stdout(own):
                read, write = await stack.enter_async_context(stdio_server())
            await server.run(read, write, server.create_initialization_options())

    def serve_http(self, port: int = 0, *, token: str = "", ready: Callable[[str], object] | None = None) -> None:
        """Serve programs of this machine over HTTP, until interrupted.

        Args:
            port: on the loopback interface; 0 for a free port.
            token: clients must send it as ``Authorization: Bearer TOKEN``. Empty: every program of this machine has
                access, of any user.
            ready: called with the address once the service listens.

        Raises:
            ConfigError: the port is taken.
        """
        import uvicorn

        try:
            listener = socket.create_server((LOOPBACK, port))
        except OSError as error:
            raise ConfigError(f"port {port} can't be listened at: {error.strerror}; choose another, or 0") from error
        with listener:
            config = uvicorn.Config(self.app(token=token), log_level="error", timeout_graceful_shutdown=2)
            if ready is not None:
                ready(f"http://{LOOPBACK}:{listener.getsockname()[1]}/mcp")
            uvicorn.Server(config).run(sockets=[listener])

    def app(self, *, token: str = "") -> ASGIApp:
        """Return the service as an ASGI app, at the path ``/mcp``; requests from pages of other sites are refused."""
        app: ASGIApp = self.server().streamable_http_app(host=LOOPBACK)
        return _TokenCheck(app, token) if token else app

    def server(self) -> Server[Any]:
        """Return the service as a server of the SDK."""
        from mcp.server.lowlevel import Server

        return Server(
            self.name,
            instructions=self.instructions or None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    # --------------------------------------------------------------------------------------------------- what is asked

    async def _list_tools(self, _context: Asked, _params: Any) -> types.ListToolsResult:
        import mcp.types as types

        listed: list[types.Tool] = []
        for name, tool in self.tools.items():
            said, schema = tool.spec.description, {"type": "object", **tool.spec.parameters}
            hints = types.ToolAnnotations(read_only_hint=tool.spec.read_only, idempotent_hint=tool.spec.repeatable)
            listed.append(types.Tool(name=name, description=said, input_schema=schema, annotations=hints))
        return types.ListToolsResult(tools=listed)

    async def _call_tool(self, context: Asked, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        key = (context.meta or {}).get(KEY)
        if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY:
            return await self._judge_and_run(context, params.name, arguments)
        known = self._seen.get(key)
        if known is not None and known.cancelled():
            tool = self.tools.get(params.name)
            if tool is not None and not tool.spec.repeatable:
                return _result(LEFT, failed=True)
            known = None
        if known is None:
            known = self._seen[key] = asyncio.ensure_future(self._judge_and_run(context, params.name, arguments))
            while len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        return await known

    async def _judge_and_run(self, context: Asked, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        if (tool := self.tools.get(name)) is None:
            return _result(f"there is no tool {name!r}", failed=True)
        number = next(self._numbers)
        call = ToolCall(f"call-{number}-1-1", name, arguments)
        verdict = self._policy.judge(call, tool.spec, (), self._mode)
        if verdict.action == "deny":
            return _result(f"this call is not permitted: {verdict.reason}", failed=True)
        specs = {one: known.spec for one, known in self.tools.items()}
        access = self._policy.access_rules(call, specs, (), self._mode)
        effect = CallTool(EffectId(f"{number}.1.1"), call, access)
        if verdict.action == "ask":
            if self._approve is None:
                return _result(f"{NOBODY} ({verdict.reason})", failed=True)
            question = AskApproval(effect.effect_id, call, verdict.reason, access)
            ask = partial(answer_at_once, self._approve, question, tool, self._deps, self._session)
            if not await run_in_thread(ask):
                return _result("the user refused this call", failed=True)
        return await self._run(context, tool, effect)

    async def _run(self, context: Asked, tool: Tool[..., Any], effect: CallTool) -> types.CallToolResult:
        progress = _Progress(context)
        given: ToolContext[Any] = ToolContext(
            self._deps,
            session=self._session,
            call_id=effect.call.id,
            effect_id=effect.effect_id,
            tool=effect.call.name,
            access=effect.access,
            report=progress.report,
        )
        try:
            if tool.is_async:
                answer = await run_tool_async(tool, effect, given)
            else:
                answer = await run_in_thread(partial(run_tool, tool, effect, given))
        except asyncio.CancelledError:
            given.cancel()
            raise
        finally:
            await progress.end()
        match answer:
            case ToolReturned(content=content, images=images):
                return _result(content, images=images)
            case ToolFailed(message=message):
                return _result(message, failed=True)


def _result(text: str, *, failed: bool = False, images: tuple[Image, ...] = ()) -> types.CallToolResult:
    import mcp.types as types

    shown = [types.ImageContent(type="image", data=image.data, mime_type=image.media_type) for image in images]
    return types.CallToolResult(content=[types.TextContent(type="text", text=text), *shown], is_error=failed)


class _Progress:
    """Sends a tool's progress reports in order, from any thread."""

    def __init__(self, context: Asked) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()
        self._sending = asyncio.ensure_future(self._send())

    def report(self, text: str) -> None:
        self._loop.call_soon_threadsafe(self._texts.put_nowait, text)

    async def _send(self) -> None:
        for number in itertools.count(1):
            if (text := await self._texts.get()) is None:
                return
            await self._context.session.report_progress(number, message=text)

    async def end(self) -> None:
        self._texts.put_nowait(None)
        await asyncio.gather(self._sending, return_exceptions=True)


@define
class _TokenCheck:
    """Rejects requests without the token."""

    app: ASGIApp
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                start = {"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]}
                await send(start)
                await send({"type": "http.response.body", "body": b"the token is missing or wrong\n"})
                return
        await self.app(scope, receive, send)


def agent_tool(make: Callable[[], Agent], *, name: str = "ask_agent", description: str = DESCRIPTION) -> Tool[..., Any]:
    """Return a tool that sends a message to an agent. Each call is a separate conversation; calls may run concurrently.

    The agent's tool calls are reported as progress. Cancelling a call cancels the agent's turn. A call fails if its
    turn fails or waits for an answer, since no user can give it.

    Args:
        make: returns a new agent, which is closed after its answer. Its model may be shared.
        name: the tool's name.
        description: for the model: the agent's purpose.
    """

    def ask(message: str, context: ToolContext[Any]) -> str:
        try:
            with make() as agent:
                context.when_cancelled(agent.cancel)
                with agent.stream(message) as turn:
                    for event in turn:
                        if isinstance(event.value, CallTool):
                            context.progress(f"calls {event.value.call.name}")
                result = turn.result
                if result.pending:
                    agent.cancel("nobody answers here")
                return result.raise_for_failure().text
        except CogstepError as error:
            raise ToolError(str(error)) from error
        finally:
            context.when_cancelled(None)

    return Tool(ask, name=name, description=description)

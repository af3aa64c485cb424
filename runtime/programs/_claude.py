"""Claude Code's ``claude``: its arguments, and the reader of its output. Pure.

``claude -p --output-format stream-json --verbose --include-partial-messages`` reads a prompt from stdin and writes
events, one JSON object a line (https://code.claude.com/docs/en/cli-reference, .../headless)::

    {"type": "system", "subtype": "init", "session_id": "...", "tools": [], "permissionMode": "default"}
    {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hel"}}}
    {"type": "assistant", "message": {"id": "...", "content": [{"type": "text", "text": "Hello"}], "usage": {}}}
    {"type": "result", "subtype": "success", "is_error": false, "result": "Hello", "usage": {}, "total_cost_usd": 0.01}

``stream_event`` wraps an event of Anthropic's API. ``assistant`` is a complete message or block; streamed text in it is
ignored. A turn ended by an API error is also a ``result`` with the subtype ``success``, and the process may exit with
0; only ``is_error`` counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import astuple, evolve

from cognition import Failure, GenerationOptions, ModelRequest, Usage
from runtime.programs._events import EventReader, WrongEventError, count, items, object_of, optional_text, part, text_of
from runtime.programs._failures import SESSION_GONE, failure_of, resets_at
from runtime.programs._program import Program
from runtime.programs.options import ClaudeOptions, McpServer

SIGN_IN = "sign in with `claude`, or set ANTHROPIC_API_KEY"

VARIABLES = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR",
    "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
"""User environment variables that ``claude`` receives beside those of every child."""

THINKING_TOKENS = 16_000
"""Thinking tokens of a reply, if the request asks for reasoning."""

STRUCTURED_OUTPUT = "StructuredOutput"
"""The tool that returns a schema reply; it runs nothing."""
NO_STRUCTURED_OUTPUT = Failure("claude gave no reply in the form of the response_format", kind="bad_output")
MCP_HELPERS = frozenset({"ListMcpResourcesTool", "ReadMcpResourceTool"})
"""Tools that it adds to those of MCP servers."""

LONGEST_SCHEMA = 100_000
"""Maximum bytes of a schema. It is passed as an argument, limited to 128 KiB on Linux."""

AUTO_MEMORY = "CLAUDE_CODE_DISABLE_AUTO_MEMORY"
"""The variable that disables its own notes: they are not settings, and ``--setting-sources`` does not affect them."""

LIMITS = {
    "error_max_turns": "it took as many steps as ClaudeOptions.max_turns allows",
    "error_max_budget_usd": "it cost as much as ClaudeOptions.max_cost allows",
}
"""The options that ended a reply, by the subtype of its result."""

SYSTEM_FILE, MCP_FILE = "system.txt", "mcp.json"

SYNTHETIC = "<synthetic>"
"""The model name in messages that Claude Code writes itself, such as errors."""


# ------------------------------------------------------------------------------------------------------------ calling


def arguments(request: ModelRequest, options: ClaudeOptions, model: str, files: Path, session: str) -> list[str]:
    """Return the arguments. They contain no text of the conversation, since other users may read them.

    Args:
        request: its system prompt and schema become arguments or files.
        options: the options.
        model: its name; empty for the default.
        files: the folder with the files of ``files_for``.
        session: the session to continue; empty for a new one.
    """
    told = [
        "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
        "--permission-mode", options.permission_mode,
        f"--setting-sources={','.join(options.settings)}",
        "--strict-mcp-config",
        # A name behind these would be taken for one more of theirs, so each is given by itself.
        f"--tools={','.join(_bases(options))}",
    ]  # fmt: skip
    system_option = "--append-system-prompt-file" if options.append_system else "--system-prompt-file"
    optional = {
        f"--allowedTools={','.join(options.tools)}": options.tools,
        f"--mcp-config={files / MCP_FILE}": options.mcp_servers,
        "--dangerously-skip-permissions": options.dangerously_skip_permissions,
        f"{system_option}={files / SYSTEM_FILE}": request.system,
        "--system-prompt=": not request.system and not options.append_system,
        f"--model={model}": model,
        f"--max-turns={options.max_turns}": options.max_turns is not None,
        f"--max-budget-usd={options.max_cost}": options.max_cost is not None,
        f"--json-schema={request.options.response_format}": request.options.response_format,
        "--no-session-persistence": not options.sessions,
        f"--resume={session}": session,
        "--fork-session": session,
    }
    return told + [option for option, given in optional.items() if given]


def files_for(request: ModelRequest, options: ClaudeOptions) -> dict[str, str]:
    """Return the files that the arguments refer to, by name: readable only by this user, deleted with the reply."""
    files = {SYSTEM_FILE: request.system} if request.system else {}
    if options.mcp_servers:
        servers = {server.name: _server_config(server) for server in options.mcp_servers}
        files[MCP_FILE] = json.dumps({"mcpServers": servers})
    return files


def _bases(options: ClaudeOptions) -> list[str]:
    """The names of the allowed built-in tools: ``Bash`` of ``Bash(git log:*)``."""
    return list(dict.fromkeys(tool.partition("(")[0] for tool in options.own_tools))


def _server_config(server: McpServer) -> dict[str, Any]:
    """A server in Claude Code's configuration format, which expands variable names."""
    if server.url:
        headers = {"Authorization": f"Bearer ${{{server.token}}}"} if server.token else {}
        return {"type": "http", "url": server.url, "headers": headers}
    variables = {name: f"${{{name}}}" for name in server.variables}
    return {"type": "stdio", "command": server.command[0], "args": [*server.command[1:]], "env": variables}


def settings(options: GenerationOptions) -> dict[str, str]:
    """Return the variables to set for a reply."""
    # A title would be one more request, with the beginning of the conversation in it.
    # What it has noted in other sessions of a folder would stand in the prompt.
    told = dict.fromkeys(("DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_TERMINAL_TITLE", AUTO_MEMORY), "1")
    if options.max_tokens is not None:
        told["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(options.max_tokens)
    if options.thinking is not None:
        told["MAX_THINKING_TOKENS"] = str(THINKING_TOKENS if options.thinking else 0)
    return told


def refusal(request: ModelRequest) -> Failure | None:
    """Return why the request is unsupported, or None."""
    if len(request.options.response_format.encode()) > LONGEST_SCHEMA:
        return Failure(f"claude takes no response_format of more than {LONGEST_SCHEMA:,} bytes", kind="fatal")
    return None


# ------------------------------------------------------------------------------------------------------------ reading


class ClaudeReader(EventReader):
    """Reads the output of ``claude``.

    Args:
        options: the options; the reader checks that ``claude`` obeys them.
        structured: whether the request has a schema.
    """

    def __init__(self, options: ClaudeOptions, *, structured: bool = False, **more: Any) -> None:
        super().__init__("claude", structured=structured, **more)
        self._options = options
        self._own = frozenset(_bases(options))
        self._message = ""
        self._is_open = False
        """Whether the message has content and no stop reason yet."""
        self._streamed: set[str] = set()
        self._texts_of = ""
        """The id of the message with the latest text."""
        self._reported: set[str] = set()
        self._messages: dict[str, Usage] = {}
        self._reported_failure = ""
        self._code = ""
        self._counted = False
        """Whether the program has reported its total tokens."""

    def _event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        self.session = optional_text(event, "session_id") or self.session
        if kind == "result":
            self._result(event)
        elif self.ended or self.reason == "length" or event.get("parent_tool_use_id") is not None:
            return  # of a helper that it has started itself: what it says is for it
        elif kind == "system" and event.get("subtype") == "init":
            self._read_start(event)
        elif kind == "system" and event.get("subtype") == "api_retry":
            # It retries its provider ten times in three minutes. A key refused twice counts as invalid.
            self._code = code = optional_text(event, "error") or self._code
            if event.get("error_status") == 401 and count(event, "attempt") > 1:
                self.wrong = failure_of("claude", f"its provider refuses the key; {SIGN_IN}", status=401, code=code)
        elif kind == "stream_event":
            self._read_stream_event(object_of(event, "event"))
        elif kind == "assistant":
            self._read_message(event)
        elif kind == "rate_limit_event":
            info = part(event, "rate_limit_info")
            over = info.get("resetsAt")
            if info.get("status") == "rejected" and isinstance(over, int | float):
                self.limit_over = float(over)

    def _read_start(self, event: Mapping[str, Any]) -> None:
        """Check the program's reported tools and permissions against the options."""
        more = [name for name in items(event, "tools", str) if not self._may_have(name)]
        if more:
            self.refuse(
                f"offers its model tools that it was told to leave out ({', '.join(more[:8])}): it is too old for "
                "that, or too new; update it, or allow them by name in ClaudeOptions.tools"
            )
        if event.get("permissionMode") == "bypassPermissions" and not self._options.dangerously_skip_permissions:
            self.refuse("skips all permissions, which nobody has asked for: look at its settings")
        for server in items(event, "mcp_servers", dict):
            if server.get("status") in ("failed", "needs-auth"):
                name = optional_text(server, "name")
                self.warn(f"the MCP server {name!r} can't be used by claude ({server['status']})")

    def _may_have(self, tool: str) -> bool:
        servers = self._options.mcp_servers
        return (
            tool in self._own
            or (self.structured and tool == STRUCTURED_OUTPUT)
            or (bool(servers) and tool in MCP_HELPERS)
            or any(tool.startswith(f"mcp__{server.name}__") for server in servers)
        )

    # ------------------------------------------------------------------------------------------- one message

    def _read_stream_event(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind in ("message_start", "message_stop"):
            self._check_stopped()
        if kind == "message_start":
            message = object_of(event, "message")
            self._message = optional_text(message, "id")
            self._count(self._message, part(message, "usage"))
        elif kind == "content_block_start":
            self._is_open = True
        elif kind == "content_block_delta":
            self._is_open = True
            delta = object_of(event, "delta")
            if delta.get("type") == "text_delta":
                self._streamed.add(self._message)
                self._text_of(self._message, text_of(delta, "text"))
            elif delta.get("type") == "thinking_delta":
                self._streamed.add(self._message)
                self.reasoning(text_of(delta, "thinking"))
        elif kind == "message_delta":
            self._read_stop_reason(optional_text(part(event, "delta"), "stop_reason"))
            self._count(self._message, part(event, "usage"))
        elif kind == "error":
            error = part(event, "error")
            self._reported_failure, self._code = optional_text(error, "message"), optional_text(error, "type")

    def _check_stopped(self) -> None:
        """End the reading at the end of a message without a stop reason: the stream of its provider broke off.

        ``claude`` from 2.1.300 on then asks for the rest in a second message, whose beginning need not fit the end of
        the first, and runs the calls of both.
        """
        if self._is_open:
            broke_off = "the stream of its provider broke off within a message, and it went on with another one"
            self.wrong = self.wrong or Failure(f"claude: {broke_off}", kind="transient", code="broke_off")

    def _text_of(self, message: str, text: str) -> None:
        """Add text of a message; an empty line separates messages."""
        if self.structured or not text:  # what it says around a reply of a schema is none
            return
        if self._texts_of != message and self._texts_of:
            self.text("\n\n")
        self._texts_of = message or "?"
        self.text(text)

    def _read_message(self, event: Mapping[str, Any]) -> None:
        message = object_of(event, "message")
        content = message.get("content")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            raise WrongEventError("wrote a message whose content is no list of blocks")
        name = optional_text(message, "id")
        if optional_text(event, "error") or message.get("model") == SYNTHETIC:
            self._code = optional_text(event, "error") or self._code
            self._reported_failure = (
                "\n".join(optional_text(block, "text") for block in content) or self._reported_failure
            )
            return
        for block in content:
            kind = block.get("type")
            if kind == "tool_use":
                self._call(block)
            elif name not in self._streamed and kind == "text":
                self._text_of(name, text_of(block, "text"))
            elif name not in self._streamed and kind == "thinking":
                self.reasoning(optional_text(block, "thinking"))
        if name not in self._messages:
            self._count(name, part(message, "usage"))

    def _call(self, block: Mapping[str, Any]) -> None:
        name, call = text_of(block, "name"), optional_text(block, "id")
        if name == STRUCTURED_OUTPUT or (call and call in self._reported):
            return
        self._reported.add(call)
        self.report_tool_use(name, block.get("input"))

    def _read_stop_reason(self, why: str) -> None:
        self._is_open = self._is_open and not why
        if why in ("max_tokens", "model_context_window_exceeded"):
            self.reason = "length"  # it would have its model go on, three times
        elif why:
            self.reason = "stop"
        declined = Failure("claude: the model declined to answer", kind="fatal", code="refusal")
        self.failure = declined if why == "refusal" else None

    def _count(self, message: str, usage: Mapping[str, Any]) -> None:
        """Update the counts of a message in progress: each event has the totals so far, or omits them."""
        if self._counted or not usage:
            return
        so_far = self._messages.get(message, Usage())
        self._messages[message] = Usage(*map(max, astuple(so_far), astuple(_usage(usage))))
        self.usage = sum(self._messages.values(), Usage())

    # ------------------------------------------------------------------------------------------------- the end

    def _result(self, event: Mapping[str, Any]) -> None:
        self.ended = True
        usage = _usage(part(event, "usage"))
        if usage != Usage():
            self.usage, self._counted = usage, True
        cost = event.get("total_cost_usd")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9:
            self.usage = evolve(self.usage, cost=float(cost))
        if reason := optional_text(event, "stop_reason"):
            self._read_stop_reason(reason)
        for denial in items(event, "permission_denials", dict):
            if name := optional_text(denial, "tool_name"):
                self.warn(f"claude was refused a call of its tool {name!r}; ClaudeOptions.tools allows tools by name")
        if self.reason == "length":
            return
        if event.get("is_error") is not False or event.get("subtype") != "success":
            self._read_failure(event)
        elif not self.structured:
            self._text_of("?", "" if self._texts_of else optional_text(event, "result"))
        elif event.get("structured_output") is not None:
            self.text(json.dumps(event["structured_output"], ensure_ascii=False))
        else:
            self.failure = self.failure or NO_STRUCTURED_OUTPUT

    def _read_failure(self, event: Mapping[str, Any]) -> None:
        subtype = optional_text(event, "subtype")
        words = optional_text(event, "result") or "; ".join(items(event, "errors", str)) or self._reported_failure
        if "output token maximum" in words:  # the limit was reached: what had come of the reply is one that was cut
            self.reason = "length"
            return
        if subtype in LIMITS:
            self.failure = Failure(f"claude did not finish: {LIMITS[subtype]}", kind="fatal", code=subtype)
            return
        if subtype == "error_max_structured_output_retries":
            self.failure = NO_STRUCTURED_OUTPUT
            return
        status = event.get("api_error_status")
        code = "session_gone" if SESSION_GONE.search(words) else self._code or (subtype if subtype != "success" else "")
        said = words or f"it failed without a word ({subtype or 'no reason'})"
        self.failure = failure_of("claude", said, status=status if type(status) is int else None, code=code)
        self.limit_over = self.limit_over or resets_at(words)


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Convert Anthropic's numbers: its ``input_tokens`` exclude cached tokens."""
    read, written = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    return Usage(count(usage, "input_tokens") + read + written, count(usage, "output_tokens"), read)


CLAUDE = Program(
    name="claude",
    options=ClaudeOptions,
    install="npm install -g @anthropic-ai/claude-code, and sign in with: claude",
    sign_in=SIGN_IN,
    variables=VARIABLES,
    heeded=frozenset({"max_tokens", "thinking"}),
    takes_system=True,
    forks=True,
    reports_costs=True,
    arguments=arguments,
    files_for=files_for,
    settings=settings,
    refusal=refusal,
    reader=lambda options, structured: ClaudeReader(options, structured=structured),
)

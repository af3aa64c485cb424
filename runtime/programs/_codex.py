"""OpenAI's ``codex``: its arguments, and the reader of its output. Pure.

``codex exec --json -`` reads a prompt from stdin and writes events, one JSON object a line
(https://developers.openai.com/codex/noninteractive)::

    {"type": "thread.started", "thread_id": "..."}
    {"type": "turn.started"}
    {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "..."}}
    {"type": "item.started", "item": {"id": "item_1", "type": "command_execution", "command": "ls"}}
    {"type": "item.completed", "item": {"id": "item_2", "type": "agent_message", "text": "Hello"}}
    {"type": "turn.completed", "usage": {"input_tokens": 24, "cached_input_tokens": 8, "output_tokens": 5}}

A message arrives complete. The last message of a turn is the answer; earlier messages announce the next steps and are
reported as reasoning. ``error`` alone ends nothing, since it also reports reconnections; ``turn.failed`` does. Codex
has no setting to remove all tools. So its settings forbid them, and an item of a tool that is not allowed ends the
process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import astuple

from cognition import ModelRequest, Usage
from runtime.children.start import SECRET
from runtime.programs._events import EventReader, count, object_of, optional_text, part, text_of
from runtime.programs._failures import failure_of
from runtime.programs._program import Program
from runtime.programs.options import CodexOptions, McpServer

VARIABLES = ("CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_API_KEY", "OPENAI_BASE_URL")
"""User environment variables that ``codex`` receives beside those of every child."""

SCHEMA_FILE = "schema.json"

SWITCHES: Mapping[str, tuple[str, ...]] = {
    "shell": ("features.shell_tool", "features.unified_exec"),
    "apply_patch": ("include_apply_patch_tool", "features.apply_patch_freeform"),
}
"""Settings to switch off if a tool is not allowed. A version ignores unknown settings."""
WRITERS = ("shell", "apply_patch")
"""Tools that can write. Some models have ``apply_patch`` regardless of the settings; the sandbox then blocks its
writes.
"""

ALWAYS_OFF = (
    "agents.enabled",
    "features.multi_agent",
    "features.multi_agent_v2",
    "features.apps",
    "features.plugins",
    "features.tool_suggest",
    "features.memories",
    "features.image_generation",
    "features.computer_use",
    "features.browser_use",
    "features.goals",
    "features.view_image",
    "tools.view_image",
)
"""Features that no option allows. No event reports a picture that its model views, or a helper that it starts."""
USERS_OWN = ("analytics.enabled", "features.hooks", "skills.include_instructions")
"""Features that only apply with the user's other settings: usage reports, hook programs, and additions to prompts."""
OUTLIVED = re.compile(r"`(?:include_apply_patch_tool|tools\.view_image)` is ignored")
"""Settings for older versions; newer versions replaced them and report them as ignored."""
IGNORED = re.compile(r"`[^`]*` is ignored")

HARMLESS = ("todo_list", "plan")
"""Kinds of items that are not tool calls and need no report."""

ITEMS: Mapping[str, str] = {"command_execution": "shell", "file_change": "apply_patch", "web_search": "web_search"}
"""Kinds of items that are tool calls, and their tools."""


# ------------------------------------------------------------------------------------------------------------ calling


def arguments(request: ModelRequest, options: CodexOptions, model: str, files: Path, session: str) -> list[str]:
    """Return the arguments. They contain no text of the conversation, since other users may read them.

    Args: see ``claude.arguments``.
    """
    told = ["exec", "--json", "--color=never", "--skip-git-repo-check"]
    if options.dangerously_skip_permissions:
        told.append("--dangerously-bypass-approvals-and-sandbox")
    else:
        writes = any(tool in options.tools for tool in WRITERS)
        told.append(f"--sandbox={options.sandbox if writes else 'read-only'}")
    optional = {
        "--ignore-user-config": not options.user_settings,
        "--ignore-rules": not options.user_settings,
        "--ephemeral": not options.sessions,
        f"--model={model}": model,
        f"--output-schema={files / SCHEMA_FILE}": request.options.response_format,
    }
    told += [option for option, given in optional.items() if given]
    for key, value in _config_values(options).items():
        told += ["-c", f"{key}={value}"]
    return [*told, *(["resume", session] if session else []), "-"]


def files_for(request: ModelRequest, _options: CodexOptions) -> dict[str, str]:
    """Return the files that the arguments refer to, by name: readable only by this user, deleted with the reply."""
    schema = request.options.response_format
    return {SCHEMA_FILE: schema} if schema else {}


def _config_values(options: CodexOptions) -> dict[str, str]:
    told = {} if options.dangerously_skip_permissions else {"approval_policy": toml("never")}
    told["project_doc_max_bytes"] = "0"  # no AGENTS.md of whatever folder it runs in
    told["web_search"] = toml("live" if "web_search" in options.tools else "disabled")
    for tool, keys in SWITCHES.items():
        if tool not in options.tools:
            told |= dict.fromkeys(keys, "false")
    told |= dict.fromkeys(ALWAYS_OFF, "false")
    if not options.user_settings:
        told |= dict.fromkeys(USERS_OWN, "false")
    # Hidden from the model's commands: the variables for codex itself and its servers.
    hidden = [name for name in VARIABLES if SECRET.search(name)]
    hidden += [name for server in options.mcp_servers for name in (*server.variables, server.token) if name]
    exclude = [name for name in dict.fromkeys(hidden) if name not in options.variables]
    told["shell_environment_policy.exclude"] = toml(exclude)
    if options.effort:
        told["model_reasoning_effort"] = toml(options.effort)
    for server in options.mcp_servers:
        told |= _server_config(server, options)
    return told


def _server_config(server: McpServer, options: CodexOptions) -> dict[str, str]:
    place, prefix = f"mcp_servers.{server.name}", f"mcp__{server.name}__"
    allowed = [tool.removeprefix(prefix) for tool in options.tools if tool.startswith(prefix)]
    told = {f"{place}.enabled_tools": toml(allowed), f"{place}.default_tools_approval_mode": toml("approve")}
    if server.url:
        told[f"{place}.url"] = toml(server.url)
        if server.token:
            told[f"{place}.bearer_token_env_var"] = toml(server.token)
        return told
    told[f"{place}.command"] = toml(server.command[0])
    told[f"{place}.args"] = toml(list(server.command[1:]))
    told[f"{place}.env_vars"] = toml(list(server.variables))
    return told


def toml(value: str | list[str]) -> str:
    """Return a text or a list of texts in TOML: like JSON, but with DEL escaped."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode().replace("\x7f", "\\u007f")


# ------------------------------------------------------------------------------------------------------------ reading


class CodexReader(EventReader):
    """Reads the output of ``codex``.

    Args:
        options: the options; the reader checks that ``codex`` obeys them.
    """

    def __init__(self, options: CodexOptions, **more: Any) -> None:
        super().__init__("codex", **more)
        self._options = options
        self._held: str | None = None
        """The last message; it is the answer if the turn ends before another message."""
        self._reported: set[str] = set()
        self._reported_failure = ""

    def _event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "thread.started":
            self.session = optional_text(event, "thread_id")
        elif kind in ("item.started", "item.updated", "item.completed") and not self.ended:
            self._item(object_of(event, "item"), whole=kind == "item.completed")
        elif kind == "turn.completed":
            usage = part(event, "usage")
            self.ended = True
            self.failure = None  # a connection that was tried again, and came about
            self.total = Usage(
                count(usage, "input_tokens"), count(usage, "output_tokens"), count(usage, "cached_input_tokens")
            )
            # Codex reports the total of the whole session, including earlier turns; or it has begun to count anew.
            since = [now - then for now, then in zip(astuple(self.total), astuple(self.before), strict=True)]
            self.usage = self.total if min(since) < 0 else Usage(*since)
            self._finish()
        elif kind == "turn.failed":
            self._reported_failure = optional_text(part(event, "error"), "message") or self._reported_failure
            self.ended = True
            self.failure = failure_of("codex", self._reported_failure or "its turn failed without a word")
        elif kind == "error":
            self._reported_failure = optional_text(event, "message") or self._reported_failure
            self.failure = failure_of("codex", self._reported_failure or "an error without a word")

    def _item(self, item: Mapping[str, Any], *, whole: bool) -> None:
        kind = optional_text(item, "type") or optional_text(item, "item_type")
        if kind in ("agent_message", "assistant_message", "reasoning") and not whole:
            return
        if kind in ("agent_message", "assistant_message"):
            self._message(text_of(item, "text"))
        elif kind == "reasoning":
            self.note(optional_text(item, "text"))
        elif kind == "error":
            message = optional_text(item, "message")  # of unknown settings; those that it has replaced need no warning
            if len(IGNORED.findall(message)) > len(OUTLIVED.findall(message)) or not OUTLIVED.search(message):
                self.warn(f"codex says: {message[:300]}")
        elif kind == "mcp_tool_call":
            tool = f"mcp__{optional_text(item, 'server')}__{optional_text(item, 'tool')}"
            self._report_call(item, tool, item.get("arguments"))
        elif kind in ITEMS:
            told = item.get("command") or item.get("query") or item.get("changes") or ""
            self._report_call(item, ITEMS[kind], told)
        elif kind == "collab_tool_call":
            self.refuse("has started a helper of its own, which it was told not to do")
        elif kind not in HARMLESS:
            self.warn(f"codex did something of a kind that is not known here: {kind[:60]!r}")

    def _report_call(self, item: Mapping[str, Any], tool: str, arguments: Any) -> None:
        if tool not in self._options.tools:
            self.refuse(f"has used its tool {tool!r}, which CodexOptions.tools does not allow")
            return
        name = optional_text(item, "id")
        if name not in self._reported:
            self._reported.add(name)
            self.report_tool_use(tool, arguments)

    def _message(self, text: str) -> None:
        if self._held is not None:
            self.note(self._held)
        self._held = text

    def _finish(self) -> None:
        self.text(self._held or "")
        self._held = None


CODEX = Program(
    name="codex",
    options=CodexOptions,
    install="npm install -g @openai/codex, and sign in with: codex login",
    sign_in="sign in with `codex login`, or set CODEX_API_KEY",
    variables=VARIABLES,
    takes_system=False,
    forks=False,
    arguments=arguments,
    files_for=files_for,
    reader=lambda options, structured: CodexReader(options, structured=structured),
)

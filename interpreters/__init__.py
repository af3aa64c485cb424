"""Interpreters carry out the decisions of the pure core: agents, drivers, tools, recordings and fakes.

Importing this package loads no backend (``runtime.load_model`` does). It imports the module of a name at the first use
of that name, so that `cogstep --help` answers immediately.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from os.path import dirname
from types import ModuleType
from typing import TYPE_CHECKING, Any

_cogstep = find_spec("cogstep")
if _cogstep is not None and dirname(dirname(_cogstep.origin or "")) == dirname(dirname(__file__)):
    # Says it when another file hides one of the packages. Not so where a program has a file `cogstep.py` of its own:
    # nothing here needs that name, and importing it would run the program once more. `runtime.hidden` does the same for
    # who imports that package alone; it can't be asked here, since `runtime` may be what is hidden.
    import cogstep.packages  # noqa: F401

if TYPE_CHECKING:
    from interpreters.agents.agent import Agent as Agent
    from interpreters.agents.answers import AnswerError as AnswerError, StructuredResult as StructuredResult
    from interpreters.agents.async_agent import AsyncAgent as AsyncAgent
    from interpreters.agents.chat_messages import (
        ImportedMessages as ImportedMessages,
        MessagesError as MessagesError,
        export_messages as export_messages,
        import_messages as import_messages,
    )
    from interpreters.agents.options import AgentOptions as AgentOptions, ProgramOptions as ProgramOptions
    from interpreters.agents.results import RunResult as RunResult, Suspended as Suspended
    from interpreters.hosting import (
        AgentHandle as AgentHandle,
        AgentHost as AgentHost,
        HostDiedError as HostDiedError,
        HostError as HostError,
        HostTimeoutError as HostTimeoutError,
        ModelChoice as ModelChoice,
    )
    from interpreters.loop.errors import (
        AgentClosedError as AgentClosedError,
        BusyError as BusyError,
        PendingError as PendingError,
        TurnFailedError as TurnFailedError,
    )
    from interpreters.mcp.agents import agent_tool as agent_tool
    from interpreters.mcp.client import AsyncMCPServers as AsyncMCPServers, MCPServers as MCPServers
    from interpreters.mcp.hub import MCPServerError as MCPServerError
    from interpreters.mcp.servers import MCPServer as MCPServer, read_servers as read_servers
    from interpreters.mcp.serving import MCPService as MCPService
    from interpreters.observing import events as events
    from interpreters.program.approvals import Approval as Approval, ApprovalRequest as ApprovalRequest
    from interpreters.program.asking import (
        HookAnswer as HookAnswer,
        HookRequest as HookRequest,
        PlanAnswer as PlanAnswer,
        PlanRequest as PlanRequest,
        QuestionRequest as QuestionRequest,
    )
    from interpreters.program.content import load_image as load_image
    from interpreters.program.gathering import ContextSourceError as ContextSourceError
    from interpreters.program.later import LATER as LATER
    from interpreters.program.prompting import SystemPromptError as SystemPromptError
    from interpreters.program.workspace_files import WorkspaceFiles as WorkspaceFiles
    from interpreters.recording.journal import FileRecorder as FileRecorder
    from interpreters.recording.outputs import output_tool as output_tool
    from interpreters.recording.recorder import Recorder as Recorder
    from interpreters.recording.redaction import Found as Found, Redaction as Redaction
    from interpreters.recording.rehearsing import rehearse as rehearse
    from interpreters.recording.remembering import EpisodeWriter as EpisodeWriter, hide_secrets as hide_secrets
    from interpreters.recording.replaying import ReplayDivergedError as ReplayDivergedError, replay as replay
    from interpreters.testing import fakes as fakes
    from interpreters.tools.context import ToolContext as ToolContext
    from interpreters.tools.previews import Preview as Preview
    from interpreters.tools.tool import Tool as Tool, ToolError as ToolError, ToolRetry as ToolRetry, tool as tool
    from interpreters.tools.tool_lists import ListProblem as ListProblem, ToolList as ToolList, read_tools as read_tools
    from interpreters.workspace.undoing import Restored as Restored, UndoError as UndoError, undo as undo

HOMES: dict[str, str] = {
    "agents.agent": "Agent",
    "agents.answers": "AnswerError StructuredResult",
    "agents.async_agent": "AsyncAgent",
    "agents.chat_messages": "ImportedMessages MessagesError export_messages import_messages",
    "agents.options": "AgentOptions ProgramOptions",
    "agents.results": "RunResult Suspended",
    "hosting": "AgentHandle AgentHost HostDiedError HostError HostTimeoutError ModelChoice",
    "loop.errors": "AgentClosedError BusyError PendingError TurnFailedError",
    "mcp.agents": "agent_tool",
    "mcp.client": "AsyncMCPServers MCPServers",
    "mcp.hub": "MCPServerError",
    "mcp.servers": "MCPServer read_servers",
    "mcp.serving": "MCPService",
    "program.approvals": "Approval ApprovalRequest",
    "program.asking": "HookAnswer HookRequest PlanAnswer PlanRequest QuestionRequest",
    "program.content": "load_image",
    "program.gathering": "ContextSourceError",
    "program.later": "LATER",
    "program.prompting": "SystemPromptError",
    "program.workspace_files": "WorkspaceFiles",
    "recording.journal": "FileRecorder",
    "recording.recorder": "Recorder",
    "recording.redaction": "Found Redaction",
    "recording.outputs": "output_tool",
    "recording.rehearsing": "rehearse",
    "recording.remembering": "EpisodeWriter hide_secrets",
    "recording.replaying": "ReplayDivergedError replay",
    "tools.context": "ToolContext",
    "tools.previews": "Preview",
    "tools.tool": "Tool ToolError ToolRetry tool",
    "tools.tool_lists": "ListProblem ToolList read_tools",
    "workspace.undoing": "Restored UndoError undo",
}
"""The public names of each module."""

MODULES: dict[str, str] = {
    "cassettes": "testing.cassettes",
    "contracts": "testing.contracts",
    "events": "observing.events",
    "fakes": "testing.fakes",
    "handle_child": "hosting.child",
    "handles": "hosting",
    "journal": "recording.journal",
    "options": "agents.options",
    "recorders": "testing.recorders",
    "pytest_plugin": "testing.pytest_plugin",
    "sessions": "recording.sessions",
}
"""Public modules with a short import name, such as ``interpreters.journal``."""


class _WithoutRoom(MetaPathFinder, Loader):
    """Imports a public module under its short name. Both names refer to the same module object."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == __name__ and name in MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(f"{__name__}.{MODULES[spec.name.partition('.')[2]]}")
        self._own[module] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own.pop(module)  # the import system has put the short name's there

    def __init__(self) -> None:
        self._own: dict[ModuleType, ModuleSpec | None] = {}


sys.meta_path.append(_WithoutRoom())

_MODULES = {name: module for module, names in HOMES.items() for name in names.split()}
_SHOWN = ("events", "fakes")

if not TYPE_CHECKING:  # a type checker can't compute it, and takes the names from the imports above
    __all__ = sorted([*_MODULES, *_SHOWN])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    elif name in _SHOWN:
        value = import_module(f"{__name__}.{MODULES[name]}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_SHOWN})

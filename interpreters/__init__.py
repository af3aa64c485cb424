"""Interpreters carry out what the pure core decides: an agent's facade, drivers, tools, recordings, and fakes.

Importing this package loads no backend (those come with ``runtime.load_model``), and a name's module only once the
name is used, so that `cogstep --help` answers at once.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from os.path import dirname
from typing import TYPE_CHECKING, Any

_face = find_spec("cogstep")
if _face is not None and dirname(dirname(_face.origin or "")) == dirname(dirname(__file__)):
    # Says it when another file hides one of the packages. Not so where a program has a file `cogstep.py` of its own:
    # nothing here needs that name, and importing it would run the program once more. `runtime.hidden` does the same for
    # who imports that package alone; it can't be asked here, since `runtime` may be what is hidden.
    import cogstep.packages  # noqa: F401

if TYPE_CHECKING:
    from interpreters import events, fakes
    from interpreters.agent import Agent
    from interpreters.answers import AnswerError, StructuredResult
    from interpreters.approvals import Approval, ApprovalRequest
    from interpreters.asking import HookAnswer, HookRequest, PlanAnswer, PlanRequest, QuestionRequest
    from interpreters.async_agent import AsyncAgent
    from interpreters.context import ToolContext
    from interpreters.errors import AgentClosedError, BusyError, TurnFailedError
    from interpreters.handles import AgentHandle, AgentHost, HostDiedError, HostError, HostTimeoutError, ModelChoice
    from interpreters.options import AgentOptions, ProgramOptions
    from interpreters.redaction import Found, Redaction
    from interpreters.rehearsing import rehearse
    from interpreters.replaying import ReplayDivergedError, replay
    from interpreters.results import RunResult
    from interpreters.tools import Tool, ToolError, ToolRetry, tool

__all__ = [
    "Agent",
    "AgentClosedError",
    "AgentHandle",
    "AgentHost",
    "AgentOptions",
    "AnswerError",
    "Approval",
    "ApprovalRequest",
    "AsyncAgent",
    "BusyError",
    "Found",
    "HookAnswer",
    "HookRequest",
    "HostDiedError",
    "HostError",
    "HostTimeoutError",
    "ModelChoice",
    "PlanAnswer",
    "PlanRequest",
    "ProgramOptions",
    "QuestionRequest",
    "Redaction",
    "ReplayDivergedError",
    "RunResult",
    "StructuredResult",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolRetry",
    "TurnFailedError",
    "events",
    "fakes",
    "rehearse",
    "replay",
    "tool",
]

HOMES = {
    "Agent": "agent",
    "AgentClosedError": "errors",
    "AgentHandle": "handles",
    "AgentHost": "handles",
    "AgentOptions": "options",
    "AnswerError": "answers",
    "Approval": "approvals",
    "ApprovalRequest": "approvals",
    "AsyncAgent": "async_agent",
    "BusyError": "errors",
    "Found": "redaction",
    "HookAnswer": "asking",
    "HookRequest": "asking",
    "HostDiedError": "handles",
    "HostError": "handles",
    "HostTimeoutError": "handles",
    "ModelChoice": "handles",
    "PlanAnswer": "asking",
    "PlanRequest": "asking",
    "ProgramOptions": "options",
    "QuestionRequest": "asking",
    "Redaction": "redaction",
    "ReplayDivergedError": "replaying",
    "RunResult": "results",
    "StructuredResult": "answers",
    "Tool": "tools",
    "ToolContext": "context",
    "ToolError": "tools",
    "ToolRetry": "tools",
    "TurnFailedError": "errors",
    "rehearse": "rehearsing",
    "replay": "replaying",
    "tool": "tools",
}
"""The module of each name; ``events`` and ``fakes`` are modules themselves."""


def __getattr__(name: str) -> Any:
    """A public name, at its first use."""
    if name in HOMES:
        value = getattr(import_module(f"interpreters.{HOMES[name]}"), name)
    elif name in __all__:
        value = import_module(f"interpreters.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

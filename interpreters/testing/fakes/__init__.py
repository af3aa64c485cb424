"""Models, clocks, users and tools for tests: scripted, instant, and strict about the script.

    model = ScriptedModel([call("multiply", a=17, b=23), "17 * 23 is 391."])

answers the first request with a call and the second with a text. A third request, or an unused reply, is an error. No
fake sleeps or starts a thread, so a turn on it measures only the interpreter.

- Model: ``ScriptedModel`` (a list of replies), ``FunctionModel`` (a function of the request) and ``GeneratedModel``
  (drawn by Hypothesis).
- Time: ``FakeClock``.
- User: ``ScriptedApprovals``, ``ScriptedAnswers`` and ``ScriptedReviews``.
- Tool: ``ScriptedTool``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpreters.testing.fakes._clock import FakeClock as FakeClock
from interpreters.testing.fakes._tools import ScriptedTool as ScriptedTool
from interpreters.testing.fakes.models import (
    FunctionModel as FunctionModel,
    GeneratedModel as GeneratedModel,
    Piece as Piece,
    ScriptedModel as ScriptedModel,
)
from interpreters.testing.fakes.scripts import (
    Hold as Hold,
    Reply as Reply,
    Script as Script,
    Scripted as Scripted,
    ScriptedAnswers as ScriptedAnswers,
    ScriptedApprovals as ScriptedApprovals,
    ScriptedGeneration as ScriptedGeneration,
    ScriptedReviews as ScriptedReviews,
    ScriptError as ScriptError,
    call as call,
    reply_of as reply_of,
)

if TYPE_CHECKING:
    from interpreters.testing.fakes._strategies import generated_models as generated_models, replies as replies

STRATEGIES = ("generated_models", "replies")
"""These need Hypothesis (the extra ``testing``), and are loaded at the first use."""


def __getattr__(name: str) -> Any:
    if name not in STRATEGIES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from interpreters.testing.fakes import _strategies as strategies

    return getattr(strategies, name)

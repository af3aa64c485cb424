"""Models, clocks, users and tools for tests: scripted, instant, and strict about being used as scripted.

    model = ScriptedModel([call("multiply", a=17, b=23), "17 * 23 is 391."])

answers the first request with a call and the second one with a text. A third request, and a reply that nobody asked
for, are errors. Nothing sleeps and no thread is started: a turn on it measures the interpreter and nothing else.

In place of a model stand ``ScriptedModel`` (a list of replies), ``FunctionModel`` (a function of the request) and
``GeneratedModel`` (drawn by Hypothesis); of the time ``FakeClock``; of the user ``ScriptedApprovals``,
``ScriptedAnswers`` and ``ScriptedReviews``; of a tool ``ScriptedTool``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpreters.fakes.clock import FakeClock
from interpreters.fakes.errors import ScriptError
from interpreters.fakes.generated import GeneratedModel
from interpreters.fakes.models import FunctionModel, Piece, ScriptedModel
from interpreters.fakes.people import ScriptedAnswers, ScriptedApprovals, ScriptedReviews
from interpreters.fakes.scripts import Hold, Reply, Script, Scripted, ScriptedGeneration, call, reply_of
from interpreters.fakes.tools import ScriptedTool

if TYPE_CHECKING:
    from interpreters.fakes.strategies import generated_models, replies

__all__ = [
    "FakeClock",
    "FunctionModel",
    "GeneratedModel",
    "Hold",
    "Piece",
    "Reply",
    "Script",
    "ScriptError",
    "Scripted",
    "ScriptedAnswers",
    "ScriptedApprovals",
    "ScriptedGeneration",
    "ScriptedModel",
    "ScriptedReviews",
    "ScriptedTool",
    "call",
    "generated_models",
    "replies",
    "reply_of",
]

STRATEGIES = ("generated_models", "replies")
"""These need Hypothesis, the extra ``testing``, and are loaded when they are used."""


def __getattr__(name: str) -> Any:
    if name not in STRATEGIES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from interpreters.fakes import strategies

    return getattr(strategies, name)

"""A model's stream: what observers are told of it, and what the engine is told of its end."""

from __future__ import annotations

from cognition import CallModel, Failure, ModelFailed, ModelInterrupted, ModelReplied, Usage
from cognition.parsing import (
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    Output,
    ReasoningDelta,
    TextDelta,
)
from interpreters import events
from interpreters.observers import Observers
from runtime.protocol import Done

BROKEN_OFF = Failure("the model's stream broke off without an end")
"""No runtime may do this; if one does, it is a failure and no reply."""


def show(output: Output, observers: Observers) -> None:
    """Tell observers of one piece."""
    match output:
        case TextDelta(text=text):
            observers.emit(events.TextDelta, text=text)
        case ReasoningDelta(text=text):
            observers.emit(events.ReasoningDelta, text=text)
        case CallStarted(index=index, name=name):
            observers.emit(events.CallStarted, index=index, name=name)
        case ArgumentsDelta(index=index, text=text):
            observers.emit(events.ArgumentText, index=index, text=text)
        case CallMalformed(index=index, malformed=malformed):
            observers.emit(events.CallMalformed, index=index, malformed=malformed)
        case CallFinished():  # is told as ToolStarted, once it is allowed to run
            pass


def ended(effect: CallModel, done: Done, seen: str) -> ModelReplied | ModelFailed | ModelInterrupted:
    """The input that a stream's end is; ``seen`` is what somebody has read of its text."""
    if done.failure is not None:
        return ModelFailed(effect.effect_id, done.failure, seen, done.usage)
    if done.finish_reason == "cancelled":
        return ModelInterrupted(effect.effect_id, done.text, done.usage)
    return ModelReplied(
        effect.effect_id, done.text, done.reasoning, done.calls, done.malformed, done.finish_reason, done.usage
    )


def failed(effect: CallModel, error: Exception, seen: str) -> ModelFailed:
    """The input that an exception is which came out of a runtime instead of a ``Done``."""
    return ModelFailed(effect.effect_id, Failure(f"{type(error).__name__}: {error}"), seen, Usage())

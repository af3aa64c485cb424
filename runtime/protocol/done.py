"""Build the ``Done`` that ends a reply from its outputs."""

from __future__ import annotations

from collections.abc import Iterable

from cognition import Failure, FinishReason, Usage
from cognition.parsing import Output, collect
from runtime.protocol.model import Done, Timings

NO_TIME = Timings()
NO_TOKENS = Usage()


def done_of(
    outputs: Iterable[Output],
    reason: FinishReason,
    failure: Failure | None = None,
    *,
    usage: Usage = NO_TOKENS,
    timings: Timings = NO_TIME,
    warnings: tuple[str, ...] = (),
) -> Done:
    """Return the ``Done`` for these outputs; with tool calls the reason ``stop`` becomes ``tool_calls``."""
    reply = collect(outputs)
    return Done(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=reply.tool_calls,
        malformed=reply.malformed,
        finish_reason="tool_calls" if reason == "stop" and reply.tool_calls else reason,
        usage=usage,
        timings=timings,
        failure=failure,
        warnings=warnings,
    )

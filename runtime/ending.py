"""How a reply ends: its ``Done``, made of what came before it."""

from __future__ import annotations

from collections.abc import Iterable

from cognition import Failure, FinishReason, Usage
from cognition.parsing import Output, collect
from runtime.protocol import Done, Timings

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
    """The end of a reply that these outputs tell of; what stopped of itself and has calls, stopped for them."""
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

"""Streaming: text, calls and progress of tools as events, while they happen, under asyncio.

If you leave the ``async with`` block early, the turn is cancelled: the model, the tools and the timers stop. Run it::

    python examples/streaming.py
"""

import asyncio
import sys
from collections.abc import Iterator

from cogstep import AsyncAgent, ModelRequest, ProposedCall, ToolContext, events, fakes, tool


@tool(read_only=True, timeout=5)
async def weather(city: str, context: ToolContext) -> str:
    """Report the weather."""
    context.progress(f"asking the station in {city}")
    await asyncio.sleep(0.01)
    return f"sunny in {city}"


def reply(request: ModelRequest) -> ProposedCall | Iterator[str]:
    if len(request.messages) == 1:
        return fakes.call("weather", city="Oslo")
    return iter(["Sunny, ", "take a ", "hat."])


async def answer(journal: str | None) -> None:
    async with (
        AsyncAgent(fakes.FunctionModel(reply), tools=[weather], journal=journal) as agent,
        agent.stream("How is Oslo?") as stream,
    ):
        async for event in stream:
            match event.value:
                case events.ToolProgress(text=progress):
                    print("...", progress)
                case events.ToolMessage(name=name, content=content):
                    print(name, "->", content)
                case events.TextDelta(text=text):
                    print(repr(text))
    print("finished:", stream.result.ok)


def main(journal: str | None = None) -> None:
    asyncio.run(answer(journal))


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# ... asking the station in Oslo
# weather -> sunny in Oslo
# 'Sunny, '
# 'take a '
# 'hat.'
# finished: True

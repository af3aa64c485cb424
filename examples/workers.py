"""Workers: the model gives parts of its work to workers, which run concurrently with conversations of their own.

Your agent's recording contains the workers' results. Run it::

    python examples/workers.py
"""

import sys

from cogstep import Agent, Limits, ModelRequest, ProposedCall, fakes, tool

CHAPTERS = {1: "A fox finds a key.", 2: "The key opens a garden."}


@tool(read_only=True)
def read(chapter: int) -> str:
    """Read a chapter of the book."""
    return CHAPTERS[chapter]


def reply(request: ModelRequest) -> str | list[ProposedCall]:
    last = request.messages[-1]
    if any(offered.name == "spawn_worker" for offered in request.tools):  # the agent itself
        if len(request.messages) > 1:
            return "Both chapters are read."
        return [fakes.call("spawn_worker", name=f"reader {n}", objective=f"Read chapter {n}.") for n in CHAPTERS]
    if len(request.messages) == 1:  # a worker, at its beginning
        return [fakes.call("read", chapter=int(last.text.rstrip(".").split()[-1]))]
    return f"Summary: {last.content}"


def main(journal: str | None = None) -> None:
    model = fakes.FunctionModel(reply)
    with Agent(model, tools=[read], features=["workers"], limits=Limits(steps=5), journal=journal) as agent:
        result = agent.run("Have the book read.")
    for call in result.calls:
        print(call.arguments["name"], "->", call.content)
    print(result.text)


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# reader 1 -> Summary: A fox finds a key.
# reader 2 -> Summary: The key opens a garden.
# Both chapters are read.

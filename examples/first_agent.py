"""A first agent: one tool, one question, on the small model that ships with cogstep.

It needs a backend: ``pip install '.[mlx]'`` or ``pip install '.[llama]'`` in the repository. Run it::

    python examples/first_agent.py

With the name of a new file it records the session. ``first_agent.jsonl`` beside it is such a recording, and
``cogstep replay examples/first_agent.jsonl`` verifies it without a model.
"""

import sys

from cogstep import Agent, load_model, tool


@tool(read_only=True)
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


def main(journal: str | None = None) -> None:
    with load_model() as model, Agent(model, tools=[multiply], journal=journal) as agent:
        result = agent.run("What is 17 * 23?")
    for call in result.calls:
        print(call.name, call.arguments, call.status, call.content)
    print(result.text)


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# multiply {'a': 17, 'b': 23} ok 391
# 17 * 23 is 391.

"""Rehearse: run the tools of a recorded session again, today, and compare their results.

A recorded session becomes a regression test of your tools, without a model. Rehearsals run tools for real, so give them
a copy of the data that they change. Run it::

    python examples/rehearse.py
"""

import sys
import tempfile
from pathlib import Path

from cogstep import Agent, fakes, rehearse, tool

PRICES = {"apple": 2, "plum": 3}


@tool(read_only=True)
def price(item: str) -> int:
    """Look up the price of an item."""
    return PRICES[item]


@tool
def order(item: str, count: int = 1) -> str:
    """Order something."""
    return f"{count} x {item} for {count * PRICES[item]} crowns"


def main(journal: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(journal or str(Path(folder, "shop.jsonl")))


def run(journal: str) -> None:
    model = fakes.ScriptedModel(
        [fakes.call("price", item="plum"), fakes.call("order", item="plum", count=2), "Two plums are on their way."]
    )
    with Agent(model, tools=[price, order], journal=journal) as agent:
        agent.run("Two plums, please.")

    print("unchanged:", len(rehearse(journal, [price, order]).differences), "differences")
    PRICES["plum"] = 4
    try:
        for difference in rehearse(journal, [price, order]).differences:
            print(difference)
    finally:
        PRICES["plum"] = 3


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# unchanged: 0 differences
# record 3: price({"item": "plum"}) differs
#   recorded: ok: 3
#   live:     ok: 4
# record 5: order({"item": "plum", "count": 2}) differs
#   recorded: ok: 2 x plum for 6 crowns
#   live:     ok: 2 x plum for 8 crowns

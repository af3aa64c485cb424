"""An approval that arrives tomorrow: the turn waits on disk, without a process, and the call runs once.

``LATER`` ends the run with the open approvals in ``result.pending``. Another process answers them. Run it::

    python examples/answer_later.py
"""

import sys
import tempfile
from pathlib import Path

from cogstep import LATER, Agent, fakes, replay, tool


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay an invoice."""
    return f"paid {amount} crowns"


def today(journal: str) -> str:
    model = fakes.ScriptedModel([fakes.call("pay", amount=300)])
    with Agent(model, tools=[pay], approve=lambda request: LATER, journal=journal) as agent:
        (waiting,) = agent.run("Pay the invoice.").pending
    print("asked:", waiting.effect_id, waiting.call.name, waiting.call.arguments)
    return waiting.effect_id


def tomorrow(journal: str, effect_id: str) -> None:
    with Agent.resume(journal, fakes.ScriptedModel(["It is paid."]), tools=[pay]) as agent:
        result = agent.answer(effect_id, True)
    print(result.calls[-1].content, "|", result.text)
    print("replay:", replay(journal).same)


def main(journal: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = journal or str(Path(folder, "payment.jsonl"))
        tomorrow(path, today(path))


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# asked: 1.1.1 pay {'amount': 300}
# paid 300 crowns | It is paid.
# replay: True

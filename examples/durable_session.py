"""A durable session: the process dies at each possible moment, and the invoice is paid at most once.

``MemoryEngine`` is a durable engine in memory whose processes die when you choose. In production you give the same
``DurableAgent`` to ``DBOSSessions``, ``RestateSessions`` or Temporal. Run it::

    python examples/durable_session.py
"""

import asyncio
import sys

from cogstep import DurableAgent, MemoryEngine, ModelRequest, ProposedCall, UserMessage, UserSpoke, fakes, replay, tool

PAID: list[int] = []
answers: set[str] = set()


@tool
def pay(invoice: int) -> str:
    """Pay an invoice. Paying twice would be a mistake, so the tool is not declared idempotent."""
    PAID.append(invoice)
    return f"invoice {invoice} is paid"


def answer(request: ModelRequest) -> str | ProposedCall:
    if isinstance(request.messages[-1], UserMessage):
        return fakes.call("pay", invoice=7)
    return "It is paid." if request.messages[-1].status == "ok" else "I can't know whether it is paid: please check."


async def run(*kills: int) -> MemoryEngine:
    PAID.clear()
    engine = MemoryEngine(kills=kills)
    agent = DurableAgent("payer", fakes.FunctionModel(answer), [pay])
    ended = await engine.run(agent, "ada", UserSpoke("Pay invoice 7."))
    assert ended.finished is not None
    assert len(PAID) <= 1, "paid twice"
    answers.add(ended.finished.outcome.text)
    assert replay(engine.recorder("ada")).same
    return engine


def main(journal: str | None = None) -> None:
    quiet = asyncio.run(run())
    print("moments at which the process may die:", quiet.moments > 10)
    paid = []
    for moment in range(1, quiet.moments + 1):
        asyncio.run(run(moment))
        paid.append(len(PAID))
    print("payments after a death at one of them:", sorted(set(paid)))
    print("answers:", *sorted(answers), sep="\n- ")
    if journal:
        with open(journal, "xb") as file:
            file.writelines(quiet.sessions["ada"])


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# moments at which the process may die: True
# payments after a death at one of them: [0, 1]
# answers:
# - I can't know whether it is paid: please check.
# - It is paid.

"""Record, crash, resume, replay and fork one session.

The process "crashes" while a tool runs: the recording loses its end. The session resumes, because the tool is read-only
and may run again. A replay verifies every decision without a model. A fork tries another model after turn 1.
Run it::

    python examples/record_replay_fork.py
"""

import sys
import tempfile
from pathlib import Path

from cogstep import Agent, fakes, replay, tool


@tool(read_only=True)
def price(item: str) -> int:
    """Look up the price of an item."""
    return {"apple": 2, "plum": 3}[item]


def main(journal: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(Path(journal or Path(folder, "shop.jsonl")), Path(folder, "fork.jsonl"))


def run(journal: Path, branch: Path) -> None:
    script = [fakes.call("price", item="plum"), "A plum is 3 crowns."]
    with Agent(fakes.ScriptedModel(script), tools=[price], journal=journal) as agent:
        agent.run("How much is a plum?")

    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]))  # the header, the question, and the call that was running

    with Agent.resume(journal, fakes.ScriptedModel(["A plum is 3 crowns.", "Two."]), tools=[price]) as agent:
        print("unfinished:", agent.unfinished)
        print(agent.resume_turn().text)
        print(agent.run("And an apple?").text)

    report = replay(journal)
    print("replay:", report.same, "records:", report.records, "turns:", report.turns)

    model = fakes.ScriptedModel([fakes.call("price", item="apple"), "An apple is 2 crowns."])
    with Agent.fork(journal, model, tools=[price], turn=1, journal=branch) as agent:
        print("fork:", agent.run("And an apple?").text)
    print("origin: turn", replay(branch).header.origin.turn)


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# unfinished: True
# A plum is 3 crowns.
# Two.
# replay: True records: 6 turns: 2
# fork: An apple is 2 crowns.
# origin: turn 1

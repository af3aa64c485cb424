"""Prints ``docs/concepts/state-machine.md`` from the transition table. A test checks that the page is current.

    python docs/print_diagrams.py > docs/concepts/state-machine.md

The table defines where each input leads. ``explored`` finds the same by a breadth-first search from the beginning of a
session, with configurations that enable each part of the table. Another test compares the two.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from attrs import evolve  # noqa: E402 - as below

from cognition import (  # noqa: E402 - after the path is set
    AgentConfig,
    AgentState,
    AssistantMessage,
    History,
    Limits,
    LLMEngine,
    ModeChanged,
    ModelChosen,
    ModelReplied,
    ProposedCall,
    RetryPolicy,
    TimerFired,
    ToolFailed,
    ToolSpec,
    Usage,
    UserMessage,
    UserSpoke,
)
from cognition.context import message_size  # noqa: E402 - as above
from cognition.engine._table import TABLE  # noqa: E402 - as above
from cognition.steps.inputs import INPUT_TYPES, Input  # noqa: E402 - as above
from cognition.steps.phases import PHASE_TYPES, Phase  # noqa: E402 - as above
from cognition.steps.state import Counters, Summary, Window  # noqa: E402 - as above
from cognition.testing import World, default_alphabet, moves  # noqa: E402 - as above
from cognition.testing._sample_inputs import ANY  # noqa: E402 - as above
from cognition.testing._situations import situation  # noqa: E402 - as above
from cognition.testing._world import is_rejected, take  # noqa: E402 - as above

TOOLS = (ToolSpec("look", read_only=True), ToolSpec("write", approval=True))
RETRY = RetryPolicy(attempts=2)
MINUTE = Limits(seconds=60.0)
CONFIGS = (
    AgentConfig(tools=TOOLS, retry=RETRY, limits=Limits(seconds=60.0, refusals=1), recall_first=True),
    AgentConfig(tools=TOOLS, retry=RETRY, limits=MINUTE, hooks=("user_message", "stop")),
    AgentConfig(tools=TOOLS[:1], limits=MINUTE, features=("plan", "questions")),
    AgentConfig(tools=TOOLS[:1], limits=MINUTE, features=("memory",), hooks=("before_tool",)),
    AgentConfig(limits=MINUTE, features=("workers",)),
    AgentConfig(tools=(TOOLS[0], ToolSpec("peek", read_only=True, approval=True)), limits=MINUTE),
    AgentConfig(tools=TOOLS[:1], limits=MINUTE, recall_first=True, hooks=("user_message", "stop")),
    AgentConfig(limits=MINUTE, features=("memory", "plan", "questions"), hooks=("after_tool",)),
    AgentConfig(tools=(ToolSpec("set", idempotent=True, retries=(2.0,)),), limits=MINUTE),
)
QUESTION = {"questions": [{"question": "Really?", "options": ["yes", "no"]}]}
LATE = 100.0
"""Seconds after which every input is tried a second time, when the turn's time is over."""
TOO_LONG = UserSpoke("long " * 5000)
"""More than the context holds."""
SPENT = evolve(CONFIGS[2], limits=evolve(MINUTE, session_output_tokens=1)), AgentState(total=Usage(0, 1))
"""A session without a budget: a turn ends before the model is called."""
WORKERS = ModelReplied(
    ANY, calls=tuple(ProposedCall("spawn_worker", {"name": name, "objective": "Look."}) for name in "ab")
)
"""Two workers side by side: one of them may end first."""
BESIDE = tuple(
    ModelReplied(ANY, calls=(ProposedCall("look"), asked))
    for asked in (
        ProposedCall("peek"),
        ProposedCall("ask_user", QUESTION),
        ProposedCall("submit_plan", {"steps": ["Look."]}),
    )
)
"""Replies that ask a person while a tool uses up the turn's time, so that no time is left for the answer."""
AGAIN = (
    UserSpoke("Hello"),
    ModelReplied(ANY, calls=(ProposedCall("set"),)),
    ToolFailed(ANY, "busy", transient=True),
    TimerFired(ANY),
    ModeChanged("plan"),
)
"""A call that runs again, unless a mode set in the meantime forbids it."""
LONG_TALK = History(
    message
    for turn in range(1, 5)
    for message in (UserMessage(f"m{2 * turn - 1}", "long " * 480), AssistantMessage(f"m{2 * turn}", "Done."))
)
"""Turns that fill nine tenths of the context budget."""
CHANGES = (ModeChanged("careful"), ModelChosen(""))
SITUATIONS = 300
"""Limit for each configuration. 1,200 situations show no additional arrow."""

Targets = dict[tuple[type[Phase], type[Input]], set[type[Phase]]]


def beginnings() -> Iterator[tuple[AgentConfig, AgentState]]:
    """Yield configurations with initial states of their sessions: new, or at the end of a long conversation.

    In a long conversation, the last summary was requested three replies ago, so the next reply leads to another. Or no
    summary was requested yet, so a message or a context overflow leads to one.
    """
    size = sum(map(message_size, LONG_TALK))
    for config in CONFIGS:
        yield config, AgentState()
        window = Window(size=size, summary=Summary(tried=2))
        yield evolve(config, compact_at=0.5), AgentState(LONG_TALK, counters=Counters(4, messages=8), window=window)
    yield SPENT
    for recalling, at in ((True, 0.5), (False, 1.0)):
        config = evolve(CONFIGS[0], recall_first=recalling, compact_at=at)
        yield config, AgentState(LONG_TALK, window=Window(size=size))


def explored() -> Targets:
    """Return the observed next phases for each phase and input."""
    found: Targets = defaultdict(set)
    for config, start in beginnings():
        engine, letters = LLMEngine(config), (*BESIDE, *default_alphabet(config), *CHANGES, TOO_LONG)
        if "workers" in config.features:
            letters = (*letters, WORKERS)
        if any(tool.retries for tool in config.tools):
            letters = AGAIN
        alphabet = (*letters, *(evolve(letter, at=LATE) for letter in letters))
        level, seen = [World(start)], {situation(World(start))}
        while level:
            following: list[World] = []
            for world in level:
                for event in moves(world, alphabet):
                    edge = take(engine, world, event)
                    if is_rejected(edge.transition):
                        continue
                    found[type(world.state.phase), type(event)].add(type(edge.after.state.phase))
                    mark = situation(edge.after)
                    if mark not in seen and len(seen) < SITUATIONS:
                        seen.add(mark)
                        following.append(edge.after)
            level = following
    return dict(found)


def everywhere(event: type[Input]) -> bool:
    """Whether an input is handled in every phase but ``Closed``, which handles no input."""
    return len(TABLE[event].live) == len(PHASE_TYPES) - 1


def left_out() -> str:
    """Return a list of the inputs without arrows in the diagram, since they would start everywhere."""
    said = []
    for event in filter(everywhere, INPUT_TYPES):
        live = TABLE[event].live
        targets = {phase.__name__ for cell in live.values() for phase in cell.to}
        stays = all(cell.to == (phase,) for phase, cell in live.items())
        said.append(f"- `{event.__name__}` " + ("changes no phase" if stays else f"leads to `{'`, `'.join(targets)}`"))
    return "\n".join(said)


def diagram() -> str:
    """Return the phases as a Mermaid diagram, with one arrow per pair, labelled with its inputs."""
    lines = ["stateDiagram-v2", "    [*] --> Idle"]
    for source in PHASE_TYPES:
        for target in PHASE_TYPES:
            names = [
                event.__name__
                for event in INPUT_TYPES
                if not everywhere(event) and source in (live := TABLE[event].live) and target in live[source].to
            ]
            if names:
                lines.append(f"    {source.__name__} --> {target.__name__}: {'<br/>'.join(names)}")
    return "\n".join([*lines, "    Closed --> [*]"])


def table() -> str:
    """Return a table of all inputs: where each leads, or why it is rejected."""
    phases = [phase for phase in PHASE_TYPES if phase.__name__ != "Closed"]
    lines = [
        "| input | " + " | ".join(phase.__name__ for phase in phases) + " | elsewhere |",
        "|---" * (len(phases) + 2) + "|",
    ]
    for event, row in TABLE.items():
        cells = ["<br>".join(to.__name__ for to in row.live[phase].to) if phase in row.live else "" for phase in phases]
        elsewhere = "" if all(cells) else f"*{row.otherwise}*"
        lines.append(f"| `{event.__name__}` | " + " | ".join([*cells, elsewhere]) + " |")
    return "\n".join(lines)


PAGE = """# The state machine

This page shows the phases of an agent's turn and the inputs that lead from one to another. Use it if you write an
engine or an interpreter, or if you want to know why your input was rejected.

```mermaid
{diagram}
```

You don't see these inputs in the diagram, because every phase except `Closed` handles them:

{left_out}

## Every cell

A cell lists the phases that your input may lead to. In the other phases the input is rejected, and the last column
gives you the reason. `Closed` rejects every input. Each phase rejects an answer to any effect other than the pending
one.

{table}

## How this page stays current

`docs/print_diagrams.py` prints this page from the transition table (`cognition/engine/_table.py`). If you change the
table, print the page again:

    $ python docs/print_diagrams.py > docs/concepts/state-machine.md

A test fails if your page is out of date. Another test explores the engine, and fails if it goes anywhere else than your
table allows.
"""


def page() -> str:
    return PAGE.format(diagram=diagram(), left_out=left_out(), table=table())


if __name__ == "__main__":
    print(page(), end="")

"""An engine of your own: agent logic as one pure function, checked by laws, then run and recorded like any other.

The engine adds a sentence to each prompt. ``laws`` and ``explore`` run it through many situations. A second engine has
a fault, and the search finds it. Run it::

    pip install '.[testing]'
    python examples/own_engine.py
"""

import sys
import tempfile
from pathlib import Path

from attrs import evolve

from cogstep import (
    Agent,
    AgentConfig,
    AgentState,
    Input,
    LLMEngine,
    Transition,
    TurnFinished,
    UserSpoke,
    explore,
    fakes,
    laws,
    replay,
)


class Polite(LLMEngine):
    """Asks for brevity in each prompt. Everything else is the engine that ships."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(evolve(config, system=f"{config.system} Answer in one sentence.".strip()))


class Silent(Polite):
    """Has a fault: it never reports the end of a turn."""

    def step(self, state: AgentState, input: Input | None) -> Transition:
        transition = super().step(state, input)
        left = tuple(decision for decision in transition.decisions if not isinstance(decision, TurnFinished))
        return evolve(transition, decisions=left)


def main(journal: str | None = None) -> None:
    first = Polite(AgentConfig()).step(AgentState(), UserSpoke("Hi"))
    print(first.decisions[-1].request.system)

    for law in laws(Polite(AgentConfig()), without="tools"):
        law.check(max_examples=2)
    print("violation:", explore(Polite(AgentConfig()), limit=60).violation)
    found = explore(Silent(AgentConfig()), limit=60).violation
    print(found.law.name, found.law.title, "|", found.problem)

    with tempfile.TemporaryDirectory() as folder:
        path = journal or str(Path(folder, "polite.jsonl"))
        with Agent(fakes.ScriptedModel(["Hello, Ada."]), engine=Polite, journal=path) as agent:
            print(agent.run("Hi, I am Ada.").text)
        print("replay:", replay(path, Polite).same)


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# Answer in one sentence.
# violation: None
# L7 cancellable | the cancelled turn does not end as cancelled but with CancelEffect(effect_id='1.1.0')
# Hello, Ada.
# replay: True

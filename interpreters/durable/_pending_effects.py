"""The pending effects of a recorded session, for answering them from any process."""

from __future__ import annotations

from typing import Any, Final, get_args

from cognition import CancelEffect, Input, from_data
from interpreters.durable.definition import DurableAgent
from interpreters.loop.program.pending import Postponable, find_pending, outlives_its_run
from interpreters.loop.program.program import read_answer
from interpreters.recording.journal import JournalReader
from interpreters.recording.recorder import Recorder

POSTPONABLE: Final = frozenset(kind.tag for kind in get_args(Postponable))
"""The tags of effects that may wait for an answer."""


def pending_of(agent: DurableAgent, recorder: Recorder) -> tuple[Postponable, ...]:
    """Return the pending effects of a session, oldest first.

    They are read from the recorded decisions, without running the engine. So a process with newer agent logic can
    submit an answer too; the version that started the session then continues with it.

    Raises:
        JournalError: the recording can't be read.
    """
    tools = {tool.spec.name: tool for tool in agent.tools}
    in_flight: dict[str, dict[str, Any]] = {}
    with JournalReader(recorder) as reader:
        for record in reader:
            in_flight.pop(str(getattr(record.input, "effect_id", "")), None)
            for decision in record.decisions:
                if decision["type"] in POSTPONABLE:
                    in_flight[decision["effect_id"]] = decision
                elif decision["type"] == CancelEffect.tag:
                    in_flight.pop(decision["effect_id"], None)
    effects: list[Any] = [from_data(one, Postponable) for one in in_flight.values()]
    return tuple(effect for effect in effects if outlives_its_run(effect, tools))


def answer_input(agent: DurableAgent, recorder: Recorder, effect_id: str, answer: object) -> Input:
    """Return the input for an answer to a pending effect.

    Raises:
        CogstepError: no pending effect has this id.
        ConfigError: the answer does not fit the effect.
        JournalError: the recording can't be read.
    """
    effect = find_pending(effect_id, pending_of(agent, recorder))
    return read_answer(effect, answer, {tool.spec.name: tool for tool in agent.tools})

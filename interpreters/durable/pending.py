"""What a recorded session waits for, for whoever answers it: another process may have asked."""

from __future__ import annotations

from typing import Any, Final, get_args

from cognition import CancelEffect, Input, from_data
from interpreters.durable.definition import DurableAgent
from interpreters.program.later import Postponable, outlives_its_run, waiting_under
from interpreters.program.program import read_answer
from interpreters.recording.journal import JournalReader
from interpreters.recording.recorder import Recorder

POSTPONABLE: Final = frozenset(kind.tag for kind in get_args(Postponable))
"""The tags of what may wait for an answer."""


def pending_of(agent: DurableAgent, recorder: Recorder) -> tuple[Postponable, ...]:
    """The effects of a session that wait for an answer, oldest first.

    They are read from what was decided, and nothing is decided again: so also a process whose agent has other logic by
    now can hand an answer in, which the version that began the session then goes on with.

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


def answering(agent: DurableAgent, recorder: Recorder, effect_id: str, answer: object) -> Input:
    """The input that an answer to something pending means.

    Raises:
        CogstepError: nothing of this id is pending.
        ConfigError: it is no answer to that.
        JournalError: the recording can't be read.
    """
    effect = waiting_under(effect_id, pending_of(agent, recorder))
    return read_answer(effect, answer, {tool.spec.name: tool for tool in agent.tools})

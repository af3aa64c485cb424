"""What a recorded session waits for, for whoever answers it: another process may have asked."""

from __future__ import annotations

from typing import Any

from cognition import Input
from interpreters.agents.resuming import take_up
from interpreters.driver import follower
from interpreters.durable.definition import DurableAgent
from interpreters.program.later import Postponable, outlives_its_run, waiting_under
from interpreters.program.program import read_answer
from interpreters.recording.journal import JournalReader
from interpreters.recording.recorder import Recorder
from interpreters.recording.replaying import logic_of


def pending_of(agent: DurableAgent, recorder: Recorder) -> tuple[Postponable, ...]:
    """The effects of a session that wait for an answer, oldest first.

    Raises:
        JournalError: the recording can't be read.
        ReplayDivergedError: other agent logic made it.
    """
    tools = {tool.spec.name: tool for tool in agent.tools}
    with JournalReader(recorder) as reader:
        driver = follower(logic_of(reader.header, agent.given.get("engine")), reader.header.start)
        take_up(reader, driver)
    effects: list[Any] = list(driver.in_flight.values())
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

"""What goes to Temporal and comes from it as text: what a session begins with, and what it is told by signals.

All of it lies in the server's database as it is written here, so secrets are hidden before.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

from attrs import field, frozen

from cognition import (
    PROTOCOL_VERSION,
    AgentConfig,
    AgentState,
    CancelAsked,
    ConfigError,
    Decision,
    Input,
    TurnFinished,
    UserSpoke,
    from_data,
    to_data,
)
from cognition.decisions import Effect
from interpreters.agents.assembly import assemble, user_input
from interpreters.durable.definition import DurableAgent
from interpreters.durable.errors import DurableError
from interpreters.durable.texts import input_text, read_input, written
from interpreters.program.content import Content
from interpreters.program.later import Postponable
from interpreters.program.program import read_answer

V = TypeVar("V")

LARGEST: Final = 1_900_000
"""Bytes that one text may have as JSON: Temporal takes 2 MiB, of which the names beside it have some."""

PLAIN = ("is_worker", "at", "error", "ending")
EFFECTS = ("pending", "unstarted")

TAKES = "Temporal takes 2 MB at once"


def fits(text: str) -> bool:
    """Whether Temporal takes a text of ours, which is ASCII: as JSON it has at most twice its length."""
    return len(text) * 2 <= LARGEST or len(json.dumps(text)) <= LARGEST


@frozen
class Beginning:
    """What a session's workflow begins with, or goes on with."""

    agent: str
    config: AgentConfig
    state: AgentState
    waiting: tuple[str, ...] = ()
    """Inputs that came and were not taken yet, as JSON."""
    is_worker: bool = False
    """Whether it is a worker's, which ends with its turn."""
    at: float = 0.0
    """The time of the newest input, in seconds since the epoch."""
    finished: TurnFinished | None = None
    """How the newest turn ended."""
    error: str = ""
    """What was refused since something was put last."""
    ending: bool = False
    """Whether the workflow was told to end."""
    pending: tuple[Effect, ...] = ()
    """What waits for an answer."""
    unstarted: tuple[Effect, ...] = ()
    """What was decided and has not begun."""

    def text(self) -> str:
        """As JSON."""
        data = {"agent": self.agent, "config": to_data(self.config), "state": to_data(self.state)}
        data |= {"waiting": list(self.waiting), **{name: getattr(self, name) for name in PLAIN}}
        if self.finished is not None:
            data["finished"] = to_data(self.finished)
        data["pending"] = [to_data(one, Decision) for one in self.pending]
        data["unstarted"] = [to_data(one, Decision) for one in self.unstarted]
        return written(data | {"protocol": PROTOCOL_VERSION})

    @classmethod
    def read(cls, text: str) -> Beginning:
        """From JSON.

        Raises:
            DurableError: a cogstep of another protocol version has written it.
        """
        data = json.loads(text)
        if data.get("protocol") != PROTOCOL_VERSION:
            raise DurableError(
                f"a cogstep of protocol version {data.get('protocol')!r} began this session, and this one has version "
                f"{PROTOCOL_VERSION}: let processes of that one finish it"
            )
        config, state = from_data(data["config"], AgentConfig), from_data(data["state"], AgentState)
        finished = from_data(data["finished"], TurnFinished) if "finished" in data else None
        rest = {name: data[name] for name in PLAIN}
        effects: Any = {name: tuple(from_data(one, Decision) for one in data[name]) for name in EFFECTS}
        return cls(data["agent"], config, state, tuple(data["waiting"]), finished=finished, **rest, **effects)


@frozen(eq=False)
class Letter:
    """An input that has come and is not taken yet."""

    text: str
    event: Input = field(repr=False)

    @classmethod
    def read(cls, text: str) -> Letter:
        """From JSON.

        Raises:
            DurableError: it is no input.
        """
        try:
            event = read_input(text)
        except Exception as error:  # whatever comes of a text that anybody may send
            raise DurableError(f"an input that was put can't be read: {type(error).__name__}") from error
        if event is None:
            raise DurableError("an input that was put can't be read: it is null")
        return cls(text, event)

    @property
    def is_message(self) -> bool:
        """Whether it has to wait for the end of the turn."""
        return isinstance(self.event, UserSpoke)


def beginning(agent: DurableAgent) -> str:
    """What the workflow of a new session is started with.

    Raises:
        ConfigError: the definition contradicts itself, or has an engine of its own.
    """
    if agent.given.get("engine") is not None:
        raise ConfigError(
            "engine is no option on Temporal, where the workflow steps the engine: give it by a subclass of "
            "SessionWorkflow with another `engine`"
        )
    parts = assemble(agent.model, agent.tools, agent.system, agent.given)
    return Beginning(agent.name, _hidden(agent, parts.config), parts.start or AgentState()).text()


def message(agent: DurableAgent, content: Content) -> str:
    """What the user says, for the signal ``put``; its secrets are hidden."""
    return input_text(_hidden(agent, user_input(content)))


def reply(agent: DurableAgent, effect: Postponable, answer: Any) -> str:
    """An answer to what a session waits for, for the signal ``put``; its secrets are hidden.

    Raises:
        ConfigError: it is no answer to that.
    """
    return input_text(_hidden(agent, read_answer(effect, answer, {tool.spec.name: tool for tool in agent.tools})))


def cancellation(agent: DurableAgent, reason: str = "") -> str:
    """For the signal ``put``: stop what the session does or waits for."""
    return input_text(_hidden(agent, CancelAsked(reason)))


def _hidden(agent: DurableAgent, value: V) -> V:
    return agent.veil().hide(value)[0]

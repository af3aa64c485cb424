"""The texts exchanged with Temporal: the beginning of a session, and its signals.

The server's database stores them as they are, so secrets are hidden before.
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
from cognition.steps.decisions import Effect
from interpreters.agents.session_builder import assemble, user_input
from interpreters.durable._errors import DurableError
from interpreters.durable.definition import DurableAgent
from interpreters.durable.serialization import encode_json, input_text, read_input
from interpreters.loop.program.message_content import Content
from interpreters.loop.program.pending import Postponable
from interpreters.loop.program.program import read_answer

V = TypeVar("V")

LARGEST: Final = 1_900_000
"""Maximum bytes of a text as JSON: Temporal accepts 2 MiB, including the names beside it."""

PLAIN = ("is_worker", "at", "error", "ending")

TAKES = "Temporal takes 2 MB at once"


def fits(text: str) -> bool:
    """Whether Temporal accepts a text of ours, which is ASCII: as JSON it has at most twice its length."""
    return len(text) * 2 <= LARGEST or len(json.dumps(text)) <= LARGEST


@frozen
class Beginning:
    """The state at the start of a session's workflow, or when it continues as new."""

    agent: str
    config: AgentConfig
    state: AgentState
    waiting: tuple[str, ...] = ()
    """Inputs that arrived but are not taken yet, as JSON."""
    is_worker: bool = False
    """Whether it is a worker's, which ends with its turn."""
    at: float = 0.0
    """The time of the newest input, in seconds since the epoch."""
    finished: TurnFinished | None = None
    error: str = ""
    """The refusals since the last ``put``."""
    ending: bool = False
    """Whether ``end`` was received."""
    pending: tuple[Effect, ...] = ()
    unstarted: tuple[Effect, ...] = ()
    """The effects decided but not started."""

    def text(self) -> str:
        data = {"agent": self.agent, "config": to_data(self.config), "state": to_data(self.state)}
        data |= {"waiting": list(self.waiting), **{name: getattr(self, name) for name in PLAIN}}
        if self.finished is not None:
            data["finished"] = to_data(self.finished)
        data["pending"] = [to_data(one, Decision) for one in self.pending]
        data["unstarted"] = [to_data(one, Decision) for one in self.unstarted]
        return encode_json(data | {"protocol": PROTOCOL_VERSION})

    @classmethod
    def read(cls, text: str) -> Beginning:
        """Read JSON.

        Raises:
            DurableError: a cogstep with another protocol version has written it.
        """
        data = json.loads(text)
        if (protocol := data.pop("protocol", None)) != PROTOCOL_VERSION:
            raise DurableError(
                f"a cogstep of protocol version {protocol!r} began this session, and this one has version "
                f"{PROTOCOL_VERSION}: let processes of that one finish it"
            )
        found: Beginning = from_data(data, Beginning)
        return found


@frozen(eq=False)
class WaitingInput:
    """An input that has arrived and is not taken yet."""

    text: str
    event: Input = field(repr=False)

    @classmethod
    def read(cls, text: str) -> WaitingInput:
        """Read JSON.

        Raises:
            DurableError: it is not an input.
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
        """Whether it must wait for the end of the turn."""
        return isinstance(self.event, UserSpoke)


def beginning(agent: DurableAgent) -> str:
    """Return the argument to start the workflow of a new session with.

    Raises:
        ConfigError: the definition is inconsistent, or has a custom engine.
    """
    if agent.given.get("engine") is not None:
        raise ConfigError(
            "engine is no option on Temporal, where the workflow steps the engine: give it by a subclass of "
            "SessionWorkflow with another `engine`"
        )
    parts = assemble(agent.model, agent.tools, agent.system, agent.given)
    return Beginning(agent.name, _hide(agent, parts.config), parts.start or AgentState()).text()


def message(agent: DurableAgent, content: Content) -> str:
    """Return a user message for the signal ``put``, with its secrets hidden."""
    return input_text(_hide(agent, user_input(content)))


def reply(agent: DurableAgent, effect: Postponable, answer: Any) -> str:
    """Return an answer to a pending effect for the signal ``put``, with its secrets hidden.

    Raises:
        ConfigError: the answer does not fit the effect.
    """
    return input_text(_hide(agent, read_answer(effect, answer, {tool.spec.name: tool for tool in agent.tools})))


def cancellation(agent: DurableAgent, reason: str = "") -> str:
    """Return a cancellation of the session's turn for the signal ``put``."""
    return input_text(_hide(agent, CancelAsked(reason)))


def _hide(agent: DurableAgent, value: V) -> V:
    return agent.redactor().hide(value)[0]

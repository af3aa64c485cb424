"""What a durable engine keeps of a run, as JSON: what begins it, what its steps gave, and what came of it.

{"lines":3,"at":1790000000.0,"input":{"type":"user_spoke",...},"redacted":[...]}     the beginning
{"at":1790000001.5,"input":{"type":"tool_returned","effect_id":"1.1.1",...}}          a step
{"at":1790000001.5,"input":{...},"recorded":true}       a step that was recorded before it was kept
{"later":true,"at":1790000001.5}                        a step whose effect is answered by a later run
{"error":"...","at":1790000001.5}                       the embedding program's own fault, which ends the run
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from cognition import AgentConfig, AgentState, Input, TurnFinished, from_data, to_data
from cognition.encoding import encoder
from interpreters.durable.errors import DurableError
from interpreters.program.later import Postponable
from interpreters.recording.veil import Redacted


@frozen
class Happened:
    """What a step gave."""

    at: float
    """Seconds since the epoch."""
    event: Input | None = None
    """None where the effect is answered later, or where the run goes on without an input of its own."""
    redacted: tuple[Redacted, ...] = ()
    lines: int = 0
    """Of the beginning: how many lines were recorded before the run."""
    error: str = ""
    recorded: bool = False
    """Whether the line of the recording was begun before the engine had kept this: where it is not on file all the
    same, it was lost, and what was decided in it may have begun."""

    def text(self) -> str:
        """As JSON."""
        data: dict[str, Any] = {"at": self.at}
        if self.lines:
            data["lines"] = self.lines
        if self.error:
            data["error"] = self.error
        elif self.event is None:
            data["later"] = True
        else:
            data["input"] = to_data(self.event)
        if self.redacted:
            data["redacted"] = [one.data() for one in self.redacted]
        if self.recorded:
            data["recorded"] = True
        return written(data)

    def is_read_from(self, text: str) -> bool:
        """Whether ``read`` gives an equal value for ``text``, which was made from this one: unless there may be halves
        of a surrogate pair in it, which JSON reads as one character where they come together.
        """
        return HALF not in text

    @classmethod
    def read(cls, text: str) -> Happened:
        """From JSON.

        Raises:
            DurableError: it is none of these.
        """
        try:
            data = json.loads(text)
            event = from_data(data["input"], Input) if "input" in data else None
            redacted = tuple(Redacted(**one) for one in data.get("redacted", ()))
            lines, recorded = data.get("lines", 0), bool(data.get("recorded"))
            return cls(float(data["at"]), event, redacted, lines, data.get("error", ""), recorded)
        except Exception as error:  # whatever comes of a text that somebody else has changed
            raise DurableError(f"what the engine kept of a step can't be read: {error}") from error


@frozen(eq=False)
class Made:
    """What a step of this execution has given."""

    happened: Happened
    came: Input | None
    """Its input before anything was hidden in it; None where nobody knows."""
    text: str
    """What the engine is to keep."""

    @classmethod
    def of(cls, happened: Happened, came: Input | None) -> Made:
        return cls(happened, came, happened.text())

    @property
    def is_read_again(self) -> bool:
        """Whether ``Happened.read`` gives an equal value for the text."""
        return self.happened.is_read_from(self.text)


@frozen
class Errand:
    """What a worker's run begins with."""

    config: AgentConfig
    state: AgentState
    task: Input

    def text(self) -> str:
        """As JSON."""
        return written(
            {"config": to_data(self.config), "state": to_data(self.state), "task": to_data(self.task, Input)}
        )

    @classmethod
    def read(cls, text: str) -> Errand:
        """From JSON."""
        data = json.loads(text)
        config, state = from_data(data["config"], AgentConfig), from_data(data["state"], AgentState)
        return cls(config, state, from_data(data["task"], Input))


@frozen
class Ended:
    """What came of a run."""

    at: float
    """Seconds since the epoch; the time of its newest input."""
    turn: int = 0
    """The number of the turn that it stands in."""
    finished: TurnFinished | None = None
    """How the turn ended; None where it has not, or none was open."""
    pending: tuple[Postponable, ...] = ()
    """What waits for an answer, oldest first."""
    error: str = ""
    """Why the run failed; empty where it didn't."""

    def text(self) -> str:
        """As JSON."""
        data: dict[str, Any] = {"at": self.at, "turn": self.turn}
        if self.finished is not None:
            data["finished"] = to_data(self.finished)
        if self.pending:
            data["pending"] = [to_data(effect, Postponable) for effect in self.pending]
        if self.error:
            data["error"] = self.error
        return written(data)

    @classmethod
    def read(cls, text: str) -> Ended:
        """From JSON."""
        data = json.loads(text)
        finished = from_data(data["finished"], TurnFinished) if "finished" in data else None
        pending: Sequence[Any] = [from_data(one, Postponable) for one in data.get("pending", ())]
        return cls(float(data["at"]), data["turn"], finished, tuple(pending), data.get("error", ""))


def input_text(event: Input | None) -> str:
    """An input as JSON; None, which goes on with what was interrupted, as ``null``."""
    return "null" if event is None else written(to_data(event, Input))


def read_input(text: str) -> Input | None:
    """An input from JSON; raises CodecError if it is none."""
    data = json.loads(text)
    return None if data is None else from_data(data, Input)


written = encoder(ascii_only=True)
"""Writes plain data as JSON in ASCII: half of a surrogate pair has no other form that every database keeps."""

HALF = "\\ud"
"""Half of a surrogate pair, as JSON writes it."""

"""The data of a run that a durable engine stores, as JSON: its beginning, the results of its steps, and its outcome.

{"lines":3,"at":1790000000.0,"input":{"type":"user_spoke",...},"redacted":[...]}     the beginning
{"at":1790000001.5,"input":{"type":"tool_returned","effect_id":"1.1.1",...}}          a step
{"at":1790000001.5,"input":{...},"recorded":true}       a step that was recorded before it was kept
{"later":true,"at":1790000001.5}                        a step whose effect is answered by a later run
{"error":"...","at":1790000001.5}                       the embedding program's own fault, which ends the run
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from cognition import AgentConfig, AgentState, Failed, Input, TurnFinished, from_data, to_data
from cognition.base.encoding import encoder
from interpreters.durable._errors import DurableError
from interpreters.loop.program.pending import Postponable
from interpreters.recording.redactor import RedactionNote


@frozen
class StepResult:
    """The result of a step."""

    at: float
    """Seconds since the epoch."""
    event: Input | None = None
    """None if the effect is answered later, or if the run continues without a new input."""
    redacted: tuple[RedactionNote, ...] = ()
    lines: int = 0
    """Only in the beginning: the number of lines recorded before the run."""
    error: str = ""
    recorded: bool = False
    """Whether the record was started before the engine had stored this. If the record is missing, it was lost, and the
    effects decided in it may have started.
    """

    def text(self) -> str:
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
        return encode_json(data)

    @classmethod
    def read(cls, text: str) -> StepResult:
        """Read JSON.

        Raises:
            DurableError: it is not the text of a step.
        """
        try:
            data = json.loads(text)
            event = from_data(data["input"], Input) if "input" in data else None
            redacted = tuple(RedactionNote(**one) for one in data.get("redacted", ()))
            lines, recorded = data.get("lines", 0), bool(data.get("recorded"))
            return cls(float(data["at"]), event, redacted, lines, data.get("error", ""), recorded)
        except Exception as error:  # whatever comes of a text that somebody else has changed
            raise DurableError(f"what the engine kept of a step can't be read: {error}") from error


@frozen(eq=False)
class LocalResult:
    happened: StepResult
    came: Input | None
    """Its input before redaction; None if unknown."""
    text: str

    @classmethod
    def of(cls, happened: StepResult, came: Input | None) -> LocalResult:
        return cls(happened, came, happened.text())

    @property
    def is_read_again(self) -> bool:
        """Whether ``StepResult.read`` returns an equal result for its text.

        False if it may contain halves of a surrogate pair, which JSON reads as one character if they are adjacent.
        """
        return HALF not in self.text


@frozen
class WorkerStart:
    """The beginning of a worker's run."""

    config: AgentConfig
    state: AgentState
    task: Input

    def text(self) -> str:
        return encode_json(to_data(self))

    @classmethod
    def read(cls, text: str) -> WorkerStart:
        start: WorkerStart = from_data(json.loads(text), WorkerStart)
        return start


@frozen
class RunOutcome:
    """The outcome of a run."""

    at: float
    """Seconds since the epoch; the time of its newest input."""
    turn: int = 0
    finished: TurnFinished | None = None
    """How the turn ended; None if it has not, or if no turn was open."""
    pending: tuple[Postponable, ...] = ()
    """The pending effects, oldest first."""
    error: str = ""
    """Why the run failed; empty if it did not."""

    @property
    def failure(self) -> str:
        """Why engines store the run as failed: its error, or that of its turn; empty if it succeeded."""
        outcome = None if self.finished is None else self.finished.outcome
        if self.error or not isinstance(outcome, Failed):
            return self.error
        return f"the turn failed: {outcome.kind}: {outcome.message}"

    @property
    def is_refused(self) -> bool:
        """Whether the run failed before its input was taken: nothing of it was recorded or carried out."""
        return bool(self.error) and self.at > 0 and self.turn == 0 and self.finished is None and not self.pending

    def text(self) -> str:
        """Return this as JSON."""
        data: dict[str, Any] = {"at": self.at, "turn": self.turn, **to_data(self)}
        if self.finished is not None:
            data["finished"] = to_data(self.finished)  # with its tag
        return encode_json(data)

    @classmethod
    def read(cls, text: str) -> RunOutcome:
        """Read JSON."""
        data = json.loads(text)
        finished = from_data(data["finished"], TurnFinished) if "finished" in data else None
        pending: Sequence[Any] = [from_data(one, Postponable) for one in data.get("pending", ())]
        return cls(float(data["at"]), data["turn"], finished, tuple(pending), data.get("error", ""))


def input_text(event: Input | None) -> str:
    """Return an input as JSON; ``null`` for None, which continues an interrupted turn."""
    return "null" if event is None else encode_json(to_data(event, Input))


def read_input(text: str) -> Input | None:
    """Read an input from JSON.

    Raises:
        CodecError: it is not an input.
    """
    data = json.loads(text)
    return None if data is None else from_data(data, Input)


encode_json: Callable[[Any], str] = encoder(ascii_only=True)
"""Writes plain data as ASCII JSON: half of a surrogate pair has no other form that every database can store."""

HALF = "\\ud"

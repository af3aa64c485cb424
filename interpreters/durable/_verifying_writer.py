"""The recording side of a durable run: records of earlier executions are compared, new records are written.

A step's input arrives from the engine with its secrets hidden and with its time. It is recorded unchanged, so that
every execution writes the same bytes.

An engine with its own disk still knows inputs that the recording's disk lost in a crash. From these inputs all
decisions follow again, except two facts: that a non-repeatable effect has begun, and that the run ended with pending
effects. So records with such decisions are forced to the disk. The exception is an answer that the engine stores with
the note that it was recorded before: if its record is missing, the record was lost, and its effects are treated as
started.

A cancelled run is not executed again, so a lost record of its calls would stay unknown. So the first record of each run
is forced to the disk too: no later turn gets its number, and no effect the id of another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cognition import (
    AskApproval,
    AskUser,
    CallTool,
    CancelEffect,
    EffectId,
    Input,
    ReviewPlan,
    SpawnWorker,
    Transition,
    to_data,
)
from cognition.steps.decisions import EFFECT_TYPES
from interpreters.durable._errors import DurableDivergedError
from interpreters.loop.performers import settle
from interpreters.loop.program.pending import outlives_its_run
from interpreters.recording.differences import differences
from interpreters.recording.journal import DecisionWriter, Journal, Record
from interpreters.recording.redactor import RedactionNote, Redactor
from interpreters.recording.replay import compare
from interpreters.tools.tool import Tool

WEIGHED = (CallTool, AskApproval, AskUser, ReviewPlan)

NO_TOOLS: Final[Mapping[str, Tool[..., Any]]] = {}


class StepRedactor:
    """The session's redactor for a driver whose inputs are already redacted.

    Args:
        redactor: the session's redactor.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.noted: Sequence[RedactionNote] = ()
        """The redactions in the next input."""

    def hide(self, value: Any) -> tuple[Any, Sequence[Any]]:
        """Return the value unchanged, with the redactions of its step."""
        noted, self.noted = self.noted, ()
        return value, noted

    def reveal(self, value: Any) -> Any:
        return self._redactor.reveal(value)

    def lacks(self, value: object) -> bool:
        return self._redactor.lacks(value)


class VerifyingWriter:
    """A ``Writer`` for one execution of a run.

    Args:
        journal: the session's journal.
        folded: the number of records when the run began.
        ahead: the records that earlier executions of this run have written.
        redactor: the session's redactor.
        tools: the session's tools, by name.
        early: whether answers are recorded before the engine has stored them.
    """

    def __init__(
        self,
        journal: Journal,
        folded: int,
        ahead: Iterable[Record],
        redactor: Redactor,
        tools: Mapping[str, Tool[..., Any]] = NO_TOOLS,
        early: bool = False,
    ) -> None:
        self._journal = journal
        self._tools = tools
        self.waiting: set[EffectId] = set()
        """The effects in flight that a later run will answer."""
        self._newest: tuple[Transition, set[EffectId], bool] | None = None
        self._ahead = deque(ahead)
        self._decisions = DecisionWriter()
        self.written: int = folded
        """The number of records up to now, including those before the run."""
        self.redactor = StepRedactor(redactor)
        self.repeated = False
        """Whether the newest input was already recorded: its effects may have started, and observers have seen it."""
        self._records_early = early
        self._newest_early: EffectId | None = None
        """The effect whose answer was the last record of an earlier execution."""
        self._is_noted = self._is_given_again = self._has_written = False
        self.may_have_begun = False
        """Whether the effects decided by the newest input may have started in an earlier execution."""

    def expect(self, redacted: Sequence[RedactionNote], *, noted: bool, given_again: bool) -> None:
        """Set the facts about the next input that it does not contain.

        Args:
            redacted: its redactions.
            noted: whether the engine stores it with the note that it was recorded before.
            given_again: whether an earlier execution has received it from the engine, or may have.
        """
        self.redactor.noted = redacted
        self._is_noted, self._is_given_again = noted, given_again

    def answer_to(self, effect_id: EffectId) -> Record | None:
        """Return the answer to an effect that an earlier execution recorded, if the engine has not stored it.

        If answers are recorded early, no execution has continued from this record.
        """
        for record in self._ahead:
            if getattr(record.input, "effect_id", None) == effect_id:
                self._newest_early = effect_id if self._records_early else None
                return record
        return None

    def waits(self, event: Input, transition: Transition) -> bool:
        """Whether ``write`` is expected to wait for the disk."""
        return not self._ahead and (self._journal.waits(event, transition) or self._weigh(event, transition)[1])

    def write(self, event: Input, transition: Transition, redacted: Sequence[Any] = ()) -> None:
        """Append a record, or check that it equals the existing record.

        Raises:
            DurableDivergedError: the existing record differs.
            TakenOverError: another process has taken over the session.
            JournalError: the record can't be written.
        """
        waiting, forces = self._weigh(event, transition)
        if self._ahead:
            self._compare(self._ahead[0], event, transition)
            self._ahead.popleft()
            self.repeated = self._newest_early is None or getattr(event, "effect_id", None) != self._newest_early
        else:
            self._journal.write(event, transition, redacted, force=forces)
            self.repeated, self._has_written = False, True
        self.may_have_begun = self.repeated or (self._is_noted and self._is_given_again)
        self._is_noted = self._is_given_again = False
        self.waiting, self._newest = waiting, None
        self.written += 1

    def _weigh(self, event: Input, transition: Transition) -> tuple[set[EffectId], bool]:
        """Return the effects that wait for an answer after a step, and whether its record must be forced to the disk.

        It is forced if it is the run's first, if an effect must not start twice, or if the run may end here with
        pending effects. The result is cached, since it is needed before and during the write.
        """
        if self._newest is None or self._newest[0] is not transition:
            waiting = self._waiting(event, transition)
            forces = not self._has_written or bool(waiting)
            forces = forces or (not self._is_noted and self._must_not_repeat(transition))
            self._newest = transition, waiting, forces
        return self._newest[1:]

    def _must_not_repeat(self, transition: Transition) -> bool:
        begun = [one for one in transition.decisions if isinstance(one, CallTool | SpawnWorker)]
        return not all(isinstance(settle(self._tools, one, 0.0), EFFECT_TYPES) for one in begun)

    def _waiting(self, event: Input, transition: Transition) -> set[EffectId]:
        weighed = [one for one in transition.decisions if isinstance(one, WEIGHED)]
        asked = {one.effect_id for one in weighed if outlives_its_run(one, self._tools)}
        if not asked and not self.waiting:
            return self.waiting
        over = {one.effect_id for one in transition.decisions if isinstance(one, CancelEffect)}
        return (self.waiting | asked) - over - {getattr(event, "effect_id", None)}

    def _compare(self, record: Record, event: Input, transition: Transition) -> None:
        if record.input != event:
            found = next(differences(to_data(record.input), to_data(event), "input"), None)
            raise DurableDivergedError(
                f"an earlier execution of this run recorded another input, record {record.seq} differs at {found}"
            )
        if (difference := compare(record, self._decisions.data(transition.decisions))) is not None:
            raise DurableDivergedError(
                f"an earlier execution of this run decided otherwise; finish it with the program that began it: "
                f"{difference}"
            )

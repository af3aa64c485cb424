"""The writing end of a durable run: what an earlier execution of it has written is compared, the rest is written.

A step's input comes from the engine with its secrets hidden and with its time, and is recorded as it comes, so that
every execution has the same bytes.

An engine that has a disk of its own still knows what the recording's disk has lost in a crash. What was decided is
decided again by what the engine knows; but not that something began which must not begin twice, nor what somebody
waits for after the run. So the records that say this are forced to the disk, with one exception: an answer which the
engine keeps together with the note that it was recorded before. Where the engine has kept that and there is no record,
it was lost, and what was decided in it is held for begun. A run that is cancelled then is not executed again, so that
nobody would learn of a call that it made. So the first record of each run is forced as well: the turn stands on file,
and no later one gets its number, nor any effect the id of another.
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
from cognition.decisions import EFFECT_TYPES
from interpreters.durable.errors import DurableDivergedError
from interpreters.loop.settling import settle
from interpreters.program.later import outlives_its_run
from interpreters.recording.differences import differences
from interpreters.recording.journal import DecisionWriter, Journal, Record
from interpreters.recording.replaying import compare
from interpreters.recording.veil import Redacted, Veil
from interpreters.tools.tool import Tool

WEIGHED = (CallTool, AskApproval, AskUser, ReviewPlan)

NO_TOOLS: Final[Mapping[str, Tool[..., Any]]] = {}


class StepVeil:
    """The session's veil for a driver whose inputs come hidden already.

    Args:
        veil: of the session.
    """

    def __init__(self, veil: Veil) -> None:
        self._veil = veil
        self.noted: Sequence[Redacted] = ()
        """What was hidden in the input that comes next."""

    def hide(self, value: Any) -> tuple[Any, Sequence[Any]]:
        """The value as it is, with the notes of its step."""
        noted, self.noted = self.noted, ()
        return value, noted

    def reveal(self, value: Any) -> Any:
        return self._veil.reveal(value)

    def lacks(self, value: object) -> bool:
        return self._veil.lacks(value)


class Ahead:
    """A ``Writer`` for one execution of a run.

    Args:
        journal: of the session.
        folded: the number of records that were there when the run began.
        ahead: the records that earlier executions of this run have written.
        veil: of the session.
        tools: of the session, by name.
        early: whether answers are recorded before the engine has kept them.
    """

    def __init__(
        self,
        journal: Journal,
        folded: int,
        ahead: Iterable[Record],
        veil: Veil,
        tools: Mapping[str, Tool[..., Any]] = NO_TOOLS,
        early: bool = False,
    ) -> None:
        self._journal = journal
        self._tools = tools
        self.waiting: set[EffectId] = set()
        """What is answered after the run, of what is in flight."""
        self._newest: tuple[Transition, set[EffectId], bool] | None = None
        """What was weighed of a step that is not written yet."""
        self._ahead = deque(ahead)
        self._decisions = DecisionWriter()
        self._written = folded
        self.veil = StepVeil(veil)
        self.repeated = False
        """Whether the newest input stood on file already: its effects may have begun, and observers were told."""
        self._records_early = early
        self._newest_early: EffectId | None = None
        """The effect whose answer was recorded by an execution that got no further."""
        self._is_noted = self._is_given_again = self._has_written = False
        self.may_have_begun = False
        """Whether the effects that the newest input led to may have begun in an earlier execution."""

    def expect(self, redacted: Sequence[Redacted], *, noted: bool, given_again: bool) -> None:
        """Say of the input that comes next what it has not in itself.

        Args:
            redacted: what was hidden in it.
            noted: whether the engine keeps the note with it that it was recorded before.
            given_again: whether an earlier execution has got it back from the engine already, or may have.
        """
        self.veil.noted = redacted
        self._is_noted, self._is_given_again = noted, given_again

    @property
    def written(self) -> int:
        """The number of records of the run and before it."""
        return self._written

    def answer_to(self, effect_id: EffectId) -> Record | None:
        """The answer to an effect which an earlier execution has recorded, while the engine has kept none. Where
        answers are recorded early, nobody has gone on from this one.
        """
        for record in self._ahead:
            if getattr(record.input, "effect_id", None) == effect_id:
                self._newest_early = effect_id if self._records_early else None
                return record
        return None

    def waits(self, event: Input, transition: Transition) -> bool:
        """Whether ``write`` will wait for the disk, as far as that is known beforehand."""
        return not self._ahead and (self._journal.waits(event, transition) or self._weighed(event, transition)[1])

    def write(self, event: Input, transition: Transition, redacted: Sequence[Any] = ()) -> None:
        """Append a record, or see that it is the one which stands on file.

        Raises:
            DurableDivergedError: it is another one.
            TakenOverError: another process has the session now.
            JournalError: it can't be written.
        """
        waiting, forces = self._weighed(event, transition)
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
        self._written += 1

    def _weighed(self, event: Input, transition: Transition) -> tuple[set[EffectId], bool]:
        """What waits for its answer behind a step; and whether the run begins with it, or something that must not begin
        twice, or it may end here, to be answered later. Asked for before it is written and when it is.
        """
        if self._newest is None or self._newest[0] is not transition:
            waiting = self._waiting(event, transition)
            forces = not self._has_written or bool(waiting)
            forces = forces or (not self._is_noted and self._must_not_repeat(transition))
            self._newest = transition, waiting, forces
        return self._newest[1:]

    def _must_not_repeat(self, transition: Transition) -> bool:
        return any(
            isinstance(one, CallTool | SpawnWorker) and not isinstance(settle(self._tools, one, 0.0), EFFECT_TYPES)
            for one in transition.decisions
        )

    def _waiting(self, event: Input, transition: Transition) -> set[EffectId]:
        asked = {
            one.effect_id
            for one in transition.decisions
            if isinstance(one, WEIGHED) and outlives_its_run(one, self._tools)
        }
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
        difference = compare(record, self._decisions.data(transition.decisions))
        if difference is not None:
            raise DurableDivergedError(
                f"an earlier execution of this run decided otherwise; finish it with the program that began it: "
                f"{difference}"
            )

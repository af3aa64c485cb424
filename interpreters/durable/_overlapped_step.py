"""A step decided and recorded while the engine stores its answer, so that neither waits for the other.

    work ── text ──▶ the engine keeps it ─────────────▶ both are done: what was decided begins
              └────▶ decide ── write the record ──────▶

If a process ends in between, the recording may contain an answer that the engine has not stored. A further execution
takes it from there and does not repeat the work. The earlier execution has started none of the effects decided by it,
since that happens only after the engine has stored the answer. See ``Ahead.answer_to``.

Conversely, an answer that the engine stored in this way was recorded before. If its record is missing, the recording
has lost it, and its effects may have started. So the record need not be forced to the disk before they start. See
``Ahead.expect``.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from cognition import Input
from interpreters.loop.driver import Driver, Step
from interpreters.tools.offloading import to_its_end


class EarlyStep:
    """A step of a session that is decided immediately, and carried out later or abandoned.

    Args:
        driver: the session's driver; no other code uses it until the step has ended.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._before = driver.state, driver.written
        self.event: Input | None = None
        """The input taken; None before that."""
        self._step: Step | None = None
        self._recording: asyncio.Future[None] | None = None
        """Writes the record; None once it is written."""
        self._error: BaseException | None = None
        self._is_over = False

    @property
    def has_begun(self) -> bool:
        """Whether an input was taken, and is recorded or being recorded; False if that has already failed."""
        return self.event is not None and self._error is None

    def begin(self, event: Input) -> None:
        """Take an input, and record it with its decisions, or start to. Never raises."""
        if self._is_over or self.event is not None:
            return
        self.event = event
        try:
            step = self._step = self._driver.stepped(event)
            recording = self._driver.recording(step, to_its_end)
            self._recording = None if recording is None else asyncio.ensure_future(recording)
        except BaseException as error:  # whoever finishes is told, whatever it is
            self._error = error

    async def finish(self) -> None:
        """Start the decided effects, once the step is recorded.

        Raises:
            JournalError: it can't be recorded, or another process has taken over the session.
            CogstepError: any other error of ``Driver.advance_async``.
        """
        self._is_over = True
        before, written = self._before
        assert self.event is not None
        try:
            if self._error is not None:
                raise self._error
            assert self._step is not None
            await self._driver.conclude(self._step, written, self._recording)
        except BaseException:
            self._driver.leave(self.event, self._step, before, written)
            raise

    async def leave(self) -> None:
        """Start no effects: it is unknown whether the engine has stored the answer.

        A record being written is written to its end, and observers see the step.
        """
        self._is_over = True
        if self.event is None:
            return
        try:
            if self._recording is not None:
                with suppress(Exception):  # why nothing was kept is what is told
                    await self._recording
        finally:
            before, written = self._before
            if self._step is not None and self._driver.written > written and self._driver.state is before:
                # The engine may have kept the answer all the same: then no further execution tells of it.
                self._driver.tell(self._step)
            else:
                self._driver.leave(self.event, self._step, before, written)

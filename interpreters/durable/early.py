"""A step that is decided and recorded while the engine keeps the answer that it takes: neither waits for the other.

    work ── text ──▶ the engine keeps it ─────────────▶ both are done: what was decided begins
              └────▶ decide ── write the record ──────▶

Where a process ends in between, the recording may know an answer which the engine has not kept. A further execution
takes it from there, and does not do the work again; and since the engine would have kept what the earlier execution got
back, that one has begun nothing of what was decided by it. See ``Ahead.answer_to``.

The other way round, an answer that the engine has kept in this way was recorded before. If there is no record of it,
the recording has lost that, and what was decided by it may have begun. So nothing has to be forced to a disk before it
begins. See ``Ahead.expect``.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from cognition import Input
from interpreters.driver import Driver, Step
from interpreters.threads.offloading import to_its_end


class EarlyStep:
    """One step of a session, decided now, and carried out later or left.

    Args:
        driver: of the session, which is asked for nothing else meanwhile.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._before = driver.state, driver.written
        self.event: Input | None = None
        """The input that was taken; None before that."""
        self._step: Step | None = None
        self._recording: asyncio.Future[None] | None = None
        """Writes the record; None once it is written."""
        self._error: BaseException | None = None
        self._is_over = False

    @property
    def has_begun(self) -> bool:
        """Whether an input was taken, and is recorded or being so: False where that has failed already."""
        return self.event is not None and self._error is None

    def begin(self, event: Input) -> None:
        """Take an input, and write it down with what is decided, or begin to. Nothing is raised."""
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
        """Begin what was decided, once it is recorded.

        Raises:
            JournalError: it can't be recorded, or is another process's by now.
            CogstepError: what else ``Driver.advance_async`` raises.
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
        """Begin nothing: nobody knows whether the engine has kept the answer. What is being recorded is recorded to its
        end, and observers are told of it.
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

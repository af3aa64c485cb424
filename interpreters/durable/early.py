"""A step that is decided and recorded while the engine keeps the answer that it takes: neither waits for the other.

    work ── text ──▶ the engine keeps it ─────────────▶ both are done: what was decided begins
              └────▶ decide ── write the record ──────▶

Where a process ends in between, the recording may know an answer which the engine has not kept. A further execution
takes it from there, and does not do the work again: see ``Ahead.answer_to``. But it can't tell whether what was decided
has begun. So of what must not begin twice the record is written when the engine has kept the answer: else such a call
would be held for one that may have happened, which it was not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from cognition import Input
from interpreters.driver import Driver, Step
from interpreters.threads.offloading import to_its_end


class EarlyStep:
    """One step of a session, decided now, and carried out later or left.

    Args:
        driver: of the session, which is asked for nothing else meanwhile.
        comes_later: whether the record of a step is not to be written early.
    """

    def __init__(self, driver: Driver, comes_later: Callable[[Step], bool]) -> None:
        self._driver = driver
        self._comes_later = comes_later
        self._before = driver.state, driver.written
        self._event: Input | None = None
        self._step: Step | None = None
        self._is_recorded = False
        """Whether the record is written, or is being written by ``_recording``."""
        self._recording: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._is_over = False

    @property
    def begun(self) -> bool:
        """Whether there was an input."""
        return self._event is not None

    def begin(self, event: Input) -> None:
        """Take an input, and write it down with what is decided, as far as that can be done now. Nothing is raised."""
        if self._is_over or self.begun:
            return
        self._event = event
        try:
            step = self._step = self._driver.stepped(event)
            if not self._comes_later(step):
                recording = self._driver.recording(step, to_its_end)
                self._recording = None if recording is None else asyncio.ensure_future(recording)
                self._is_recorded = True
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
        assert self._event is not None
        try:
            if self._error is not None:
                raise self._error
            assert self._step is not None
            step, driver = self._step, self._driver
            recording = self._recording if self._is_recorded else driver.recording(step, to_its_end)
            await driver.conclude(step, written, recording)
        except BaseException:
            self._driver.leave(self._event, self._step, before, written)
            raise

    async def leave(self) -> None:
        """Begin nothing, since the engine has not kept the answer. What is being recorded is recorded to its end."""
        self._is_over = True
        if self._event is None:
            return
        try:
            if self._recording is not None:
                with suppress(Exception):  # why nothing was kept is what is told
                    await self._recording
        finally:
            self._driver.leave(self._event, self._step, *self._before)

"""Decides whether a model's process takes too long. It has no clock: the caller passes messages and elapsed time."""

from __future__ import annotations

from runtime.isolated import wire
from runtime.isolated.settings import Isolation


class Patience:
    """Judges one process.

    A pulse only proves that the process lives. A changed step count, or a message from a step, proves that native code
    makes progress; a heartbeat thread alone cannot.
    """

    def __init__(self, settings: Isolation) -> None:
        self._settings = settings
        self.tick = settings.silence / 4
        """Seconds until the next check. A longer wait counts only as this much: if this program was stopped or the
        machine slept, its length proves nothing about the child.
        """
        self._quiet = 0.0
        self._stuck = 0.0
        self._steps = -1
        self._heard = False
        self.loading = True
        """While loading, only ``Loading`` messages count as progress, not steps."""

    def rest(self) -> None:
        """Reset both timers: the process is idle."""
        self._quiet = self._stuck = 0.0

    def hear(self, message: wire.Message) -> None:
        """Note a message of the process."""
        self._heard = True
        self._quiet = 0.0
        if not isinstance(message, wire.Pulse):
            self._stuck = 0.0
        elif message.steps != self._steps and not self.loading:
            self._steps = message.steps
            self._stuck = 0.0

    def wait(self, seconds: float) -> str:
        """Note elapsed seconds; return the problem with the process, or an empty text."""
        seconds = min(seconds, self.tick)
        self._quiet += seconds
        self._stuck += seconds if self._heard else 0.0
        settings = self._settings
        silence = settings.silence if self._heard else settings.start
        if self._quiet >= silence:
            return f"the model's process gave no sign of life for {silence:g} s and was killed"
        if self._stuck >= settings.deadline:
            return f"the model's process came no further for {settings.deadline:g} s and was killed"
        return ""

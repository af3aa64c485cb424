"""Whether a model's process is taking too long: a machine without a clock, told what was heard and how long nothing."""

from __future__ import annotations

from runtime.isolated import wire
from runtime.isolated.settings import Isolation


class Patience:
    """Judges one process.

    A pulse says that the process lives; only the number of steps in it, or a message that a step made, says that its
    native code comes to something. A thread of the child that merely sends a heartbeat could not tell the two apart.
    """

    def __init__(self, settings: Isolation) -> None:
        self._settings = settings
        self.tick = settings.silence / 4
        """Seconds after which to look again. No wait counts for more: when we were stopped ourselves, or the machine
        slept, its length says nothing about the child."""
        self._quiet = 0.0
        self._stuck = 0.0
        self._steps = -1
        self._heard = False
        self.loading = True
        """It gets on only with news of how far it is, and not by taking steps."""

    def rest(self) -> None:
        """It has nothing to do, so nothing is expected."""
        self._quiet = self._stuck = 0.0

    def hear(self, message: wire.Message) -> None:
        """It said something."""
        self._heard = True
        self._quiet = 0.0
        if not isinstance(message, wire.Pulse):
            self._stuck = 0.0
        elif message.steps != self._steps and not self.loading:
            self._steps = message.steps
            self._stuck = 0.0

    def wait(self, seconds: float) -> str:
        """So much time has gone by; what is wrong with the process, or nothing."""
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

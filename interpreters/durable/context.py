"""``DurableContext``: the protocol that an adapter of a durable engine implements.

An engine executes a run again until an execution reaches its end. Results stored by an earlier execution are returned
again, not computed again. ``run`` relies on these laws of a context:

- The calls of an execution are identified by their order: the first call of a further execution is the first call of
  the earlier ones. A task that makes calls was started in this order, and makes its call before it waits for anything.
- A step whose text was returned once returns this text in all further executions, without a call of ``work``.
- A step that was not returned may have happened: a process may end after ``work`` and before the record of it.
- Only text is stored: JSON of ``cognition.steps.codec``, never a pickled object.
- A further execution may start while an earlier one only seems to be dead. It takes over the session's recording. Then
  the earlier one can't decide anything and can only start effects that were recorded already. The later one treats
  these as possibly started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

Work = Callable[[], Awaitable[str]]
"""The work of a step; the engine stores the returned text."""

Meanwhile = Callable[[], "str | None"]
"""Called before the engine stores a text, or while it does.

It may return another text to store. That is used only if the first is not on its way to the engine yet.
"""


class DurableContext(Protocol):
    """The engine as seen by one execution of a run.

    A cancellation of the run raises ``asyncio.CancelledError``, or an exception of the engine, from one of these calls.
    ``run`` does not catch it; the session stays as recorded.
    """

    @property
    def calls_meanwhile(self) -> bool:
        """Whether ``step`` calls ``meanwhile``."""

    @property
    def is_leaving(self) -> bool:
        """Whether the process is about to end, so that no decision is recorded before its step is stored."""

    async def step(self, name: str, work: Work, *, alone: bool = False, meanwhile: Meanwhile | None = None) -> str:
        """Return the text of ``work``, from this or an earlier execution.

        Args:
            name: the step's name for operators of the engine; the id of the effect that it carries out, if any.
            work: raises only if it is cancelled.
            alone: no other call is made until this returns, which may make it cheaper.
            meanwhile: may be called once, before this returns, when ``work`` has returned its text and the engine has
                not stored it yet. Only with ``alone``; it never raises.
        """

    async def sleep(self, name: str, seconds: float) -> None:
        """Wait, counted from the first execution's call. The time also runs while no process does."""

    async def child(self, name: str, session: str, task: str) -> str:
        """Run a worker's session as a separate run, and return the result of ``run_worker`` for ``session`` and
        ``task``.

        The worker continues when this execution ends; a further execution waits for the same worker. A cancellation of
        this run cancels its workers.
        """

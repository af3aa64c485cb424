"""What a durable engine has to give: the protocol that its adapter implements.

An engine executes a run as often as it takes until one execution has come to its end. What it has kept of an earlier
execution is given again, and not done again. The laws of a context, which ``run`` relies on:

- The calls of one execution are known by their order: the first call of a further execution is the first one of the
  earlier ones. A task that calls has been started in this order, and calls before it waits for anything else.
- A step whose text was returned once, returns this text in all further executions, and ``work`` is not called.
- What was not returned may have happened: a process may end between the end of ``work`` and the record of it.
- All that is kept is text: JSON of ``cognition.codec``, never a pickled object.
- A further execution may begin while an earlier one only seems to be dead. It takes the session's recording over, so
  that the earlier one can decide nothing more, and begin nothing but what was recorded already: the later one takes
  that for what may have happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

Work = Callable[[], Awaitable[str]]
"""What a step does; the text is kept by the engine."""

Meanwhile = Callable[[], "str | None"]
"""What is done before a text is kept, or while it is; gives the text to be kept in its place, where it is another one
and the first is not on its way to the engine yet."""


class DurableContext(Protocol):
    """The engine as one execution of a run sees it.

    Whatever cancels the run raises ``asyncio.CancelledError``, or an exception of the engine's own, out of one of these
    calls; ``run`` lets it pass, and the session stands as its recording says.
    """

    @property
    def calls_meanwhile(self) -> bool:
        """Whether ``step`` calls ``meanwhile``."""

    async def step(self, name: str, work: Work, *, alone: bool = False, meanwhile: Meanwhile | None = None) -> str:
        """The text that ``work`` gives, or gave in an earlier execution.

        Args:
            name: of the step, for people that look at the engine; an effect's id where it carries one out.
            work: never raises but when it is cancelled.
            alone: whether the engine is asked for nothing else until this returns, which may make it cheaper.
            meanwhile: may be called, once and never behind this call, when ``work`` has given its text and the engine
                has not kept it yet. Only where ``alone``; it never raises.
        """

    async def sleep(self, name: str, seconds: float) -> None:
        """Wait so long, counted from the first execution's call on; also where no process runs meanwhile."""

    async def child(self, name: str, session: str, task: str) -> str:
        """Run a worker's session as a run of its own, and give what ``run_worker`` of ``session`` and ``task`` gives.

        The worker goes on where this execution ends; a further one waits for the same worker. Who cancels this run
        cancels its workers.
        """

"""A forked process has none of the threads that the pools of the one before have."""

from __future__ import annotations

import asyncio

from interpreters.testing._promising import in_a_process
from interpreters.tools.offloading import run_in_thread


def test_a_forked_process_waits_for_no_thread_that_it_has_not() -> None:
    async def work() -> int:
        return await run_in_thread(lambda: 1)

    assert asyncio.run(work()) == 1  # leaves an idle thread
    in_a_process(lambda: asyncio.run(work()))

"""The objects that callers use for a model in a child process."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from os import PathLike
from queue import SimpleQueue
from typing import TYPE_CHECKING

from cognition import ModelRequest
from cognition.parsing import Output
from runtime.closeable import Closeable
from runtime.isolated import wire
from runtime.local.handles import LocalGeneration
from runtime.local.real_model_guard import check_allowed
from runtime.protocol.done import done_of
from runtime.protocol.model import Done, ModelInfo
from runtime.scheduling.owners import QUEUE_LIMIT, OpenRequests, new_owner, owner_or

if TYPE_CHECKING:
    from runtime.isolated.supervisor import Supervisor


class IsolatedRuntime(Closeable):
    """A local model in a child process; see ``runtime.Runtime``. Created by ``runtime.load_model(..., isolate=True)``.

    If the process ends or hangs, its running requests fail as ``transient`` and it is restarted; new requests wait for
    it. Usable in a ``with`` statement. It is closed on garbage collection and at the end of the program.
    """

    def __init__(self, supervisor: Supervisor, queue_limit: int | None = QUEUE_LIMIT) -> None:
        """Take over a supervisor whose first child is ready."""
        self._supervisor = supervisor
        self._agent = new_owner()
        self._open = OpenRequests(queue_limit)
        self._info = supervisor.ready.result()
        self._shut = weakref.finalize(self, supervisor.close)

    @property
    def pid(self) -> int | None:
        """The process id; None between two processes."""
        return self._supervisor.pid

    @property
    def starts(self) -> int:
        """How many processes were started, including the first."""
        return self._supervisor.starts

    def submit(self, request: ModelRequest) -> LocalGeneration:
        check_allowed(f"ask {self._info.name}")
        supervisor, open_requests, agent = self._supervisor, self._open, owner_or(self._agent)
        full = open_requests.begin(agent)
        if full is not None:
            outputs: SimpleQueue[Output | Done] = SimpleQueue()
            outputs.put(done_of((), "error", full))
            return LocalGeneration(self, outputs, lambda: None)
        try:
            reply = supervisor.submit(request, agent, lambda: open_requests.end(agent))
        except BaseException:
            open_requests.end(agent)
            raise
        return LocalGeneration(self, reply.outputs, lambda: supervisor.cancel(reply))

    def count_tokens(self, request: ModelRequest) -> int:
        """See ``Runtime.count_tokens``. Waits for the restart if the process has ended.

        Raises:
            RuntimeClosedError: after ``close()``.
            TemplateError: the model's template rejects these messages.
            ModelProcessError: the process has ended too often and is not restarted.
        """
        return self._supervisor.ask(lambda number: wire.Count(number, request)).tokens

    def count_texts(self, texts: Sequence[str]) -> tuple[int, ...]:
        """See ``LocalRuntime.count_texts``. Waits for the restart if the process has ended.

        Raises:
            RuntimeClosedError: after ``close()``.
            ModelProcessError: the process has ended too often and is not restarted.
        """
        each = self._supervisor.ask(lambda number: wire.CountTexts(number, tuple(texts))).each
        return each if len(each) == len(texts) else ()

    def save_cache(self, request: ModelRequest, path: str | PathLike[str]) -> int:
        """See ``LocalRuntime.save_cache``. A restarted process has an empty cache.

        Raises:
            ModelProcessError: the process has ended too often and is not restarted.
        """
        return self._supervisor.ask(lambda number: wire.Save(number, request, os.path.abspath(path))).tokens

    def restore_cache(self, path: str | PathLike[str]) -> int:
        """See ``LocalRuntime.restore_cache``.

        Raises:
            ModelProcessError: the process has ended too often and is not restarted.
        """
        return self._supervisor.ask(lambda number: wire.Restore(number, os.path.abspath(path))).tokens

    def describe(self) -> ModelInfo:
        return self._info

    def close(self) -> None:
        self._shut()
        self._supervisor.close()  # once more: waits also where another caller has just begun to close

"""Handles for callers: a runtime and its generations. They exchange plain values with the owner's thread."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from operator import methodcaller
from os import PathLike
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from attrs import define, field

from cognition import ModelRequest
from cognition.parsing import Output
from runtime.closeable import Closeable
from runtime.errors import SavedCacheError
from runtime.local.owner import Owner
from runtime.local.real_model_guard import check_allowed
from runtime.models.saved_cache import read, write
from runtime.protocol.backend import BackendError
from runtime.protocol.done import done_of
from runtime.protocol.model import Done, ModelInfo, Runtime
from runtime.scheduling.owners import QUEUE_LIMIT, OpenRequests, new_owner, owner_or

if TYPE_CHECKING:
    from runtime.local.engine import LocalEngine

LONGEST_WAIT = 0.5
"""Seconds of one wait for the owner's thread. Python runs signal handlers when a wait ends or is interrupted. A signal
in the microseconds before a wait would otherwise be handled only at the next token.
"""


class RequestSubmitter:
    """Accepts requests for one owner's engine, and cancels them, from any thread."""

    def __init__(self, owner: Owner[LocalEngine], engine: LocalEngine, queue_limit: int | None = None) -> None:
        """Create the desk. It does not touch anything that belongs to the owner's thread.

        ``queue_limit``: of ``OpenRequests``.
        """
        self._owner = owner
        self._open = OpenRequests(queue_limit)
        self.info: ModelInfo = engine.info
        self.interrupt: Callable[[], None] = engine.interrupt
        """Makes the engine check for cancelled requests."""
        self.closing: bool = False

    def submit(
        self, request: ModelRequest, put: Callable[[Output | Done], None], submitted: float, agent: int = 0
    ) -> Submission:
        """Queue a request. ``put`` receives its outputs on the owner's thread, then exactly one ``Done``.

        If the queue is full, it receives the ``Done`` immediately.

        Args:
            request: the request.
            put: must not block for long, nor raise.
            submitted: when the caller submitted it, on the monotonic clock.
            agent: the agent that sends it; see ``scheduling.owners``.

        Raises:
            RuntimeClosedError: the owner is closed.
            RealModelBlockedError: a test run blocks real models.
        """
        check_allowed(f"ask {self.info.name}")
        ticket = Submission(self)

        def finish(done: Done) -> None:
            self._open.end(agent)
            put(done)

        full = self._open.begin(agent)
        if full is not None:
            put(done_of((), "error", full))
            return ticket
        try:
            self._owner.put(
                methodcaller(
                    "submit",
                    request,
                    emit=put,
                    finish=finish,
                    stopped=lambda: self.closing or ticket.cancelled.is_set(),
                    submitted=submitted,
                    owner=agent,
                )
            )
        except BaseException:
            self._open.end(agent)
            raise
        return ticket

    def close(self) -> None:
        """Cancel everything and free the model. May be called twice."""
        self.closing = True
        self.interrupt()
        self._owner.close()


@define(eq=False)
class Submission:
    """One submitted request."""

    _submitter: RequestSubmitter
    cancelled: threading.Event = field(factory=threading.Event, init=False)

    def cancel(self) -> None:
        """Cancel the request. From any thread, at any time."""
        self.cancelled.set()
        self._submitter.interrupt()


class LocalGeneration:
    """A reply of a local model in progress, filled by another thread; see ``runtime.Generation``."""

    def __init__(self, runtime: Runtime, outputs: SimpleQueue[Output | Done], cancel: Callable[[], None]) -> None:
        self._runtime = runtime  # a runtime that nobody else holds lives as long as its replies
        self._outputs = outputs
        self._cancel = cancel
        self._ended = False

    def __iter__(self) -> Iterator[Output | Done]:
        return self

    def __next__(self) -> Output | Done:
        if self._ended:
            raise StopIteration
        while True:
            try:
                output = self._outputs.get(timeout=LONGEST_WAIT)
            except Empty:  # a chance for the handler of a signal that came in the instant before the wait
                continue
            self._ended = isinstance(output, Done)
            return output

    def cancel(self) -> None:
        self._cancel()


class LocalRuntime(Closeable):
    """A local model; see ``runtime.Runtime``. Created by ``runtime.load_model``.

    Usable in a ``with`` statement. It is closed on garbage collection and at the end of the program.
    """

    def __init__(self, owner: Owner[LocalEngine], queue_limit: int | None = QUEUE_LIMIT) -> None:
        """Take over an owner with a loaded engine."""
        self._owner = owner
        self._agent = new_owner()
        self._submitter = owner.call(lambda engine: RequestSubmitter(owner, engine, queue_limit))
        # Closes a runtime that is no longer held, and any that is still open when the program ends.
        self._shut = weakref.finalize(self, self._submitter.close)

    def submit(self, request: ModelRequest) -> LocalGeneration:
        outputs: SimpleQueue[Output | Done] = SimpleQueue()
        ticket = self._submitter.submit(request, outputs.put, time.monotonic(), owner_or(self._agent))
        return LocalGeneration(self, outputs, ticket.cancel)

    def count_tokens(self, request: ModelRequest) -> int:
        return self._owner.call(lambda engine: len(engine.prompt(request)))

    def count_texts(self, texts: Sequence[str]) -> tuple[int, ...]:
        return self._owner.call(lambda engine: engine.count_texts(texts))

    def save_cache(self, request: ModelRequest, path: str | PathLike[str]) -> int:
        """Save the cached part of a request's prompt, so that another process need not compute it again.

        ``LLMEngine.build_prompt(state)`` is the current request of a session. Any request with the same system prompt
        and tools saves at least these.

        Args:
            request: an answered request, or a continuation; nothing is computed for it.
            path: the file, replaced if it exists. It contains the conversation: protect it accordingly.

        Returns:
            The number of tokens saved.

        Raises:
            SavedCacheError: the cache contains nothing of this prompt, the backend cannot save, or the file cannot be
                written.
            TemplateError: the model's template rejects these messages.
            RuntimeClosedError: after ``close()``.
        """
        path = Path(path)
        try:
            saved = self._owner.call(lambda engine: engine.save(request))
        except BackendError as error:
            raise SavedCacheError(f"the cache can't be saved: {error}", path) from error
        if saved is None:
            raise SavedCacheError("the cache holds nothing of this prompt; submit the request first", path)
        write(saved, path)
        return len(saved.tokens)

    def restore_cache(self, path: str | PathLike[str]) -> int:
        """Load a cache saved by ``save_cache``; a request whose prompt has this prefix reuses it.

        Returns:
            The number of tokens.

        Raises:
            SavedCacheError: the file cannot be read, is damaged, or is from another model, adapter, version or relevant
                option; or running replies leave no room.
            RuntimeClosedError: after ``close()``.
        """
        path = Path(path)
        try:
            saved = read(path, self._owner.call(lambda engine: engine.identity()))
            restored = self._owner.call(lambda engine: engine.restore(saved))
        except BackendError as error:
            raise SavedCacheError(f"the cache can't be restored from {path}: {error}", path) from error
        if not restored:
            raise SavedCacheError(
                f"there is no room for the {len(saved.tokens)} tokens of {path} beside what runs", path
            )
        return len(saved.tokens)

    def describe(self) -> ModelInfo:
        return self._submitter.info

    def close(self) -> None:
        self._shut()
        self._owner.close()  # once more: waits for the thread also where another caller has just begun to close

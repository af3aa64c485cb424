"""A registry of the model requests in this process, running and recent; they can be cancelled by id.

>>> from interpreters import Agent, fakes
>>> registry = RequestRegistry()
>>> with Agent(registry.watch(fakes.ScriptedModel(["Hello."]), origin="desk")) as agent:
...     result = agent.run("Hi!")
>>> [(entry.origin, entry.state, entry.preview) for entry in registry.list()]
[('desk', 'completed', 'Hi!')]
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Generic, Literal, TypeVar

from attrs import evolve, frozen

from cognition import ConfigError, ModelRequest, Usage, UserMessage
from cognition.parsing import Output
from runtime.async_adapter import AsyncGeneration, is_async
from runtime.closeable import Closeable
from runtime.protocol.model import Done, Generation, ModelInfo, Runtime, TextCounter

RequestState = Literal["running", "completed", "failed", "cancelled"]
"""A request is ``running`` until its reply ends; its final state never changes."""

PREVIEW = 100
"""Maximum characters of an entry's ``preview``."""


@frozen
class RequestEntry:
    """A snapshot of one request."""

    id: str
    origin: str
    """The origin, as the program named it."""
    model: str
    """The model's name, from its runtime."""
    state: RequestState
    started: float
    """In seconds since the epoch, like ``ended``."""
    ended: float | None = None
    preview: str = ""
    """The beginning of the newest user message."""
    usage: Usage = Usage()
    error: str = ""


class RequestRegistry:
    """Every request of the runtimes that it watches. Usable from any thread.

    Args:
        keep: the maximum number of finished requests to remember, newest first.
        max_age: seconds to remember a finished request.
        now: the clock, in seconds since the epoch.

    Raises:
        ConfigError: ``keep`` or ``max_age`` is negative.
    """

    def __init__(self, *, keep: int = 1000, max_age: float = 3600.0, now: Callable[[], float] = time.time) -> None:
        if keep < 0 or not max_age >= 0:  # said so that NaN is refused too
            raise ConfigError(f"RequestRegistry: keep and max_age must be 0 or more, not {keep!r} and {max_age!r}")
        self._keep, self._max_age, self._now = keep, max_age, now
        self._lock = threading.Lock()
        self._running: dict[str, tuple[RequestEntry, Generation | AsyncGeneration]] = {}
        self._over: dict[str, RequestEntry] = {}
        """Ordered by their end."""
        self._dropped: deque[tuple[str, float]] = deque()
        """Requests whose reply has lost its reader, each with the time. The garbage collector appends here, possibly at
        any point of other code, so no lock is taken.
        """
        self._numbers = count(1)

    def watch(self, runtime: Runtime, origin: str = "") -> WatchedRuntime:
        """Return the runtime, with its requests registered here. Closing either closes both."""
        return WatchedRuntime(self, runtime, origin)

    def list(self, *, running: bool = False) -> tuple[RequestEntry, ...]:
        """Return the requests in the order of their start; with ``running`` only the unfinished ones."""
        with self._lock:
            self._forget(self._max_age)
            found = [entry for entry, _ in self._running.values()]
            found += [] if running else self._over.values()
        return tuple(sorted(found, key=lambda entry: int(entry.id.split("-")[1])))

    def get(self, id: str) -> RequestEntry | None:
        """Return the request with this id, or None if it is unknown or forgotten."""
        with self._lock:
            self._forget(self._max_age)
            running = self._running.get(id)
            return self._over.get(id) if running is None else running[0]

    def cancel(self, id: str) -> bool:
        """Cancel a request and return whether it was running. It stays ``running`` until its reply reports the end."""
        with self._lock:
            self._finish_dropped()
            running = self._running.get(id)
        if running is None:
            return False
        running[1].cancel()
        return True

    def clean(self, max_age: float = 0.0) -> int:
        """Forget requests that ended at least ``max_age`` seconds ago; return their number."""
        with self._lock:
            return self._forget(max_age)

    def _forget(self, max_age: float) -> int:
        self._finish_dropped()
        latest = self._now() - max_age
        old = [id for id, entry in self._over.items() if (entry.ended or 0.0) <= latest]
        for id in old:
            del self._over[id]
        return len(old)

    def _begin(self, request: ModelRequest, model: str, origin: str, generation: Generation | AsyncGeneration) -> str:
        id = f"req-{next(self._numbers)}-{secrets.token_hex(4)}"
        newest = (one.text for one in reversed(request.messages) if isinstance(one, UserMessage))
        entry = RequestEntry(id, origin, model, "running", self._now(), preview=next(newest, "")[:PREVIEW])
        with self._lock:
            self._finish_dropped()
            self._running[id] = entry, generation
        return id

    def _end(self, id: str, state: RequestState, usage: Usage = Usage(), error: str = "") -> None:  # noqa: B008 - frozen
        at = self._now()
        with self._lock:
            self._finish_dropped()
            self._finish(id, state, at, usage, error)

    def _drop(self, id: str) -> None:
        """Called by the garbage collector for a reply without a reader."""
        self._dropped.append((id, self._now()))

    def _finish_dropped(self) -> None:
        while self._dropped:
            id, at = self._dropped.popleft()
            self._finish(id, "cancelled", at, Usage(), "nobody reads the reply")

    def _finish(self, id: str, state: RequestState, at: float, usage: Usage, error: str) -> None:
        running = self._running.pop(id, None)
        if running is not None:
            self._over[id] = evolve(running[0], state=state, ended=at, usage=usage, error=error)
        while len(self._over) > self._keep:
            del self._over[next(iter(self._over))]


class WatchedRuntime(Closeable):
    """A runtime with its requests registered. It passes on all other attributes of the runtime."""

    def __init__(self, registry: RequestRegistry, runtime: Runtime, origin: str) -> None:
        self._registry, self._runtime, self._origin = registry, runtime, origin
        if isinstance(runtime, TextCounter):  # attributes, since that is where a protocol is looked for
            self.count_texts: Callable[[Sequence[str]], Sequence[int]] = runtime.count_texts
        if is_async(runtime):
            self.stream: Callable[[ModelRequest], AsyncGeneration] = self._stream

    def submit(self, request: ModelRequest) -> Generation:
        """See ``Runtime.submit``."""
        inner, name = self._runtime.submit(request), self.describe().name
        return WatchedGeneration(self._registry, inner, request, name, self._origin)

    def count_tokens(self, request: ModelRequest) -> int:
        """See ``Runtime.count_tokens``."""
        return self._runtime.count_tokens(request)

    def describe(self) -> ModelInfo:
        """See ``Runtime.describe``."""
        return self._runtime.describe()

    def close(self) -> None:
        """See ``Runtime.close``."""
        self._runtime.close()

    def _stream(self, request: ModelRequest) -> AsyncGeneration:
        inner: AsyncGeneration = self._runtime.stream(request)  # type: ignore[attr-defined]  # asked for before
        return WatchedStream(self._registry, inner, request, self.describe().name, self._origin)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the runtime, such as a fake's ``requests``."""
        if name.startswith("_"):  # of an object that is not made yet
            raise AttributeError(name)
        return getattr(self._runtime, name)


Reply = TypeVar("Reply", Generation, AsyncGeneration)


class _WatchedReply(Generic[Reply]):
    """One reply; reports its end to the registry once."""

    def __init__(self, registry: RequestRegistry, inner: Reply, request: ModelRequest, name: str, origin: str) -> None:
        self._registry = registry
        self._inner: Reply = inner
        self._id = registry._begin(request, name, origin, inner)

    def cancel(self) -> None:
        """See ``Generation.cancel``."""
        self._inner.cancel()

    def _record_output(self, output: Output | Done) -> Output | Done:
        if isinstance(output, Done):
            ended: RequestState = "failed" if output.failure is not None else "completed"
            state = "cancelled" if output.finish_reason == "cancelled" else ended
            self._registry._end(self._id, state, output.usage, "" if output.failure is None else output.failure.message)
        return output

    def _record_error(self, error: BaseException) -> None:
        cancelled = not isinstance(error, Exception)  # of a task, or Ctrl-C
        self._registry._end(self._id, "cancelled" if cancelled else "failed", error=type(error).__name__)

    def __del__(self) -> None:
        registry = getattr(self, "_registry", None)
        if registry is not None and hasattr(self, "_id"):
            registry._drop(self._id)


class WatchedGeneration(_WatchedReply[Generation]):
    """See ``Generation``."""

    def __iter__(self) -> WatchedGeneration:
        return self

    def __next__(self) -> Output | Done:
        try:
            return self._record_output(next(self._inner))
        except BaseException as error:
            self._record_error(error)
            raise


class WatchedStream(_WatchedReply[AsyncGeneration]):
    """See ``AsyncGeneration``."""

    def __aiter__(self) -> WatchedStream:
        return self

    async def __anext__(self) -> Output | Done:
        try:
            return self._record_output(await self._inner.__anext__())
        except BaseException as error:
            self._record_error(error)
            raise

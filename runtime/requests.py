"""What is asked of models in this process: a registry of requests that run and ran lately, and can be cancelled by id.

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
from collections.abc import Callable
from itertools import count
from typing import Any, Literal

from attrs import evolve, frozen

from cognition import ConfigError, ModelRequest, Usage, UserMessage
from cognition.parsing import Output
from runtime.awaiting import AsyncGeneration, awaits
from runtime.protocol import Done, Generation, ModelInfo, Runtime, TextCounter

RequestState = Literal["running", "completed", "failed", "cancelled"]
"""A request runs until its reply has ended, and then stays what it was: nothing that is over changes its state."""

PREVIEW = 100
"""Characters of the newest message of the user that an entry has."""


@frozen
class RequestEntry:
    """One request, as it stood when it was asked about."""

    id: str
    origin: str
    """What the program called where it comes from."""
    model: str
    """The name that its runtime gives the model."""
    state: RequestState
    started: float
    """In seconds since the epoch, as ``ended``."""
    ended: float | None = None
    preview: str = ""
    """The beginning of the newest message of the user."""
    usage: Usage = Usage()
    error: str = ""
    """Why it failed."""


class RequestRegistry:
    """Every request of the runtimes that it watches. Usable from any thread.

    Args:
        keep: how many requests that are over it knows at most, the newest ones.
        max_age: seconds after their end for which it knows them.
        now: the time, in seconds since the epoch.

    Raises:
        ConfigError: one of these numbers is negative.
    """

    def __init__(self, *, keep: int = 1000, max_age: float = 3600.0, now: Callable[[], float] = time.time) -> None:
        if keep < 0 or not max_age >= 0:  # said so that NaN is refused too
            raise ConfigError(f"RequestRegistry: keep and max_age must be 0 or more, not {keep!r} and {max_age!r}")
        self._keep, self._max_age, self._now = keep, max_age, now
        self._lock = threading.Lock()
        self._running: dict[str, tuple[RequestEntry, Generation | AsyncGeneration]] = {}
        self._over: dict[str, RequestEntry] = {}
        """In the order in which they ended."""
        self._dropped: deque[tuple[str, float]] = deque()
        """Requests whose reply nobody reads any more, and since when. The garbage collector says so, which may come in
        the middle of anything: so it takes no lock."""
        self._numbers = count(1)

    def watch(self, runtime: Runtime, origin: str = "") -> WatchedRuntime:
        """The same runtime, whose requests are known here. To close one closes the other."""
        return WatchedRuntime(self, runtime, origin)

    def list(self, *, running: bool = False) -> tuple[RequestEntry, ...]:
        """The requests in the order in which they began; with ``running`` only those that are not over."""
        with self._lock:
            self._forget(self._max_age)
            found = [entry for entry, _ in self._running.values()]
            found += [] if running else self._over.values()
        return tuple(sorted(found, key=lambda entry: int(entry.id.split("-")[1])))

    def get(self, id: str) -> RequestEntry | None:
        """The request of this id; None where it is not known, or not any more."""
        with self._lock:
            self._forget(self._max_age)
            running = self._running.get(id)
            return self._over.get(id) if running is None else running[0]

    def cancel(self, id: str) -> bool:
        """Stop a request; whether there was one that ran. It runs until its reply says that it was cancelled."""
        with self._lock:
            self._bury()
            running = self._running.get(id)
        if running is None:
            return False
        running[1].cancel()
        return True

    def clean(self, max_age: float = 0.0) -> int:
        """Forget the requests that ended so many seconds ago or earlier; how many they were."""
        with self._lock:
            return self._forget(max_age)

    def _forget(self, max_age: float) -> int:
        self._bury()
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
            self._bury()
            self._running[id] = entry, generation
        return id

    def _end(self, id: str, state: RequestState, usage: Usage = Usage(), error: str = "") -> None:  # noqa: B008 - frozen
        at = self._now()
        with self._lock:
            self._bury()
            self._finish(id, state, at, usage, error)

    def _drop(self, id: str) -> None:
        """Nobody reads its reply any more. Called by the garbage collector."""
        self._dropped.append((id, self._now()))

    def _bury(self) -> None:
        while self._dropped:
            id, at = self._dropped.popleft()
            self._finish(id, "cancelled", at, Usage(), "nobody reads the reply")

    def _finish(self, id: str, state: RequestState, at: float, usage: Usage, error: str) -> None:
        running = self._running.pop(id, None)
        if running is not None:
            self._over[id] = evolve(running[0], state=state, ended=at, usage=usage, error=error)
        while len(self._over) > self._keep:
            del self._over[next(iter(self._over))]


class WatchedRuntime:
    """A runtime whose requests a registry knows. All that the runtime has beside is its own."""

    def __init__(self, registry: RequestRegistry, runtime: Runtime, origin: str) -> None:
        self._registry, self._runtime, self._origin = registry, runtime, origin
        if isinstance(runtime, TextCounter):  # attributes, since that is where a protocol is looked for
            self.count_texts = runtime.count_texts
        if awaits(runtime):
            self.stream = self._stream

    def submit(self, request: ModelRequest) -> Generation:
        """As ``Runtime.submit``."""
        return WatchedGeneration(self._registry, self._runtime.submit(request), request, self.describe(), self._origin)

    def count_tokens(self, request: ModelRequest) -> int:
        """As ``Runtime.count_tokens``."""
        return self._runtime.count_tokens(request)

    def describe(self) -> ModelInfo:
        """As ``Runtime.describe``."""
        return self._runtime.describe()

    def close(self) -> None:
        """As ``Runtime.close``."""
        self._runtime.close()

    def __enter__(self) -> WatchedRuntime:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _stream(self, request: ModelRequest) -> AsyncGeneration:
        inner: AsyncGeneration = self._runtime.stream(request)  # type: ignore[attr-defined]  # asked for before
        return WatchedStream(self._registry, inner, request, self.describe(), self._origin)

    def __getattr__(self, name: str) -> Any:
        """What this runtime has beside, such as a fake's ``requests``."""
        if name.startswith("_"):  # of an object that is not made yet
            raise AttributeError(name)
        return getattr(self._runtime, name)


class _Watching:
    """One reply whose end is told to the registry, once."""

    def __init__(
        self,
        registry: RequestRegistry,
        generation: Generation | AsyncGeneration,
        request: ModelRequest,
        info: ModelInfo,
        origin: str,
    ) -> None:
        self._registry = registry
        self._cancel = generation.cancel
        self._id = registry._begin(request, info.name, origin, generation)

    def cancel(self) -> None:
        """As ``Generation.cancel``."""
        self._cancel()

    def _saw(self, output: Output | Done) -> Output | Done:
        if isinstance(output, Done):
            ended: RequestState = "failed" if output.failure is not None else "completed"
            state = "cancelled" if output.finish_reason == "cancelled" else ended
            self._registry._end(self._id, state, output.usage, "" if output.failure is None else output.failure.message)
        return output

    def _broke(self, error: BaseException) -> None:
        cancelled = not isinstance(error, Exception)  # of a task, or Ctrl-C
        self._registry._end(self._id, "cancelled" if cancelled else "failed", error=type(error).__name__)

    def __del__(self) -> None:
        """Nobody reads it any more, so that nobody will hear of its end."""
        registry = getattr(self, "_registry", None)
        if registry is not None and hasattr(self, "_id"):
            registry._drop(self._id)


class WatchedGeneration(_Watching):
    """As ``Generation``."""

    def __init__(
        self, registry: RequestRegistry, inner: Generation, request: ModelRequest, info: ModelInfo, origin: str
    ) -> None:
        self._inner = inner
        super().__init__(registry, inner, request, info, origin)

    def __iter__(self) -> WatchedGeneration:
        return self

    def __next__(self) -> Output | Done:
        try:
            return self._saw(next(self._inner))
        except BaseException as error:
            self._broke(error)
            raise


class WatchedStream(_Watching):
    """As ``AsyncGeneration``."""

    def __init__(
        self, registry: RequestRegistry, inner: AsyncGeneration, request: ModelRequest, info: ModelInfo, origin: str
    ) -> None:
        self._inner = inner
        super().__init__(registry, inner, request, info, origin)

    def __aiter__(self) -> WatchedStream:
        return self

    async def __anext__(self) -> Output | Done:
        try:
            return self._saw(await self._inner.__anext__())
        except BaseException as error:
            self._broke(error)
            raise

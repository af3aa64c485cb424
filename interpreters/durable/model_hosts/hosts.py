"""Model hosts: servers that run models for the engine's processes, and each session's preference among them.

A host (a llama-server, a vLLM) serves a limited number of requests at a time, its slots. Over all processes, no more
calls than slots run on it at a time. A host also caches the prefixes of the conversations it has answered. So a session
uses the same host each time; while that is unreachable, the next in its order.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any

from attrs import frozen

from cognition import ConfigError, Failure
from cognition.base.checking import show
from cognition.steps.retry import classify
from interpreters.durable.definition import NAME
from runtime.protocol.model import Runtime

LEFT_ALONE = 10.0
"""Seconds a process avoids a host that it could not reach; then a single call tests it."""

AWAY = frozenset({502, 503, 504})
"""Statuses of a starting server, or of a proxy without its server."""


@frozen(eq=False)
class ModelHost:
    """A model host.

    Raises:
        ConfigError: the name is invalid, or it has no slot or no model.
    """

    name: str
    """Letters, digits, ``_``, ``.`` and ``-``; the same in every process."""
    model: Runtime | Callable[[], Runtime]
    """A runtime that calls it, or a function that makes one. Each host has the same model with the same context."""
    slots: int = 1
    """Maximum number of concurrent calls, over all processes; such as ``--parallel`` of a llama-server."""

    def __attrs_post_init__(self) -> None:
        given: Any = self  # whose fields may have any type
        name, model, slots = given.name, given.model, given.slots
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ConfigError(f"a host's name is letters, digits, '_', '.' and '-', 64 at most: not {show(name)}")
        if not isinstance(model, Runtime) and not callable(model):
            raise ConfigError(f"a host's model has to be a Runtime, or a function that gives one, not {show(model)}")
        if not isinstance(slots, int) or isinstance(slots, bool) or slots < 1:
            raise ConfigError(f"a host has a whole number of slots, at least one: not {show(slots)}")


def rank_hosts(session: str, names: Iterable[str]) -> list[str]:
    """Return the hosts in a session's order, by rendezvous hashing: adding or removing a host moves only its own
    sessions.

    Args:
        session: its name. A worker has the order of its parent.
        names: the hosts' names.
    """
    parent = session.partition("/")[0]
    return sorted(names, key=lambda name: blake2b(f"{name}\0{parent}".encode(), digest_size=8).digest(), reverse=True)


def preferred_host(session: str, names: Iterable[str]) -> str:
    """Return the first host of a session's order; there must be at least one host."""
    return rank_hosts(session, names)[0]


class HostState:
    """A host's state in this process. The methods are thread-safe.

    Args:
        host: the host.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, host: ModelHost, clock: Callable[[], float] = time.monotonic) -> None:
        self.host = host
        self._clock = clock
        self._loading = threading.Lock()
        self._loaded: Runtime | None = host.model if isinstance(host.model, Runtime) else None
        self._left_until = 0.0
        """The time until which an unreachable host is avoided; 0 for a reachable one."""

    @property
    def is_reached(self) -> bool:
        """Whether its model is loaded and the host has described it."""
        return self._loaded is not None and not getattr(self._loaded, "unreached", False)

    @property
    def is_away(self) -> bool:
        """Whether the host is avoided because it was unreachable."""
        return self._clock() < self._left_until

    def try_again(self) -> None:
        """Let only a single call test the host when it is no longer avoided."""
        if self._left_until:
            self._left_until = self._clock() + LEFT_ALONE

    def learn(self, failure: Failure | None) -> None:
        """Record how a call has ended."""
        gone = failure is not None and (
            classify(failure) == "offline" or failure.code == "cut" or failure.status in AWAY
        )
        self._left_until = self._clock() + LEFT_ALONE if gone else 0.0

    def model(self) -> Runtime:
        """Return the host's runtime. Create it at the first use, and again until the host has described its model."""
        own = self.host.model
        if self.is_reached or isinstance(own, Runtime):
            assert self._loaded is not None
            return self._loaded
        with self._loading:
            if not self.is_reached:
                before, self._loaded = self._loaded, own()
                if before is not None:
                    before.close()
            assert self._loaded is not None
            return self._loaded

    def load(self) -> None:
        """Create the runtime; a failure is reported by later calls."""
        with contextlib.suppress(Exception):
            self.model()
            if not self.is_reached:
                self._left_until = self._clock() + LEFT_ALONE

    def loaded_model(self) -> Runtime:
        """Return the runtime without asking the host again."""
        return self._loaded or self.model()

    def close(self) -> None:
        """Close the runtimes created here."""
        with self._loading:
            if not isinstance(self.host.model, Runtime) and self._loaded is not None:
                loaded, self._loaded = self._loaded, None
                loaded.close()


class HostStates:
    """All hosts, by name.

    Args:
        hosts: the same in each process.
        clock: seconds of a monotonic clock.

    Raises:
        ConfigError: two hosts have the same name, or an item is not a ``ModelHost``.
    """

    def __init__(self, hosts: Iterable[ModelHost], clock: Callable[[], float] = time.monotonic) -> None:
        given = tuple(hosts)
        for one in given:
            if not isinstance(one, ModelHost):
                raise ConfigError(f"hosts are ModelHost(name, model, slots), not {show(one)}")
        self.named: Mapping[str, HostState] = {one.name: HostState(one, clock) for one in given}
        if len(self.named) < len(given):
            raise ConfigError("two hosts have the same name")

    def order(self, session: str) -> list[HostState]:
        """Return the hosts in the session's order of preference."""
        return [self.named[name] for name in rank_hosts(session, self.named)]

    def load(self) -> None:
        """Create all runtimes concurrently, so that an unresponsive host delays no later call."""
        with ThreadPoolExecutor(max(1, len(self.named)), "cogstep-host") as threads:
            list(threads.map(HostState.load, self.named.values()))

    def close(self) -> None:
        """Close the runtimes created here."""
        for one in self.named.values():
            one.close()


def best_host(order: Iterable[HostState]) -> HostState:
    """Return the first host that is not known to be away, otherwise the first."""
    places = list(order)
    return next((one for one in places if not one.is_away), places[0])

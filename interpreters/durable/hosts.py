"""Model hosts: where models run that the engine's processes call, and which of them a session prefers.

A host (a llama-server, a vLLM) answers a number of requests at once, its slots; so no more calls than that are at work
with it at a time, over all processes. And it keeps the prefixes of the conversations that it has answered. A session
goes to the same host each time, so that its prefix is there; while that one can't be reached, to the next one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

from attrs import Attribute, field, frozen

from cognition import ConfigError, Failure
from cognition.checking import shown
from cognition.retry import classify
from interpreters.durable.definition import NAME
from runtime.protocol import Runtime

LEFT_ALONE = 10.0
"""Seconds for which a process leaves a host alone that it could not reach; then one call finds out if it is back."""

AWAY = frozenset({502, 503, 504})
"""Statuses of a server that starts, or of a proxy before one that is gone."""


@frozen(eq=False)
class ModelHost:
    """One host.

    Raises:
        ConfigError: the name is none, it has no slot, or no model.
    """

    name: str = field()
    """Letters, digits, ``_``, ``.`` and ``-``; the same in every process."""
    model: Runtime | Callable[[], Runtime] = field()
    """A runtime that calls it, or a function that makes one. The same model with the same context on each host."""
    slots: int = field(default=1)
    """Calls that are at work with it at a time, over all processes; such as ``--parallel`` of a llama-server."""

    @name.validator
    def _check_name(self, _attribute: Attribute[str], value: object) -> None:
        if not isinstance(value, str) or not NAME.fullmatch(value):
            raise ConfigError(f"a host's name is letters, digits, '_', '.' and '-', 64 at most: not {shown(value)}")

    @model.validator
    def _check_model(self, _attribute: Attribute[object], value: object) -> None:
        if not isinstance(value, Runtime) and not callable(value):
            raise ConfigError(f"a host's model has to be a Runtime, or a function that gives one, not {shown(value)}")

    @slots.validator
    def _check_slots(self, _attribute: Attribute[int], value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"a host has a whole number of slots, at least one: not {shown(value)}")


def ranked(session: str, names: Iterable[str]) -> list[str]:
    """The hosts in a session's order, by rendezvous hashing: where one comes or goes, only its own sessions move.

    Args:
        session: its name. A worker has the order of its parent.
        names: of the hosts.
    """
    parent = session.partition("/")[0]
    return sorted(names, key=lambda name: blake2b(f"{name}\0{parent}".encode(), digest_size=8).digest(), reverse=True)


def preferred(session: str, names: Iterable[str]) -> str:
    """The first host of a session's order, of at least one."""
    return ranked(session, names)[0]


class Place:
    """A host as this process knows it. All methods may be called by any thread.

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
        """When it may be called again that could not be reached; 0 for one that could."""

    @property
    def reached(self) -> bool:
        """Whether its model is loaded, and has been told by the host what it is."""
        return self._loaded is not None and not getattr(self._loaded, "unreached", False)

    @property
    def away(self) -> bool:
        """Whether it is left alone, since it could not be reached."""
        return self._clock() < self._left_until

    def try_again(self) -> None:
        """See that only one call finds out whether a host is back that has been left alone for long enough."""
        if self._left_until:
            self._left_until = self._clock() + LEFT_ALONE

    def learn(self, failure: Failure | None) -> None:
        """Note how a call has ended."""
        gone = failure is not None and (
            classify(failure) == "offline" or failure.code == "cut" or failure.status in AWAY
        )
        self._left_until = self._clock() + LEFT_ALONE if gone else 0.0

    def model(self) -> Runtime:
        """What calls it. The first use makes it, and so does each further one as long as the host could not be asked
        what it is.
        """
        own = self.host.model
        if self.reached or isinstance(own, Runtime):
            assert self._loaded is not None
            return self._loaded
        with self._loading:
            if not self.reached:
                before, self._loaded = self._loaded, own()
                if before is not None:
                    before.close()
            assert self._loaded is not None
            return self._loaded

    def load(self) -> None:
        """Make what calls it; where that fails, the calls say why."""
        with contextlib.suppress(Exception):
            self.model()
            if not self.reached:
                self._left_until = self._clock() + LEFT_ALONE

    def made(self) -> Runtime:
        """What calls it, or was to when it was made: the host is not asked again."""
        return self._loaded or self.model()

    def close(self) -> None:
        """Close what was made here."""
        with self._loading:
            if not isinstance(self.host.model, Runtime) and self._loaded is not None:
                loaded, self._loaded = self._loaded, None
                loaded.close()


class Places:
    """All hosts, by name.

    Args:
        hosts: in each process the same.
        clock: seconds of a monotonic clock.

    Raises:
        ConfigError: two have the same name, or one is no host.
    """

    def __init__(self, hosts: Iterable[ModelHost], clock: Callable[[], float] = time.monotonic) -> None:
        given = tuple(hosts)
        for one in given:
            if not isinstance(one, ModelHost):
                raise ConfigError(f"hosts are ModelHost(name, model, slots), not {shown(one)}")
        self.named: Mapping[str, Place] = {one.name: Place(one, clock) for one in given}
        if len(self.named) < len(given):
            raise ConfigError("two hosts have the same name")

    def order(self, session: str) -> list[Place]:
        """The hosts as a session prefers them."""
        return [self.named[name] for name in ranked(session, self.named)]

    def load(self) -> None:
        """Make what calls the hosts, all at once: one that does not answer holds nobody up later on."""
        threads = [threading.Thread(target=one.load, name="cogstep-host") for one in self.named.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Close what was made here."""
        for one in self.named.values():
            one.close()


def best(order: Iterable[Place]) -> Place:
    """The first host that can be reached as far as this process knows, else the first one."""
    places = list(order)
    return next((one for one in places if not one.away), places[0])

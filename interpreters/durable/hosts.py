"""Model hosts: where models run that the engine's processes call, and which of them a session prefers.

A host (a llama-server, a vLLM) answers a number of requests at once, its slots; so no more runs than that are at work
with it at a time, over all processes. And it keeps the prefixes of the conversations that it has answered. A session
goes to the same host each time, so that its prefix is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b

from attrs import Attribute, field, frozen

from cognition import ConfigError
from cognition.checking import shown
from interpreters.durable.definition import NAME
from runtime.protocol import Runtime


@frozen(eq=False)
class ModelHost:
    """One host.

    Raises:
        ConfigError: the name is none, or there is no slot.
    """

    name: str = field()
    """Letters, digits, ``_``, ``.`` and ``-``; the same in every process."""
    model: Runtime | Callable[[], Runtime]
    """A runtime that calls it, or a function that makes one."""
    slots: int = field(default=1)
    """Runs that are at work with it at a time, over all processes."""

    @name.validator
    def _check_name(self, _attribute: Attribute[str], value: str) -> None:
        if not NAME.fullmatch(value):
            raise ConfigError(f"a host's name is letters, digits, '_', '.' and '-', 64 at most: not {shown(value)}")

    @slots.validator
    def _check_slots(self, _attribute: Attribute[int], value: int) -> None:
        if value < 1:
            raise ConfigError(f"a host has at least one slot, not {value}")


def preferred(session: str, names: Iterable[str]) -> str:
    """The host of a session, by rendezvous hashing: where a host comes or goes, only its own sessions move.

    Args:
        session: its name. A worker prefers the host of its parent.
        names: of the hosts, at least one.
    """
    parent = session.partition("/")[0]
    return max(names, key=lambda name: blake2b(f"{name}\0{parent}".encode(), digest_size=8).digest())

"""A session's model on hosts: each call waits for a slot of the host that the session prefers, and runs there.

A call holds a slot, a run does not: tools, timers, workers and people need no slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cognition import ModelRequest, Usage
from interpreters.durable.definition import DurableAgent
from interpreters.durable.model_hosts._slots import Slots, Ticket, prepare
from interpreters.durable.model_hosts.hosts import HostState, HostStates, best_host
from interpreters.recording.store import SqlStore
from interpreters.tools.offloading import run_in_thread
from runtime.async_adapter import AsyncGeneration, start_async
from runtime.protocol.model import Done, Generation, ModelInfo, Runtime, Timings
from runtime.scheduling.owners import new_owner, owned_by, owner_or

if TYPE_CHECKING:
    from cognition.parsing import Output

NOT_BEGUN = Done("", "", (), (), "cancelled", Usage(), Timings())
"""The end of a call that was cancelled while it waited."""


ESTIMATED = "estimated_counts"
"""The feature of a model that can't count tokens, or can't at the moment."""


class HostedModel:
    """The hosts as a session's runtime; see ``runtime.Runtime``.

    Args:
        places: all hosts.
        slots: the queue for their slots.
        session: its name.
    """

    count_texts: Callable[[Sequence[str]], Sequence[int]]
    """Defined if the hosts' model counts texts."""

    def __init__(self, places: HostStates, slots: Slots, session: str) -> None:
        self._order = places.order(session)
        self._slots = slots
        self._owner = new_owner()
        if callable(getattr(self._counting_models()[0], "count_texts", None)):
            self.count_texts = self._count_texts

    def _counting_models(self) -> list[Runtime]:
        """Return the models for descriptions and counts. The best is first: that of a reached host that is not known to
        be away; the model of a host that is away only estimates.
        """
        known = [one for one in self._order if one.is_reached] or list(self._order)
        models = [one.loaded_model() for one in sorted(known, key=lambda one: one.is_away)]
        return sorted(models, key=lambda model: ESTIMATED in model.describe().features)

    def _count_texts(self, texts: Sequence[str]) -> Sequence[int]:
        counts: Sequence[int] = ()
        for model in self._counting_models():
            counts = getattr(model, "count_texts", lambda _: ())(texts)
            if len(counts) == len(texts):
                break
        return counts

    def submit(self, request: ModelRequest) -> Generation:
        """See ``Runtime.submit``."""
        return HostedGeneration(self._order, self._slots, owner_or(self._owner), request)

    def stream(self, request: ModelRequest) -> AsyncGeneration:
        return HostedStream(self._order, self._slots, owner_or(self._owner), request)

    def count_tokens(self, request: ModelRequest) -> int:
        """See ``Runtime.count_tokens``."""
        count = 0
        for model in self._counting_models():
            count = model.count_tokens(request)
            if ESTIMATED not in model.describe().features:
                break
        return count

    def describe(self) -> ModelInfo:
        """See ``Runtime.describe``."""
        return self._counting_models()[0].describe()

    def close(self) -> None:
        """Do nothing: the hosts serve all sessions."""


def make_host_adapter(places: HostStates, store: SqlStore) -> Callable[[DurableAgent, str], DurableAgent]:
    """Return a function that adapts a definition to a session: with these hosts as its model, or unchanged without
    hosts.

    Args:
        places: the hosts.
        store: shared by the processes that share the slots.

    Raises:
        StoreError: there are hosts, and the store's tables for them are of another version or can't be used.
    """
    if places.named:
        prepare(store)
    slots = Slots(store)

    def on(agent: DurableAgent, session: str) -> DurableAgent:
        return agent.on(HostedModel(places, slots, session)) if places.named else agent

    return on


class _Call:
    def __init__(self, order: Sequence[HostState], slots: Slots, owner: int, request: ModelRequest) -> None:
        self._order = order
        self._slots = slots
        self._owner = owner
        self._request = request
        self._place: HostState | None = None
        self._ticket: Ticket | None = None
        self._inner: AsyncGeneration | Generation | None = None
        self._cancelled = self._ended = False

    def cancel(self) -> None:
        """See ``Generation.cancel``."""
        self._cancelled = True
        inner, ticket = self._inner, self._ticket
        if inner is not None:
            inner.cancel()
        elif ticket is not None:
            ticket.answer(False)

    def _next_ticket(self) -> Ticket:
        self._free_ticket()
        self._place = best_host(self._order)
        ticket = self._ticket = self._slots.take(self._place.host.name, self._place.host.slots)
        if self._cancelled:
            ticket.answer(False)
        return ticket

    def _may_begin(self) -> bool:
        """Whether to call the host now that it has a slot: it is reachable, or all others are unreachable too."""
        assert self._place is not None
        if self._place.is_away and best_host(self._order) is not self._place:
            return False
        self._place.try_again()
        return True

    def _start(self, start: Callable[[], Any]) -> None:
        """Call the host for the session's owner."""
        with owned_by(self._owner):
            self._inner = inner = start()
        if self._cancelled:  # meanwhile
            inner.cancel()

    def _take(self, output: Output | Done) -> Output | Done:
        """Return a piece of the reply. After the last piece, record the host's state and free the slot."""
        if isinstance(output, Done):
            self._ended = True
            if output.finish_reason != "cancelled" and self._place is not None:
                self._place.learn(output.failure)
            self._free_ticket()
        return output

    def _free_ticket(self) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self._slots.free(ticket)

    def __del__(self) -> None:
        if getattr(self, "_ticket", None) is not None:
            self._free_ticket()


class HostedStream(_Call):
    _inner: AsyncGeneration | None

    def __aiter__(self) -> HostedStream:
        return self

    async def __anext__(self) -> Output | Done:
        if self._ended:
            raise StopAsyncIteration
        try:
            if self._inner is None and not await self._begin():
                return self._take(NOT_BEGUN)
            assert self._inner is not None
            return self._take(await anext(self._inner))
        except BaseException:  # whoever reads is gone, or the runtime is broken
            self._free_ticket()
            raise

    async def _begin(self) -> bool:
        while True:
            if not await asyncio.wrap_future(self._next_ticket().came):
                return False
            if self._may_begin():
                break
        place = self._place
        assert place is not None
        model = place.model() if place.is_reached else await run_in_thread(place.model)
        self._start(lambda: start_async(model, self._request))
        return True


class HostedGeneration(_Call):
    """See ``Generation``: for readers on threads."""

    _inner: Generation | None

    def __iter__(self) -> Iterator[Output | Done]:
        return self

    def __next__(self) -> Output | Done:
        if self._ended:
            raise StopIteration
        try:
            if self._inner is None and not self._begin():
                return self._take(NOT_BEGUN)
            assert self._inner is not None
            return self._take(next(self._inner))
        except BaseException:
            self._free_ticket()
            raise

    def _begin(self) -> bool:
        while True:
            if not self._next_ticket().came.result():
                return False
            if self._may_begin():
                break
        assert self._place is not None
        model = self._place.model()
        self._start(lambda: model.submit(self._request))
        return True

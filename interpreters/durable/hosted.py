"""A session's model on hosts: each call waits for a slot of the host that the session prefers, and is made there.

A slot is held for the length of a call, and not of a run: tools, timers, workers and people have none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from cognition import ModelRequest, Usage
from interpreters.durable.definition import DurableAgent
from interpreters.durable.hosts import Place, Places, best
from interpreters.durable.slots import Slots, Ticket, prepare
from interpreters.recording.store import SqlStore
from interpreters.threads.offloading import in_thread
from runtime.awaiting import AsyncGeneration, reading
from runtime.protocol import Done, Generation, ModelInfo, Runtime, Timings
from runtime.scheduling.owners import new_owner, owned_by, owner_or

if TYPE_CHECKING:
    from cognition.parsing import Output

NOT_BEGUN = Done("", "", (), (), "cancelled", Usage(), Timings())
"""The end of a call that was cancelled while it waited."""


ESTIMATED = "estimated_counts"
"""What a model is said to be that can't count, or not just now."""


class HostedModel:
    """The hosts as one session's runtime; see ``runtime.Runtime``.

    Args:
        places: all hosts.
        slots: what is waited for.
        session: its name.
    """

    count_texts: Callable[[Sequence[str]], Sequence[int]]
    """Where the hosts' model counts texts."""

    def __init__(self, places: Places, slots: Slots, session: str) -> None:
        self._order = places.order(session)
        self._slots = slots
        self._owner = new_owner()
        if callable(getattr(self._told_by(), "count_texts", None)):
            self.count_texts = self._count_texts

    def _told_by(self) -> Runtime:
        """What tells of the model: that of a host which has been asked, and can be as far as is known."""
        return self._counting()[0]

    def _counting(self) -> list[Runtime]:
        """Those that tell of the model, the best one first: one that is away only estimates."""
        known = [one for one in self._order if one.reached] or list(self._order)
        models = [one.made() for one in sorted(known, key=lambda one: one.away)]
        return sorted(models, key=lambda model: ESTIMATED in model.describe().features)

    def _count_texts(self, texts: Sequence[str]) -> Sequence[int]:
        counts: Sequence[int] = ()
        for model in self._counting():
            counts = getattr(model, "count_texts", _none)(texts)
            if len(counts) == len(texts):
                break
        return counts

    def submit(self, request: ModelRequest) -> Generation:
        """See ``Runtime.submit``."""
        return HostedGeneration(self._order, self._slots, owner_or(self._owner), request)

    def stream(self, request: ModelRequest) -> AsyncGeneration:
        """See ``AsyncRuntime.stream``."""
        return HostedStream(self._order, self._slots, owner_or(self._owner), request)

    def count_tokens(self, request: ModelRequest) -> int:
        """See ``Runtime.count_tokens``."""
        count = 0
        for model in self._counting():
            count = model.count_tokens(request)
            if ESTIMATED not in model.describe().features:
                break
        return count

    def describe(self) -> ModelInfo:
        """See ``Runtime.describe``."""
        return self._told_by().describe()

    def close(self) -> None:
        """Nothing: the hosts serve all sessions."""


def hosted(places: Places, store: SqlStore) -> Callable[[DurableAgent, str], DurableAgent]:
    """What gives a definition as it works at a session: on these hosts, or where there are none, as it is.

    Args:
        places: the hosts.
        store: where the processes meet that share their slots.

    Raises:
        StoreError: there are hosts, and the store's tables of them are another version's, or can't be used.
    """
    if places.named:
        prepare(store)
    slots = Slots(store)

    def on(agent: DurableAgent, session: str) -> DurableAgent:
        return agent.on(HostedModel(places, slots, session)) if places.named else agent

    return on


def _none(_texts: Sequence[str]) -> Sequence[int]:
    return ()


class _Call:
    """One call: first it waits, then it is made."""

    def __init__(self, order: Sequence[Place], slots: Slots, owner: int, request: ModelRequest) -> None:
        self._order = order
        self._slots = slots
        self._owner = owner
        self._request = request
        self._place: Place | None = None
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
        """Queue up at the best host."""
        self._leave()
        self._place = best(self._order)
        ticket = self._ticket = self._slots.take(self._place.host.name, self._place.host.slots)
        if self._cancelled:
            ticket.answer(False)
        return ticket

    def _may_begin(self) -> bool:
        """Whether the host can still be reached, now that there is a slot; or no other one can either."""
        assert self._place is not None
        if self._place.away and best(self._order) is not self._place:
            return False
        self._place.try_again()
        return True

    def _begun(self) -> None:
        if self._cancelled and self._inner is not None:  # meanwhile
            self._inner.cancel()

    def _taken(self, output: Output | Done) -> Output | Done:
        """A piece of the reply, on its way to the reader."""
        if isinstance(output, Done):
            self._ended = True
            if output.finish_reason != "cancelled" and self._place is not None:
                self._place.learn(output.failure)
            self._leave()
        return output

    def _leave(self) -> None:
        """Give the slot back."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self._slots.free(ticket)

    def __del__(self) -> None:
        if getattr(self, "_ticket", None) is not None:
            self._leave()


class HostedStream(_Call):
    """See ``AsyncGeneration``."""

    _inner: AsyncGeneration | None

    def __aiter__(self) -> HostedStream:
        return self

    async def __anext__(self) -> Output | Done:
        if self._ended:
            raise StopAsyncIteration
        try:
            if self._inner is None and not await self._begin():
                return self._taken(NOT_BEGUN)
            assert self._inner is not None
            return self._taken(await anext(self._inner))
        except BaseException:  # whoever reads is gone, or the runtime is broken
            self._leave()
            raise

    async def _begin(self) -> bool:
        while True:
            if not await asyncio.wrap_future(self._next_ticket().came):
                return False
            if self._may_begin():
                break
        place = self._place
        assert place is not None
        model = place.model() if place.reached else await in_thread(place.model)
        with owned_by(self._owner):
            self._inner = reading(model, self._request)
        self._begun()
        return True


class HostedGeneration(_Call):
    """See ``Generation``: for whoever waits on a thread."""

    _inner: Generation | None

    def __iter__(self) -> Iterator[Output | Done]:
        return self

    def __next__(self) -> Output | Done:
        if self._ended:
            raise StopIteration
        try:
            if self._inner is None and not self._begin():
                return self._taken(NOT_BEGUN)
            assert self._inner is not None
            return self._taken(next(self._inner))
        except BaseException:
            self._leave()
            raise

    def _begin(self) -> bool:
        while True:
            if not self._next_ticket().came.result():
                return False
            if self._may_begin():
                break
        assert self._place is not None
        with owned_by(self._owner):
            self._inner = self._place.model().submit(self._request)
        self._begun()
        return True

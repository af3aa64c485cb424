"""Room for replies without a token limit: a part is promised at the start, more when they need it.

If each reply were promised the whole context, one pool of cells would fit only one of many. So such a reply first gets
``AT_FIRST`` tokens. Whenever it has used its promise and unpromised cells exist, it gets ``MORE``.

If there are no such cells, the reply is held: it waits until another reply ends, and no other request begins. If all
running replies are held, the youngest is evicted. It returns its cells and waits again, with its reply so far as a part
of its prompt. So the oldest reply ends first, then the others in turn. A held reply has used its whole promise, so each
makes progress between two evictions.
"""

from __future__ import annotations

import sys

from attrs import evolve

from runtime.scheduling.plan import Drop, Schedule, idle, is_held

AT_FIRST = 512
"""Tokens promised to a reply without a limit when it begins."""
MORE = 256
"""Tokens of each further promise."""


def grow(schedule: Schedule) -> tuple[Schedule, tuple[Drop, ...]]:
    """Promise more to replies that have used their promise, oldest first; return the schedule, and sequences to drop
    for it.
    """
    drops: list[Drop] = []
    for number, run in sorted(schedule.running.items()):
        if not is_held(schedule, run):
            continue
        more = min(MORE, run.request.longest - run.request.most)
        victims = iter(idle(schedule))
        while schedule.cache.cells + schedule.promised_cells + more > schedule.limits.cells:
            victim = next(victims, None)
            if victim is None:
                more = min(more, schedule.limits.cells - schedule.cache.cells - schedule.promised_cells)
                break
            schedule = evolve(schedule, cache=schedule.cache.drop(victim))
            drops.append(Drop(victim))
        if more > 0:
            longer = evolve(run, request=evolve(run.request, most=run.request.most + more))
            schedule = evolve(schedule, running={**schedule.running, number: longer})
    return schedule, tuple(drops)


def is_any_reply_held(schedule: Schedule) -> bool:
    """Return whether a reply waits for room, so that no other request may begin."""
    return any(is_held(schedule, run) for run in schedule.running.values())


def youngest(schedule: Schedule) -> int | None:
    """Return the running request that was submitted last. An earlier eviction does not make a request young."""
    return max(schedule.running, default=None)


def evict(schedule: Schedule, request: int) -> Schedule:
    """Evict a running request: it waits again, with its reply so far as a part of its prompt.

    It gets its old place in the queue, before later requests. Its sequence may be dropped from now on; it later
    continues from the part that is left. It begins again when there is room for ``AT_FIRST`` more tokens, so that it
    does not immediately take back its cells.
    """
    run = schedule.running[request]
    known, asked = len(run.tokens), run.request
    again = evolve(
        asked,
        prompt=run.tokens,
        most=max(asked.most, min(asked.longest, known + AT_FIRST, schedule.limits.cells)),
        paid=max(asked.paid, schedule.charge_for(asked), schedule.cache.length(run.sequence)),
    )
    waiting = sorted((*schedule.waiting, again), key=lambda one: one.id)
    return evolve(schedule.end(request), waiting=tuple(waiting))


def remaining_tokens(schedule: Schedule) -> int:
    """Return how many tokens every running reply can still append within its promise; ignores replies with a limit."""
    running = schedule.running.values()
    growing = [run for run in running if run.request.longest > run.request.most]
    return min((run.request.most - schedule.cache.length(run.sequence) for run in growing), default=sys.maxsize)

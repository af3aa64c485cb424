"""Room for replies without a token limit: a part of it is promised when they begin, and the rest as they need it.

If each of many replies were promised all that the context has room for, one pool of cells would hold one of them. So
such a reply is promised ``AT_FIRST`` tokens, and ``MORE`` whenever it has used what it was promised and there are cells
that nobody else was. Where there are none, it is held: it waits until another has ended, and nothing else begins
meanwhile. Where all that run are held, the youngest is pushed out: it gives its cells back and waits again, with what
its reply has so far as a part of its prompt. So the oldest comes to its end, and the others do in their turn: who is
held has had all that it was promised, so that nobody is pushed out again before it has got further.
"""

from __future__ import annotations

import sys

from attrs import evolve

from runtime.scheduling.plan import Drop, Schedule, idle, is_held

AT_FIRST = 512
"""Tokens that a reply without a limit is promised when it begins."""
MORE = 256
"""Tokens that it is promised further on, each time."""


def grow(schedule: Schedule) -> tuple[Schedule, tuple[Drop, ...]]:
    """Promise more to replies that have used what they were promised, the oldest first, and what to drop for that."""
    drops: list[Drop] = []
    for number, run in sorted(schedule.running.items()):
        if not is_held(schedule, run):
            continue
        more = min(MORE, run.request.longest - run.request.most)
        victims = iter(idle(schedule))
        while schedule.cache.cells + schedule.promised + more > schedule.limits.cells:
            victim = next(victims, None)
            if victim is None:
                more = min(more, schedule.limits.cells - schedule.cache.cells - schedule.promised)
                break
            schedule = evolve(schedule, cache=schedule.cache.dropped(victim))
            drops.append(Drop(victim))
        if more > 0:
            longer = evolve(run, request=evolve(run.request, most=run.request.most + more))
            schedule = evolve(schedule, running={**schedule.running, number: longer})
    return schedule, tuple(drops)


def is_anybody_held(schedule: Schedule) -> bool:
    """Whether a reply waits for room, so that nothing else may begin."""
    return any(is_held(schedule, run) for run in schedule.running.values())


def youngest(schedule: Schedule) -> int | None:
    """The running request that came last, whenever it began: who was pushed out before doesn't become young by that."""
    return max(schedule.running, default=None)


def push_out(schedule: Schedule, request: int) -> Schedule:
    """Have a running request wait again, with what its reply has so far as a part of its prompt.

    It gets the place in the queue that it had: before what came later. What its sequence holds may be dropped from now
    on; what is left of it by then is where it goes on from. It begins again where there is room for ``AT_FIRST`` tokens
    more, so that it doesn't take back at once what it gave.
    """
    run = schedule.running[request]
    known, asked = len(run.tokens), run.request
    again = evolve(
        asked,
        prompt=run.tokens,
        most=max(asked.most, min(asked.longest, known + AT_FIRST, schedule.limits.cells)),
        paid=max(asked.paid, schedule.charged(asked), schedule.cache.length(run.sequence)),
    )
    waiting = sorted((*schedule.waiting, again), key=lambda one: one.id)
    return evolve(schedule.ended(request), waiting=tuple(waiting))


def left(schedule: Schedule) -> int:
    """How many tokens each running reply can go on by with what was promised; those with a limit end by themselves."""
    running = schedule.running.values()
    growing = [run for run in running if run.request.longest > run.request.most]
    return min((run.request.most - schedule.cache.length(run.sequence) for run in growing), default=sys.maxsize)

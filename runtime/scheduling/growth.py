"""Room for replies without a token limit: a part of it is promised when they begin, and the rest as they need it.

If each of many replies were promised all that the context has room for, one pool of cells would hold one of them. So
such a reply is promised ``AT_FIRST`` tokens, and ``MORE`` whenever it has used what it was promised and there are cells
that nobody else was. Where there are none, it is held: it waits until another has ended, and nothing else begins
meanwhile. Where all that run are held, the youngest has to end, so that the others come to theirs.
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
    for number, run in schedule.running.items():
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
    """The request that has to end where all that run are held, so that the others can go on."""
    return next(reversed([*schedule.running]), None)


def left(schedule: Schedule) -> int:
    """How many tokens each running reply can go on by with what was promised; those with a limit end by themselves."""
    running = schedule.running.values()
    growing = [run for run in running if run.request.longest > run.request.most]
    return min((run.request.most - schedule.cache.length(run.sequence) for run in growing), default=sys.maxsize)

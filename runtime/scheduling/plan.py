"""The plan: which requests begin, in which sequence and on what prefix; what is evicted; what is evaluated next.

    Schedule ─ admit ─▶ Schedule, start ─ ... ─ compose ─▶ batch ─ evaluated ─▶ Schedule ─ sampled ─▶ Schedule ─ ...

``Schedule`` is a value. Whoever carries the plan out makes the changes in the real cache, evaluates the batch, samples
a token for each piece that is a sequence's last, and tells the schedule. What holds for every plan, and why, is in
``docs/scheduler.md``; ``tests/runtime/scheduling`` checks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import Attribute, evolve, field, frozen

from runtime.scheduling.cache import Cache
from runtime.scheduling.prefix import common_prefix
from runtime.scheduling.tokens import Tokens


@frozen
class Limits:
    """What there is. ``0 < sequences <= chunk <= batch`` and ``sequences <= cells``."""

    cells: int
    """Tokens that the cache holds, those that sequences share counted once."""
    sequences: int = field()
    """How many the cache keeps apart, those in use and those kept for later."""
    batch: int
    """Tokens evaluated at once, at the most."""
    chunk: int
    """Tokens of prompts in a batch in which replies go on: a reply never waits longer for its next token than these,
    and the other replies', take."""
    can_cut: bool = True
    """Whether a part of a sequence can be kept or copied; not so with recurrent and hybrid models."""
    worth_waiting: int = 32
    """Tokens that a request can save by waiting for another one's prompt, from which on it does wait."""

    @sequences.validator
    def _fit(self, _attribute: Attribute[int], sequences: int) -> None:
        if not 0 < sequences <= self.chunk <= self.batch or sequences > self.cells:
            raise ValueError(f"limits that leave no room for every sequence: {self}")


@frozen
class Request:
    """What the plan has to know of a request."""

    id: int
    prompt: Tokens
    """One token at least."""
    most: int
    """Cells that it needs at the most: prompt and longest reply, without the reply's last token."""


@frozen
class Running:
    """A request that has a sequence."""

    request: Request
    sequence: int
    tokens: Tokens
    """The prompt and the reply so far, the part that is not evaluated yet included."""


@frozen
class Drop:
    """Empty a sequence."""

    sequence: int


@frozen
class Cut:
    """Keep the first ``length`` tokens of a sequence."""

    sequence: int
    length: int


@frozen
class Copy:
    """Put the first ``length`` tokens of a sequence into another one, which is empty."""

    source: int
    target: int
    length: int


Change = Drop | Cut | Copy


@frozen
class Start:
    """A request begins in a sequence which, after these changes, holds the first ``reused`` tokens of its prompt."""

    request: int
    sequence: int
    reused: int
    changes: tuple[Change, ...]
    """In order."""


@frozen
class Piece:
    """Tokens to append to a sequence."""

    request: int
    sequence: int
    start: int
    """The position of the first one."""
    tokens: tuple[int, ...]
    last: bool
    """Whether they are all that is known of the sequence, so that a token has to be sampled."""


@frozen
class Schedule:
    """Everything that the plan follows from."""

    limits: Limits
    cache: Cache = field(factory=Cache)
    running: Mapping[int, Running] = field(factory=dict)
    """By request, in the order in which they began."""
    waiting: tuple[Request, ...] = ()
    """In the order in which they came."""

    def submitted(self, request: Request) -> Schedule:
        """A request came.

        Raises:
            ValueError: it can never be served: it has no token, or needs more cells than there are.
        """
        if not 0 < len(request.prompt) <= request.most <= self.limits.cells:
            raise ValueError(
                f"a prompt of {len(request.prompt)} tokens that takes {request.most} of {self.limits.cells} cells"
            )
        return evolve(self, waiting=(*self.waiting, request))

    def ended(self, request: int) -> Schedule:
        """A request is over, for whatever reason. What its sequence holds stays, for others to reuse."""
        if request in self.running:
            return evolve(self, running={id: run for id, run in self.running.items() if id != request})
        return evolve(self, waiting=tuple(waiting for waiting in self.waiting if waiting.id != request))

    def sampled(self, tokens: Mapping[int, int]) -> Schedule:
        """The next tokens of these requests are known, by request."""
        running = dict(self.running)
        for request, token in tokens.items():
            run = running[request]
            running[request] = Running(run.request, run.sequence, run.tokens.extended((token,)))
        return Schedule(self.limits, self.cache, running, self.waiting)

    def evaluated(self, batch: tuple[Piece, ...]) -> Schedule:
        """The cache holds what was in the batch."""
        cache = self.cache.extended({piece.sequence: piece.tokens for piece in batch})
        return Schedule(self.limits, cache, self.running, self.waiting)

    def lost(self, sequence: int) -> Schedule:
        """A sequence that is not in use turned out to be empty."""
        assert all(run.sequence != sequence for run in self.running.values())
        return evolve(self, cache=self.cache.dropped(sequence))

    @property
    def promised(self) -> int:
        """Cells that running requests may still take."""
        return sum(run.request.most - self.cache.length(run.sequence) for run in self.running.values())

    def behind(self, run: Running) -> int:
        """How many tokens of a running request are not evaluated yet."""
        return len(run.tokens) - self.cache.length(run.sequence)


def admit(schedule: Schedule) -> tuple[Schedule, Start] | None:
    """Let the next request begin, with the schedule after; None when none can. To be asked again until then.

    Requests begin in the order in which they came. One whose prompt begins like one that is being evaluated waits until
    it can share that, and those behind it don't wait for it. One that finds no room holds back all behind it, so that
    it is not overtaken for ever.
    """
    if len(schedule.running) == schedule.limits.sequences:
        return None
    for request in schedule.waiting:
        source, shared = _best_source(schedule, request.prompt)
        if _in_the_making(schedule, request.prompt) - shared < schedule.limits.worth_waiting:
            return _place(schedule, request, source, shared)
    return None


def compose(schedule: Schedule) -> tuple[Piece, ...]:
    """The next batch; empty when nothing runs.

    Each reply that goes on has its one token in it. What is left, at most a chunk when there are any, goes to prompts:
    in equal parts, and what a short one leaves to the longer ones, so that none waits behind another.
    """
    behind = {id: schedule.behind(run) for id, run in schedule.running.items()}
    replies = [id for id, left in behind.items() if left == 1]
    prompts = sorted((id for id, left in behind.items() if left > 1), key=lambda id: behind[id])
    room = schedule.limits.batch - len(replies)
    if replies:
        room = min(room, schedule.limits.chunk)
    pieces = [_piece(schedule, id, 1) for id in replies]
    for others in range(len(prompts) - 1, -1, -1):
        id = prompts[len(prompts) - 1 - others]
        size = min(behind[id], room // (others + 1))
        room -= size
        pieces.append(_piece(schedule, id, size))
    return tuple(piece for piece in pieces if piece.tokens)


def _piece(schedule: Schedule, id: int, size: int) -> Piece:
    run = schedule.running[id]
    start = schedule.cache.length(run.sequence)
    tokens = tuple(run.tokens[start : start + size])
    return Piece(id, run.sequence, start, tokens, last=start + size == len(run.tokens))


def _idle(schedule: Schedule) -> list[int]:
    """Sequences that are kept and not in use, the one that was not used for the longest time first."""
    busy = {run.sequence for run in schedule.running.values()}
    held = schedule.cache.held
    return sorted((sequence for sequence in held if sequence not in busy), key=lambda one: (held[one].used, one))


def _free(schedule: Schedule) -> Iterator[int]:
    """Sequences that hold nothing and are not in use, from the lowest."""
    taken = {run.sequence for run in schedule.running.values()} | schedule.cache.held.keys()
    return (sequence for sequence in range(schedule.limits.sequences) if sequence not in taken)


def _best_source(schedule: Schedule, prompt: Tokens) -> tuple[int | None, int]:
    """The sequence that holds the longest beginning of a prompt, and how long that is; (None, 0) where none does.

    The prompt's last token is never taken from the cache: what the model says after it has to be computed. Of several,
    one that nobody uses, since it may be taken over, and the last used of those.
    """
    best: tuple[int, bool, int] = (0, False, 0)
    found: int | None = None
    busy = {run.sequence for run in schedule.running.values()}
    for sequence, held in schedule.cache.held.items():
        shared = min(common_prefix(held.tokens, prompt), len(prompt) - 1)
        if shared == 0 or (shared < len(held.tokens) and not schedule.limits.can_cut):
            continue
        rank = (shared, sequence not in busy, held.used)
        if rank > best:
            best, found = rank, sequence
    return found, best[0]


def _in_the_making(schedule: Schedule, prompt: Tokens) -> int:
    """How much of a prompt will be in the cache when the prompts that are being evaluated are."""
    if not schedule.limits.can_cut:  # the moment at which a sequence holds just the shared part may never come
        return 0
    prompts = [run.request.prompt for run in schedule.running.values() if schedule.behind(run) > 1]
    return min(max((common_prefix(other, prompt) for other in prompts), default=0), len(prompt) - 1)


def _place(schedule: Schedule, request: Request, source: int | None, shared: int) -> tuple[Schedule, Start] | None:
    """Give a request a sequence; None where there is no room for it beside what runs.

    It goes on in the source where it continues all that it holds and nobody uses it; else in a sequence of its own,
    which costs nothing for what both share. To make room, idle sequences are dropped in the order in which they were
    last used; when it is the source's turn, it loses what it does not share and is taken over.
    """
    cache, changes, idle = schedule.cache, list[Change](), _idle(schedule)
    own = source in idle and cache.length(source) == shared if source is not None else False
    free = list(_free(schedule))
    needed = schedule.promised + request.most - shared
    victims = (victim for victim in idle if not (own and victim == source))
    while not ((own or free) and cache.cells + needed <= schedule.limits.cells):
        victim = next(victims, None)
        if victim is None:
            return None
        if victim == source:
            cache, own = cache.cut(victim, shared), True
            changes.append(Cut(victim, shared))
        else:
            cache = cache.dropped(victim)
            free.append(victim)
            changes.append(Drop(victim))
    if own and source is not None:
        sequence = source
    else:
        sequence = min(free)
        if source is not None:
            cache = cache.copied(source, sequence, shared)
            changes.append(Copy(source, sequence, shared))
    begun = Running(request, sequence, request.prompt)
    waiting = tuple(other for other in schedule.waiting if other.id != request.id)
    after = evolve(schedule, cache=cache, running={**schedule.running, request.id: begun}, waiting=waiting)
    return after, Start(request.id, sequence, shared, tuple(changes))

"""The plan: the next requests with their sequence and cached prefix, the evictions, the next batch.

    Schedule ─ admit ─▶ Schedule, start ─ ... ─ compose ─▶ batch ─ evaluated ─▶ Schedule ─ sampled ─▶ Schedule ─ ...
                                                                    └ keep: snapshots     └ take_back: guesses

``Schedule`` is a value. The engine applies the changes to the real cache, evaluates the batch, samples a token for each
piece that is the last of its sequence, and updates the schedule. ``docs/concepts/scheduler.md`` explains the invariants
of every plan; ``tests/runtime/scheduling`` checks them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from attrs import Attribute, evolve, field, frozen

from runtime.scheduling._fair_queue import FairShares
from runtime.scheduling.cache import Cache
from runtime.scheduling.tokens import Tokens, common_prefix

NO_GUESSES: Mapping[int, Sequence[int]] = MappingProxyType({})


@frozen
class Limits:
    """Capacities and tuning. ``0 < sequences <= batch``, ``sequences <= cells`` and ``0 < chunk <= batch``."""

    cells: int
    """Tokens in the cache; cells that sequences share count once."""
    sequences: int = field()
    """Maximum sequences in the cache, active and retained."""
    batch: int
    """Maximum tokens of a batch."""
    chunk: int
    """Prompt tokens between two tokens of running replies; these tokens are delayed by as much."""
    can_cut: bool = True
    """Whether a part of a sequence can be kept or copied; False for recurrent and hybrid models. Those get snapshots:
    copies of a whole sequence at a boundary of its prompt, if a sequence is free.
    """
    copies_share: bool = True
    """Whether a copy shares the cells of its source and takes none."""
    guesses: int = 0
    """Maximum guessed tokens of all replies in a batch; 0 if ``can_cut`` is False, since wrong guesses must be cut off.
    """
    tile: int = 64
    """Best number of tokens of one prompt per batch: native code works in tiles of this size."""
    whole_tiles: bool = False
    """Whether a partial tile costs as much as a whole tile. If not, the end of a prompt is evaluated together with a
    tile.
    """
    worth_waiting: int = 32
    """A request waits for another's prompt if that saves at least this many tokens."""
    overtaken: int = 8
    """Maximum others that may begin while a request waits for a prompt that it can share; then it stops waiting."""
    looked_at: int = 64
    """Maximum requests to check for one that need not wait."""
    charged: int = 256
    """Reply tokens charged to the owner when a request begins, at most its possible length; the rest is charged as
    generated. Otherwise an owner with many short-running replies would take every free sequence, and prefixes that
    others share would be dropped.
    """

    @sequences.validator
    def _fit(self, _attribute: Attribute[int], sequences: int) -> None:
        if not 0 < sequences <= min(self.batch, self.cells) or not 0 < self.chunk <= self.batch or self.tile < 1:
            raise ValueError(f"limits that leave no room for every sequence: {self}")


@frozen
class Request:
    """The plan's data of a request."""

    id: int
    prompt: Tokens
    """At least one token; of an evicted request (``growth``), including its reply so far."""
    most: int
    """Maximum cells: prompt and longest reply, without the reply's last token."""
    boundaries: tuple[int, ...] = ()
    """Prefix lengths of the prompt that other prompts are likely to share, ascending, for snapshots. Each is greater
    than 0 and less than the prompt's length.
    """
    owner: int = 0
    """Its owner: owners take turns (``shares``)."""
    longest: int = 0
    """If greater than ``most``: the limit of ``most`` as the reply grows (``growth``)."""
    paid: int = 0
    """Tokens at its start that were charged before its eviction: they are not charged twice."""


@frozen
class RunningRequest:
    """A request that has a sequence."""

    request: Request
    sequence: int
    tokens: Tokens
    """The prompt and the reply so far, including tokens that are not evaluated."""
    served: int
    """When some of its prompt was last in a batch, on the cache's clock."""
    reused: int = 0
    """Prompt tokens that were cached when it began."""


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
    """Copy the first ``length`` tokens of a sequence into another, empty sequence."""

    source: int
    target: int
    length: int


Change = Drop | Cut | Copy


@frozen
class Start:
    """A request begins in a sequence. After these changes, it contains the first ``reused`` tokens of its prompt."""

    request: int
    sequence: int
    reused: int
    changes: tuple[Change, ...]
    """In order."""


@frozen
class BatchPiece:
    """Tokens to append to a sequence."""

    request: int
    sequence: int
    start: int
    tokens: tuple[int, ...]
    last: bool
    """Whether they are all known tokens of the sequence, so that the next must be sampled."""
    guesses: int = 0
    """How many tokens at the end are guesses. The logits after each guess are needed too, and count while the guesses
    are correct.
    """


@frozen
class Schedule:
    """The complete input of the plan."""

    limits: Limits
    cache: Cache = field(factory=Cache)
    running: Mapping[int, RunningRequest] = field(factory=dict)
    """By request, in the order of their start."""
    waiting: tuple[Request, ...] = ()
    """In the order of their arrival."""
    prompts_next: bool = True
    """Whether the next batch is for prompts if there are replies too."""
    shares: FairShares = field(factory=FairShares)
    """The work done for each owner while any request waited. If none waits, all owners are level."""
    passed: Mapping[int, int] = field(factory=dict)
    """By request: how many others began while it waited for a prompt that it can share."""

    def submit(self, request: Request) -> Schedule:
        """Add a request.

        Raises:
            ValueError: it can never be served: it has no token, or needs more cells than there are.
        """
        if not 0 < len(request.prompt) <= request.most <= self.limits.cells:
            raise ValueError(
                f"a prompt of {len(request.prompt)} tokens that takes {request.most} of {self.limits.cells} cells"
            )
        return evolve(self, waiting=(*self.waiting, request))

    def end(self, request: int) -> Schedule:
        """End a request. The content of its sequence stays for reuse."""
        run = self.running.get(request)
        if run is None:
            return self.remove((request,))
        return evolve(self, running={id: other for id, other in self.running.items() if id != request})

    def remove(self, requests: Collection[int]) -> Schedule:
        """Remove those of these requests that wait; many take no longer than one."""
        requests = set(requests)
        waiting = tuple(one for one in self.waiting if one.id not in requests)
        passed = {id: times for id, times in self.passed.items() if id not in requests} if self.passed else self.passed
        return evolve(self, waiting=waiting, passed=passed, shares=self.shares if waiting else FairShares())

    def record_tokens(self, tokens: Mapping[int, Sequence[int]]) -> Schedule:
        """Record the next tokens of these requests: one each, or more after correct guesses."""
        running = dict(self.running)
        for request, more in tokens.items():
            run = running[request]
            longer = run.tokens.extend(more)
            running[request] = RunningRequest(run.request, run.sequence, longer, run.served, run.reused)
        return Schedule(self.limits, self.cache, running, self.waiting, self.prompts_next, self.shares, self.passed)

    def record_batch(self, batch: tuple[BatchPiece, ...]) -> Schedule:
        """Add the batch to the cache."""
        cache, running = self.cache.extend({piece.sequence: piece.tokens for piece in batch}), self.running
        prompts = [piece.request for piece in batch if not piece.last or len(piece.tokens) - piece.guesses > 1]
        if prompts:
            running = {**running, **{id: evolve(running[id], served=cache.clock) for id in prompts}}
        shares = self.shares.charge(self._beyond(batch)) if self.waiting else self.shares
        return Schedule(self.limits, cache, running, self.waiting, not prompts, shares, self.passed)

    def charge_for(self, request: Request) -> int:
        """Return how many of a request's tokens are charged when it begins, cached tokens included."""
        return min(max(request.most, request.longest), len(request.prompt) + self.limits.charged)

    def _beyond(self, batch: tuple[BatchPiece, ...]) -> Counter[int]:
        """Count the tokens in a batch, per owner, that were not charged when their requests began."""
        works = Counter[int]()
        for piece in batch:
            request = self.running[piece.request].request
            more = piece.start + len(piece.tokens) - max(piece.start, self.charge_for(request))
            if more > 0:
                works[request.owner] += more
        return works

    def record_loss(self, sequence: int) -> Schedule:
        """Record that a sequence not in use turned out to be empty."""
        assert all(run.sequence != sequence for run in self.running.values())
        return evolve(self, cache=self.cache.drop(sequence))

    @property
    def promised_cells(self) -> int:
        """Cells that running requests may still take."""
        return sum(run.request.most - self.cache.length(run.sequence) for run in self.running.values())

    def behind(self, run: RunningRequest) -> int:
        """Return how many tokens of a running request are not evaluated."""
        return len(run.tokens) - self.cache.length(run.sequence)


def admit(schedule: Schedule) -> tuple[Schedule, Start] | None:
    """Start the next request; return the schedule after it, or None if none can begin. Call it until it returns None.

    - Owners take turns: the next is the oldest request of the owner with the least work done (``shares``).
    - A request whose prompt shares a prefix with a prompt under evaluation waits until it can share that. Later
      requests need not wait for it, but only ``Limits.overtaken`` of them may begin first, and it keeps its turn.
    - A request without room holds back all later ones, so that they do not overtake it forever.
    """
    if len(schedule.running) == schedule.limits.sequences or not schedule.waiting:
        return None
    limits, skipped = schedule.limits, list[int]()
    in_turn = schedule.shares.order(schedule.waiting)[: limits.looked_at]
    for request in in_turn:
        source, shared = longest_held(schedule, request.prompt)
        waits = _prefix_in_progress(schedule, request.prompt) - shared >= limits.worth_waiting
        if not waits or schedule.passed.get(request.id, 0) >= limits.overtaken:
            placed = _place(schedule, request, source, shared, turn=in_turn[0].owner)
            if placed is None or not skipped:
                return placed
            after, start = placed
            return evolve(after, passed={**after.passed, **{id: after.passed.get(id, 0) + 1 for id in skipped}}), start
        skipped.append(request.id)
    return None


def compose(schedule: Schedule, guesses: Mapping[int, Sequence[int]] = NO_GUESSES) -> tuple[BatchPiece, ...]:
    """Return the next batch; empty when nothing runs.

    Batches of replies and of prompts alternate, since native code is best at one token each of many sequences, or at
    many tokens of one.

    - A batch of replies has the next token of each, and as many guesses as fit into its promised cells and the batch.
    - A batch of prompts has tiles, longest waiting prompts first. If there are replies too, its limit is one chunk. It
      may exceed it by half a tile to finish a whole prompt, unless ``whole_tiles``.
    - If sequences cannot be cut, a prompt stops at its next boundary.

    ``guesses`` are the likely next tokens of replies, by request.
    """
    behind = {id: schedule.behind(run) for id, run in schedule.running.items()}
    replies = [id for id, left in behind.items() if left == 1 and not is_held(schedule, schedule.running[id])]
    prompts = {id: left for id, left in behind.items() if left > 1}
    if replies and not (prompts and schedule.prompts_next):
        return _replies(schedule, replies, guesses)
    return _prompts(schedule, prompts, schedule.limits.chunk if replies else schedule.limits.batch)


def is_held(schedule: Schedule, run: RunningRequest) -> bool:
    """Return whether a reply without a limit has used its promise."""
    return run.request.longest > run.request.most <= schedule.cache.length(run.sequence)


def _replies(schedule: Schedule, replies: list[int], guesses: Mapping[int, Sequence[int]]) -> tuple[BatchPiece, ...]:
    room = min(schedule.limits.guesses, schedule.limits.batch - len(replies))
    pieces: list[BatchPiece] = []
    for id in replies:
        piece = _piece(schedule, id, 1)
        hoped = guesses.get(id)
        if hoped and room > 0:
            more = tuple(hoped[: min(room, schedule.running[id].request.most - piece.start - 1)])
            piece = BatchPiece(id, piece.sequence, piece.start, piece.tokens + more, last=True, guesses=len(more))
            room -= piece.guesses
        pieces.append(piece)
    return tuple(sorted(pieces, key=lambda piece: piece.sequence))  # neighbours are evaluated together


def _prompts(schedule: Schedule, prompts: Mapping[int, int], room: int) -> tuple[BatchPiece, ...]:
    """Take tiles in turn. A last tile may be up to half longer; only the end of a prompt makes a shorter tile."""
    tile = min(schedule.limits.tile, room)
    half = 0 if schedule.limits.whole_tiles else tile // 2
    over = min(half, schedule.limits.batch - room)
    sizes = dict.fromkeys(sorted(prompts, key=lambda id: schedule.running[id].served), 0)
    turn = deque(sizes)
    while turn:
        id = turn.popleft()
        rest = prompts[id] - sizes[id]
        size = rest if rest <= tile or (half and 2 * rest < 3 * tile) else tile
        most = room + over if size == prompts[id] else room  # all that is left of it, in one piece
        if size > most:
            size, most = min(size, tile), room
        if size <= most:
            sizes[id] += size
            room -= size
            if size < rest:
                turn.append(id)
    pieces = [_piece(schedule, id, size) for id, size in sizes.items() if size]
    return tuple(sorted(pieces, key=lambda piece: (len(piece.tokens) % tile > 0, piece.sequence)))


def _piece(schedule: Schedule, id: int, size: int) -> BatchPiece:
    run = schedule.running[id]
    start = schedule.cache.length(run.sequence)
    if not schedule.limits.can_cut:
        size = min(size, next((end for end in run.request.boundaries if end > start), start + size) - start)
    tokens = tuple(run.tokens[start : start + size])
    return BatchPiece(id, run.sequence, start, tokens, last=start + size == len(run.tokens))


def take_back(schedule: Schedule) -> tuple[Cut, ...]:
    """Return the cuts that remove wrong guesses of running replies from the cache."""
    over = [run for run in schedule.running.values() if schedule.behind(run) < 1]
    return tuple(Cut(run.sequence, len(run.tokens) - 1) for run in over)


def cut(schedule: Schedule, change: Cut) -> Schedule:
    """Apply a change of ``take_back``."""
    return evolve(schedule, cache=schedule.cache.cut(change.sequence, change.length))


def keep(schedule: Schedule) -> tuple[Schedule, tuple[Change, ...]] | None:
    """Take the next snapshot; return the schedule after it, or None. Call it after each batch until it returns None.

    It copies a sequence at a boundary of its prompt, unless the same snapshot exists. To make room, the least recently
    used sequences are dropped, unless they were used in this batch.
    """
    if schedule.limits.can_cut:
        return None
    cache = schedule.cache
    victims = [one for one in idle(schedule) if cache.held[one].used < cache.clock]
    for run in schedule.running.values():
        length = cache.length(run.sequence)
        if length not in run.request.boundaries or _has_snapshot(cache, run.tokens, length):
            continue
        shares = schedule.limits.copies_share
        room = _room(schedule, 0 if shares else length, victims)
        if room is not None:  # else there may be some for that of another
            kept, target, drops = room
            kept = kept.copy(run.sequence, target, length, snapshot=True, shares=shares)
            return evolve(schedule, cache=kept), (*drops, Copy(run.sequence, target, length))
    return None


def _has_snapshot(cache: Cache, tokens: Tokens, length: int) -> bool:
    snapshots = (held.tokens for held in cache.held.values() if held.snapshot and len(held.tokens) == length)
    return any(one[:] == tokens[:length] for one in snapshots)


def adopt(schedule: Schedule, tokens: Tokens) -> tuple[Schedule, int, tuple[Drop, ...]] | None:
    """Make room for a sequence from elsewhere; return the schedule with it, its number, and the drops to do first.

    Returns None if running requests leave no room. The sequence counts as just used.
    """
    room = _room(schedule, len(tokens), idle(schedule))
    if room is None:
        return None
    cache, target, drops = room
    return evolve(schedule, cache=cache.adopt(target, tokens)), target, drops


def _room(schedule: Schedule, cells: int, victims: Iterable[int]) -> tuple[Cache, int, tuple[Drop, ...]] | None:
    """Find a free sequence and ``cells`` unpromised cells; return the cache, the sequence, and the drops for it.

    Returns None if dropping all the victims is not enough.
    """
    cache, drops = schedule.cache, list[Drop]()
    free, rest = list(_free(schedule)), iter(victims)
    while not (free and cache.cells + schedule.promised_cells + cells <= schedule.limits.cells):
        victim = next(rest, None)
        if victim is None:
            return None
        cache = cache.drop(victim)
        free.append(victim)
        drops.append(Drop(victim))
    return cache, min(free), tuple(drops)


def idle(schedule: Schedule) -> list[int]:
    """Return the retained sequences that are not in use, least recently used first."""
    busy = {run.sequence for run in schedule.running.values()}
    held = schedule.cache.held
    return sorted((sequence for sequence in held if sequence not in busy), key=lambda one: (held[one].used, one))


def _free(schedule: Schedule) -> Iterator[int]:
    taken = {run.sequence for run in schedule.running.values()} | schedule.cache.held.keys()
    return (sequence for sequence in range(schedule.limits.sequences) if sequence not in taken)


def longest_held(schedule: Schedule, prompt: Tokens) -> tuple[int | None, int]:
    """Return the sequence with the longest prefix of a prompt, and its length; (None, 0) if there is none.

    The prompt's last token is always evaluated, for its logits. Ties prefer an idle sequence, since it can be taken
    over; then a sequence that can continue uncut; then the last used.
    """
    best: tuple[int, bool, bool, int] = (0, False, False, 0)
    found: int | None = None
    busy = {run.sequence for run in schedule.running.values()}
    for sequence, held in schedule.cache.held.items():
        shared = min(common_prefix(held.tokens, prompt), len(prompt) - 1)
        if shared == 0 or (shared < len(held.tokens) and not schedule.limits.can_cut):
            continue
        rank = (shared, sequence not in busy, shared == len(held.tokens) and not held.snapshot, held.used)
        if rank > best:
            best, found = rank, sequence
    return found, best[0]


def _prefix_in_progress(schedule: Schedule, prompt: Tokens) -> int:
    """Return how much of a prompt the cache will contain after the running prompts are evaluated."""
    longest = 0
    for run in schedule.running.values():
        if schedule.behind(run) > 1:
            common = min(common_prefix(run.request.prompt, prompt), len(prompt) - 1)
            if not schedule.limits.can_cut:  # then only what becomes a snapshot
                held = schedule.cache.length(run.sequence)
                common = max((end for end in run.request.boundaries if held < end <= common), default=0)
            longest = max(longest, common)
    return longest


def _place(
    schedule: Schedule, request: Request, source: int | None, shared: int, *, turn: int
) -> tuple[Schedule, Start] | None:
    """Give a request a sequence, in this owner's turn; return None if running requests leave no room.

    It continues in the source itself if the source is idle, is not a snapshot, and is a prefix of the prompt. Otherwise
    it gets another sequence; the shared part is free if copies share cells. To make room, idle sequences are dropped,
    least recently used first. When this order reaches the source, the source is cut to the shared part and taken over.
    """
    cache, changes, unused = schedule.cache, list[Change](), idle(schedule)
    own = source is not None and source in unused and cache.length(source) == shared and not cache.held[source].snapshot
    free = list(_free(schedule))
    copying = 0 if schedule.limits.copies_share else shared
    needed = schedule.promised_cells + request.most - shared
    victims = (victim for victim in unused if not (own and victim == source))
    while not ((own or free) and cache.cells + needed + (0 if own else copying) <= schedule.limits.cells):
        victim = next(victims, None)
        if victim is None:
            return None
        if victim == source:
            own = True
            if shared < cache.length(victim):
                cache = cache.cut(victim, shared)
                changes.append(Cut(victim, shared))
        else:
            cache = cache.drop(victim)
            free.append(victim)
            changes.append(Drop(victim))
    if own and source is not None:
        sequence = source
    else:
        sequence = min(free)
        if source is not None:
            cache = cache.copy(source, sequence, shared, shares=schedule.limits.copies_share)
            changes.append(Copy(source, sequence, shared))
    # As if it had been served in the batch before the last: ahead of those of the last one, and behind all who wait
    # longer, however many come after it.
    begun = RunningRequest(request, sequence, request.prompt, served=cache.clock - 1, reused=shared)
    shares = schedule.shares.begin(request.owner, schedule.charge_for(request) - max(shared, request.paid), turn=turn)
    after = evolve(schedule, cache=cache, running={**schedule.running, request.id: begun}, shares=shares)
    return after.remove((request.id,)), Start(request.id, sequence, shared, tuple(changes))

"""The plan: which requests begin, in which sequence and on what prefix; what is evicted; what is evaluated next.

    Schedule ─ admit ─▶ Schedule, start ─ ... ─ compose ─▶ batch ─ evaluated ─▶ Schedule ─ sampled ─▶ Schedule ─ ...
                                                                    └ keep: snapshots     └ take_back: guesses

``Schedule`` is a value. Whoever carries the plan out makes the changes in the real cache, evaluates the batch, samples
a token for each piece that is a sequence's last, and tells the schedule. What holds for every plan, and why, is in
``docs/scheduler.md``; ``tests/runtime/scheduling`` checks it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from attrs import Attribute, evolve, field, frozen

from runtime.scheduling.cache import Cache
from runtime.scheduling.prefix import common_prefix
from runtime.scheduling.shares import Shares
from runtime.scheduling.tokens import Tokens

NO_GUESSES: Mapping[int, Sequence[int]] = MappingProxyType({})


@frozen
class Limits:
    """What there is. ``0 < sequences <= batch``, ``sequences <= cells`` and ``0 < chunk <= batch``."""

    cells: int
    """Tokens that the cache holds; those in cells that sequences share are counted once."""
    sequences: int = field()
    """How many the cache keeps apart, those in use and those kept for later."""
    batch: int
    """Tokens evaluated at once, at the most."""
    chunk: int
    """Tokens of prompts that are evaluated between two tokens of the replies that go on: so much later these come."""
    can_cut: bool = True
    """Whether a part of a sequence can be kept or copied; not so with recurrent and hybrid models. Those get snapshots:
    copies of a whole sequence as it was at a boundary of its prompt, where there is a sequence to spare."""
    copies_share: bool = True
    """Whether a copy takes no cells: it shares those of what it was copied from."""
    guesses: int = 0
    """Guessed tokens of all replies in a batch, at the most; none where ``can_cut`` is False, since they may have to be
    taken back."""
    tile: int = 64
    """Tokens of one prompt that are best evaluated together: native code works in tiles of so many."""
    whole_tiles: bool = False
    """Whether what goes beyond a tile is as dear as a tile of its own. Else the end of a prompt goes along with one."""
    worth_waiting: int = 32
    """Tokens that a request can save by waiting for another one's prompt, from which on it does wait."""
    overtaken: int = 8
    """How many others may begin while a request waits for a prompt that it can share; then it waits no more."""
    looked_at: int = 64
    """Requests that are looked at to find one that need not wait so."""
    charged: int = 256
    """Tokens of a reply that its owner is charged when it begins, if it may be so long; the rest as they come. So whose
    replies have only begun don't take every sequence that comes free meanwhile: what others share would go for them."""

    @sequences.validator
    def _fit(self, _attribute: Attribute[int], sequences: int) -> None:
        if not 0 < sequences <= min(self.batch, self.cells) or not 0 < self.chunk <= self.batch or self.tile < 1:
            raise ValueError(f"limits that leave no room for every sequence: {self}")


@frozen
class Request:
    """What the plan has to know of a request."""

    id: int
    prompt: Tokens
    """One token at least; of a request that was pushed out (``growth``), with what its reply had by then."""
    most: int
    """Cells that it needs at the most: prompt and longest reply, without the reply's last token."""
    boundaries: tuple[int, ...] = ()
    """Lengths of beginnings of the prompt that other prompts are likely to share, in ascending order: what snapshots
    are taken of. Each greater than 0 and less than the prompt's length."""
    owner: int = 0
    """Whose it is: owners take turns (``shares``)."""
    longest: int = 0
    """If greater than ``most``: how far that may still grow (``growth``)."""
    paid: int = 0
    """Tokens at its start that its owner was charged before it was pushed out: nobody is charged for them twice."""


@frozen
class Running:
    """A request that has a sequence."""

    request: Request
    sequence: int
    tokens: Tokens
    """The prompt and the reply so far, the part that is not evaluated yet included."""
    served: int
    """When some of its prompt was last in a batch, on the cache's clock."""
    reused: int = 0
    """Tokens of its prompt that the cache held when it began."""


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
    guesses: int = 0
    """How many of them, at the end, are guesses at what will be sampled: what the model says behind each is wanted too,
    and holds as far as they come true."""


@frozen
class Schedule:
    """Everything that the plan follows from."""

    limits: Limits
    cache: Cache = field(factory=Cache)
    running: Mapping[int, Running] = field(factory=dict)
    """By request, in the order in which they began."""
    waiting: tuple[Request, ...] = ()
    """In the order in which they came."""
    prompts_next: bool = True
    """Whether it is the prompts' turn where there are replies too."""
    shares: Shares = field(factory=Shares)
    """What was done for each owner while any request waited: else nobody goes without, and all are level."""
    passed: Mapping[int, int] = field(factory=dict)
    """How many began while a request waited for a prompt that it can share, by request."""

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
        run = self.running.get(request)
        if run is None:
            return self.gone((request,))
        return evolve(self, running={id: other for id, other in self.running.items() if id != request})

    def gone(self, requests: Collection[int]) -> Schedule:
        """Those of these requests that wait are not wanted any more; many at once take no longer than one."""
        requests = set(requests)
        waiting = tuple(one for one in self.waiting if one.id not in requests)
        passed = {id: times for id, times in self.passed.items() if id not in requests} if self.passed else self.passed
        return evolve(self, waiting=waiting, passed=passed, shares=self.shares if waiting else Shares())

    def sampled(self, tokens: Mapping[int, Sequence[int]]) -> Schedule:
        """The next tokens of these requests are known, by request: one each, and more where guesses came true."""
        running = dict(self.running)
        for request, more in tokens.items():
            run = running[request]
            running[request] = Running(run.request, run.sequence, run.tokens.extended(more), run.served, run.reused)
        return Schedule(self.limits, self.cache, running, self.waiting, self.prompts_next, self.shares, self.passed)

    def evaluated(self, batch: tuple[Piece, ...]) -> Schedule:
        """The cache holds what was in the batch."""
        cache, running = self.cache.extended({piece.sequence: piece.tokens for piece in batch}), self.running
        prompts = [piece.request for piece in batch if not piece.last or len(piece.tokens) - piece.guesses > 1]
        if prompts:
            running = {**running, **{id: evolve(running[id], served=cache.clock) for id in prompts}}
        shares = self.shares.given(self._beyond(batch)) if self.waiting else self.shares
        return Schedule(self.limits, cache, running, self.waiting, not prompts, shares, self.passed)

    def charged(self, request: Request) -> int:
        """How many of a request's tokens its owner is charged when it begins, less those that the cache holds."""
        return min(max(request.most, request.longest), len(request.prompt) + self.limits.charged)

    def _beyond(self, batch: tuple[Piece, ...]) -> Counter[int]:
        """How many tokens a batch holds for each owner beyond what was charged when their requests began."""
        works = Counter[int]()
        for piece in batch:
            request = self.running[piece.request].request
            more = piece.start + len(piece.tokens) - max(piece.start, self.charged(request))
            if more > 0:
                works[request.owner] += more
        return works

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

    Owners take turns: the next is the oldest request of the one for whom the least was done (``shares``). A request
    whose prompt begins like one that is being evaluated waits until it can share that, and those behind it don't wait
    for it; but only so many begin meanwhile (``Limits.overtaken``), and it keeps its turn. A request that finds no room
    holds back all behind it, so that it is not overtaken for ever.
    """
    if len(schedule.running) == schedule.limits.sequences or not schedule.waiting:
        return None
    limits, skipped = schedule.limits, list[int]()
    in_turn = schedule.shares.in_turn(schedule.waiting)[: limits.looked_at]
    for request in in_turn:
        source, shared = longest_held(schedule, request.prompt)
        waits = _in_the_making(schedule, request.prompt) - shared >= limits.worth_waiting
        if not waits or schedule.passed.get(request.id, 0) >= limits.overtaken:
            placed = _place(schedule, request, source, shared, turn=in_turn[0].owner)
            if placed is None or not skipped:
                return placed
            after, start = placed
            return evolve(after, passed={**after.passed, **{id: after.passed.get(id, 0) + 1 for id in skipped}}), start
        skipped.append(request.id)
    return None


def compose(schedule: Schedule, guesses: Mapping[int, Sequence[int]] = NO_GUESSES) -> tuple[Piece, ...]:
    """The next batch; empty when nothing runs.

    Replies and prompts take turns where there are both, since native code is best at one token each of many sequences,
    or at many of one. A batch of replies has the one token of each that goes on, with as many of its guesses as there
    is room for: in the cells that it was promised, and in the batch. A batch of prompts has tiles of them, of those
    first that waited longest. When there are any replies, it has a chunk in all, or up to half a tile more where a
    whole prompt fits in with that, unless tiles are to be whole. Where a sequence can't be cut, a prompt stops at its
    next boundary. ``guesses`` are how replies may go on, by request.
    """
    behind = {id: schedule.behind(run) for id, run in schedule.running.items()}
    replies = [id for id, left in behind.items() if left == 1 and not is_held(schedule, schedule.running[id])]
    prompts = {id: left for id, left in behind.items() if left > 1}
    if replies and not (prompts and schedule.prompts_next):
        return _replies(schedule, replies, guesses)
    return _prompts(schedule, prompts, schedule.limits.chunk if replies else schedule.limits.batch)


def is_held(schedule: Schedule, run: Running) -> bool:
    """Whether a reply that may grow has used what it was promised."""
    return run.request.longest > run.request.most <= schedule.cache.length(run.sequence)


def _replies(schedule: Schedule, replies: list[int], guesses: Mapping[int, Sequence[int]]) -> tuple[Piece, ...]:
    room = min(schedule.limits.guesses, schedule.limits.batch - len(replies))
    pieces: list[Piece] = []
    for id in replies:
        piece = _piece(schedule, id, 1)
        hoped = guesses.get(id)
        if hoped and room > 0:
            piece = _guessing(schedule, piece, hoped[:room])
            room -= piece.guesses
        pieces.append(piece)
    return tuple(sorted(pieces, key=lambda piece: piece.sequence))  # neighbours are evaluated together


def _prompts(schedule: Schedule, prompts: Mapping[int, int], room: int) -> tuple[Piece, ...]:
    """Tiles in turn, a last one of up to half as much again; no less of one that goes on, so that tiles stay whole."""
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


def _piece(schedule: Schedule, id: int, size: int) -> Piece:
    run = schedule.running[id]
    start = schedule.cache.length(run.sequence)
    if not schedule.limits.can_cut:
        size = min(size, next((end for end in run.request.boundaries if end > start), start + size) - start)
    tokens = tuple(run.tokens[start : start + size])
    return Piece(id, run.sequence, start, tokens, last=start + size == len(run.tokens))


def _guessing(schedule: Schedule, piece: Piece, hoped: Sequence[int]) -> Piece:
    """A reply's piece with guesses behind it, as many as its cells have room for."""
    room = schedule.running[piece.request].request.most - piece.start - 1
    more = tuple(hoped[:room])
    return Piece(piece.request, piece.sequence, piece.start, piece.tokens + more, last=True, guesses=len(more))


def take_back(schedule: Schedule) -> tuple[Cut, ...]:
    """What to cut after guesses were sampled: those that did not come true, of replies that go on."""
    over = [(run.sequence, len(run.tokens) - 1) for run in schedule.running.values() if schedule.behind(run) < 1]
    return tuple(Cut(sequence, length) for sequence, length in over)


def cut(schedule: Schedule, change: Cut) -> Schedule:
    """After a change of ``take_back``."""
    return evolve(schedule, cache=schedule.cache.cut(change.sequence, change.length))


def keep(schedule: Schedule) -> tuple[Schedule, tuple[Change, ...]] | None:
    """Take the next snapshot, with the schedule after; None when there is none to take. To be asked after each batch.

    One is taken of each sequence that stands at a boundary of its prompt, unless there is one of the same already. Room
    for it is made where what was not used for the longest time is, if that is not from this batch too.
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
            kept = kept.copied(run.sequence, target, length, snapshot=True, shares=shares)
            return evolve(schedule, cache=kept), (*drops, Copy(run.sequence, target, length))
    return None


def _has_snapshot(cache: Cache, tokens: Tokens, length: int) -> bool:
    return any(
        held.snapshot and len(held.tokens) == length and held.tokens[:] == tokens[:length]
        for held in cache.held.values()
    )


def adopt(schedule: Schedule, tokens: Tokens) -> tuple[Schedule, int, tuple[Drop, ...]] | None:
    """Make room for a sequence that comes from elsewhere: the schedule with it, its number, and what to drop first.

    None where what runs leaves no room for it. It counts as just used.
    """
    room = _room(schedule, len(tokens), idle(schedule))
    if room is None:
        return None
    cache, target, drops = room
    return evolve(schedule, cache=cache.adopted(target, tokens)), target, drops


def _room(schedule: Schedule, cells: int, victims: Iterable[int]) -> tuple[Cache, int, tuple[Drop, ...]] | None:
    """A free sequence and so many cells that are not promised: the cache with that room, and what to drop for it.

    None where dropping all the victims is not enough.
    """
    cache, drops = schedule.cache, list[Drop]()
    free, rest = list(_free(schedule)), iter(victims)
    while not (free and cache.cells + schedule.promised + cells <= schedule.limits.cells):
        victim = next(rest, None)
        if victim is None:
            return None
        cache = cache.dropped(victim)
        free.append(victim)
        drops.append(Drop(victim))
    return cache, min(free), tuple(drops)


def idle(schedule: Schedule) -> list[int]:
    """Sequences that are kept and not in use, the one that was not used for the longest time first."""
    busy = {run.sequence for run in schedule.running.values()}
    held = schedule.cache.held
    return sorted((sequence for sequence in held if sequence not in busy), key=lambda one: (held[one].used, one))


def _free(schedule: Schedule) -> Iterator[int]:
    """Sequences that hold nothing and are not in use, from the lowest."""
    taken = {run.sequence for run in schedule.running.values()} | schedule.cache.held.keys()
    return (sequence for sequence in range(schedule.limits.sequences) if sequence not in taken)


def longest_held(schedule: Schedule, prompt: Tokens) -> tuple[int | None, int]:
    """The sequence that holds the longest beginning of a prompt, and how long that is; (None, 0) where none does.

    The prompt's last token is never taken from the cache: what the model says after it has to be computed. Of several,
    one that nobody uses, since it may be taken over; of those, one that can go on as it is, and the last used.
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


def _in_the_making(schedule: Schedule, prompt: Tokens) -> int:
    """How much of a prompt will be in the cache when the prompts that are being evaluated are."""
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
    """Give a request a sequence, when it is this owner's turn; None where there is no room for it beside what runs.

    It goes on in the source where it continues all that it holds and nobody uses it, and it is no snapshot; else in a
    sequence of its own, which costs nothing for what both share, if copies share cells. To make room, idle sequences
    are dropped in the order in which they were last used; when it is the source's turn, it loses what it does not share
    and is taken over.
    """
    cache, changes, unused = schedule.cache, list[Change](), idle(schedule)
    own = source is not None and source in unused and cache.length(source) == shared and not cache.held[source].snapshot
    free = list(_free(schedule))
    copying = 0 if schedule.limits.copies_share else shared
    needed = schedule.promised + request.most - shared
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
            cache = cache.dropped(victim)
            free.append(victim)
            changes.append(Drop(victim))
    if own and source is not None:
        sequence = source
    else:
        sequence = min(free)
        if source is not None:
            cache = cache.copied(source, sequence, shared, shares=schedule.limits.copies_share)
            changes.append(Copy(source, sequence, shared))
    # As if it had been served in the batch before the last: ahead of those of the last one, and behind all who wait
    # longer, however many come after it.
    begun = Running(request, sequence, request.prompt, served=cache.clock - 1, reused=shared)
    shares = schedule.shares.begun(request.owner, schedule.charged(request) - max(shared, request.paid), turn=turn)
    after = evolve(schedule, cache=cache, running={**schedule.running, request.id: begun}, shares=shares)
    return after.gone((request.id,)), Start(request.id, sequence, shared, tuple(changes))

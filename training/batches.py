"""Batches for training: rows of token ids, what is to be learnt in them, and who sees whom.

A row holds one opening (a tool block, perhaps a system prompt) and several conversations after it. Each conversation
sees the opening and itself only and counts its positions from the opening's end, exactly as if it stood there alone.
"""

import math
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from training import tokenizer
from training.conversations import texts_of_one_world
from training.model import Layout
from training.values import Source

# Few shapes: each new one costs the matrix library (oneDNN) a compilation.
OPENINGS = (48, 112, 208, 464)  # tokens, padded to the next of these
CONVERSATIONS = {
    72: 8,
    112: 5,
    160: 4,
    208: 3,
    256: 2,
    320: 2,
    448: 1,
}  # tokens, padded likewise: how many of them share an opening
POOL_TOKENS = 400_000  # of batches made at once, shuffled
OF_ONE_WORLD = 10  # conversations made in one world
PLAIN = 0.05  # share of worlds encoded without the one-token parts of the tool block
COPY_STEPS = 220  # of warm-up on repeated random tokens, so that copying is learnt first
EASY_STEPS = 256  # after that: single requests and refusals only

Ids = list[int]
Row = tuple[Ids, list[Ids]]  # an opening and conversations after it
Shape = tuple[int, int]  # padded lengths of the opening and of a conversation


@dataclass(frozen=True)
class Batch:
    """Rows of tokens, and the places in the flattened rows before a token that is to be learnt."""

    ids: Tensor  # (rows, tokens)
    at: Tensor  # (targets,)
    layout: Layout | None = None

    @property
    def targets(self) -> Tensor:
        """(targets,): the tokens to be learnt."""
        return self.ids.flatten()[self.at + 1]

    def to(self, device: torch.device) -> "Batch":
        layout = self.layout and replace(self.layout, openings=self.layout.openings.to(device, non_blocking=True))
        return Batch(self.ids.to(device, non_blocking=True), self.at.to(device, non_blocking=True), layout)


def batch_of(ids: Tensor, learnt: Tensor, layout: Layout | None = None) -> Batch:
    """The batch of these rows; `learnt` (rows, tokens) says which tokens are to be learnt from the ones before."""
    ahead = torch.nn.functional.pad(learnt[:, 1:], (0, 1))
    return Batch(ids, ahead.flatten().nonzero()[:, 0], layout)


class TextBatches:
    """Batches of fresh texts, of about `tokens` each; the same seed, maker and number give the same batch.

    `stride` is how many steps of the training one batch of this maker stands for: the number of makers where they take
    turns, 1 where each makes a part of every step.
    """

    def __init__(self, seed: int, maker: int, tokens: int, stride: int = 1) -> None:
        self.seed, self.maker, self.tokens, self.stride = seed, maker, tokens, stride
        self.full, self.plain = tokenizer.load(), tokenizer.load(blocks=False)
        self.vocab: int = self.full.get_vocab_size()
        self.marks = {
            x: tokenizer.id_of(self.full, x) for x in ("<|im_start|>", "<|im_end|>", "assistant", "<think>", "ĊĊ")
        }
        self.pool_size = max(16, POOL_TOKENS // tokens)
        self.pool: list[tuple[Shape, list[Row]]] = []
        self.pool_number = -1

    def batch(self, number: int, *, warm_up: bool) -> Batch:
        """The batch of this number; `warm_up` starts with copying and easy texts, for a training from nothing."""
        step = number * self.stride
        if warm_up and step < COPY_STEPS:
            return copy_batch(self.seed, self.maker, number, self.vocab, self.tokens, few=step < COPY_STEPS // 2)
        pool, index = divmod(number, self.pool_size)
        if pool != self.pool_number:
            self.pool = self._make(pool, easy=warm_up and pool * self.pool_size * self.stride < COPY_STEPS + EASY_STEPS)
            self.pool_number = pool
        return self._collate(*self.pool[index])

    def _make(self, pool: int, *, easy: bool) -> list[tuple[Shape, list[Row]]]:
        s = Source.seeded(f"{self.seed} {self.maker} {pool}")
        waiting: dict[Shape, list[Row]] = {}
        made: list[tuple[Shape, list[Row]]] = []
        while len(made) < self.pool_size:
            for shape, row in self._rows(s, easy=easy):
                rows = waiting.setdefault(shape, [])
                rows.append(row)
                if len(rows) * row_tokens(shape) > self.tokens - row_tokens(shape) / 2:
                    made.append((shape, waiting.pop(shape)))
        s.shuffle(made)
        return made[: self.pool_size]

    def _rows(self, s: Source, *, easy: bool) -> list[tuple[Shape, Row]]:
        """The rows of one world, conversations of similar length together."""
        opening_text, texts = texts_of_one_world(s, OF_ONE_WORLD, easy=easy)
        encoder = self.plain if s.chance(PLAIN) else self.full
        opening, *conversations = (e.ids for e in encoder.encode_batch([opening_text, *texts]))
        if len(opening) > OPENINGS[-1]:
            return []
        start = next(n for n in OPENINGS if len(opening) <= n)
        out = []
        shorter = 0
        for length, count in CONVERSATIONS.items():
            some = [ids for ids in conversations if shorter < len(ids) <= length]
            rows = [some[i : i + count] for i in range(0, len(some), count)]
            out += [((start, length), (opening, row)) for row in rows if len(row) * 2 > count]
            shorter = length
        return out

    def _collate(self, shape: Shape, rows: list[Row]) -> Batch:
        start, length = shape
        count = CONVERSATIONS[length]
        ids = torch.zeros(len(rows), start + count * length, dtype=torch.long)
        learnt = torch.zeros(ids.shape, dtype=torch.bool)
        openings = torch.tensor([len(opening) for opening, _ in rows])
        for i, (opening, conversations) in enumerate(rows):
            ids[i, : len(opening)] = torch.tensor(opening)
            for j, conversation in enumerate(conversations):
                at = slice(start + j * length, start + j * length + len(conversation))
                ids[i, at], learnt[i, at] = torch.tensor(conversation), torch.tensor(self._learnt(conversation))
        return batch_of(ids, learnt, Layout(start, count, length, openings))

    def _learnt(self, ids: Ids) -> list[bool]:
        """What the assistant writes, with its end mark.

        Left out are the empty thought and the first token of a turn without one: whether to think is learnt only where
        the template leaves that choice to the model.
        """
        learn, i, mark = [False] * len(ids), 0, self.marks
        while i < len(ids) - 3:
            if ids[i] == mark["<|im_start|>"] and ids[i + 1] == mark["assistant"]:
                start = i + 3
                if ids[start] == mark["<think>"] and ids[start + 1] == mark["ĊĊ"]:
                    start += 4
                elif ids[start] != mark["<think>"]:
                    start += 1
                i = start
                while i < len(ids) and ids[i] != mark["<|im_end|>"]:
                    i += 1
                learn[start : i + 1] = [True] * len(ids[start : i + 1])
            i += 1
        return learn


def row_tokens(shape: Shape) -> int:
    start, length = shape
    return start + CONVERSATIONS[length] * length


def copy_batch(seed: int, maker: int, number: int, vocab: int, tokens: int, *, few: bool) -> Batch:
    """Rows that repeat a random sequence, of 128 tokens (`few`) or of nearly all; learnt from the second round on."""
    g = torch.Generator().manual_seed(1_000_003 * seed + 1009 * number + maker)
    length, kinds = (64, 128) if few else (96, vocab - 64)
    count = math.ceil(tokens / 2 / length)
    ids = torch.zeros(count, length, dtype=torch.long)
    learnt = torch.zeros(count, length, dtype=torch.bool)
    for i in range(count):
        period = int(torch.randint(4, length // 2 - 2, (1,), generator=g))
        once = torch.randint(0, kinds, (period,), generator=g)
        ids[i], learnt[i, period + 1 :] = once.repeat(length // period + 1)[:length], True
    return batch_of(ids, learnt)


class _Turns(IterableDataset[Batch]):
    """What one of several makers contributes: every n-th step's batch."""

    def __init__(self, seed: int, tokens: int, first: int, *, warm_up: bool) -> None:
        self.seed, self.tokens, self.first, self.warm_up = seed, tokens, first, warm_up

    def __iter__(self) -> Iterator[Batch]:
        info = get_worker_info()
        place, makers = (info.id, info.num_workers) if info else (0, 1)
        torch.set_num_threads(1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training, which ends its makers itself
        number, maker = divmod(self.first + place, makers)  # the loader asks its processes in turn
        texts = TextBatches(self.seed, maker, self.tokens, makers)
        while True:
            yield texts.batch(number, warm_up=self.warm_up)
            number += 1


def in_turns(seed: int, tokens: int, first: int, makers: int, *, warm_up: bool) -> Iterator[Batch]:
    """The batches of all steps from `first` on, made by processes of their own that take turns."""
    dataset = _Turns(seed, tokens, first, warm_up=warm_up)
    return iter(DataLoader(dataset, batch_size=None, num_workers=makers, prefetch_factor=8))

"""Batches for training: rows of token ids, what is to be learnt in them, and who sees whom.

A row holds one opening (a tool block, perhaps a system prompt) and several conversations after it. Each conversation
sees the opening and itself only and counts its positions from the opening's end, exactly as if it stood there alone.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from training import tokenizer
from training.conversations import texts_of_one_world
from training.model import Layout
from training.values import Source

# Few shapes: each new one costs the matrix library (oneDNN) a compilation.
OPENINGS = (48, 112, 208, 464)  # tokens, padded to the next of these
CONVERSATIONS = {72: 8, 144: 4, 208: 3, 288: 2, 448: 1}  # tokens, padded likewise: how many of them share an opening
TOKENS = 3000  # of a batch on one process, about
POOL = 128  # batches made at once, shuffled
OF_ONE_WORLD = 10  # conversations made in one world
PLAIN = 0.05  # share of worlds encoded without the one-token parts of the tool block
COPY_STEPS = 220  # of warm-up on repeated random tokens, so that copying is learnt first
EASY_POOLS = 2  # after that: single requests and refusals only

Ids = list[int]
Row = tuple[Ids, list[Ids]]  # an opening and conversations after it
Shape = tuple[int, int]  # padded lengths of the opening and of a conversation


@dataclass(frozen=True)
class Batch:
    ids: Tensor  # (rows, tokens)
    targets: Tensor  # (rows, tokens) bool: a token to be learnt, from the ones before it
    layout: Layout | None = None


def ids_and_targets(batch: Batch) -> tuple[Tensor, Tensor]:
    """(positions in the flattened batch before a target, the targets there)"""
    ahead = torch.nn.functional.pad(batch.targets[:, 1:], (0, 1)).flatten().nonzero()[:, 0]
    return ahead, batch.ids.flatten()[ahead + 1]


class TextBatches:
    """Batches of fresh texts; the same seed, process and step give the same batch."""

    def __init__(self, seed: int, rank: int) -> None:
        self.seed, self.rank = seed, rank
        self.full, self.plain = tokenizer.load(), tokenizer.load(blocks=False)
        self.vocab: int = self.full.get_vocab_size()
        self.marks = {
            x: tokenizer.id_of(self.full, x) for x in ("<|im_start|>", "<|im_end|>", "assistant", "<think>", "ĊĊ")
        }
        self.pool: list[tuple[Shape, list[Row]]] = []
        self.pool_number = -1

    def batch(self, step: int, *, easy: bool = False) -> Batch:
        number, index = divmod(step, POOL)
        if number != self.pool_number:
            first = COPY_STEPS // POOL  # the pools of the copy warm-up hold no texts
            self.pool = self._make(number, easy=easy and number <= first + EASY_POOLS)
            self.pool_number = number
        return self._collate(*self.pool[index])

    def _make(self, number: int, *, easy: bool) -> list[tuple[Shape, list[Row]]]:
        s = Source.seeded(f"{self.seed} {self.rank} {number}")
        waiting: dict[Shape, list[Row]] = {}
        made: list[tuple[Shape, list[Row]]] = []
        while len(made) < POOL:
            for shape, row in self._rows(s, easy=easy):
                rows = waiting.setdefault(shape, [])
                rows.append(row)
                if len(rows) * row_tokens(shape) > TOKENS - row_tokens(shape) / 2:
                    made.append((shape, waiting.pop(shape)))
        s.shuffle(made)
        return made[:POOL]

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
        targets = torch.zeros(ids.shape, dtype=torch.bool)
        positions = torch.zeros(ids.shape, dtype=torch.long)
        bias = torch.full((len(rows), 1, 1, length, start + length), float("-inf"), dtype=torch.bfloat16)
        bias[..., start:] = torch.full((length, length), float("-inf")).triu(1)
        for i, (opening, conversations) in enumerate(rows):
            n = len(opening)
            ids[i, :n], positions[i, :n] = torch.tensor(opening), torch.arange(n)
            bias[i, ..., :n] = 0
            positions[i, start:] = torch.arange(n, n + length).repeat(count)
            for j, conversation in enumerate(conversations):
                at = slice(start + j * length, start + j * length + len(conversation))
                ids[i, at], targets[i, at] = torch.tensor(conversation), torch.tensor(self._targets(conversation))
        return Batch(ids, targets, Layout(start, count, length, positions, bias))

    def _targets(self, ids: Ids) -> list[bool]:
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


def copy_batch(seed: int, rank: int, step: int, vocab: int) -> Batch:
    """Rows that repeat a random sequence: first of 128 tokens, then of nearly all; learnt from the second round on."""
    g = torch.Generator().manual_seed(1_000_003 * seed + 1009 * step + rank)
    few = step < COPY_STEPS // 2
    length, tokens = (64, 128) if few else (96, vocab - 64)
    count = 1536 // length
    ids = torch.zeros(count, length, dtype=torch.long)
    targets = torch.zeros(count, length, dtype=torch.bool)
    for i in range(count):
        period = int(torch.randint(4, length // 2 - 2, (1,), generator=g))
        once = torch.randint(0, tokens, (period,), generator=g)
        ids[i], targets[i, period + 1 :] = once.repeat(length // period + 1)[:length], True
    return Batch(ids, targets)

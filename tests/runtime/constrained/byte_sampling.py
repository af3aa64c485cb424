"""Texts sampled from a grammar byte by byte, without a model: what it lets through is then checked."""

from __future__ import annotations

from random import Random

import llguidance
import numpy as np

TOKENIZER = llguidance.LLTokenizer("byte")
CLOSING = frozenset(b"\"}],<>()/'")
PRINTABLE = range(32, 127)


def compiled(grammar: str) -> llguidance.LLMatcher:
    matcher = llguidance.LLMatcher(TOKENIZER, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def sampled(grammar: str, random: Random, limit: int = 3000) -> str | None:
    """A text of the grammar; None for one that would not end. Prefers what closes something, so that most do end."""
    matcher, made = compiled(grammar), bytearray()
    while not matcher.is_stopped():
        if len(made) == limit:
            return None
        marks = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")[:256]
        assert not matcher.is_error(), matcher.get_error()
        if matcher.is_accepting() and random.random() < 0.4:
            break
        allowed = [int(byte) for byte in np.flatnonzero(marks)]
        closing = [byte for byte in allowed if byte in CLOSING]
        plain = [byte for byte in allowed if byte in PRINTABLE]
        byte = random.choice(closing) if closing and random.random() < 0.3 else random.choice(plain or allowed)
        assert matcher.consume_token(byte)
        made.append(byte)
    return made.decode("utf-8", "replace")


def accepts(grammar: str, text: str) -> bool:
    """Whether the whole text is one of the grammar."""
    matcher, data = compiled(grammar), list(text.encode("utf-8"))
    return bool(matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting())

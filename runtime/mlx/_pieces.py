"""The bytes of a token, from a ``tokenizer.json``: a library's ``decode`` only returns whole texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")

SPACE_MARK = "▁"


def piece_reader(tokenizer: Mapping[str, Any]) -> Callable[[str], bytes]:
    """Return a function from the written form of a token to its bytes.

    Args:
        tokenizer: the decoded ``tokenizer.json``; its decoders show the kind of vocabulary. Do not use the function for
            added tokens: they represent their own text.
    """
    kinds = set(_decoder_kinds(tokenizer.get("decoder")))
    if "ByteLevel" in kinds:
        return _byte_level
    if kinds & {"ByteFallback", "Metaspace", "Replace"}:
        return _sentence_piece
    return lambda token: token.encode("utf-8")


def _decoder_kinds(decoder: Any) -> Iterator[str]:
    if isinstance(decoder, Mapping):
        yield str(decoder.get("type"))
        for inner in decoder.get("decoders") or ():
            yield from _decoder_kinds(inner)


def _byte_level(token: str) -> bytes:
    table = _byte_level_table()
    return b"".join(bytes([table[char]]) if char in table else char.encode("utf-8") for char in token)


@cache
def _byte_level_table() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes map to themselves, the others to characters from U+0100 on, in order."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


def _sentence_piece(token: str) -> bytes:
    single = BYTE_TOKEN.fullmatch(token)
    return bytes([int(single[1], 16)]) if single else token.replace(SPACE_MARK, " ").encode("utf-8")

"""Tokens as their vocabularies write them become the bytes that they stand for."""

import pytest
from hypothesis import given, strategies as st

from runtime.mlx.backend import _byte_level_table, piece_reader

BYTE_LEVEL = piece_reader({"decoder": {"type": "ByteLevel"}})
SENTENCE_PIECE = piece_reader(
    {"decoder": {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}]}}
)


@given(st.binary())
def test_byte_level_alphabets_can_write_every_byte(data: bytes) -> None:
    """Each byte has a character of its own, and is read back from it."""
    alphabet = {byte: char for char, byte in _byte_level_table().items()}

    assert len(alphabet) == 256
    assert BYTE_LEVEL("".join(alphabet[byte] for byte in data)) == data


@pytest.mark.parametrize(
    ("token", "expected"),
    [("▁Hello", b" Hello"), ("<0x0A>", b"\n"), ("<0xF0>", b"\xf0"), ("é", "é".encode()), ("<0xZZ>", b"<0xZZ>")],
)
def test_sentence_piece_marks_spaces_and_bytes(token: str, expected: bytes) -> None:
    """U+2581 is a space, ``<0x..>`` a byte, all else its text."""
    assert SENTENCE_PIECE(token) == expected


def test_gpt2_writes_a_space_as_g_with_a_dot() -> None:
    """The best-known character of the alphabet, as a check against the published one."""
    assert BYTE_LEVEL("Ġhello") == b" hello"


def test_other_vocabularies_write_plain_text() -> None:
    """Without a decoder that says otherwise, a token is its text."""
    assert piece_reader({"decoder": None})("Ġx") == "Ġx".encode()


@pytest.mark.parametrize(
    "part",
    [
        {"pre_tokenizer": {"type": "ByteLevel"}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]}},
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "ByteLevel"}]}},
    ],
)
def test_what_texts_are_written_in_counts_whatever_the_decoder_is(part: dict[str, object]) -> None:
    """Devstral 2's vocabulary is of bytes, and its decoder that of SentencePiece."""
    decoder = {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}]}

    assert piece_reader({"decoder": decoder, **part})("ĠtwoĊé") == " two\né".encode("latin-1")

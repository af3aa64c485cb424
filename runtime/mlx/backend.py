"""MLX: a directory of weights run through mlx-lm's model definitions, many sequences per batch.

``import mlx_lm`` takes more than a second, mostly for transformers and its tokenizer. Plain weights need neither: the
model definitions are imported without the package's ``__init__`` (0.05 s), and the ``tokenizers`` library reads
``tokenizer.json``. Other weights, above all quantised, go through mlx-lm's own loader.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy
from attrs import evolve
from mlx.utils import tree_flatten
from tokenizers import Tokenizer

from cognition import CogstepError, GenerationOptions
from runtime.errors import ModelFileError
from runtime.mlx._sampling import NumpySampler
from runtime.mlx._sequences import MlxSequences
from runtime.models.lazy_package import import_lazily
from runtime.models.mlx_files import MlxFiles, read_mlx_directory
from runtime.models.saved_cache import fingerprint
from runtime.protocol.backend import (
    CACHE_BYTES,
    CONVERSATIONS,
    DEFAULT_CONTEXT,
    FEWEST_SEQUENCES,
    SEQUENCES,
    BackendError,
    Metadata,
    Sampler,
    SpecialTokens,
    context_warnings,
)
from runtime.scheduling.plan import BatchPiece, Limits

BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")

SPACE_MARK = "▁"


class MlxVocabulary:
    """The token methods of a backend."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._added: dict[int, Any] = dict(tokenizer.get_added_tokens_decoder())
        self._read_piece = piece_reader(json.loads(tokenizer.to_str()))
        self.vocabulary: int = int(tokenizer.get_vocab_size(with_added_tokens=True))
        self.special: SpecialTokens = SpecialTokens(
            control={added.content: token for token, added in self._added.items() if added.special},
            defined={added.content: token for token, added in self._added.items() if not added.special},
            # Where all that a vocabulary has is looked for as it is written there, such a text is taken for the byte.
            spelled=frozenset(filter(BYTE_TOKEN.fullmatch, tokenizer.get_vocab(with_added_tokens=False))),
        )

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a text, with nothing added. With ``special``, texts of special tokens become those
        tokens.
        """
        self._tokenizer.encode_special_tokens = not special
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token, possibly part of a character. A special token returns its text."""
        if token in self._added:
            return str(self._added[token].content).encode("utf-8")
        written = self._tokenizer.id_to_token(token)
        return b"" if written is None else self._read_piece(written)  # None: padding at the end of the vocabulary


import_lazily("mlx_lm")

CPU_CHUNK, GPU_CHUNK = 128, 512
"""Prompt tokens per batch. A cancellation waits for one such batch, and so does the next token of a reply."""

MOST_WIDENED = 1024**3
"""Maximum bytes of 16-bit weights, and of scales of quantised weights, to widen on a CPU; it takes the same again."""

CLEAN_UP_EVERY = 512
"""Batches after which MLX releases cached memory of old array sizes, as mlx-lm's own generator does: a growing cache
leaves many sizes behind.
"""

Row = numpy.ndarray[Any, numpy.dtype[numpy.float32]]
"""Logits of the whole vocabulary."""


class MlxBackend(MlxVocabulary):
    """An MLX directory; its format has been checked.

    Args:
        path: the directory.
        context_tokens: maximum length of prompt and reply together; None: the model's trained length, at most
            ``DEFAULT_CONTEXT``.

    Raises:
        ModelFileError: it cannot be loaded; the message contains the reason.
    """

    def __init__(self, path: Path, *, context_tokens: int | None = None) -> None:
        self._model: Any = None
        self._sequences: Any = None
        self._logits: dict[int, Row] = {}
        """The logits after each piece of the last batch, by the piece's index."""
        self._last: Sequence[BatchPiece] = ()
        self._batches = 0
        try:
            self._open(path, context_tokens)
        except BaseException as error:
            self.close()
            if isinstance(error, CogstepError):
                raise
            # Whatever MLX meets in foreign files: its errors have no base class of their own, and a panic of the
            # tokenizers' is not even an Exception.
            reason = str(error).partition("\n")[0].strip() or "no reason given"
            told = f"MLX can't load {path} ({type(error).__name__}: {reason}); fetch it again, or update mlx-lm"
            raise ModelFileError(told, spec=str(path)) from error

    def _open(self, path: Path, context_tokens: int | None) -> None:
        files = read_mlx_directory(path)
        self._path = path
        on_cpu = mx.default_device() == mx.Device(mx.cpu)
        if on_cpu:
            # There MLX compiles fused operations with the machine's C++ compiler: 2 s before the first token of a fresh
            # process, a failure where there is no compiler, and not one token a second gained (measured).
            mx.disable_compile()
        self._model = _load_weights(path, files.config)
        if on_cpu:
            _widen(self._model)
        super().__init__(_load_tokenizer(path))
        end = self._tokenizer.token_to_id(files.eos_text) if files.eos_text else None
        self._ends = files.end_tokens | ({end} if end is not None else set())
        self.metadata: Metadata = self._metadata(path, files, context_tokens)
        self._sequences = MlxSequences(self._model, self.metadata.context_tokens)
        self.limits: Limits = self._limits(CPU_CHUNK if on_cpu else GPU_CHUNK)
        wired = mx.device_info().get("max_recommended_working_set_size")
        if wired is not None:
            mx.set_wired_limit(int(wired))  # on Apple's GPUs: weights stay in memory, as mlx-lm has it

    def _limits(self, chunk: int) -> Limits:
        context = self.metadata.context_tokens
        token, state = self._sequences.sizes()
        cells = max(context, min(CONVERSATIONS * context, CACHE_BYTES // max(token, 1)))
        sequences = min(SEQUENCES, max(FEWEST_SEQUENCES, CACHE_BYTES // max(state, 1)), cells)
        return Limits(
            cells=cells,
            sequences=sequences,
            batch=chunk,
            chunk=chunk,
            tile=chunk,  # prompts are evaluated one after another
            copies_share=False,
            can_cut=self._sequences.can_cut,
        )

    def _metadata(self, path: Path, files: MlxFiles, context_tokens: int | None) -> Metadata:
        trained = files.trained_context or DEFAULT_CONTEXT
        context = context_tokens or min(trained, DEFAULT_CONTEXT)
        bos = self._tokenizer.token_to_id(files.bos_text) if files.bos_text else None
        return Metadata(
            name=path.resolve().name,
            backend="mlx",
            backend_version=f"mlx-lm {version('mlx-lm')}, mlx {version('mlx')}",
            path=str(path),
            context_tokens=context,
            weight_bytes=files.weight_bytes,
            template=files.template,
            plain_template=files.plain_template,
            bos_text=files.bos_text,
            eos_text=files.eos_text,
            # As transformers does: a template is the whole truth; only the fallback needs the token from us.
            leading_bos=bos if files.template is None else None,
            warnings=(*context_warnings(context, trained), *files.warnings),
            sampling=files.sampling,
        )

    def is_end(self, token: int) -> bool:
        return token in self._ends

    def drop(self, sequence: int) -> None:
        self._sequences.drop(sequence)

    def cut(self, sequence: int, length: int) -> bool:
        return bool(self._sequences.cut(sequence, length))

    def copy(self, source: int, target: int, length: int) -> None:
        self._sequences.copy(source, target, length)

    def identity(self) -> Mapping[str, str]:
        files = sorted([*self._path.glob("model*.safetensors"), self._path / "config.json"])
        return {"backend": self.metadata.backend_version, "model": ", ".join(map(fingerprint, files))}

    def state(self, sequence: int, length: int) -> memoryview:
        return memoryview(self._sequences.state(sequence, length))

    def restore(self, sequence: int, length: int, state: memoryview) -> None:
        try:
            self._sequences.restore(sequence, length, state)
        except Exception as error:  # whatever MLX and mlx-lm meet in foreign bytes
            self.drop(sequence)
            raise BackendError(f"MLX can't take back a state of {length} tokens ({error})") from error

    def reset(self) -> None:
        self._sequences.clear()

    def sampler(self, options: GenerationOptions) -> NumpySampler:
        return NumpySampler(options)

    def append_tokens(self, tokens: Sequence[int]) -> bool:
        pieces = zip(self._last, tokens, strict=True)
        return self.evaluate([evolve(piece, start=piece.start + 1, tokens=(token,)) for piece, token in pieces])

    def evaluate(self, batch: Sequence[BatchPiece]) -> bool:
        # Prompts one after another, each but for its last token: a chunk of one fills the machine as well as parts of
        # many would, and nothing has to be padded. Then one token of each sequence that is sampled from: logits are
        # wanted behind those only, and a row of them is as long as the vocabulary.
        for piece in batch:
            if body := piece.tokens[: len(piece.tokens) - piece.last]:
                layers = self._sequences.single(piece.sequence)
                self._model(mx.array([body]), cache=layers)
                mx.eval([layer.state for layer in layers])
        logits = self._logits_behind({piece.sequence: piece.tokens[-1] for piece in batch if piece.last})
        self._logits = {row: logits[piece.sequence] for row, piece in enumerate(batch) if piece.last}
        for piece in batch:
            self._sequences.held[piece.sequence] = piece.start + len(piece.tokens)
        self._last = batch
        self._batches += 1
        if self._batches % CLEAN_UP_EVERY == 0:
            mx.clear_cache()
        return True

    def _logits_behind(self, tokens: dict[int, int]) -> dict[int, Row]:
        together = self._sequences.can_batch or len(tokens) < 2
        found: dict[int, Row] = {}
        for group in [list(tokens)] if together else [[sequence] for sequence in tokens]:
            if group:
                layers, rows = self._sequences.batch(group)
                logits = self._model(mx.array([[tokens[sequence]] for sequence in rows]), cache=layers)[:, -1]
                logits = logits.astype(mx.float32)
                mx.eval(logits, [layer.state for layer in layers])
                found |= zip(rows, numpy.array(logits), strict=True)
        return found

    def sample(self, row: int, sampler: Sampler, allowed: bytes | None = None) -> int:
        assert isinstance(sampler, NumpySampler)  # one of ours
        logits = self._logits[row]
        if allowed is not None:
            # In place: the next evaluation gives new ones. Vocabularies are padded: there may be more logits than bits,
            # and what has no bit is not allowed.
            bits = numpy.unpackbits(numpy.frombuffer(allowed, numpy.uint8), bitorder="little")[: logits.size]
            logits[: bits.size][bits == 0] = -numpy.inf
            logits[bits.size :] = -numpy.inf
        return sampler.sample(logits)

    def ready(self) -> None:
        """Does nothing: no interruption is ever pending."""

    def interrupt(self) -> None:
        """Does nothing: MLX cannot be interrupted. A batch is at most one chunk, and cancellations are checked after
        it.
        """

    def close(self) -> None:
        self._model = None
        self._logits = {}
        self._sequences = None
        mx.clear_cache()
        # This thread's streams have threads of their own; left to the end of the process, they now and then abort it
        # ("terminate called without an active exception", seen with mlx 0.32.4 on Linux).
        mx.clear_streams()


def _widen(model: Any) -> None:
    """Convert 16-bit weights to 32 bits, the CPU's own precision: otherwise each product converts them again. A token
    of the shipped model then takes 0.6 times as long, products of 4-bit weights 0.15 times.
    """
    weights: Any = tree_flatten(model.parameters())
    numbers = [array for _, array in weights if array.dtype in (mx.float16, mx.bfloat16)]
    if sum(array.nbytes for array in numbers) <= MOST_WIDENED:
        model.set_dtype(mx.float32)
        mx.eval(model.parameters())


def _load_weights(path: Path, config: dict[str, Any]) -> Any:
    """Load the model with its weights, through mlx-lm's own loader unless they are plain."""
    architecture = None
    if not config.keys() & {"quantization", "quantization_config", "model_file"} and "text_config" not in config:
        with contextlib.suppress(ImportError):  # mlx-lm reads some types under another name
            architecture = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    if architecture is None:
        return importlib.import_module("mlx_lm.utils").load_model(path)[0]
    model = architecture.Model(architecture.ModelArgs.from_dict(config))
    weights: dict[str, Any] = {}
    for file in sorted(path.glob("model*.safetensors")):
        loaded: Any = mx.load(str(file))
        weights |= loaded
    if hasattr(model, "sanitize"):
        weights = model.sanitize(weights)
    model.eval()
    model.load_weights(list(weights.items()), strict=True)
    mx.eval(model.parameters())
    return model


def _load_tokenizer(path: Path) -> Any:
    """Load the tokenizer without padding and truncation; through transformers if there is no ``tokenizer.json``."""
    file = path / "tokenizer.json"
    if file.is_file():
        tokenizer = Tokenizer.from_file(str(file))
    else:
        tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(path).backend_tokenizer
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def piece_reader(tokenizer: Mapping[str, Any]) -> Callable[[str], bytes]:
    """Return a function from the written form of a token to its bytes.

    Args:
        tokenizer: the decoded ``tokenizer.json``; its parts show the kind of vocabulary. Do not use the function for
            added tokens: they represent their own text.
    """
    # What texts are written in is certain by the way to tokens; some publishers' decoder is that of another kind.
    if any("ByteLevel" in _kinds(tokenizer.get(part)) for part in ("pre_tokenizer", "normalizer", "decoder")):
        return _byte_level
    kinds = set(_kinds(tokenizer.get("decoder")))
    return _sentence_piece if kinds & {"ByteFallback", "Metaspace", "Replace"} else str.encode


def _kinds(part: Any) -> Iterator[str]:
    """Yield the types of a part of a tokenizer, and of those that it is a sequence of."""
    if isinstance(part, Mapping):
        yield str(part.get("type"))
        for name in ("decoders", "pretokenizers", "normalizers"):
            for inner in part.get(name) or ():
                yield from _kinds(inner)


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

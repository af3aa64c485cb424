"""MLX: a directory of weights run through mlx-lm's model definitions, with one prompt cache: one sequence.

``import mlx_lm`` takes more than a second, nearly all of it transformers for the tokenizer. Neither is needed for plain
weights: the model definitions are imported without the package's ``__init__`` (0.05 s), and ``tokenizer.json`` is read
by the ``tokenizers`` library. What is more than plain weights, quantised ones above all, takes mlx-lm's own loader.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy
from tokenizers import Tokenizer

from cognition import GenerationOptions
from runtime.backend import Metadata, Sampler, SpecialTokens
from runtime.errors import ModelFileError
from runtime.lazy_package import import_lazily
from runtime.mlx_files import MlxFiles, read_mlx_directory
from runtime.pieces import piece_reader
from runtime.sampling import NumpySampler
from runtime.scheduling.plan import Limits, Piece

import_lazily("mlx_lm")

CPU_CHUNK, GPU_CHUNK = 128, 512
"""Tokens evaluated at once in prefill. A cancel waits for one chunk: 0.2 s at a small model's 650 tokens/s on a CPU."""

DEFAULT_CONTEXT = 8192
"""As for llama.cpp: what a caller gets who asks for nothing, where the model allows more."""


class MlxBackend:
    """An MLX directory; its form has been checked.

    Args:
        path: the directory.
        context_tokens: prompt and reply together; None: what the model was trained for, at most ``DEFAULT_CONTEXT``.

    Raises:
        ModelFileError: it can't be loaded; the message holds the reason.
    """

    def __init__(self, path: Path, *, context_tokens: int | None = None) -> None:
        self._model: Any = None
        self._logits: Any = None
        self._cache: list[Any] = []
        try:
            self._open(path, context_tokens)
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path, context_tokens: int | None) -> None:
        files = read_mlx_directory(path)
        on_cpu = mx.default_device() == mx.Device(mx.cpu)
        if on_cpu:
            # There MLX compiles fused operations with the machine's C++ compiler: 2 s before the first token of a fresh
            # process, a failure where there is no compiler, and not one token a second gained (measured).
            mx.disable_compile()
        try:
            self._model = _load_weights(path, files.config)
            self._tokenizer = _load_tokenizer(path)
        except Exception as error:  # whatever MLX meets in foreign files: its errors have no base class of their own
            reason = str(error).partition("\n")[0].strip() or "no reason given"
            raise ModelFileError(
                f"MLX can't load {path} ({type(error).__name__}: {reason}); fetch it again, or update mlx-lm",
                spec=str(path),
            ) from error
        self._caches: Any = importlib.import_module("mlx_lm.models.cache")
        self._cache = self._caches.make_prompt_cache(self._model)
        self._held = 0
        self._added: dict[int, Any] = dict(self._tokenizer.get_added_tokens_decoder())
        self.vocabulary = int(self._tokenizer.get_vocab_size(with_added_tokens=True))
        self._read_piece = piece_reader(json.loads(self._tokenizer.to_str()))
        self.special = SpecialTokens(
            control={added.content: token for token, added in self._added.items() if added.special},
            defined={added.content: token for token, added in self._added.items() if not added.special},
        )
        end = self._tokenizer.token_to_id(files.eos_text) if files.eos_text else None
        self._ends = files.end_tokens | ({end} if end is not None else set())
        self.metadata = self._metadata(path, files, context_tokens)
        chunk = CPU_CHUNK if on_cpu else GPU_CHUNK
        self.limits = Limits(
            cells=self.metadata.context_tokens,
            sequences=1,
            batch=chunk,
            chunk=chunk,
            can_cut=bool(self._caches.can_trim_prompt_cache(self._cache)),
        )

    def _metadata(self, path: Path, files: MlxFiles, context_tokens: int | None) -> Metadata:
        trained = files.trained_context or DEFAULT_CONTEXT
        context = context_tokens or min(trained, DEFAULT_CONTEXT)
        warnings = []
        if context > trained:
            warnings.append(
                f"the model was trained on at most {trained} tokens; beyond that, of {context}, its replies get worse"
            )
        bos = self._tokenizer.token_to_id(files.bos_text) if files.bos_text else None
        return Metadata(
            name=path.resolve().name,
            backend="mlx",
            backend_version=f"mlx-lm {version('mlx-lm')}, mlx {version('mlx')}",
            path=str(path),
            context_tokens=context,
            weight_bytes=files.weight_bytes,
            template=files.template,
            bos_text=files.bos_text,
            eos_text=files.eos_text,
            # As transformers does: a template is the whole truth; only the fallback needs the token from us.
            leading_bos=bos if files.template is None else None,
            warnings=tuple(warnings),
        )

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        self._tokenizer.encode_special_tokens = not special
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def piece(self, token: int) -> bytes:
        if token in self._added:
            return str(self._added[token].content).encode("utf-8")
        written = self._tokenizer.id_to_token(token)
        return b"" if written is None else self._read_piece(written)  # None: padding at the end of the vocabulary

    def is_end(self, token: int) -> bool:
        return token in self._ends

    def drop(self, sequence: int) -> None:
        self.reset()

    def cut(self, sequence: int, length: int) -> bool:
        # Asked anew each time: a sliding window can be cut until it is full, and not after.
        if self._caches.can_trim_prompt_cache(self._cache):
            self._caches.trim_prompt_cache(self._cache, self._held - length)
            self._held = length
            return True
        self.reset()
        return False

    def copy(self, source: int, target: int, length: int) -> None:
        raise AssertionError("there is one sequence, and nothing to copy it to")

    def reset(self) -> None:
        self._cache = self._caches.make_prompt_cache(self._model)
        self._held = 0

    def sampler(self, options: GenerationOptions) -> MlxSampler:
        return MlxSampler(options)

    def evaluate(self, batch: Sequence[Piece]) -> bool:
        (piece,) = batch
        # The last token goes alone: logits are wanted for it only, and a row of them is as long as the vocabulary.
        last = len(piece.tokens) - piece.last
        for chunk in (piece.tokens[:last], piece.tokens[last:]):
            if chunk:
                logits = self._model(mx.array([list(chunk)]), cache=self._cache)
                self._logits = logits[0, -1, :] if piece.last else None
                mx.eval([layer.state for layer in self._cache], self._logits)
                self._held += len(chunk)
        return True

    def sample(self, row: int, sampler: Sampler, allowed: bytes | None = None) -> int:
        assert isinstance(sampler, MlxSampler)  # one of ours
        logits = self._logits
        if allowed is not None:
            # Vocabularies are padded: there are more logits than tokens, or bits, and what has no bit is not allowed.
            marks = numpy.zeros(logits.size, numpy.uint8)
            bits = numpy.unpackbits(numpy.frombuffer(allowed, numpy.uint8), bitorder="little")[: logits.size]
            marks[: bits.size] = bits
            logits = mx.where(mx.array(marks) != 0, logits, -mx.inf)
        return sampler.sample(logits)

    def ready(self) -> None:
        """Nothing is ever pending."""

    def interrupt(self) -> None:
        """MLX can't be interrupted; a batch is one chunk, and whoever stopped is looked at after it."""

    def close(self) -> None:
        self._model = self._logits = None
        self._cache = []
        mx.clear_cache()
        # This thread's streams have threads of their own; left to the end of the process, they now and then abort it
        # ("terminate called without an active exception", seen with mlx 0.32.4 on Linux).
        mx.clear_streams()


class MlxSampler:
    """How the tokens of one reply are chosen.

    Args:
        options: of the request.
    """

    def __init__(self, options: GenerationOptions) -> None:
        self._sampler = NumpySampler(options)

    def sample(self, logits: Any) -> int:
        """The next token."""
        if self._sampler.plain:
            return _number(mx.argmax(logits))
        return self._sampler.sample(numpy.array(logits.astype(mx.float32)))

    def close(self) -> None:
        """Nothing to free."""


def _number(array: Any) -> int:
    """An array of one number, computed."""
    return int(array.item())


def _load_weights(path: Path, config: dict[str, Any]) -> Any:
    """The model with its weights; by mlx-lm's own loader for all that is not plain."""
    architecture = None
    if not config.keys() & {"quantization", "quantization_config", "model_file"} and "text_config" not in config:
        try:
            architecture = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
        except ImportError:  # mlx-lm reads some types under another name
            architecture = None
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
    """The tokenizer without padding and truncation; through transformers where there is no ``tokenizer.json``."""
    file = path / "tokenizer.json"
    if file.is_file():
        tokenizer = Tokenizer.from_file(str(file))
    else:
        loaded = importlib.import_module("transformers").AutoTokenizer.from_pretrained(path)
        tokenizer = loaded.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer

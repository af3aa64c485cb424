"""llama.cpp, through the low-level bindings of llama-cpp-python: one context, many sequences in one pool of cells.

During evaluation native code never calls back into Python. The abort callback is libc's ``strlen`` on a two-byte flag
(see ``_AbortFlag``), since llama.cpp would call a Python callback for each node of the graph.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy

from cognition import GenerationOptions
from runtime.llama.options import LlamaOptions
from runtime.models.lazy_package import import_lazily
from runtime.models.mlx_files import named_templates
from runtime.models.saved_cache import fingerprint
from runtime.protocol.backend import LONGEST_TEMPLATE, BackendError, Metadata, Sampler, SpecialTokens, context_warnings
from runtime.protocol.sampling import IN_GGUF, options_from_gguf
from runtime.scheduling.plan import BatchPiece, Limits

import_lazily("llama_cpp")
import llama_cpp.llama_cpp as native  # noqa: E402  after the line above, which saves 0.2 s of it

from runtime.llama._loading import (  # noqa: E402  likewise
    CPU_CHUNK,
    Sizes,
    keep_errors,
    meta_text,
    open_context,
    open_model,
    reason,
    recent_errors,
    sizes,
)
from runtime.llama._sampler import LlamaSampler  # noqa: E402  likewise

_address_of_logits = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(
    ctypes.cast(native.llama_get_logits, ctypes.c_void_p).value or 0
)
"""``llama_get_logits`` that returns its pointer as a number, which is faster to read than a ctypes object."""


class _AbortFlag:
    """Lets any thread abort a running ``llama_decode`` without a call into Python.

    llama.cpp calls ``bool abort(void *data)`` before each node of the graph. ``strlen`` has a matching signature: it
    returns 0 for an empty text and 1 for one byte, and C reads a bool from the lowest byte of the result. With a Python
    function, each of the several hundred nodes of a token would wait for the GIL.
    """

    def __init__(self, context: Any) -> None:
        self._flag = ctypes.create_string_buffer(2)
        address = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value or 0
        self._callback = native.ggml_abort_callback(address)
        native.llama_set_abort_callback(context, self._callback, ctypes.cast(self._flag, ctypes.c_void_p))

    def set(self) -> None:
        self._flag[0] = b"\x01"

    def clear(self) -> None:
        self._flag[0] = b"\x00"


class LlamaBackend:
    """A GGUF file in llama.cpp.

    Args:
        path: the file; its format has been checked.
        context_tokens: the maximum length of prompt and reply together; None is the model's trained length, at most
            ``DEFAULT_CONTEXT``.
        threads: None is the number of physical cores, or 1 for a small model.
        options: None for the defaults.
        on_progress: receives the fraction loaded, 0 to 1; returning False cancels the load.

    Raises:
        ModelFileError: llama.cpp cannot load it; the message contains its reason.
        ModelOptionsError: the options do not fit this model.
        LoadCancelledError: ``on_progress`` returned False.
    """

    def __init__(
        self,
        path: Path,
        *,
        context_tokens: int | None = None,
        threads: int | None = None,
        options: LlamaOptions | None = None,
        on_progress: Callable[[float], bool] = lambda _fraction: True,
    ) -> None:
        native.llama_log_set(keep_errors, ctypes.c_void_p(0))
        native.llama_backend_init()
        options = LlamaOptions() if options is None else options
        self._model = open_model(path, options, on_progress)
        self._context: Any = None
        try:
            self._open(path, options, sizes(self._model, path, options, context_tokens), threads)
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path, options: LlamaOptions, planned: Sizes, threads: int | None) -> None:
        self._planned = planned
        self._options = options
        self._context = open_context(self._model, path, options, planned, threads)
        self._vocab = native.llama_model_get_vocab(self._model)
        self.vocabulary: int = int(native.llama_vocab_n_tokens(self._vocab))
        self._memory = native.llama_get_memory(self._context)
        self._abort = _AbortFlag(self._context)
        batch = int(native.llama_n_batch(self._context))
        self._batch = _Batch(batch)
        self._rows: list[int] = []
        self._logits: list[Any] | None = None
        """The logits of the last batch, one array per output; None until they are needed."""
        self._logits_at: dict[int, list[Any]] = {}
        """Arrays over llama.cpp's own logit buffers, by address: it has a few and uses them in turn."""
        gpu = native.llama_supports_gpu_offload()
        chunk = batch if gpu else min(CPU_CHUNK, batch)
        self.limits: Limits = Limits(
            cells=planned.cells,
            sequences=planned.sequences,
            batch=batch,
            chunk=chunk,
            can_cut=not planned.recurrent,
            # Flash attention on a processor computes tiles of a sequence, and what is beyond them row by row: 64 tokens
            # of each of eight took 53 ms, 66 took 65 ms. In a pool all of a batch are one sequence to it.
            whole_tiles=not gpu and not planned.unified and planned.flash_attention is not False,
            copies_share=planned.unified,
            guesses=planned.guesses,
        )
        self._pieces: dict[int, bytes] = {}
        self._ends: dict[int, bool] = {}
        self.special: SpecialTokens = self._special_tokens()
        self.metadata: Metadata = self._metadata(path, planned.context)

    def _metadata(self, path: Path, context: int) -> Metadata:
        template, plain = named_templates(self._templates())
        bos, eos = native.llama_vocab_bos(self._vocab), native.llama_vocab_eos(self._vocab)
        sampling, wrong = options_from_gguf({key: meta_text(self._model, key.encode()) for key in IN_GGUF})
        return Metadata(
            name=meta_text(self._model, b"general.name") or path.stem,
            backend="llama.cpp",
            backend_version=f"llama-cpp-python {version('llama-cpp-python')}",
            path=str(path),
            context_tokens=context,
            weight_bytes=path.stat().st_size,
            template=template,
            plain_template=plain,
            bos_text=self.piece(bos).decode("utf-8", "replace") if bos >= 0 else "",
            eos_text=self.piece(eos).decode("utf-8", "replace") if eos >= 0 else "",
            # As llama.cpp's own chat does; a template that writes the token itself gets no second one.
            leading_bos=bos if bos >= 0 and native.llama_vocab_get_add_bos(self._vocab) else None,
            warnings=(*context_warnings(context, native.llama_model_n_ctx_train(self._model)), *wrong),
            sampling=sampling,
        )

    def _templates(self) -> dict[str, str]:
        """The file's templates by name. For a file without one, llama.cpp returns the name of a built-in template."""
        named: dict[str, str] = {}
        for name, asked in (("default", None), ("tool_use", b"tool_use")):
            text = native.llama_model_chat_template(self._model, asked)
            if text and b"messages" in text:
                # Of one that is too long to be used, as much as it takes to see that.
                named[name] = text[: 4 * (LONGEST_TEMPLATE + 1)].decode("utf-8", "replace")
        return named

    def _special_tokens(self) -> SpecialTokens:
        control: dict[str, int] = {}
        defined: dict[str, int] = {}
        marks = native.LLAMA_TOKEN_ATTR_CONTROL | native.LLAMA_TOKEN_ATTR_UNKNOWN
        for token in range(self.vocabulary):
            attributes = native.llama_vocab_get_attr(self._vocab, token)
            if attributes & (marks | native.LLAMA_TOKEN_ATTR_USER_DEFINED):
                kind = control if attributes & marks else defined
                kind[native.llama_vocab_get_text(self._vocab, token).decode("utf-8", "replace")] = token
        return SpecialTokens(control, defined)

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        room = len(data) + 8  # a token is at least a byte, but for the spaces that some tokenizers add
        tokens = (native.llama_token * room)()
        count = native.llama_tokenize(self._vocab, data, len(data), tokens, room, False, special)
        if count < 0:
            raise BackendError(f"llama.cpp could not tokenise a text of {len(data)} bytes")
        return tokens[:count]

    def piece(self, token: int) -> bytes:
        known, room = self._pieces.get(token), 32  # most are shorter; a negative answer is the length it takes
        while known is None:
            buffer = ctypes.create_string_buffer(room)
            length = native.llama_token_to_piece(self._vocab, token, buffer, room, 0, True)
            if length >= 0:
                known = self._pieces[token] = buffer.raw[:length]
            room = -length
        return known

    def is_end(self, token: int) -> bool:
        known = self._ends.get(token)
        if known is None:
            known = self._ends[token] = bool(native.llama_vocab_is_eog(self._vocab, token))
        return known

    def drop(self, sequence: int) -> None:
        native.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def cut(self, sequence: int, length: int) -> bool:
        if native.llama_memory_seq_rm(self._memory, sequence, length, -1):
            return True
        self.drop(sequence)
        return False

    def copy(self, source: int, target: int, length: int) -> None:
        # A recurrent state is copied as a whole; the plan asks for nothing else. Between sequences with cells of their
        # own whole ones are copied too, by the next evaluation.
        whole = self._planned.recurrent or not self._planned.unified
        native.llama_memory_seq_cp(self._memory, source, target, -1, -1 if whole else length)
        if not self._planned.unified:
            native.llama_memory_seq_rm(self._memory, target, length, -1)

    def identity(self) -> Mapping[str, str]:
        options, planned = self._options, self._planned
        adapters = [f"{fingerprint(adapter.path)} * {adapter.scale}" for adapter in options.adapters]
        # Some models encode positions otherwise in long contexts (longrope): see llama.cpp's get_rope_factors.
        architecture = meta_text(self._model, b"general.architecture")
        original = meta_text(self._model, f"{architecture}.rope.scaling.original_context_length".encode())
        longest = self.limits.cells if planned.unified else planned.context
        extended = original.isdecimal() and longest > int(original)
        return {
            "backend": f"{self.metadata.backend_version}, state {native.LLAMA_STATE_SEQ_VERSION}",
            "model": fingerprint(Path(self.metadata.path)),
            "layout of the cache": "one pool" if planned.unified else f"{planned.streams} parts",
            "set of adapters": ", ".join(adapters) or "none",
            "cache type": f"{planned.key_type}, {planned.value_type}, flash attention {planned.flash_attention}",
            "encoding of positions": f"{options.rope}, {'extended' if extended else 'plain'}",
        }

    def state(self, sequence: int, length: int) -> memoryview:
        spare = self.limits.sequences
        held = native.llama_memory_seq_pos_max(self._memory, sequence) + 1
        if held != length and not self._planned.recurrent:
            self.copy(sequence, spare, length)
            if not self._planned.unified:
                self._copy_now(spare, length)
            sequence, held = spare, length
        try:
            size = native.llama_state_seq_get_size(self._context, sequence)
            state = (ctypes.c_uint8 * size)()
            if held != length or native.llama_state_seq_get_data(self._context, state, size, sequence) != size:
                raise BackendError(f"llama.cpp can't give away {length} tokens of sequence {sequence} ({reason()})")
        finally:
            if sequence == spare:
                self.drop(spare)
        return memoryview(state).cast("B")

    def _copy_now(self, sequence: int, length: int) -> None:
        """Force a copy that llama.cpp defers to the next evaluation, by evaluating one token after it."""
        self._batch.fill((BatchPiece(0, sequence, length, (0,), last=True),))
        self.ready()
        if native.llama_decode(self._context, self._batch.native) != 0:
            raise BackendError(f"llama.cpp can't copy {length} tokens ({reason()})")
        native.llama_memory_seq_rm(self._memory, sequence, length, -1)

    def restore(self, sequence: int, length: int, state: memoryview) -> None:
        recent_errors.clear()
        data = (ctypes.c_uint8 * len(state)).from_buffer(state)
        read = native.llama_state_seq_set_data(self._context, data, len(state), sequence)
        if read != len(state) or native.llama_memory_seq_pos_max(self._memory, sequence) + 1 != length:
            self.drop(sequence)
            raise BackendError(f"llama.cpp can't take back a state of {length} tokens ({reason()})")

    def sampler(self, options: GenerationOptions) -> LlamaSampler:
        return LlamaSampler(options, self.vocabulary)

    def evaluate(self, batch: Sequence[BatchPiece]) -> bool:
        self._rows = self._batch.fill(batch)
        return self._evaluate()

    def append_tokens(self, tokens: Sequence[int]) -> bool:
        self._batch.append_tokens(tokens)
        return self._evaluate()

    def _evaluate(self) -> bool:
        self._logits = None
        recent_errors.clear()
        result = native.llama_decode(self._context, self._batch.native)
        if result not in (0, 2):  # 2: aborted
            raise BackendError(f"llama_decode returned {result} ({reason()})")
        if result:  # llama.cpp evaluates a batch in parts, where sequences have cells of their own
            for sequence, start in self._batch.starts().items():
                native.llama_memory_seq_rm(self._memory, sequence, start, -1)
        return bool(result == 0)

    def sample(self, row: int, sampler: Sampler, allowed: bytes | None = None) -> int:
        assert isinstance(sampler, LlamaSampler)  # one of ours
        if allowed is None and not sampler.plain:
            return sampler.sample(self._context, self._rows[row])
        if self._logits is None:
            self._logits = self._read_logits()
        logits = self._logits[self._batch.outputs[row]]
        if allowed is not None:
            # In place: the next evaluation writes new ones. What can't be taken has no probability, so that greedy and
            # random sampling need to know no more.
            bits = numpy.unpackbits(numpy.frombuffer(allowed, numpy.uint8), count=self.vocabulary, bitorder="little")
            logits[bits == 0] = -numpy.inf
        return sampler.likeliest(logits) if sampler.plain else sampler.sample(self._context, self._rows[row])

    def _read_logits(self) -> list[Any]:
        """Read the logits with one call: a call per row could lose the GIL to another thread."""
        address = _address_of_logits(self._context)
        logits = self._logits_at.get(address)
        if logits is None:
            count = self._planned.outputs
            memory: Any = (ctypes.c_float * (count * self.vocabulary)).from_address(address)
            table = numpy.frombuffer(memory, numpy.float32).reshape(count, self.vocabulary)
            logits = self._logits_at[address] = list(table)
        return logits

    def ready(self) -> None:
        self._abort.clear()

    def interrupt(self) -> None:
        # The states of a recurrent model are changed in their places, and moved: an aborted batch would leave them, and
        # those of other sequences, half done. So it is not aborted: a batch is all that a cancel waits for.
        if not self._planned.recurrent:
            self._abort.set()

    def reset(self) -> None:
        native.llama_memory_clear(self._memory, False)

    def close(self) -> None:
        if self._context:
            native.llama_free(self._context)
            self._context = None
        if self._model:
            native.llama_model_free(self._model)
            self._model = None


class _Batch:
    """The input arrays of ``llama_decode``, filled without a call per token."""

    def __init__(self, size: int) -> None:
        self._tokens: Any = (native.llama_token * size)()
        self._positions: Any = (native.llama_pos * size)()
        self._sequences: Any = (native.llama_seq_id * size)()
        self._counts = (ctypes.c_int32 * size)(*[1] * size)  # each token belongs to one sequence
        self._wanted: Any = (ctypes.c_int8 * size)()
        self.outputs: list[int] = []
        """The llama.cpp output of each row of ``Backend.sample``; only pieces that are ``last`` have outputs."""
        step = ctypes.sizeof(native.llama_seq_id)
        pointer = ctypes.POINTER(native.llama_seq_id)
        base = ctypes.addressof(self._sequences)
        self._pointers = (pointer * size)(
            *[ctypes.cast(ctypes.c_void_p(base + step * place), pointer) for place in range(size)]
        )
        self.native = native.llama_batch(
            n_tokens=0,
            token=self._tokens,
            embd=None,
            pos=self._positions,
            n_seq_id=self._counts,
            seq_id=self._pointers,
            logits=self._wanted,
        )

    def fill(self, pieces: Sequence[BatchPiece]) -> list[int]:
        """Fill in these pieces; return the rows of each piece's last token and guesses."""
        tokens, positions, sequences, flags, rows = list[int](), list[int](), list[int](), list[int](), list[int]()
        outputs, count = list[int](), 0
        for piece in pieces:
            size, wanted = len(piece.tokens), piece.guesses + 1
            tokens += piece.tokens
            positions += range(piece.start, piece.start + size)
            sequences += [piece.sequence] * size
            flags += [0] * (size - wanted) + [int(piece.last)] * wanted
            rows += range(len(tokens) - wanted, len(tokens))
            outputs += range(count, count + wanted)
            count += wanted if piece.last else 0
        end = self.native.n_tokens = len(tokens)
        self._tokens[:end] = tokens
        self._positions[:end] = positions
        self._sequences[:end] = sequences
        self._wanted[:end] = flags
        self.outputs = outputs
        return rows

    def append_tokens(self, tokens: Sequence[int]) -> None:
        for place, token in enumerate(tokens):
            self._tokens[place] = token
            self._positions[place] += 1

    def starts(self) -> dict[int, int]:
        places = reversed(range(self.native.n_tokens))  # so that the first of each is what stays
        return {self._sequences[place]: self._positions[place] for place in places}

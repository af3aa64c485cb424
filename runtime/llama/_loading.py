"""Load a GGUF file as a model and a context of llama.cpp, with parameters from ``LlamaOptions`` and the machine."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

from runtime.errors import LoadCancelledError, ModelFileError, ModelOptionsError
from runtime.files import UnusableFileError, check_regular
from runtime.llama.options import MOST_SEQUENCES, WHOLE_TYPES, Adapter, CacheType, LlamaOptions, Rope
from runtime.models.gguf_header import check_gguf
from runtime.models.lazy_package import import_lazily
from runtime.protocol.backend import CACHE_BYTES, CONVERSATIONS, DEFAULT_CONTEXT, FEWEST_SEQUENCES, SEQUENCES

import_lazily("llama_cpp")
import llama_cpp.llama_cpp as native  # noqa: E402  after the line above, which saves 0.2 s of it

BATCH = 512
"""Tokens evaluated in one batch: llama.cpp's own physical batch size; a larger one is not faster."""

CPU_CHUNK = 128
"""Prompt tokens between two reply tokens, without a GPU. It delays the next reply token by a quarter of a batch's
time, at almost no cost for the prompt. A GPU evaluates a whole batch in about the time of one token.
"""

PLAIN_BATCH = 256
"""Tokens per batch without flash attention: a larger batch is not faster then, and takes memory for each token of the
context.
"""

SHORT_CONTEXT, NARROW_HEAD = 512, 64
"""Flash attention is faster on a CPU too up to these limits: see docs/concepts/scheduler.md."""

SEPARATE_BYTES = 4 * 1024**3
"""Memory for ``CONVERSATIONS`` sequences with separate cells on a CPU, unless it exceeds a quarter of the total. A pool
may take ``CACHE_BYTES``: there a sequence costs only its cells.
"""

DRAFTING, GUESSES = False, 32
"""Whether drafting is on by default, and the number of guessed tokens in a batch."""

SMALL_MODEL_BYTES = 64 * 1024 * 1024
"""Below this size one thread is fastest: the barrier between threads costs more than the shared work."""

MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""The memory limit of the control group, as a container sees it."""

LOG_ERROR = 4
"""``GGML_LOG_LEVEL_ERROR`` of ggml.h; the bindings do not export it."""

recent_errors: deque[str] = deque(maxlen=8)
"""Errors that llama.cpp logged since this was last cleared."""


@native.llama_log_callback  # type: ignore[untyped-decorator]  # ctypes has no type for it
def keep_errors(level: int, text: bytes, _data: Any) -> None:
    """Record llama.cpp's error messages; passed to ``llama_log_set``."""
    if level == LOG_ERROR:
        recent_errors.append(text.decode("utf-8", "replace").strip())


TYPES: dict[CacheType, tuple[int, float]] = {
    "f32": (0, 32), "f16": (1, 16), "bf16": (30, 16), "q8_0": (8, 8.5), "q5_1": (7, 6), "q5_0": (6, 5.5),
    "q4_1": (3, 5), "q4_0": (2, 4.5), "iq4_nl": (20, 4.5),
}  # fmt: skip
"""Number of each type in ``enum ggml_type`` of ggml.h (the bindings export most), and its bits per value, including the
block scales.
"""

BF16 = b"AVX512_BF16 = 1"
"""llama.cpp's system information for a CPU with bfloat16 instructions, if compiled to use them."""


@frozen
class Sizes:
    """The size and layout of a context."""

    context: int
    cells: int
    sequences: int
    recurrent: bool
    """Whether the model is recurrent or hybrid: then a sequence cannot be cut."""
    unified: bool
    flash_attention: bool | None
    """None leaves the choice to llama.cpp, which uses it if the device supports it."""
    guesses: int
    key_type: CacheType
    value_type: CacheType

    @property
    def all_sequences(self) -> int:
        """The plan's sequences plus one: a part of a sequence is copied there to save it. Recurrent models have no
        extra one, since only a whole recurrent state can be saved.
        """
        return self.sequences + (not self.recurrent)

    @property
    def streams(self) -> int:
        """The number of separate parts of the cache."""
        return 1 if self.unified else self.all_sequences

    @property
    def outputs(self) -> int:
        """Maximum rows of a batch with logits."""
        return self.all_sequences + self.guesses

    @property
    def batch(self) -> int:
        return min(PLAIN_BATCH if self.flash_attention is False else BATCH, self.cells)


def open_model(path: Path, options: LlamaOptions, on_progress: Callable[[float], bool]) -> Any:
    """Load the weights.

    Raises:
        ModelFileError: llama.cpp cannot load it (the message contains its reason), or would abort the process.
        LoadCancelledError: ``on_progress`` returned False.
    """
    cancelled = False

    @native.llama_progress_callback  # type: ignore[untyped-decorator]  # ctypes has no type for it
    def progress(fraction: float, _data: Any) -> bool:
        nonlocal cancelled
        cancelled = cancelled or not on_progress(fraction)
        return not cancelled

    check_gguf(path)
    params = native.llama_model_default_params()
    params.n_gpu_layers = -1 if options.gpu_layers is None else options.gpu_layers  # negative: all
    params.load_mode = _load_mode(options, params.load_mode)
    params.progress_callback = progress
    recent_errors.clear()
    model = native.llama_model_load_from_file(os.fsencode(path), params)
    if model:
        return model
    if cancelled:
        raise LoadCancelledError(f"loading {path} was cancelled", spec=str(path))
    told = f"llama.cpp can't load {path} ({reason()}); the file may be cut short or of a newer kind"
    raise ModelFileError(f"{told}: fetch it again, or update llama-cpp-python", spec=str(path))


def _load_mode(options: LlamaOptions, default: int) -> int:
    if options.mlock:
        return int(native.LLAMA_LOAD_MODE_MLOCK if options.mmap is False else native.LLAMA_LOAD_MODE_MMAP_MLOCK)
    if options.mmap is None:
        return default
    return int(native.LLAMA_LOAD_MODE_MMAP if options.mmap else native.LLAMA_LOAD_MODE_NONE)


def sizes(model: Any, path: Path, options: LlamaOptions, context_tokens: int | None) -> Sizes:
    """Plan the size and layout of the cache.

    Raises:
        ModelOptionsError: fewer cells than one conversation needs, or than there are sequences; or the layout does not
            fit this model.
    """
    context = context_tokens or min(native.llama_model_n_ctx_train(model), DEFAULT_CONTEXT)
    recurrent = bool(native.llama_model_is_recurrent(model) or native.llama_model_is_hybrid(model))
    if options.cells is not None and options.cells < context:
        told = f"LlamaOptions.cells={options.cells} has no room for one conversation of {context} tokens"
        raise ModelOptionsError(f"{told}; allow more, or set context_tokens lower", spec=str(path))
    if recurrent and options.unified is False:
        told = "LlamaOptions.unified=False is not for recurrent and hybrid models, such as this one"
        raise ModelOptionsError(f"{told}; leave it out", spec=str(path))
    on_cpu = options.gpu_layers == 0 or not native.llama_supports_gpu_offload()
    separate = min(SEPARATE_BYTES, max(CACHE_BYTES, physical_memory() // 4)) if on_cpu else CACHE_BYTES
    room = int(separate // (context * _cell_bytes(model, options)))
    room = min(room - 1, MOST_SEQUENCES) if options.cells is None else options.cells // context
    unified = recurrent or room < (options.sequences or CONVERSATIONS) if options.unified is None else options.unified
    if unified:
        cells, sequences = _pool(model, path, options, context, recurrent=recurrent)
    else:
        sequences = options.sequences or _separate(model, options, context)
        cells = sequences * context
    flash = options.flash_attention
    if flash is None and on_cpu and not unified and options.value_type in WHOLE_TYPES:
        flash = None if context <= SHORT_CONTEXT and _head(model) <= NARROW_HEAD else False
    drafting = DRAFTING if options.drafting is None else options.drafting
    guesses = GUESSES if drafting and not recurrent else 0
    usual: CacheType = "bf16" if on_cpu and flash is False and BF16 in native.llama_print_system_info() else "f16"
    types = options.key_type or usual, options.value_type or usual
    planned = Sizes(context, cells, sequences, recurrent, unified, flash, guesses, *types)
    if sequences > planned.batch:
        told = f"LlamaOptions.sequences={sequences} are more than the {planned.batch} tokens of a batch"
        raise ModelOptionsError(told, spec=str(path))
    return planned


def _pool(model: Any, path: Path, options: LlamaOptions, context: int, *, recurrent: bool) -> tuple[int, int]:
    cells = options.cells or max(context, min(CONVERSATIONS * context, int(CACHE_BYTES // _cell_bytes(model, options))))
    if options.sequences is not None:
        return cells, options.sequences
    most = max(FEWEST_SEQUENCES, CACHE_BYTES // _state_bytes(model, path)) if recurrent else SEQUENCES
    return cells, min(most, SEQUENCES, cells)


def _separate(model: Any, options: LlamaOptions, context: int) -> int:
    if options.cells is not None:
        return min(options.cells // context, SEQUENCES)
    room = int(CACHE_BYTES // (context * _cell_bytes(model, options))) - 1
    return max(CONVERSATIONS, min(room, SEQUENCES))


def _cell_bytes(model: Any, options: LlamaOptions) -> float:
    """Upper bound of cache bytes per token: counts every layer, also those without attention."""
    layers, heads = native.llama_model_n_layer(model), native.llama_model_n_head_kv(model)
    bits = sum(TYPES[kind or "f16"][1] for kind in (options.key_type, options.value_type))
    return max(1.0, int(layers * heads * _head(model)) * bits / 8)


def _head(model: Any) -> int:
    head = int(native.llama_model_n_embd(model) // max(1, native.llama_model_n_head(model)))
    architecture = meta_text(model, b"general.architecture")
    for name in ("key_length", "value_length"):  # where heads are wider than that
        text = meta_text(model, f"{architecture}.attention.{name}".encode())
        head = max(head, int(text) if text.isdecimal() else 0)
    return head


def _state_bytes(model: Any, path: Path) -> int:
    """Bytes of the state of one sequence of a recurrent model, measured, since llama.cpp has no function for it.

    It evaluates one token in a separate context.
    """
    params = native.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 32
    context = _create_context(model, params, path)
    try:
        token = (native.llama_token * 1)(0)
        if native.llama_decode(context, native.llama_batch_get_one(token, 1)):
            raise ModelFileError(f"llama.cpp can't evaluate a token with {path} ({reason()})", spec=str(path))
        return int(native.llama_state_seq_get_size_ext(context, 0, native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY))
    finally:
        native.llama_free(context)


def open_context(model: Any, path: Path, options: LlamaOptions, planned: Sizes, threads: int | None) -> Any:
    """Create the context: the cache, the compute buffers and the adapters.

    Raises:
        ModelFileError: llama.cpp cannot create it; the message contains its reason.
        ModelOptionsError: an adapter cannot be loaded.
    """
    params = native.llama_context_default_params()
    params.n_ctx = planned.cells if planned.unified else planned.streams * planned.context
    params.n_seq_max = planned.all_sequences
    params.n_batch = params.n_ubatch = planned.batch
    # Else there is memory for the logits of every token of a batch.
    params.n_outputs_max = planned.outputs
    params.n_outputs_max_per_seq = 1 + planned.guesses
    params.kv_unified = planned.unified
    params.n_threads = threads or (1 if path.stat().st_size < SMALL_MODEL_BYTES else physical_cores())
    params.n_threads_batch = options.batch_threads or params.n_threads
    params.no_perf = True
    params.type_k = TYPES[planned.key_type][0]
    params.type_v = TYPES[planned.value_type][0]
    if planned.flash_attention is not None:
        params.flash_attn_type = int(planned.flash_attention)  # -1, the default: where the device has it
    if options.rope is not None:
        _set_rope(params, options.rope)
    context = _create_context(model, params, path)
    try:
        _add_adapters(model, context, options.adapters)
    except BaseException:
        native.llama_free(context)
        raise
    return context


def _create_context(model: Any, params: Any, path: Path) -> Any:
    recent_errors.clear()
    context = native.llama_init_from_model(model, params)
    if not context:
        told = f"llama.cpp can't make a cache of {params.n_ctx} tokens for {path} ({reason()})"
        raise ModelFileError(f"{told}; try a smaller context_tokens, or other options", spec=str(path))
    return context


def _set_rope(params: Any, rope: Rope) -> None:
    scaling = None if rope.scaling is None else getattr(native, f"LLAMA_ROPE_SCALING_TYPE_{rope.scaling.upper()}")
    values = {
        "rope_scaling_type": scaling,
        "rope_freq_base": rope.base,
        "rope_freq_scale": rope.scale,
        "yarn_orig_ctx": rope.original_context,
        "yarn_ext_factor": rope.extrapolation,
        "yarn_attn_factor": rope.attention,
        "yarn_beta_fast": rope.beta_fast,
        "yarn_beta_slow": rope.beta_slow,
    }
    for name, value in values.items():
        if value is not None:
            setattr(params, name, value)


def _add_adapters(model: Any, context: Any, adapters: tuple[Adapter, ...]) -> None:
    """Load the adapters; the model owns and frees them."""
    if not adapters:
        return
    loaded = (native.llama_adapter_lora_p_ctypes * len(adapters))()
    scales = (ctypes.c_float * len(adapters))(*[adapter.scale for adapter in adapters])
    for place, adapter in enumerate(adapters):
        try:
            check_regular(adapter.path)
        except UnusableFileError as error:
            raise ModelOptionsError(f"the adapter {error}", spec=str(adapter.path)) from error
        except OSError as error:
            raise ModelOptionsError(f"there is no adapter {adapter.path}", spec=str(adapter.path)) from error
        check_gguf(adapter.path)
        recent_errors.clear()
        made: Any = native.llama_adapter_lora_init(model, os.fsencode(adapter.path))
        if not made:
            told = f"llama.cpp can't load the adapter {adapter.path} ({reason()})"
            needed = "it has to be a LoRA adapter in a GGUF file, made for this model"
            raise ModelOptionsError(f"{told}; {needed}", spec=str(adapter.path))
        loaded[place] = made
    if native.llama_set_adapters_lora(context, loaded, len(adapters), scales):
        raise ModelOptionsError(f"llama.cpp can't apply the adapters ({reason()})", spec=str(adapters[0].path))


def physical_cores() -> int:
    """Return the number of physical cores: llama.cpp gets slower with hyper-threads. Falls back to Python's count."""
    cores: set[tuple[str, str]] = set()
    for topology in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology"):
        with contextlib.suppress(OSError):
            package = (topology / "physical_package_id").read_text("ascii").strip()
            cores.add((package, (topology / "core_id").read_text("ascii").strip()))
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(len(cores), allowed) if cores else allowed


def physical_memory() -> int:
    """Return the bytes that this process may use: the machine's memory, or less if a Linux control group limits it.

    Returns 0 if the system does not report it.
    """
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # the first on Windows
        return 0
    try:
        return min(there, int(MEMORY_LIMIT.read_text("ascii")))
    except (OSError, ValueError):  # no such file, or "max"
        return there


def reason() -> str:
    """Return llama.cpp's last errors. The first line is the cause; later lines only report that loading failed."""
    return recent_errors[0] if recent_errors else "it gives no reason"


def meta_text(model: Any, key: bytes) -> str:
    """Return a value of the file's header as text; empty if missing."""
    buffer = ctypes.create_string_buffer(256)
    length = native.llama_model_meta_val_str(model, key, buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if length > 0 else ""

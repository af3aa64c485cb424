"""Load-time options of llama.cpp: plain values, checked before native code sees them.

Omitted options follow from the model and the machine. Context length and threads are arguments of
``runtime.load_model``, since other backends use them too. Each option names llama.cpp's own parameter
(``llama_model_params``, ``llama_context_params`` of its ``llama.h``).
"""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, field, frozen

from cognition.base.checking import checked_with, show
from runtime.errors import ModelOptionsError

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
"""Types of cache values that llama.cpp has kernels for."""


WHOLE_TYPES: tuple[CacheType | None, ...] = ("f32", "f16", "bf16", None)
"""The types that are not quantised; None is the default."""

Scaling = Literal["none", "linear", "yarn", "longrope"]

MOST_SEQUENCES = 255
"""One less than llama.cpp's ``LLAMA_MAX_SEQ``: the last sequence is for saving a part of another one."""


def _at_least(least: float) -> Any:
    def check(options: Any, attribute: Attribute[Any], value: Any) -> None:
        if value is not None and not (math.isfinite(value) and value >= least):
            span = f" of at least {least}" if math.isfinite(least) else ""
            raise ModelOptionsError(f"{_name(options, attribute)} must be a number{span}, not {value!r}")

    return check


def _whole(least: int, most: int | None = None) -> Any:
    def check(options: Any, attribute: Attribute[Any], value: Any) -> None:
        if value is not None and (value < least or (most or value) < value):
            span = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise ModelOptionsError(f"{_name(options, attribute)} must be a whole number {span}, not {value!r}")

    return check


def _name(options: Any, attribute: Attribute[Any]) -> str:
    return f"{type(options).__name__}.{attribute.name}"


@checked_with(ModelOptionsError)
@frozen(kw_only=True)
class Rope:
    """RoPE settings that override the model's own, mostly for longer contexts.

    None uses the value of the model's file. Sources: linear scaling https://arxiv.org/abs/2306.15595, YaRN
    https://arxiv.org/abs/2309.00071.
    """

    scaling: Scaling | None = None
    """``rope_scaling_type``."""
    base: float | None = field(default=None, validator=_at_least(1))
    """``rope_freq_base``, such as 10000."""
    scale: float | None = field(default=None, validator=_at_least(1e-6))
    """``rope_freq_scale``: factor of positions; 0.25 extends a context to four times its length."""
    original_context: int | None = field(default=None, validator=_whole(1))
    """``yarn_orig_ctx``: tokens that the model was trained on before scaling."""
    extrapolation: float | None = field(default=None, validator=_at_least(0))
    """``yarn_ext_factor``: 0 interpolates everywhere, 1 is full YaRN."""
    attention: float | None = field(default=None, validator=_at_least(0))
    """``yarn_attn_factor``: factor of attention."""
    beta_fast: float | None = field(default=None, validator=_at_least(0))
    """``yarn_beta_fast``: rotations within the original context above this are not interpolated."""
    beta_slow: float | None = field(default=None, validator=_at_least(0))
    """``yarn_beta_slow``: rotations below this are fully interpolated."""


def _as_path(value: object) -> Path:
    if not isinstance(value, str | PathLike):
        raise ModelOptionsError(f"Adapter.path must be a file, not {show(value)}")
    return Path(value)


@checked_with(ModelOptionsError)
@frozen
class Adapter:
    """A LoRA adapter: a GGUF file for this model (created by ``convert_lora_to_gguf.py`` of llama.cpp)."""

    path: Path = field(converter=_as_path)
    """The file."""
    scale: float = field(default=1.0, validator=_at_least(-math.inf))
    """Factor of its change; 0 switches it off, 1 is as trained."""


@checked_with(ModelOptionsError)
@frozen(kw_only=True)
class LlamaOptions:
    """Options of llama.cpp. The defaults suit most programs.

    Raises:
        ModelOptionsError: a value is out of range, or two conflict.
    """

    unified: bool | None = None
    """Whether all conversations share one pool of cells, or each has separate cells for the full length
    (``kv_unified``; ``docs/concepts/scheduler.md#two-layouts`` compares them). None: separate cells if eight
    conversations of full length fit into 4 GiB and a quarter of the memory (1 GiB with a GPU), or into ``cells``.
    Recurrent and hybrid models always use one pool.
    """
    sequences: int | None = field(default=None, validator=_whole(1, MOST_SEQUENCES))
    """Conversations in the cache, running and retained (``n_seq_max``). None: 32 in a pool; for recurrent and hybrid
    models 4 to 32, as many as fit into 1 GiB; with separate cells 8 to 32, those beyond 8 only if they fit into 1 GiB.
    """
    cells: int | None = field(default=None, validator=_whole(2))
    """Tokens in the cache for all conversations together (``n_ctx``); tokens shared in a pool count once. At least
    ``context_tokens``. None: eight conversations of full length, or in a pool as many as fit into 1 GiB.
    """
    gpu_layers: int | None = field(default=None, validator=_whole(0))
    """Layers on the GPU (``n_gpu_layers``). None: all, if there is a GPU; 0: none."""
    flash_attention: bool | None = None
    """``flash_attn_type``. None: on if the device supports it. CPUs are an exception, since there it is slower for
    short prompts after long ones. On a CPU it is on only in a pool, with quantised values, or with a context of at most
    512 tokens and heads of at most 64 numbers.
    """
    key_type: CacheType | None = None
    """Type of cached keys (``type_k``). ``q8_0`` halves their memory at almost no loss. None: ``f16``, but ``bf16``
    without flash attention on a CPU that multiplies it (AVX-512 BF16): most models were trained in it, and it is up to
    a tenth faster.
    """
    value_type: CacheType | None = None
    """Type of cached values (``type_v``). A quantised type needs flash attention. None: the type of the keys."""
    batch_threads: int | None = field(default=None, validator=_whole(1))
    """Threads for batches of many tokens (``n_threads_batch``). None: the same as for one token, which is the number of
    physical cores unless ``load_model(threads=...)`` sets another.
    """
    mmap: bool | None = None
    """Whether weights stay in their file and are paged in (``load_mode``). None: the best for the device. False reads
    them into memory, for files that change or are on slow network drives.
    """
    mlock: bool = False
    """Whether to lock the weights in memory against swapping; the system limits it (``ulimit -l``)."""
    rope: Rope | None = None
    """None: the settings of the model's file."""
    drafting: bool | None = None
    """Whether to guess the next tokens of a reply from the context and evaluate them together
    (``docs/concepts/scheduler.md#drafting``). The reply is the same. None: off.
    """
    adapters: tuple[Adapter, ...] = ()
    """LoRA adapters, added to the weights in the order given."""

    def __attrs_post_init__(self) -> None:
        if self.value_type not in WHOLE_TYPES and self.flash_attention is False:
            raise ModelOptionsError(
                f"LlamaOptions.value_type={self.value_type!r} needs flash attention; leave flash_attention out"
            )

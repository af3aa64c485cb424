"""What can be set of llama.cpp when a model is loaded: plain values, checked before native code sees them.

What is left out follows from the model and the machine. Context length and threads are arguments of
``runtime.load_model``, since they mean something to other backends too. The names of llama.cpp's own parameters
(``llama_model_params``, ``llama_context_params`` of its ``llama.h``) stand beside each option.
"""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from attrs import Attribute, field, frozen

from cognition.checking import checked_with, shown
from runtime.errors import ModelOptionsError

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
"""The types of the cache's numbers for which llama.cpp has kernels."""

CACHE_TYPES: tuple[CacheType, ...] = get_args(CacheType)

WHOLE_TYPES: tuple[CacheType | None, ...] = ("f32", "f16", "bf16", None)
"""The types that are not quantised; None stands for the default."""

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
    """How positions are encoded, where the model's own way is not what is wanted: mostly for longer contexts.

    None leaves what the model's file says. Sources: linear scaling https://arxiv.org/abs/2306.15595, YaRN
    https://arxiv.org/abs/2309.00071.
    """

    scaling: Scaling | None = None
    """``rope_scaling_type``."""
    base: float | None = field(default=None, validator=_at_least(1))
    """``rope_freq_base``, such as 10000."""
    scale: float | None = field(default=None, validator=_at_least(1e-6))
    """``rope_freq_scale``: what positions are multiplied by; 0.25 makes a context four times as long."""
    original_context: int | None = field(default=None, validator=_whole(1))
    """``yarn_orig_ctx``: tokens that the model was trained on before it was scaled."""
    extrapolation: float | None = field(default=None, validator=_at_least(0))
    """``yarn_ext_factor``: 0 interpolates everywhere, 1 is full YaRN."""
    attention: float | None = field(default=None, validator=_at_least(0))
    """``yarn_attn_factor``: what attention is multiplied by."""
    beta_fast: float | None = field(default=None, validator=_at_least(0))
    """``yarn_beta_fast``: rotations within the original context from which on a dimension is not interpolated."""
    beta_slow: float | None = field(default=None, validator=_at_least(0))
    """``yarn_beta_slow``: rotations up to which a dimension is interpolated fully."""


def _as_path(value: object) -> Path:
    if not isinstance(value, str | PathLike):
        raise ModelOptionsError(f"Adapter.path must be a file, not {shown(value)}")
    return Path(value)


@checked_with(ModelOptionsError)
@frozen
class Adapter:
    """A LoRA adapter: a GGUF file made for the model (``convert_lora_to_gguf.py`` of llama.cpp makes one)."""

    path: Path = field(converter=_as_path)
    """The file."""
    scale: float = field(default=1.0, validator=_at_least(-math.inf))
    """What its change is multiplied by; 0 switches it off, 1 is as it was trained."""


@checked_with(ModelOptionsError)
@frozen(kw_only=True)
class LlamaOptions:
    """Options of llama.cpp. Every default is what most programs want.

    Raises:
        ModelOptionsError: a value is out of its range, or two don't go together.
    """

    unified: bool | None = None
    """Whether all conversations share one pool of cells, or each has cells of its own for the full length
    (``kv_unified``; ``docs/scheduler.md#two-layouts`` compares them). None: cells of their own, where eight
    conversations of full length have room in 4 GiB and a quarter of the memory (1 GiB with a GPU), or in ``cells``. Of
    recurrent and hybrid models it is always one pool."""
    sequences: int | None = field(default=None, validator=_whole(1, MOST_SEQUENCES))
    """Conversations that the cache tells apart, those that run and those kept for later (``n_seq_max``). None: 32 in a
    pool, of recurrent and hybrid models as many as 1 GiB has room for, from 4 to 32; with cells of their own from 8 to
    32, those beyond 8 as far as 1 GiB has room."""
    cells: int | None = field(default=None, validator=_whole(2))
    """Tokens that the cache holds for all conversations together (``n_ctx``), those that they share in a pool counted
    once; no fewer than ``context_tokens``. None: eight conversations of full length, or in a pool what 1 GiB has room
    for."""
    gpu_layers: int | None = field(default=None, validator=_whole(0))
    """Layers on the GPU (``n_gpu_layers``). None: all of them, if a GPU is there; 0: none."""
    flash_attention: bool | None = None
    """``flash_attn_type``. None: where the device has it, but on a processor only in a pool, with quantised values, or
    with a context of at most 512 tokens and heads of at most 64 numbers, since it is slower there for short prompts
    behind long ones."""
    key_type: CacheType | None = None
    """How the cache keeps keys (``type_k``). ``q8_0`` halves their memory at nearly no loss. None: ``bf16``, which most
    models were trained in, without flash attention on a processor that multiplies it (AVX-512 BF16), since that is up
    to a tenth faster; else ``f16``."""
    value_type: CacheType | None = None
    """How the cache keeps values (``type_v``). A quantised one needs flash attention. None: as for keys."""
    batch_threads: int | None = field(default=None, validator=_whole(1))
    """Threads for batches of many tokens (``n_threads_batch``). None: as many as for one token, which are the physical
    cores unless ``load_model(threads=...)`` says otherwise."""
    mmap: bool | None = None
    """Whether weights stay in their file and are paged in (``load_mode``). None: what suits the device. False reads
    them into memory, for files that change or sit on slow network drives."""
    mlock: bool = False
    """Whether weights are kept from being swapped out; the system limits it (``ulimit -l``)."""
    rope: Rope | None = None
    """None: what the model's file says."""
    drafting: bool | None = None
    """Whether the next tokens of a reply are guessed from what the context holds, and evaluated together
    (``docs/scheduler.md#drafting``): the reply is the same. None: where it was found to help."""
    adapters: tuple[Adapter, ...] = ()
    """LoRA adapters, added to the weights in the order given."""

    def __attrs_post_init__(self) -> None:
        if self.value_type not in WHOLE_TYPES and self.flash_attention is False:
            raise ModelOptionsError(
                f"LlamaOptions.value_type={self.value_type!r} needs flash attention; leave flash_attention out"
            )

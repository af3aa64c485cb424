"""GGUF files of half a megabyte with random weights: of attention, recurrent and hybrid models, and adapters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np

DIM, FFN, LAYERS, HEADS, HEAD, STATE, CONV, RANK = 64, 96, 3, 2, 32, 8, 4, 4
INNER = 2 * DIM  # llama.cpp reads no other Mamba
CONTEXT = 4096

Kind = Literal["qwen3", "mamba", "jamba"]
"""Attention only; recurrent only; both in turns."""

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_letters() -> list[str]:
    """GPT-2's letters for the 256 bytes."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]


SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCABULARY = [*byte_letters(), "Ġt", *SPECIAL]


def write_model(
    file: Path,
    kind: Kind = "qwen3",
    *,
    seed: int = 1,
    template: str | list[dict[str, str]] = TEMPLATE,
    control: Sequence[str] = (),
    defined: Sequence[str] = (),
) -> Path:
    """A model whose tokens are bytes; the same one for the same seed. ``control``, ``defined``: tokens besides."""
    rng = np.random.default_rng(seed)
    kinds = {token: int(gguf.TokenType.NORMAL) for token in VOCABULARY}
    kinds |= dict.fromkeys([*SPECIAL, *control], int(gguf.TokenType.CONTROL))
    kinds |= dict.fromkeys(defined, int(gguf.TokenType.USER_DEFINED))

    def matrix(*shape: int, scale: float = 0.2) -> Any:
        return rng.standard_normal(shape, np.float32) * np.float32(scale)

    writer = gguf.GGUFWriter(file, kind)
    recurrent = {"qwen3": [False] * LAYERS, "mamba": [True] * LAYERS, "jamba": [True, False, True]}[kind]
    writer.add_name(f"tiny {kind}")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(DIM)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(0 if kind == "mamba" else FFN)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(kinds))
    if kind == "mamba":
        writer.add_head_count(0)
    else:
        writer.add_head_count(HEADS)
        writer.add_head_count_kv([0 if one else HEADS for one in recurrent])
        writer.add_key_length(HEAD)
        writer.add_value_length(HEAD)
    if any(recurrent):
        writer.add_ssm_conv_kernel(CONV)
        writer.add_ssm_inner_size(INNER)
        writer.add_ssm_state_size(STATE)
        writer.add_ssm_time_step_rank(RANK)
    _add_vocabulary(writer, kinds)
    writer.add_chat_template(template)
    # Wide, so that what is likeliest is likeliest by far, and the same however the batch is cut.
    writer.add_tensor("token_embd.weight", matrix(len(kinds), DIM, scale=1.0))
    for layer, of_states in enumerate(recurrent):
        tensors = {"attn_norm": np.ones(DIM, np.float32)}
        if of_states:
            tensors |= {
                "ssm_in": matrix(2 * INNER, DIM),
                "ssm_conv1d": matrix(INNER, CONV),
                "ssm_x": matrix(RANK + 2 * STATE, INNER),
                "ssm_dt": matrix(INNER, RANK),
                "ssm_out": matrix(DIM, INNER),
            }
            writer.add_tensor(f"blk.{layer}.ssm_conv1d.bias", matrix(INNER))
            writer.add_tensor(f"blk.{layer}.ssm_dt.bias", matrix(INNER))
            writer.add_tensor(f"blk.{layer}.ssm_a", -np.abs(matrix(INNER, STATE)) - np.float32(0.01))
            writer.add_tensor(f"blk.{layer}.ssm_d", matrix(INNER))
        else:
            for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
                tensors[name] = matrix(HEADS * HEAD, DIM)
        if kind == "qwen3":
            tensors |= {name: np.ones(HEAD, np.float32) for name in ("attn_q_norm", "attn_k_norm")}
        if kind == "jamba" and of_states:
            tensors |= {"ssm_dt_norm": np.ones(RANK, np.float32)}
            tensors |= {name: np.ones(STATE, np.float32) for name in ("ssm_b_norm", "ssm_c_norm")}
        if kind != "mamba":
            tensors |= {
                "ffn_norm": np.ones(DIM, np.float32),
                "ffn_gate": matrix(FFN, DIM),
                "ffn_up": matrix(FFN, DIM),
                "ffn_down": matrix(DIM, FFN),
            }
        for name, array in tensors.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", array)
    writer.add_tensor("output_norm.weight", np.ones(DIM, np.float32))
    _finish(writer)
    return file


def write_adapter(file: Path, *, seed: int = 2, dim: int = DIM, strength: float = 0.5) -> Path:
    """A LoRA adapter of rank 4 for the attention of ``write_model(kind="qwen3")``."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(file, "qwen3")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 4.0)
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_v"):
            down = rng.standard_normal((4, dim), np.float32) * np.float32(strength)
            up = rng.standard_normal((HEADS * HEAD, 4), np.float32) * np.float32(strength)
            writer.add_tensor(f"blk.{layer}.{name}.weight.lora_a", down)
            writer.add_tensor(f"blk.{layer}.{name}.weight.lora_b", up)
    _finish(writer)
    return file


def _add_vocabulary(writer: Any, kinds: dict[str, int]) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(list(kinds))
    writer.add_token_types(list(kinds.values()))
    writer.add_token_merges(["Ġ t"])
    writer.add_bos_token_id(VOCABULARY.index("<|endoftext|>"))
    writer.add_eos_token_id(VOCABULARY.index("<|im_end|>"))
    writer.add_add_bos_token(False)


def _finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

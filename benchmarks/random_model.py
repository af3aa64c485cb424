"""A model with random weights, which runs exactly as fast as a trained one: Qwen3's shape, as GGUF and as MLX files.

98 million parameters, with a vocabulary of the shipped model's tokens and made-up ones up to 32,000, since what a mask
costs depends on how many tokens there are. The tokenizer, the chat template and all token types are the shipped
model's, so that prompts and calls look the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from runtime.specs import SMALL_MODEL

DIM, LAYERS, HEADS, KV_HEADS, HEAD, FFN, VOCABULARY, CONTEXT = 704, 14, 11, 1, 64, 2112, 32_000, 4096
TENSORS = {
    "self_attn.q_proj": ("attn_q", (HEADS * HEAD, DIM)),
    "self_attn.k_proj": ("attn_k", (KV_HEADS * HEAD, DIM)),
    "self_attn.v_proj": ("attn_v", (KV_HEADS * HEAD, DIM)),
    "self_attn.o_proj": ("attn_output", (DIM, HEADS * HEAD)),
    "mlp.gate_proj": ("ffn_gate", (FFN, DIM)),
    "mlp.up_proj": ("ffn_up", (FFN, DIM)),
    "mlp.down_proj": ("ffn_down", (DIM, FFN)),
}
NORMS = {
    "input_layernorm": ("attn_norm", DIM),
    "self_attn.q_norm": ("attn_q_norm", HEAD),
    "self_attn.k_norm": ("attn_k_norm", HEAD),
    "post_attention_layernorm": ("ffn_norm", DIM),
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_random_model(folder: Path) -> tuple[Path, Path, int]:
    """The GGUF file, the MLX directory, and how many parameters there are."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    weights: dict[tuple[str, str], np.ndarray[Any, np.dtype[np.float32]]] = {}

    def matrix(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return rng.standard_normal(shape, np.float32) * np.float32(0.02)

    weights["model.embed_tokens.weight", "token_embd.weight"] = matrix(VOCABULARY, DIM)
    for layer in range(LAYERS):
        for theirs, (ours, shape) in TENSORS.items():
            weights[f"model.layers.{layer}.{theirs}.weight", f"blk.{layer}.{ours}.weight"] = matrix(*shape)
        for theirs, (ours, size) in NORMS.items():
            weights[f"model.layers.{layer}.{theirs}.weight", f"blk.{layer}.{ours}.weight"] = np.ones(size, np.float32)
    weights["model.norm.weight", "output_norm.weight"] = np.ones(DIM, np.float32)
    tokenizer = _tokenizer()
    template = json.loads((SMALL_MODEL / "mlx" / "tokenizer_config.json").read_text("utf-8"))["chat_template"]
    file = folder / "random-q8_0.gguf"
    _write_gguf(file, {ours: array for (_, ours), array in weights.items()}, tokenizer, template)
    _write_mlx(folder / "mlx", {theirs: array for (theirs, _), array in weights.items()}, tokenizer)
    return file, folder / "mlx", sum(array.size for array in weights.values())


def _tokenizer() -> dict[str, Any]:
    """The shipped model's, with words that no merge makes up to the size of the vocabulary."""
    tokenizer: dict[str, Any] = json.loads((SMALL_MODEL / "mlx" / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    taken = set(vocabulary.values()) | {added["id"] for added in tokenizer["added_tokens"]}
    rng = np.random.default_rng(2)
    free = (number for number in range(VOCABULARY) if number not in taken)
    for number in free:
        word = "Ġ" * int(rng.integers(2)) + "".join(rng.choice(list(LETTERS), size=int(rng.integers(3, 9))))
        while word in vocabulary:
            word += str(rng.choice(list(LETTERS)))
        vocabulary[word] = number
    return tokenizer


def _write_mlx(folder: Path, weights: dict[str, Any], tokenizer: dict[str, Any]) -> None:
    from safetensors.numpy import save_file

    folder.mkdir(exist_ok=True)
    shipped = json.loads((SMALL_MODEL / "mlx" / "config.json").read_text("utf-8"))
    sizes = {
        "hidden_size": DIM,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "intermediate_size": FFN,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "max_window_layers": LAYERS,
    }
    (folder / "config.json").write_text(json.dumps({**shipped, **sizes}), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    for name in ("tokenizer_config.json", "generation_config.json"):
        (folder / name).write_bytes((SMALL_MODEL / "mlx" / name).read_bytes())
    halves = {name: array.astype(np.float16) for name, array in weights.items()}
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})


def _write_gguf(file: Path, weights: dict[str, Any], tokenizer: dict[str, Any], template: str) -> None:
    added = {token["id"]: token for token in tokenizer["added_tokens"]}
    names = {number: token for token, number in tokenizer["model"]["vocab"].items()}
    names |= {number: token["content"] for number, token in added.items()}
    ids = {token: number for number, token in names.items()}
    writer = gguf.GGUFWriter(file, "qwen3")
    writer.add_name("random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(DIM)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([names[number] for number in range(VOCABULARY)])
    kinds = gguf.TokenType
    writer.add_token_types(
        [
            int(
                kinds.NORMAL
                if number not in added
                else kinds.CONTROL
                if added[number]["special"]
                else kinds.USER_DEFINED
            )
            for number in range(VOCABULARY)
        ]
    )
    writer.add_token_merges([one if isinstance(one, str) else " ".join(one) for one in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(ids["<|endoftext|>"])
    writer.add_eos_token_id(ids["<|im_end|>"])
    writer.add_eot_token_id(ids["<|im_end|>"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)
    for name, array in weights.items():
        if array.ndim == 1:
            writer.add_tensor(name, array)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

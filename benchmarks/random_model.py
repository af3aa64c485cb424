"""Models with random weights, which run exactly as fast as trained ones: Qwen3's shape, as GGUF and as MLX files.

The vocabulary is the shipped model's and made-up words, since what a mask or a sampler costs depends on how many tokens
there are. The tokenizer, the chat template and all token types are the shipped model's, so that prompts and calls look
the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from attrs import frozen

from runtime.models.specs import SMALL_MODEL

FOLDER = Path(__file__).resolve().parent / ".models"
"""Where ``cached_model`` keeps them."""


@frozen
class Shape:
    """What a model of Qwen3's kind is made of."""

    name: str
    dim: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocabulary: int
    context: int = 8192

    @property
    def tensors(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """The matrices of a layer: MLX's name, GGUF's name, and rows and columns."""
        inner, outer = self.heads * self.head, self.kv_heads * self.head
        return {
            "self_attn.q_proj": ("attn_q", (inner, self.dim)),
            "self_attn.k_proj": ("attn_k", (outer, self.dim)),
            "self_attn.v_proj": ("attn_v", (outer, self.dim)),
            "self_attn.o_proj": ("attn_output", (self.dim, inner)),
            "mlp.gate_proj": ("ffn_gate", (self.ffn, self.dim)),
            "mlp.up_proj": ("ffn_up", (self.ffn, self.dim)),
            "mlp.down_proj": ("ffn_down", (self.dim, self.ffn)),
        }

    @property
    def norms(self) -> dict[str, tuple[str, int]]:
        """The vectors of a layer, likewise."""
        return {
            "input_layernorm": ("attn_norm", self.dim),
            "self_attn.q_norm": ("attn_q_norm", self.head),
            "self_attn.k_norm": ("attn_k_norm", self.head),
            "post_attention_layernorm": ("ffn_norm", self.dim),
        }


SMALL = Shape("0.1b", dim=704, layers=14, heads=11, kv_heads=1, head=64, ffn=2112, vocabulary=32_000)
"""98 million parameters."""
LARGE = Shape("0.6b", dim=1024, layers=28, heads=16, kv_heads=8, head=128, ffn=3072, vocabulary=151_936)
"""596 million parameters: Qwen3-0.6B."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def cached_model(shape: Shape) -> Path:
    """The GGUF file of such a model, written at the first call; 0.6 GB for the large one."""
    file, stamp = FOLDER / shape.name / "random-q8_0.gguf", FOLDER / shape.name / "made-of"
    parts = [(SMALL_MODEL / "mlx" / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")]
    made_of = hashlib.sha256(b"".join([repr(shape).encode(), *parts])).hexdigest()
    if not stamp.is_file() or stamp.read_text("utf-8") != made_of:
        write_random_model(file.parent, shape, mlx=False)
        stamp.write_text(made_of, "utf-8")
    return file


def write_random_model(folder: Path, shape: Shape = SMALL, *, mlx: bool = True) -> tuple[Path, Path, int]:
    """The GGUF file, the MLX directory, and how many parameters there are."""
    folder.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = {}
    for_mlx: dict[str, Any] = {}
    parameters = 0
    for theirs, ours, array in _weights(shape):
        parameters += array.size
        if mlx:
            for_mlx[theirs] = array.astype(np.float16)
        kept[ours] = array if array.ndim == 1 else gguf.quants.quantize(array, gguf.GGMLQuantizationType.Q8_0)
    tokenizer = tokenizer_of(shape.vocabulary)
    template = json.loads((SMALL_MODEL / "mlx" / "tokenizer_config.json").read_text("utf-8"))["chat_template"]
    file = folder / "random-q8_0.gguf"
    _write_gguf(file, shape, kept, tokenizer, template)
    if mlx:
        _write_mlx(folder / "mlx", shape, for_mlx, tokenizer)
    return file, folder / "mlx", parameters


def _weights(shape: Shape) -> Iterator[tuple[str, str, Any]]:
    """Each tensor with MLX's and GGUF's name for it."""
    rng = np.random.default_rng(1)

    def matrix(*sizes: int) -> Any:
        return rng.standard_normal(sizes, np.float32) * np.float32(0.02)

    yield "model.embed_tokens.weight", "token_embd.weight", matrix(shape.vocabulary, shape.dim)
    for layer in range(shape.layers):
        for theirs, (ours, sizes) in shape.tensors.items():
            yield f"model.layers.{layer}.{theirs}.weight", f"blk.{layer}.{ours}.weight", matrix(*sizes)
        for theirs, (ours, size) in shape.norms.items():
            yield f"model.layers.{layer}.{theirs}.weight", f"blk.{layer}.{ours}.weight", np.ones(size, np.float32)
    yield "model.norm.weight", "output_norm.weight", np.ones(shape.dim, np.float32)


def tokenizer_of(size: int) -> dict[str, Any]:
    """The shipped model's, with words that no merge makes up to the size of the vocabulary."""
    tokenizer: dict[str, Any] = json.loads((SMALL_MODEL / "mlx" / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    taken = set(vocabulary.values()) | {added["id"] for added in tokenizer["added_tokens"]}
    rng = np.random.default_rng(2)
    free = (number for number in range(size) if number not in taken)
    for number in free:
        word = "Ġ" * int(rng.integers(2)) + "".join(rng.choice(list(LETTERS), size=int(rng.integers(3, 9))))
        while word in vocabulary:
            word += str(rng.choice(list(LETTERS)))
        vocabulary[word] = number
    return tokenizer


def _write_mlx(folder: Path, shape: Shape, weights: dict[str, Any], tokenizer: dict[str, Any]) -> None:
    from safetensors.numpy import save_file

    folder.mkdir(exist_ok=True)
    shipped = json.loads((SMALL_MODEL / "mlx" / "config.json").read_text("utf-8"))
    sizes = {
        "hidden_size": shape.dim,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "intermediate_size": shape.ffn,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "max_window_layers": shape.layers,
    }
    (folder / "config.json").write_text(json.dumps({**shipped, **sizes}), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    for name in ("tokenizer_config.json", "generation_config.json"):
        (folder / name).write_bytes((SMALL_MODEL / "mlx" / name).read_bytes())
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _write_gguf(file: Path, shape: Shape, weights: dict[str, Any], tokenizer: dict[str, Any], template: str) -> None:
    added = {token["id"]: token for token in tokenizer["added_tokens"]}
    names = {number: token for token, number in tokenizer["model"]["vocab"].items()}
    names |= {number: token["content"] for number, token in added.items()}
    ids = {token: number for number, token in names.items()}
    writer = gguf.GGUFWriter(file, "qwen3")
    writer.add_name("random")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([names[number] for number in range(shape.vocabulary)])
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
            for number in range(shape.vocabulary)
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
            writer.add_tensor(name, array, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

"""Writes trained weights as GGUF (Q8_0, for llama.cpp) and as an MLX / Hugging Face directory (F16).

Every file is written beside its place and then renamed, so that a program that reads meanwhile sees a whole one.

    python -m training.export training/runs/second.pt                       # into runtime/small_model
    python -m training.export training/runs/second.pt --out /tmp/try --f16  # elsewhere, with an F16 GGUF as well
"""

import argparse
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Quantization, GGUFWriter, LlamaFileType, TokenType
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from training import tokenizer

NAME = "small-tools-qwen3"
DESTINATION = Path(__file__).parent.parent / "runtime" / "small_model"
TEMPLATE = Path(__file__).with_name("template.jinja")
GGUF_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}

Weights = dict[str, Tensor]


def template() -> str:
    return TEMPLATE.read_text(encoding="utf-8").rstrip("\n")


def gguf_name(name: str) -> str:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest.removesuffix('.weight')]}.weight"


def write_mlx(folder: Path, weights: Weights, c: dict[str, Any], tk: Tokenizer) -> None:
    """An MLX directory, which is a Hugging Face one: config, generation config, weights, tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    end, pad = tokenizer.id_of(tk, "<|im_end|>"), tokenizer.id_of(tk, "<|endoftext|>")
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "eos_token_id": [end, pad],
        "pad_token_id": pad,
        "head_dim": c["head_dim"],
        "hidden_act": "silu",
        "hidden_size": c["dim"],
        "initializer_range": 0.02,
        "intermediate_size": c["ffn"],
        "max_position_embeddings": c["context"],
        "max_window_layers": c["layers"],
        "num_attention_heads": c["heads"],
        "num_hidden_layers": c["layers"],
        "num_key_value_heads": c["kv_heads"],
        "rms_norm_eps": c["eps"],
        "rope_theta": c["theta"],
        "rope_scaling": None,
        "sliding_window": None,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "use_cache": True,
        "vocab_size": c["vocab"],
    }
    fields = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    added = json.loads(tk.to_str())["added_tokens"]
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "added_tokens_decoder": {str(t["id"]): {k: t[k] for k in fields} for t in added},
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": c["context"],
        "split_special_tokens": False,
        "chat_template": template(),
    }
    generation = {"eos_token_id": [end, pad], "pad_token_id": pad, "do_sample": False}
    contents = {"config": config, "generation_config": generation, "tokenizer_config": tokenizer_config}
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    half = {name: tensor.to(torch.float16).contiguous() for name, tensor in weights.items()}
    save_file(half, folder / "model.safetensors", metadata={"format": "pt"})
    tk.save(str(folder / "tokenizer.json"), pretty=False)


def write_gguf(file: Path, weights: Weights, c: dict[str, Any], tk: Tokenizer, kind: Quantization) -> None:
    added = {t["id"]: t for t in json.loads(tk.to_str())["added_tokens"]}
    names = {i: token for token, i in tk.get_vocab().items()}
    end, pad = tokenizer.id_of(tk, "<|im_end|>"), tokenizer.id_of(tk, "<|endoftext|>")

    def token_type(i: int) -> int:
        if i not in added:
            return int(TokenType.NORMAL)
        if "unused" in added[i]["content"]:
            return int(TokenType.UNUSED)
        # Tags such as <tool_call> stay visible in generated text: they are not control tokens.
        return int(TokenType.CONTROL if added[i]["special"] else TokenType.USER_DEFINED)

    w = GGUFWriter(file, "qwen3")
    w.add_type("model")
    w.add_name(NAME)
    w.add_size_label(f"{sum(t.numel() for t in weights.values()) / 1e6:.1f}M")
    w.add_context_length(c["context"])
    w.add_embedding_length(c["dim"])
    w.add_block_count(c["layers"])
    w.add_feed_forward_length(c["ffn"])
    w.add_head_count(c["heads"])
    w.add_head_count_kv(c["kv_heads"])
    w.add_key_length(c["head_dim"])  # else llama.cpp takes dim / heads, which this model's heads are not
    w.add_value_length(c["head_dim"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_rope_freq_base(c["theta"])
    w.add_layer_norm_rms_eps(c["eps"])
    w.add_vocab_size(c["vocab"])
    w.add_file_type(LlamaFileType.MOSTLY_F16 if kind == Quantization.F16 else LlamaFileType.MOSTLY_Q8_0)
    w.add_quantization_version(2)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list([names[i] for i in range(c["vocab"])])
    w.add_token_types([token_type(i) for i in range(c["vocab"])])
    merges = json.loads(tk.to_str())["model"]["merges"]
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    w.add_bos_token_id(pad)  # else llama.cpp assumes id 11; it is never added
    w.add_eos_token_id(end)
    w.add_eot_token_id(end)
    w.add_pad_token_id(pad)
    w.add_add_bos_token(False)
    w.add_add_space_prefix(False)
    w.add_chat_template(template())
    for name, tensor in weights.items():
        array = tensor.numpy()
        if array.ndim == 1:
            w.add_tensor(gguf_name(name), array.astype(np.float32))  # norms stay F32, as llama.cpp expects
        elif kind == Quantization.F16:
            w.add_tensor(gguf_name(name), array.astype(np.float16))
        else:
            w.add_tensor(gguf_name(name), gguf.quants.quantize(array, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main() -> None:
    p = argparse.ArgumentParser(
        prog="python -m training.export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("checkpoint", type=Path)
    p.add_argument("--out", type=Path, default=DESTINATION)
    p.add_argument("--f16", action="store_true", help="also write an F16 GGUF")
    a = p.parse_args()
    loaded = torch.load(a.checkpoint)
    weights = {name: tensor.float() for name, tensor in loaded["weights"].items()}
    config, tk = loaded["config"], tokenizer.load()
    new = a.out / ".new"
    shutil.rmtree(new, ignore_errors=True)
    write_mlx(new / "mlx", weights, config, tk)
    write_gguf(new / f"{NAME}-q8_0.gguf", weights, config, tk, Quantization.Q8_0)
    if a.f16:
        write_gguf(new / f"{NAME}-f16.gguf", weights, config, tk, Quantization.F16)
    for made in sorted(f for f in new.rglob("*") if f.is_file()):
        place = a.out / made.relative_to(new)
        place.parent.mkdir(parents=True, exist_ok=True)
        made.chmod(0o644)  # safetensors are written for their owner alone
        os.replace(made, place)
        print(f"{place.stat().st_size:>9}  {hashlib.sha256(place.read_bytes()).hexdigest()[:16]}  {place}")
    shutil.rmtree(new)


if __name__ == "__main__":
    main()

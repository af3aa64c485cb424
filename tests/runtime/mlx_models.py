"""Tiny MLX models with random weights, one of each kind of cache that mlx-lm has, and the shipped model's tokenizer."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from runtime.models.specs import SMALL_MODEL

VOCABULARY = 1408

COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}
KINDS: dict[str, dict[str, Any]] = {
    "attention": {"model_type": "qwen3", "num_hidden_layers": 2, "rope_theta": 10_000.0},
    "quantised": {
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "rope_theta": 10_000.0,
        "quantization": {"group_size": 32, "bits": 4},
    },
    "windows": {
        "model_type": "gemma3_text",
        "num_hidden_layers": 2,
        "sliding_window_pattern": 2,
        "sliding_window": 12,
        "query_pre_attn_scalar": 16,
    },
    "hybrid": {
        "model_type": "jamba",
        "num_hidden_layers": 2,
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_d_conv": 4,
        "mamba_d_state": 8,
        "mamba_expand": 2,
        "num_experts": 1,
        "num_experts_per_tok": 1,
    },
    "hybrid layers": {
        "model_type": "falcon_h1",
        "num_hidden_layers": 2,
        "mamba_d_ssm": 64,
        "mamba_d_state": 8,
        "mamba_d_head": 16,
        "mamba_n_heads": 4,
        "embedding_multiplier": 1.0,
        "lm_head_multiplier": 1.0,
    },
    "recurrent": {
        "model_type": "mamba2",
        "num_hidden_layers": 2,
        "num_heads": 4,
        "head_dim": 16,
        "state_size": 8,
        "layer_norm_epsilon": 1e-5,
        "conv_kernel": 4,
        "n_groups": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_limit": [0.0, 100.0],
        "time_step_rank": "auto",
    },
    "chunks": {
        "model_type": "llama4",
        "text_config": {
            **COMMON,
            "model_type": "llama4_text",
            "num_hidden_layers": 4,
            "attention_bias": False,
            "attention_chunk_size": 12,
            "interleave_moe_layer_step": 100,
            "intermediate_size_mlp": 64,
            "num_experts_per_tok": 1,
            "num_local_experts": 1,
            "rope_scaling": None,
            "rope_theta": 10_000.0,
            "use_qk_norm": True,
        },
    },
}
"""By what their caches hold, or weights; the last one is of a kind that mlx-lm makes no batches of."""


FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3": KINDS["attention"],
    "llama": {"model_type": "llama", "num_hidden_layers": 2, "rope_theta": 10_000.0},
    "llama4": KINDS["chunks"],
    "gemma2": {
        "model_type": "gemma2",
        "num_hidden_layers": 2,
        "query_pre_attn_scalar": 16.0,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    "gemma3": KINDS["windows"],
    "gpt_oss": {
        "model_type": "gpt_oss",
        "num_hidden_layers": 2,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "sliding_window": 12,
        "rope_theta": 10_000,
        "rope_scaling": None,
        "layer_types": ["sliding_attention", "full_attention"],
    },
}
"""Those that docs/guides/your-own-model.md speaks of."""


def write_tiny_model(folder: Path, kind: str) -> Path:
    """The model's directory. The weights are large enough for the model to have opinions, and the same each time."""
    import mlx.core as mx
    from mlx.nn import quantize
    from mlx.utils import tree_flatten, tree_map

    config = {**COMMON, **(KINDS | FAMILIES)[kind]}
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(7)
    model = module.Model(module.ModelArgs.from_dict(config))
    model.update(tree_map(lambda array: array * 4 if array.ndim == 2 else array, model.parameters()))
    if "quantization" in config:  # as `mlx_lm.convert -q` does
        quantize(model, **config["quantization"])
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (folder / name).write_bytes((SMALL_MODEL / "mlx" / name).read_bytes())
    return folder

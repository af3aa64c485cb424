"""Models with random weights in the shape of Qwen3: they run exactly as fast as trained ones, and say nothing.

    python benchmarks/random_model.py 0.1 random-0.1b.gguf

Weights are Q8_0. The tokenizer is byte-level BPE with a single merge: any text can be written, nearly always a token a
byte; the rest of the vocabulary stands for made-up words. The template is ChatML, with calls as Hermes models have.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy
from attrs import frozen
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType

VOCABULARY = 32_000
TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}
{% endif %}<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools>
{"name": <function-name>, "arguments": <args-json-object>}<|im_end|>
{% endif %}{% for message in messages %}{% if not (tools and loop.first and message.role == 'system') %}\
<|im_start|>{{ message.role }}
{{ message.content }}{% for call in message.tool_calls %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@frozen
class Shape:
    """Of a transformer; sizes in numbers."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    """Width of the feed-forward layers."""
    context: int = 40_960


SHAPES = {
    "tiny": Shape(width=64, layers=2, heads=2, kv_heads=1, head=32, inner=128),
    "0.1": Shape(width=640, layers=14, heads=10, kv_heads=2, head=64, inner=1920),
    "0.6": Shape(width=1024, layers=28, heads=16, kv_heads=8, head=128, inner=3072),
}
"""By billions of parameters; 0.6 is Qwen3-0.6B but for its vocabulary. The tiny one is for tests."""


def write_model(file: Path, shape: Shape, *, vocabulary: int = VOCABULARY, seed: int = 0) -> None:
    """Write a GGUF file.

    Args:
        file: where to.
        shape: the sizes.
        vocabulary: tokens, at least 256 + 4.
        seed: of the weights.
    """
    writer = GGUFWriter(file, "qwen3")
    writer.add_type("model")
    writer.add_name(f"random-{file.stem}")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(vocabulary)
    writer.add_file_type(LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(2)
    _add_tokenizer(writer, vocabulary)
    _add_weights(writer, shape, vocabulary, seed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: GGUFWriter, vocabulary: int) -> None:
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    # GPT-2's alphabet of bytes, as in runtime/pieces.py
    alphabet = [chr(byte) for byte in printable] + [chr(256 + index) for index in range(len(others))]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    words = [f"w{number}" for number in range(vocabulary - len(alphabet) - len(special))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*alphabet, *words, *special])
    kinds = [TokenType.NORMAL] * (vocabulary - len(special)) + [TokenType.CONTROL] * len(special)
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_token_merges(["w 0"])  # llama.cpp wants one at least
    writer.add_bos_token_id(vocabulary - 3)
    writer.add_eos_token_id(vocabulary - 1)
    writer.add_eot_token_id(vocabulary - 1)
    writer.add_pad_token_id(vocabulary - 3)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)


def _add_weights(writer: GGUFWriter, shape: Shape, vocabulary: int, seed: int) -> None:
    random = numpy.random.default_rng(seed)

    def matrix(name: str, rows: int, columns: int) -> None:
        # This spread keeps activations of the size of their input, as trained weights do.
        values = random.standard_normal((rows, columns), dtype=numpy.float32) / numpy.sqrt(columns)
        kind = GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    def norm(name: str, size: int) -> None:
        writer.add_tensor(name, numpy.ones(size, numpy.float32))

    matrix("token_embd.weight", vocabulary, shape.width)
    for layer in range(shape.layers):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm.weight", shape.width)
        matrix(f"{block}.attn_q.weight", shape.heads * shape.head, shape.width)
        matrix(f"{block}.attn_k.weight", shape.kv_heads * shape.head, shape.width)
        matrix(f"{block}.attn_v.weight", shape.kv_heads * shape.head, shape.width)
        matrix(f"{block}.attn_output.weight", shape.width, shape.heads * shape.head)
        norm(f"{block}.attn_q_norm.weight", shape.head)
        norm(f"{block}.attn_k_norm.weight", shape.head)
        norm(f"{block}.ffn_norm.weight", shape.width)
        matrix(f"{block}.ffn_gate.weight", shape.inner, shape.width)
        matrix(f"{block}.ffn_up.weight", shape.inner, shape.width)
        matrix(f"{block}.ffn_down.weight", shape.width, shape.inner)
    norm("output_norm.weight", shape.width)


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    options.add_argument("size", choices=SHAPES, help="billions of parameters, about")
    options.add_argument("file", type=Path)
    chosen = options.parse_args()
    write_model(chosen.file, SHAPES[chosen.size])


if __name__ == "__main__":
    main()

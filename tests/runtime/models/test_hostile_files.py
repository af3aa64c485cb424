"""Model files from anybody: what native code would abort at, or never end over, is refused before it is read.

A line of the tables is a case.
"""

from __future__ import annotations

import json
import math
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import ModelFileError, ModelLoadError
from runtime.models.gguf_header import TOKENS, check_gguf, read_gguf_header
from runtime.models.mlx_files import check_mlx_directory, read_mlx_directory
from runtime.models.specs import SMALL_MODEL

UINT32, FLOAT32, TEXT, ARRAY, UINT64 = 4, 6, 8, 9, 10


def text(content: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(content) if length is None else length) + content


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key.encode()) + struct.pack("<I", kind) + value


def whole(key: str, value: int) -> bytes:
    return pair(key, UINT32, struct.pack("<I", value))


def real(key: str, value: float) -> bytes:
    return pair(key, FLOAT32, struct.pack("<f", value))


def array(inner: int, count: int, items: bytes = b"") -> bytes:
    return struct.pack("<IQ", inner, count) + items


def tensor_info(name: bytes, *sizes: int, kind: int = 0) -> bytes:
    sizes = sizes or (32,)
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, 0)


def gguf(*pairs: bytes, count: int | None = None, tensors: int = 0) -> bytes:
    return struct.pack("<4sIQQ", b"GGUF", 3, tensors, len(pairs) if count is None else count) + b"".join(pairs)


KIND = pair("general.architecture", TEXT, text(b"qwen3"))
HEADS = {
    "no layers": gguf(KIND, whole("qwen3.block_count", 0)),
    "more layers than llama.cpp has room for": gguf(KIND, whole("qwen3.block_count", 513)),
    "layers beyond all measure": gguf(KIND, whole("qwen3.block_count", 2**32 - 1)),
    "layers that are a text": gguf(KIND, pair("qwen3.block_count", TEXT, text(b"7"))),
    "no context": gguf(KIND, whole("qwen3.context_length", 0)),
    "a context below zero, as native code counts": gguf(KIND, whole("qwen3.context_length", 2**31)),
    "no width": gguf(KIND, whole("qwen3.embedding_length", 0)),
    "positions in no dimension": gguf(KIND, whole("qwen3.rope.dimension_count", 0)),
    "positions in an odd one": gguf(KIND, whole("qwen3.rope.dimension_count", 3)),
    "positions in more than a head has": gguf(
        KIND, whole("qwen3.rope.dimension_count", 64), whole("qwen3.attention.key_length", 32)
    ),
    "positions in more than a share has": gguf(
        KIND,
        whole("qwen3.rope.dimension_count", 64),
        whole("qwen3.embedding_length", 128),
        whole("qwen3.attention.head_count", 4),
    ),
    "an epsilon that is no number": gguf(KIND, real("qwen3.attention.layer_norm_rms_epsilon", math.nan)),
    "an epsilon below zero": gguf(KIND, real("qwen3.attention.layer_norm_rms_epsilon", -1.0)),
    "a base without end": gguf(KIND, real("qwen3.rope.freq_base", math.inf)),
    "more pairs than there are": gguf(KIND, count=2),
    "pairs without end": gguf(KIND, count=2**63),
    "a text that goes on": gguf(pair("a", TEXT, text(b"", 2**63))),
    "a key that goes on": gguf(text(b"a", 2**64 - 1)),
    "a text of the file's length": gguf(pair("a", TEXT, text(b"", 60))),
    "a list without end": gguf(pair("a", ARRAY, array(UINT32, 2**63))),
    "a list of texts without end": gguf(pair("a", ARRAY, array(TEXT, 2**64 - 1))),
    "a list of lists without end": gguf(pair("a", ARRAY, array(ARRAY, 2**62))),
    "lists in lists in lists": gguf(pair("a", ARRAY, array(ARRAY, 1) * 1000)),
    "empty lists without end": gguf(pair("a", ARRAY, array(ARRAY, 2**20, array(UINT32, 0) * 10))),
    "a value of no type": gguf(pair("a", 13, b"")),
    "a list of no type": gguf(pair("a", ARRAY, array(99, 1))),
    "tensors without end": gguf(KIND, tensors=2**63),
    "more tensors than there are": gguf(KIND, tensor_info(b"a"), count=1, tensors=2),
    "a tensor of a hundred sizes": gguf(KIND, text(b"a") + struct.pack("<I", 100), count=1, tensors=1),
    "a norm in eight bits": gguf(KIND, tensor_info(b"output_norm.weight", kind=8), count=1, tensors=1),
    "a norm in half precision": gguf(KIND, tensor_info(b"output_norm.weight", kind=1), count=1, tensors=1),
    "a token twice": gguf(KIND, pair(TOKENS, ARRAY, array(TEXT, 2, text(b"a") * 2))),
    "a token twice, up to a NUL": gguf(KIND, pair(TOKENS, ARRAY, array(TEXT, 2, text(b"a\0b") + text(b"a\0c")))),
    "a token that is named as one of no text": gguf(
        KIND, pair(TOKENS, ARRAY, array(TEXT, 2, text(b"[EMPTY_1]") + text(b"")))
    ),
    "tokens that are numbers": gguf(KIND, pair(TOKENS, ARRAY, array(UINT32, 1, bytes(4)))),
    "tokens without end": gguf(KIND, pair(TOKENS, ARRAY, array(TEXT, 2**62))),
    "nothing": b"",
    "another file": b"GGML" + bytes(100),
}


@pytest.mark.parametrize("what", HEADS)
def test_a_head_that_native_code_would_stumble_over_is_refused(what: str, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(HEADS[what])
    twice = what.startswith("a token twice") or what == "a token that is named as one of no text"
    why = "is in its vocabulary twice, and llama.cpp refuses that; use another file" if twice else "fetch it again"
    with pytest.raises(ModelFileError, match=why):
        check_gguf(tmp_path / "m.gguf")


def test_heads_that_are_right_pass(tmp_path: Path) -> None:
    """That of the shipped model, one with bytes that are no UTF-8, and one that ends with its last pair."""
    for file in SMALL_MODEL.glob("*.gguf"):
        check_gguf(file)
    (tmp_path / "m.gguf").write_bytes(
        gguf(KIND, pair(TOKENS, ARRAY, array(TEXT, 4, text(b"\xff") + text(b"\xfe") + text(b"") + text(b"\0"))))
    )
    check_gguf(tmp_path / "m.gguf")
    (tmp_path / "m.gguf").write_bytes(gguf(KIND, pair("a", TEXT, text(b"\xff\xfe"))))
    check_gguf(tmp_path / "m.gguf")
    assert read_gguf_header(tmp_path / "m.gguf", {"a"}) == {"a": "\ufffd\ufffd"}


def test_every_cut_of_a_head_is_refused(tmp_path: Path) -> None:
    head = gguf(KIND, whole("qwen3.block_count", 7), pair("a", ARRAY, array(TEXT, 2, text(b"x") + text(b"y"))))
    for length in range(len(head)):
        (tmp_path / "m.gguf").write_bytes(head[:length])
        with pytest.raises(ModelFileError):
            check_gguf(tmp_path / "m.gguf")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SMALL_MODEL / "mlx", tmp_path / "model"))


DEEP = "[" * 200 + "]" * 200
JSON_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")


@pytest.mark.parametrize("file", JSON_FILES)
@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        f'{{"model_type": "qwen3", "a": {DEEP}}}',
        f'{{"model_type": "qwen3", "a": {"[" * 5000 + "]" * 5000}}}',
        "[]",
        "null",
        "1",
        '"text"',
        "",
        "\0",
        '{"model_type": "qwen3", "a": ' + "9" * 5000 + "}",
        b"\xff\xfe{}",
        '{"model_type": "qwen3"} and more',
    ],
    ids=lambda content: repr(content[:24]),
)
def test_json_that_is_none_or_nested_too_deeply_is_refused(directory: Path, file: str, content: str | bytes) -> None:
    (directory / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ModelFileError, match="fetch it again"):
        check_mlx_directory(directory, spec="")


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": 2**31},
        {"num_hidden_layers": 10**9},
        {"num_attention_heads": -(2**40)},
        {"num_experts": 10**8},
        {"hidden_size": 2**70},
        {"text_config": {"num_hidden_layers": 10**9}},
        {"layer_sizes": [1, 2, 10**9], "blocks": [{"n_blocks": 10**9}]},
    ],
    ids=str,
)
def test_numbers_beyond_all_models_are_refused(directory: Path, change: dict[str, Any]) -> None:
    """Else a model of that many layers would be built before its weights are looked at."""
    config = json.loads((directory / "config.json").read_text("utf-8"))
    (directory / "config.json").write_text(json.dumps(config | change), "utf-8")
    with pytest.raises(ModelFileError, match="beyond all models"):
        check_mlx_directory(directory, spec="")


@pytest.mark.parametrize("number", [2**31, 2**32 - 1, 2**62, -1, 2**64])
def test_a_token_of_a_number_beyond_all_vocabularies_is_refused(directory: Path, number: int) -> None:
    """Else a table up to that number would be made in native code, which ends the process where memory does."""
    tokenizer = json.loads((directory / "tokenizer.json").read_text("utf-8"))
    tokenizer["model"]["vocab"]["G"] = number
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    with pytest.raises(ModelFileError, match="beyond all vocabularies"):
        check_mlx_directory(directory, spec="")


def test_weights_that_are_a_link_to_itself_are_refused(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    (directory / "model.safetensors").symlink_to("model.safetensors")
    with pytest.raises(ModelFileError, match="fetch it again"):
        check_mlx_directory(directory, spec="")


def weights(header: Any, length: int | None = None, body: bytes = bytes(64)) -> bytes:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(content) if length is None else length) + content + body


def tensor(dtype: Any = "F32", shape: Any = (2, 2), begin: Any = 0, end: Any = 16) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


WEIGHTS = {
    "a header of no length": weights({}, 0),
    "a header beyond the file": weights({"a": tensor()}, 10_000),
    "a header without end": weights({"a": tensor()}, 2**64 - 1),
    "no tensors": weights({}),
    "no object": weights([]),
    "deep nesting": weights(b"[" * 100_000),
    "deep nesting within": weights(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    "no JSON": weights(b"rubbish"),
    "no UTF-8": weights(b'{"\xff": 1}'),
    "a type that is none": weights({"a": tensor("F99")}),
    "a type that is a number": weights({"a": tensor(5)}),
    "another type": weights({"a": tensor("F64")}),
    "a size below zero": weights({"a": tensor(shape=[-2, -2])}),
    "sizes beyond all measure": weights({"a": tensor(shape=[2**62, 4])}),
    "sizes that come round to the right number": weights({"a": tensor(shape=[2**32, 2**32, 2**2])}),
    "a size that is a text": weights({"a": tensor(shape="22")}),
    "a size with a fraction": weights({"a": tensor(shape=[2.0, 2])}),
    "a size that is true": weights({"a": tensor(shape=[True, 4])}),
    "no size": weights({"a": tensor(shape=None)}),
    "an offset below zero": weights({"a": tensor(begin=-16, end=0)}),
    "offsets the wrong way round": weights({"a": tensor(begin=16, end=0)}),
    "offsets beyond the file": weights({"a": tensor(begin=64, end=80)}),
    "offsets beyond all measure": weights({"a": tensor(begin=2**63, end=2**63 + 16)}),
    "three offsets": weights({"a": {**tensor(), "data_offsets": [0, 8, 16]}}),
    "offsets that are texts": weights({"a": tensor(begin="0", end="16")}),
    "no offsets": weights({"a": {"dtype": "F32", "shape": [2, 2]}}),
    "tensors that overlap": weights({"a": tensor(), "b": tensor(begin=8, end=24)}),
    "the same tensor twice": weights({"a": tensor(), "b": tensor()}),
    "words of the file that are none": weights({"a": tensor(), "__metadata__": {"a": {"b": 1}}}),
    "words of the file that are a number": weights({"a": tensor(), "__metadata__": 5}),
    "nothing": b"",
    "half a length": b"\0\0\0",
}


@pytest.mark.parametrize("what", WEIGHTS)
def test_weights_that_native_code_would_stumble_over_are_refused(directory: Path, what: str) -> None:
    (directory / "model.safetensors").write_bytes(WEIGHTS[what])
    with pytest.raises(ModelFileError, match="fetch it again"):
        check_mlx_directory(directory, spec="")


@pytest.mark.parametrize(
    "index",
    [
        [],
        {"weight_map": []},
        {"weight_map": {"a": 1}},
        {"weight_map": {"a": "../model.safetensors"}},
        {"weight_map": {"a": "/etc/passwd"}},
        {"weight_map": {"a": "other.safetensors"}},
    ],
    ids=str,
)
def test_an_index_names_files_of_its_directory(directory: Path, index: Any) -> None:
    (directory / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    with pytest.raises(ModelLoadError, match="fetch"):
        check_mlx_directory(directory, spec="")


@pytest.mark.parametrize("end", ["x", -1, 1.5, True, [None], ["a"], [[1]], 2**40, {"a": 1}], ids=str)
def test_an_end_that_is_no_token_is_refused(directory: Path, end: Any) -> None:
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": end}), "utf-8")
    with pytest.raises(ModelFileError, match="no whole number"):
        read_mlx_directory(directory)


def test_an_end_in_any_file_is_one(directory: Path) -> None:
    """Phi 3.5 has the end of a turn in config.json, and only the end of a text in generation_config.json."""
    config = json.loads((directory / "config.json").read_text("utf-8"))
    changed = {**config, "eos_token_id": [7, 8], "text_config": {"eos_token_id": 9}}
    (directory / "config.json").write_text(json.dumps(changed), "utf-8")
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": 0}), "utf-8")

    assert read_mlx_directory(directory).end_tokens == {0, 7, 8, 9}


def test_the_shipped_directory_passes() -> None:
    check_mlx_directory(SMALL_MODEL / "mlx", spec="")
    assert read_mlx_directory(SMALL_MODEL / "mlx").end_tokens

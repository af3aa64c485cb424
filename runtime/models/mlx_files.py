"""The files of an MLX directory (Hugging Face's layout): checks before loading, and metadata."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from attrs import frozen

from cognition import GenerationOptions
from cognition.base.checking import show
from cognition.base.strict_json import BoundedDecoder
from runtime.errors import ModelFileError, ModelNotFoundError
from runtime.files import UnusableFileError, check_regular, open_regular, read_regular
from runtime.protocol.sampling import options_from_json

LONGEST = 1 << 28
"""Maximum bytes of a file other than weights, 256 MiB: tokenizers of the largest vocabularies take about 40 MiB."""

LONGEST_HEADER = 100_000_000
"""Maximum bytes of the header of a weight file, from the format
(https://github.com/huggingface/safetensors/blob/main/safetensors/src/tensor.rs, ``MAX_HEADER_SIZE``).
"""

READ_WHOLE = frozenset({".json", ".jinja", ".model", ".txt", ".tiktoken"})
"""Files that we, or the libraries that load a tokenizer, read into memory."""


SHALLOW = BoundedDecoder(64)
"""Reads at most so many levels: later readers of a configuration may not check it."""

MOST = 2**31 - 1
"""Maximum of any count in a configuration."""

MOST_TOKENS = 1 << 22
"""Maximum token id of a vocabulary; the largest have about 260,000 tokens. Tables grow with the highest id."""

PARTS = ("layer", "block", "head", "expert", "group")
MOST_PARTS = 1 << 14
"""Maximum of a number that makes the model create as many objects or loop as often."""


@frozen
class MlxFiles:
    """The required metadata from the JSON files of a model's directory."""

    config: dict[str, Any]
    template: str | None
    plain_template: str | None
    """The source of another template for conversations without tools, or None."""
    bos_text: str
    eos_text: str
    end_tokens: frozenset[int]
    trained_context: int | None
    weight_bytes: int
    sampling: GenerationOptions = GenerationOptions()
    warnings: tuple[str, ...] = ()
    """Sampling options that were ignored as invalid."""


def check_mlx_directory(path: Path, *, spec: str) -> None:
    """Check that a directory can contain an MLX model, without importing MLX.

    Raises:
        ModelNotFoundError: no such directory, or its ``config.json`` or weights are missing.
        ModelFileError: they exist but are invalid.
    """
    check_files(path, spec=spec)
    if not (path / "config.json").is_file():
        files = sorted(file.name for file in path.glob("*.gguf"))
        hint = f"; for llama.cpp, name one of its files: {', '.join(files)}" if files else ""
        raise ModelNotFoundError(f"{path} is no MLX model: config.json is missing{hint}", spec=spec)
    config = read_json(path / "config.json", spec=spec)
    if "model_type" not in config:
        raise ModelFileError(f"{path / 'config.json'} names no model_type: it is no model's configuration", spec=spec)
    _check_sizes(path / "config.json", config, spec)
    for name in ("generation_config.json", "tokenizer_config.json"):
        read_json(path / name, spec=spec)
    _check_vocabulary(path / "tokenizer.json", spec)
    weights = sorted(path.glob("model*.safetensors"))
    if not weights:
        raise ModelNotFoundError(f"{path} holds no weights (model*.safetensors); fetch the whole directory", spec=spec)
    index = path / "model.safetensors.index.json"
    named = read_json(index, spec=spec).get("weight_map", {})
    if not isinstance(named, dict) or not all(isinstance(name, str) and "/" not in name for name in named.values()):
        raise ModelFileError(f"weight_map in {index} names no files; fetch it again", spec=spec)
    if missing := sorted(set(named.values()) - {file.name for file in weights}):
        raise ModelNotFoundError(f"{path} lacks {', '.join(missing)}; fetch the whole directory", spec=spec)
    for file in weights:
        _check_safetensors(file, spec)
    if not any((path / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "tokenizer_config.json")):
        raise ModelNotFoundError(f"{path} holds no tokenizer (tokenizer.json); fetch the whole directory", spec=spec)


def check_files(path: Path, *, spec: str = "") -> None:
    """Check that no file of a directory makes its reader hang or run out of memory: MLX and transformers open files by
    name. Symlinks, as in the hub's cache, may lead anywhere.

    Raises:
        ModelFileError: it contains a pipe, a device, a socket or an overlong file.
        OSError: it cannot be read.
    """
    for file in sorted(path.iterdir()):
        try:
            if not file.is_dir():
                check_regular(file, LONGEST if file.suffix in READ_WHOLE else None)
        except UnusableFileError as error:
            raise ModelFileError(f"{error}; fetch the model again", spec=spec) from error
        except OSError:  # a link that leads nowhere: whoever needs it says so
            continue


def read_mlx_directory(path: Path) -> MlxFiles:
    """Read the metadata of a checked directory.

    Raises:
        ModelFileError: a file is not a JSON object, or has a value of the wrong type.
    """
    config = read_json(path / "config.json")
    generation = read_json(path / "generation_config.json")
    tokenizer = read_json(path / "tokenizer_config.json")
    text_config = config.get("text_config") or {}
    if not isinstance(text_config, dict):
        raise ModelFileError(f"text_config in {path / 'config.json'} is no JSON object; fetch it again")
    template, plain = _choose_templates(path, _templates(path, tokenizer))
    named = [one.get("eos_token_id") for one in (generation, config, text_config)]
    ends = [end for one in named if one is not None for end in (one if isinstance(one, list) else [one])]
    sampling, wrong = options_from_json(generation)
    trained = config.get("max_position_embeddings") or text_config.get("max_position_embeddings")
    return MlxFiles(
        config=config,
        template=template,
        plain_template=plain,
        bos_text=_token_text(tokenizer.get("bos_token")),
        eos_text=_token_text(tokenizer.get("eos_token")),
        end_tokens=frozenset(_count(path, "eos_token_id", end) for end in ends),
        trained_context=_count(path, "max_position_embeddings", trained) if trained else None,
        weight_bytes=sum(file.stat().st_size for file in path.glob("model*.safetensors")),
        sampling=sampling,
        warnings=wrong,
    )


def read_json(path: Path, *, spec: str = "") -> dict[str, Any]:
    """Return the object in a JSON file; empty if there is no such file.

    Raises:
        ModelFileError: the file contains something else.
    """
    try:
        value = SHALLOW.decode(read_regular(path, LONGEST).decode())
    except FileNotFoundError:
        return {}
    except RecursionError as error:
        raise ModelFileError(f"{path} is nested too deeply; fetch it again", spec=spec) from error
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} can't be read as JSON ({error}); fetch it again", spec=spec) from error
    if not isinstance(value, dict):
        raise ModelFileError(f"{path} holds no JSON object; fetch it again", spec=spec)
    return value


def _check_sizes(path: Path, config: Any, spec: str) -> None:
    """Check that no number of a configuration makes mlx-lm build an endless model, before it compares the weights."""
    for name, value in enumerate(config) if isinstance(config, list) else config.items():
        if isinstance(value, dict | list):
            _check_sizes(path, value, spec)
        elif isinstance(value, int):
            most = MOST_PARTS if any(word in str(name) for word in PARTS) else 2**53
            if not -most <= value <= most:
                raise ModelFileError(f"{name} in {path} is {show(value)}, beyond all models; fetch it again", spec=spec)


def _check_vocabulary(path: Path, spec: str) -> None:
    model = read_json(path, spec=spec).get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict):  # a list gives its tokens their numbers by their places
        return
    for token, number in vocabulary.items():
        if isinstance(number, int) and not 0 <= number < MOST_TOKENS:
            raise ModelFileError(
                f"the token {show(token)} in {path} has the number {show(number)}, beyond all vocabularies; "
                "fetch it again",
                spec=spec,
            )


def _count(path: Path, name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise ModelFileError(f"{name} in the configuration in {path} is no whole number; fetch it again")
    return value


WIDTHS = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


def _check_safetensors(file: Path, spec: str) -> None:
    """Check a weight file: the header's length (8 bytes), the header (JSON), the tensors at the offsets in it.

    MLX does not check the header, so each tensor must have the right size, and no two may overlap.
    """
    try:
        with open_regular(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            (length,) = struct.unpack("<Q", stream.read(8).ljust(8, b"\xff"))
            header = stream.read(length) if length < min(size, LONGEST_HEADER) else b""
    except (UnusableFileError, PermissionError):
        raise
    except OSError as error:  # such as a link that leads to itself
        raise ModelFileError(f"{file} can't be read ({error.strerror}); fetch it again", spec=spec) from error
    try:
        tensors = json.loads(header)
        meta = tensors.pop("__metadata__", None) or {}  # MLX writes null where there is nothing to say
        places = sorted(_place(tensor) for tensor in tensors.values())
        end = 8 + length + places[-1][1]
        # The sums say it of neighbours: what begins before the one before it has ended lies in it.
        wrong = any(after[0] < before[1] for before, after in pairwise(places))
        if not all(isinstance(value, str) for value in meta.values()):
            raise ValueError("what is said of the file is no text")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
        raise ModelFileError(f"{file} is no safetensors file; fetch it again", spec=spec) from error
    if wrong:
        raise ModelFileError(f"{file} is no safetensors file: its tensors overlap; fetch it again", spec=spec)
    if size < end:
        raise ModelFileError(f"{file} is cut short: {size} of {end} bytes; fetch it again", spec=spec)


def _place(tensor: Any) -> tuple[int, int]:
    """Return the first and last offset of a tensor; raises ValueError or similar if invalid."""
    shape, (begin, end) = tensor["shape"], tensor["data_offsets"]
    numbers = [*shape, begin, end]
    if not all(type(number) is int and 0 <= number < 2**53 for number in numbers):
        raise ValueError("a number that is none")
    if end - begin != prod(shape) * WIDTHS[tensor["dtype"]]:
        raise ValueError("another number of bytes than its shape has")
    return begin, end


def named_templates(named: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the template to use, and the one to use without tools if it differs.

    Publishers name them ``default`` and ``tool_use``. A single template may have any name.
    """
    texts = {name: text for name, text in named.items() if isinstance(text, str)}
    default = texts.get("default")
    if default is None and len(texts) == 1:
        (default,) = texts.values()
    with_tools = texts.get("tool_use", default)
    return with_tools, None if default == with_tools else default


def _choose_templates(path: Path, named: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the templates to use; None only if the directory has no template at all.

    Raises:
        ModelFileError: a template is not a text, or none has a usable name.
    """
    given = {name: source for name, source in named.items() if source is not None}
    if odd := [name for name, source in given.items() if not isinstance(source, str)]:
        raise ModelFileError(f"the chat template {odd[0]!r} in {path} is no text; fetch it again")
    template, plain = named_templates(given)
    if given and template is None:
        names = ", ".join(sorted(given))
        raise ModelFileError(
            f"{path} has the chat templates {names}, and none called default or tool_use: it can't be told which to "
            "use; save the right one as chat_template.jinja there, and remove additional_chat_templates"
        )
    return template, plain


def _templates(path: Path, tokenizer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return all templates of a directory by name. As in transformers, template files override JSON files."""
    more = sorted((path / "additional_chat_templates").glob("*.jinja"))
    named: dict[str, Any] = {file.stem: _text(file) for file in more}
    if (path / "chat_template.jinja").is_file():
        named["default"] = _text(path / "chat_template.jinja")
    if named:
        return named
    found = tokenizer.get("chat_template") or read_json(path / "chat_template.json").get("chat_template")
    if isinstance(found, dict):
        return found
    if isinstance(found, list):
        entries = [entry if isinstance(entry, dict) else {"template": entry} for entry in found]
        return {str(entry.get("name")): entry.get("template") for entry in entries}
    return {"default": found}


def _text(file: Path) -> str:
    try:
        return read_regular(file, LONGEST).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{file} can't be read as text ({error}); fetch it again") from error


def _token_text(token: Any) -> str:
    """A token is written as a text, or as an object with ``content``."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else ""

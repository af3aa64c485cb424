"""A model's chat template is found without loading the model."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition import GenerationOptions, History, ModelRequest, ToolSpec, UserMessage
from runtime.errors import ModelFileError, ModelLoadError, ModelNotFoundError
from runtime.models.gguf_header import read_gguf_header
from runtime.models.mlx_files import check_mlx_directory, read_mlx_directory
from runtime.models.specs import SMALL_MODEL
from runtime.templates.files import BOS, EOS, TEMPLATE, TOKENS, TemplateFile, find_template, open_template

(SHIPPED,) = SMALL_MODEL.glob("*.gguf")

KINDS = {"B": 0, "b": 1, "H": 2, "h": 3, "I": 4, "i": 5, "f": 6, "?": 7, "Q": 10, "q": 11, "d": 12}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def number(kind: str, value: Any) -> bytes:
    return struct.pack("<I", KINDS[kind]) + struct.pack(f"<{kind}", value)


def texts(*values: str) -> bytes:
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def gguf(**pairs: bytes) -> bytes:
    """A GGUF file of pairs alone, the dots of their keys written as two underscores."""
    body = b"".join(text(key.replace("__", ".")) + value for key, value in pairs.items())
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, len(pairs)) + body


WHOLE = gguf(
    general__name=struct.pack("<I", 8) + text("tiny"),
    tokenizer__ggml__scores=struct.pack("<IIQ", 9, KINDS["f"], 3) + bytes(12),
    tokenizer__ggml__deep=struct.pack("<IIQIQ", 9, 9, 1, 8, 1) + text("x"),
    tokenizer__ggml__tokens=texts("<s>", "</s>", "é"),
    tokenizer__ggml__bos_token_id=number("I", 0),
    tokenizer__ggml__eos_token_id=number("I", 1),
    tokenizer__chat_template=struct.pack("<I", 8) + text("{{ messages }}"),
)


def test_a_gguf_file_tells_its_template_and_tokens(tmp_path: Path) -> None:
    """The template, and the texts that it may write as its first and last token."""
    path = tmp_path / "m.gguf"
    path.write_bytes(WHOLE)

    assert TemplateFile(str(path), "{{ messages }}", "<s>", "</s>") == find_template(str(path))


def test_a_gguf_file_may_tell_less(tmp_path: Path) -> None:
    """No template, no tokens, tokens of strange numbers: what is not there is empty."""
    path = tmp_path / "m.gguf"
    for content in (
        gguf(),
        gguf(tokenizer__ggml__bos_token_id=number("I", 7), tokenizer__ggml__tokens=texts("a")),
        gguf(tokenizer__ggml__bos_token_id=number("f", 0.0), tokenizer__ggml__tokens=texts("a")),
        gguf(tokenizer__chat_template=number("?", True), tokenizer__ggml__eos_token_id=number("b", -1)),
    ):
        path.write_bytes(content)

        assert TemplateFile(str(path), None) == find_template(str(path))


@pytest.mark.parametrize("kind", list(KINDS))
def test_numbers_of_all_kinds_are_read(kind: str, tmp_path: Path) -> None:
    """Alone and in lists."""
    path = tmp_path / "m.gguf"
    listed = struct.pack("<IIQ", 9, KINDS[kind], 2) + struct.pack(f"<2{kind}", 1, 0)
    path.write_bytes(gguf(one=number(kind, 1), more=listed))

    assert read_gguf_header(path, {"one", "more"}) == {"one": 1, "more": [1, 0]}
    assert read_gguf_header(path, {"one"}) == {"one": 1}


@given(cut=st.integers(0, len(WHOLE) - 1))
def test_a_file_that_is_cut_short_is_an_error(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Wherever it was cut."""
    path = tmp_path_factory.getbasetemp() / "cut.gguf"
    path.write_bytes(WHOLE[:cut])

    with pytest.raises(ModelFileError):
        read_gguf_header(path, {TEMPLATE, TOKENS, BOS, EOS})


@given(place=st.integers(0, len(WHOLE) - 1), byte=st.integers(0, 255))
def test_a_damaged_file_gives_a_result_or_an_error(
    place: int, byte: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One wrong byte anywhere raises nothing but the error that says so."""
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(WHOLE[:place] + bytes([byte]) + WHOLE[place + 1 :])
    try:
        find_template(str(path))
    except ModelLoadError as error:
        assert str(path) in str(error)  # noqa: PT017 - most damage raises nothing


def test_both_copies_of_the_shipped_model_have_one_template() -> None:
    """The default is the same whichever backend is installed."""
    gguf_file, directory = find_template(str(SHIPPED)), find_template(str(SMALL_MODEL / "mlx"))

    assert find_template(None).source == gguf_file.source == directory.source
    assert gguf_file.eos_text == directory.eos_text


def test_without_the_gguf_the_directory_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packagers may ship one of the two."""
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))

    assert find_template(None).origin.endswith("mlx")


def test_a_tokenizer_alone_has_a_template(tmp_path: Path) -> None:
    """A directory without weights, as tokenizers are saved."""
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": "{{ messages }}", "bos_token": "<s>", "eos_token": {"content": "</s>"}})
    )

    assert TemplateFile(str(tmp_path), "{{ messages }}", "<s>", "</s>") == find_template(str(tmp_path))


def test_a_model_without_a_template_has_none(tmp_path: Path) -> None:
    """A configuration is enough to be a model; the fallback serves it."""
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelNotFoundError, match="holds neither a model nor a chat template"):
        find_template(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "x"}')
    file = find_template(str(tmp_path))

    assert file.source is None
    assert open_template(file).format_spec().name == "hermes"


def test_a_template_is_a_file_of_text(tmp_path: Path) -> None:
    """Whatever its name; other files are refused."""
    path = tmp_path / "chat_template"
    path.write_text("{{ bos_token }}{{ messages[0].content }}")
    assert find_template(str(path)).source == "{{ bos_token }}{{ messages[0].content }}"

    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelFileError, match="neither a GGUF file nor a text"):
        find_template(str(path))


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its permissions are to be seen to."""

    def refuse(*_arguments: object, **_options: object) -> str:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "chat.jinja"
    path.write_text("{{ messages }}")
    monkeypatch.setattr("runtime.templates.files.open_regular", refuse)

    with pytest.raises(ModelFileError, match="may not be read \\(Permission denied\\); see to its permissions"):
        find_template(str(path))


# ---------------------------------------------------------------------------------------------------- several templates


PLAIN, TOOLS = "plain {{ messages }}", "tools {{ messages }}"
NAMED = [{"name": "default", "template": PLAIN}, {"name": "tool_use", "template": TOOLS}]


@pytest.mark.behaviour("T13_2")
@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"tokenizer_config.json": {"chat_template": NAMED}}, (TOOLS, PLAIN)),
        ({"tokenizer_config.json": {"chat_template": {"default": PLAIN, "tool_use": TOOLS}}}, (TOOLS, PLAIN)),
        ({"chat_template.json": {"chat_template": NAMED}}, (TOOLS, PLAIN)),
        ({"chat_template.jinja": PLAIN, "additional_chat_templates/tool_use.jinja": TOOLS}, (TOOLS, PLAIN)),
        ({"chat_template.jinja": PLAIN, "tokenizer_config.json": {"chat_template": NAMED}}, (PLAIN, None)),
        ({"tokenizer_config.json": {"chat_template": NAMED[:1]}}, (PLAIN, None)),
        ({"tokenizer_config.json": {"chat_template": NAMED[1:]}}, (TOOLS, None)),
        ({"tokenizer_config.json": {"chat_template": [{"name": "rag", "template": PLAIN}]}}, (PLAIN, None)),
        ({"tokenizer_config.json": {"chat_template": [*NAMED, {"name": "rag", "template": "x"}]}}, (TOOLS, PLAIN)),
        ({"tokenizer_config.json": {"chat_template": [{"name": "default"}], "eos_token": "x"}}, (None, None)),
    ],
)
def test_of_several_templates_each_is_found(
    files: dict[str, Any], found: tuple[str | None, str | None], tmp_path: Path
) -> None:
    """Wherever a publisher put them: the one for tools, and the one for conversations without."""
    (tmp_path / "config.json").write_text('{"model_type": "x"}')
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    file = find_template(str(tmp_path))

    assert found == (file.source, file.plain_source)


@pytest.mark.behaviour("T13_2")
def test_a_gguf_file_may_hold_several_templates(tmp_path: Path) -> None:
    """A request with tools is given the one for tools, and one without the default."""
    path = tmp_path / "m.gguf"
    path.write_bytes(
        gguf(
            tokenizer__chat_template=struct.pack("<I", 8) + text(PLAIN),
            tokenizer__chat_template__tool_use=struct.pack("<I", 8) + text(TOOLS),
        )
    )
    file = find_template(str(path))
    template = open_template(file)

    assert (file.source, file.plain_source) == (TOOLS, PLAIN)
    request = ModelRequest("", History((UserMessage("m1", "Hi"),)), (), GenerationOptions())
    assert template.render(request).text.startswith("plain")
    assert template.render(evolve(request, tools=(ToolSpec("f", "", {"type": "object"}),))).text.startswith("tools")


def test_a_template_that_is_no_text_is_named(tmp_path: Path) -> None:
    """The file, and what to do."""
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")

    with pytest.raises(ModelFileError, match=r"chat_template.jinja can't be read as text .*; fetch it again"):
        find_template(str(tmp_path))


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.floats()
    | st.sampled_from(["", "</s>", "{{ messages }}", "{%"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["default", "tool_use", "rag", "name", "template", "content"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)
SAID = {
    "config.json": ("model_type", "text_config", "eos_token_id", "max_position_embeddings"),
    "generation_config.json": ("eos_token_id",),
    "tokenizer_config.json": ("chat_template", "bos_token", "eos_token"),
    "chat_template.json": ("chat_template",),
    "model.safetensors.index.json": ("weight_map",),
}
"""What is read of the files of a directory."""


@given(st.data())
def test_whatever_stands_in_a_directory_is_read_or_told(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """Any JSON in any place gives values of the types that are promised, or an error of a load."""
    folder = tmp_path_factory.mktemp("m")
    (folder / "model.safetensors").write_bytes(b"")
    for file, keys in SAID.items():
        said = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(keys, JSON_VALUES)), label=file)
        (folder / file).write_text(json.dumps(said))
    with contextlib.suppress(ModelLoadError):
        files = read_mlx_directory(folder)
        assert all(type(end) is int and end >= 0 for end in files.end_tokens)
        assert files.trained_context is None or files.trained_context > 0
        assert isinstance(files.template, str | None)
        assert files.template is not None or files.plain_template is None
    with contextlib.suppress(ModelLoadError):
        check_mlx_directory(folder, spec="")


@pytest.mark.parametrize("name", [*SAID, "model.safetensors"])
def test_files_that_are_nested_too_deeply_are_told(tmp_path: Path, name: str) -> None:
    """As is one whose header is."""
    deep = b'{"a":' * 100_000
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).write_bytes(b'{"model_type": "llama"}')
    (tmp_path / name).write_bytes(struct.pack("<Q", len(deep)) + deep + b" " if "json" not in name else deep)

    def read() -> None:
        read_mlx_directory(tmp_path)
        check_mlx_directory(tmp_path, spec="")

    with pytest.raises(ModelFileError):
        read()


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([{"name": "rag", "template": "{{ messages }}"}, {"name": "code", "template": "x"}], "code, rag"),
        ({"rag": "{{ messages }}", "code": "x"}, "code, rag"),
        (5, "no text"),
        ([{"name": "default", "template": ["x"]}], "no text"),
        ([5, {"name": "default"}], "no text"),
    ],
)
def test_templates_of_which_none_is_the_one_to_use_are_no_missing_template(
    tmp_path: Path, found: Any, told: str
) -> None:
    """Another one in its place would give the model what it has never seen."""
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": found}))

    with pytest.raises(ModelFileError, match=told):
        find_template(str(tmp_path))

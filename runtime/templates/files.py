"""Finds the chat template of a model, without loading the model. The ``spec`` is one of:

- ``None``: the template of the small model that ships with cogstep
- ``path/to/model.gguf``: the template in a GGUF file
- ``path/to/directory``: that of a model in Hugging Face's layout; weights are not needed
- ``path/to/template.jinja``: a separate template file
- ``hf:owner/repo[@rev][/file]``: that of a model on the Hugging Face hub
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from runtime.errors import ExtraMissingError, ModelFileError, ModelNotFoundError
from runtime.files import UnusableFileError, open_regular, read_regular
from runtime.models.gguf_header import read_gguf_header
from runtime.models.installation import install_lines
from runtime.models.mlx_files import named_templates, read_mlx_directory
from runtime.models.specs import SMALL_MODEL

if TYPE_CHECKING:
    from runtime.templates.template import ChatTemplate

FORMS = "a .gguf file, a directory with a model or its tokenizer, a .jinja file, or hf:owner/repo[@rev][/file]"

LONGEST = 1 << 24
"""Bytes of a separate template file, 16 MiB; the longest known templates have about 20 KiB."""

TEMPLATE = "tokenizer.chat_template"
TOOL_TEMPLATE = "tokenizer.chat_template.tool_use"
TOKENS = "tokenizer.ggml.tokens"
BOS, EOS = "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"


@frozen
class TemplateFile:
    """A chat template as found in a file."""

    origin: str
    """A readable description of its source."""
    source: str | None
    """Jinja2; None if the model has no template."""
    bos_text: str = ""
    eos_text: str = ""
    plain_source: str | None = None
    """A second template for conversations without tools, if the model has several."""


def open_template(file: TemplateFile, now: Callable[[], datetime] = datetime.now) -> ChatTemplate:
    """Return the template itself, or the documented fallback for a model without one.

    ``now``: the clock, for templates that write the date.

    Raises:
        ExtraMissingError: Jinja2 is not installed.
        TemplateError: the source is not a valid template.
    """
    try:
        from runtime.templates.template import (  # only here: Jinja2 belongs to the extras
            FALLBACK_TEMPLATE,
            ChatTemplate,
        )
    except ImportError as error:
        raise ExtraMissingError(
            f"chat templates need Jinja2, which comes with each backend: {install_lines('llama', 'mlx')}",
            extra="llama",
        ) from error
    source = FALLBACK_TEMPLATE if file.source is None else file.source
    return ChatTemplate(
        source, without_tools=file.plain_source, bos_token=file.bos_text, eos_token=file.eos_text, now=now
    )


def find_template(spec: str | None, on_download: Callable[[float], bool] = lambda _fraction: True) -> TemplateFile:
    """Return the chat template that a spec names; see the module's docstring.

    Raises:
        ModelLoadError: a subclass, with a hint in its message.
    """
    if spec is None:
        files = sorted(SMALL_MODEL.glob("*.gguf"))  # both copies of the model have the same template
        return _of_gguf(files[0]) if files else _of_directory(SMALL_MODEL / "mlx", "")
    if spec.startswith("hf:"):
        from runtime.models.hub import fetch  # only here: it belongs to an extra

        path = fetch(spec, None, on_download, template_only=True)
    else:
        path = Path(spec).expanduser()
    try:
        if path.is_dir():
            return _of_directory(path, spec)
        if path.exists():
            return _of_file(path, spec)
    except UnusableFileError as error:
        raise ModelFileError(f"{error}; name {FORMS}", spec=spec) from error
    except PermissionError as error:
        raise ModelFileError(f"{path} may not be read ({error.strerror}); see to its permissions", spec=spec) from error
    raise ModelNotFoundError(f"there is no file or directory {path}; name {FORMS}", spec=spec)


def _of_directory(path: Path, spec: str) -> TemplateFile:
    files = read_mlx_directory(path)
    if not files.config and files.template is None:
        raise ModelNotFoundError(
            f"{path} holds neither a model nor a chat template (chat_template.jinja, tokenizer_config.json); "
            f"name {FORMS}",
            spec=spec,
        )
    return TemplateFile(str(path), files.template, files.bos_text, files.eos_text, files.plain_template)


def _of_file(path: Path, spec: str) -> TemplateFile:
    with open_regular(path) as stream:
        if stream.read(4) == b"GGUF":
            return _of_gguf(path)
    if path.suffix == ".gguf":
        raise ModelFileError(f"{path} is no GGUF file; name {FORMS}", spec=spec)
    try:
        source = read_regular(path, LONGEST).decode()
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path} is neither a GGUF file nor a text; name {FORMS}", spec=spec) from error
    if "messages" not in source:
        raise ModelFileError(f"{path} is no chat template: it reads no messages; name {FORMS}", spec=spec)
    return TemplateFile(str(path), source)


def _of_gguf(path: Path) -> TemplateFile:
    head = read_gguf_header(path, {TEMPLATE, TOOL_TEMPLATE, TOKENS, BOS, EOS})
    tokens = head.get(TOKENS)
    named = {"default": head.get(TEMPLATE), "tool_use": head.get(TOOL_TEMPLATE)}
    template, plain = named_templates(named)

    def text(key: str) -> str:
        place = head.get(key)
        if isinstance(tokens, list) and isinstance(place, int) and 0 <= place < len(tokens):
            return str(tokens[place])
        return ""

    return TemplateFile(str(path), template, text(BOS), text(EOS), plain)

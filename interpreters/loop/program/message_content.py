"""Read the content of a user message: a text, or a list of texts and images.

    agent.run(["What is on this photo?", load_image("photo.jpg")])

The model receives the parts in the order of the list.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from cognition import ConfigError, Image, Part, TextPart
from cognition.base.checking import show
from cognition.values.content import LARGEST_IMAGE, text_of
from runtime.files import read_regular

Content = str | Image | Sequence[str | Image | TextPart]
"""The argument of ``run``: a text, or a list of texts and images, sent to the model in that order."""


def load_image(path: str | os.PathLike[str]) -> Image:
    """Read an image file: PNG, JPEG, GIF or WebP, at most 10 MiB. Its first bytes decide the format, not its name.

    Raises:
        ConfigError: it is not such a file, or can't be read.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"load_image takes the path of a file, not {show(path)}; Image.of() takes bytes")
    try:
        return Image.of(read_regular(path, LARGEST_IMAGE))
    except OSError as error:
        raise ConfigError(f"the image {os.fspath(path)!r} can't be read: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"the image {os.fspath(path)!r} can't be used: {error}") from error


def content_of(content: Any) -> tuple[str, tuple[Part, ...]]:
    """Return a message's text, and its parts if it contains images.

    Raises:
        ConfigError: it is neither a text nor a list of texts and images.
    """
    if isinstance(content, str):
        return content, ()
    listed = [content] if isinstance(content, Image | TextPart) else content
    if not isinstance(listed, list | tuple):
        raise ConfigError(
            f"run: a message has to be a text, or a list of texts and images, not {show(content)}{_hint(content)}"
        )
    if not listed:
        raise ConfigError("run: a message has to have a text or an image, and the list is empty")
    parts = tuple(map(_part, listed))
    return text_of(parts), parts if any(isinstance(part, Image) for part in parts) else ()


def _part(value: Any) -> Part:
    if isinstance(value, str):
        return TextPart(value)
    if isinstance(value, Image | TextPart):
        return value
    raise ConfigError(f"run: a message is made of texts and images, not {show(value)}{_hint(value)}")


def _hint(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return "; write Image.of(...) around the bytes of a picture"
    if isinstance(value, os.PathLike):
        return "; write load_image(...) around the path of a picture"
    return ""

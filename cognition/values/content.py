"""Message content other than plain text: pictures, and texts between them.

A picture's bytes are base64 text, so that a picture is a value like any other: immutable, written as JSON, and moved
into its own file when a recording moves large texts. The constructor checks the type against the bytes and the size
against the limit.

    >>> from cognition import Image
    >>> image = Image.of(b"GIF89a" + bytes(300))
    >>> image.media_type, image.size, str(image)
    ('image/gif', 306, '[image image/gif, 306 bytes]')
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from attrs import field, frozen

from cognition.base.display import shown_name
from cognition.base.errors import ConfigError

MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
"""Picture types, as named by all models and providers that accept pictures."""

MEDIA_TYPES: tuple[MediaType, ...] = get_args(MediaType)

LARGEST_IMAGE = 10 * 2**20
"""Bytes of one picture, 10 MiB."""
LARGEST_IMAGES = 20 * 2**20
"""Bytes of all pictures of one message, 20 MiB."""

BEGINNINGS: Mapping[MediaType, tuple[bytes, ...]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}
"""The first bytes of each file type. WebP is missing: its marker follows the length field."""

SHOWN = 60
"""Characters of an unknown word repeated in a message."""


def media_type_of(content: bytes) -> MediaType | None:
    """Return the picture type that the first bytes show; None if unknown."""
    for kind, beginnings in BEGINNINGS.items():
        if content.startswith(beginnings):
            return kind
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


@frozen
class TextPart:
    """A text between pictures."""

    tag: ClassVar[str] = "text"
    text: str


@frozen
class Image:
    """A picture in a message.

    Raises:
        ConfigError: models do not accept this type, the bytes are of another type, or the picture is too large.
    """

    tag: ClassVar[str] = "image"
    media_type: MediaType
    data: str = field(repr=lambda data: f"<{len(data)} characters of base64>")
    """The bytes of the file, in base64 (RFC 4648, with its padding and without line breaks)."""

    def __attrs_post_init__(self) -> None:
        if self.media_type not in MEDIA_TYPES:
            raise ConfigError(
                f"an image has to be one of {', '.join(MEDIA_TYPES)}, not {shown_name(repr(self.media_type), SHOWN)}"
            )
        if not isinstance(self.data, str):
            raise ConfigError("an image's data have to be a text in base64; Image.of() takes bytes")
        if self.size > LARGEST_IMAGE:
            raise ConfigError(
                f"an image of {format_size(self.size)} is too large; {format_size(LARGEST_IMAGE)} may be sent"
            )
        try:
            kind = media_type_of(self.content)
        except (ValueError, binascii.Error) as error:
            raise ConfigError(f"an image's data are no base64: {error}") from error
        if kind != self.media_type:
            what = f"are those of {kind}" if kind is not None else "are those of no such file"
            raise ConfigError(f"an image is said to be {self.media_type}, and its bytes {what}")

    @classmethod
    def of(cls, content: bytes, media_type: MediaType | None = None) -> Image:
        """Return the picture in a file's bytes. The bytes show its type; a given ``media_type`` is checked.

        Raises:
            ConfigError: as the constructor.
        """
        if not isinstance(content, bytes | bytearray | memoryview):
            raise ConfigError(f"Image.of takes the bytes of a file, not {type(content).__name__}")
        content = bytes(content)
        if len(content) > LARGEST_IMAGE:
            raise ConfigError(
                f"an image of {format_size(len(content))} is too large; {format_size(LARGEST_IMAGE)} may be sent"
            )
        kind = media_type or media_type_of(content)
        if kind is None:
            raise ConfigError(f"these bytes are no image of a kind that can be sent: {', '.join(MEDIA_TYPES)}")
        return cls(kind, b64encode(content).decode())

    @property
    def size(self) -> int:
        """The number of its bytes."""
        return len(self.data) // 4 * 3 - self.data[-2:].count("=")

    @property
    def content(self) -> bytes:
        """Its bytes, decoded again at each access."""
        return b64decode(self.data, validate=True)

    def __str__(self) -> str:
        """Return a placeholder for the picture in plain text."""
        return f"[image {self.media_type}, {format_size(self.size)}]"


Part = TextPart | Image


def format_size(size: int) -> str:
    """Return a number of bytes as text for people."""
    if size < 1024:
        return f"{size} byte{'' if size == 1 else 's'}"
    return f"{size / 1024:.0f} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MB"


def text_of(parts: tuple[Part, ...]) -> str:
    """Return the texts of a message in parts, without pictures."""
    return "\n\n".join([part.text for part in parts if isinstance(part, TextPart)])


def images_of(parts: tuple[Part, ...]) -> tuple[Image, ...]:
    return tuple([part for part in parts if isinstance(part, Image)])


def text_with_placeholders(text: str, parts: tuple[Part, ...]) -> str:
    """Return a message as text with a placeholder for each picture."""
    return "\n\n".join([part.text if isinstance(part, TextPart) else str(part) for part in parts]) if parts else text


def check_parts(parts: tuple[Part, ...]) -> None:
    """Check that a message may have these parts.

    Raises:
        ConfigError: its pictures are too large together.
    """
    size = sum([image.size for image in images_of(parts)])
    if size > LARGEST_IMAGES:
        raise ConfigError(
            f"the images of a message have {format_size(size)} together; "
            f"{format_size(LARGEST_IMAGES)} may be sent at once"
        )

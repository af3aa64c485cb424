"""A server's content, converted to the texts and pictures for a model. No declaration of the server is trusted.

A model is shown, for each block:

- ``text``: the text.
- ``image``: the picture, if models accept its kind; otherwise a note about it.
- ``audio``, other bytes: a note with their kind and size.
- ``resource`` (a text): the text, below its address.
- ``resource_link``: its name and address.
- anything else: its JSON.
- ``structuredContent``: its JSON, unless the texts have the same content.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from cognition import ConfigError
from cognition.base.strict_json import LENIENT
from cognition.values.content import Image, Part, TextPart, format_size

UNREADABLE = "[a part of the result that can't be read]"


def parts_of(result: Mapping[str, Any], listed: str = "content") -> tuple[Part, ...]:
    """Return the parts of a result, with adjacent texts joined. ``listed`` is the field that contains its blocks."""
    if (blocks := result.get(listed)) is None:
        blocks = ()
    found = [part for block in (blocks if isinstance(blocks, list | tuple) else (blocks,)) for part in _block(block)]
    if "structuredContent" in result and not _repeats(found, result["structuredContent"]):
        found.append(TextPart(_json(result["structuredContent"])))
    return tuple(_join_texts(found))


def format_parts(parts: tuple[Part, ...]) -> str:
    """Return the parts as a single text that names each picture in its place."""
    return "\n".join(part.text if isinstance(part, TextPart) else str(part) for part in parts)


def _join_texts(parts: list[Part]) -> Iterator[Part]:
    for _, run in groupby(parts, type):
        alike = list(run)
        texts = [part.text for part in alike if isinstance(part, TextPart)]
        yield from [TextPart("\n".join(texts))] if texts else alike


def _repeats(parts: list[Part], structured: Any) -> bool:
    """Whether the texts repeat the structured content: its JSON, or its only value."""
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart)).strip()
    if not text:
        return structured is None
    values = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        values += structured.values()
    if any(text == one for one in values if isinstance(one, str)):
        return True
    try:
        read = LENIENT.decode(text)
    except (ValueError, RecursionError):
        # A list is often sent as one text for each of its items.
        return any(isinstance(one, list) and text == "\n".join(_item(item) for item in one) for one in values)
    return any(_json(read) == _json(one) for one in values)


def _item(item: Any) -> str:
    return item if isinstance(item, str) else _json(item)


def _block(block: Any) -> Iterator[Part]:
    if not isinstance(block, Mapping):
        yield TextPart(UNREADABLE)
        return
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            yield TextPart(block["text"])
        case "image" if isinstance(block.get("data"), str):
            yield _picture(block["data"], block.get("mimeType"))
        case "audio" if isinstance(block.get("data"), str):
            yield TextPart(_describe_block("audio", block.get("mimeType"), block["data"]))
        case "resource" if isinstance(block.get("resource"), Mapping):
            yield from resource_parts(block["resource"])
        case "resource_link" if isinstance(block.get("uri"), str):
            name = block.get("title") or block.get("name") or "resource"
            yield TextPart(f"[{name}: {block['uri']}]")
        case _:
            yield TextPart(_json(block))


def resource_parts(resource: Mapping[str, Any]) -> Iterator[Part]:
    """Yield a resource's own content: its text, or its bytes."""
    uri = resource.get("uri")
    if isinstance(resource.get("text"), str):
        if isinstance(uri, str):
            yield TextPart(f"[{uri}]")
        yield TextPart(resource["text"])
    elif isinstance(resource.get("blob"), str):
        kind = resource.get("mimeType")
        if isinstance(kind, str) and kind.startswith("image/"):
            yield _picture(resource["blob"], kind)
        else:
            yield TextPart(_describe_block(f"resource {uri}", kind, resource["blob"]))
    else:
        yield TextPart(UNREADABLE)


def _picture(data: str, kind: Any) -> Part:
    """Return the picture. Its bytes determine its type, not the server's declaration."""
    try:
        return Image.of(b64decode(data, validate=True))
    except (ConfigError, ValueError):
        return TextPart(f"{_describe_block('image', kind, data)[:-1]}, which can't be shown]")


def _describe_block(what: str, kind: Any, data: str) -> str:
    sort = f" {kind}" if isinstance(kind, str) else ""
    return f"[{what}{sort}, {format_size(len(data) // 4 * 3)}]"


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=False)
    except (TypeError, ValueError, RecursionError):
        return UNREADABLE

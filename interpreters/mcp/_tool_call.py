"""A call of a server's tool: the metadata sent with it, and its outcome as texts and pictures, or as an error.

If it is unknown whether a call happened, the error states that. No declaration of the server is trusted.

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

import asyncio
import itertools
import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import groupby
from typing import Any

from cognition import ConfigError
from cognition.base.strict_json import LENIENT
from cognition.values.content import Image, Part, TextPart, format_size, images_of
from interpreters.mcp._connection import Connection
from interpreters.mcp._listing import ListedTool
from interpreters.mcp._losses import LostError, RequestRefusedError
from interpreters.mcp.server_config import matches
from interpreters.tools.context import ToolContext, ToolError

KEY = "cogstep/idempotency-key"
"""In ``_meta``: identifies the call, the same in each attempt, so that a server can detect a repetition."""
EFFECT = "cogstep/effect-id"
"""In ``_meta``: identifies the attempt, as in recordings."""

MOST_PROGRESS = 1000
"""Maximum number of progress reports per call: a server that never stops must not fill a session's mailbox."""

LONGEST_PROGRESS = 200

UNREADABLE = "[a part of the result that can't be read]"

UNKNOWN = "nobody knows whether the call happened; look before you call it again"


def idempotency_key(context: ToolContext[Any], tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a permanent id of a call.

    It contains only a hash of the session's name. The arguments are part of the hash, so that different calls of two
    sessions with the same name never look like a repetition.
    """
    parts = [context.session, context.call_id, tool, json.dumps(arguments, sort_keys=True)]
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


async def call_tool(
    connection: Connection, listed: ListedTool, arguments: dict[str, Any], context: ToolContext[Any]
) -> str:
    """Call the tool and return its result as a text for the model.

    Args:
        connection: the connection to the server.
        listed: the tool as listed when the agent received it.
        arguments: for the tool.
        context: the call's context.

    Raises:
        ToolError: the call failed, could not be started, or has an unknown outcome.
    """
    server, name = connection.server, listed.name
    named = f"the MCP server {server.name!r}"
    meta = {KEY: idempotency_key(context, name, arguments)}
    if context.effect_id:
        meta[EFFECT] = context.effect_id

    reports = itertools.count(1)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        if next(reports) <= MOST_PROGRESS:
            context.progress(connection.hide(_progress(progress, total, message)))

    for attempt in (1, 2):
        try:
            link = await connection.connect()
        except LostError as lost:
            raise ToolError(f"{named} can't be reached: {lost}", transient=True) from lost
        _check_no_worse(connection, listed)
        try:
            async with asyncio.timeout(server.timeout):
                given = {"name": name, "arguments": arguments}
                result = await link.request("tools/call", given, meta=meta, progress=report)
        except TimeoutError:
            told = f"{named} gave no answer within {server.timeout:g} s, and was told to stop"
            raise ToolError(f"{told}; {UNKNOWN}", transient=True) from None
        except LostError as lost:
            if not lost.sent and attempt == 1 and connection.link is None:
                continue  # it never began, and there may be a new connection
            connection.note_failure()
            fate = f"was lost: {lost}; {UNKNOWN}" if lost.sent else f"can't be reached: {lost}"
            raise ToolError(f"{named} {fate}", transient=True) from lost
        except RequestRefusedError as refused:
            connection.note_success()
            raise ToolError(f"{named} refused: {refused}", transient=refused.transient) from refused
        except ValueError as error:  # what came is no answer at all
            raise ToolError(f"the answer of {named} can't be read; {UNKNOWN}") from error
        connection.note_success()
        return _read(connection, result, context)
    raise AssertionError("the second attempt ends in any case")


def _check_no_worse(connection: Connection, listed: ListedTool) -> None:
    """Reject a tool that its server has declared destructive since the session received it, if that would require
    approval.

    A server may replace a harmless tool under the same name.
    """
    server = connection.server
    asked = listed.is_destructive or server.approval is not None or matches(listed.name, server.read_only)
    if not asked and any(one.name == listed.name and one.is_destructive for one in connection.listed):
        raise ToolError(
            f"the MCP server {server.name!r} says by now that this tool destroys something, which it did not say when "
            "this session was given it; it was not called"
        )


def _read(connection: Connection, result: dict[str, Any], context: ToolContext[Any]) -> str:
    if result.get("resultType") == "input_required":
        raise ToolError(
            f"the MCP server {connection.server.name!r} asks for more than the arguments, which nobody answers here"
        )
    parts = parts_of(result)
    if result.get("isError") is True:
        raise ToolError(connection.hide(format_parts(parts)) or "the tool failed, and said nothing")
    return format_result(parts, connection.hide, context)


def format_result(parts: tuple[Part, ...], hide: Callable[[str], str], context: ToolContext[Any]) -> str:
    """Return the text of a result, and show its images."""
    for image in images_of(parts):
        with suppress(ToolError):  # one too many: the text names it in any case
            context.show(image)
    return hide(format_parts(parts))


def _progress(done: float, total: float | None, message: str | None) -> str:
    share = f"{done:g} of {total:g}" if total else f"{done:g}"
    return f"{share}: {message[:LONGEST_PROGRESS]}" if message else share


# --------------------------------------------------------------------------------------------- the content of a result


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

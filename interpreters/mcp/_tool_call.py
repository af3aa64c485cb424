"""A call of a server's tool: the metadata sent with it, and its outcome as a text or an error.

If it is unknown whether a call happened, the error states that.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from cognition.values.content import Part, images_of
from interpreters.mcp._connection import Connection
from interpreters.mcp._content import format_parts, parts_of
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

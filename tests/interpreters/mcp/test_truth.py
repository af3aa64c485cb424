"""Whatever a server does in the middle of a call: what the model is told is true, and nothing happens twice."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from interpreters import ToolContext, ToolError
from interpreters.mcp._connection import Connection
from interpreters.mcp._listing import ListedTool
from interpreters.mcp._losses import LostError
from interpreters.mcp._tool_call import call_tool
from tests.interpreters.mcp.parts import notes, plain

MOODS: Mapping[str, tuple[str, int]] = {
    "is well": ("ok", 1),
    "babbles": ("ok", 1),
    "answers nonsense": ("ok", 1),
    "refuses": ("refused", 0),
    "refuses with the code of a closed connection": ("refused", 0),
    "dies before": ("unknown", 0),
    "dies after": ("unknown", 1),
    "is cut off": ("unknown", 1),
    "closes its output": ("unknown", 1),
    "is silent": ("unknown", 1),
}
"""For each mood what a call is told to have come to, and how often it has happened."""


async def called(connection: Connection, number: int, mood: str) -> str:
    context: ToolContext[None] = ToolContext(None, session="s", call_id=f"call-1-{number}-1")
    try:
        await call_tool(connection, ListedTool("moody", "", {}), {"text": f"n{number}", "mood": mood}, context)
    except ToolError as error:
        if "nobody knows whether the call happened" in str(error):
            return "unknown"
        return "refused" if "refused: not today" in str(error) else str(error)
    return "ok"


@settings(max_examples=2)
@given(st.permutations([*MOODS, *MOODS]))
def test_every_call_is_told_truly_and_happens_once_at_most(moods: list[str]) -> None:
    """In any order, each on the connection that the one before has left."""

    async def main(folder: Path) -> list[tuple[str, int]]:
        hours = iter(range(10**6))
        server = plain("moody", folder, timeout=0.2)
        connection = Connection(server, lambda: None, now=lambda: 3600.0 * next(hours))
        try:
            told = [await called(connection, number, mood) for number, mood in enumerate(moods)]
        finally:
            await connection.close()
        written = notes(folder, "moody")
        return [(one, written.count(f"n{number}")) for number, one in enumerate(told)]

    with tempfile.TemporaryDirectory() as folder:
        assert asyncio.run(main(Path(folder))) == [MOODS[mood] for mood in moods]


def test_a_server_that_dies_again_and_again_is_left_alone_for_longer_and_longer(tmp_path: Path) -> None:
    """Until a call is answered. Nothing is started meanwhile."""
    now = [0.0]

    async def main() -> list[str]:
        connection = Connection(plain("moody", tmp_path), lambda: None, now=lambda: now[0])
        told = []
        try:
            for number, (time, mood) in enumerate(
                [(0, "dies before"), (0, "dies before"), (0.5, "is well"), (1, "dies before"), (2.9, "is well"),
                 (3, "is well"), (3, "dies before"), (3, "is well")]
            ):  # fmt: skip
                now[0] = time
                told.append(await called(connection, number, mood))
        finally:
            await connection.close()
        with pytest.raises(LostError, match="the servers were closed"):
            await connection.connect()
        return told

    assert [one if len(one) < 10 else one[-22:] for one in asyncio.run(main())] == [
        "unknown", "unknown", " is tried again in 1 s", "unknown", " is tried again in 1 s", "ok", "unknown", "ok",
    ]  # fmt: skip

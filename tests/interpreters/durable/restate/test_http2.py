"""A connection at which the peer goes on with what was answered already, as a Restate server does."""

from __future__ import annotations

import asyncio
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived, StreamEnded

from interpreters.durable.restate._serving import listen, serve_on
from tests.interpreters.durable.restate_rig import free_port

HEADERS = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "here")]


async def at_once(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers without reading what it is sent."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class Peer:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self.http = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.http.initiate_connection()

    async def answer(self, stream: int) -> str:
        """The status of an answer, once it has ended."""
        status = ""
        while True:
            self.writer.write(self.http.data_to_send())
            data = await self._reader.read(65536)
            assert data, "the connection was broken off"
            for event in self.http.receive_data(data):
                if isinstance(event, ResponseReceived) and event.stream_id == stream:
                    status = dict(event.headers)[":status"]
                if isinstance(event, StreamEnded) and event.stream_id == stream:
                    return status


def test_what_comes_behind_an_answer_breaks_no_connection() -> None:
    async def asked() -> list[str]:
        ended, port = asyncio.Event(), free_port()
        serving = asyncio.create_task(serve_on(listen("127.0.0.1", port), at_once, ended))
        peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
        peer.http.send_headers(1, HEADERS)
        statuses = [await peer.answer(1)]
        peer.http.send_data(1, b"more")
        peer.http.send_headers(3, HEADERS, end_stream=True)
        statuses.append(await peer.answer(3))
        peer.writer.close()
        ended.set()
        await serving
        return statuses

    assert asyncio.run(asyncio.wait_for(asked(), 30.0)) == ["200", "200"]

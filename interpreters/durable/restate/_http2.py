"""Hypercorn's HTTP/2 without one of its bugs: data that a peer sends after the end of a response closes the connection,
including the other runs on it.

A peer may keep sending until it has read the end of the response, as when a run of Restate is attempted again or a
process ends. Hypercorn has forgotten the stream by then and fails to find it.
"""

from __future__ import annotations

from typing import Any

from h2.events import DataReceived
from hypercorn import protocol
from hypercorn.protocol.h2 import H2Protocol


class ForgivingH2(H2Protocol):
    """A connection that drops data for a stream that has ended."""

    async def _handle_events(self, events: Any) -> None:
        for event in events:
            if isinstance(event, DataReceived) and event.stream_id not in self.streams:
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                await self._flush()
            else:
                await super()._handle_events([event])


def forgive() -> None:
    """Patch hypercorn in this process to use this class; it has no option for that."""
    protocol.H2Protocol = ForgivingH2  # type: ignore[attr-defined]

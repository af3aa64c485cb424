"""HTTP/2 as hypercorn speaks it, but for one of its faults: what a peer sends behind an answer that has ended is no
reason to break off the connection, at which other runs are.

A peer may go on for a while, since it has not read yet that the answer is over: so it is where a run of Restate is
attempted again, or a process ends. Hypercorn forgets the stream with the answer, and then does not find it.
"""

from __future__ import annotations

from typing import Any

from h2.events import DataReceived
from hypercorn import protocol
from hypercorn.protocol.h2 import H2Protocol


class ForgivingH2(H2Protocol):
    """A connection at which data for a stream that has ended is dropped."""

    async def _handle_events(self, events: Any) -> None:
        for event in events:
            if isinstance(event, DataReceived) and event.stream_id not in self.streams:
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                await self._flush()
            else:
                await super()._handle_events([event])


def forgive() -> None:
    """Have hypercorn use it, which has no option for that, in this process."""
    protocol.H2Protocol = ForgivingH2  # type: ignore[attr-defined]

"""Events as JSON, one per line, for ``--json``. The codec writes them, with the same tags as recordings."""

from __future__ import annotations

from cognition import to_data
from interpreters.cli.screen.terminal import json_text
from interpreters.observing.events import Event


def event_line(event: Event) -> str:
    """Return one event as a line without its newline, readable by ``from_data``. Omits fields with default values."""
    return json_text(to_data(event), separators=(",", ":"), allow_nan=False)

"""Events as JSON, one a line: what ``--json`` prints. The data are the codec's, with the tags that recordings have."""

from __future__ import annotations

from cognition import to_data
from interpreters.cli.terminal import json_text
from interpreters.observing.events import Event


def event_line(event: Event) -> str:
    """One event as one line without its end; ``from_data`` reads it again. Fields with their default are left out."""
    return json_text(to_data(event), separators=(",", ":"), allow_nan=False)

"""Recorded sessions as a collection: to list them, read them as conversations, search, export and prune them."""

from __future__ import annotations

from interpreters.sessions.exporting import as_data, as_markdown, as_openai
from interpreters.sessions.listing import BadFile, SessionInfo, list_sessions
from interpreters.sessions.pruning import Pruned, prune
from interpreters.sessions.searching import Hit, search
from interpreters.sessions.transcript import Entry, Transcript, TranscriptTurn, read_transcript

__all__ = [
    "BadFile",
    "Entry",
    "Hit",
    "Pruned",
    "SessionInfo",
    "Transcript",
    "TranscriptTurn",
    "as_data",
    "as_markdown",
    "as_openai",
    "list_sessions",
    "prune",
    "read_transcript",
    "search",
]

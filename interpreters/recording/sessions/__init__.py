"""Recorded sessions as a collection: list, read, search, export, prune and move them."""

from __future__ import annotations

from interpreters.recording.sessions._file_recording import FileRecording as FileRecording
from interpreters.recording.sessions._listing import (
    BadFile as BadFile,
    SessionInfo as SessionInfo,
    journals_in as journals_in,
    list_sessions as list_sessions,
)
from interpreters.recording.sessions._retention import Pruned as Pruned, prune as prune
from interpreters.recording.sessions._text_search import Hit as Hit, search as search
from interpreters.recording.sessions._transcript import (
    Entry as Entry,
    Transcript as Transcript,
    TranscriptTurn as TranscriptTurn,
    read_transcript as read_transcript,
)
from interpreters.recording.sessions._transfer import Copied as Copied, copy as copy, move as move
from interpreters.recording.sessions.export import (
    as_data as as_data,
    as_markdown as as_markdown,
    as_openai as as_openai,
    markdown_parts as markdown_parts,
)

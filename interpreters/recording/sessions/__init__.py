"""Recorded sessions as a collection: list, read, search, export, prune and move them."""

from __future__ import annotations

from interpreters.recording.sessions._file_recording import FileRecording as FileRecording
from interpreters.recording.sessions._listing import (
    BadFile as BadFile,
    Hit as Hit,
    SessionInfo as SessionInfo,
    journals_in as journals_in,
    list_sessions as list_sessions,
    search_sessions as search_sessions,
)
from interpreters.recording.sessions._retention import (
    CopyResult as CopyResult,
    PrunedSession as PrunedSession,
    copy_session as copy_session,
    move_session as move_session,
    prune_sessions as prune_sessions,
)
from interpreters.recording.sessions._transcript import (
    Transcript as Transcript,
    TranscriptEntry as TranscriptEntry,
    TranscriptTurn as TranscriptTurn,
    read_transcript as read_transcript,
)
from interpreters.recording.sessions.export import (
    markdown_parts as markdown_parts,
    transcript_to_data as transcript_to_data,
    transcript_to_markdown as transcript_to_markdown,
    transcript_to_openai as transcript_to_openai,
)

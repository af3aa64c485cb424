"""Sessions on file: one JSON object a line, a header and then a record an input with its decisions.

    {"format":"cogstep-journal","version":1,"session":"4f...","engine":"llm","config":{...},"created":1790000000.0,
        "sum":"5f2e..."}
    {"seq":1,"input":{"type":"user_spoke",...},"decisions":[{"type":"call_model","effect_id":"1.1.0",
        "digest":"0c..."}],"sum":"e41d..."}
    {"seq":2,"input":{"type":"model_replied","effect_id":"1.1.0",...},"decisions":[...],"sum":"07aa..."}

A record is written after the pure step and before any of its decisions is carried out: whatever may have happened in
the world stands on file, and the fold of the inputs gives the state. A request is recorded by its digest, since the
fold gives it again in full, and written out a session would cost the square of its length. Large texts stand in files
of their own (``payloads``).

Each line ends with a sum over itself and all lines before it (``format``), so that a changed byte is found where it is.
A line that has no line break at its end was torn by a crash: it is dropped with a warning, since its decisions were
never carried out. Any other damage is an error that names the line.

Before the sum stands a seal, which shows whether this user wrote the line and all lines before it (``seals``).
"""

from __future__ import annotations

from interpreters.recording.journal.errors import (
    ForeignRecordingError as ForeignRecordingError,
    JournalDamagedError as JournalDamagedError,
    JournalError as JournalError,
    JournalExistsError as JournalExistsError,
    JournalLockedError as JournalLockedError,
    JournalVersionError as JournalVersionError,
    JournalWriteError as JournalWriteError,
    NotAJournalError as NotAJournalError,
    TakenOverError as TakenOverError,
    UnknownTagError as UnknownTagError,
)
from interpreters.recording.journal.file import FileRecorder as FileRecorder
from interpreters.recording.journal.format import (
    DecisionWriter as DecisionWriter,
    Header as Header,
    Origin as Origin,
    Record as Record,
)
from interpreters.recording.journal.reading import JournalReader as JournalReader, why_foreign as why_foreign
from interpreters.recording.journal.writing import Fsync as Fsync, Journal as Journal

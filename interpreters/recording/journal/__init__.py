"""Sessions on file: one JSON object per line, first a header, then a record for each input with its decisions.

    {"format":"cogstep-journal","version":1,"session":"4f...","engine":"llm","config":{...},"created":1790000000.0,
        "sum":"5f2e..."}
    {"seq":1,"input":{"type":"user_spoke",...},"decisions":[{"type":"call_model","effect_id":"1.1.0",
        "digest":"0c..."}],"sum":"e41d..."}
    {"seq":2,"input":{"type":"model_replied","effect_id":"1.1.0",...},"decisions":[...],"sum":"07aa..."}

A record is written after the pure step and before any of its decisions is carried out. So every effect that may have
happened is on file, and a replay of the inputs gives the state. A record contains only the digest of a request, since
the replay recreates the request. Complete requests would make the size of a session quadratic. Large texts are in files
of their own (``payloads``).

Each line ends with a sum over itself and all earlier lines (``format``), so a changed byte is found at its place. A
last line without a line break was torn by a crash. It is dropped with a warning, since its decisions were never carried
out. Any other damage is an error that names the line.

Before the sum is a seal, which proves that this user wrote the line and all earlier lines (``seals``).
"""

from __future__ import annotations

from interpreters.recording.journal._file_recorder import FileRecorder as FileRecorder
from interpreters.recording.journal._writer import Fsync as Fsync, Journal as Journal
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
from interpreters.recording.journal.format import (
    DecisionWriter as DecisionWriter,
    Header as Header,
    Origin as Origin,
    Record as Record,
)
from interpreters.recording.journal.reader import JournalReader as JournalReader, explain_foreign as explain_foreign

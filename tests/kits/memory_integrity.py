"""``agent-memory-integrity``: nine edits of what a session or a memory has on disk, by an attacker without our keys.

An edit is *rejected* if the call that brings the stored texts back to an agent refuses them, and *accepted* if they
come back as genuine. Both adapters make each edit as well as it can be made: records are numbered again, and checksums
that need no key fit.

- ``Journal``: a record is a turn of a session. The tool's answer is that of ``Agent.resume``.
- ``Folder``: a record is a note of a memory. The tool's answer is that of ``MemoryFolder.recall``.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from zlib import crc32

from agmi.adapters.base import MemoryAdapter, Record

from cognition import CogstepError
from interpreters import Agent, fakes
from interpreters.recording.journal.format import ENCODE
from runtime import MemoryFolder


class Stored(MemoryAdapter):
    """What both adapters share: a directory, two contexts in it, and records as lists of texts."""

    supports_replay = True
    supports_metadata = True
    supports_snapshot = True
    detection_point = "read"

    first, second = "first", "second"
    """The names of the two contexts."""

    def setup(self) -> None:
        self.directory = Path(mkdtemp(prefix="cogstep-kit-"))

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    def read(self, context: str) -> list[dict[str, Any]]:
        """Return the fields of each record."""
        raise NotImplementedError

    def write(self, context: str, records: list[dict[str, Any]]) -> None:
        """Write all records to the file, as an attacker does."""
        raise NotImplementedError

    def append(self, context: str, text: str) -> None:
        """Store a record by the tool's own interface."""
        raise NotImplementedError

    def seed(self, n: int) -> None:
        for number in range(n):
            self.append(self.first, f"Plum number {number} is for Ada.")

    def seed_other(self, n: int) -> None:
        for number in range(n):
            self.append(self.second, f"Pear number {number} is for Bob.")

    def append_genuine(self) -> None:
        self.append(self.first, "The last plum is for Carl.")

    def read_all_raw(self) -> list[Record]:
        return [Record(place, fields) for place, fields in enumerate(self.read(self.first))]

    def read_other_raw(self) -> list[Record]:
        return [Record(place, fields) for place, fields in enumerate(self.read(self.second))]

    def write_raw(self, record: Record) -> None:
        records = self.read(self.first)
        records[record.seq : record.seq + 1] = [record.fields]
        self.write(self.first, records)

    def delete_raw(self, seq: int) -> None:
        records = self.read(self.first)
        del records[seq]
        self.write(self.first, records)

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        owner = self.read(self.first)[victim_seq]["owner"]
        self.write_raw(Record(victim_seq, {**donor.fields, "owner": owner}))

    def identity_of(self, record: Record) -> str:
        return f"{record.fields['owner']} {record.seq}"

    def owner_of(self, record: Record) -> str:
        return str(record.fields["owner"])

    def snapshot_store(self) -> str:
        return self._copy_store(self.directory)

    def restore_store(self, token: Any) -> None:
        self._restore_store(str(token), self.directory)

    def reload(self) -> None:
        """Nothing is open between two calls."""


class Journal(Stored):
    """The recording of a session: JSON lines, a turn of two lines for each record."""

    name = "cogstep journal"

    def append(self, context: str, text: str) -> None:
        path, model = self._path(context), fakes.ScriptedModel([f"I have noted: {text}"])
        with Agent.resume(path, model) if path.exists() else Agent(model, journal=path) as agent:
            agent.run(text)

    def verify(self) -> bool:
        self.verify_detail = None
        try:
            Agent.resume(self._path(self.first), fakes.ScriptedModel([])).close()
        except CogstepError as error:
            self.verify_detail = f"{type(error).__name__}: {error}"
            return False
        return True

    def read(self, context: str) -> list[dict[str, Any]]:
        header, *lines = self._lines(context)
        turns: list[dict[str, Any]] = []
        for line in lines:
            if line["input"]["type"] == "user_spoke":
                turns.append({"owner": header["session"], "lines": []})
            line.pop("seq")
            turns[-1]["lines"].append(line)
        return turns

    def write(self, context: str, records: list[dict[str, Any]]) -> None:
        lines = [line for record in records for line in record["lines"]]
        numbered = [{"seq": place, **line} for place, line in enumerate(lines, 1)]
        content, total = b"", 0
        for line in (self._lines(context)[0], *numbered):
            text = ENCODE(line)[:-1].encode()
            total = crc32(text, total)
            content += b'%b,"sum":"%08x"}\n' % (text, total)
        self._path(context).write_bytes(content)

    def payload_of(self, record: Record) -> str:
        bare = [{**line, "input": {**line["input"], "at": 0}, "seal": ""} for line in record.fields["lines"]]
        return json.dumps(bare, sort_keys=True)

    def mutate_payload(self, record: Record) -> Record:
        return Record(record.seq, json.loads(json.dumps(record.fields).replace(" is for ", " is not for ")))

    def read_meta(self, seq: int) -> dict[str, Any]:
        return {"at": self.read(self.first)[seq]["lines"][0]["input"]["at"]}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Move the time of the message by a day, which leaves each line readable."""
        records = self.read(self.first)
        records[seq]["lines"][0]["input"]["at"] = meta["at"] + 86_400 * meta["agmi_meta_tampered"]
        self.write(self.first, records)

    def _path(self, context: str) -> Path:
        return self.directory / f"{context}.jsonl"

    def _lines(self, context: str) -> list[dict[str, Any]]:
        """Return the lines as data, without their checksums."""
        lines = [json.loads(line) for line in self._path(context).read_bytes().splitlines()]
        return [{key: value for key, value in line.items() if key != "sum"} for line in lines]


class Folder(Stored):
    """A memory: Markdown files, a section for each note. A context is a topic."""

    name = "cogstep memory folder"

    def append(self, context: str, text: str) -> None:
        with MemoryFolder(self.directory) as memory:
            memory.remember(text, topic=context)

    def verify(self) -> bool:
        self.verify_detail = None
        try:
            with MemoryFolder(self.directory) as memory:
                memory.recall("Who is the plum for?")
                memory.search("plum")
        except CogstepError as error:
            self.verify_detail = f"{type(error).__name__}: {error}"
            return False
        return True

    def read(self, context: str) -> list[dict[str, Any]]:
        _, *sections = re.split(r"(?m)^(?=## )", self._path(context).read_text("utf-8"))
        return [{"owner": context, "text": section.strip()} for section in sections]

    def write(self, context: str, records: list[dict[str, Any]]) -> None:
        head, *_ = re.split(r"(?m)^(?=## )", self._path(context).read_text("utf-8"))
        self._path(context).write_text(head + "".join(f"{record['text']}\n\n" for record in records), "utf-8")

    def payload_of(self, record: Record) -> str:
        return str(record.fields["text"].partition("\n")[2])

    def mutate_payload(self, record: Record) -> Record:
        return Record(record.seq, {**record.fields, "text": record.fields["text"].replace(" is for ", " is not for ")})

    def read_meta(self, seq: int) -> dict[str, Any]:
        return {"heading": self.read(self.first)[seq]["text"].partition("\n")[0]}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Give the note another date."""
        records = self.read(self.first)
        heading, _, text = records[seq]["text"].partition("\n")
        records[seq]["text"] = f"{re.sub('[0-9]{4}', '2019', heading, count=1)}\n{text}"
        self.write(self.first, records)

    def _path(self, context: str) -> Path:
        return self.directory / "knowledge" / f"{context}.md"

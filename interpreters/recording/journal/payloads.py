"""Large texts of a journal: each in its own file, named by the SHA-256 of its content.

    session.jsonl                       {"seq":3,"input":{...,"content":{"$payload":"9f86d0..."}},...}
    session.jsonl.payloads/9f86d0...    the text, as UTF-8

So lines stay short, and a repeated text is stored once. A file is complete before a record refers to it. A file without
a record, as a crash may leave it, does no harm.

Other recorders may store payloads too, with the same names and lines: see ``recorder.KeepsPayloads``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from interpreters.recording.journal.content_files import ContentError, Contents, is_name
from interpreters.recording.journal.errors import JournalError
from interpreters.recording.recorder import KeepsPayloads, Recorder, path_of
from interpreters.tools.failures import describe

LARGE = 16_384
"""Minimum characters of a text with its own file. Writing such a line takes about as long as creating a file."""

LONGEST_WITH_PAYLOADS = 1 << 28
"""Maximum bytes of all large texts of one line, 256 MiB, both for writing and reading."""

REFERENCE = "$payload"
"""Only key of the object that replaces a text in a record. No value of the core contains an object with this key."""
MARK = b'"$payload"'
"""Shows that a line contains a reference. Inside a text the quotes would be escaped."""

Map = Callable[[Any], Any]


def directory_of(journal: Path) -> Path:
    """Return the directory of a journal's large texts."""
    return journal.parent / f"{journal.name}.payloads"


class PayloadError(Exception):
    """A payload does not match its record."""


class LargeTexts(ABC):
    """The large texts of one journal, in any kind of place."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, int]] = {}
        """Cached texts by name, with their length in bytes."""
        self._brought: set[str] = set()
        """Names of contents already stored together with a line."""

    @abstractmethod
    def store(self, name: str, content: bytes, force: bool) -> bool:
        """Store a content; return whether it must instead be stored together with its line.

        Raises:
            OSError: the content can't be written.
        """

    @abstractmethod
    def load(self, name: str, longest: int) -> bytes:
        """Return the content with a name, its sum verified.

        Raises:
            PayloadError: it is missing, longer than ``longest``, or was changed.
        """

    def name_for_errors(self, name: str) -> str:
        """Return the payload's name for errors, without the place that the journal's error contains."""
        return name

    def note_stored(self, names: Iterable[str]) -> None:
        """Note that these contents are stored together with a line."""
        self._brought.update(names)

    def extract(self, data: Any, *, force: bool) -> tuple[Any, dict[str, bytes]]:
        """Replace the large texts in the plain data of a line by references.

        Args:
            data: not modified.
            force: whether files must be on disk before this returns.

        Returns:
            The new data, and the contents to store together with the line, by name. Contents in files are not included.

        Raises:
            OSError: a file can't be written.
        """
        moved: set[str] = set()
        brings: dict[str, bytes] = {}
        room = LONGEST_WITH_PAYLOADS

        def move(text: str) -> Any:
            nonlocal room
            if len(text) < LARGE:
                return text
            content = text.encode("utf-8", "surrogatepass")
            name = sha256(content).hexdigest()
            if name not in moved:
                moved.add(name)
                room -= len(content)
                if room < 0:
                    raise OSError(None, f"its texts have more than the {LONGEST_WITH_PAYLOADS:,} bytes of a record")
                if name not in self._brought and self.store(name, content, force):
                    brings[name] = content
            return {REFERENCE: name}

        return map_data(data, lambda value: move(value) if isinstance(value, str) else None), brings

    def restore(self, data: Any, look: Callable[[bytes], object] = len, *, keep: bool = False) -> Any:
        """Replace the references in the plain data of a line by their texts.

        Args:
            data: not modified; at most as deep as a line.
            look: called with the bytes of each text.
            keep: whether to cache the texts for later lines. A caller that stores a whole conversation then has each
                text in memory once.

        Raises:
            PayloadError: a text is missing or was changed, or the texts are too long; the message names it.
        """
        known: dict[str, tuple[str, int]] = {}
        """Texts of this line, so that a repeated reference shares one text."""
        room = LONGEST_WITH_PAYLOADS

        def bring(value: Any) -> Any:
            nonlocal room
            if not (isinstance(value, dict) and len(value) == 1 and REFERENCE in value):
                return None
            name = value[REFERENCE]
            if not is_name(name):
                raise PayloadError(f"{name!r} is no name of a payload")
            if name not in known:
                known[name] = self._kept.get(name) or self._get(name, room, look)
                room -= known[name][1]
                if room < 0:
                    raise PayloadError(f"its texts have more than the {LONGEST_WITH_PAYLOADS:,} bytes of a record")
            return known[name][0]

        brought = map_data(data, bring)
        if keep:
            self._kept |= known
        return brought

    def _get(self, name: str, room: int, look: Callable[[bytes], object]) -> tuple[str, int]:
        content = self.load(name, room)
        look(content)
        try:
            return content.decode("utf-8", "surrogatepass"), len(content)
        except UnicodeDecodeError as error:
            raise PayloadError(f"the payload {self.name_for_errors(name)} is no text") from error


class Payloads(Contents, LargeTexts):
    """The payloads of a file journal, in files beside it."""

    def __init__(self, journal: Path) -> None:
        Contents.__init__(self, directory_of(journal), "payload")
        LargeTexts.__init__(self)

    def store(self, name: str, content: bytes, force: bool) -> bool:
        self.put(content, force=force, name=name)
        return False

    def load(self, name: str, longest: int) -> bytes:
        try:
            return self.get(name, longest)
        except ContentError as error:
            raise PayloadError(str(error)) from error

    def name_for_errors(self, name: str) -> str:
        return str(self.directory / name)


class RecorderPayloads(LargeTexts):
    """The payloads of a recorder. If it does not support payloads, all are missing."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def store(self, name: str, content: bytes, force: bool) -> bool:
        return True

    def load(self, name: str, longest: int) -> bytes:
        """See ``LargeTexts.load``.

        Raises:
            JournalError: the recorder can't read the payload.
        """
        if not isinstance(self._recorder, KeepsPayloads):
            raise PayloadError(f"the payload {name} is missing: what records this session keeps none")
        try:
            content = self._recorder.payload(name)
        except JournalError:
            raise
        except Exception as error:
            raise JournalError(f"can't be read: {describe(error)}", path=path_of(self._recorder)) from error
        if content is None:
            raise PayloadError(f"the payload {name} is missing")
        if not isinstance(content, bytes):
            why = f"can't be read: payloads have to be bytes, and one is of the type {type(content).__name__}"
            raise JournalError(why, path=path_of(self._recorder))
        if len(content) > longest:
            raise PayloadError(f"its texts have more than the {LONGEST_WITH_PAYLOADS:,} bytes of a record")
        if sha256(content).hexdigest() != name:
            raise PayloadError(f"the payload {name} was changed after it was written")
        return content


def map_data(data: Any, change: Map) -> Any:
    """Return a copy of plain data. ``change`` returns the replacement of a value, or None to look inside it."""
    changed = change(data)
    if changed is not None:
        return changed
    if isinstance(data, dict):
        return {name: map_data(value, change) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [map_data(value, change) for value in data]
    return data

"""Large texts of a journal: each in a file of its own, named by the SHA-256 of what is in it.

    session.jsonl                       {"seq":3,"input":{...,"content":{"$payload":"9f86d0..."}},...}
    session.jsonl.payloads/9f86d0...    the text, as UTF-8

So lines stay short, and what a tool gives ten times stands there once. A file is whole before a record names it; one
that no record names, as a crash may leave it, does no harm.

Other recorders may keep them too, by the same names and with the same lines: see ``recorder.KeepsPayloads``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from interpreters.recording.journal.contents import ContentError, Contents, is_name
from interpreters.recording.journal.errors import JournalError
from interpreters.recording.recorder import KeepsPayloads, Recorder, path_of
from interpreters.tools.failures import describe

LARGE = 16_384
"""Characters from which on a text gets a file of its own: the time to write a line of that length is about that of
making a file."""

LONGEST_WITH_PAYLOADS = 1 << 28
"""Bytes of all large texts that one line names, 256 MiB: neither written nor read beyond."""

REFERENCE = "$payload"
"""The only key of what stands in a record instead of a text. No value of the core has an object with such a key."""
MARK = b'"$payload"'
"""Whether a line holds one: within a text the quotes would be escaped."""

Map = Callable[[Any], Any]


def directory_of(journal: Path) -> Path:
    """Where the large texts of a journal are, if it has any."""
    return journal.parent / f"{journal.name}.payloads"


class PayloadError(Exception):
    """A payload is not what the record says."""


class LargeTexts(ABC):
    """The large texts of one journal, wherever they are."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, int]] = {}
        """Texts that were read and are kept, by their name, with their length in bytes."""
        self._brought: set[str] = set()
        """What stands where it is together with a line that was written here."""

    @abstractmethod
    def place(self, name: str, content: bytes, force: bool) -> bool:
        """See that a content is there, unless it has to be kept together with its line, which is what this tells.

        Raises:
            OSError: it can't be written.
        """

    @abstractmethod
    def found(self, name: str, longest: int) -> bytes:
        """The content of a name, its sum checked.

        Raises:
            PayloadError: it is missing, longer, or was changed.
        """

    @abstractmethod
    def shown(self, name: str) -> str:
        """What errors call it."""

    def kept(self, names: Iterable[str]) -> None:
        """What had to be kept together with a line is kept."""
        self._brought.update(names)

    def moved_out(self, data: Any, *, force: bool) -> tuple[Any, dict[str, bytes]]:
        """The plain data of a line with its large texts replaced by references.

        Args:
            data: is not changed.
            force: whether files have to be on the disk before this returns.

        Returns:
            The data, and what has to be kept together with the line, by its name: nothing where it is in files.

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
                if name not in self._brought and self.place(name, content, force):
                    brings[name] = content
            return {REFERENCE: name}

        return _mapped(data, lambda value: move(value) if isinstance(value, str) else None), brings

    def brought_back(self, data: Any, look: Callable[[bytes], object] = len, *, keep: bool = False) -> Any:
        """The plain data of a line with its references replaced by the texts.

        Args:
            data: is not changed; no deeper than a line may be.
            look: is shown the bytes of each text that is read.
            keep: whether to keep the texts for the lines that follow. Whoever holds a whole conversation then holds
                each text once, however often it is named.

        Raises:
            PayloadError: one is missing or was changed, or they are too long; says which.
        """
        known: dict[str, tuple[str, int]] = {}
        """What is named twice in a line is held once."""
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

        brought = _mapped(data, bring)
        if keep:
            self._kept |= known
        return brought

    def _get(self, name: str, room: int, look: Callable[[bytes], object]) -> tuple[str, int]:
        content = self.found(name, room)
        look(content)
        try:
            return content.decode("utf-8", "surrogatepass"), len(content)
        except UnicodeDecodeError as error:
            raise PayloadError(f"the payload {self.shown(name)} is no text") from error


class Payloads(Contents, LargeTexts):
    """Those of a journal that is a file, in files beside it."""

    def __init__(self, journal: Path) -> None:
        Contents.__init__(self, directory_of(journal), "payload")
        LargeTexts.__init__(self)

    def place(self, name: str, content: bytes, force: bool) -> bool:
        """See ``LargeTexts.place``."""
        self.put(content, force=force, name=name)
        return False

    def found(self, name: str, longest: int) -> bytes:
        """See ``LargeTexts.found``."""
        try:
            return self.get(name, longest)
        except ContentError as error:
            raise PayloadError(str(error)) from error

    def shown(self, name: str) -> str:
        """The file's path."""
        return str(self.directory / name)


class RecorderPayloads(LargeTexts):
    """Those that a recorder keeps; of one that keeps none, none are found."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def place(self, name: str, content: bytes, force: bool) -> bool:
        """See ``LargeTexts.place``."""
        return True

    def found(self, name: str, longest: int) -> bytes:
        """See ``LargeTexts.found``.

        Raises:
            JournalError: the recorder can't read it.
        """
        if not isinstance(self._recorder, KeepsPayloads):
            raise PayloadError(f"the payload {name} is missing: what records this session keeps none")
        try:
            content = self._recorder.payload(name)
        except JournalError:
            raise
        except Exception as error:
            raise self._unreadable(describe(error)) from error
        if content is None:
            raise PayloadError(f"the payload {name} is missing")
        if not isinstance(content, bytes):
            raise self._unreadable(f"payloads have to be bytes, and one is of the type {type(content).__name__}")
        if len(content) > longest:
            raise PayloadError(f"its texts have more than the {LONGEST_WITH_PAYLOADS:,} bytes of a record")
        if sha256(content).hexdigest() != name:
            raise PayloadError(f"the payload {name} was changed after it was written")
        return content

    def shown(self, name: str) -> str:
        """Its name: where it is, the error of the journal says."""
        return name

    def _unreadable(self, why: str) -> JournalError:
        return JournalError(f"can't be read: {why}", path=path_of(self._recorder))


def _mapped(data: Any, change: Map) -> Any:
    """A copy of plain data; ``change`` gives what stands for a value, or None to look inside it."""
    changed = change(data)
    if changed is not None:
        return changed
    if isinstance(data, dict):
        return {name: _mapped(value, change) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_mapped(value, change) for value in data]
    return data

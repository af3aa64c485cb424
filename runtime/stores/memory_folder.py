"""A memory: a folder of Markdown files, written by people and agents, with a search over them.

The files are the source of truth. This module only appends to them, under a lock and synced to disk. The index is built
from the files and can be deleted at any time. See ``docs/guides/memory.md``.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from attrs import frozen

from cognition.base.checking import show
from cognition.context.words import message_words
from runtime.closeable import Closeable
from runtime.errors import MemoryStoreError
from runtime.files import (
    StrPath,
    UnusableFileError,
    closing,
    force_directory,
    make_directory,
    open_private,
    read_regular,
    reason_about,
    replace_private,
)
from runtime.stores._day_words import days_in
from runtime.stores._file_snapshot import FOLDERS, LONGEST_FILE
from runtime.stores._index import Filters, FoundPassage, Index
from runtime.stores._index_versions import BUSY, ELSEWHERE, FOLDER, IndexVersions, code_of, lock
from runtime.stores._outcomes import OUTCOMES, How, OutcomeCounts, digest_of, outcome_line
from runtime.stores.markdown_entries import change_notes, clean, day_of, entry, notes_in, one_line

EXCERPT = 160
"""Maximum characters of an excerpt."""

Source = Literal["episodes", "knowledge", "outcomes"]

LONGEST_NOTE = 1 << 16
"""Maximum characters of a note."""

FOUND, MOST_FOUND = 5, 100
"""Default and maximum number of passages of a search."""

MOST_RECALLED = 4_000
"""Maximum characters of ``recall``, but at least one passage: they must fit a small model."""

MOST_DAYS = 366
"""Maximum days of a digest."""

MOST_OTHERS = 3
"""Passages of the days that a query names, before any that only share its words."""

LEAST = 0.25
"""Minimum score for ``recall``, as a share of the best passage's score: a model would mistake a weaker passage for an
answer.
"""

TOPIC = re.compile(r"[^\W_][\w -]{0,62}[\w-]|[^\W_]")
USUAL_TOPIC = "notes"

SAID = 1_000
"""Maximum characters of the user's text and of the answer in an episode."""

R = TypeVar("R")


@frozen
class Passage:
    """A part of a memory's file, found by a search."""

    text: str
    """Its original text, at most 2,000 characters."""
    score: float
    """Score relative to the best result, which has 1."""
    source: Source
    file: str
    """Within the memory, such as ``knowledge/projects.md``."""
    line: int
    """Its first line in the file, from 1."""
    date: str
    """``2026-11-25``, from its heading or its file; else empty."""
    title: str
    """The headings above it, without a leading date."""
    excerpt: str
    """One line of it, around a word of the query."""

    def __str__(self) -> str:
        """Return the text for a model: with its title, and with its date unless it is from ``knowledge``."""
        heading = ", ".join(part for part in (self.date if self.source != "knowledge" else "", self.title) if part)
        return f"{heading}\n{self.text}" if heading else self.text


@frozen
class MemoryFile:
    """A file of a memory."""

    file: str
    source: Source
    passages: int
    problem: str = ""
    """Why it cannot be searched, with a remedy; empty if it can."""


class MemoryFolder(Closeable):
    """A memory in a folder of Markdown files, with full-text search.

    >>> import tempfile
    >>> memory = MemoryFolder(tempfile.mkdtemp())
    >>> memory.remember("The user's cat is named Miu.")
    True
    >>> memory.remember("Invoices are paid on Fridays.", topic="work")
    True
    >>> memory.recall("my cats")
    ("The user's cat is named Miu.",)
    >>> memory.search("invoice")[0].file
    'knowledge/work.md'

    Several processes and threads may use one folder concurrently.

    Args:
        path: the folder, created if missing.
        hide: transforms each text before it is written, such as ``interpreters.hide_secrets``.
        now: the clock, for dates and recency.

    Raises:
        MemoryStoreError: the folder cannot be used, or this Python's SQLite has no full-text search.
    """

    def __init__(
        self,
        path: StrPath,
        *,
        hide: Callable[[str], str] | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise MemoryStoreError(f"a memory needs the path of a folder, not {show(path)}", "")
        self.path: Path = Path(os.path.abspath(os.fspath(path)))
        self._hide = hide
        self._now = now
        self._mutex = threading.Lock()
        self._generations = IndexVersions(self.path)
        self._tallies = OutcomeCounts()
        self._open: tuple[str, Index] | None = None
        self._process = os.getpid()
        self._closed = False
        if not os.fspath(path):
            raise self._error("its name is empty", "name a folder")
        if not _has_fts5():
            todo = "use one that has, as those of python.org have"
            raise self._error("this Python's SQLite has no full-text search (FTS5)", todo)
        with self._report_errors(self.path):
            make_directory(self.path)
            self._refuse_links()
        weakref.finalize(self, _close, self.__dict__)

    # -------------------------------------------------------------------------------------------------- writing

    def remember(self, text: str, topic: str = USUAL_TOPIC) -> bool:
        """Write a note into ``knowledge/TOPIC.md``; return False if the file already contains it.

        Raises:
            MemoryStoreError: it cannot be written, is empty or too long, or the topic is not a valid file name.
        """
        self._check_topic(topic)
        note = self._note("text", text)
        path = self.path / "knowledge" / f"{topic}.md"
        with self._writing(path):
            try:
                there = read_regular(path, LONGEST_FILE, links=False)
            except FileNotFoundError:
                there = b""
            if note in notes_in(there.decode("utf-8-sig", "replace"), note, topic):
                return False
            self._append(path, f"# {topic}\n", entry(f"{self._now():%Y-%m-%d %H:%M}", note))
        return True

    def forget(self, text: str, topic: str = "") -> int:
        """Remove a note from ``knowledge/``, and return how many were removed: 0 if no note has exactly this text.

        ``topic``: only of this one; empty for all.

        Raises:
            MemoryStoreError: a file cannot be read or written, or the topic is not a valid file name.
        """
        return self._change(self._note("text", text, hide=False), None, topic)

    def replace(self, text: str, new: str, topic: str = "") -> int:
        """Replace a note in ``knowledge/`` by a new text with the date of today, at its place.

        Args and errors are those of ``forget``. Returns how many notes were replaced.
        """
        return self._change(self._note("text", text, hide=False), self._note("new", new), topic)

    def _change(self, note: str, instead: str | None, topic: str) -> int:
        if topic:
            self._check_topic(topic)
        names = [one.file for one in self.files() if one.source == "knowledge" and not one.problem]
        names = [name for name in names if not topic or name == f"knowledge/{topic}.md"]
        return sum(self._change_file(self.path / name, note, instead) for name in names)

    def _change_file(self, path: Path, note: str, instead: str | None) -> int:
        with self._writing(path):
            try:
                content = read_regular(path, LONGEST_FILE, links=False)
            except FileNotFoundError:
                return 0
            heading = f"{self._now():%Y-%m-%d %H:%M}"
            new, changed = change_notes(content, note, path.stem, instead, heading)
            if len(new) > max(LONGEST_FILE, len(content)):
                reason = f"it would be longer than the {LONGEST_FILE:,} bytes that are searched; move a part of it"
                raise UnusableFileError(reason, path)
            if changed:
                replace_private(path, new, durable=True)
            return changed

    def _check_topic(self, topic: str) -> None:
        self._check("topic", topic, str)
        if not TOPIC.fullmatch(topic):
            todo = "use up to 64 letters, digits, spaces, '-' and '_', a letter or digit first"
            raise self._error(f"{topic!r} is no topic", todo)

    def _note(self, name: str, text: str, *, hide: bool = True) -> str:
        """Return a text as it is in a file."""
        self._check(name, text, str)
        note = clean(self._hide_secrets(text) if hide else text)
        if not note:
            raise self._error("a note has to say something", "give it a text")
        if len(note) > LONGEST_NOTE:
            raise self._error(f"a note has {len(note):,} characters, and {LONGEST_NOTE:,} at most", "shorten it")
        return note

    def note_episode(self, said: str, answer: str, tools: Iterable[str] = (), origin: str = "") -> None:
        """Write the summary of one turn into today's file in ``episodes/``.

        Args:
            said: the user's text.
            answer: the final answer.
            tools: one line per call.
            origin: its place, such as the name of a channel.

        Raises:
            MemoryStoreError: it cannot be written.
        """
        now, said, answer = self._now(), self._hide_secrets(said), self._hide_secrets(answer)
        heading = f"{now:%H:%M}{f' [{one_line(origin, 40)}]' * bool(origin)} — {one_line(said, 80)}"
        calls = [one_line(self._hide_secrets(tool), 200) for tool in tools]
        lines = [f"- **User:** {one_line(said, SAID)}"]
        lines += [f"- **Tools:** {'; '.join(calls)}"] if calls else []
        lines += [f"- **Response:** {one_line(answer, SAID)}"]
        path = self.path / "episodes" / f"{now:%Y-%m-%d}.md"
        with self._writing(path):
            self._append(path, f"# {now:%Y-%m-%d}\n", f"## {heading}\n\n" + "\n".join(lines) + "\n")

    def note_outcome(self, tool: str, outcome: How, arguments: str = "", detail: str = "") -> None:
        """Write the outcome of a tool call into today's file in ``outcomes/``.

        Args:
            tool: its name.
            outcome: ``succeeded``, ``failed``, ``denied``, or ``approved`` by a user.
            arguments: as text.
            detail: its result, or the reason of the failure.

        Raises:
            MemoryStoreError: it cannot be written, or there is no such outcome.
        """
        if outcome not in OUTCOMES:
            raise self._error(f"{outcome!r} is no outcome of a call", f"use one of {', '.join(OUTCOMES)}")
        now = self._now()
        line = outcome_line(f"{now:%H:%M}", tool, outcome, self._hide_secrets(arguments), self._hide_secrets(detail))
        path = self.path / "outcomes" / f"{now:%Y-%m-%d}.md"
        with self._writing(path):
            self._append(path, f"# {now:%Y-%m-%d}\n\n", line, apart=False)

    # ------------------------------------------------------------------------------------------------- searching

    def recall(self, query: str) -> tuple[str, ...]:
        """Return the best notes and episodes for a query, best first, at most five and short enough for a model.

        If the query names days (``last Tuesday``, ``2026-11-24``, ``in October``), the passages of these days come
        first: those that share a word with the rest of the query, then up to three others.
        """
        self._check("query", query, str)
        sources: tuple[Source, ...] = ("episodes", "knowledge")
        found = [one for one in self.search(query, sources=sources) if one.score >= LEAST]
        if (asked := days_in(query, self._now().date())) is not None:
            days, rest = asked
            of_days = Filters(sources, str(days.first), str(days.last))
            sharing = self.search(rest, sources=sources, after=days.first, before=days.last)
            rows = self._with_index(lambda index: index.newest(of_days, FOUND))
            others = [_passage(row, 0.0, "") for row in rows]
            few = max(MOST_OTHERS - len(sharing), 0)
            places = {(one.file, one.line) for one in sharing}
            others = [one for one in others if (one.file, one.line) not in places]
            first: dict[tuple[str, int], Passage] = {}
            for one in (*sharing, *others[:few], *found, *others[few:]):
                first.setdefault((one.file, one.line), one)
            found = list(first.values())
        texts = [str(one) for one in found[:FOUND]]
        lengths = accumulate(map(len, texts))
        return tuple(text for text, length in zip(texts, lengths, strict=True) if length <= MOST_RECALLED)

    def search(
        self,
        query: str,
        *,
        limit: int = FOUND,
        sources: Iterable[Source] = get_args(Source),
        after: str | date = "",
        before: str | date = "",
    ) -> tuple[Passage, ...]:
        """Return the passages with any of the query's words, best first. Any text is a valid query.

        Args:
            query: words. Of more than 24 different words, the rarest that occur in this memory count.
            limit: maximum number, up to 100.
            sources: of ``episodes``, ``knowledge``, ``outcomes``.
            after: only passages with a date on or after this day: a date, or words such as ``last Tuesday``.
            before: only passages with a date on or before this day.

        Raises:
            MemoryStoreError: a filter is invalid, or the files cannot be read.
        """
        self._check("query", query, str)
        self._check("limit", limit, int)
        wanted = (sources,) if isinstance(sources, str) else tuple(sources)
        if unknown := [one for one in wanted if one not in FOLDERS]:
            raise self._error(f"there is no source {unknown[0]!r}", f"use {', '.join(FOLDERS)}")
        filters = Filters(wanted, self._day("after", after), self._day("before", before))
        words, count = query_of(query), max(1, min(limit, MOST_FOUND))
        today = self._now().date()

        def find(index: Index) -> tuple[list[str], list[FoundPassage]]:
            rarest = index.rarest(words)
            return rarest, index.search(rarest, filters, count, today)

        used, rows = self._with_index(find) if words and wanted else ([], [])
        shown = " ".join(word.strip('"') for word in used)
        return tuple(_passage(row, rows[0].score, shown) for row in rows)

    def digest(self, days: int = 7) -> str:
        """Return a summary of the tool calls of the last days, including today, for a prompt; empty without calls.

        ``days``: 1 to 366.
        """
        self._check("days", days, int)
        today, days = self._now().date(), max(1, min(days, MOST_DAYS))
        asked = [str(today - timedelta(days=back)) for back in reversed(range(days))]
        with self._report_errors(self.path):
            self._refuse_links()
            return digest_of(self._tallies.of(self.path / "outcomes", asked), days)

    def files(self) -> tuple[MemoryFile, ...]:
        """Return the files of this memory by name, including those that cannot be searched.

        Raises:
            MemoryStoreError: they cannot be read.
        """
        known = self._with_index(lambda index: dict(index.files()))
        return tuple(MemoryFile(name, _source(name), one.passages, one.problem) for name, one in sorted(known.items()))

    def rebuild(self) -> int:
        """Rebuild the index from the files; return the number of passages.

        Raises:
            MemoryStoreError: the files cannot be read.
        """
        with self._mutex:
            with self._report_errors(self.path):
                self._refuse_links()
            self._renew()
        return sum(one.passages for one in self.files())

    def close(self) -> None:
        """Close the index. A second call does nothing."""
        with self._mutex:
            self._closed = True
            self._close_index()

    # --------------------------------------------------------------------------------------------------- the files

    def _refuse_links(self) -> None:
        """Check that no folder of the memory is a link, which a cloned repository may bring.

        Raises:
            UnusableFileError: one is.
        """
        for name in (*FOLDERS, FOLDER):
            if (self.path / name).is_symlink():
                raise UnusableFileError(
                    "it is a link, where a folder of this memory has to be; delete it", self.path / name
                )

    def _hide_secrets(self, text: str) -> str:
        return text if self._hide is None else self._hide(text)

    @contextlib.contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        """Create the folder, take the lock, and convert errors, around a write."""
        if self._closed:
            raise self._error("it is closed", "make a new MemoryFolder")
        with self._report_errors(path):
            self._refuse_links()
            make_directory(path.parent)
            with lock(self.path / ".lock"):
                yield

    def _append(self, path: Path, beginning: str, text: str, *, apart: bool = True) -> None:
        """Append a text to a file durably: it is on disk when this returns."""
        with closing(open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)) as descriptor:
            size = os.fstat(descriptor).st_size
            end = os.pread(descriptor, 2, max(0, size - 2)) if size else b""
            if size == 0:
                text = f"{beginning}\n{text}" if apart else beginning + text
            elif not end.endswith(b"\n"):  # as a crash or an editor leaves it
                text = f"\n\n{text}" if apart else f"\n{text}"
            elif apart and end != b"\n\n":
                text = f"\n{text}"
            content = text.encode("utf-8", "replace")
            if size + len(content) > LONGEST_FILE:
                reason = f"it would be longer than the {LONGEST_FILE:,} bytes that are searched; move a part of it"
                raise UnusableFileError(reason, path)
            written = 0
            try:
                while written < len(content):
                    written += os.write(descriptor, content[written:])
                os.fsync(descriptor)
            except OSError:
                if os.fstat(descriptor).st_size == size + written:  # else somebody else's text would go as well
                    os.ftruncate(descriptor, size)
                raise
        if size == 0:
            force_directory(path.parent)

    # --------------------------------------------------------------------------------------------------- the index

    def _with_index(self, use: Callable[[Index], R]) -> R:
        """Update the index from the files and use it; if it is damaged, rebuild it and use it again."""
        with self._mutex:
            if self._closed:
                raise self._error("it is closed", "make a new MemoryFolder")
            with self._report_errors(self.path):
                self._refuse_links()
            for last in (False, True):
                try:
                    index = self._current_index()
                    try:
                        with self._report_errors(self.path):
                            index.follow(self.path)
                    except sqlite3.Error as error:
                        if code_of(error) not in BUSY:
                            raise
                        # Another process writes it for long: what stands is better than nothing.
                    return use(index)
                except sqlite3.Error as error:
                    if last:
                        todo = "try again" if code_of(error) in BUSY else "delete .index in it, and try again"
                        raise self._error(f"its index can't be used ({error})", todo) from error
                    self._recover(error)
        raise AssertionError("unreachable")

    def _current_index(self) -> Index:
        if self._process != os.getpid():  # a fork: SQLite's connections don't go along
            if self._open is not None:
                self._open[1].abandon()
            self._open, self._process = None, os.getpid()
        if self._open is not None and self._open[0] and self._open[0] != self._generations.current():
            self._close_index()
        if self._open is None:
            try:
                self._open = self._generations.open()
            except (sqlite3.Error, OSError, MemoryStoreError):
                self._open = ("", Index(None))  # a folder that can't be written is searched all the same
        return self._open[1]

    def _close_index(self) -> str:
        """Close the index, if one is open; return its name, empty for one in memory."""
        name, index = self._open or ("", None)
        if index is not None:
            index.close()
        self._open = None
        return name

    def _recover(self, error: sqlite3.Error) -> None:
        if code_of(error) in ELSEWHERE:
            self._close_index()
            self._open = ("", Index(None))
        elif code_of(error) not in BUSY:
            self._renew()

    def _renew(self) -> None:
        name = self._close_index() or self._generations.current()
        try:
            self._open = self._generations.replace(name)
        except (sqlite3.Error, OSError, MemoryStoreError):
            self._open = ("", Index(None))

    # ----------------------------------------------------------------------------------------------------- in words

    def _day(self, name: str, value: str | date) -> str:
        text = str(value.date() if isinstance(value, datetime) else value)
        if not text or day_of(text):
            return text
        named = days_in(text, self._now().date())
        if named is None or named[1].strip():
            raise self._error(f"{name}={value!r} is no date", "write it as 2026-11-25, or 'last Tuesday'")
        return str(named[0].first if name == "after" else named[0].last)

    @contextlib.contextmanager
    def _report_errors(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename or path  # the very file or folder, where the system says it
            raise MemoryStoreError(f"{place}: {reason_about(error, path)}", str(place)) from error

    def _check(self, name: str, value: object, kind: type) -> None:
        if not isinstance(value, kind) or isinstance(value, bool):
            wanted = "a text" if kind is str else "a whole number"
            raise self._error(f"{name} has to be {wanted}, not {show(value)}", "give one")

    def _error(self, reason: str, todo: str) -> MemoryStoreError:
        return MemoryStoreError(f"the memory in {self.path}: {reason}; {todo}", str(self.path))


def _source(name: str) -> Source:
    return cast("Source", name.partition("/")[0])


def _passage(row: FoundPassage, best: float, query: str) -> Passage:
    score = row.score / best if best > 0 else 1.0
    excerpt = excerpt_of(row.text, query)
    return Passage(row.text, score, _source(row.name), row.name, row.line, row.day, row.title, excerpt)


def _has_fts5() -> bool:
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        try:
            empty.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
        except sqlite3.Error:
            return False
    return True


def _close(attributes: dict[str, object]) -> None:
    """Close explicitly: connections reference themselves and would wait for a garbage collection."""
    found = attributes.get("_open")
    if isinstance(found, tuple) and attributes.get("_process") == os.getpid():
        found[1].close()


def query_of(text: str) -> list[str]:
    """Return the words of a query as FTS5 phrases, each in quotes, which no word contains."""
    return [f'"{word}"' for word in message_words(text)]


def excerpt_of(text: str, query: str, length: int = EXCERPT) -> str:
    """Return one line of a text around the first word of a query, or its beginning if none is found."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    small = line.lower()
    places = [small.find(word[: max(2, len(word) - 2)] if len(word) > 3 else word) for word in message_words(query)]
    first = min((place for place in places if place >= 0), default=0)
    begin = max(0, min(first - length // 4, len(line) - length))
    piece = line[begin : begin + length]
    return f"{'…' * (begin > 0)}{piece[(begin > 0) :]}"[: length - 1] + "…" * (begin + length < len(line))

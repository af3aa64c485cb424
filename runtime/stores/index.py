"""The index of a memory: SQLite's full-text search over the passages of its files, which it follows.

Everything in it is made of the files and can be made again. A file whose size, times and number are as they were is not
read; one that is read is taken apart only if the hash of its content is another, and of its passages only those are
indexed that weren't there before.

Nothing here looks after the database's own file (see ``generations``); whatever is wrong is a ``sqlite3.Error``.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from hashlib import blake2b
from heapq import nlargest
from itertools import accumulate, takewhile
from pathlib import Path

from attrs import evolve, frozen

from cognition.context.words import words_of
from runtime.files import UnusableFileError, read_regular
from runtime.stores.entries import Piece, pieces_of

VERSION = 1
"""Of the tables and of how texts become words. An index of another is made again."""

FOLDERS = ("episodes", "knowledge", "outcomes")
"""What a memory consists of: the folders with its files, which are the sources of what is found."""

LONGEST_FILE = 1 << 24
"""Bytes of a file that is indexed, 16 MiB."""

MOST_PASSAGES = 50_000
"""Of one file."""

RECENCY, HALF_LIFE = 0.5, 30
"""What the passages of today count more than those without a date, and the days after which that is half as much."""

ENOUGH_ROWS = 1_000
"""Passages that are weighed by a query's words, the rarest first. To weigh 20,000 of them by a word that most of them
have, and that says next to nothing of any, would take longer than all the rest."""

NEXT_TO_NOTHING = 1e-6
"""What SQLite's bm25 gives a word that is in more than half of all passages, and this to any beyond ``ENOUGH_ROWS``."""

RACY = 2_000_000_000
"""Nanoseconds for which the time of a file's last change is not enough to tell that it did not change again."""

CACHE = 1 << 15
"""KiB of the database that may be kept in memory, 32 MiB: what 20,000 passages need while they are searched."""

WAIT = 10_000
"""Milliseconds for another process that writes the index."""

TABLES = """
CREATE TABLE about (version INTEGER NOT NULL);
CREATE TABLE files (
    name TEXT PRIMARY KEY, state TEXT NOT NULL, checked INTEGER NOT NULL, hash BLOB NOT NULL, problem TEXT NOT NULL,
    passages INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE passages (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, source TEXT NOT NULL, place INTEGER NOT NULL, line INTEGER NOT NULL,
    day TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, hash BLOB NOT NULL
);
CREATE INDEX in_files ON passages(name, place);
CREATE INDEX by_day ON passages(day DESC, name, place, source);
CREATE INDEX by_id ON passages(id, day, name, place, source);
CREATE VIRTUAL TABLE words USING fts5(title, text, tokenize = "porter ascii tokenchars '+#'");
"""
"""``words`` holds the words of ``passages`` as ``words_of`` gives them, with spaces between: SQLite adds the English
stems (https://www.sqlite.org/fts5.html)."""


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """A value that no index of ours holds, such as a day that there is not, is damage like any that SQLite notices."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise sqlite3.DatabaseError(f"a value in the index is damaged: {error}") from error


@frozen
class Filters:
    """Which passages may be found."""

    sources: tuple[str, ...] = FOLDERS
    after: str = ""
    """Not before this day."""
    before: str = ""
    """Not after this day."""


@frozen
class Row:
    """A passage that was found."""

    score: float
    """The more, the better it fits; to be compared within one search."""
    name: str
    line: int
    day: str
    title: str
    text: str


State = tuple[int, int, int, int]
"""What tells that a file is another than it was, without reading it: number, size, and the times of its last changes,
in nanoseconds."""


@frozen
class Known:
    """A file as it was indexed."""

    state: State
    checked: int
    """When it was read, in nanoseconds."""
    hash: bytes
    problem: str = ""
    """Why it is not indexed."""
    passages: int = 0
    content: bytes = b""
    """Only where it was just read."""


class Index:
    """A database, open. For one thread at a time.

    Args:
        path: an empty file or an index; None keeps it in this process.

    Raises:
        sqlite3.Error: it is no index, of another version, or damaged.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = sqlite3.connect(
            ":memory:" if path is None else path, check_same_thread=False, isolation_level=None, timeout=WAIT / 1000
        )
        self._known: dict[str, Known] | None = None
        """The files that are indexed, as long as no other process writes."""
        self._version = 0
        try:
            self._file.execute(f"PRAGMA cache_size = -{CACHE}")
            if path is not None:
                self._file.execute("PRAGMA journal_mode = WAL")
                self._file.execute("PRAGMA synchronous = NORMAL")
            if self._file.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
                with self._writing():
                    for statement in TABLES.split(";\n"):
                        self._file.execute(statement)
                    self._file.execute("INSERT INTO about VALUES (?)", (VERSION,))
            if _schema(self._file) != _own_schema():
                raise sqlite3.DatabaseError("its tables are not those of an index")
            if self._file.execute("SELECT version FROM about").fetchall() != [(VERSION,)]:
                raise sqlite3.DatabaseError("the index is of another version")
            counts = "(SELECT count(*) FROM passages), (SELECT count(*) FROM words), (SELECT sum(passages) FROM files)"
            passages, words, whole = self._file.execute(f"SELECT {counts}").fetchone()
            if not passages == words == (whole or 0):
                raise sqlite3.DatabaseError("a part of the index is missing")
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """A second call does nothing."""
        self._file.close()

    def abandon(self) -> None:
        """In a forked child, where the parent's connection must neither be used nor closed."""
        _abandoned.append(self._file)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction: all of it, or nothing."""
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._file.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
            raise

    # ------------------------------------------------------------------------------------------------- the files

    def follow(self, folder: Path) -> None:
        """Take in what has changed in the files since; raises sqlite3.Error and OSError."""
        with _damage():
            self._follow(folder)

    def _follow(self, folder: Path) -> None:
        states = states_in(folder)
        if not self._changed(folder, states):
            return
        with self._writing():
            self._known = self._read_files()  # another process may have been here meanwhile
            for name in self._changed(folder, states):
                self._take_in(folder, name, self._known.get(name))
        self._known = None

    def _changed(self, folder: Path, states: Mapping[str, State]) -> list[str]:
        """The names of files that are not as they were indexed, in order."""
        known = self._files()
        found = list(known.keys() - states.keys())
        for name, state in states.items():
            one = known.get(name)
            if one is None or one.state != state:
                found.append(name)
            elif one.checked - max(state[2:]) < RACY:
                now = _look(folder, name)
                if now is None or now.hash != one.hash or now.checked - max(state[2:]) >= RACY:
                    found.append(name)
        return sorted(found)

    def files(self) -> Mapping[str, Known]:
        """The files as they were indexed."""
        return self._files()

    def _files(self) -> dict[str, Known]:
        version = self._file.execute("PRAGMA data_version").fetchone()[0]
        if self._known is None or version != self._version:
            self._known, self._version = self._read_files(), version
        return self._known

    def _read_files(self) -> dict[str, Known]:
        rows = self._file.execute("SELECT name, state, checked, hash, problem, passages FROM files")
        return {name: Known(_parsed(state), *rest) for name, state, *rest in rows}

    def _take_in(self, folder: Path, name: str, known: Known | None) -> None:
        """Index a file as it is now."""
        now = _look(folder, name)
        if now is None:
            self._file.execute("DELETE FROM files WHERE name = ?", (name,))
            self._put(name, ())
            return
        count = 0 if known is None else known.passages
        if known is None or (now.hash, now.problem) != (known.hash, known.problem):
            stem = name.rpartition("/")[2].removesuffix(".md")
            pieces = pieces_of(now.content.decode("utf-8-sig", "replace"), stem)
            if len(pieces) > MOST_PASSAGES:
                now = evolve(
                    now, problem=f"it has more than the {MOST_PASSAGES:,} sections that are searched; split it"
                )
                pieces = []
            self._put(name, pieces)
            count = len(pieces)
        row = (name, ":".join(map(str, now.state)), now.checked, now.hash, now.problem, count)
        self._file.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", row)

    def _put(self, name: str, pieces: Sequence[Piece]) -> None:
        """Have these passages of a file in place of those that are there, of which what is the same stays."""
        old = self._file.execute(
            "SELECT id, line, hash FROM passages WHERE name = ? ORDER BY place", (name,)
        ).fetchall()
        hashes = [_hash(name, piece.day, piece.title, piece.text) for piece in pieces]
        same = len(list(takewhile(lambda pair: pair[0][2] == pair[1], zip(old, hashes, strict=False))))
        behind = zip(reversed(old[same:]), reversed(hashes[same:]), strict=False)
        tail = len(list(takewhile(lambda pair: pair[0][2] == pair[1], behind)))
        for id_, _, _ in old[same : len(old) - tail]:
            self._file.execute("DELETE FROM passages WHERE id = ?", (id_,))
            self._file.execute("DELETE FROM words WHERE rowid = ?", (id_,))
        source, _, file = name.partition("/")
        stem = file.removesuffix(".md").replace("/", " ")
        for place in range(same, len(pieces) - tail):
            piece = pieces[place]
            row = (name, source, place, piece.line, piece.day, piece.title, piece.text, hashes[place])
            done = self._file.execute(
                "INSERT INTO passages(name, source, place, line, day, title, text, hash) VALUES (?,?,?,?,?,?,?,?)", row
            )
            title, text = words_of(f"{stem} {piece.title}"), words_of(piece.text)
            self._file.execute(
                "INSERT INTO words(rowid, title, text) VALUES (?, ?, ?)",
                (done.lastrowid, " ".join(title), " ".join(text)),
            )
        for number in range(tail):
            id_, line, _ = old[len(old) - tail + number]
            place = len(pieces) - tail + number
            if (len(old), line) != (len(pieces), pieces[place].line):
                new = (place, pieces[place].line, id_)
                self._file.execute("UPDATE passages SET place = ?, line = ? WHERE id = ?", new)
        for number in range(same):
            if old[number][1] != pieces[number].line:
                new_line = (pieces[number].line, old[number][0])
                self._file.execute("UPDATE passages SET line = ? WHERE id = ?", new_line)

    # ------------------------------------------------------------------------------------------------- searching

    def search(self, words: Sequence[str], filters: Filters, limit: int, today: date) -> list[Row]:
        """The passages that fit best, best first; the same files, query and day give the same.

        Args:
            words: of ``query_of``.
            filters: which may be found.
            limit: how many.
            today: the day from which recency counts.

        Raises:
            sqlite3.Error: also where a passage is not as it was indexed.
        """
        if not words:
            return []
        with _damage():
            return self._search(words, filters, limit, today)

    def _search(self, words: Sequence[str], filters: Filters, limit: int, today: date) -> list[Row]:
        self._file.execute("BEGIN")  # one state of the index for all that follows
        try:
            rarer, telling, others = self._by_rarity(words)
            found = self._ranked(rarer, telling, filters, today, limit)
            if len(found) < limit and others:
                known = {id_ for _, id_ in found}
                found += [
                    one for one in self._newest(others, filters, today, limit + len(found)) if one[1] not in known
                ]
            return [self._row(score, id_) for score, id_ in found[:limit]]
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")

    def _row(self, score: float, id_: int) -> Row:
        query = "SELECT name, line, day, title, text, hash FROM passages WHERE id = ?"
        name, line, day, title, text, hashed = self._file.execute(query, (id_,)).fetchone()
        if _hash(name, day, title, text) != hashed:
            raise sqlite3.DatabaseError("a passage in the index is damaged")
        return Row(score, name, line, day, title, text)

    def _by_rarity(self, words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """The rarest words, as many as are in ``ENOUGH_ROWS`` passages together, or one in twice as many; those of the
        others that say something all the same, being in less than half of all passages; and all others.
        """
        query = "SELECT count(*) FROM words WHERE words MATCH ?"
        counts = sorted((self._file.execute(query, (word,)).fetchone()[0], place) for place, word in enumerate(words))
        together = accumulate(count for count, _ in counts)
        few = sum(rows <= ENOUGH_ROWS for rows in together) or int(counts[0][0] <= 2 * ENOUGH_ROWS)
        half = sum(one.passages for one in self._files().values()) / 2
        others = [(count, words[place]) for count, place in counts[few:]]
        rarer = [words[place] for _, place in counts[:few]]
        return rarer, [word for count, word in others if count < half], [word for _, word in others]

    def _ranked(
        self, words: Sequence[str], others: Sequence[str], filters: Filters, today: date, limit: int
    ) -> list[tuple[float, int]]:
        """Scores and numbers of passages with any of these words, best first, weighed by the others as well.

        As many as are asked for, and those beside that are as good as the last of them.
        """
        if not words:
            return []
        wanted, values = _wanted(words, filters)
        if others:  # a condition that changes nothing, but has bm25 count them; the words that choose count twice
            values[0] = f"({values[0]}) AND ({' OR '.join([*words, *others])})"
        rows = self._file.execute(
            "SELECT bm25(words, 2.0, 1.0), passages.id, day, name, place FROM words "
            f"CROSS JOIN passages INDEXED BY by_id ON passages.id = words.rowid WHERE {wanted}",
            values,
        ).fetchall()
        # Of the same score the newest first, then by name and place: nothing depends on the order of their numbers.
        ages = {day: recency(day, today) for day in {row[2] for row in rows}}
        scored = [(-weight * ages[day], day, name, place, id_) for weight, id_, day, name, place in rows]
        if len(scored) > limit:
            least = nlargest(limit, (one[0] for one in scored))[-1]
            scored = [one for one in scored if one[0] >= least]
        scored.sort(key=lambda one: (one[2], one[3]))
        scored.sort(key=lambda one: (one[0], one[1]), reverse=True)
        return [(score, id_) for score, _, _, _, id_ in scored]

    def _newest(self, words: Sequence[str], filters: Filters, today: date, limit: int) -> list[tuple[float, int]]:
        """The same for words that are nearly everywhere, and so say nothing: the newest passages with any of them."""
        wanted, values = _wanted(words, filters)
        matching = "passages.id IN (SELECT rowid FROM words WHERE words MATCH ?)"
        rows = self._file.execute(
            f"SELECT day, id FROM passages INDEXED BY by_day WHERE {wanted.replace('words MATCH ?', matching)} "
            f"ORDER BY day DESC, name, place LIMIT {limit}",
            values,
        )
        return [(NEXT_TO_NOTHING * recency(day, today), id_) for day, id_ in rows]


def _wanted(words: Sequence[str], filters: Filters) -> tuple[str, list[str]]:
    """The condition of a search, and its values: the words first."""
    wanted, values = "words MATCH ?", [" OR ".join(words)]
    if set(filters.sources) != set(FOLDERS):
        wanted += f" AND passages.source IN ({','.join('?' * len(filters.sources))})"
        values += filters.sources
    if filters.after or filters.before:
        wanted += " AND passages.day BETWEEN ? AND ?"
        values += [filters.after or "0", filters.before or "9999-99-99"]
    return wanted, values


def recency(day: str, today: date) -> float:
    """What the words of a passage are multiplied by: 1.5 today, 1.25 after 30 days, towards 1; 1 without a date."""
    if not day:
        return 1.0
    age = max(0, (today - date.fromisoformat(day)).days)
    return 1.0 + RECENCY * math.exp2(-age / HALF_LIFE)


def _parsed(text: str) -> State:
    inode, size, modified, changed = map(int, text.split(":"))
    return inode, size, modified, changed


def _state(about: os.stat_result) -> State:
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _look(folder: Path, name: str) -> Known | None:
    """A file as it is now; None where it is gone."""
    path, checked, content, problem = folder / name, time.time_ns(), b"", ""
    try:
        state = _state(os.stat(path, follow_symlinks=False))  # before it is read: what changes meanwhile is seen
        content = read_regular(path, LONGEST_FILE, links=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = error.reason if isinstance(error, UnusableFileError) else str(error.strerror)
        with contextlib.suppress(FileNotFoundError):
            return Known(_state(os.stat(path, follow_symlinks=False)), checked, b"", problem)
        return None
    return Known(state, checked, blake2b(content, digest_size=16).digest(), problem, content=content)


def states_in(folder: Path) -> dict[str, State]:
    """The Markdown files of a memory, such as ``knowledge/notes.md``, in folders within its folders too.

    Not those whose names, or whose folders' names, begin with a dot, and none beyond a link.
    """
    found: dict[str, State] = {}
    places = list(FOLDERS)
    for place in places:
        try:
            entries = os.scandir(folder / place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for one in entries:
                name = one.name
                if name[0] == "." or not (name.isascii() or _is_text(name)):
                    continue
                try:
                    if name.endswith(".md"):
                        about = one.stat(follow_symlinks=False)
                        found[f"{place}/{name}"] = _state(about)
                    elif one.is_dir(follow_symlinks=False):
                        places.append(f"{place}/{name}")
                except FileNotFoundError:
                    continue
    return found


def _is_text(name: str) -> bool:
    """Names of other bytes than UTF-8 have no form in the database."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _hash(*texts: str) -> bytes:
    return blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).digest()


_abandoned: list[sqlite3.Connection] = []
"""Never closed: that would take away the parent's locks."""


def _schema(file: sqlite3.Connection) -> set[tuple[str, str]]:
    """What is defined in a file, but for FTS5's own tables, which each version may define in its way.

    A view or a trigger of somebody else's would be run by a search.
    """
    rows: Iterable[tuple[str, str]] = file.execute(
        "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND NOT (type = 'table' AND name GLOB 'words_*')"
    )
    return set(rows)


def _own_schema() -> set[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(TABLES)
        return _schema(empty)

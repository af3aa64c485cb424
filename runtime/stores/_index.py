"""The index of a memory: SQLite's full-text search over the passages of its files, kept up to date.

It is derived from the files and can be rebuilt. A file with unchanged size, times and inode is not read. A file that is
read is only parsed if the hash of its content has changed; after a pure append, parsing starts at the last passage. Of
the passages, only new ones are indexed.

This module does not manage the database file (see ``generations``); every problem is a ``sqlite3.Error``.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from hashlib import blake2b
from itertools import accumulate, takewhile
from pathlib import Path

from attrs import evolve, frozen

from cognition.context.words import MOST_WORDS, rarest_words, words_of
from runtime.stores._file_snapshot import (
    FOLDERS,
    RACY,
    FileVersion,
    IndexedFile,
    Listing,
    SnapshotReader,
    State,
    listing,
    parse_state,
    states_in,
)
from runtime.stores._tables import has_tables
from runtime.stores.markdown_entries import BEGINNING, EntryPiece, Mark, mark_in, mark_text, read_after

VERSION = 3
"""Version of the tables and of the word splitting. An index of another version is rebuilt."""

CACHE = 1 << 15
"""KiB of the database to cache in memory, 32 MiB: enough to search 20,000 passages."""

WAIT = 10_000
"""Milliseconds to wait for another process that writes the index."""

TABLES = """
CREATE TABLE about (version INTEGER NOT NULL);
CREATE TABLE files (
    name TEXT PRIMARY KEY, state TEXT NOT NULL, checked INTEGER NOT NULL, length INTEGER NOT NULL, hash BLOB NOT NULL,
    problem TEXT NOT NULL, passages INTEGER NOT NULL, mark TEXT NOT NULL
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
"""``words`` contains the words of ``passages`` from ``words_of``, separated by spaces. SQLite adds English stemming
(https://www.sqlite.org/fts5.html).
"""

OWN = "sql IS NOT NULL AND NOT (type = 'table' AND name GLOB 'words_*')"
"""All definitions except FTS5's own tables, which differ between versions."""

RECENCY, HALF_LIFE = 0.5, 30
"""The extra weight of today's passages over those without a date, and its half-life in days."""


MOST_PASSAGES = 50_000
"""Maximum of one file."""

ENOUGH_ROWS = 500
"""Passages to score, by the query's rarest words. Scoring 20,000 passages by a word that most contain, and that means
almost nothing, would take longer than all the rest.
"""

NEXT_TO_NOTHING = 1e-6
"""The weight that SQLite's bm25 gives a word in more than half of all passages; also used for words beyond
``ENOUGH_ROWS``.
"""

LOOKED_AT = 50
"""Number of newest passages checked one by one for very common words; also of added passages before a full recount."""

PER_DAY = 1 << 24
"""Passage ids of a day start at the day's ordinal times this: a search gets the day from the id alone."""

MOST_COUNTS = 10_000
"""Maximum words with cached counts."""


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Convert invalid values, such as an impossible day, to the error that SQLite raises for damage."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise sqlite3.DatabaseError(f"a value in the index is damaged: {error}") from error


@frozen
class Filters:
    """Filters of a search."""

    sources: tuple[str, ...] = FOLDERS
    after: str = ""
    """On or after this day."""
    before: str = ""
    """On or before this day."""


@frozen
class FoundPassage:
    """A passage that was found."""

    score: float
    """Higher is better; only comparable within one search."""
    name: str
    line: int
    day: str
    title: str
    text: str


class Index:
    """An open database. For one thread at a time.

    Args:
        path: an empty file or an index; None for a database in memory.

    Raises:
        sqlite3.Error: it is not an index, has another version, or is damaged.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = connect(path)
        self._reader = SnapshotReader()
        self._known: dict[str, IndexedFile] | None = None
        """The indexed files, valid until another process writes."""
        self._places: list[str] = list(FOLDERS)
        self._settled: Listing | None = None
        """Their listing when the index was last up to date: most searches only compare this."""
        self._racy: set[str] = set()
        """Files changed right before they were read: their times do not yet prove that they did not change again."""
        self._counts: dict[str, tuple[int, int]] = {}
        """Per word: the number of passages with it, and ``len(_added)`` at that count."""
        self._added: list[int] = []
        """Ids of the passages added since the counts are cached."""
        self._version = self._passages = 0

    def close(self) -> None:
        """Close it. A second call does nothing."""
        self._file.close()

    def abandon(self) -> None:
        """Abandon it in a forked child, which must neither use nor close the parent's connection."""
        _abandoned.append(self._file)

    # ------------------------------------------------------------------------------------------------- the files

    @_damage()
    def follow(self, folder: Path) -> None:
        """Index the changes in the files; raises sqlite3.Error and OSError."""
        now = listing(folder, self._places)  # before the files are looked at: what changes meanwhile is seen
        known = self.files()
        if now is not None and now == self._settled and self._are_as_they_were(folder, known):
            return
        states, places = states_in(folder)
        changed = self._changed_files(folder, states, known := self.files())
        if changed:
            try:
                with writing(self._file):
                    if (now_known := self.files()) is not known:  # another process has been here meanwhile
                        changed = self._changed_files(folder, states, now_known)
                    for name in changed:
                        self._take_in(folder, name, now_known)
            except BaseException:  # what is known is not what is indexed
                self._forget()
                raise
        self._settled, self._places = now if places == self._places else None, places

    def _are_as_they_were(self, folder: Path, known: dict[str, IndexedFile]) -> bool:
        """Whether files that were read right after a change have not changed again."""
        for name in tuple(self._racy):
            now = self._reader.look(folder, name, known[name])
            if now is None or (now.state, now.hash) != (known[name].state, known[name].hash):
                return False
            if not _is_racy(now):
                with writing(self._file):
                    self._file.execute("UPDATE files SET checked = ? WHERE name = ?", (now.checked, name))
                known[name] = evolve(known[name], checked=now.checked)
                self._racy.discard(name)
        return True

    def _forget(self) -> None:
        self._known = self._settled = None
        self._racy, self._counts, self._added = set(), {}, []

    def _changed_files(self, folder: Path, states: Mapping[str, State], known: Mapping[str, IndexedFile]) -> list[str]:
        """Return the names of changed files, ``outcomes`` first. There a longer version usually replaces the last
        passage, under a lower id than a new passage. SQLite writes a separate segment for each decreasing id, and must
        merge them all.
        """
        found = list(known.keys() - states.keys())
        for name, state in states.items():
            one = known.get(name)
            if one is None or one.state != state:
                found.append(name)
            elif _is_racy(one):
                self._racy.add(name)
                now = self._reader.look(folder, name, one)
                if now is None or now.hash != one.hash or not _is_racy(now):
                    found.append(name)
        return sorted(found, key=lambda name: (-FOLDERS.index(name.partition("/")[0]), name))

    def files(self) -> dict[str, IndexedFile]:
        """Return the files as indexed, not to be changed."""
        version = self._file.execute("PRAGMA data_version").fetchone()[0]
        if self._known is None or version != self._version:
            self._forget()
            rows = self._file.execute("SELECT name, state, checked, length, hash, problem, passages, mark FROM files")
            self._known = {name: IndexedFile(parse_state(state), *rest) for name, state, *rest in rows}
            self._version = version
            self._passages = sum(one.passages for one in self._known.values())
        return self._known

    def _take_in(self, folder: Path, name: str, files: dict[str, IndexedFile]) -> None:
        """Index the current version of a file, and update ``files``."""
        known = files.pop(name, None)
        now = self._reader.look(folder, name, known)
        self._racy.discard(name)
        self._passages -= 0 if known is None else known.passages
        if now is None:
            self._file.execute("DELETE FROM files WHERE name = ?", (name,))
            self._put(name, 0, ())
            return
        if known is None or (now.hash, now.problem) != (known.hash, known.problem):
            count, mark, problem = self._read(name, now, known)
        else:
            count, mark, problem = known.passages, known.mark, known.problem
        one = IndexedFile(now.state, now.checked, len(now.content), now.hash, problem, count, mark)
        row = (name, ":".join(map(str, one.state)), one.checked, one.length, one.hash, problem, count, mark)
        self._file.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        files[name] = one
        self._passages += count
        if _is_racy(one):
            self._racy.add(name)

    def _read(self, name: str, now: FileVersion, known: IndexedFile | None) -> tuple[int, str, str]:
        """Index the passages of a file; return their number, the next mark, and why it is not indexed."""
        since = BEGINNING if known is None or known.problem or not now.kept else _mark_in(known.mark, name, known.hash)
        pieces, mark = read_after(now.content, name.rpartition("/")[2].removesuffix(".md"), since)
        count, problem = since.pieces + len(pieces), now.problem
        if count > MOST_PASSAGES:
            problem = f"it has more than the {MOST_PASSAGES:,} sections that are searched; split it"
            since, pieces, mark, count = BEGINNING, [], BEGINNING, 0
        stood = self._put(name, since.pieces, pieces)
        if known is not None and since.pieces + stood != known.passages:
            raise sqlite3.DatabaseError("a part of the index is missing")
        text = mark_text(mark)
        return count, f"{_hash(name, now.hash.hex(), text).hex()} {text}", problem

    def _put(self, name: str, first: int, pieces: Sequence[EntryPiece]) -> int:
        """Replace the passages of a file from ``first`` on, without touching equal ones; return the old number."""
        query = "SELECT id, line, hash FROM passages WHERE name = ? AND place >= ? ORDER BY place"
        old = self._file.execute(query, (name, first)).fetchall()
        hashes = [_hash(name, piece.day, piece.title, piece.text) for piece in pieces]
        same = len(list(takewhile(lambda pair: pair[0][2] == pair[1], zip(old, hashes, strict=False))))
        behind = zip(reversed(old[same:]), reversed(hashes[same:]), strict=False)
        tail = len(list(takewhile(lambda pair: pair[0][2] == pair[1], behind)))
        for id_, _, _ in old[same : len(old) - tail]:
            self._counts.clear()
            self._file.execute("DELETE FROM passages WHERE id = ?", (id_,))
            self._file.execute("DELETE FROM words WHERE rowid = ?", (id_,))
        source, _, file = name.partition("/")
        stem = file.removesuffix(".md").replace("/", " ")
        # By day: SQLite writes a part of its own whenever a number is lower than the one before.
        for place in sorted(range(same, len(pieces) - tail), key=lambda place: (pieces[place].day, place)):
            piece = pieces[place]
            number = self._next_number(piece.day)
            self._added.append(number)
            row = (number, name, source, first + place, piece.line, piece.day, piece.title, piece.text, hashes[place])
            self._file.execute("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            title, text = (" ".join(words_of(one)) for one in (f"{stem} {piece.title}", piece.text))
            self._file.execute("INSERT INTO words(rowid, title, text) VALUES (?, ?, ?)", (number, title, text))
        for place in (*range(same), *range(len(pieces) - tail, len(pieces))):
            before = place if place < same else place - len(pieces) + len(old)
            id_, line, _ = old[before]
            if (before, line) != (place, pieces[place].line):
                new = (first + place, pieces[place].line, id_)
                self._file.execute("UPDATE passages SET place = ?, line = ? WHERE id = ?", new)
        return len(old)

    def _next_number(self, day: str) -> int:
        first = _ordinal(day) * PER_DAY
        query = "SELECT max(id) FROM passages WHERE id >= ? AND id < ?"
        (last,) = self._file.execute(query, (first, first + PER_DAY)).fetchone()
        return first if last is None else int(last) + 1

    # ------------------------------------------------------------------------------------------------- searching

    @_damage()
    def search(self, words: Sequence[str], filters: Filters, limit: int, today: date) -> list[FoundPassage]:
        """Return the best passages, best first. The result depends only on files, query and day.

        Args:
            words: from ``query_of``.
            filters: restricts the passages.
            limit: maximum number.
            today: the day for recency.

        Raises:
            sqlite3.Error: of the database, or a passage is damaged.
        """
        if not words:
            return []
        self._file.execute("BEGIN")  # one state of the index for all that follows
        try:
            rarer, telling, others = self._by_rarity(words)
            found = self._rank(rarer, telling, filters, today, limit)
            if len(found) < limit and others:
                known, newest = {id_ for _, id_ in found}, self._newest(others, filters, today, limit + len(found))
                found += [one for one in newest if one[1] not in known]
            return [self._row(score, id_) for score, id_ in found[:limit]]
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")

    @_damage()
    def newest(self, filters: Filters, limit: int) -> list[FoundPassage]:
        """Return the passages of these days and sources, newest day first, each day in the order of its files."""
        marks = ",".join("?" * len(filters.sources))
        wanted = f"source IN ({marks}) AND day BETWEEN ? AND ?"
        query = f"SELECT id FROM passages INDEXED BY by_day WHERE {wanted} ORDER BY day DESC, name, place LIMIT {limit}"
        values = [*filters.sources, filters.after or "0", filters.before or "9999-99-99"]
        return [self._row(0.0, id_) for (id_,) in self._file.execute(query, values).fetchall()]

    @_damage()
    def rarest(self, words: Sequence[str]) -> list[str]:
        """Return the words, in order; of more than ``MOST_WORDS`` the rarest that occur. Words are as in ``search``."""
        if len(words) <= MOST_WORDS:
            return list(words)
        self._file.execute("BEGIN")
        try:
            counts = {word: self._count(word) for word in words}
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
        few = set(rarest_words(counts))
        return [word for word in words if word in few]

    def _row(self, score: float, id_: int) -> FoundPassage:
        query = "SELECT name, line, day, title, text, hash FROM passages WHERE id = ?"
        name, line, day, title, text, hashed = self._file.execute(query, (id_,)).fetchone()
        if _hash(name, day, title, text) != hashed or id_ // PER_DAY != _ordinal(day):
            raise sqlite3.DatabaseError("a passage in the index is damaged")
        return FoundPassage(score, name, line, day, title, text)

    def _by_rarity(self, words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """Divide the words into three lists:

        - the rarest, up to ``ENOUGH_ROWS`` passages together, or a single one with up to twice as many;
        - of the others, those in less than half of all passages, which still carry information;
        - all others.
        """
        counts = sorted((self._count(word), place) for place, word in enumerate(words))
        together = accumulate(count for count, _ in counts)
        few = sum(rows <= ENOUGH_ROWS for rows in together) or int(counts[0][0] <= 2 * ENOUGH_ROWS)
        half = self._passages / 2
        others = [(count, words[place]) for count, place in counts[few:]]
        rarer = [words[place] for _, place in counts[:few]]
        return rarer, [word for count, word in others if count < half], [word for _, word in others]

    def _count(self, word: str) -> int:
        added = len(self._added)
        count, counted = self._counts.get(word, (0, -1))
        if counted < max(added - LOOKED_AT, 0):
            query = "SELECT count(*) FROM words WHERE words MATCH ?"
            (count,) = self._file.execute(query, (word,)).fetchone()
            if len(self._counts) >= MOST_COUNTS:
                self._counts.clear()
        else:
            query = "SELECT count(*) FROM words WHERE words MATCH ? AND rowid = ?"
            count += sum(self._file.execute(query, (word, number)).fetchone()[0] for number in self._added[counted:])
        self._counts[word] = count, added
        return int(count)

    def _rank(
        self, words: Sequence[str], others: Sequence[str], filters: Filters, today: date, limit: int
    ) -> list[tuple[float, int]]:
        """Return scores and ids of passages with any of these words, best first, also scored by the others.

        Returns ``limit`` of them, plus those with the same score as the last.
        """
        if not words:
            return []
        wanted, values = _match_condition(words, filters)
        if others:  # a condition that changes nothing, but has bm25 count them; the words that choose count twice
            values[0] = f"({values[0]}) AND ({' OR '.join([*words, *others])})"
        joined = "CROSS JOIN passages INDEXED BY by_id ON passages.id = words.rowid" if len(values) > 1 else ""
        query = f"SELECT words.rowid, -bm25(words, 2.0, 1.0) FROM words {joined} WHERE {wanted}"
        weights = self._file.execute(query, values).fetchall()
        ages = {day: recency(day, today) for day in {id_ // PER_DAY for id_, _ in weights}}
        scored = [(weight * ages[id_ // PER_DAY], id_) for id_, weight in weights]
        if len(scored) > limit:
            least = sorted([score for score, _ in scored])[-limit]
            scored = [one for one in scored if one[0] >= least]
        scores = {id_: score for score, id_ in scored}
        # Of the same score the newest first, then by name and place: nothing depends on the order of their numbers.
        query = f"SELECT id, day, name, place FROM passages WHERE id IN ({','.join(map(str, scores))})"
        rows = self._file.execute(query).fetchall()
        rows.sort(key=lambda row: (row[2], row[3]))
        rows.sort(key=lambda row: (scores[row[0]], row[1]), reverse=True)
        return [(scores[row[0]], row[0]) for row in rows]

    def _newest(self, words: Sequence[str], filters: Filters, today: date, limit: int) -> list[tuple[float, int]]:
        """Return the newest passages with any of these words, which are too common to score by.

        Usually they are among the newest passages, which are checked one by one first; otherwise a query finds them.
        """
        wanted, values = _match_condition(words, filters)
        allowed, match, order = wanted.partition(" AND ")[2] or "1", values[0], "ORDER BY day DESC, name, place LIMIT"
        found: list[int] = []
        newest = f"SELECT id FROM passages INDEXED BY by_day WHERE {allowed} {order} {LOOKED_AT}"
        for (id_,) in self._file.execute(newest, values[1:]).fetchall():
            hit = self._file.execute("SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?", (match, id_)).fetchone()
            found += [id_] * (hit is not None)
            if len(found) == limit:
                break
        else:
            matching = "id IN (SELECT rowid FROM words WHERE words MATCH ?)"
            query = f"SELECT id FROM passages INDEXED BY by_day WHERE {allowed} AND {matching} {order} {limit}"
            found = [id_ for (id_,) in self._file.execute(query, [*values[1:], match])]
        return [(NEXT_TO_NOTHING * recency(id_ // PER_DAY, today), id_) for id_ in found]


def _is_racy(file: IndexedFile | FileVersion) -> bool:
    """Whether a file may have changed again since it was read, although its times are the same."""
    return file.checked - max(file.state[2:]) < RACY


def _match_condition(words: Sequence[str], filters: Filters) -> tuple[str, list[str]]:
    wanted, values = "words MATCH ?", [" OR ".join(words)]
    if set(filters.sources) != set(FOLDERS):
        wanted += f" AND passages.source IN ({','.join('?' * len(filters.sources))})"
        values += filters.sources
    if filters.after or filters.before:
        wanted += " AND passages.day BETWEEN ? AND ?"
        values += [filters.after or "0", filters.before or "9999-99-99"]
    return wanted, values


def _mark_in(text: str, name: str, hashed: bytes) -> Mark:
    """Parse the mark of a file with this hash; the mark's own hash detects damage."""
    own, _, mark = text.partition(" ")
    if own != _hash(name, hashed.hex(), mark).hex():
        raise sqlite3.DatabaseError("a mark in the index is damaged")
    return mark_in(mark)


def _ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal() if day else 0


def _hash(*texts: str) -> bytes:
    return blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).digest()


_abandoned: list[sqlite3.Connection] = []
"""Never closed: closing would release the parent's locks."""


def recency(day: int, today: date) -> float:
    """Return the weight of a passage: 1.5 today, 1.25 after 30 days, approaching 1; 1 without a date.

    Args:
        day: its ordinal, 0 for none.
        today: the current day.
    """
    return 1.0 + RECENCY * math.exp2(-max(0, today.toordinal() - day) / HALF_LIFE) if day else 1.0


def connect(path: Path | None) -> sqlite3.Connection:
    """Return a connection to an index database. Transactions are explicit.

    Args:
        path: an empty file or an index; None for a database in memory.

    Raises:
        sqlite3.Error: it is not an index, has another version, or is incomplete.
    """
    place = ":memory:" if path is None else path
    file = sqlite3.connect(place, check_same_thread=False, isolation_level=None, timeout=WAIT / 1000)
    try:
        file.execute(f"PRAGMA cache_size = -{CACHE}")
        if path is not None:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("PRAGMA synchronous = NORMAL")
        if file.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
            with writing(file):
                for statement in TABLES.split(";\n"):
                    file.execute(statement)
                file.execute("INSERT INTO about VALUES (?)", (VERSION,))
        if not has_tables(file, TABLES, OWN):
            raise sqlite3.DatabaseError("its tables are not those of an index")
        if file.execute("SELECT version FROM about").fetchall() != [(VERSION,)]:
            raise sqlite3.DatabaseError("the index is of another version")
        counts = "(SELECT count(*) FROM passages), (SELECT count(*) FROM words), (SELECT sum(passages) FROM files)"
        passages, words, whole = file.execute(f"SELECT {counts}").fetchone()
        if not passages == words == (whole or 0):
            raise sqlite3.DatabaseError("a part of the index is missing")
    except UnicodeDecodeError as error:  # SQLite says what is damaged in the bytes that are
        file.close()
        raise sqlite3.DatabaseError(f"its tables can't be read: {error}") from error
    except BaseException:
        file.close()
        raise
    return file


@contextlib.contextmanager
def writing(file: sqlite3.Connection) -> Iterator[None]:
    """A transaction: all or nothing."""
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
        file.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            file.execute("ROLLBACK")
        raise

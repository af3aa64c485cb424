"""The index of a memory: SQLite's full-text search over the passages of its files, which it follows.

Everything in it is made of the files and can be made again. A file whose size, times and number are as they were is not
read; one that is read is taken apart only if the hash of its content is another, from the last passage on where it was
only appended to, and of its passages only those are indexed that weren't there before.

Nothing here looks after the database's own file (see ``generations``); whatever is wrong is a ``sqlite3.Error``.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from hashlib import blake2b
from itertools import accumulate, takewhile
from pathlib import Path

from attrs import evolve, frozen

from cognition.context.words import words_of
from runtime.stores.ages import ages_of
from runtime.stores.entries import BEGINNING, Mark, Piece, mark_in, mark_text, read_on
from runtime.stores.present import FOLDERS, RACY, Known, Listing, Reader, Seen, State, listing, parsed, states_in
from runtime.stores.tables import connected, writing

MOST_PASSAGES = 50_000
"""Of one file."""

ENOUGH_ROWS = 500
"""Passages that are weighed by a query's words, the rarest first. To weigh 20,000 of them by a word that most of them
have, and that says next to nothing of any, would take longer than all the rest."""

NEXT_TO_NOTHING = 1e-6
"""What SQLite's bm25 gives a word that is in more than half of all passages, and this to any beyond ``ENOUGH_ROWS``."""

LOOKED_AT = 50
"""The newest passages that are looked at for words that most passages have, or that were counted before them."""

PER_DAY = 1 << 24
"""Passages of a day have numbers from the day's own times this: a search weighs their days without a look at them."""

MOST_COUNTS = 10_000
"""Words whose counts are kept."""


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


class Index:
    """A database, open. For one thread at a time.

    Args:
        path: an empty file or an index; None keeps it in this process.

    Raises:
        sqlite3.Error: it is no index, of another version, or damaged.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = connected(path)
        self._reader = Reader()
        self._known: dict[str, Known] | None = None
        """The files that are indexed, as long as no other process writes."""
        self._places: list[str] = list(FOLDERS)
        """The folders that files are in."""
        self._settled: Listing | None = None
        """What stood in them when nothing was to be done, for as long: most searches compare no more than this."""
        self._racy: set[str] = set()
        """Files that had changed right before they were read: their times don't tell yet whether they changed again."""
        self._counts: dict[str, tuple[int, int]] = {}
        """In how many passages words are, and how many had been added when they were counted."""
        self._added: list[int] = []
        """The numbers of passages that were added since words are counted."""
        self._version = self._passages = 0

    def close(self) -> None:
        """A second call does nothing."""
        self._file.close()

    def abandon(self) -> None:
        """In a forked child, where the parent's connection must neither be used nor closed."""
        _abandoned.append(self._file)

    # ------------------------------------------------------------------------------------------------- the files

    def follow(self, folder: Path) -> None:
        """Take in what has changed in the files since; raises sqlite3.Error and OSError."""
        with _damage():
            self._follow(folder)

    def _follow(self, folder: Path) -> None:
        now = listing(folder, self._places)  # before the files are looked at: what changes meanwhile is seen
        known = self._files()
        if now is not None and now == self._settled and self._are_as_they_were(folder, known):
            return
        states, places = states_in(folder)
        changed = self._changed(folder, states, known := self._files())
        if not changed:
            self._settled, self._places = now if places == self._places else None, places
            return
        try:
            with writing(self._file):
                if (now_known := self._files()) is not known:  # another process has been here meanwhile
                    changed = self._changed(folder, states, now_known)
                for name in changed:
                    self._take_in(folder, name, now_known)
        except BaseException:  # what is known is not what is indexed
            self._forget()
            raise
        self._settled, self._places = now if places == self._places else None, places

    def _are_as_they_were(self, folder: Path, known: dict[str, Known]) -> bool:
        """Whether files that were read right after they had changed have not changed once more."""
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
        """The index is no longer what it was."""
        self._known = self._settled = None
        self._racy, self._counts, self._added = set(), {}, []

    def _changed(self, folder: Path, states: Mapping[str, State], known: Mapping[str, Known]) -> list[str]:
        """The names of files that are not as they were indexed, in order: the outcomes first, whose last passage mostly
        gives way to a longer one. Its number is lower than that of a new one, and SQLite writes a part of its own
        whenever a number is lower than the one before, all of which it has to merge.
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

    def files(self) -> Mapping[str, Known]:
        """The files as they were indexed."""
        return self._files()

    def _files(self) -> dict[str, Known]:
        version = self._file.execute("PRAGMA data_version").fetchone()[0]
        if self._known is None or version != self._version:
            self._forget()
            self._known, self._version = self._read_files(), version
            self._passages = sum(one.passages for one in self._known.values())
        return self._known

    def _read_files(self) -> dict[str, Known]:
        rows = self._file.execute("SELECT name, state, checked, length, hash, problem, passages, mark FROM files")
        return {name: Known(parsed(state), *rest) for name, state, *rest in rows}

    def _take_in(self, folder: Path, name: str, files: dict[str, Known]) -> None:
        """Index a file as it is now, and note it among those that are known."""
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
        one = Known(now.state, now.checked, len(now.content), now.hash, problem, count, mark)
        row = (name, ":".join(map(str, one.state)), one.checked, one.length, one.hash, problem, count, mark)
        self._file.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        files[name] = one
        self._passages += count
        if _is_racy(one):
            self._racy.add(name)

    def _read(self, name: str, now: Seen, known: Known | None) -> tuple[int, str, str]:
        """Index the passages of a file; their number, from where it can be read on, and why it is not indexed."""
        since = BEGINNING if known is None or known.problem or not now.kept else _mark_in(known.mark, name, known.hash)
        pieces, mark = read_on(now.content, name.rpartition("/")[2].removesuffix(".md"), since)
        count, problem = since.pieces + len(pieces), now.problem
        if count > MOST_PASSAGES:
            problem = f"it has more than the {MOST_PASSAGES:,} sections that are searched; split it"
            since, pieces, mark, count = BEGINNING, [], BEGINNING, 0
        stood = self._put(name, since.pieces, pieces)
        if known is not None and since.pieces + stood != known.passages:
            raise sqlite3.DatabaseError("a part of the index is missing")
        text = mark_text(mark)
        return count, f"{_hash(name, now.hash.hex(), text).hex()} {text}", problem

    def _put(self, name: str, first: int, pieces: Sequence[Piece]) -> int:
        """Have these passages of a file in place of those that are there from this place on, of which what is the same
        stays; how many those were.
        """
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
            title, text = words_of(f"{stem} {piece.title}"), words_of(piece.text)
            self._file.execute(
                "INSERT INTO words(rowid, title, text) VALUES (?, ?, ?)", (number, " ".join(title), " ".join(text))
            )
        for number in range(tail):
            id_, line, _ = old[len(old) - tail + number]
            place = len(pieces) - tail + number
            if (len(old), line) != (len(pieces), pieces[place].line):
                new = (first + place, pieces[place].line, id_)
                self._file.execute("UPDATE passages SET place = ?, line = ? WHERE id = ?", new)
        for number in range(same):
            if old[number][1] != pieces[number].line:
                new_line = (pieces[number].line, old[number][0])
                self._file.execute("UPDATE passages SET line = ? WHERE id = ?", new_line)
        return len(old)

    def _next_number(self, day: str) -> int:
        first = _ordinal(day) * PER_DAY
        query = "SELECT max(id) FROM passages WHERE id >= ? AND id < ?"
        (last,) = self._file.execute(query, (first, first + PER_DAY)).fetchone()
        return first if last is None else int(last) + 1

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
        if _hash(name, day, title, text) != hashed or id_ // PER_DAY != _ordinal(day):
            raise sqlite3.DatabaseError("a passage in the index is damaged")
        return Row(score, name, line, day, title, text)

    def _by_rarity(self, words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """The rarest words, as many as are in ``ENOUGH_ROWS`` passages together, or one in twice as many; those of the
        others that say something all the same, being in less than half of all passages; and all others.
        """
        counts = sorted((self._count(word), place) for place, word in enumerate(words))
        together = accumulate(count for count, _ in counts)
        few = sum(rows <= ENOUGH_ROWS for rows in together) or int(counts[0][0] <= 2 * ENOUGH_ROWS)
        half = self._passages / 2
        others = [(count, words[place]) for count, place in counts[few:]]
        rarer = [words[place] for _, place in counts[:few]]
        return rarer, [word for count, word in others if count < half], [word for _, word in others]

    def _count(self, word: str) -> int:
        """In how many passages a word is."""
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
        joined = "CROSS JOIN passages INDEXED BY by_id ON passages.id = words.rowid" if len(values) > 1 else ""
        weights = self._file.execute(
            f"SELECT words.rowid, -bm25(words, 2.0, 1.0) FROM words {joined} WHERE {wanted}", values
        ).fetchall()
        ages = ages_of(today)
        scored = [(weight * ages[id_ // PER_DAY], id_) for id_, weight in weights]
        if len(scored) > limit:
            least = sorted([score for score, _ in scored])[-limit]
            scored = [one for one in scored if one[0] >= least]
        scores = {id_: score for score, id_ in scored}
        # Of the same score the newest first, then by name and place: nothing depends on the order of their numbers.
        rows = self._file.execute(
            f"SELECT id, day, name, place FROM passages WHERE id IN ({','.join(map(str, scores))})"
        ).fetchall()
        rows.sort(key=lambda row: (row[2], row[3]))
        rows.sort(key=lambda row: (scores[row[0]], row[1]), reverse=True)
        return [(scores[row[0]], row[0]) for row in rows]

    def _newest(self, words: Sequence[str], filters: Filters, today: date, limit: int) -> list[tuple[float, int]]:
        """The same for words that are nearly everywhere, and so say nothing: the newest passages with any of them.

        Mostly they are among the very newest of all, which are looked at one by one; else the words choose.
        """
        wanted, values = _wanted(words, filters)
        allowed, match, order = wanted.partition(" AND ")[2] or "1", values[0], "ORDER BY day DESC, name, place LIMIT"
        found: list[int] = []
        newest = f"SELECT id FROM passages INDEXED BY by_day WHERE {allowed} {order} {LOOKED_AT}"
        for (id_,) in self._file.execute(newest, values[1:]).fetchall():
            hit = self._file.execute("SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?", (match, id_)).fetchone()
            found += [id_] * (hit is not None)
            if len(found) == limit:
                break
        else:
            rows = self._file.execute(
                "SELECT id FROM passages INDEXED BY by_day "
                f"WHERE {allowed} AND id IN (SELECT rowid FROM words WHERE words MATCH ?) {order} {limit}",
                [*values[1:], match],
            )
            found = [id_ for (id_,) in rows]
        return [(NEXT_TO_NOTHING * ages_of(today)[id_ // PER_DAY], id_) for id_ in found]


def _is_racy(file: Known | Seen) -> bool:
    """Whether a file may have changed once more since it was read, though its times are what they were."""
    return file.checked - max(file.state[2:]) < RACY


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


def _mark_in(text: str, name: str, hashed: bytes) -> Mark:
    """From where a file with this hash can be read on; its own hash shows whether it is as it was written."""
    own, _, mark = text.partition(" ")
    if own != _hash(name, hashed.hex(), mark).hex():
        raise sqlite3.DatabaseError("a mark in the index is damaged")
    return mark_in(mark)


def _ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal() if day else 0


def _hash(*texts: str) -> bytes:
    return blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).digest()


_abandoned: list[sqlite3.Connection] = []
"""Never closed: that would take away the parent's locks."""

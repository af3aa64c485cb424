"""A directory's own files as context.

- ``BOOTSTRAP.md``: who the agent is (section ``identity``).
- ``AGENTS.md``: rules for the agent (section ``instructions``).
- ``MEMORY.md``: knowledge (section ``memory``). Only passages relevant to the message are shown.
- ``memory/2026-11-25.md``: the same, noted on that day.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cognition import Candidate, ConfigError
from cognition.context.relevance import scores_of
from runtime.files import StrPath, UnusableFileError, kind_of, read_regular_text
from runtime.stores.markdown_entries import day_of, pieces_of

IDENTITY, INSTRUCTIONS, MEMORY, NOTES = "BOOTSTRAP.md", "AGENTS.md", "MEMORY.md", "memory"
"""The file names to look for. Any of them may be missing."""

LONGEST_FILE = 1 << 18
"""Largest file, 256 KiB. Files are read for each message, and far less fits into a prompt."""

MOST_DAYS = 14
"""Daily notes to read, newest first."""

MOST_NAMES = 10_000
"""Names to look at in the directory of daily notes."""

MOST_PASSAGES = 40
"""Best passages per message. The recording contains each of them with the message."""


class ContextFiles:
    """Reads context from a directory's files, for each user message again.

    >>> from interpreters import Agent, ContextFiles, fakes
    >>> model = fakes.ScriptedModel(["Hello."])
    >>> with Agent(model, context=[ContextFiles(".")]) as agent:
    ...     agent.run("Good morning").text
    'Hello.'

    Args:
        directory: contains the files. Missing files are ignored.

    Raises:
        ConfigError: there is no such directory.
    """

    def __init__(self, directory: StrPath = ".") -> None:
        if not isinstance(directory, str | os.PathLike):
            raise ConfigError(f"ContextFiles takes the path of a directory, not a {type(directory).__name__}")
        self._root = Path(directory).expanduser().absolute()
        if not os.path.isdir(self._root):
            raise ConfigError(f"the workspace {os.fspath(directory)!r} is no directory; create it, or name another")

    def __call__(self, text: str) -> tuple[Candidate, ...]:
        """Return the candidates for a user message.

        Raises:
            UnusableFileError: a file is a pipe, too long, not a text, or a link out of the directory.
            OSError: a file can't be read.
        """
        if not self._root.is_dir():
            raise UnusableFileError("the workspace is gone; create it again, or name another", self._root)
        found = []
        for name, section in ((IDENTITY, "identity"), (INSTRUCTIONS, "instructions")):
            content = self._read(name)
            if content is not None and content.strip():
                found.append(Candidate(section, content.strip("\n"), name))
        passages = [*self._passages(MEMORY, ""), *self._read_notes()]
        scores = scores_of(text, [passage.text for passage in passages])
        told = [place for place, score in enumerate(scores) if score > 0]
        best = sorted(told, key=scores.__getitem__, reverse=True)[:MOST_PASSAGES]
        return (*found, *[passages[place] for place in sorted(best)])

    def _read_notes(self) -> Iterator[Candidate]:
        """Yield the passages of the daily notes, newest day first."""
        folder = self._inside(NOTES)
        if folder is None:
            return
        if not folder.is_dir():
            raise UnusableFileError(
                f"it is {kind_of(folder.stat().st_mode)}, and daily notes are looked for in it", folder
            )
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST_NAMES), strict=False)]
        days = sorted((name for name in names if name.endswith(".md") and day_of(name[:-3])), reverse=True)
        for name in days[:MOST_DAYS]:
            yield from self._passages(f"{NOTES}/{name}", name[:-3])

    def _passages(self, name: str, day: str) -> Iterator[Candidate]:
        content = self._read(name)
        for piece in pieces_of(content or "", day or name.removesuffix(".md")):
            when = piece.day or day
            at = datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp() if when else None
            text = f"{piece.title}\n{piece.text}" if piece.title and piece.title != piece.text else piece.text
            yield Candidate("memory", text, f"{name}:{piece.line}", at=at)

    def _read(self, name: str) -> str | None:
        path = self._inside(name)
        try:
            return None if path is None else read_regular_text(path, LONGEST_FILE)
        except FileNotFoundError:  # it has gone meanwhile, as where an editor saves it anew
            return None

    def _inside(self, name: str) -> Path | None:
        """Return the resolved path of a name in the directory, or None if it does not exist.

        Follows links within the directory, such as ``AGENTS.md -> CLAUDE.md``. A link out of it is refused: its author
        could otherwise show the model a file without having access to it.
        """
        path = self._root / name
        if not os.path.lexists(path):
            return None
        try:
            real, root = path.resolve(strict=True), self._root.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            if isinstance(error, FileNotFoundError) and not path.is_symlink():
                return None
            raise UnusableFileError("it is a link that leads nowhere; delete it", path) from error
        if not real.is_relative_to(root):
            raise UnusableFileError("it is a link that leads out of the workspace; put a file in its place", path)
        return real

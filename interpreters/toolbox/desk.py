"""What the tools that change files share: which file a path means, what was read of it, and that it is still the same.

A file that is there is changed only by whoever has read it, as it is now: in the same session, by ``Read`` or by the
change before. What was read is known by a digest of the whole file, however little of it was shown.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock
from typing import Any

from attrs import frozen

from interpreters.toolbox.changing import OURS, Before, ChangedError, Changes, Step, digest_of
from interpreters.toolbox.files import LEFT_OUT, MissingError, listed, meant, reported
from interpreters.toolbox.previewing import Promises
from interpreters.toolbox.search import DIRECTORY
from interpreters.toolbox.texts import NoTextError, Text, read_text
from interpreters.toolbox.wall import TRIES, Place, SwappedError, Wall
from interpreters.tools.context import ToolContext
from interpreters.tools.keeping import FileChange
from interpreters.tools.tool import ToolError
from runtime.files import closing

LARGEST = 16 * 1024 * 1024
"""Bytes of a file that is read or written."""
REMEMBERED = 10_000
"""Files of which is known what was read. Of more, those that were read the longest ago have to be read again."""

Context = ToolContext[Any]


@frozen
class File:
    """What is at a path.

    Attributes:
        path: as the model wrote it.
        parts: from the root on, without links.
        content: what it holds; None if there is nothing.
        about: None if there is nothing.
    """

    path: str
    parts: tuple[str, ...]
    content: bytes | None
    about: os.stat_result | None

    @property
    def before(self) -> Before | None:
        if self.content is None or self.about is None:
            return None
        return Before(digest_of(self.content), self.about)

    @property
    def text(self) -> Text:
        """Its text.

        Raises:
            ToolError: it is none.
        """
        try:
            return read_text(self.content or b"")
        except NoTextError as error:
            raise ToolError(f"not a text file: {self.path}") from error


class Desk:
    """A directory whose files are read and changed."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.wall = Wall(root)
        self.changes = Changes(str(self.wall.root))
        self._read: OrderedDict[tuple[str, tuple[str, ...]], str] = OrderedDict()
        self.alone = Lock()
        """Held while something is changed: changes of one process are made one after another."""
        self._promises = Promises()
        with suppress(OSError):  # a directory that can't be written has nothing left half done
            self.changes.settle()

    def file(self, path: str) -> File:
        """The file at a path, which is there.

        Raises:
            ToolError: there is none, or it can't be read; says which.
        """
        found = self._looked(path, changing=False)
        if found.content is None:
            raise ToolError(f"no such file: {path}")
        return found

    def file_to_change(self, path: str) -> File:
        """The file at a path, which may be missing, by its own name and not by a link's.

        Raises:
            ToolError: it can't be changed; says why.
        """
        return self._looked(path, changing=True)

    def _looked(self, path: str, *, changing: bool) -> File:
        for _ in range(TRIES):
            with reported(path), suppress(SwappedError), self.wall.at(path) as place:
                if changing:
                    self._check_own_name(path, place)
                if place.about is None:
                    if changing:
                        return File(path, place.parts, None, None)
                    raise MissingError(f"no such file: {path}{meant(path, place)}")
                return self._content(path, place, changing)
        raise ToolError(f"it is being changed all the time: {path}")

    def _content(self, path: str, place: Place, changing: bool) -> File:
        if stat.S_ISDIR(place.mode):
            raise ToolError(f"{path or '.'} is a directory")
        if not stat.S_ISREG(place.mode):
            raise ToolError(f"not a text file: {path}")
        if changing and not place.mode & 0o222:
            raise ToolError(f"write-protected (mode {stat.S_IMODE(place.mode):o}): {path}")
        with open(place.open(os.O_RDONLY), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise ToolError(f"not a text file: {path}")
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ToolError(f"too large: {path} has {about.st_size} bytes, and at most {LARGEST} are opened")
        return File(path, place.parts, content, about)

    def _check_own_name(self, path: str, place: Place) -> None:
        """See that what is changed is what was named, so that whoever approves a change by its path knows which it is.

        Raises:
            ToolError: it is named by a link, or is nothing that tools change.
        """
        if not place.parts or path.endswith("/"):
            raise ToolError(f"{path or '.'} is a directory")
        named = self.wall.parts_of(os.path.join(self.wall.root, path))
        if named is None or tuple(named) != place.parts:
            raise ToolError(f"{path} leads through a link to {listed('/'.join(place.parts))}; name that file itself")
        for part in place.parts:
            if part.lower() in LEFT_OUT:
                raise ToolError(f"no tool changes what is in {part}: {path}")
            if part.startswith(OURS):
                raise ToolError(f"names with {OURS} are used while files are changed; choose another: {path}")

    def file_to_make(self, path: str) -> File:
        """The file at a path, which may be missing, as may folders on the way to it.

        Raises:
            ToolError: it can't be changed or made; says why.
        """
        try:
            return self.file_to_change(path)
        except MissingError:
            named = self.wall.parts_of(os.path.join(self.wall.root, path))
            if named is None or ".." in path.split("/") or "\0" in path:
                raise
        for depth in range(len(named) - 1, -1, -1):  # the root itself is always there
            with suppress(MissingError), reported(path), self.wall.at("/".join(named[:depth])) as place:
                if place.about is None:
                    continue
                if not stat.S_ISDIR(place.mode):
                    raise ToolError(f"{listed('/'.join(place.parts))} is no directory, so nothing can be made in it")
                self._check_no_link("/".join(named[: depth + 1]), named[depth], place)
                parts = (*place.parts, *named[depth:])
                self._check_own_name(path, Place(place.directory, parts[-1], parts, None))
                return File(path, parts, None, None)
        raise MissingError(f"no such file: {path}")

    def _check_no_link(self, path: str, name: str, place: Place) -> None:
        """See that there is no link of a name in a folder: one that could be followed would have been.

        Raises:
            ToolError: there is.
        """
        try:
            with closing(place.open(DIRECTORY)) as folder:
                os.readlink(name, dir_fd=folder)
        except (OSError, SwappedError):  # nothing of the name, or no link
            return
        raise ToolError(
            f"{listed(path)} is a link that leads back to itself or to nothing; choose another name, or delete the link"
        )

    # ------------------------------------------------------------------------------------------- what was read

    def remember(self, context: Context, parts: tuple[str, ...], content: bytes | None) -> None:
        """What a session has read of a file, or has written into it; None for one that has gone."""
        key = context.session, parts
        self._read.pop(key, None)
        if content is not None:
            self._read[key] = digest_of(content)
            while len(self._read) > REMEMBERED:
                with suppress(KeyError):
                    self._read.popitem(last=False)

    def check_read(self, context: Context, file: File, *, needed: bool = True) -> None:
        """See that a file is as it was when this session has read it.

        Raises:
            ToolError: it is not, or was not read at all and ``needed`` says that it had to be.
        """
        known = self._read.get((context.session, file.parts))
        if known is None:
            if needed:
                raise ToolError(f"{file.path} is there, and was not read in this session; Read it first")
        elif file.content is None or digest_of(file.content) != known:
            raise ToolError(f"{file.path} has changed since it was read; read it again")

    # ----------------------------------------------------------------------------------------------- changing

    @contextmanager
    def showing(self, context: Context, about: str) -> Iterator[None]:
        """Around a preview: a call of which is shown that it would fail must not do something unseen later."""
        try:
            yield
        except ToolError:
            self._promises.keep(context.session, context.call_id, about, ())
            raise

    def show(self, context: Context, about: str, steps: Sequence[Step]) -> None:
        """Hold the call ``about`` this to what was shown of it, which is that it takes these steps.

        Raises:
            ToolError: it would write too much.
        """
        _check_sizes(steps)
        self._promises.keep(context.session, context.call_id, about, steps)

    def change(self, context: Context, steps: Sequence[Step], files: Iterable[File], about: str = "") -> None:
        """Make changes, all or none. ``files`` are what they are made to, as they were read.

        Raises:
            ToolError: a file has changed meanwhile, or can't be written; or what was shown ``about`` the call was
                another change.
        """
        _check_sizes(steps)
        self._promises.check(context.session, context.call_id, about, steps)
        try:
            with self._kept(context, steps, files):
                self.changes.make(steps)
        except ChangedError as error:
            raise ToolError(
                f"{error.path} was changed by somebody else in this moment; nothing was written. Read it again"
            ) from error
        except OSError as error:
            what = (error.strerror or "it can not be written").lower()
            raise ToolError(f"{what}: {', '.join(step.path for step in steps)}; nothing was written") from error
        for step in steps:
            self.remember(context, step.parts, step.after)

    def _kept(self, context: Context, steps: Sequence[Step], files: Iterable[File]) -> AbstractContextManager[object]:
        """A block before which what undoes the steps is kept, where the session has a place for it."""
        if context.keeper is None:
            return nullcontext()
        old = {file.parts: file for file in files}
        changes = []
        for step in steps:
            file = old[step.parts]
            mode_too = step.mode is not None or step.like is not None
            changes.append(FileChange(step.parts, file.content, file.about, step.after, mode_too))
        return context.keeper.keeping(str(self.wall.root), changes, context.call_id)


def _check_sizes(steps: Sequence[Step]) -> None:
    for step in steps:
        if step.after is not None and len(step.after) > LARGEST:
            raise ToolError(f"too large: {step.path} would have {len(step.after)} bytes of at most {LARGEST}")

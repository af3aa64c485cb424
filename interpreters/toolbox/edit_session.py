"""Shared state of the tools that change files: resolving paths, checking that a file has not changed since it was read,
and holding changes to their previews.

An existing file may be changed only by a session that has read its present content, with ``Read`` or through its own
last change. A digest of the whole file identifies the content, even if only a part was shown.

A preview is a promise, which the tool's own code computes. The session remembers the digests of every file before and
after the change. The call then makes exactly this change or none: if a file has changed by the time of the answer, the
call does not make a change that the user has not seen. A call whose preview showed a failure must fail too.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock
from typing import Any

from attrs import frozen

from interpreters.toolbox._file_access import UNLIMITED, FileAccess
from interpreters.toolbox._path_sandbox import TRIES, PathSandbox, SandboxedPath, SwappedError
from interpreters.toolbox._texts import NoTextError, Text, read_text
from interpreters.toolbox.file_transaction import OURS, ChangedError, FileState, FileStep, FileTransaction, digest_of
from interpreters.toolbox.line_search import DIRECTORY
from interpreters.toolbox.root_directory import (
    LEFT_OUT,
    MissingError,
    format_path,
    open_regular,
    report_errors,
    suggest_path,
)
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError
from interpreters.tools.undo_hook import FileChange
from runtime.files import closing

LARGEST = 16 * 1024 * 1024
"""Bytes of a file that is read or written."""
REMEMBERED = 10_000
"""Files whose read content is remembered. Beyond that, the files read longest ago have to be read again."""

PREVIEWS = 1_000
"""Previews remembered. An older preview no longer binds its call."""

Context = ToolContext[Any]
Parts = tuple[str, ...]
Outcome = list[tuple[Parts, str, str, int | None]]
"""For each file: its path, the digests before and after, and its mode."""


@frozen
class File:
    """The file at a path.

    Attributes:
        path: as the model wrote it.
        parts: path relative to the root, without links.
        content: the content; None if there is no file.
        about: the status; None if there is no file.
    """

    path: str
    parts: tuple[str, ...]
    content: bytes | None
    about: os.stat_result | None

    @property
    def before(self) -> FileState | None:
        if self.content is None or self.about is None:
            return None
        return FileState(digest_of(self.content), self.about)

    @property
    def name(self) -> str:
        """The path to display."""
        return format_path("/".join(self.parts))

    @property
    def text(self) -> Text:
        """The decoded content.

        Raises:
            ToolError: it is not a text file.
        """
        try:
            return read_text(self.content or b"")
        except NoTextError as error:
            raise ToolError(f"not a text file: {self.path}") from error


class EditSession:
    """A directory whose files are read and changed."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.wall: PathSandbox = PathSandbox(root)
        self.changes: FileTransaction = FileTransaction(str(self.wall.root))
        self._read: OrderedDict[tuple[str, Parts], str] = OrderedDict()
        self.alone: Lock = Lock()
        """Held during a change: one process makes its changes one after another."""
        self._promises: OrderedDict[tuple[str, str, str], Outcome] = OrderedDict()
        """The changes in the previews of calls, by session, call and fingerprint of the arguments."""
        with suppress(OSError):  # a directory that can't be written has nothing left half done
            self.changes.settle()
        self.changes.tell_of_other_notes()

    def access(self, context: Context) -> FileAccess:
        """Return policy's rules for the files that a call reaches."""
        return self.wall.access(context.access)

    def file(self, path: str, access: FileAccess, *, changing: bool = False) -> File:
        """Return the existing file at a path. One to change may be missing, but its path must not lead through links.

        Raises:
            RefusedError: policy forbids it.
            ToolError: it does not exist, or can't be read or changed; the message has the reason.
        """
        for _ in range(TRIES):
            with report_errors(path), suppress(SwappedError), self.wall.at(path, access) as place:
                if changing:
                    self._check_own_name(path, place)
                if place.about is None:
                    if changing:
                        return File(path, place.parts, None, None)
                    raise MissingError(f"no such file: {path}{suggest_path(path, place, access)}")
                return self._content(path, place, changing)
        raise ToolError(f"it is being changed all the time: {path}")

    def _content(self, path: str, place: SandboxedPath, changing: bool) -> File:
        if changing and stat.S_ISREG(place.mode) and not place.mode & 0o222:
            raise ToolError(f"write-protected (mode {stat.S_IMODE(place.mode):o}): {path}")
        with open_regular(path, place) as file:
            about = os.fstat(file.fileno())
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ToolError(f"too large: {path} has {about.st_size} bytes, and at most {LARGEST} are opened")
        return File(path, place.parts, content, about)

    def _check_own_name(self, path: str, place: SandboxedPath) -> None:
        """Check that the path contains no links, so that a user who approves a change by its path knows the file.

        Raises:
            ToolError: the path leads through a link, or tools may not change this file.
        """
        if not place.parts or path.endswith("/"):
            raise ToolError(f"{path or '.'} is a directory")
        named = self.wall.parts_of(os.path.join(self.wall.root, path))
        if named is None or tuple(named) != place.parts:
            real = format_path("/".join(place.parts))
            raise ToolError(f"{path} leads through a link to {real}; name that file itself")
        for part in place.parts:
            if part.lower() in LEFT_OUT:
                raise ToolError(f"no tool changes what is in {part}: {path}")
            if part.startswith(OURS):
                raise ToolError(f"names with {OURS} are used while files are changed; choose another: {path}")

    def file_to_make(self, path: str) -> File:
        """Return the file at a path as ``target`` does, for ``undo`` and for saving old content. No rules apply."""
        return self.target(path, UNLIMITED)

    def target(self, path: str, access: FileAccess) -> File:
        """Return the file at a path. The file and its folders may be missing.

        Raises:
            RefusedError: policy forbids it.
            ToolError: it can't be changed or created; the message has the reason.
        """
        try:
            return self.file(path, access, changing=True)
        except MissingError:
            named = self.wall.parts_of(os.path.join(self.wall.root, path))
            if named is None or ".." in path.split("/") or "\0" in path:
                raise
        for depth in range(len(named) - 1, -1, -1):  # the root itself is always there
            before = "/".join(named[:depth])
            with suppress(MissingError), report_errors(path), self.wall.at(before, UNLIMITED) as place:
                if place.about is None:
                    continue
                access.check([*place.parts, *named[depth:]])
                if not stat.S_ISDIR(place.mode):
                    real = format_path("/".join(place.parts))
                    raise ToolError(f"{real} is no directory, so nothing can be made in it")
                self._check_no_link("/".join(named[: depth + 1]), named[depth], place)
                parts = (*place.parts, *named[depth:])
                self._check_own_name(path, SandboxedPath(place.directory, parts[-1], parts, None))
                return File(path, parts, None, None)
        raise MissingError(f"no such file: {path}")

    def _check_no_link(self, path: str, name: str, place: SandboxedPath) -> None:
        """Check that a name in a folder is not a dangling or circular link. Other links were followed before.

        Raises:
            ToolError: it is such a link.
        """
        try:
            with closing(place.open(DIRECTORY)) as folder:
                os.readlink(name, dir_fd=folder)
        except (OSError, SwappedError):  # nothing of the name, or no link
            return
        raise ToolError(
            f"{format_path(path)} is a link that leads back to itself or to nothing; choose another name, "
            "or delete the link"
        )

    # ------------------------------------------------------------------------------------------- what was read

    def remember(self, context: Context, parts: tuple[str, ...], content: bytes | None) -> None:
        """Record the content that a session has read or written; None if the file was deleted."""
        key = context.session, parts
        if content is None:
            self._read.pop(key, None)
        else:
            _keep(self._read, key, digest_of(content), REMEMBERED)

    def check_read(self, context: Context, file: File, *, needed: bool = True) -> None:
        """Check that a file has not changed since this session read it.

        Raises:
            ToolError: it has changed; or the session has not read it, and ``needed`` is true.
        """
        known = self._read.get((context.session, file.parts))
        if known is None:
            if needed:
                raise ToolError(f"{file.path} is there, and was not read in this session; Read it first")
        elif file.content is None or digest_of(file.content) != known:
            raise ToolError(f"{file.path} has changed since it was read; read it again")

    # ----------------------------------------------------------------------------------------------- changing

    @contextmanager
    def guard_preview(self, context: Context, about: str) -> Iterator[None]:
        """Wrap a preview. If it shows a failure, the later call must not change anything either."""
        try:
            yield
        except ToolError:
            self._promise(context, about, ())
            raise

    def show(self, context: Context, about: str, steps: Sequence[FileStep]) -> None:
        """Record the steps shown in a preview. The call ``about`` this may then take only these steps.

        Raises:
            ToolError: the steps would write too much.
        """
        _check_sizes(steps)
        self._promise(context, about, steps)

    def _promise(self, context: Context, about: str, steps: Sequence[FileStep]) -> None:
        _keep(self._promises, (context.session, context.call_id, about), _outcome(steps), PREVIEWS)

    def change(self, context: Context, steps: Sequence[FileStep], files: Iterable[File], about: str = "") -> None:
        """Make all changes or none. ``files`` are the files as they were read.

        Raises:
            ToolError: a file has changed since, or can't be written; or the preview ``about`` the call showed different
                steps.
        """
        _check_sizes(steps)
        promised = self._promises.get((context.session, context.call_id, about))
        if promised is not None and promised != _outcome(steps):
            names = ", ".join(dict.fromkeys(step.path for step in steps))
            raise ToolError(
                f"{names} is not what it was when this change was shown and approved, so that it would be another "
                "one; nothing was changed. Read it again"
            )
        try:
            with self._keep_undo(context, steps, files):
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

    def _keep_undo(
        self, context: Context, steps: Sequence[FileStep], files: Iterable[File]
    ) -> AbstractContextManager[object]:
        """Return a context manager that saves the undo data of the steps, if the session has a keeper."""
        if context.keeper is None:
            return nullcontext()
        old = {file.parts: file for file in files}
        changes = []
        for step in steps:
            file = old[step.parts]
            mode_too = step.mode is not None or step.like is not None
            changes.append(FileChange(step.parts, file.content, file.about, step.after, mode_too))
        return context.keeper.keep_changes(str(self.wall.root), changes, context.call_id)


def fingerprint(*arguments: object) -> str:
    """Return a digest of a call's arguments, to find its preview again."""
    return hashlib.sha256(repr(arguments).encode("utf-8", "backslashreplace")).hexdigest()


def _outcome(steps: Iterable[FileStep]) -> Outcome:
    return sorted(
        (
            step.parts,
            "" if step.before is None else step.before.digest,
            "" if step.after is None else digest_of(step.after),
            step.mode,
        )
        for step in steps
    )


def _keep(known: OrderedDict[Any, Any], key: object, value: object, most: int) -> None:
    """Record a value, and forget the oldest ones beyond ``most``. Another thread may do the same."""
    known.pop(key, None)
    known[key] = value
    while len(known) > most:
        with suppress(KeyError):
            known.popitem(last=False)


def _check_sizes(steps: Sequence[FileStep]) -> None:
    for step in steps:
        if step.after is not None and len(step.after) > LARGEST:
            raise ToolError(f"too large: {step.path} would have {len(step.after)} bytes of at most {LARGEST}")

"""Replace, create and delete files together: all of them or none, despite errors and crashes.

Each new content is written to a temporary file beside its target, forced to disk, and exchanged with the target. The
exchanged-out file is then checked. If it is not the file that was read before, because another process changed it or
put a link there, everything is rolled back. The old file stays under a second name until all steps are done.

Before the first step, a note in the user's state directory records the plan (``_change_notes``), and this process locks
the note. A note without a lock belongs to a dead process; the next change first rolls back its unfinished work. Until
then a kill leaves a mix of new and old files, and files named ``.cogstep-*``.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import logging
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import Any

from attrs import frozen

from interpreters.toolbox._change_notes import ChangeNotes
from interpreters.toolbox.line_search import open_directory
from runtime.files import closing

LOG = logging.getLogger("cogstep")

EXCHANGE = 2
"""``RENAME_EXCHANGE`` of Linux, and ``RENAME_SWAP`` of macOS."""
CAN_NOT = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Errors of file systems without this operation."""

OURS = ".cogstep-"
"""Prefix of our temporary files. No tool may write a file with this prefix."""
NOTE = re.compile(r"\.cogstep-[0-9a-f]{16}\.note")
"""The names of notes of earlier versions, which kept them in the root. Nothing in them is believed."""
WRITTEN = b"written\n"
"""Appended to the note once all new contents are complete. Before that, no step has been taken."""
DONE = b"done\n"

GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ChangedError(Exception):
    """A file has changed since it was read.

    Attributes:
        path: its path relative to the root.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@frozen
class FileState:
    """The state of a file when it was read."""

    digest: str
    about: os.stat_result


@frozen
class FileStep:
    """A change of one file.

    Attributes:
        parts: path relative to the root, without links.
        before: the present file; None to create it.
        after: the new content; None to delete the file.
        mode: new permissions; None to keep the present or use the default permissions.
        like: status of another file whose owner and mode it receives; None to keep its own.
    """

    parts: tuple[str, ...]
    before: FileState | None
    after: bytes | None
    mode: int | None = None
    like: os.stat_result | None = None

    @property
    def path(self) -> str:
        return "/".join(self.parts)


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class FileTransaction:
    """Changes files in one directory.

    Args:
        root: an absolute path without links.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._notes = ChangeNotes(root)

    def make(self, steps: Sequence[FileStep], *, folders: Sequence[tuple[str, ...]] = ()) -> None:
        """Take all steps, or none if a step fails.

        Args:
            steps: at most one per file.
            folders: folders that the steps leave empty and that are to be removed, innermost first.

        Raises:
            ChangedError: a file is no longer the file that was read.
            OSError: it can't be written.
        """
        self.settle()
        token = secrets.token_hex(8)
        plan = self._plan(token, steps)
        force = len(steps) > 1  # one step alone is taken or not, and needs no note for that
        with self._notes.writing(token, json.dumps(plan).encode(), force=force) as note, ExitStack() as held:
            written, into = False, list[int]()
            try:
                self._write_new(steps, plan, held, into)
                note.add(WRITTEN)
                written = True
                self._take(steps, into, plan)
                note.add(DONE)
            except BaseException:
                self._put_back(plan, written, into)
                note.finished = True
                raise
            with suppress(OSError):  # all is done; what can't be deleted now is left to the next one
                self._tidy(plan, into)
                note.finished = True
        for parts in folders:
            with suppress(OSError), self._folder(parts[:-1]) as folder:
                os.rmdir(parts[-1], dir_fd=folder)

    def settle(self) -> None:
        """Roll back the unfinished changes of dead processes.

        Raises:
            OSError: a rollback failed.
        """
        self._notes.settle(self._settle)

    def tell_of_other_notes(self) -> None:
        """Log a warning about files in the root that look like notes: whoever may write there may have written them."""
        with suppress(OSError):
            if names := [name for name in os.listdir(self._root) if NOTE.fullmatch(name)]:
                LOG.warning(
                    "%s has %s, which an earlier version may have left in the middle of a change, or somebody else; "
                    "nothing is put back from it: look at the files beside it named %s*, and delete them",
                    self._root,
                    ", ".join(sorted(names)[:3]),
                    OURS,
                )

    def _settle(self, token: str, note: bytes) -> None:
        text, end, rest = note.partition(b"\n")
        plan = _plan_in(text) if end else None  # without one it was killed before anything else
        if plan is None or plan["token"] != token:
            return
        if rest == WRITTEN + DONE:
            self._tidy(plan)
        else:
            self._put_back(plan, rest.startswith(WRITTEN))

    def _plan(self, token: str, steps: Sequence[FileStep]) -> dict[str, Any]:
        missing: dict[tuple[str, ...], None] = {}
        for step in steps:
            for depth in range(1, len(step.parts) if step.after is not None else 0):
                try:
                    with self._folder(step.parts[:depth]):
                        pass
                except FileNotFoundError:
                    missing[step.parts[:depth]] = None
        return {
            "token": token,
            "folders": [list(parts) for parts in missing],
            "steps": [
                {
                    "folder": list(step.parts[:-1]),
                    "name": step.parts[-1],
                    "old": step.before and step.before.digest,
                    "inode": step.before and step.before.about.st_ino,
                    "new": None if step.after is None else digest_of(step.after),
                }
                for step in steps
            ],
        }

    @contextmanager
    def _folder(self, parts: Sequence[str]) -> Iterator[int]:
        """Open a folder below the root without following links."""
        with closing(open_directory("/".join([self._root, *parts]))) as folder:
            yield folder

    # ------------------------------------------------------------------------------------------------- taking steps

    def _write_new(self, steps: Sequence[FileStep], plan: dict[str, Any], held: ExitStack, folders: list[int]) -> None:
        """Write all new contents beside their targets.

        Adds each step's folder descriptor to ``folders``. The descriptors stay open until ``held`` is closed, so a
        rollback reaches these folders even if their paths change.
        """
        for parts in plan["folders"]:
            with self._folder(parts[:-1]) as folder, suppress(FileExistsError):
                os.mkdir(parts[-1], dir_fd=folder)
        for step in steps:
            folders.append(held.enter_context(self._folder(step.parts[:-1])))
        for index, (step, folder) in enumerate(zip(steps, folders, strict=True)):
            if step.after is not None:
                _write(step, step.after, folder, _names(plan["token"], index)[0])

    def _take(self, steps: Sequence[FileStep], folders: Sequence[int], plan: dict[str, Any]) -> None:
        order = sorted(range(len(steps)), key=lambda index: steps[index].after is not None)
        for index in order:  # deletions first, since a name may differ from a new one by its capitals only
            try:
                _take_step(steps[index], folders[index], *_names(plan["token"], index))
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EEXIST):
                    raise ChangedError(steps[index].path) from error
                raise
        for folder in folders:
            _force(folder)

    def _put_back(self, plan: dict[str, Any], written: bool, held: Sequence[int] = ()) -> None:
        """Undo a plan that may be done completely, in part, or not at all.

        Args:
            plan: the plan.
            written: whether all new contents were complete. If not, no step was taken, and a partly written new content
                must not be confused with an old file that was moved away.
            held: descriptors of the steps' folders, as far as they are open.
        """
        for index, step in reversed(list(enumerate(plan["steps"]))):
            with self._while_there(step["folder"], held[index : index + 1]) as folder:
                if folder is not None:
                    new, old = _names(plan["token"], index)
                    if written:
                        _undo_step(step, folder, new, old)
                    else:
                        _unlink(new, folder)
                    _force(folder)
        for parts in reversed(plan["folders"]):
            with self._while_there(parts[:-1]) as folder:
                if folder is not None:
                    with suppress(OSError):  # it is not empty, so somebody uses it, or was never made
                        os.rmdir(parts[-1], dir_fd=folder)

    def _tidy(self, plan: dict[str, Any], held: Sequence[int] = ()) -> None:
        for index, step in enumerate(plan["steps"]):
            with self._while_there(step["folder"], held[index : index + 1]) as folder:
                if folder is not None:
                    for name in _names(plan["token"], index):
                        _unlink(name, folder)

    @contextmanager
    def _while_there(self, parts: Sequence[str], held: Sequence[int] = ()) -> Iterator[int | None]:
        """Yield a folder's descriptor, possibly an open one from ``held``; None if the folder is gone."""
        if held:
            yield held[0]
            return
        try:
            folder = open_directory("/".join([self._root, *parts]))
        except OSError as error:
            if error.errno not in GONE:
                raise
            yield None
            return
        with closing(folder):
            yield folder


def _names(token: str, index: int) -> tuple[str, str]:
    """Return the temporary name of the new file and of the replaced old file."""
    return f"{OURS}{token}-{index}.new", f"{OURS}{token}-{index}.old"


def _write(step: FileStep, content: bytes, folder: int, name: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    like = step.like or (None if step.before is None else step.before.about)
    usual = 0o600 if like is not None else 0o666 if step.mode is None else step.mode
    with closing(os.open(name, flags, usual, dir_fd=folder)) as file:
        _write_all(file, content)
        if like is not None:  # the owner first, since changing it resets some bits of the mode
            now = os.fstat(file)
            if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
                os.fchown(file, like.st_uid, like.st_gid)
            os.fchmod(file, stat.S_IMODE(like.st_mode) if step.mode is None else step.mode)
        os.fsync(file)


def _take_step(step: FileStep, folder: int, new: str, old: str) -> None:
    """Take one step. Both temporary names are free or ours."""
    name = step.parts[-1]
    if step.before is None:
        os.link(new, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)  # refuses one that is there
    elif step.after is None:
        os.rename(name, old, src_dir_fd=folder, dst_dir_fd=folder)
        if not _is_same_file(step.before, folder, old):
            _return(folder, old, name)
            raise ChangedError(step.path)
    elif exchange(folder, new, name):
        if not _is_same_file(step.before, folder, new):
            exchange(folder, new, name)
            raise ChangedError(step.path)
    else:
        os.link(name, old, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        if not _is_same_file(step.before, folder, old):
            raise ChangedError(step.path)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)


def _is_same_file(before: FileState, folder: int, name: str) -> bool:
    """Return whether a file is still the same file with the same content."""
    about = _stat(folder, name)
    return (
        about is not None
        and (about.st_dev, about.st_ino) == (before.about.st_dev, before.about.st_ino)
        and _digest(folder, name) == before.digest
    )


def _undo_step(step: dict[str, Any], folder: int, new: str, old: str) -> None:
    name = step["name"]
    if step["old"] is None:
        made, there = _stat(folder, new), _stat(folder, name)
        if made is not None and there is not None and os.path.samestat(made, there):
            _unlink(name, folder)
    elif step["new"] is None:
        if _stat(folder, old) is not None:
            _return(folder, old, name)
        return
    elif _digest(folder, name) == step["new"]:  # else it was not taken, or somebody has put another one there since
        for kept in (new, old):
            about = _stat(folder, kept)
            if about is not None and (about.st_ino == step.get("inode") or _digest(folder, kept) != step["new"]):
                if not exchange(folder, kept, name):
                    os.rename(kept, name, src_dir_fd=folder, dst_dir_fd=folder)
                break
    for kept in (new, old):
        _unlink(kept, folder)


def _return(folder: int, old: str, name: str) -> None:
    """Move an old file back to its name. If another file has that name by now, both stay."""
    about = _stat(folder, old)
    if about is not None and stat.S_ISDIR(about.st_mode):
        if _stat(folder, name) is None:
            os.rename(old, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    with suppress(FileExistsError):
        os.link(old, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        _unlink(old, folder)


def _stat(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in GONE:
            raise
        return None


def _is_regular(folder: int, name: str) -> bool:
    about = _stat(folder, name)
    return about is not None and stat.S_ISREG(about.st_mode)


def _digest(folder: int, name: str) -> str | None:
    if not _is_regular(folder, name):
        return None
    try:
        with open(os.open(name, READ, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # a link by now, or gone
        return None


def _unlink(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _force(folder: int) -> None:
    """Force a folder's entries to disk, if it can be opened."""
    with suppress(OSError), closing(os.open(".", LISTED, dir_fd=folder)) as opened:
        os.fsync(opened)


def _plan_in(text: bytes) -> dict[str, Any] | None:
    """Return the plan in a note; None if it is damaged or has a path out of the root."""
    try:
        plan = json.loads(text)
        token, steps, folders = plan["token"], plan["steps"], plan["folders"]
        names = [name for parts in folders for name in parts]
        for step in steps:
            names += [*step["folder"], step["name"]]
            if not {type(step["old"]), type(step["new"])} <= {str, type(None)}:
                return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(token) is not str or not all(folders):
        return None
    if not all(type(name) is str and name not in ("", ".", "..") and not {"/", "\0"} & set(name) for name in names):
        return None
    return {"token": token, "steps": steps, "folders": folders}


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


@cache
def _function() -> Callable[..., int] | None:
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None
    return function


def exchange(folder: int, one: str, other: str) -> bool:
    """Exchange two names in one folder atomically. Returns False if the system does not support it.

    ``rename`` replaces any file that has the target name at that moment. After an exchange, the replaced file has the
    other name: it can be checked, and put back if it is not the expected file.

    Raises:
        OSError: it is supported but failed: a name is missing, or access is denied.
    """
    function = _function()
    if function is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if function(folder, names[0], folder, names[1], ctypes.c_uint(EXCHANGE)) == 0:
        return True
    number = ctypes.get_errno()
    if number in CAN_NOT:
        return False
    raise OSError(number, os.strerror(number), other)

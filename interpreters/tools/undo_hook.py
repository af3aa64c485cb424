"""The changes of files that a tool announces in advance, so that ``undo`` can restore them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from attrs import frozen


@frozen
class FileChange:
    """A change of one file that is about to happen.

    Attributes:
        parts: the path relative to the root, with links resolved.
        old: the present content; None if the file does not exist.
        about: the status of the existing file.
        new: the future content; None if the file will be deleted.
        mode_too: whether the change may also affect mode or owner.
    """

    parts: tuple[str, ...]
    old: bytes | None
    about: os.stat_result | None
    new: bytes | None
    mode_too: bool = False


class UndoHook(Protocol):
    """Saves the undo data of file changes. A session's keeper is in ``ToolContext.keeper``."""

    def keep_changes(self, root: str, changes: Sequence[FileChange], call_id: str) -> AbstractContextManager[object]:
        """Save the undo data to disk before the block that makes these changes.

        Args:
            root: the directory of the files, absolute and without links.
            changes: at most one per file.
            call_id: id of the tool's call.

        Raises:
            ToolError: the data can't be saved. Do not change any file then.
        """

    def keep_files(
        self, root: str | os.PathLike[str], paths: Sequence[str], call_id: str
    ) -> AbstractContextManager[object]:
        """Do the same for files whose future content is not yet known. See ``ToolContext.keep_changes``."""

"""What a tool says of the files that it is about to change, so that the change can be undone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from attrs import frozen


@frozen
class FileChange:
    """What is about to happen to one file.

    Attributes:
        parts: its path from the root on, without links.
        old: what it holds; None where there is no file.
        about: of the file that is there.
        new: what it is to hold; None where it is to be deleted.
        mode_too: whether its mode or owner may be another one afterwards.
    """

    parts: tuple[str, ...]
    old: bytes | None
    about: os.stat_result | None
    new: bytes | None
    mode_too: bool = False


class Keeper(Protocol):
    """Keeps what undoes a change of files. What a session has of it stands in ``ToolContext.keeper``."""

    def keeping(self, root: str, changes: Sequence[FileChange], call_id: str) -> AbstractContextManager[object]:
        """Keep what undoes the changes, on the disk, before the block begins in which they are made.

        Args:
            root: the directory whose files they are, absolute and without links.
            changes: no two of them about one file.
            call_id: of the tool's call.

        Raises:
            ToolError: it can't be kept, so that nothing must be changed.
        """

    def keeping_files(
        self, root: str | os.PathLike[str], paths: Sequence[str], call_id: str
    ) -> AbstractContextManager[object]:
        """The same for files of which nobody knows yet what they will hold: see ``ToolContext.keeping``."""

"""``cogstep undo``: restore files that a session's tools have changed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED
from interpreters.cli.options.arguments import add_command
from interpreters.cli.options.store_option import add_recording
from interpreters.cli.options.values import COUNT
from interpreters.cli.screen.terminal import err, out

if TYPE_CHECKING:
    from interpreters.recording.undo.restore import Restored

PAGE = """\
Put the files that a recorded session changed back to what they were when a turn began.

Only what its own tools wrote is undone (Write, Edit, MultiEdit, Patch), and not what its commands did. All files are
put back, or none: where somebody else has changed one since, its name is told and nothing is done. --force overwrites
it all the same. What an undo overwrites is kept, so that --redo takes the newest undo back.

One line tells of each file: M changed, A made again, D deleted.

examples:
  cogstep undo session.jsonl
  cogstep undo session.jsonl --turn 2 --dry-run
"""

LETTERS = {"changed": "M", "made": "A", "deleted": "D"}


def add(commands: Any) -> None:
    command = add_command(commands, "undo", "put the files back that a session changed", PAGE, undo)
    add_recording(command, "its recording; it may be open")
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--turn",
        type=COUNT,
        metavar="N",
        help="back to where this turn began (default: the newest that changed files and is not undone)",
    )
    which.add_argument("--redo", action="store_true", help="back to what was there before the newest undo")
    command.add_argument("--dry-run", action="store_true", help="only say what would be done")
    command.add_argument("--force", action="store_true", help="overwrite what somebody else has changed since, too")


def undo(options: argparse.Namespace) -> int:
    """Restore the files, list them, and return the exit code."""
    from interpreters.recording.undo.restore import undo as put_back

    done = put_back(options.file, options.turn, redo=options.redo, force=options.force, dry_run=options.dry_run)
    for line in restored_lines(done):
        out().write(f"{line}\n")
    err().write_line(f"cogstep: {summarize_restored(done, dry_run=options.dry_run)}")
    return ANSWERED


def restored_lines(done: Restored) -> Iterator[str]:
    """Yield a line per file: a letter for the action, and the path, relative if it is inside the working directory."""
    from interpreters.toolbox.root_directory import format_path

    here = os.getcwd()
    for one in done.files:
        inside = os.path.commonpath((here, one.path)) == here
        yield f"{LETTERS[one.how]} {format_path(os.path.relpath(one.path, here) if inside else one.path)}"


def summarize_restored(done: Restored, *, dry_run: bool = False) -> str:
    """Return a summary sentence."""
    what = "before the newest undo" if done.turn is None else f"when turn {done.turn} began"
    if not done.files:
        return f"all files are as they were {what} already"
    return f"the files {'would be' if dry_run else 'are'} as they were {what}"

"""``cogstep sessions copy`` and ``move``: recordings from files into a database, and back."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED, UNANSWERED, CommandError
from interpreters.cli.options.arguments import add_command
from interpreters.cli.options.store_option import EXAMPLES, IS_URL, store_at
from interpreters.cli.screen.terminal import err, out

if TYPE_CHECKING:
    from interpreters.recording.collections import Place, Recording

COPY = """\
Copy recordings from files to a database, or back: every line as it is, to the byte.

PLACE is a recording or a directory of them, and with --store the name of a session. FILE.jsonl is called FILE in a
database, and the other way round; --as names it otherwise. Nothing is ever overwritten. A copy is as old as what it is
a copy of.

examples:
  cogstep sessions copy session.jsonl --to sqlite:///sessions.db
  cogstep sessions copy ada --store postgresql://user@host/agents --to ~/sessions
"""

MOVE = """\
Move recordings from files to a database, or back: every line as it is, to the byte.

As `cogstep sessions copy`, and then the recording is deleted where it was. One that a session has open stays, and so
does one with something beside it that would be lost, such as what `cogstep undo` puts back.

examples:
  cogstep sessions move session.jsonl --to sqlite:///sessions.db
  cogstep sessions move ada --store sqlite:///sessions.db --to . --as monday
"""

SUFFIX = ".jsonl"


def add(actions: Any, add_places: Callable[[Any], None]) -> None:
    for name, summary, page in (
        ("copy", "copy recordings between files and a database", COPY),
        ("move", "move recordings between files and a database", MOVE),
    ):
        command = add_command(actions, name, summary, page, partial(_carry, moves=name == "move"))
        add_places(command)
        command.add_argument("--to", metavar="TO", required=True, help=f"a directory, or a database: {EXAMPLES}")
        command.add_argument("--as", dest="name", metavar="NAME", help="what it is called there, of one recording")
        command.add_argument("--json", action="store_true", help="print one object a line")


def _carry(options: argparse.Namespace, *, moves: bool) -> int:
    from cognition import CogstepError
    from interpreters.recording.sessions import copy, journals_in, move

    target = _targets(options.to)
    places: list[Place] = options.places or ["."]
    found = list(journals_in(places))
    if options.name is not None and len(found) != 1:
        raise CommandError(f"--as names one recording, and there are {len(found)}")
    code = ANSWERED
    for recording in found:
        to = None
        try:
            to = target(options.name or _name(recording))
            copied = (move if moves else copy)(recording, to)
        except (CogstepError, CommandError, OSError) as error:
            code = UNANSWERED
            if options.json:
                out().write_json({"name": recording.name, "to": to and to.name, "problem": str(error)})
            else:
                err().write_line(str(error))
            continue
        for warning in copied.warnings:
            err().write_line(f"cogstep: warning: {warning}")
        if options.json:
            told = {"records": copied.records, "bytes": copied.bytes, "problem": ""}
            out().write_json({"name": recording.name, "to": to.name, **told})
        else:
            records = f"{copied.records} record{'' if copied.records == 1 else 's'}"
            out().write_line(f"{recording.name}: {'moved' if moves else 'copied'} to {_shown(to)} ({records})")
    return code


def _targets(to: str) -> Callable[[str], Recording]:
    from interpreters.recording.sessions import FileRecording

    if IS_URL.match(to):
        store = store_at(to)
        next(store.names(), None)  # what is wrong with it is told once, and not of each recording
        return store.recording
    folder = Path(to)
    if not folder.is_dir():
        raise CommandError(f"--to {to} is no directory; create it, or give the URL of a database such as {EXAMPLES}")

    def place(name: str) -> Recording:
        if "/" in name:
            raise CommandError(f"{name} can't be the name of a file; give it another one with --as")
        return FileRecording(folder / (name if name.endswith(SUFFIX) else f"{name}{SUFFIX}"))

    return place


def _name(recording: Recording) -> str:
    return Path(recording.name).name.removesuffix(SUFFIX) if isinstance(recording.where, Path) else recording.name


def _shown(recording: Recording) -> str:
    where = recording.where
    return str(where) if isinstance(where, Path) else str(getattr(where, "name", where))

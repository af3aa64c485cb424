"""``cogstep sessions``: manage recordings."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED, UNANSWERED, CommandError, reason_of
from interpreters.cli.commands.replay import format_count, load_engine
from interpreters.cli.options.arguments import add_command, add_engine_option, add_group
from interpreters.cli.options.store_option import EXAMPLES, IS_URL, add_recording, add_store_option, name_of, store_at
from interpreters.cli.options.values import TURN
from interpreters.cli.screen.terminal import columns, err, in_pieces, json_parts, out

if TYPE_CHECKING:
    from interpreters.recording.collections import Place, Recording
    from interpreters.recording.sessions import SessionInfo, Transcript


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

BACKUP = """\
Copy a database of sessions in SQLite, as it is at one moment, also while programs write to it.

Copied are the file itself, with what is only in its -wal file so far, DBOS's database beside it (.dbos) and what
`cogstep undo` puts back (.undo). Programs wait until the copy is done. A copy replaces the original: put its files in
the place of the others while no program uses them. For PostgreSQL use pg_dump.

examples:
  cogstep sessions backup --store sqlite:///sessions.db --to backups/monday.db
  cogstep sessions backup --store sqlite:///sessions.db --to monday.db --json
"""

SUFFIX = ".jsonl"

SESSIONS = """\
List, read, search, export, prune, copy, move and back up recordings.

A recording is a file made with --record. PLACE is such a file, or a directory, of which all files *.jsonl are looked
at; without one it is the current directory, where `--record session.jsonl` puts them. With --store it is the name of
a session in a database, and without one all of them are meant.

examples:
  cogstep sessions list
  cogstep sessions search "plum" ~/sessions
"""

LIST = """\
List recorded sessions: their turns, size and last change, and the first words of the user.

A session is `open` while it is being written, `waiting` where a turn only waits for a person, `interrupted` where it
has not come to its end for another reason (`cogstep resume` goes on with both), else `idle`; `foreign` if it was not
recorded by you, or nothing shows that it was. Files that are no recordings, or damaged, are listed with the reason.

examples:
  cogstep sessions list
  cogstep sessions list ~/sessions --newest 20
"""

SHOW = """\
Show a recorded session as a conversation.

Each call stands with its id and the result that the model read. With --call you get the whole result of one call, also
if the model read a shortened one.

examples:
  cogstep sessions show session.jsonl --turn 2
  cogstep sessions show session.jsonl --call call-1-2-1
"""

SEARCH = """\
Search what users, models and tools said.

The first match in each message is shown, with its file, record, turn and speaker.

examples:
  cogstep sessions search "plum"
  cogstep sessions search "error [0-9]+" ~/sessions --regex --json
"""

EXPORT = """\
Write a recorded session in another form, to stdout or to a file that must not exist.

  json      one object: header, turns with messages and what happened between them, outcomes, usage
  markdown  a transcript to read
  openai    {"messages": [...], "tools": [...]}, one line for each conversation (/reset begins a new one); each tool
            call is answered by one message with its id

examples:
  cogstep sessions export session.jsonl --format markdown > session.md
  cogstep sessions export session.jsonl --format openai --output session.openai.jsonl
"""

PRUNE = """\
Delete old recordings, with the large texts and old contents of files beside them.

At least one of --older-than, --keep and --max-size has to be given; a recording goes if any of them says so. One that a
session has open is kept, and so is every file that is no recording.

examples:
  cogstep sessions prune ~/sessions --older-than 30d --dry-run
  cogstep sessions prune ~/sessions --keep 100 --max-size 500M
"""

UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
SIZES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3}

TITLE = 48
"""Characters of the user's first message in a list."""


def add(commands: Any) -> None:
    actions = add_group(commands, "sessions", "list, show, search, prune, move and back up recordings", SESSIONS)

    listing = add_command(actions, "list", "list recorded sessions", LIST, _list)
    _add_places(listing)
    listing.add_argument("--newest", type=TURN, metavar="N", help="only the N that were written last")
    listing.add_argument("--json", action="store_true", help="print one object a line")

    show = add_command(actions, "show", "show a session as a conversation", SHOW, _show)
    add_recording(show)
    show.add_argument("--turn", type=TURN, metavar="N", help="this turn only")
    show.add_argument("--call", metavar="ID", help="the whole result of this call only")
    add_engine_option(show)

    search = add_command(actions, "search", "search what was said", SEARCH, _search)
    search.add_argument("text", metavar="TEXT", help="what to look for; upper and lower case are the same")
    _add_places(search)
    search.add_argument("--regex", action="store_true", help="TEXT is a regular expression")
    search.add_argument("--case", action="store_true", help="upper and lower case are different")
    search.add_argument("--json", action="store_true", help="print one object a line")

    export = add_command(actions, "export", "write a session as JSON, Markdown or OpenAI messages", EXPORT, _export)
    add_recording(export)
    export.add_argument("--format", choices=("json", "markdown", "openai"), default="json", help="(default: json)")
    export.add_argument("--output", metavar="FILE", help="write it there; FILE must not exist (default: stdout)")
    export.add_argument(
        "--reasoning", action="store_true", help="with openai: what the model thought, as reasoning_content"
    )
    add_engine_option(export)

    prune = add_command(actions, "prune", "delete old recordings", PRUNE, _prune)
    _add_places(prune)
    prune.add_argument(
        "--older-than", type=age, metavar="AGE", help="not written for this long: 90m, 12h, 30d, 8w (minutes to weeks)"
    )
    prune.add_argument("--keep", type=TURN, metavar="N", help="all but the newest N")
    prune.add_argument("--max-size", type=size, metavar="SIZE", help="the oldest beyond this size: 500K, 200M, 2G")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    prune.add_argument("--json", action="store_true", help="print one object a line")

    for name, page in (("copy", COPY), ("move", MOVE)):
        act = partial(_copy_or_move, moves=name == "move")
        moving = add_command(actions, name, f"{name} recordings between files and a database", page, act)
        _add_places(moving)
        moving.add_argument("--to", metavar="TO", required=True, help=f"a directory, or a database: {EXAMPLES}")
        moving.add_argument("--as", dest="name", metavar="NAME", help="what it is called there, of one recording")
        moving.add_argument("--json", action="store_true", help="print one object a line")

    backup = add_command(actions, "backup", "copy a database of sessions as it is now", BACKUP, _back_up)
    backup.add_argument("--store", metavar="URL", required=True, help="the database: sqlite:///sessions.db")
    backup.add_argument("--to", metavar="FILE", required=True, help="the copy; it must not exist")
    backup.add_argument("--json", action="store_true", help="print one object a line")


def _add_places(command: Any) -> None:
    command.add_argument("places", metavar="PLACE", nargs="*", help="recordings, directories (default: this one)")
    add_store_option(command, "each PLACE is the name of a session (default: all)")


def age(text: str) -> float:
    """Parse a number with a unit as seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected an age such as 90m, 12h, 30d or 8w, not {text!r}")
    return float(found[1]) * UNITS[found[2]]


def size(text: str) -> int:
    """Parse a number with or without a unit as bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)B?", text.upper())
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 500K, 200M or 2G, not {text!r}")
    return int(float(found[1]) * SIZES[found[2]])


def _list(options: argparse.Namespace) -> int:
    from interpreters.recording.sessions import BadFile, SessionInfo, list_sessions

    found = list(list_sessions(*_places(options), newest=options.newest))
    good = [one for one in found if isinstance(one, SessionInfo)]
    bad = [one for one in found if isinstance(one, BadFile)]
    code = UNANSWERED if bad or any(one.damage for one in good) else ANSWERED
    if options.json:
        for each in found:
            out().write_json({"bad": isinstance(each, BadFile), **_to_plain_data(each)})
        return code
    what, how = ("file", "FILE") if options.store is None else ("session", "NAME --store URL")
    rows = [_row(one) for one in sorted(good, key=lambda one: -one.changed)]
    if rows:
        for line in columns([("written", "status", "turns", "size", what, "first words"), *rows], right=(2, 3)):
            out().write_line(line)
    for one in good:
        for problem in filter(None, (one.damage, *one.warnings)):
            err().write_line(f"{one.name}: {problem.removeprefix(f'{one.path}, ')}")
    for file in bad:
        err().write_line(f"{file.name}: {file.reason}")
    if not found:
        err().write_line(f"no recordings here; make one with `cogstep run ... --record {how}`")
    return code


def _row(info: SessionInfo) -> tuple[str, ...]:
    try:
        written = datetime.fromtimestamp(info.changed).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):  # a disk may say anything of a file
        written = "?"
    status = f"{info.status}, foreign" if info.foreign else info.status
    words = " ".join(info.title.split())
    title = words if len(words) <= TITLE else f"{words[: TITLE - 1]}…"
    return written, status, str(info.turns), _format_size(info.bytes), info.name, title


def _show(options: argparse.Namespace) -> int:
    from shlex import quote  # a foreign recording may hold any id

    from cognition import ToolMessage
    from interpreters.recording.output_tool import read_result
    from interpreters.recording.sessions import markdown_parts, read_transcript

    if options.call is not None:
        if options.turn is not None:
            raise CommandError("--call and --turn: give one of them; an id names its turn already")
        result = read_result(options.file, options.call, load_engine(options.engine))
        out().write(result if result.endswith("\n") else f"{result}\n")
        return ANSWERED
    transcript = read_transcript(options.file, load_engine(options.engine))
    numbers = [turn.number for turn in transcript.turns]
    if options.turn is not None and options.turn not in numbers:
        there = f"there are {numbers[0]} to {numbers[-1]}" if numbers else "there are none"
        raise CommandError(f"{name_of(options.file)}: there is no turn {options.turn}; {there}")
    for piece in in_pieces(f"{part}\n" for part in markdown_parts(transcript, turn=options.turn)):
        out().write(piece)
    shown = [turn for turn in transcript.turns if options.turn in (None, turn.number)]
    messages = (entry.message for turn in shown for entry in turn.entries)
    cut = [message.call_id for message in messages if isinstance(message, ToolMessage) and message.left_out]
    if cut:
        results, which = ("1 result is", "it") if len(cut) == 1 else (f"{len(cut)} results are", "the last")
        err().write_line(f"{results} shortened; --call {quote(cut[-1])} shows {which} whole")
    return ANSWERED


def _search(options: argparse.Namespace) -> int:
    from interpreters.recording.sessions import BadFile, search_sessions

    found = False
    for one in search_sessions(options.text, *_places(options), regex=options.regex, case=options.case):
        if isinstance(one, BadFile):
            if not options.json:
                err().write_line(f"{one.name}: {one.reason}")
            continue
        found = True
        if options.json:
            out().write_json(_to_plain_data(one))
        else:
            place = f"{one.name}{' (foreign)' * bool(one.foreign)}: record {one.record}, turn {one.turn}, {one.speaker}"
            out().write_line(f"{place}: {one.before}{' '.join(one.found.split())}{one.after}")
    return ANSWERED if found else UNANSWERED


def _export(options: argparse.Namespace) -> int:
    from interpreters.recording.sessions import read_transcript
    from runtime.files import open_private

    if options.reasoning and options.format != "openai":
        raise CommandError("--reasoning is for --format openai; the other formats always have it")
    transcript = read_transcript(options.file, load_engine(options.engine))
    # Half a surrogate pair has no form in UTF-8.
    pieces = (piece.encode("utf-8", "replace") for piece in in_pieces(_export_parts(transcript, options)))
    if options.output is None:
        for piece in pieces:
            out().write(piece.decode())
        return ANSWERED
    try:
        with open(open_private(options.output, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.writelines(pieces)
    except FileExistsError as error:
        raise CommandError(f"--output {options.output} exists; choose another name") from error
    except OSError as error:
        raise CommandError(f"--output {options.output} can't be written ({reason_of(error)})") from error
    return ANSWERED


def _export_parts(transcript: Transcript, options: argparse.Namespace) -> Iterator[str]:
    from interpreters.recording.sessions import markdown_parts, transcript_to_data, transcript_to_openai

    if options.format == "json":
        yield from json_parts(transcript_to_data(transcript))
        yield "\n"
    elif options.format == "markdown":
        yield from (f"{part}\n" for part in markdown_parts(transcript))
    else:
        for body in transcript_to_openai(transcript, reasoning=options.reasoning):
            yield from json_parts(body)
            yield "\n"


def _prune(options: argparse.Namespace) -> int:
    from interpreters.recording.sessions import prune_sessions

    freed = count = 0
    limits = {"older": options.older_than, "keep": options.keep, "size": options.max_size}
    for one in prune_sessions(*_places(options), **limits, dry_run=options.dry_run):
        if not one.kept:
            freed, count = freed + one.bytes, count + 1
        if options.json:
            out().write_json(_to_plain_data(one))
        else:
            done = f"kept, because {one.kept}" if one.kept else "would go" if options.dry_run else "deleted"
            out().write_line(f"{one.name}: {done} ({one.reason}, {_format_size(one.bytes)})")
    if not options.json:
        done = "to delete" if options.dry_run else "deleted"
        out().write_line(f"{done}: {format_count(count, 'recording')}, {_format_size(freed)}")
    return ANSWERED


def _places(options: argparse.Namespace) -> Sequence[Place]:
    return options.places or ["."]


def _to_plain_data(value: Any) -> dict[str, Any]:
    from attrs import asdict

    return asdict(value, value_serializer=lambda _owner, _field, item: str(item) if isinstance(item, Path) else item)


def _format_size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _copy_or_move(options: argparse.Namespace, *, moves: bool) -> int:
    from cognition import CogstepError
    from interpreters.recording.sessions import copy_session, journals_in, move_session

    target = _targets(options.to)
    found = list(journals_in(_places(options)))
    if options.name is not None and len(found) != 1:
        raise CommandError(f"--as names one recording, and there are {len(found)}")
    code = ANSWERED
    for recording in found:
        to, name = None, recording.name
        if isinstance(recording.where, Path):
            name = Path(name).name.removesuffix(SUFFIX)
        try:
            to = target(options.name or name)
            copied = (move_session if moves else copy_session)(recording, to)
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
            where = str(to.where) if isinstance(to.where, Path) else name_of(to.where)
            records = format_count(copied.records, "record")
            out().write_line(f"{recording.name}: {'moved' if moves else 'copied'} to {where} ({records})")
    return code


def _back_up(options: argparse.Namespace) -> int:
    copies = store_at(options.store).back_up(options.to)
    for one in copies:
        files = [path for path in one.rglob("*") if path.is_file()] if one.is_dir() else [one]
        size = sum(path.stat().st_size for path in files)
        if options.json:
            out().write_json({"path": str(one), "bytes": size})
        else:
            out().write_line(f"{one}: {_format_size(size)}")
    return ANSWERED


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
        return FileRecording(folder / f"{name.removesuffix(SUFFIX)}{SUFFIX}")

    return place

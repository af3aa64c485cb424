"""What can be typed behind ``cogstep sessions``."""

from __future__ import annotations

import argparse
import re
from typing import Any

SESSIONS = """\
List, read, search, export and prune recordings.

A recording is a file made with --record. PLACE is such a file, or a directory, of which all files *.jsonl are looked
at; without one it is the current directory, where `--record session.jsonl` puts them.

examples:
  cogstep sessions list
  cogstep sessions search "plum" ~/sessions
"""

LIST = """\
List recorded sessions: how many turns, how large, when last written, and what the user said first.

A session is `open` while it is being written, `interrupted` where a turn has not come to its end (`cogstep resume`
goes on with it), else `idle`. Files that are no recordings, or damaged, are listed with the reason.

examples:
  cogstep sessions list
  cogstep sessions list ~/sessions --json
"""

SHOW = """\
Show a recorded session as a conversation.

examples:
  cogstep sessions show session.jsonl
  cogstep sessions show session.jsonl --turn 2
"""

SEARCH = """\
Search what users, models and tools said.

Of each thing that was said, the first place is shown: file, record, turn, and who said it.

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
Delete old recordings, with the large texts beside them.

At least one of --older-than, --keep and --max-size has to be given; a recording goes if any of them says so. One that a
session has open is kept, and so is every file that is no recording.

examples:
  cogstep sessions prune ~/sessions --older-than 30d --dry-run
  cogstep sessions prune ~/sessions --keep 100 --max-size 500M
"""

UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
SIZES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3}


def add_sessions(commands: Any, command: Any, whole: Any) -> None:
    """Add the command and its own commands.

    Args:
        commands: where it is added.
        command: makes a command of a name, a summary and a description.
        whole: reads a whole number from 0.
    """
    sessions = command(commands, "sessions", "list, show, search, export and prune recordings", SESSIONS)
    actions = sessions.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(sessions))

    listing = command(actions, "list", "list recorded sessions", LIST)
    _add_places(listing)
    listing.add_argument("--json", action="store_true", help="print one object a line")

    show = command(actions, "show", "show a session as a conversation", SHOW)
    show.add_argument("file", metavar="FILE", help="a recording made with --record")
    show.add_argument("--turn", type=whole, metavar="N", help="this turn only")
    _add_engine(show)

    search = command(actions, "search", "search what was said", SEARCH)
    search.add_argument("text", metavar="TEXT", help="what to look for; upper and lower case are the same")
    _add_places(search)
    search.add_argument("--regex", action="store_true", help="TEXT is a regular expression")
    search.add_argument("--case", action="store_true", help="upper and lower case are different")
    search.add_argument("--json", action="store_true", help="print one object a line")

    export = command(actions, "export", "write a session as JSON, Markdown or OpenAI messages", EXPORT)
    export.add_argument("file", metavar="FILE", help="a recording made with --record")
    export.add_argument("--format", choices=("json", "markdown", "openai"), default="json", help="(default: json)")
    export.add_argument("--output", metavar="FILE", help="write it there; FILE must not exist (default: stdout)")
    export.add_argument(
        "--reasoning", action="store_true", help="with openai: what the model thought, as reasoning_content"
    )
    _add_engine(export)

    prune = command(actions, "prune", "delete old recordings", PRUNE)
    _add_places(prune)
    prune.add_argument(
        "--older-than", type=age, metavar="AGE", help="not written for so long: 90m, 12h, 30d, 8w (minutes to weeks)"
    )
    prune.add_argument("--keep", type=whole, metavar="N", help="all but the newest N")
    prune.add_argument("--max-size", type=size, metavar="SIZE", help="the oldest beyond so many bytes: 500K, 200M, 2G")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    prune.add_argument("--json", action="store_true", help="print one object a line")


def _add_places(command: Any) -> None:
    command.add_argument("places", metavar="PLACE", nargs="*", help="recordings, directories (default: this one)")


def _add_engine(command: Any) -> None:
    command.add_argument(
        "--engine", metavar="MODULE:NAME", help="for sessions of an engine that only its program knows; makes it"
    )


def age(text: str) -> float:
    """Seconds, of a number with a unit."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected an age such as 90m, 12h, 30d or 8w, not {text!r}")
    return float(found[1]) * UNITS[found[2]]


def size(text: str) -> int:
    """Bytes, of a number with or without a unit."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)B?", text.upper())
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 500K, 200M or 2G, not {text!r}")
    return int(float(found[1]) * SIZES[found[2]])

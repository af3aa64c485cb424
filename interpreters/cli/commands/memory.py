"""``cogstep memory``: search and write a memory folder from the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED, UNANSWERED, CommandError
from interpreters.cli.options.arguments import add_command, add_group, add_secrets_option
from interpreters.cli.options.values import COUNT
from interpreters.cli.screen.terminal import err, out

if TYPE_CHECKING:
    from runtime import MemoryFolder
    from runtime.stores.memory_folder import Source

MEMORY = """\
Search, fill and look after a memory: a folder of Markdown files that sessions and people write in.

  knowledge/TOPIC.md       what was remembered
  episodes/YYYY-MM-DD.md   what happened in sessions with --memory, a section for each turn
  outcomes/YYYY-MM-DD.md   how their calls of tools went

The files are the truth: edit them as you like. The index beside them follows at the next search.

examples:
  cogstep memory add "Ada likes plums." --memory ~/memory
  cogstep memory search "who likes plums?" --memory ~/memory
"""

SEARCH = """\
Find the passages with any of these words, best first.

Any text is a query; word forms, capitals and accents make no difference. Each line shows the file, the line and the
date of a passage, its headings, and a piece of it. With --json each passage is an object with all of its text.

examples:
  cogstep memory search "who likes plums?"
  cogstep memory search deploy --source episodes --after 2026-11-01 --json
"""

ADD = """\
Write a note into knowledge/TOPIC.md, where it does not stand there already. The folder is made if it is not there.

What looks like an API key, a password or a token is hidden, as in recordings.

examples:
  cogstep memory add "Ada likes plums."
  cat note.txt | cogstep memory add - --topic projects
"""

LIST = """\
List the files of a memory with the number of their passages, and those that can't be searched with the reason.

examples:
  cogstep memory list
  cogstep memory list --source knowledge --json
"""

REBUILD = """\
Make the index of a memory anew, of its files alone, which are left as they are. A damaged one is made anew by itself;
this is for disks that damage silently.

examples:
  cogstep memory rebuild
  cogstep memory rebuild --memory ~/memory
"""

SOURCES: tuple[Source, ...] = ("episodes", "knowledge", "outcomes")
"""As in ``runtime.MemoryFolder``, which ``--help`` must not import."""


def add(commands: Any) -> None:
    actions = add_group(commands, "memory", "search and write a memory in files", MEMORY)

    search = add_command(actions, "search", "find passages by their words", SEARCH, _search)
    search.add_argument("query", metavar="QUERY", help="words to look for")
    _add_folder(search)
    _add_source(search)
    later = "only those of this day (2026-11-25) and later ones"
    search.add_argument("--after", metavar="DATE", default="", help=later)
    search.add_argument("--before", metavar="DATE", default="", help="only those of this day and earlier ones")
    search.add_argument("--limit", type=COUNT, metavar="N", default=5, help="how many, 100 at most (default: 5)")
    search.add_argument("--json", action="store_true", help="print one object a line")

    adding = add_command(actions, "add", "write a note", ADD, _add)
    adding.add_argument("text", metavar="TEXT", help="what is to be remembered; - reads it from stdin")
    _add_folder(adding)
    adding.add_argument("--topic", metavar="TOPIC", default="notes", help="the name of its file (default: notes)")
    add_secrets_option(adding)

    listing = add_command(actions, "list", "list the files", LIST, _list)
    _add_folder(listing)
    _add_source(listing)
    listing.add_argument("--json", action="store_true", help="print one object a line")

    rebuild = add_command(actions, "rebuild", "make the index anew", REBUILD, _rebuild)
    _add_folder(rebuild)


def _add_folder(command: Any) -> None:
    command.add_argument("--memory", metavar="FOLDER", default="memory", help="the folder (default: ./memory)")


def _add_source(command: Any) -> None:
    command.add_argument("--source", choices=SOURCES, action="append", help="only of this one; may be repeated")


def _open_folder(options: argparse.Namespace) -> MemoryFolder:
    """Open an existing memory. Reading never creates one."""
    from runtime import MemoryFolder

    if not options.memory or not any(Path(options.memory, source).is_dir() for source in SOURCES):
        raise CommandError(
            f"there is no memory {options.memory}; name its folder with --memory, or begin one with cogstep memory add"
        )
    return MemoryFolder(options.memory)


def _search(options: argparse.Namespace) -> int:
    from attrs import asdict

    sources, days = options.source or SOURCES, {"after": options.after, "before": options.before}
    with _open_folder(options) as memory:
        found = memory.search(options.query, limit=options.limit, sources=sources, **days)
    for one in found:
        if options.json:
            out().write_json(asdict(one))
        else:
            when = f" ({one.date})" if one.date and one.date not in one.file else ""
            out().write_line(f"{one.file}:{one.line}{when}:{f' [{one.title}]' * bool(one.title)} {one.excerpt}")
    if not found and not options.json:
        where = "with this source and date " if options.source or options.after or options.before else ""
        err().write_line(f"nothing {where}in this memory has any of these words")
    return ANSWERED if found else UNANSWERED


def _add(options: argparse.Namespace) -> int:
    from interpreters.cli.screen.line_input import read_argument
    from interpreters.recording.episodes import hide_secrets
    from runtime import MemoryFolder

    text = read_argument(options.text)
    with MemoryFolder(options.memory, hide=None if options.keep_secrets else hide_secrets) as memory:
        new = memory.remember(text, options.topic)
    done = "written into" if new else "it stands already in"
    err().write_line(f"{done} {options.memory}/knowledge/{options.topic}.md")
    return ANSWERED


def _list(options: argparse.Namespace) -> int:
    from attrs import asdict

    with _open_folder(options) as memory:
        files = [one for one in memory.files() if one.source in (options.source or SOURCES)]
    for one in files:
        if options.json:
            out().write_json(asdict(one))
        else:
            what = one.problem or f"{one.passages} passage{'' if one.passages == 1 else 's'}"
            out().write_line(f"{one.file}: {what}")
    if not files and not options.json:
        err().write_line("this memory has no files yet")
    return UNANSWERED if any(one.problem for one in files) else ANSWERED


def _rebuild(options: argparse.Namespace) -> int:
    with _open_folder(options) as memory:
        count = memory.rebuild()
        files = len(memory.files())
    out().write_line(f"{count} passages of {files} files")
    return ANSWERED

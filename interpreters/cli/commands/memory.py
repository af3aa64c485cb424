"""``cogstep memory``: search and write a memory folder from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
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
  cogstep memory search deploy --source episodes --after 2026-11-01 --json
  cogstep memory search budget --after "last Tuesday"
"""

ADD = """\
Write a note into knowledge/TOPIC.md, where it does not stand there already. The folder is made if it is not there.

What looks like an API key, a password or a token is hidden, as in recordings.

examples:
  cogstep memory add "Ada likes plums."
  cat note.txt | cogstep memory add - --topic projects
"""

FORGET = """\
Remove a note from knowledge/. TEXT is the whole note, as in its file. Everything else in the file stays.

examples:
  cogstep memory forget "Ada likes plums."
  cogstep memory forget "Ada likes plums." --topic people
"""

REPLACE = """\
Replace a note in knowledge/ by a new text with the date of today. TEXT is the whole note, as in its file.

What looks like an API key, a password or a token is hidden in the new text, as in recordings.

examples:
  cogstep memory replace "Ada likes plums." "Ada likes pears."
  cogstep memory replace "Ada likes plums." "Ada likes pears." --topic people
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
    later = "only those of this day (2026-11-25, 'last Tuesday') and later ones"
    search.add_argument("--after", metavar="DATE", default="", help=later)
    search.add_argument("--before", metavar="DATE", default="", help="only those of this day and earlier ones")
    search.add_argument("--limit", type=COUNT, metavar="N", default=5, help="how many, 100 at most (default: 5)")
    search.add_argument("--json", action="store_true", help="print one object a line")

    adding = add_command(actions, "add", "write a note", ADD, _add)
    adding.add_argument("text", metavar="TEXT", help="what is to be remembered; - reads it from stdin")
    _add_folder(adding)
    adding.add_argument("--topic", metavar="TOPIC", default="notes", help="the name of its file (default: notes)")
    add_secrets_option(adding)

    forgetting = add_command(actions, "forget", "remove a note", FORGET, _forget)
    forgetting.add_argument("text", metavar="TEXT", help="the whole note; - reads it from stdin")
    _add_folder(forgetting)
    forgetting.add_argument("--topic", metavar="TOPIC", default="", help="only of this topic (default: all)")

    replacing = add_command(actions, "replace", "replace a note", REPLACE, _replace)
    replacing.add_argument("text", metavar="TEXT", help="the whole note")
    replacing.add_argument("new", metavar="NEW", help="what it is replaced by; - reads it from stdin")
    _add_folder(replacing)
    replacing.add_argument("--topic", metavar="TOPIC", default="", help="only of this topic (default: all)")
    add_secrets_option(replacing)

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


def _open_folder(options: argparse.Namespace, hide: Callable[[str], str] | None = None) -> MemoryFolder:
    """Open an existing memory. Only ``add`` creates one."""
    from runtime import MemoryFolder

    if not options.memory or not any(Path(options.memory, source).is_dir() for source in SOURCES):
        raise CommandError(
            f"there is no memory {options.memory}; name its folder with --memory, or begin one with cogstep memory add"
        )
    return MemoryFolder(options.memory, hide=hide)


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


def _forget(options: argparse.Namespace) -> int:
    from interpreters.cli.screen.line_input import read_argument

    text = read_argument(options.text)
    with _open_folder(options) as memory:
        count = memory.forget(text, options.topic)
        return _report_change(memory, text, count, "forgotten")


def _replace(options: argparse.Namespace) -> int:
    from interpreters.cli.screen.line_input import read_argument
    from interpreters.recording.episodes import hide_secrets

    new = read_argument(options.new)
    with _open_folder(options, None if options.keep_secrets else hide_secrets) as memory:
        count = memory.replace(options.text, new, options.topic)
        return _report_change(memory, options.text, count, "replaced")


def _report_change(memory: MemoryFolder, text: str, count: int, done: str) -> int:
    if count:
        err().write_line(f"{done}: {count} note{'' if count == 1 else 's'}")
        return ANSWERED
    nearest = memory.search(text, limit=1, sources=("knowledge",))
    hint = f"; the nearest is in {nearest[0].file}:{nearest[0].line}: {nearest[0].text}" if nearest else ""
    err().write_line(f"no note is exactly this text{hint}")
    return UNANSWERED


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

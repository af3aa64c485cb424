"""``cogstep sessions``: recordings as a collection."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import asdict

from interpreters.cli.errors import ANSWERED, UNANSWERED, CommandError, reason_of
from interpreters.cli.replay import load_engine
from interpreters.cli.terminal import Terminal, json_text, visible
from interpreters.sessions import (
    BadFile,
    Hit,
    SessionInfo,
    Transcript,
    as_data,
    as_markdown,
    as_openai,
    list_sessions,
    prune,
    read_transcript,
    search,
)

TITLE = 48
"""Characters of what the user said first that a list shows."""


def sessions(options: argparse.Namespace) -> int:
    """Do what was asked for and return the exit code."""
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "list": _list,
        "show": _show,
        "search": _search,
        "export": _export,
        "prune": _prune,
    }
    return actions[options.action](options)


def _list(options: argparse.Namespace) -> int:
    found = list(list_sessions(*_places(options)))
    if options.json:
        for one in found:
            _print_data({"bad": isinstance(one, BadFile), **_plain(one)})
        return _code(found)
    good = [one for one in found if isinstance(one, SessionInfo)]
    rows = [("written", "status", "turns", "size", "file", "first words")]
    for one in sorted(good, key=lambda one: -one.changed):
        rows.append(
            (_when(one.changed), one.status, str(one.turns), _size(one.bytes), str(one.path), _title(one.title))
        )
    if good:
        _table(rows, right=(2, 3))
    for one in good:
        for problem in ([one.damage] if one.damage else []) + list(one.warnings):
            _complain(one.path, problem.removeprefix(f"{one.path}, "))
    for bad in found:
        if isinstance(bad, BadFile):
            _complain(bad.path, bad.reason)
    if not found:
        print("no recordings here; make one with `cogstep run ... --record FILE`", file=sys.stderr)
    return _code(found)


def _show(options: argparse.Namespace) -> int:
    transcript = _read(options)
    if options.turn is not None and options.turn not in [turn.number for turn in transcript.turns]:
        numbers = [turn.number for turn in transcript.turns]
        there = f"there are {numbers[0]} to {numbers[-1]}" if numbers else "there are none"
        raise CommandError(f"{options.file}: there is no turn {options.turn}; {there}")
    print(visible(as_markdown(transcript, turn=options.turn)), end="")
    return ANSWERED


def _search(options: argparse.Namespace) -> int:
    found = False
    for one in search(options.text, *_places(options), regex=options.regex, case=options.case):
        if isinstance(one, BadFile):
            if not options.json:
                _complain(one.path, one.reason)
            continue
        found = True
        if options.json:
            _print_data(_plain(one))
        else:
            print(_hit_text(one))
    return ANSWERED if found else UNANSWERED


def _export(options: argparse.Namespace) -> int:
    if options.reasoning and options.format != "openai":
        raise CommandError("--reasoning is for --format openai; the other formats always have it")
    transcript = _read(options)
    if options.format == "json":
        text = json_text(as_data(transcript)) + "\n"
    elif options.format == "markdown":
        text = as_markdown(transcript)
    else:
        text = "".join(f"{json_text(body)}\n" for body in as_openai(transcript, reasoning=options.reasoning))
    content = text.encode("utf-8", "replace")  # half a surrogate pair has no form in UTF-8
    if options.output is None:
        Terminal(sys.stdout).write(content.decode())
        return ANSWERED
    try:
        with Path(options.output).open("xb") as file:
            file.write(content)
    except FileExistsError as error:
        raise CommandError(f"--output {options.output} exists; choose another name") from error
    except OSError as error:
        raise CommandError(f"--output {options.output} can't be written ({reason_of(error)})") from error
    return ANSWERED


def _prune(options: argparse.Namespace) -> int:
    freed = count = 0
    for one in prune(
        *_places(options),
        older=options.older_than,
        keep=options.keep,
        size=options.max_size,
        dry_run=options.dry_run,
    ):
        if not one.kept:
            freed, count = freed + one.bytes, count + 1
        if options.json:
            _print_data(_plain(one))
        else:
            done = f"kept, because {one.kept}" if one.kept else "would go" if options.dry_run else "deleted"
            print(visible(f"{one.path}: {done} ({one.reason}, {_size(one.bytes)})"))
    if not options.json:
        what = f"{count} recording{'' if count == 1 else 's'}, {_size(freed)}"
        print(f"{'to delete' if options.dry_run else 'deleted'}: {what}")
    return ANSWERED


def _read(options: argparse.Namespace) -> Transcript:
    return read_transcript(options.file, load_engine(options.engine))


def _places(options: argparse.Namespace) -> Sequence[str]:
    return options.places or ["."]


def _code(found: Iterable[SessionInfo | BadFile]) -> int:
    bad = any(isinstance(one, BadFile) or one.damage for one in found)
    return UNANSWERED if bad else ANSWERED


def _complain(path: Path, reason: str) -> None:
    print(visible(f"{path}: {' '.join(reason.split())}"), file=sys.stderr)


def _hit_text(hit: Hit) -> str:
    place = f"{hit.path}: record {hit.record}, turn {hit.turn}, {hit.speaker}"
    return visible(f"{place}: {hit.before}{' '.join(hit.found.split())}{hit.after}")


def _plain(value: Any) -> dict[str, Any]:
    return asdict(value, value_serializer=lambda _owner, _field, item: str(item) if isinstance(item, Path) else item)


def _print_data(data: dict[str, Any]) -> None:
    print(json_text(data))


def _when(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):  # a disk may say anything of a file
        return "?"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE else f"{line[: TITLE - 1]}…"


def _table(rows: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]))]
    for row in shown:
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip())

"""``cogstep replay``: a recording, folded again without a model."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from interpreters.cli.arguments import add_command
from interpreters.cli.errors import ANSWERED, UNANSWERED, CommandError
from interpreters.cli.numbers import COUNT
from interpreters.cli.terminal import err, out

if TYPE_CHECKING:
    from interpreters.recording.rehearsing import RehearsalReport
    from interpreters.recording.replaying import ReplayReport

PAGE = """\
Fold a recording again, without a model and without tools, and compare every decision with the recorded one.

--to N prints the state after record N, as JSON. --engine shows what other logic would have decided: it names a function
that makes an engine of the recorded configuration.

examples:
  cogstep replay session.jsonl
  cogstep replay session.jsonl --engine my_logic:make
"""


def add(commands: Any) -> None:
    command = add_command(commands, "replay", "verify a recording without a model", PAGE, replay)
    command.add_argument("file", metavar="FILE", help="a recording made with --record")
    command.add_argument("--json", action="store_true", help="print the result as one JSON object")
    command.add_argument("--to", type=COUNT, metavar="N", help="stop after record N and print the state then, as JSON")
    command.add_argument(
        "--engine", metavar="MODULE:NAME", help="decide with another engine, made of the recorded configuration"
    )


def replay(options: argparse.Namespace) -> int:
    """Compare, say what was found, and return the exit code."""
    from cognition import to_data
    from interpreters.recording.replaying import replay as fold_recording

    report = fold_recording(options.file, load_engine(options.engine), to=options.to)
    if options.to is not None and report.same:
        out().write_json(to_data(report.state))
    elif options.json:
        out().write_json(report_data(report))
    else:
        complain(report)
        out().write(f"{report_text(report)}\n")
    return ANSWERED if report.same else UNANSWERED


def complain(report: ReplayReport | RehearsalReport) -> None:
    """What the user has to know of a recording before its verdict."""
    for warning in report.warnings:
        err().write_line(f"cogstep: warning: {warning}")
    if report.foreign:
        err().write_line(f"cogstep: {report.path} was not recorded by this user ({report.foreign})")


def load_engine(name: str | None) -> Any:
    """What stands under ``module:name``: makes an engine of the recorded configuration.

    Raises:
        CommandError: there is nothing, or something that can't be called.
    """
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    sys.path.insert(0, "")  # as `python -m` does it: what lies here can be named
    try:
        engine = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise CommandError(f"--engine {name} can't be loaded ({error}); write it as module:name") from error
    finally:
        sys.path.remove("")
    if not callable(engine):
        raise CommandError(f"--engine {name} is nothing that makes an engine of a configuration")
    return engine


def report_text(report: ReplayReport) -> str:
    """One line where every decision is the same, else both sides of the first one that is not."""
    from cognition.shown import LONGEST_LINE, shown_name

    path = shown_name(str(report.path), LONGEST_LINE)
    if report.divergence is not None:
        return f"{path}: {report.divergence}"
    counts = ", ".join(
        f"{count} {name}{'' if count == 1 else 's'}"
        for count, name in ((report.records, "record"), (report.turns, "turn"), (report.decisions, "decision"))
    )
    return f"{path}: every decision is the same ({counts})"


def report_data(report: ReplayReport) -> dict[str, Any]:
    """The report as plain data."""
    different = report.divergence
    return {
        "file": str(report.path),
        "session": report.header.session,
        "same": report.same,
        "records": report.records,
        "turns": report.turns,
        "decisions": report.decisions,
        "warnings": list(report.warnings),
        "foreign": report.foreign,
        "divergence": different
        and {
            "record": different.record,
            "line": different.line,
            "field": different.field,
            "recorded": different.recorded,
            "decided": different.decided,
        },
    }

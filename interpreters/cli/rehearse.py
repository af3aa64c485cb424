"""``cogstep rehearse``: a recording's tools, run again and compared."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from interpreters.cli.arguments import add_command
from interpreters.cli.errors import ANSWERED, UNANSWERED
from interpreters.cli.replay import complain
from interpreters.cli.resume import recorded_tools
from interpreters.cli.terminal import out

if TYPE_CHECKING:
    from interpreters.recording.rehearsing import RehearsalReport

PAGE = """\
Run the tools of a recorded session again, live, and show each result that is another one today.

The model's recorded replies lead the session on. Tools work in an empty scratch directory unless --cwd names another.
A recording that you did not write yourself is rehearsed with --foreign only, without the calls that would ask you.

examples:
  cogstep rehearse session.jsonl --cwd .
  cogstep rehearse session.jsonl --cwd . --json
"""


def add(commands: Any) -> None:
    command = add_command(commands, "rehearse", "run a recording's tools again and compare", PAGE, rehearse)
    command.add_argument("file", metavar="FILE", help="a recording made with --record")
    command.add_argument("--cwd", metavar="DIR", help="where the tools look (default: an empty scratch directory)")
    command.add_argument("--foreign", action="store_true", help="also if somebody else recorded it")
    command.add_argument("--json", action="store_true", help="print the result as one JSON object")


def rehearse(options: argparse.Namespace) -> int:
    """Run, compare, say what was found, and return the exit code."""
    from interpreters.cli.session import directory
    from interpreters.recording.rehearsing import rehearse as run_again

    cwd = None if options.cwd is None else directory(options)
    report = run_again(options.file, partial(recorded_tools, options.file), cwd=cwd, foreign=options.foreign)
    if options.json:
        out().write_json(report_data(report))
    else:
        complain(report)
        for difference in report.differences:
            out().write(f"{difference}\n")
        count = f"{report.calls} call{'' if report.calls == 1 else 's'}"
        verdict = "every result is the same" if report.same else f"{len(report.differences)} results differ"
        skipped = f"; {report.skipped} not run, for want of a secret" if report.skipped else ""
        skipped += f"; {report.refused} not run, since they would ask" if report.refused else ""
        out().write_line(f"{report.path}: {verdict} ({count}{skipped})")
    return ANSWERED if report.same else UNANSWERED


def report_data(report: RehearsalReport) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "file": str(report.path),
        "session": report.header.session,
        "same": report.same,
        "calls": report.calls,
        "skipped": report.skipped,
        "refused": report.refused,
        "warnings": list(report.warnings),
        "foreign": report.foreign,
        "differences": [
            {
                "record": item.record,
                "call": item.call.name,
                "arguments": item.call.arguments,
                "recorded": {"status": item.recorded[0], "content": item.recorded[1]},
                "live": {"status": item.live[0], "content": item.live[1]},
            }
            for item in report.differences
        ],
    }

"""``cogstep rehearse``: run the tools of a recording again and compare their results."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED, UNANSWERED
from interpreters.cli.commands.replay import complain, format_count
from interpreters.cli.options.arguments import add_agent_option, add_command, add_mcp_option, add_own_tools_option
from interpreters.cli.options.store_option import add_recording
from interpreters.cli.screen.terminal import out

if TYPE_CHECKING:
    from interpreters.recording.rehearsal import RehearsalReport

PAGE = """\
Run the tools of a recorded session again, live, and show each result that is another one today.

The model's recorded replies lead the session on. Tools work in an empty scratch directory unless --cwd names another;
those that --tools names work wherever they were made to, and really run.
A recording that you did not write yourself is rehearsed with --foreign only, without the calls that would ask you.

examples:
  cogstep rehearse session.jsonl --cwd .
  cogstep rehearse session.jsonl --tools my_tools:TOOLS --json
"""


def add(commands: Any) -> None:
    command = add_command(commands, "rehearse", "run a recording's tools again and compare", PAGE, rehearse)
    add_recording(command)
    command.add_argument("--cwd", metavar="DIR", help="where the tools look (default: an empty scratch directory)")
    add_own_tools_option(command, "MODULE:NAME of the tools that it was recorded with, unless they are cogstep's")
    add_mcp_option(command)
    add_agent_option(command)
    command.add_argument("--foreign", action="store_true", help="also if somebody else recorded it")
    command.add_argument("--json", action="store_true", help="print the result as one JSON object")


def rehearse(options: argparse.Namespace) -> int:
    """Run, compare, print the findings, and return the exit code."""
    from interpreters.cli.options.program_options import program_options
    from interpreters.cli.options.tool_options import directory, read_header, recorded_tools
    from interpreters.cli.options.user_modules import redirect_output
    from interpreters.recording.journal import explain_foreign
    from interpreters.recording.rehearsal import rehearse as run_again

    cwd = None if options.cwd is None else directory(options)
    explain_foreign(options.file, "rehearsed as it is", allowed=options.foreign)  # before a module is imported for it
    tools = partial(recorded_tools, read_header(options.file), options.file, options)
    given: dict[str, Any] = {
        name: value for name, value in program_options(options).items() if name in ("deps", "redact", "policy")
    }
    with redirect_output():
        report = run_again(options.file, tools, cwd=cwd, foreign=options.foreign, **given)
    if options.json:
        out().write_json(report_data(report))
    else:
        complain(report)
        for difference in report.differences:
            out().write(f"{difference}\n")
        count, different = format_count(report.calls, "call"), len(report.differences)
        differ = f"{format_count(different, 'result')} {'differs' if different == 1 else 'differ'}"
        verdict = "every result is the same" if report.same else differ
        skipped = f"; {report.skipped} not run, for want of a secret" if report.skipped else ""
        skipped += f"; {report.refused} not run, since they would ask" if report.refused else ""
        out().write_line(f"{report.path}: {verdict} ({count}{skipped})")
    return ANSWERED if report.same else UNANSWERED


def report_data(report: RehearsalReport) -> dict[str, Any]:
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

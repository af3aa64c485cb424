"""``cogstep doctor``: check the installation, and recommend packages to install."""

from __future__ import annotations

import argparse
from typing import Any

from interpreters.cli._errors import ANSWERED, UNANSWERED
from interpreters.cli.options.arguments import add_command
from interpreters.cli.options.values import COUNT
from interpreters.cli.screen.terminal import StatusLine, err, out

PAGE = """\
Say what is installed, which backends work on this machine, and what to install.

Each installed backend loads the shipped model in a process of its own and answers one question with it.

examples:
  cogstep doctor
  cogstep doctor --json
"""


def add(commands: Any) -> None:
    command = add_command(commands, "doctor", "say what works on this machine and what to install", PAGE, doctor)
    command.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    command.add_argument(
        "--tools",
        metavar="FILE",
        help="look at this list of tools instead (JSON, as MCP's tools/list or OpenAI has it)",
    )
    command.add_argument(
        "--seconds",
        type=COUNT,
        default=120,
        metavar="N",
        help="how long one backend may take to load the model and answer (default: 120)",
    )


def doctor(options: argparse.Namespace) -> int:
    """Examine the machine, print the findings, and return the exit code."""
    if options.tools is not None:
        from interpreters.cli.reports.tool_report import doctor_tools

        return doctor_tools(options.tools, as_json=options.json)
    from attrs import asdict

    from interpreters.cli.reports.environment_report import examine, report_lines

    status = StatusLine(err())
    try:
        report = examine(options.seconds, status)
    finally:
        status.clear()
    if options.json:
        out().write_json({"healthy": report.healthy, **asdict(report)}, indent=2)
    else:
        out().write_lines(report_lines(report))
    return ANSWERED if report.healthy else UNANSWERED

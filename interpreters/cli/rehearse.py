"""``cogstep rehearse``: a recording's tools, run again and compared."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from tempfile import TemporaryDirectory
from typing import Any

from interpreters.cli.errors import ANSWERED, UNANSWERED
from interpreters.cli.resume import recorded_tools
from interpreters.rehearsing import RehearsalReport
from interpreters.rehearsing import rehearse as run_again


def rehearse(options: argparse.Namespace) -> int:
    """Run, compare, say what was found, and return the exit code."""
    with contextlib.ExitStack() as stack:
        if options.cwd is None:  # what tools do must not touch what is here, unless it is asked for
            options.cwd = stack.enter_context(TemporaryDirectory(prefix="cogstep-rehearsal-"))
        report = run_again(options.file, recorded_tools(options))
    if options.json:
        print(json.dumps(report_data(report), ensure_ascii=False))
    else:
        for warning in report.warnings:
            print(f"cogstep: warning: {warning}", file=sys.stderr)
        for difference in report.differences:
            print(difference)
        count = f"{report.calls} call{'' if report.calls == 1 else 's'}"
        verdict = "every result is the same" if report.same else f"{len(report.differences)} results differ"
        skipped = f"; {report.skipped} not run, for want of a secret" if report.skipped else ""
        print(f"{report.path}: {verdict} ({count}{skipped})")
    return ANSWERED if report.same else UNANSWERED


def report_data(report: RehearsalReport) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "file": str(report.path),
        "session": report.header.session,
        "same": report.same,
        "calls": report.calls,
        "skipped": report.skipped,
        "warnings": list(report.warnings),
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

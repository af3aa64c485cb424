"""``cogstep replay``: a recording, folded again without a model."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from interpreters.cli.errors import ANSWERED, UNANSWERED
from interpreters.replaying import replay as fold_recording

if TYPE_CHECKING:
    from interpreters.replaying import ReplayReport


def replay(options: argparse.Namespace) -> int:
    """Compare, say what was found, and return the exit code."""
    report = fold_recording(options.file)
    if options.json:
        print(json.dumps(report_data(report), ensure_ascii=False))
    else:
        for warning in report.warnings:
            print(f"cogstep: warning: {warning}", file=sys.stderr)
        print(report_text(report))
    return ANSWERED if report.same else UNANSWERED


def report_text(report: ReplayReport) -> str:
    """One line where every decision is the same, else both sides of the first one that is not."""
    if report.divergence is not None:
        return f"{report.path}: {report.divergence}"
    counts = ", ".join(
        f"{count} {name}{'' if count == 1 else 's'}"
        for count, name in ((report.records, "record"), (report.turns, "turn"), (report.decisions, "decision"))
    )
    return f"{report.path}: every decision is the same ({counts})"


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
        "divergence": different
        and {
            "record": different.record,
            "line": different.line,
            "field": different.field,
            "recorded": different.recorded,
            "decided": different.decided,
        },
    }

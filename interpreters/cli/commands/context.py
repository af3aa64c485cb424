"""``cogstep context``: show what each request of a recorded session contained, and why."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED, UNANSWERED, CommandError
from interpreters.cli.commands.replay import complain, load_engine
from interpreters.cli.options.arguments import add_command, add_engine_option
from interpreters.cli.options.store_option import add_recording
from interpreters.cli.options.values import checked
from interpreters.cli.screen.terminal import err, out

if TYPE_CHECKING:
    from interpreters.recording.recorded_requests import RecordedRequest, RecordedRequests

PAGE = """\
Show what the model was shown in a recorded session, and why, without a model and without tools.

Each request is made again from the recording: how much of its budget it has used, what stands before the messages,
and of each message its size and whether it was shown whole, shortened or left out. Without --step there is a table of
all requests, and below it the last one. N is the number of a request, or a step: 3.2 is the second of turn 3. Sizes
are in tokens: at most so many where the session's model could count them, else estimates; `measured` is what the model
counted, and `reused` what of it no longer had to be computed.

--prompt prints the text that the model was given, as the chat template of --model writes it; without --model, in a
plain form that no model was given. --diff shows what changed from one request to another, and how much of the first
one's beginning the other one keeps, which is what can be reused.

examples:
  cogstep context session.jsonl --step 3.2
  cogstep context session.jsonl --diff 3.1 3.2
"""

NAME = re.compile(r"[1-9][0-9]{0,17}(\.[0-9]{1,18}(\.[0-9]{1,18})?)?|last")
STEP = checked(str, "a number from 1, TURN.STEP such as 3.2, or last", NAME.fullmatch)
"""The name of a request, as in ``recorded_requests.find_requests``."""

SHIPPED = ""
"""The value of ``--model`` without a SPEC: the model that ships."""

OTHERWISE = (
    "this version of cogstep asks the model something else than was recorded from record {record} on, so that what is "
    "shown from there on is not what the model was shown; `cogstep replay` shows the difference"
)


def add(commands: Any) -> None:
    command = add_command(commands, "context", "show what the model was shown at each step", PAGE, context)
    add_recording(command)
    command.add_argument("--step", type=STEP, metavar="N", help="this request: its number, TURN.STEP, or last")
    command.add_argument(
        "--diff", type=STEP, nargs=2, metavar=("N", "M"), help="what changed between these two requests"
    )
    command.add_argument(
        "--prompt", action="store_true", help="print the text that the model was given (default: last)"
    )
    command.add_argument(
        "--model",
        nargs="?",
        const=SHIPPED,
        metavar="SPEC",
        help="with --prompt: whose chat template writes it, as `cogstep format` takes it; without SPEC the model that "
        "ships",
    )
    command.add_argument("--json", action="store_true", help="print JSON: one object, or of all requests one a line")
    add_engine_option(command)


def context(options: argparse.Namespace) -> int:
    """Fold the recording, show the requested part, and return the exit code."""
    from interpreters.recording.recorded_requests import RecordedRequests

    if options.diff is not None and (options.step is not None or options.prompt):
        raise CommandError("--diff compares two requests by itself; leave --step and --prompt out")
    if options.model is not None and not options.prompt:
        raise CommandError("--model is for --prompt: it says whose chat template writes it")
    with RecordedRequests(options.file, load_engine(options.engine)) as requests:
        shown = _show_all if options.diff is None and options.step is None and not options.prompt else _show_chosen
        last = shown(requests, options)
        complain(requests)
        if requests.diverged and last >= requests.diverged:
            err().write_line(f"cogstep: {OTHERWISE.format(record=requests.diverged)}")
            return UNANSWERED
        return ANSWERED


def _show_all(requests: RecordedRequests, options: argparse.Namespace) -> int:
    """Show all requests, one line each, and the last one in full. Returns the number of the last record shown."""
    from interpreters.cli.reports.context_report import request_lines, row_cells, row_data, table_lines
    from interpreters.recording.context_report import report_of

    rows: list[Any] = []  # a few words of each, which is little beside the conversation itself
    newest: RecordedRequest | None = None
    for request in requests:
        config = requests.config
        rows.append(row_data(request, config) if options.json else row_cells(request, config, newest))
        newest = request
    if options.json:
        for row in rows:
            out().write_json(row)
    elif newest is None:
        err().write_line(f"{requests.path}: the model was never asked")
    else:
        out().write_lines(table_lines(rows))
        out().write("\n")
        out().write_lines(request_lines(report_of(newest, requests.config), newest.number))
    return requests.records


def _show_chosen(requests: RecordedRequests, options: argparse.Namespace) -> int:
    """Show one request, its prompt, or the difference between two requests. Returns the number of the last record
    shown.
    """
    from interpreters.cli.reports import context_report as shown
    from interpreters.recording.context_report import changes_between, report_of
    from interpreters.recording.recorded_requests import find_requests

    found = find_requests(requests, *(options.diff or [options.step or "last"]))
    data: dict[str, Any] = {"file": requests.path, "session": requests.session}
    if options.diff is not None:
        changes = changes_between(found[0], found[1], requests.config)
        data |= shown.changes_data(changes)
        lines = shown.change_lines(changes)
    else:
        report = report_of(found[0], requests.config)
        data |= {**shown.report_data(report), "messages": shown.messages_data(report.messages)}
        lines = shown.request_lines(report, requests.count)
    text, template, notes = shown.prompt_of(found[0], options.model) if options.prompt else ("", None, [])
    if options.json:
        prompt = {"prompt": {"text": text, "template": template, "notes": notes}} if options.prompt else {}
        out().write_json({**data, **prompt})
    elif options.prompt:
        for note in notes:
            err().write_line(f"cogstep: {note}", "warning")
        out().write(text if text.endswith("\n") else f"{text}\n")
    else:
        out().write_lines(lines)
    return max(request.record for request in found)

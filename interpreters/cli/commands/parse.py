"""``cogstep parse``: show text, reasoning and calls in a saved output of a model."""

from __future__ import annotations

import argparse
from typing import Any

from interpreters.cli._errors import ANSWERED, UNANSWERED
from interpreters.cli.options.arguments import add_command
from interpreters.cli.screen.terminal import out

PAGE = """\
Read a saved output of a model: its text, its reasoning and its calls, what was mended, and what can't be read and why.

FORMAT is a written format by name (hermes, llama3, gpt_oss, ...), the model or template to derive it from (as for
`cogstep format`), a JSON file that `cogstep format --json` wrote, or nothing for the model that ships.
The output has to be saved with its markers, as the model wrote it. --tools names the tools that were offered: some
formats write 5 and "5" alike, and the tool's JSON Schema says which it is.

examples:
  cogstep parse output.txt --format hermes
  cogstep parse output.txt --format ./qwen3-4b.gguf --tools tools.json --json
"""


def add(commands: Any) -> None:
    command = add_command(commands, "parse", "read a saved output of a model", PAGE, parse)
    command.add_argument("file", metavar="FILE", help="the output; - reads it from stdin")
    command.add_argument("--format", metavar="FORMAT", help="how it is written (default: as the model that ships does)")
    command.add_argument("--tools", metavar="FILE", help="JSON: the tools that were offered, as in an OpenAI request")
    command.add_argument(
        "--finish-reason",
        choices=("stop", "length", "cancelled", "error"),
        default="stop",
        help="how the output ended: a call that was cut by the token limit is never completed (default: stop)",
    )
    command.add_argument("--json", action="store_true", help="print what was read as one JSON object")


def parse(options: argparse.Namespace) -> int:
    """Parse, print the result, and return the exit code."""
    from interpreters.cli.reports.parse_report import (
        find_format,
        output_data,
        output_lines,
        parse_text,
        read_text,
        read_tools,
    )

    spec = find_format(options.format)
    tools = None if options.tools is None else read_tools(options.tools)
    parsed = parse_text(spec, read_text(options.file), tools, options.finish_reason)
    if options.json:
        out().write_json(output_data(parsed))
    else:
        out().write_lines(output_lines(parsed), whole=True)
    return ANSWERED if parsed.readable else UNANSWERED

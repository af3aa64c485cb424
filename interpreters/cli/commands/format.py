"""``cogstep format``: show how a model writes reasoning and calls, the evidence for it, and the features of its
template.
"""

from __future__ import annotations

import argparse
from typing import Any

from interpreters.cli._errors import ANSWERED
from interpreters.cli.options.arguments import add_command
from interpreters.cli.screen.terminal import out

PAGE = """\
Show how a model writes its reasoning and its tool calls, how each part was found, and what its template can do.

MODEL is a GGUF file, a directory with a model or its tokenizer, hf:owner/repo[@rev][/file], a chat template (.jinja),
or nothing for the model that ships. Only the template is read: no weights are loaded, no backend is needed.
The format is found by rendering probes with the template and comparing what it writes; what does not read back right
is not believed, and a warning says so. A sample conversation shows what the model is given.

examples:
  cogstep format
  cogstep format ./qwen3-4b.gguf --json
"""


def add(commands: Any) -> None:
    command = add_command(commands, "format", "show how a model writes its calls", PAGE, show_format)
    command.add_argument("model", metavar="MODEL", nargs="?", help="a model or a chat template (default: what ships)")
    command.add_argument("--json", action="store_true", help="print all of it as one JSON object")


def show_format(options: argparse.Namespace) -> int:
    """Examine a template, print the findings, and return the exit code."""
    from interpreters.cli.reports.format_report import NO_TEMPLATE, format_data, format_lines, sample_of
    from runtime.templates.files import find_template, open_template
    from runtime.templates.limits import one_allowance

    file = find_template(options.model)
    with one_allowance():
        template = open_template(file)
        found = (file, template, sample_of(template), (NO_TEMPLATE,) if file.source is None else ())
    if options.json:
        out().write_json(format_data(*found), indent=2)
    else:
        out().write_lines(format_lines(*found), whole=True)
    return ANSWERED

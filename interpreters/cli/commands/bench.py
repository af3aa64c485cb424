"""``cogstep bench``: measure speed and memory of a model on this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED
from interpreters.cli.options.arguments import add_command
from interpreters.cli.options.model_options import add_model_options
from interpreters.cli.options.values import COUNT, REPLY
from interpreters.cli.screen.terminal import StatusLine, err, out
from interpreters.cli.session.interrupts import Interrupts

if TYPE_CHECKING:
    from interpreters.cli.reports.measurements import Figure

PAGE = """\
Measure how fast a model runs on this machine, and what it takes.

Prefill is what a prompt costs before the first token, decode what each token costs then. A cold prompt is new to the
cache; the warm one is the next message of the same conversation, as in every step of an agent. Sessions are replies at
the same time on one model. Times are medians; other work on the machine shows in them.

examples:
  cogstep bench
  cogstep bench --model ./qwen3-4b.gguf --sessions 4 --json
"""


def add(commands: Any) -> None:
    own = add_command(commands, "bench", "measure how fast a model runs here", PAGE, bench)
    add_model_options(own)
    own.add_argument("--sessions", type=COUNT, default=8, metavar="N", help="replies at the same time (default: 8)")
    own.add_argument("--prompt", type=COUNT, default=512, metavar="N", help="tokens of the prompt (default: 512)")
    own.add_argument("--tokens", type=REPLY, default=64, metavar="N", help="tokens of a reply, from 2 (default: 64)")
    own.add_argument("--rounds", type=COUNT, default=3, metavar="N", help="of each measurement (default: 3)")
    own.add_argument("--json", action="store_true", help="print the figures as one JSON object")


def bench(options: argparse.Namespace) -> int:
    """Measure, print each figure as soon as it is known, and return the exit code."""
    from attrs import asdict

    from interpreters.cli.reports.measurements import measure

    status = StatusLine(err())

    def show(figure: Figure) -> None:
        status.clear()
        if not options.json:
            out().write_line(f"{figure.name:<18} {figure.value:>15}   {figure.note}".rstrip())

    with Interrupts(restore=err().is_terminal).install():
        try:
            report = measure(options, show, status)
        finally:
            status.clear()
    if options.json:
        out().write_json(asdict(report), indent=2)
    return ANSWERED

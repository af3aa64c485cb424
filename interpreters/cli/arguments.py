"""What commands share of the command line: the parser, checked values, and options that several commands take.

Loads nothing that ``--help`` does not need; each command declares its own options beside what it does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from interpreters.cli.errors import UNUSABLE
from interpreters.cli.model_options import add_model_options
from interpreters.cli.numbers import COUNT, SEED, TEMPERATURE
from interpreters.cli.terminal import err, out

EXIT_CODES = """\
exit codes:
  0    answered; the recording agrees; a backend works; every call was read
  1    the turn failed or hit a limit; the recording disagrees; no backend works; a call can't be read
  2    wrong usage, or something about this machine to put right first: one line on stderr says what
  130  cancelled with Ctrl-C (141: the reader of the output has gone, 143: ended by SIGTERM)
"""

OUTPUT = """\
output:
  stdout carries what the model says and nothing else, so `cogstep run ... > answer.txt` is the answer.
  stderr carries the rest: tool calls (→) and results (←), warnings, and on a terminal the thinking, dimmed,
  a progress bar and a last line with usage and time. Colour only on a terminal; NO_COLOR and TERM=dumb are honoured.
  With --json stdout carries one event a line instead, and stderr only warnings and errors.
"""


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line, and without guessing at abbreviated options."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)
        self.color = False  # from Python 3.14 on help is coloured, and the gate would show the sequences

    def _print_message(self, message: str, file: Any = None) -> None:
        """As argparse does it, but a disk that is full or a pipe that is closed is no secret. It is all our own."""
        if message:
            (out() if file is sys.stdout else err()).steer(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it, but what a command does not know is its own error: its help has the options."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        err().write_line(f"{self.prog}: {message} (see {self.prog} --help)")
        raise SystemExit(UNUSABLE)


class Version(argparse.Action):
    """Prints the version. An action of our own, because looking it up costs more than all other parsing together."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        out().steer(f"cogstep {version()}\n")
        parser.exit()


def version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version as installed

    try:
        return installed("cogstep")
    except PackageNotFoundError:
        return "(run from its source, not installed)"


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names with commas between them, not {text!r}")
    return found


def add_command(
    commands: Any, name: str, summary: str, page: str, act: Callable[[argparse.Namespace], int] | None, *more: str
) -> Parser:
    """Add a command to what ``add_subparsers`` gave.

    Args:
        commands: where it is added.
        name: as it is typed.
        summary: stands in the list of commands.
        page: its help, with two examples.
        act: carries it out and returns the exit code; None for one that only has commands of its own.
        more: stands below its options, above the exit codes.
    """
    command: Parser = commands.add_parser(name, help=summary, description=page, epilog="\n".join((*more, EXIT_CODES)))
    command.set_defaults(act=act)
    return command


def add_session_options(command: Parser) -> None:
    """Of commands that begin a session of their own."""
    model = command.add_argument_group("model")
    add_model_options(model)
    model.add_argument(
        "--temperature", type=TEMPERATURE, metavar="T", help="0 always takes the likeliest token (default: 0)"
    )
    model.add_argument("--seed", type=SEED, metavar="N", help="makes sampling repeatable on this machine")
    model.add_argument("--max-tokens", type=COUNT, metavar="N", help="longest reply, thinking included (default: 512)")
    model.add_argument("--no-thinking", action="store_true", help="ask the model not to reason first, where it can")

    agent = command.add_argument_group("agent")
    agent.add_argument("--system", metavar="TEXT", help="a system prompt (default: none)")
    agent.add_argument("--max-steps", type=COUNT, metavar="N", help="model replies in one turn (default: 12)")
    add_tool_options(agent, "default: all; see /tools")
    add_place_options(agent)

    output = command.add_argument_group("output")
    output.add_argument("--record", metavar="FILE", help="record the session for `cogstep replay`; FILE must not exist")
    add_secrets_option(output)
    add_output_options(output)


def add_resumed_options(command: Parser) -> None:
    """Of commands that begin with a recording: what it says itself can't be chosen again."""
    add_secrets_option(command)
    add_model_options(command.add_argument_group("model"))
    add_place_options(command.add_argument_group("agent"))
    add_output_options(command.add_argument_group("output"))


def add_tool_options(group: Any, default: str) -> None:
    tools = group.add_mutually_exclusive_group()
    tools.add_argument("--tools", type=names, metavar="NAME,...", help=f"only these tools ({default})")
    tools.add_argument("--no-tools", action="store_true", help="no tools at all")


def add_secrets_option(group: Any) -> None:
    group.add_argument(
        "--keep-secrets", action="store_true", help="record API keys, passwords and tokens as they are, not hidden"
    )


def add_place_options(group: Any) -> None:
    group.add_argument("--cwd", metavar="DIR", help="the directory the file tools are kept inside (default: this one)")
    group.add_argument("--yes", action="store_true", help="approve every call that would ask for approval")


def add_output_options(group: Any) -> None:
    group.add_argument("--json", action="store_true", help="print one event a line, as JSON, instead of text")
    group.add_argument(
        "-v", "--verbose", action="store_true", help="whole tool results, thinking, usage and time, terminal or not"
    )

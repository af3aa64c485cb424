"""Shared parts of the command line: the parser, checked values, and options of several commands.

Imports only what ``--help`` needs. Each command declares its own options in its own module.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from interpreters.cli._errors import UNUSABLE, without_passwords
from interpreters.cli.options._word_order import options_first
from interpreters.cli.options.model_options import add_fallback_option, add_model_options
from interpreters.cli.options.store_option import add_store_option
from interpreters.cli.options.values import COUNT, FACTOR, PART, SEED, SHARE, TEMPERATURE, TURN, checked
from interpreters.cli.screen.terminal import err, out

if TYPE_CHECKING:
    from cognition.parsing.text_protocol import TextProtocol
    from cognition.values.features import Feature, Mode, Vocabulary

EXIT_CODES = """\
exit codes:
  0    answered; the recording agrees; a backend works; every call was read
  1    the turn failed, hit a limit or waits for answers; the recording disagrees; no backend works, or a call can't be
       read
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


PROTOCOLS: tuple[TextProtocol, ...] = ("native", "short_keys", "tool_tags")
"""As in ``cognition.parsing.text_protocol``; repeated here so that ``--help`` does not import the core."""
FEATURES: tuple[Feature, ...] = ("questions", "tasks", "plan", "memory", "workers")
VOCABULARIES: tuple[Vocabulary, ...] = ("cogstep", "claude")
MODES: tuple[Mode, ...] = ("default", "careful", "auto", "plan", "acceptEdits", "bypassPermissions")
"""As in ``cognition.values.features``."""
SMALL = "the model that ships"
APPROVALS = ("ask", "all", "none", "later")
"""The choices for ``--approve``, besides a function of the user."""
APPROVAL = checked(str, f"{', '.join(APPROVALS)} or MODULE:NAME", lambda text: text in APPROVALS or ":" in text)


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors and without abbreviated options."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)
        self.color = False  # from Python 3.14 on help is coloured, and the gate would show the sequences

    def _print_message(self, message: str, file: Any = None) -> None:
        """Like argparse, but a full disk or a closed pipe raises. The text is our own and needs no escaping."""
        if message:
            (out() if file is sys.stdout else err()).steer(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Like argparse, but options and words may come in any order, and an unknown argument is an error of the
        subcommand, whose help lists the options.
        """
        if args is not None and self._subparsers is None:
            args = options_first(self, args)
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        err().write_line(f"{self.prog}: {without_passwords(message)} (see {self.prog} --help)")
        raise SystemExit(UNUSABLE)


class PrintVersion(argparse.Action):
    """Prints the version. Not argparse's own action, because the lookup costs more than all other parsing together."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        out().steer(f"cogstep {version()}\n")
        parser.exit()


def version() -> str:
    """Return the version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version as installed

    try:
        return installed("cogstep")
    except PackageNotFoundError:
        return "(run from its source, not installed)"


def names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names with commas between them, not {text!r}")
    return found


def features(text: str) -> tuple[str, ...]:
    found = names(text)
    for name in found:
        if name not in FEATURES:
            raise argparse.ArgumentTypeError(f"there is no feature {name!r}; there are {', '.join(FEATURES)}")
    return found


def add_command(
    commands: Any, name: str, summary: str, page: str, act: Callable[[argparse.Namespace], int] | None, *more: str
) -> Parser:
    """Add a command to the result of ``add_subparsers``.

    Args:
        commands: the result of ``add_subparsers``.
        name: the command's name.
        summary: its line in the list of commands.
        page: its help, with two examples.
        act: carries it out and returns the exit code; None for a command that only has subcommands.
        more: texts below its options, above the exit codes.
    """
    command: Parser = commands.add_parser(name, help=summary, description=page, epilog="\n".join((*more, EXIT_CODES)))
    command.set_defaults(act=act)
    return command


def add_group(commands: Any, name: str, summary: str, page: str) -> Any:
    """Add a command that only has subcommands. Returns the object to add these to."""
    group = add_command(commands, name, summary, page, None)
    return group.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)


def add_session_options(command: Parser) -> None:
    """Add the options of commands that start a new session."""
    model = command.add_argument_group("model")
    add_model_options(model)
    add_fallback_option(model)
    add_sampling_options(model)

    agent = command.add_argument_group("agent")
    agent.add_argument("--system", metavar="TEXT", help="a system prompt (default: none)")
    agent.add_argument("--max-steps", type=COUNT, metavar="N", help="model replies in one turn (default: 12)")
    agent.add_argument(
        "--compact-at",
        type=SHARE,
        metavar="SHARE",
        help="how full a prompt may be before older messages are summarised; 0: never (default: 0.75; "
        f"never with {SMALL}, which can't write a summary)",
    )
    add_tool_options(agent, f"default: all, and standard for {SMALL} and with --agent")
    add_mcp_option(agent)
    usual = f"none; in a chat where all is offered: {', '.join(FEATURES[:3])}"
    add_feature_options(agent, usual, f"{VOCABULARIES[0]}; {VOCABULARIES[1]} where all is offered")
    add_mode_option(agent, "default")
    add_place_options(agent)

    output = command.add_argument_group("output")
    output.add_argument("--record", metavar="FILE", help="record the session for `cogstep replay`; FILE must not exist")
    add_store_option(output, "record it under the name FILE")
    add_secrets_option(output)
    add_output_options(output)


def add_resumed_options(command: Parser) -> None:
    """Add the options of commands that continue from a recording."""
    add_secrets_option(command)
    add_place_options(command.add_argument_group("agent"))
    add_output_options(command.add_argument_group("output"))


OWN = "the model's own, else "
"""Begins a default in the help text that comes from the model's files."""


def add_sampling_options(group: Any, usual: str = "") -> None:
    """Add the sampling options. ``usual`` replaces the defaults in the help text, for commands with other defaults."""

    def add(name: str, kind: Callable[[str], Any], metavar: str, text: str, default: str) -> None:
        group.add_argument(name, type=kind, metavar=metavar, help=f"{text} (default: {usual or default})")

    add("--temperature", TEMPERATURE, "T", "0 always takes the likeliest token", OWN + "0")
    add("--top-p", PART, "P", "only the likeliest tokens that reach this probability together", OWN + "1")
    add("--top-k", TURN, "N", "only the N likeliest tokens; 0 is off", OWN + "0")
    add("--min-p", SHARE, "P", "only tokens of this share of the likeliest one's probability", OWN + "0")
    add("--repeat-penalty", FACTOR, "X", "makes the latest 64 tokens less likely; 1 is off", OWN + "1")
    add("--seed", SEED, "N", "makes sampling repeatable on this machine", "drawn")
    add("--max-tokens", COUNT, "N", "longest reply, thinking included", "what the context has room for")
    group.add_argument(
        "--thinking",
        action=argparse.BooleanOptionalAction,
        help=f"have the model reason first or not, where it can (default: {usual or 'as its template says'})",
    )
    group.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        help="how the model writes calls: natively, or as text that it is told to write, for models whose template has "
        f"no place for tools (default: {usual or 'natively, where it has'})",
    )


def add_feature_options(group: Any, usual: str, usual_names: str) -> None:
    group.add_argument(
        "--features",
        type=features,
        metavar="NAME,...",
        help=f"what the model may do besides: {', '.join(FEATURES)} (default: {usual})",
    )
    add_names_option(group, usual_names)
    group.add_argument("--ask", action="store_true", help="let the model ask you questions; like --features questions")
    add_notes_option(group)


def add_names_option(group: Any, usual: str) -> None:
    group.add_argument(
        "--names",
        choices=VOCABULARIES,
        help="what the tools of the features are called: by cogstep's own names, or as in Claude Code "
        f"(TodoWrite, AskUserQuestion, Task, EnterPlanMode, ExitPlanMode) (default: {usual})",
    )


def add_notes_option(group: Any) -> None:
    notes = group.add_mutually_exclusive_group()
    notes.add_argument(
        "--memory",
        metavar="FOLDER",
        help="a folder of Markdown files in which the model finds and keeps notes (the feature memory), and what "
        "happened is written down; see cogstep memory",
    )
    notes.add_argument("--notes", metavar="FILE", help="the same with one SQLite file, for notes alone")
    group.add_argument("--workspace", dest="context_files", help=argparse.SUPPRESS)  # its name before
    group.add_argument(
        "--context-files",
        metavar="DIR",
        help="a directory of which BOOTSTRAP.md, AGENTS.md, MEMORY.md and daily notes (memory/2026-11-25.md) are read "
        "anew for each message: what the model is told beside the conversation",
    )


def add_mode_option(group: Any, usual: str) -> None:
    group.add_argument(
        "--mode",
        choices=MODES,
        help="careful: whatever changes something asks; auto: nothing asks; plan: only reading; acceptEdits: what "
        "neither reads nor edits asks; bypassPermissions: what no rule asks about runs "
        f"(default: {usual}; /mode changes it in a chat)",
    )


def add_tool_options(group: Any, default: str) -> None:
    tools = group.add_mutually_exclusive_group()
    add_own_tools_option(
        tools,
        "only these tools: names; standard (calculate, current_time, Read, Glob, Grep), files (which read, search and "
        "edit), shell (Bash, BashOutput, KillShell), all; or MODULE:NAME for your own; what changes something asks "
        f"({default})",
    )
    tools.add_argument("--no-tools", action="store_true", help="no tools at all")


def add_own_tools_option(group: Any, text: str) -> None:
    """Add the option for the user's own tools. The module is looked up in the working directory first."""
    group.add_argument("--tools", type=names, action="extend", metavar="NAME,...", help=f"{text}; may be repeated")


def add_mcp_option(group: Any) -> None:
    group.add_argument(
        "--mcp",
        action="append",
        metavar="SERVER",
        help="the tools of an MCP server too, each call of which asks: NAME=COMMAND, NAME=http://..., a JSON file of "
        "servers, or MODULE:NAME for a list of MCPServer; may be repeated (see cogstep mcp)",
    )


def add_secrets_option(group: Any) -> None:
    group.add_argument(
        "--keep-secrets", action="store_true", help="record API keys, passwords and tokens as they are, not hidden"
    )


def add_agent_option(group: Any) -> None:
    group.add_argument(
        "--agent",
        metavar="MODULE:NAME",
        help="a dict of options of Agent, or a function that gives one: tools, system, hooks, deps, policy and more",
    )


def add_place_options(group: Any) -> None:
    add_agent_option(group)
    group.add_argument("--cwd", metavar="DIR", help="the directory the file tools are kept inside (default: this one)")
    asked = group.add_mutually_exclusive_group()
    asked.add_argument(
        "--approve",
        type=APPROVAL,
        metavar="WHO",
        help="who answers for calls that ask: ask (you, at the terminal), all or none (without asking), later (the "
        "turn waits in the recording), or a function MODULE:NAME (default: ask, and none where there is no terminal)",
    )
    asked.add_argument("--yes", action="store_const", const="all", dest="approve", help="like --approve all")


def add_output_options(group: Any) -> None:
    group.add_argument("--json", action="store_true", help="print one event a line, as JSON, instead of text")
    group.add_argument(
        "-v", "--verbose", action="store_true", help="whole tool results, thinking, usage and time, terminal or not"
    )


def add_engine_option(command: Any) -> None:
    """Add ``--engine``, for commands that fold a recording to show its content."""
    command.add_argument(
        "--engine", metavar="MODULE:NAME", help="for sessions of an engine that only its program knows; makes it"
    )

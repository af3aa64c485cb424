"""What can be typed: commands, options, their help, and the checks that need nothing but the value itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from interpreters.cli.errors import UNUSABLE, one_line
from interpreters.cli.model_options import add_model_options
from interpreters.cli.numbers import COUNT, REPLY, SEED, TEMPERATURE, TURN
from interpreters.cli.sessions_options import add_sessions

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

MAIN = """\
Agents on local language models.

A small model ships with cogstep, so the first example needs nothing else but one backend
(pip install 'cogstep[mlx]' or 'cogstep[llama]'); the second says what works on this machine.

examples:
  cogstep run "What is 17 * 23?"
  cogstep doctor
"""

RUN = """\
Ask one question: the model answers, calling tools where it needs them.

examples:
  cogstep run "What is 17 * 23?" --record session.jsonl
  git diff | cogstep run - --model hf:Qwen/Qwen3-0.6B-GGUF --system "Write a commit message." --no-tools
"""

CHAT = """\
Talk with a model; it remembers the conversation until /reset or the end.

A trailing backslash continues a line, and a line of three double quotes opens and closes a block of lines.
/help, /reset, /tools and /quit are commands; end of input leaves. Ctrl-C cancels the answer under way and keeps the
conversation; a second one leaves at once.

examples:
  cogstep chat
  cogstep chat --model ./qwen3-4b.gguf --temperature 0.6 --record monday.jsonl
"""

REPLAY = """\
Fold a recording again, without a model and without tools, and compare every decision with the recorded one.

--to N prints the state after record N, as JSON. --engine shows what other logic would have decided: it names a function
that makes an engine of the recorded configuration.

examples:
  cogstep replay session.jsonl
  cogstep replay session.jsonl --engine my_logic:make
"""

RESUME = """\
Go on with a recorded session in its own recording, also after a crash.

A turn that was interrupted is carried to its end: the model is asked again, calls of read-only tools run again, and of
any other call that was at work the model is told that it may have happened. Then PROMPT is asked, if there is one.

examples:
  cogstep resume session.jsonl
  cogstep resume session.jsonl "And times two?"
"""

FORK = """\
Begin a new session where a recorded one stood after a turn, with another model, prompt, tools or question.

What is not given is as recorded; --turn 0 is where it began. The recording stays as it is, and a new one says where it
comes from.

examples:
  cogstep fork session.jsonl "And times two?" --turn 1 --record other.jsonl
  cogstep fork session.jsonl "And times two?" --model ./qwen3-4b.gguf --system "Be brief." --no-tools
"""

REHEARSE = """\
Run the tools of a recorded session again, live, and show each result that is another one today.

The model's recorded replies lead the session on. Tools work in an empty scratch directory unless --cwd names another.

examples:
  cogstep rehearse session.jsonl --cwd .
  cogstep rehearse session.jsonl --cwd . --json
"""

DOCTOR = """\
Say what is installed, which backends work on this machine, and what to install.

Each installed backend loads the shipped model in a process of its own and answers one question with it.

examples:
  cogstep doctor
  cogstep doctor --json
"""

FORMAT = """\
Show how a model writes its reasoning and its tool calls, how each part was found, and what its template can do.

MODEL is a GGUF file, a directory with a model or its tokenizer, hf:owner/repo[/file], a chat template (.jinja), or
nothing for the model that ships. Only the template is read: no weights are loaded, no backend is needed.
The format is found by rendering probes with the template and comparing what it writes; what does not read back right
is not believed, and a warning says so. A sample conversation shows what the model is given.

examples:
  cogstep format
  cogstep format ./qwen3-4b.gguf --json
"""

PARSE = """\
Read a saved output of a model: its text, its reasoning and its calls, what was mended, and what can't be read and why.

FORMAT is a written format by name (hermes, llama3, gpt_oss, ...), the model or template to derive it from (as for
`cogstep format`), a JSON file that `cogstep format --json` wrote, or nothing for the model that ships.
The output has to be saved with its markers, as the model wrote it. --tools names the tools that were offered: some
formats write 5 and "5" alike, and the tool's JSON Schema says which it is.

examples:
  cogstep parse output.txt --format hermes
  cogstep parse output.txt --format ./qwen3-4b.gguf --tools tools.json --json
"""


BENCH = """\
Measure how fast a model runs on this machine, and what it takes.

Prefill is what a prompt costs before the first token, decode what each token costs then. A cold prompt is new to the
cache; the warm one is the next message of the same conversation, as in every step of an agent. Sessions are replies at
the same time on one model. Times are medians; other work on the machine shows in them.

examples:
  cogstep bench
  cogstep bench --model ./qwen3-4b.gguf --sessions 4 --json
"""


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line, and without guessing at abbreviated options."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def _print_message(self, message: str, file: Any = None) -> None:
        """As argparse does it, but a disk that is full or a pipe that is closed is no secret."""
        if message:
            (file or sys.stderr).write(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it, but what a command does not know is its own error: its help has the options."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {one_line(message)} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(UNUSABLE)


class Version(argparse.Action):
    """Prints the version. An action of our own, because looking it up costs more than all other parsing together."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"cogstep {version()}")
        parser.exit()


def version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

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


def parser() -> Parser:
    """The whole command line."""
    main = Parser(prog="cogstep", description=MAIN, epilog=EXIT_CODES)
    main.add_argument("--version", action=Version, help="print the version and leave")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    run = _command(commands, "run", "ask one question", RUN, OUTPUT)
    run.add_argument("prompt", metavar="PROMPT", help="what to ask; - reads it from stdin")
    _add_session_options(run)

    chat = _command(commands, "chat", "talk with a model", CHAT, OUTPUT)
    _add_session_options(chat)

    replay = _command(commands, "replay", "verify a recording without a model", REPLAY)
    replay.add_argument("file", metavar="FILE", help="a recording made with --record")
    replay.add_argument("--json", action="store_true", help="print the result as one JSON object")
    replay.add_argument("--to", type=COUNT, metavar="N", help="stop after record N and print the state then, as JSON")
    replay.add_argument(
        "--engine", metavar="MODULE:NAME", help="decide with another engine, made of the recorded configuration"
    )

    resume = _command(commands, "resume", "go on with a recorded session", RESUME, OUTPUT)
    resume.add_argument("file", metavar="FILE", help="its recording, which goes on too")
    resume.add_argument("prompt", metavar="PROMPT", nargs="?", help="what to ask then; - reads it from stdin")
    _add_secrets_option(resume)
    _add_resumed_options(resume)

    fork = _command(commands, "fork", "begin a new session where a recorded one stood", FORK, OUTPUT)
    fork.add_argument("file", metavar="FILE", help="the recording, which is left as it is")
    fork.add_argument("prompt", metavar="PROMPT", help="what to ask; - reads it from stdin")
    fork.add_argument("--turn", type=TURN, metavar="N", help="after which turn (default: the newest that has ended)")
    fork.add_argument("--record", metavar="FILE", help="record the new session; FILE must not exist")
    fork.add_argument("--system", metavar="TEXT", help="another system prompt (default: the recorded one)")
    fork.add_argument("--max-steps", type=COUNT, metavar="N", help="model replies in one turn (default: as recorded)")
    _add_tool_options(fork, "default: as recorded")
    _add_secrets_option(fork)
    _add_resumed_options(fork)

    rehearse = _command(commands, "rehearse", "run a recording's tools again and compare", REHEARSE)
    rehearse.add_argument("file", metavar="FILE", help="a recording made with --record")
    rehearse.add_argument("--cwd", metavar="DIR", help="where the tools look (default: an empty scratch directory)")
    rehearse.add_argument("--json", action="store_true", help="print the result as one JSON object")

    add_sessions(commands, _command, TURN)

    found = _command(commands, "format", "show how a model writes its calls", FORMAT)
    found.add_argument("model", metavar="MODEL", nargs="?", help="a model or a chat template (default: what ships)")
    found.add_argument("--json", action="store_true", help="print all of it as one JSON object")

    parse = _command(commands, "parse", "read a saved output of a model", PARSE)
    parse.add_argument("file", metavar="FILE", help="the output; - reads it from stdin")
    parse.add_argument("--format", metavar="FORMAT", help="how it is written (default: as the model that ships does)")
    parse.add_argument("--tools", metavar="FILE", help="JSON: the tools that were offered, as in an OpenAI request")
    parse.add_argument(
        "--finish-reason",
        choices=("stop", "length", "cancelled", "error"),
        default="stop",
        help="how the output ended: a call that was cut by the token limit is never completed (default: stop)",
    )
    parse.add_argument("--json", action="store_true", help="print what was read as one JSON object")

    bench = _command(commands, "bench", "measure how fast a model runs here", BENCH)
    add_model_options(bench)
    bench.add_argument("--sessions", type=COUNT, default=8, metavar="N", help="replies at the same time (default: 8)")
    bench.add_argument("--prompt", type=COUNT, default=512, metavar="N", help="tokens of the prompt (default: 512)")
    bench.add_argument("--tokens", type=REPLY, default=64, metavar="N", help="tokens of a reply, from 2 (default: 64)")
    bench.add_argument("--rounds", type=COUNT, default=3, metavar="N", help="of each measurement (default: 3)")
    bench.add_argument("--json", action="store_true", help="print the figures as one JSON object")

    doctor = _command(commands, "doctor", "say what works on this machine and what to install", DOCTOR)
    doctor.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    doctor.add_argument(
        "--tools",
        metavar="FILE",
        help="look at this list of tools instead (JSON, as MCP's tools/list or OpenAI has it)",
    )
    doctor.add_argument(
        "--seconds",
        type=COUNT,
        default=120,
        metavar="N",
        help="how long one backend may take to load the model and answer (default: 120)",
    )
    return main


def _command(commands: Any, name: str, summary: str, description: str, *more: str) -> Parser:
    command: Parser = commands.add_parser(
        name, help=summary, description=description, epilog="\n".join((*more, EXIT_CODES))
    )
    return command


def _add_session_options(command: Parser) -> None:
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
    _add_tool_options(agent, "default: all; see /tools")
    _add_place_options(agent)

    output = command.add_argument_group("output")
    output.add_argument("--record", metavar="FILE", help="record the session for `cogstep replay`; FILE must not exist")
    _add_secrets_option(output)
    _add_output_options(output)


def _add_resumed_options(command: Parser) -> None:
    """Of commands that begin with a recording: what it says itself can't be chosen again."""
    add_model_options(command.add_argument_group("model"))
    _add_place_options(command.add_argument_group("agent"))
    _add_output_options(command.add_argument_group("output"))


def _add_tool_options(group: Any, default: str) -> None:
    tools = group.add_mutually_exclusive_group()
    tools.add_argument("--tools", type=names, metavar="NAME,...", help=f"only these tools ({default})")
    tools.add_argument("--no-tools", action="store_true", help="no tools at all")


def _add_secrets_option(group: Any) -> None:
    group.add_argument(
        "--keep-secrets", action="store_true", help="record API keys, passwords and tokens as they are, not hidden"
    )


def _add_place_options(group: Any) -> None:
    group.add_argument("--cwd", metavar="DIR", help="the directory the file tools are kept inside (default: this one)")
    group.add_argument("--yes", action="store_true", help="approve every call that would ask for approval")


def _add_output_options(group: Any) -> None:
    group.add_argument("--json", action="store_true", help="print one event a line, as JSON, instead of text")
    group.add_argument(
        "-v", "--verbose", action="store_true", help="whole tool results, thinking, usage and time, terminal or not"
    )

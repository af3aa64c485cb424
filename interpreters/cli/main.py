"""Entry point of ``cogstep``: parse the command line, run the command, and turn errors into one line and an exit code.

To keep ``cogstep --help`` fast, commands import their dependencies only when they run.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence

from interpreters.cli._errors import (
    INTERRUPTED,
    PIPE_CLOSED,
    TERMINATED,
    UNANSWERED,
    UNUSABLE,
    CommandError,
    Terminated,
    reason_of,
    without_passwords,
)
from interpreters.cli.commands import (
    bench,
    chat,
    context as context_command,
    doctor,
    durable,
    format,
    mcp,
    memory,
    parse,
    rehearse,
    replay,
    resume,
    run,
    sessions,
    undo,
)
from interpreters.cli.options.arguments import EXIT_CODES, Parser, PrintVersion
from interpreters.cli.options.store_option import resolve_in_store
from interpreters.cli.screen.terminal import err, gates, out

PAGE = """\
Agents on local language models.

A small model ships with cogstep, so the first example needs nothing else but one backend. The second says what works
on this machine. To install a backend (llama is llama.cpp):
{install}

examples:
  cogstep run "What is 17 * 23?"
  cogstep doctor
"""

COMMANDS = (
    run,
    chat,
    replay,
    resume,
    rehearse,
    undo,
    context_command,
    sessions,
    durable,
    memory,
    mcp,
    format,
    parse,
    bench,
    doctor,
)
"""In the order of the help. Each module declares its command and options with ``add``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Prints errors and raises nothing; a bug prints its traceback."""
    _prepare_streams()
    with gates():
        try:
            return _guarded(arguments)
        except KeyboardInterrupt:  # a second one, while the first was on its way to an exit code
            return INTERRUPTED


def _guarded(arguments: Sequence[str] | None) -> int:
    try:
        code = _run(arguments)
        out().flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated:
        return TERMINATED
    except BrokenPipeError:
        return _mute(PIPE_CLOSED)
    except OSError as error:
        if error.filename is not None:
            from cognition.base.display import shown_name

            return _complain(f"{shown_name(str(error.filename))}: {reason_of(error)}")
        # Without a name it is stdout, as on a full disk.
        return _mute(_complain(f"cannot write the output: {reason_of(error)}; free some space or write elsewhere"))
    except CommandError as error:
        return _complain(str(error), error.code)
    except SystemExit as end:  # a function of the user's, such as a hook or who approves, meant to leave
        from interpreters.cli.options.user_modules import error_location

        return _complain(
            f"your own code ended the program{error_location(end)}; it has to return, or raise an exception"
        )
    except BaseException as error:  # what is no Exception too, which Python would print as it is
        from cognition import CogstepError

        if isinstance(error, CogstepError):
            return _complain(str(error))
        with contextlib.suppress(OSError):
            err().write("".join(traceback.format_exception(error)))  # its message may repeat anything
        return UNANSWERED


def _run(arguments: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if not all(map(_possible, arguments)):
        raise CommandError("an argument holds a NUL or half a character, which no file or model takes; leave it out")
    try:
        options = parser().parse_args(arguments)
    except SystemExit as end:  # --help, --version, wrong usage
        return end.code if isinstance(end.code, int) else UNUSABLE
    try:
        resolve_in_store(options)
        code: int = options.act(options)
    finally:
        opened: contextlib.ExitStack | None = getattr(options, "opened", None)
        if opened is not None:  # servers of tools
            opened.close()
    return code


def _possible(argument: str) -> bool:
    """Return whether a system could have passed this argument. A program that calls ``main`` may pass any text."""
    try:
        return b"\0" not in os.fsencode(argument)
    except UnicodeEncodeError:
        return False


class MainParser(Parser):
    """The parser of the whole command line. Its help has the install lines of this installation."""

    def format_help(self) -> str:
        from runtime.models.installation import install_line  # reads files, which only the help needs

        lines = "\n".join(f"  {install_line(extra)}" for extra in ("mlx", "llama"))
        return super().format_help().replace("{install}", lines)


def parser() -> Parser:
    """Return the parser of the whole command line."""
    main = MainParser(prog="cogstep", description=PAGE, epilog=EXIT_CODES)
    main.add_argument("--version", action=PrintVersion, help="print the version and leave")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for command in COMMANDS:
        command.add(commands)
    return main


def _complain(message: str, code: int = UNUSABLE) -> int:
    # Nobody may be there to read it either.
    with contextlib.suppress(OSError):
        err().write_line(f"cogstep: {without_passwords(message)}")
    return code


def _prepare_streams() -> None:
    """Make sure that a closed stream or an unprintable character does not end a session."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # as after `<&-`
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a test may have put something simpler in its place
            stream.reconfigure(errors="backslashreplace")
    if hasattr(sys.stdin, "reconfigure"):
        # In the C locale Python would let bytes that are no text through, and the model would be asked nonsense.
        sys.stdin.reconfigure(errors="strict")


def _mute(code: int) -> int:
    """Redirect stdout to the null device, so that Python does not complain at exit about unflushed data."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), out().fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())

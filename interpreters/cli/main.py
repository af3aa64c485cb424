"""Where ``cogstep`` starts: reads the command line, runs the command, turns what went wrong into a line and a code.

Commands import little at the top, because ``cogstep --help`` shall answer at once: what a command needs, it imports
when it runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from interpreters.cli import bench, chat, doctor, format, parse, rehearse, replay, resume, run, sessions
from interpreters.cli.arguments import EXIT_CODES, Parser, Version
from interpreters.cli.errors import (
    INTERRUPTED,
    PIPE_CLOSED,
    TERMINATED,
    UNUSABLE,
    CommandError,
    Terminated,
    one_line,
    reason_of,
)
from interpreters.cli.terminal import visible

PAGE = """\
Agents on local language models.

A small model ships with cogstep, so the first example needs nothing else but one backend
(pip install 'cogstep[mlx]' or 'cogstep[llama]'); the second says what works on this machine.

examples:
  cogstep run "What is 17 * 23?"
  cogstep doctor
"""

COMMANDS = (run, chat, replay, resume, rehearse, sessions, format, parse, bench, doctor)
"""In the order of their list; each declares itself and its options with ``add``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Prints; never raises for what the user can mend."""
    _prepare_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated:
        return TERMINATED
    except BrokenPipeError:
        return _mute(PIPE_CLOSED)
    except OSError as error:
        if error.filename is not None:
            return _complain(f"{error.filename}: {reason_of(error)}")
        # Without a name it is stdout, as on a full disk.
        return _mute(_complain(f"cannot write the output: {reason_of(error)}; free some space or write elsewhere"))
    except CommandError as error:
        return _complain(str(error), error.code)
    except Exception as error:
        from cognition import CogstepError

        if not isinstance(error, CogstepError):
            raise
        return _complain(str(error))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        options = parser().parse_args(arguments)
    except SystemExit as end:  # --help, --version, wrong usage
        return end.code if isinstance(end.code, int) else UNUSABLE
    code: int = options.act(options)
    return code


def parser() -> Parser:
    """The whole command line."""
    main = Parser(prog="cogstep", description=PAGE, epilog=EXIT_CODES)
    main.add_argument("--version", action=Version, help="print the version and leave")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for command in COMMANDS:
        command.add(commands)
    return main


def _complain(message: str, code: int = UNUSABLE) -> int:
    # Nobody may be there to read it either.
    with contextlib.suppress(OSError):
        print(f"cogstep: {visible(one_line(message))}", file=sys.stderr, flush=True)
    return code


def _prepare_streams() -> None:
    """Let no closed stream and no character that a terminal can't show end a session."""
    if sys.stdin is None:  # as after `<&-`
        sys.stdin = open(os.devnull)  # noqa: SIM115 - for as long as the process lives
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - as above
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a test may have put something simpler in its place
            stream.reconfigure(errors="backslashreplace")
    if hasattr(sys.stdin, "reconfigure"):
        # In the C locale Python would let bytes that are no text through, and the model would be asked nonsense.
        sys.stdin.reconfigure(errors="strict")


def _mute(code: int) -> int:
    """Point stdout at nothing, else Python complains at exit about what it could not flush."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())

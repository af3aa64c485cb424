"""Where ``cogstep`` starts: reads the command line, runs the command, turns what went wrong into a line and a code.

Imports little at the top, because ``cogstep --help`` shall answer at once; each command imports what it needs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

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
from interpreters.cli.options import parser
from interpreters.cli.terminal import visible


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
    return _dispatch(options)


def _dispatch(options: argparse.Namespace) -> int:
    match options.command:
        case "run":
            from interpreters.cli.run import run

            return run(options)
        case "chat":
            from interpreters.cli.chat import chat

            return chat(options)
        case "resume":
            from interpreters.cli.resume import resume

            return resume(options)
        case "fork":
            from interpreters.cli.resume import fork

            return fork(options)
        case "rehearse":
            from interpreters.cli.rehearse import rehearse

            return rehearse(options)
        case "replay":
            from interpreters.cli.replay import replay

            return replay(options)
        case "sessions":
            from interpreters.cli.sessions import sessions

            return sessions(options)
        case "format":
            from interpreters.cli.formats import show_format

            return show_format(options)
        case "parse":
            from interpreters.cli.parse import parse

            return parse(options)
        case "bench":
            from interpreters.cli.bench import bench

            return bench(options)
        case _:
            from interpreters.cli.doctor import doctor

            return doctor(options)


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

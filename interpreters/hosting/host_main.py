"""A host as a separate process: ``python -P -m interpreters.hosting.host_main``, started by ``AgentHost.in_process``.

The command line sets the names that messages may use: ``--factory NAME=package.module:function``, ``--model SPEC`` and
``--files FOLDER``; see ``Host``.

Messages are read from standard input and written to standard output, one per line (``interpreters.hosting._protocol``).
Any other output to standard output, also from a C library, is redirected to standard error, so that it can't corrupt
the messages. The end of the input ends the process, also if the parent process was killed.
"""

from __future__ import annotations

import os
import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Collection, Mapping
from typing import TypedDict, Unpack

from interpreters.hosting._channels import PipeChannel
from interpreters.hosting._host import CLOSE_SECONDS, Host
from interpreters.loop.clock import Clock
from runtime.protocol.model import Runtime

LAST_SECONDS = 2 * CLOSE_SECONDS
"""Seconds after the end of the input until the process exits: a native call that hangs must not keep it alive."""


class NamedFactories(TypedDict, total=False):
    """The names that messages may use."""

    factories: Mapping[str, str | Callable[..., Runtime]] | None
    models: Collection[str]
    files: str | os.PathLike[str] | None


def serve(model: Runtime | None = None, *, clock: Clock | None = None, **named: Unpack[NamedFactories]) -> None:
    """Run a host until the other side ends. For programs that start their own child:
    ``AgentHost.in_process(command=)``.

    Args:
        model: the model of the sessions; None lets the other side choose.
        clock: for tests.
        named: the names that messages may use, see ``Host``.
    """
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    channel = _EndingChannel(reader, writer)
    Host(channel, model, clock=clock, **named).serve()
    channel.drain(CLOSE_SECONDS)


class _EndingChannel(PipeChannel):
    """Ends the process when the other side has ended."""

    def receive(self) -> str | None:
        if (line := super().receive()) is None:
            watchdog = threading.Timer(LAST_SECONDS, os._exit, (1,))
            watchdog.daemon = True
            watchdog.start()
        return line


def main() -> None:
    options = ArgumentParser(prog="python -P -m interpreters.hosting.host_main", description=__doc__)
    options.add_argument("--factory", action="append", default=[], metavar="NAME=MODULE:FUNCTION", type=_factory)
    options.add_argument("--model", action="append", default=[], metavar="SPEC")
    options.add_argument("--files", metavar="FOLDER")
    chosen = options.parse_args()
    serve(factories=dict(chosen.factory), models=chosen.model, files=chosen.files)
    sys.exit(0)


def _factory(text: str) -> tuple[str, str]:
    name, equals, function = text.partition("=")
    if not (name and equals and function):
        raise ArgumentTypeError(f"{text!r} is none; write NAME=package.module:function")
    return name, function


if __name__ == "__main__":
    main()

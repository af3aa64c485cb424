"""A host as a process of its own: ``python -P -m interpreters.hosting.child``, which ``AgentHost.in_process`` starts.

Who starts it says on its command line what messages may name: ``--factory NAME=package.module:function``,
``--model SPEC`` and ``--files FOLDER``; see ``Host``.

Messages come by standard input and go out by standard output, one a line (``interpreters.hosting.messages``). Whatever
else writes to standard output, a library in C too, is led to standard error, so that it can't break in. The end of the
input ends the process, also when the one that started it was killed.
"""

from __future__ import annotations

import os
import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Collection, Mapping
from typing import TypedDict, Unpack

from interpreters.hosting.channels import PipeChannel
from interpreters.hosting.host import CLOSE_SECONDS, Host
from interpreters.loop.clock import Clock
from runtime.protocol import Runtime

LAST_SECONDS = 2 * CLOSE_SECONDS
"""After the end of the input: a native call that doesn't come back must not keep the process."""


class Named(TypedDict, total=False):
    """What messages may name."""

    factories: Mapping[str, str | Callable[..., Runtime]] | None
    models: Collection[str]
    files: str | os.PathLike[str] | None


def serve(model: Runtime | None = None, *, clock: Clock | None = None, **named: Unpack[Named]) -> None:
    """Be a host until the other side goes. For programs that start their own child: ``AgentHost.in_process(command=)``.

    Args:
        model: what the sessions use; None to be told by the other side.
        clock: for tests.
        named: what messages may name, as of ``Host``.
    """
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    channel = _Ending(reader, writer)
    Host(channel, model, clock=clock, **named).serve()
    channel.drain(CLOSE_SECONDS)


class _Ending(PipeChannel):
    """Sees to it that the process ends when the other side has gone."""

    def receive(self) -> str | None:
        line = super().receive()
        if line is None:
            watchdog = threading.Timer(LAST_SECONDS, os._exit, (1,))
            watchdog.daemon = True
            watchdog.start()
        return line


def main() -> None:
    """As a program."""
    options = ArgumentParser(prog="python -P -m interpreters.hosting.child", description=__doc__)
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

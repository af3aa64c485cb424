"""What commands with an agent share: making it from the options, and one turn with it."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cognition import Cancelled, Completed, GenerationOptions, Limits, Outcome
from interpreters.agents.agent import Agent
from interpreters.agents.options import ProgramOptions
from interpreters.agents.results import RunResult, Suspended
from interpreters.cli.approving import approver
from interpreters.cli.errors import ANSWERED, INTERRUPTED, UNANSWERED, CommandError, Terminated, reason_of
from interpreters.cli.interrupts import Interrupts
from interpreters.cli.model_options import load_options
from interpreters.cli.screen import JsonLines, Output, Screen
from interpreters.cli.terminal import bar, err, out
from interpreters.observing.events import Inline
from interpreters.tools.tool import Tool
from runtime import LoadProgress, Runtime, load_model


class Session:
    """An agent with its output and its signals."""

    def __init__(self, agent: Agent, output: Output, interrupts: Interrupts) -> None:
        self.agent = agent
        self.output = output
        self._interrupts = interrupts
        output.on_failure = lambda: agent.cancel("the output can't be written")

    def ask(self, text: str) -> RunResult:
        """One turn with this message; see ``turn``."""
        return self.turn(lambda: self.agent.run(text))

    def turn(self, run: Callable[[], RunResult]) -> RunResult:
        """One turn. Ctrl-C and SIGTERM cancel it.

        Raises:
            OSError: the output can't be written; the turn was cancelled for it.
            Terminated: SIGTERM came during the turn.
            JournalWriteError: the recording can't go on.
        """
        try:
            with self._interrupts.turn(lambda: self.agent.cancel("the user asked to stop")):
                result = run()
        finally:
            self.output.clear()
        if self.output.failure is not None:
            raise self.output.failure
        if self._interrupts.terminated:
            raise Terminated
        return result


def make_output(options: argparse.Namespace) -> Output:
    """Where the events of this command go."""
    return JsonLines(out(), err()) if options.json else Screen(out(), err(), verbose=options.verbose)


Begin = Callable[[Runtime, ProgramOptions], Agent]
"""Makes the agent of a command, once the model is loaded."""


@contextlib.contextmanager
def open_session(options: argparse.Namespace, begin: Begin | None = None) -> Iterator[Session]:
    """Check the options, load the model and begin the recording; close all of it at the end.

    Everything that can be wrong is found before the model is loaded, as far as it can be known then. ``begin`` makes
    another agent than a new one.
    """
    # Warnings reach the user as events; without a handler, Python would print them a second time.
    logging.getLogger("cogstep").addHandler(logging.NullHandler())
    begin, output = begin or new_agent(options), make_output(options)
    with Interrupts(restore=err().is_terminal).installed() as interrupts:
        model = _load(options, output)
        try:
            for warning in model.describe().warnings:
                output.note(f"! {warning}", "warning")
            given: ProgramOptions = {"approve": approver(options, output, interrupts), "observers": [Inline(output)]}
            if options.keep_secrets:
                given["redact"] = None
            agent = begin(model, given)
        except BaseException:
            model.close()
            raise
        with agent:
            yield Session(agent, output, interrupts)


def new_agent(options: argparse.Namespace) -> Begin:
    """What makes a new agent as the options say it; raises ``CommandError`` for options that can't be used."""
    tools = choose_tools(options)
    generation = generation_options(options)
    limits = Limits() if options.max_steps is None else Limits(steps=options.max_steps)
    check_recording(options.record)
    return lambda model, given: Agent(
        model, tools, options.system or "", options=generation, limits=limits, journal=options.record, **given
    )


def exit_code(outcome: Outcome | Suspended) -> int:
    """What a turn's end means to a shell."""
    match outcome:
        case Completed():
            return ANSWERED
        case Cancelled():
            return INTERRUPTED
        case _:
            return UNANSWERED


def generation_options(options: argparse.Namespace) -> GenerationOptions:
    """The options of generation; an option that was not given keeps its default."""
    given: dict[str, Any] = {
        "temperature": options.temperature,
        "seed": options.seed,
        "max_tokens": options.max_tokens,
        "thinking": False if options.no_thinking else None,
    }
    return GenerationOptions(**{name: value for name, value in given.items() if value is not None})


def directory(options: argparse.Namespace) -> Path:
    """The directory that tools are kept inside."""
    root = Path(options.cwd if options.cwd is not None else ".")
    if not root.is_dir():
        raise CommandError(f"--cwd {root} is no directory; name one that exists")
    return root


def choose_tools(options: argparse.Namespace) -> tuple[Tool[..., Any], ...]:
    """The tools that were asked for, in their usual order whatever the order of their names: models learn it."""
    root = directory(options)
    if options.no_tools:
        return ()
    from interpreters.toolbox import standard_tools

    tools = tuple(standard_tools(root))
    if options.tools is None:
        return tools
    known = [tool.spec.name for tool in tools]
    for name in options.tools:
        if name not in known:
            raise CommandError(f"--tools: there is no tool {name!r}; there are {', '.join(known)}")
    return tuple(tool for tool in tools if tool.spec.name in options.tools)


def check_recording(name: str | None) -> None:
    """Find what would keep a recording from beginning, while nothing has been loaded. The journal looks again."""
    if name is None:
        return
    path = Path(name)
    try:
        if path.is_dir():
            raise CommandError(f"--record {path} is a directory; name a file")
        if path.is_file() and path.stat().st_size > 0:
            raise CommandError(f"--record {path} exists, and a recording is never overwritten; choose another name")
        if not path.parent.is_dir():
            raise CommandError(f"--record {path}: there is no directory {path.parent}; create it or choose another")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise CommandError(f"--record {path} may not be written; choose another place")
    except OSError as error:  # a name that is too long, a loop of links
        raise CommandError(f"--record {path} can't be used ({reason_of(error)}); choose another name") from error


def _load(options: argparse.Namespace, output: Output) -> Runtime:
    def show(progress: LoadProgress) -> None:
        output.progress(bar("downloading" if progress.stage == "download" else "loading", progress.fraction))

    try:
        return load_model(options.model, isolate=bool(options.isolate), **load_options(options, show))
    finally:
        output.clear()

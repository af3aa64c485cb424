"""``cogstep resume`` and ``cogstep fork``: a recorded session, gone on with or gone another way."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cognition import Limits
from interpreters.agent import Agent
from interpreters.cli.errors import ANSWERED, CommandError
from interpreters.cli.run import read_prompt
from interpreters.cli.session import check_recording, choose_tools, directory, exit_code, make_output, open_session
from interpreters.journal import Header, JournalReader
from interpreters.tools import Tool


def resume(options: argparse.Namespace) -> int:
    """Carry an interrupted turn to its end, then ask what is to be asked; return the exit code."""
    prompt = None if options.prompt is None else read_prompt(options.prompt)
    tools = recorded_tools(options.file, directory(options))
    output = make_output(options)

    with open_session(
        options, output, lambda model, given: Agent.resume(options.file, model, tools, **given)
    ) as session:
        code = ANSWERED
        if session.agent.unfinished:
            output.note("the turn that was interrupted goes on", "dim")
            code = exit_code(session.turn(session.agent.go_on).outcome)
        elif prompt is None:
            output.note(f"no turn of {options.file} was interrupted; give a PROMPT to go on", "dim")
        if prompt is not None and code == ANSWERED:
            code = exit_code(session.ask(prompt).outcome)
        return code


def fork(options: argparse.Namespace) -> int:
    """Begin a new session where a recorded one stood, ask, and return the exit code."""
    prompt = read_prompt(options.prompt)
    chosen = options.no_tools or options.tools is not None
    tools = choose_tools(options) if chosen else recorded_tools(options.file, directory(options))
    check_recording(options.record)
    limits = None if options.max_steps is None else Limits(steps=options.max_steps)

    with open_session(
        options,
        make_output(options),
        lambda model, more: Agent.fork(
            options.file, model, tools, options.system, turn=options.turn, limits=limits, journal=options.record, **more
        ),
    ) as session:
        return exit_code(session.ask(prompt).outcome)


def recorded_tools(path: str, root: Path) -> tuple[Tool[..., Any], ...]:
    """The tools that the session was recorded with, in this directory.

    Raises:
        CommandError: it was recorded by a program with tools of its own.
    """
    from interpreters.toolbox import standard_tools

    ours = {tool.spec.name: tool for tool in standard_tools(root)}
    names = tool_names(read_header(path))
    foreign = [name for name in names if name not in ours]
    if foreign:
        raise CommandError(
            f"{path} was recorded with tools of another program ({', '.join(foreign)}); "
            "resume it there with Agent.resume"
        )
    return tuple(ours[name] for name in names)


def read_header(path: str) -> Header:
    with JournalReader(path) as reader:
        return reader.header


def tool_names(header: Header) -> list[str]:
    return [tool.name for tool in header.config.tools] if header.config is not None else []

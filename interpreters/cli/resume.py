"""``cogstep resume`` and ``cogstep fork``: a recorded session, gone on with or gone another way."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interpreters.cli.arguments import OUTPUT, add_command, add_resumed_options, add_tool_options
from interpreters.cli.errors import ANSWERED, CommandError
from interpreters.cli.numbers import COUNT, TURN
from interpreters.cli.run import read_prompt

if TYPE_CHECKING:
    from interpreters.recording.journal import Header
    from interpreters.tools.tool import Tool

RESUME = """\
Go on with a recorded session in its own recording, also after a crash.

A turn that was interrupted is carried to its end: the model is asked again, calls of read-only tools run again, and of
any other call that was at work the model is told that it may have happened. What waits for your answer is asked again.
Then PROMPT is asked, if there is one.

Only what you recorded yourself is resumed: `cogstep fork --foreign` takes the conversation of other recordings over.

examples:
  cogstep resume session.jsonl
  cogstep resume session.jsonl "And times two?"
"""

FORK = """\
Begin a new session where a recorded one stood after a turn, with another model, prompt, tools or question.

What is not given is as recorded; --turn 0 is where it began. The recording stays as it is, and a new one says where it
comes from.

A recording that you did not write yourself is forked with --foreign only: its conversation is taken over, and nothing
else. What is not given is then as for `cogstep run`.

examples:
  cogstep fork session.jsonl "And times two?" --turn 1 --record other.jsonl
  cogstep fork session.jsonl "And times two?" --model ./qwen3-4b.gguf --system "Be brief." --no-tools
"""


def add(commands: Any) -> None:
    command = add_command(commands, "resume", "go on with a recorded session", RESUME, resume, OUTPUT)
    command.add_argument("file", metavar="FILE", help="its recording, which goes on too")
    command.add_argument("prompt", metavar="PROMPT", nargs="?", help="what to ask then; - reads it from stdin")
    add_resumed_options(command)

    new = add_command(commands, "fork", "begin a new session where a recorded one stood", FORK, fork, OUTPUT)
    new.add_argument("file", metavar="FILE", help="the recording, which is left as it is")
    new.add_argument("prompt", metavar="PROMPT", help="what to ask; - reads it from stdin")
    new.add_argument("--turn", type=TURN, metavar="N", help="after which turn (default: the newest that has ended)")
    new.add_argument("--foreign", action="store_true", help="also if somebody else recorded it: its conversation only")
    new.add_argument("--record", metavar="FILE", help="record the new session; FILE must not exist")
    new.add_argument("--system", metavar="TEXT", help="another system prompt (default: the recorded one)")
    new.add_argument("--max-steps", type=COUNT, metavar="N", help="model replies in one turn (default: as recorded)")
    add_tool_options(new, "default: as recorded")
    add_resumed_options(new)


def resume(options: argparse.Namespace) -> int:
    """Carry an interrupted turn to its end, then ask what is to be asked; return the exit code."""
    from interpreters.agents.agent import Agent
    from interpreters.cli.session import directory, exit_code, open_session
    from interpreters.recording.journal import why_foreign

    prompt = None if options.prompt is None else read_prompt(options.prompt)
    why_foreign(options.file, "resumed")  # looked at before a model is loaded for it
    tools = recorded_tools(options.file, directory(options))

    with open_session(options, lambda model, given: Agent.resume(options.file, model, tools, **given)) as session:
        code, output = ANSWERED, session.output
        if session.agent.unfinished:
            waits = "what waits for an answer is asked again" if session.agent.pending else ""
            output.note(waits or "the turn that was interrupted goes on", "dim")
            code = exit_code(session.turn(session.agent.go_on).outcome)
        elif prompt is None:
            output.note(f"no turn of {options.file} was interrupted; give a PROMPT to go on", "dim")
        if prompt is not None and code == ANSWERED:
            code = exit_code(session.ask(prompt).outcome)
        return code


def fork(options: argparse.Namespace) -> int:
    """Begin a new session where a recorded one stood, ask, and return the exit code."""
    from cognition import Limits
    from interpreters.agents.agent import Agent
    from interpreters.cli.session import check_recording, choose_tools, directory, exit_code, open_session
    from interpreters.recording.journal import why_foreign

    prompt = read_prompt(options.prompt)
    foreign = why_foreign(options.file, "forked as it is", allowed=options.foreign)
    chosen = options.no_tools or options.tools is not None or foreign
    tools = choose_tools(options) if chosen else recorded_tools(options.file, directory(options))
    check_recording(options.record)
    limits = None if options.max_steps is None else Limits(steps=options.max_steps)

    with open_session(
        options,
        lambda model, more: Agent.fork(
            options.file,
            model,
            tools,
            options.system,
            turn=options.turn,
            foreign=options.foreign,
            limits=limits,
            journal=options.record,
            **more,
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
            "only that program can take it up, with Agent.resume, Agent.fork or rehearse"
        )
    return tuple(ours[name] for name in names)


def read_header(path: str) -> Header:
    from interpreters.recording.journal import JournalReader

    with JournalReader(path) as reader:
        return reader.header


def tool_names(header: Header) -> list[str]:
    return [tool.name for tool in header.config.tools] if header.config is not None else []

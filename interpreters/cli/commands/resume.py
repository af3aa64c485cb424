"""``cogstep resume`` and ``cogstep fork``: continue a recorded session, or branch off from it."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from interpreters.cli._errors import ANSWERED, UNANSWERED, CommandError
from interpreters.cli.commands.run import read_prompt
from interpreters.cli.options.arguments import (
    OUTPUT,
    add_command,
    add_feature_options,
    add_mcp_option,
    add_mode_option,
    add_notes_option,
    add_own_tools_option,
    add_resumed_options,
    add_sampling_options,
    add_tool_options,
)
from interpreters.cli.options.model_options import add_fallback_option, add_model_options
from interpreters.cli.options.store_option import add_recording, add_store_option, name_of
from interpreters.cli.options.values import COUNT, TURN

RESUME = """\
Go on with a recorded session in its own recording, also after a crash.

A turn that was interrupted is carried to its end: the model is asked again, calls of read-only tools run again, and of
any other call that was at work the model is told that it may have happened. What waits for your answer is asked again.
Then PROMPT is asked, if there is one.

Only what you recorded yourself is resumed: `cogstep fork --foreign` takes the conversation of other recordings over.

The tools have to be those of the recording: where they are not cogstep's, --tools names the module that has them.

examples:
  cogstep resume session.jsonl "And times two?"
  cogstep resume session.jsonl --tools my_tools:TOOLS --answer 1.1.1=yes
"""

FORK = """\
Begin a new session where a recorded one stood after a turn, with another model, sampling, prompt, tools or question.

What is not given is as recorded; --turn 0 is where it began. The recording stays as it is, and a new one says where it
comes from.

With --files the files are put back too, as `cogstep undo` does, to what they were when that turn had ended: what turn N
itself changed stays, since the new session knows of it, and what came after it goes. To start before the changes of
turn 3, fork with --turn 2; --turn 0 starts before those of turn 1.

A recording that you did not write yourself is forked with --foreign only: its conversation is taken over, and nothing
else. What is not given is then as for `cogstep run`.

examples:
  cogstep fork session.jsonl "Use a list instead." --turn 2 --files --record other.jsonl
  cogstep fork session.jsonl "And times two?" --model ./qwen3-4b.gguf --system "Be brief." --no-tools
"""


def add(commands: Any) -> None:
    command = add_command(commands, "resume", "go on with a recorded session", RESUME, resume, OUTPUT)
    add_recording(command, "its recording, which goes on too")
    command.add_argument("prompt", metavar="PROMPT", nargs="?", help="what to ask then; - reads it from stdin")
    command.add_argument(
        "--answer",
        action="append",
        type=_answer,
        metavar="ID=ANSWER",
        help="answer what waits under this id: to a call yes, no REASON, always RULE, never RULE (such as 'never "
        "Bash(git push:*)') or edit JSON, with other arguments; to a question an option or your own words; to a plan "
        "yes, no or what is to change; else the result of a call; may be repeated",
    )
    add_model_options(command.add_argument_group("model"))
    agent = command.add_argument_group("agent")
    add_own_tools_option(agent, "MODULE:NAME of the tools that it was recorded with, unless they are cogstep's")
    add_mcp_option(agent)
    add_notes_option(agent)
    add_mode_option(agent, "as recorded")
    add_resumed_options(command)

    new = add_command(commands, "fork", "begin a new session where a recorded one stood", FORK, fork, OUTPUT)
    new.add_argument("file", metavar="FILE", help="the recording, which is left as it is")
    new.add_argument("prompt", metavar="PROMPT", help="what to ask; - reads it from stdin")
    new.add_argument("--turn", type=TURN, metavar="N", help="after which turn (default: the newest that has ended)")
    new.add_argument(
        "--files", action="store_true", help="put back the files that its tools have changed after that turn"
    )
    new.add_argument("--foreign", action="store_true", help="also if somebody else recorded it: its conversation only")
    new.add_argument("--record", metavar="FILE", help="record the new session; FILE must not exist")
    add_store_option(new, "FILE is the name of a session, and so is that of --record,")
    model = new.add_argument_group("model")
    add_model_options(model)
    add_fallback_option(model)
    add_sampling_options(model, "as recorded")
    agent = new.add_argument_group("agent")
    agent.add_argument("--system", metavar="TEXT", help="another system prompt (default: the recorded one)")
    agent.add_argument("--max-steps", type=COUNT, metavar="N", help="model replies in one turn (default: as recorded)")
    add_tool_options(agent, "default: as recorded")
    add_mcp_option(agent)
    add_feature_options(agent, "as recorded", "as recorded")
    add_mode_option(agent, "as recorded")
    add_resumed_options(new)


def _answer(text: str) -> tuple[str, str]:
    effect_id, found, answer = text.partition("=")
    if not found or not effect_id.strip():
        raise argparse.ArgumentTypeError(f"expected ID=ANSWER, such as 1.1.1=yes, not {text!r}")
    return effect_id.strip(), answer


def resume(options: argparse.Namespace) -> int:
    """Hand in the answers, finish an interrupted turn, then send the prompt; return the exit code."""
    from cognition import AskApproval
    from interpreters.agents.agent import Agent
    from interpreters.cli.options.program_options import runtime_options
    from interpreters.cli.options.tool_options import directory, read_header, recorded_tools
    from interpreters.cli.session.answers import pending_lines, read_answer
    from interpreters.cli.session.session import check_notes, exit_code, open_session
    from interpreters.loop.program.pending import find_pending
    from interpreters.recording.journal import explain_foreign

    ids = [effect_id for effect_id, _ in options.answer or ()]
    if twice := [effect_id for effect_id in ids if ids.count(effect_id) > 1]:
        raise CommandError(f"--answer: {twice[0]} is answered twice; leave out the answer that does not hold")
    prompt = None if options.prompt is None else read_prompt(options.prompt)
    explain_foreign(options.file, "resumed")  # looked at before a model is loaded for it
    header = read_header(options.file)
    tools = recorded_tools(header, options.file, options, directory(options))
    options.fallback = None if header.config is None else header.config.models
    if header.config is not None:
        check_notes(options, ("memory",) if header.config.recall_first else header.config.features)
        missing = [point for point in header.config.hooks if point not in (runtime_options(options).get("hooks") or ())]
        if missing:
            raise CommandError(
                f"{name_of(options.file)} was recorded with hooks of its program ({', '.join(missing)}), which guard "
                "its calls; name them with --agent MODULE:NAME"
            )

    with open_session(options, lambda model, given: Agent.resume(options.file, model, tools, **given)) as session:
        code, agent, output = ANSWERED, session.agent, session.output
        for effect_id, text in options.answer or ():
            answer = read_answer(find_pending(effect_id, agent.pending), text, agent.config.offered)
            code = exit_code(session.turn(partial(agent.answer, effect_id, answer)).outcome)
        judged = session.person.is_here or options.approve is not None or "approve" in runtime_options(options)
        if not judged and not options.answer and any(isinstance(effect, AskApproval) for effect in agent.pending):
            # It would be refused now, for good, without anybody's word.
            code = UNANSWERED
            output.notes(pending_lines(agent.pending, session.person, agent.config.offered), "warning")
        elif agent.unfinished and (not options.answer or session.person.is_here):
            waits = "what waits for an answer is asked again" if agent.pending else ""
            output.note(waits or "the turn that was interrupted goes on", "dim")
            code = exit_code(session.turn(agent.resume_turn).outcome)
        elif prompt is None and not options.answer:
            output.note(f"no turn of {name_of(options.file)} was interrupted; give a PROMPT to go on", "dim")
        if prompt is not None and code == ANSWERED:
            code = exit_code(session.ask(prompt).outcome)
        return code


def fork(options: argparse.Namespace) -> int:
    """Start a new session from a point of a recorded one, send the prompt, and return the exit code."""
    from interpreters.agents.agent import Agent
    from interpreters.cli.options.program_options import program_options
    from interpreters.cli.options.tool_options import choose_tools, directory, read_header, recorded_tools
    from interpreters.cli.session.session import check_recording, exit_code, new_options, open_session, protect
    from interpreters.recording.journal import explain_foreign

    prompt = read_prompt(options.prompt)
    foreign = explain_foreign(options.file, "forked as it is", allowed=options.foreign)
    header = read_header(options.file)
    chosen = options.no_tools or options.tools is not None or foreign or "tools" in program_options(options)
    tools = choose_tools(options) if chosen else recorded_tools(header, options.file, options, directory(options))
    recorded = None if foreign else header.config
    given = new_options(options, recorded)
    protect(given, tools, recorded)
    system = program_options(options).get("system") if options.system is None else options.system
    check_recording(options.record)

    which: dict[str, Any] = {"turn": options.turn, "foreign": options.foreign, "files": options.files}
    with open_session(
        options, lambda model, more: Agent.fork(options.file, model, tools, system, **which, **given, **more)
    ) as session:
        hooks = () if foreign or header.config is None else header.config.hooks
        dropped = [point for point in hooks if point not in session.agent.config.hooks]
        if dropped:
            told = f"! the recorded session had hooks of its program ({', '.join(dropped)}), and this one has not"
            session.output.note(f"{told}; --agent MODULE:NAME brings them", "warning")
        return exit_code(session.ask(prompt).outcome)

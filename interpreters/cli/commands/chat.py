"""``cogstep chat``: a conversation at the terminal, or line by line from a pipe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED, INTERRUPTED, CommandError
from interpreters.cli.options.arguments import OUTPUT, add_command, add_session_options
from interpreters.cli.screen.line_input import line_reader, read_message

if TYPE_CHECKING:
    from interpreters.agents.agent import Agent
    from interpreters.cli.screen.output import Output
    from interpreters.cli.session.session import Session

PAGE = """\
Talk with a model; it remembers the conversation until /reset or the end.

The model that ships reads and computes. Any other one looks, edits and runs commands in the directory, makes plans and
lists of tasks, and asks you what it wants to know. Whatever changes something asks first.

A trailing backslash continues a line, and a line of three double quotes opens and closes a block of lines.
/help lists the commands of a chat; end of input leaves. Ctrl-C cancels the answer under way and keeps the conversation;
a second one leaves at once.

examples:
  cogstep chat --model ./qwen3-4b.gguf --record monday.jsonl
  cogstep chat --model ./qwen3-4b.gguf --tools files,my_tools:TOOLS --ask --temperature 0.6
"""

HELP = """\
/help          this page
/tools         the tools that the model may call
/tasks, /plan  the model's tasks, and the plan that it carries out
/context       what the model was shown last: how much of its budget that took, what was shortened or left out, and why
/mode [NAME]   how much may happen without asking: default, careful, auto, plan, acceptEdits, bypassPermissions
/model [NAME]  which model answers, where there are several (--fallback); own is the first one
/policy        the rules that calls are judged by; /policy forget N, or all, takes back what you said from now on
/answer ID ... answer what the turn waits for; /cancel gives the turn up. To a call: yes, no REASON, always RULE,
               never RULE, edit JSON; to a question an option or your own words; to a plan yes, no or what is to change
/compact       have the model summarise the conversation, which it is shown in its place from then on
/undo [N]      put the files back that the model's tools have changed since turn N began; /redo takes it back
/reset         forget the conversation
/quit          leave (so does the end of input, Ctrl-D)
A trailing \\ continues a line; a line of \"\"\" opens and closes a block of lines.
Ctrl-C cancels the answer under way; a second one leaves at once."""

OWN_MODEL = "own"
"""The name that ``/model`` shows for the model of ``--model``."""


def add(commands: Any) -> None:
    add_session_options(add_command(commands, "chat", "talk with a model", PAGE, chat, OUTPUT))


def chat(options: argparse.Namespace) -> int:
    """Chat until the user leaves, and return the exit code."""
    from interpreters.cli.session.session import open_session
    from runtime.files import state_directory

    with (
        open_session(options) as session,
        line_reader(state_directory() / "chat_history") as read,
    ):
        if sys.stdin.isatty():
            session.output.note(greeting(session.agent), "dim")
        interrupted = False  # at the prompt, by the input before
        while True:
            try:
                message = read_message(read)
            except KeyboardInterrupt:
                if interrupted:
                    return INTERRUPTED
                interrupted = True
                session.output.note("")  # behind the prompt
                session.output.note("Ctrl-C again leaves, like Ctrl-D and /quit", "dim")
                continue
            interrupted = False
            if message is None or message.strip() == "/quit":
                return ANSWERED
            if message.strip():
                answer(session, message)


def answer(session: Session, message: str) -> None:
    """Handle one line of the user: a chat command, or a message to the model."""
    word, _, rest = message.strip().partition(" ")
    command = COMMANDS.get(word)
    if command is not None:
        command(session, rest.strip())
    elif word.startswith("/") and word[1:].isalpha() and not rest:  # a path has more in it
        session.output.note(f"! there is no command {word}; /help lists them", "warning")
    else:
        _in_a_turn(session, lambda: session.ask(message))


def _in_a_turn(session: Session, run: Callable[[], object]) -> None:
    from interpreters.cli.session.answers import pending_lines
    from interpreters.loop.errors import PendingError

    try:
        run()
    except KeyboardInterrupt:  # in the moment before the turn began or after it ended
        session.output.note("! cancelled", "warning")
    except PendingError:
        for line in pending_lines(session.agent.pending, session.person, session.agent.config.offered):
            session.output.note(line, "warning")


def _show_mode(session: Session, name: str) -> None:
    from interpreters.cli.options.arguments import MODES

    if name in MODES:
        session.agent.set_mode(name)
    elif name:
        session.output.note(f"! there is no mode {name}; there are {', '.join(MODES)}", "warning")
    else:
        session.output.note(f"mode: {session.agent.state.mode}; there are {', '.join(MODES)}")


def _show_model(session: Session, name: str) -> None:
    from cognition import ConfigError
    from cognition.base.display import shown_name

    agent = session.agent
    if name and name != OWN_MODEL and not agent.config.models:
        session.output.note(f"! there is no model {shown_name(name)!r}: --fallback SPEC brings others", "warning")
        return
    if name:
        try:
            agent.use_model("" if name == OWN_MODEL else name)
        except ConfigError as error:
            session.output.note(f"! {error}; {OWN_MODEL} is the first one", "warning")
        return
    resting = {one.model: one.open_until for one in agent.state.health if one.open_until is not None}
    for each in ("", *agent.config.models):
        rests = " (it has failed, and is tried again later)" if each in resting else ""
        mark = "*" if each == agent.active_model else " "
        session.output.note(f"{mark} {shown_name(each, 80) or OWN_MODEL}{rests}")


def _policy(session: Session, text: str) -> None:
    from interpreters.cli.session.policy_command import policy

    policy(session, text)


def _show_tasks(session: Session, _: str) -> None:
    from interpreters.cli.screen.feature_lines import task_lines

    notes(session.output, task_lines(session.agent.state.tasks) if session.agent.state.tasks else ["no tasks"])


def _show_plan(session: Session, _: str) -> None:
    from interpreters.cli.screen.feature_lines import plan_lines

    plan = session.agent.state.plan
    notes(session.output, ["no plan"] if plan is None else plan_lines(plan))


def _show_context(session: Session, _: str) -> None:
    for line, style in session.last_request.lines():
        session.output.note(line, style)


def _reset(session: Session, _: str) -> None:
    session.agent.reset()
    session.output.note("the conversation is forgotten", "dim")


def _compact(session: Session, _: str) -> None:
    from cognition import CogstepError

    try:
        session.guard(session.agent.compact)
    except CogstepError as error:
        session.output.note(f"! {error}", "warning")


def _undo(session: Session, text: str) -> None:
    """``/undo`` for the newest turn that changed files, or ``/undo N``."""
    if text and not text.isdecimal():
        session.output.note("! write /undo, or /undo N with the number of a turn", "warning")
    else:
        _put_back(session, {"turn": int(text) if text else None})


def _put_back(session: Session, which: dict[str, Any]) -> None:
    from cognition import CogstepError
    from interpreters.cli.commands.undo import restored_lines, summarize_restored

    try:
        done = session.agent.undo(**which)
    except CogstepError as error:
        session.output.note(f"! {error}", "warning")
        return
    lines = list(restored_lines(done))
    notes(session.output, [*lines, summarize_restored(done)])
    if lines:
        names = ", ".join(line[2:] for line in lines)
        told = f"[With /undo or /redo the user has put files back: {names}. Read them again before you go on.]"
        session.before = "\n".join(filter(None, [session.before, told]))


def _answer(session: Session, text: str) -> None:
    """``/answer ID ANSWER``, or only ``/answer ANSWER`` if a single question is pending."""
    from interpreters.cli.session.answers import read_answer

    pending = {str(effect.effect_id): effect for effect in session.agent.pending}
    effect_id, _, value = text.partition(" ")
    if effect_id not in pending and len(pending) == 1:
        effect_id, value = next(iter(pending)), text
    if effect_id not in pending or not value.strip():
        known = f"; what waits: {', '.join(pending)}" if pending else ", and nothing waits for one"
        session.output.note(f"! write /answer ID ANSWER{known}", "warning")
        return
    try:
        given = read_answer(pending[effect_id], value.strip(), session.agent.config.offered)
    except CommandError as error:
        session.output.note(f"! {error}", "warning")
        return
    _in_a_turn(session, lambda: session.turn(lambda: session.agent.answer(effect_id, given)))


def _cancel(session: Session, _: str) -> None:
    if not session.agent.cancel("the user asked to stop"):
        session.output.note("nothing waits for an answer", "dim")


COMMANDS: Mapping[str, Callable[[Session, str], None]] = {
    "/help": lambda session, _: notes(session.output, HELP.splitlines()),
    "/tools": lambda session, _: notes(session.output, tool_lines(session.agent)),
    "/tasks": _show_tasks,
    "/plan": _show_plan,
    "/context": _show_context,
    "/mode": _show_mode,
    "/model": _show_model,
    "/policy": _policy,
    "/compact": _compact,
    "/undo": _undo,
    "/redo": lambda session, _: _put_back(session, {"redo": True}),
    "/reset": _reset,
    "/answer": _answer,
    "/cancel": _cancel,
}
"""The chat commands, by first word. Each receives the rest of the line."""


def greeting(agent: Agent) -> str:
    """Return the first line of a chat."""
    info = agent.model.describe()
    count = len(agent.config.offered)
    tools = f"{count} tool{'' if count == 1 else 's'}" if count else "no tools"
    return f"{info.name} ({info.backend}), {tools}; /help says what can be typed, Ctrl-D leaves"


def tool_lines(agent: Agent) -> Iterator[str]:
    """Yield the tools with their descriptions for the model."""
    from cognition.base.display import shown_name

    tools = agent.config.offered
    width = max((len(shown_name(tool.name)) for tool in tools), default=0)
    for tool in tools:
        asks = "(asks) " if tool.approval else ""
        yield f"{shown_name(tool.name):{width}}  {asks}{' '.join(tool.description.split())}"
    if not tools:
        yield "no tools"


def notes(output: Output, lines: Iterable[str]) -> None:
    for line in lines:
        output.note(line)

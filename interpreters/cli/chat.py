"""``cogstep chat``: a conversation at the terminal, or line by line from a pipe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from interpreters.cli.arguments import OUTPUT, add_command, add_session_options
from interpreters.cli.errors import ANSWERED, INTERRUPTED
from interpreters.cli.lines import line_reader, read_message

if TYPE_CHECKING:
    from interpreters.agents.agent import Agent
    from interpreters.cli.screen import Output
    from interpreters.cli.session import Session

PAGE = """\
Talk with a model; it remembers the conversation until /reset or the end.

A trailing backslash continues a line, and a line of three double quotes opens and closes a block of lines.
/help, /reset, /tools and /quit are commands; end of input leaves. Ctrl-C cancels the answer under way and keeps the
conversation; a second one leaves at once.

examples:
  cogstep chat
  cogstep chat --model ./qwen3-4b.gguf --temperature 0.6 --record monday.jsonl
"""

HELP = '''\
/help   this page
/tools  the tools that the model may call
/reset  forget the conversation
/quit   leave (so does the end of input, Ctrl-D)
A trailing \\ continues a line; a line of """ opens and closes a block of lines.
Ctrl-C cancels the answer under way; a second one leaves at once.'''


def add(commands: Any) -> None:
    add_session_options(add_command(commands, "chat", "talk with a model", PAGE, chat, OUTPUT))


def chat(options: argparse.Namespace) -> int:
    """Talk until the user leaves, and return the exit code."""
    from interpreters.cli.session import open_session
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
    """Answer one message of the user: a command of the chat, or a message to the model."""
    word = message.strip()
    match word:
        case "/help":
            notes(session.output, HELP.splitlines())
        case "/tools":
            notes(session.output, tool_lines(session.agent))
        case "/reset":
            session.agent.reset()
            session.output.note("the conversation is forgotten", "dim")
        case _ if word.startswith("/") and word[1:].isalpha():  # a path has more in it
            session.output.note(f"! there is no command {word}; /help lists them", "warning")
        case _:
            try:
                session.ask(message)
            except KeyboardInterrupt:  # in the moment before the turn began or after it ended
                session.output.note("! cancelled", "warning")


def greeting(agent: Agent) -> str:
    """The first line of a chat."""
    info = agent.model.describe()
    count = len(agent.config.tools)
    tools = f"{count} tool{'' if count == 1 else 's'}" if count else "no tools"
    return f"{info.name} ({info.backend}), {tools}; /help says what can be typed, Ctrl-D leaves"


def tool_lines(agent: Agent) -> Iterator[str]:
    """The tools with what the model is told of them."""
    from cognition.shown import shown_name

    described = {shown_name(tool.name): " ".join(tool.description.split()) for tool in agent.config.tools}
    width = max(map(len, described), default=0)
    yield from (f"{name:{width}}  {description}" for name, description in described.items())
    if not described:
        yield "no tools"


def notes(output: Output, lines: Iterable[str]) -> None:
    """Notes of several lines."""
    for line in lines:
        output.note(line)

"""``cogstep chat``: a conversation at the terminal, or line by line from a pipe."""

from __future__ import annotations

import argparse
import sys

from interpreters.agent import Agent
from interpreters.cli.errors import ANSWERED, INTERRUPTED
from interpreters.cli.lines import line_reader, read_message
from interpreters.cli.paths import state_directory
from interpreters.cli.session import Session, make_output, open_session

HELP = '''\
/help   this page
/tools  the tools that the model may call
/reset  forget the conversation
/quit   leave (so does the end of input, Ctrl-D)
A trailing \\ continues a line; a line of """ opens and closes a block of lines.
Ctrl-C cancels the answer under way; a second one leaves at once.'''


def chat(options: argparse.Namespace) -> int:
    """Talk until the user leaves, and return the exit code."""
    with (
        open_session(options, make_output(options)) as session,
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
                session.output.note("\nCtrl-C again leaves, like Ctrl-D and /quit", "dim")
                continue
            interrupted = False
            if message is None or message.strip() == "/quit":
                return ANSWERED
            if message.strip():
                answer(session, message)


def answer(session: Session, message: str) -> None:
    """One message of the user's: a command of the chat, or something for the model."""
    word = message.strip()
    match word:
        case "/help":
            session.output.note(HELP)
        case "/tools":
            session.output.note(tools_text(session.agent))
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


def tools_text(agent: Agent) -> str:
    """The tools with what the model is told of them."""
    tools = agent.config.tools
    if not tools:
        return "no tools"
    width = max(len(tool.name) for tool in tools)
    return "\n".join(f"{tool.name:{width}}  {' '.join(tool.description.split())}" for tool in tools)

"""``cogstep chat``: a conversation at the terminal, or line by line from a pipe."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from interpreters.cli._errors import ANSWERED, INTERRUPTED
from interpreters.cli.options.arguments import OUTPUT, add_command, add_session_options
from interpreters.cli.screen.line_input import line_reader, read_message

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


def add(commands: Any) -> None:
    add_session_options(add_command(commands, "chat", "talk with a model", PAGE, chat, OUTPUT))


def chat(options: argparse.Namespace) -> int:
    """Chat until the user leaves, and return the exit code."""
    from interpreters.cli.commands._chat_commands import answer, greeting
    from interpreters.cli.session.session import open_session
    from runtime.files import state_directory

    with open_session(options) as session, line_reader(state_directory() / "chat_history") as read:
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

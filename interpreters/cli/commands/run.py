"""``cogstep run``: one question, one answer."""

from __future__ import annotations

import argparse
from typing import Any

from interpreters.cli._errors import CommandError
from interpreters.cli.options.arguments import OUTPUT, add_command, add_session_options
from interpreters.cli.screen.line_input import read_argument

PAGE = """\
Ask one question: the model answers, calling tools where it needs them.

The model that ships has tools that read and compute, any other one has those that edit and run commands too. Whatever
changes something asks first; where nobody is at a terminal to ask, it is refused, and the model is told so.

examples:
  cogstep run "What is 17 * 23?" --record session.jsonl
  git diff | cogstep run - --model hf:Qwen/Qwen3-0.6B-GGUF --system "Write a commit message." --no-tools
"""


def add(commands: Any) -> None:
    command = add_command(commands, "run", "ask one question", PAGE, run, OUTPUT)
    command.add_argument("prompt", metavar="PROMPT", help="what to ask; - reads it from stdin")
    add_session_options(command)


def run(options: argparse.Namespace) -> int:
    """Ask, show the answer, and return the exit code."""
    from interpreters.cli.session.session import exit_code, open_session

    prompt = read_prompt(options.prompt)
    with open_session(options) as session:
        return exit_code(session.ask(prompt).outcome)


def read_prompt(text: str) -> str:
    """Return the prompt; ``-`` reads it from stdin."""
    prompt = read_argument(text)
    if not prompt.strip():
        raise CommandError('the prompt is empty; write what to ask, as in: cogstep run "What is 17 * 23?"')
    return prompt.rstrip("\n") if text == "-" else prompt

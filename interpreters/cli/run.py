"""``cogstep run``: one question, one answer."""

from __future__ import annotations

import argparse
import sys

from interpreters.cli.errors import CommandError
from interpreters.cli.session import exit_code, make_output, open_session


def run(options: argparse.Namespace) -> int:
    """Ask, show, and return the exit code."""
    prompt = read_prompt(options.prompt)
    with open_session(options, make_output(options)) as session:
        return exit_code(session.ask(prompt).outcome)


def read_prompt(text: str) -> str:
    """What is asked; ``-`` reads it from stdin."""
    if text == "-":
        try:
            text = sys.stdin.read().rstrip("\n")
        except UnicodeDecodeError as error:
            raise CommandError(f"stdin is no text in {error.encoding}; pipe text into it") from error
    # Bytes of an argument that are no UTF-8 come as lone surrogates, which no tokenizer takes.
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not text.strip():
        raise CommandError('the prompt is empty; write what to ask, as in: cogstep run "What is 17 * 23?"')
    return text

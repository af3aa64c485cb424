"""Asking at the terminal whether a call may run: what is shown is what will run, not what only looks like it."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator

from cognition import ToolCall
from cognition.shown import shown_name
from interpreters.cli.errors import Terminated
from interpreters.cli.interrupts import Interrupts
from interpreters.cli.render import Style, call_text
from interpreters.cli.screen import Output
from interpreters.cli.terminal import err
from interpreters.program.approvals import Approval, ApprovalRequest, Approve

ANSWERS = {
    "y": Approval(True),
    "n": Approval(False, "the user said no"),
    "a": Approval(True, always=True),
    "v": Approval(False, "the user said never", always=True),
}
QUESTION = "[y]es, [n]o, [a]lways, ne[v]er: "
QUESTION_ABOUT_A_LONG_ONE = "[s]how all of it, [y]es, [n]o, [a]lways, ne[v]er: "

LONGEST_CALL = 2000
"""Characters of a call that are shown before the user asks for all of it."""


def approver(options: argparse.Namespace, output: Output, interrupts: Interrupts) -> Approve | None:
    """Who answers when a tool asks for approval; None where nobody can, and such calls are refused.

    Ctrl-C or SIGTERM at the question keep it in the recording, where it is asked again by ``cogstep resume``. Without
    a recording they cancel the turn, and so does Ctrl-C in a chat, which goes on.
    """
    if options.yes:
        return lambda _request: True
    if options.json or not (sys.stdin.isatty() and err().is_terminal):
        return None
    recording: str | None = options.file if options.command == "resume" else options.record

    def ask(request: ApprovalRequest) -> Approval:
        def show(longest: int | None) -> None:
            lines = question_lines(request.call, request.reason, longest)
            output.attempt(lambda: err().write_lines(lines, whole=True))

        output.clear()
        show(LONGEST_CALL)
        cut = len(call_text(request.call, whole=True)) > LONGEST_CALL
        try:
            with interrupts.asking():
                while True:
                    err().write(QUESTION_ABOUT_A_LONG_ONE if cut else QUESTION)
                    line = sys.stdin.readline()
                    if not line:
                        return Approval(False, "nobody answered")
                    letter = line.strip().lower()[:1]
                    if letter in ANSWERS:
                        return ANSWERS[letter]
                    if cut and letter == "s":
                        show(None)
        except (KeyboardInterrupt, Terminated) as stop:
            err().write("\n")
            if recording is not None and (options.command != "chat" or isinstance(stop, Terminated)):
                told = shlex.quote(recording)
                output.note(f"the call waits in {told} for your answer; go on with: cogstep resume {told}", "dim")
                raise  # which leaves the turn open, and ends the command
            interrupts.cancel()
            return Approval(False, "the user asked to stop")

    return ask


def question_lines(call: ToolCall, reason: str, longest: int | None) -> Iterator[tuple[str, Style]]:
    """The question. The call's values stand as JSON in it, so that no text can pass for something outside its quotes;
    where letters might pass for others (a Cyrillic one for a Latin one), a second line has the call in ASCII.

    Args:
        call: what may run.
        reason: why it is asked.
        longest: characters of the call that are shown; of a longer one both ends are, and how much is not. None: all.
    """
    text = call_text(call, whole=True)
    yield f"? {shown_name(text, longest)}: {shown_name(reason or 'may it run?')}", "warning"
    if not text.isascii():
        plain = text.encode("ascii", "backslashreplace").decode()
        yield f"  in ASCII: {shown_name(plain, longest)}", "warning"

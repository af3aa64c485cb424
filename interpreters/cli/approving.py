"""Asking at the terminal whether a call may run: what is shown is what will run, not what only looks like it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cognition import ToolCall
from cognition.shown import shown_name
from interpreters.cli.errors import CommandError
from interpreters.cli.modules import load_named
from interpreters.cli.person import Person
from interpreters.cli.pieces import Style
from interpreters.cli.render import call_text
from interpreters.cli.terminal import err
from interpreters.program.approvals import NOBODY, Approval, ApprovalRequest, Approve
from interpreters.program.later import LATER

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


def approver(chosen: str | None, person: Person) -> Approve | None:
    """Who answers when a tool asks for approval, as ``--approve`` says it; None where such calls are to be refused.

    Raises:
        CommandError: what is chosen can't be used.
    """
    match chosen:
        case "all":
            return lambda _request: True
        case "none":
            return None
        case "later" if person.recording is None:
            raise CommandError("--approve later lets calls wait in the recording; give --record FILE too")
        case "later":
            return lambda _request: LATER
        case "ask" if not person.is_here:
            raise CommandError("--approve ask needs a terminal to ask at, and no --json; or let --approve later wait")
        case None | "ask":
            return (lambda request: ask_for(request, person)) if person.is_here else partial(_refuse, person)
        case name:
            found = load_named("--approve", name)
            if not callable(found) or isinstance(found, type):
                raise CommandError(f"--approve {name} is no function of a request; it has to return True or False")
            return found  # type: ignore[no-any-return]  # what it returns is checked where it is read


def _refuse(person: Person, request: ApprovalRequest) -> Approval:
    person.unasked.setdefault(request.call.name)
    return Approval(False, NOBODY)


def refused_lines(person: Person) -> Iterator[str]:
    """What was refused in a turn for want of anybody to ask, and what lets it run."""
    if person.unasked:
        names = ", ".join(shown_name(name) for name in person.unasked)
        person.unasked.clear()
        lets_run = "--approve all lets such calls run, later lets them wait, and MODULE:NAME decides"
        yield f"! a call was refused, since nobody was here to approve it; {lets_run}: {names}"


def ask_for(request: ApprovalRequest, person: Person) -> Approval:
    """Ask the person whether a call may run."""
    output = person.output

    def show(longest: int | None) -> None:
        lines = question_lines(request.call, request.reason, longest)
        output.attempt(lambda: err().write_lines(lines, whole=True))

    def read(line: str) -> Approval | None:
        letter = line.lower()[:1]
        if cut and letter == "s":
            show(None)
        return ANSWERS.get(letter)

    output.clear()
    show(LONGEST_CALL)
    cut = len(call_text(request.call, whole=True)) > LONGEST_CALL
    return person.asked(
        "the call",
        QUESTION_ABOUT_A_LONG_ONE if cut else QUESTION,
        read,
        nobody=Approval(False, "nobody answered"),
        stopped=Approval(False, "the user asked to stop"),
    )


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

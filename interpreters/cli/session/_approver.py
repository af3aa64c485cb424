"""Choose who answers approval requests. For the question at the terminal see ``_approval_dialog``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cognition.base.display import shown_name
from interpreters.cli._errors import CommandError
from interpreters.cli.options.user_modules import load_named
from interpreters.cli.session._approval_dialog import Decision
from interpreters.cli.session._prompt import Person
from interpreters.loop.program.approvals import NOBODY, Approval, ApprovalRequest, Approve
from interpreters.loop.program.pending import LATER


def approver(chosen: str | None, person: Person) -> Approve | None:
    """Return the ``approve`` function for ``--approve``; None to refuse such calls.

    Raises:
        CommandError: the choice can't be used.
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
            return (lambda request: Decision(request, person).ask()) if person.is_here else partial(_refuse, person)
        case name:
            found = load_named("--approve", name)
            if not callable(found) or isinstance(found, type):
                raise CommandError(f"--approve {name} is no function of a request; it has to return True or False")
            return found  # type: ignore[no-any-return]  # what it returns is checked where it is read


def _refuse(person: Person, request: ApprovalRequest) -> Approval:
    person.unasked.setdefault(request.call.name)
    return Approval(False, NOBODY)


def refused_lines(person: Person) -> Iterator[str]:
    """Describe the calls refused in a turn because no user was there to ask, and how to allow them."""
    if person.unasked:
        names = ", ".join(shown_name(name) for name in person.unasked)
        person.unasked.clear()
        lets_run = "--approve all lets such calls run, later lets them wait, and MODULE:NAME decides"
        yield f"! a call was refused, since nobody was here to approve it; {lets_run}: {names}"

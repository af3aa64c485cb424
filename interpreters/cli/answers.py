"""Answers to what an open turn waits for, as they are typed: with ``resume --answer`` or /answer in a chat."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from cognition import AskApproval, AskUser, ReviewPlan
from cognition.shown import LONGEST_LINE, shown_name
from interpreters.cli.asking import read_choice, read_review
from interpreters.cli.errors import CommandError
from interpreters.cli.person import Person
from interpreters.cli.render import call_text
from interpreters.program.approvals import Approval
from interpreters.program.later import Postponable

APPROVALS = {
    "yes": Approval(True),
    "no": Approval(False, "the user said no"),
    "always": Approval(True, always=True),
    "never": Approval(False, "the user said never", always=True),
}


def read_answer(effect: Postponable, text: str) -> Any:
    """What was typed, as ``Agent.answer`` takes it.

    Raises:
        CommandError: it is no answer to that.
    """
    match effect:
        case AskApproval():
            for word, approval in APPROVALS.items():
                if text.strip().casefold() in (word, word[0] if word in ("yes", "no") else word):
                    return approval
            raise CommandError(f"{effect.effect_id} takes {', '.join(APPROVALS)}, not {text!r}")
        case ReviewPlan():
            answer = read_review(text)
            if answer is None:
                raise CommandError(f"{effect.effect_id} takes yes, no, or what is to change")
            return answer
        case AskUser(questions=questions):
            lines = [text] if len(questions) == 1 else _lines(text)
            answers = [read_choice(*each) for each in zip(questions, lines, strict=False)]
            if len(lines) != len(questions) or None in answers:
                several = "" if len(questions) == 1 else f" for each of {len(questions)} questions, as a JSON list"
                raise CommandError(f"{effect.effect_id} takes an option, its number or your own words{several}")
            return answers
        case _:
            return text


def _lines(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else []


def waiting_lines(pending: tuple[Postponable, ...], person: Person) -> Iterator[str]:
    """What an open turn waits for, and how it is answered."""
    for effect in pending:
        yield f"! {effect.effect_id} waits for {_wanted(effect)}"
    if not pending:
        return
    if person.goes_on:
        yield "! answer with /answer ID ANSWER, or give the turn up with /cancel"
    elif person.recording is None:
        yield "! the session is not recorded, so that nothing can be answered later; give --record FILE"
    else:
        told = shlex.quote(person.recording)
        yield f"! go on with: cogstep resume {told}, or --answer ID=ANSWER"


def _wanted(effect: Postponable) -> str:
    match effect:
        case AskApproval(call=call):
            return f"your approval of {call_text(call)}"
        case ReviewPlan(plan=plan):
            return f"your word on its plan: {_listed(plan.steps)}"
        case AskUser(questions=questions):
            asked = (f"{question.text} ({_listed(question.options)})" for question in questions)
            return f"your answer: {_listed(asked)}"
        case _:
            return f"the result of {call_text(effect.call)}"


def _listed(texts: Any) -> str:
    return shown_name(" / ".join(texts), LONGEST_LINE)

"""Ask the user the model's questions, and whether to approve its plan."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cognition import Plan, Question
from cognition.base.display import LONGEST_LINE, shown_name
from interpreters.cli.screen.styled import Style
from interpreters.cli.screen.terminal import err
from interpreters.cli.session._prompt import Prompt
from interpreters.loop.program.pending import LATER, Later
from interpreters.loop.program.questions import (
    Asked,
    AskQuestions,
    PlanAnswer,
    PlanRequest,
    QuestionRequest,
    ReviewPlans,
)

REVIEW = "[y]es, [n]o, or what is to change: "

NOTHING: tuple[str, ...] = ()
NOBODY = PlanAnswer(False, "nobody is here to review it")


def questioner(person: Prompt) -> AskQuestions:
    """Return the function that answers the model's questions.

    Without a terminal the questions wait in the recording. Without a recording they stay unanswered, which cancels the
    turn.
    """
    if not person.is_here:
        return lambda _request: None if person.recording is None else LATER
    return lambda request: ask_all(request, person)


def reviewer(person: Prompt) -> ReviewPlans:
    """Return the function that reviews the model's plans.

    Without a terminal the plans wait in the recording. Without a recording they are refused.
    """
    if not person.is_here:
        return lambda _request: NOBODY if person.recording is None else LATER
    return lambda request: review(request, person)


def ask_all(request: QuestionRequest, person: Prompt) -> Asked:
    """Ask all questions in order. Returns None if a question gets no answer."""
    answers: list[tuple[str, ...]] = []
    count = len(request.questions)
    person.output.clear()
    for number, question in enumerate(request.questions, 1):
        which = f"({number} of {count}) " if count > 1 else ""
        _show(person, question_lines(question, which))
        read = partial(read_choice, question)
        chosen = person.ask("the question", choice_prompt(question), read, nobody=NOTHING, stopped=NOTHING)
        if not chosen:
            return None
        answers.append(chosen)
    return answers


def review(request: PlanRequest, person: Prompt) -> PlanAnswer | Later:
    """Ask whether the model may carry its plan out."""
    person.output.clear()
    _show(person, review_lines(request.plan))
    stopped = PlanAnswer(False, "the user asked to stop")
    return person.ask("the plan", REVIEW, read_review, nobody=NOBODY, stopped=stopped)


def question_lines(question: Question, which: str = "") -> Iterator[tuple[str, Style]]:
    """Yield the question and its options, one per line."""
    header = f"{shown_name(question.header)}: " if question.header else ""
    yield f"? {which}{header}{shown_name(question.text, LONGEST_LINE)}", "warning"
    described = question.descriptions or ("",) * len(question.options)
    for label, option, description in zip(labels(question), question.options, described, strict=False):
        meant = f": {description}" if description else ""
        yield f"  {label}  {shown_name(option + meant, LONGEST_LINE)}", "plain"


def review_lines(plan: Plan) -> Iterator[tuple[str, Style]]:
    """Yield the plan, and the question whether to approve it."""
    yield "? the model proposes a plan; may it be carried out?", "warning"
    for number, step in enumerate(plan.steps, 1):
        yield f"  {number}. {shown_name(step, LONGEST_LINE)}", "plain"


def labels(question: Question) -> str:
    """Return the labels of the options: digits, or letters if an option is itself a number."""
    return "abcd" if any(option.strip().isdecimal() for option in question.options) else "1234"


def choice_prompt(question: Question) -> str:
    letters = labels(question)
    several = ", several with commas between them," if question.multiple else ""
    return f"{letters[0]} to {letters[len(question.options) - 1]}{several} or your own words: "


def read_choice(question: Question, line: str) -> tuple[str, ...] | None:
    """Return the options that a line names by label or text, or the line itself as a free answer. None for an empty
    line, or a digit without an option.
    """
    parts = [part.strip() for part in line.split(",")] if question.multiple else [line.strip()]
    parts = [part for part in parts if part]
    letters = labels(question)
    named = {option.strip().casefold(): option for option in question.options}
    named |= dict(zip(letters, question.options, strict=False))
    if parts and all(part.casefold() in named for part in parts):
        chosen = {named[part.casefold()] for part in parts}
        return tuple(option for option in question.options if option in chosen)
    if not parts or (letters == "1234" and all(len(part) == 1 and part.isdecimal() for part in parts)):
        return None
    return (line.strip(),)


def read_review(line: str) -> PlanAnswer | None:
    """Read the answer to a plan: yes, no, or a change request. None for an empty line."""
    match line.strip().casefold():
        case "":
            return None
        case "y" | "yes":
            return PlanAnswer(True)
        case "n" | "no":
            return PlanAnswer(False)
        case _:
            return PlanAnswer(False, line.strip())


def _show(person: Prompt, lines: Iterator[tuple[str, Style]]) -> None:
    person.output.attempt(lambda: err().write_lines(lines, whole=True))
    person.discard_typed()

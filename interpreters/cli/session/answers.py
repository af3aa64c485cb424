"""Read typed answers to the pending questions of a turn: from ``resume --answer``, or ``/answer`` in a chat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cognition import AskApproval, AskUser, ConfigError, ReviewPlan, ToolCall, ToolSpec
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.base.strict_json import LENIENT
from cognition.policy import proposed_rules, remembered_rule
from cognition.policy.rules import Action
from interpreters.cli._errors import CommandError
from interpreters.cli.screen.render import call_text
from interpreters.cli.session._call_editor import EditError, find_changes, read_arguments
from interpreters.cli.session._prompt import Prompt
from interpreters.cli.session._questions import read_choice, read_review
from interpreters.loop.program.approvals import Approval
from interpreters.loop.program.pending import Postponable

APPROVALS = {"yes": "y", "no": "n", "always": "a", "never": "v", "edit": "e"}
"""Possible answers to an approval, each with its letter, as in the question at the terminal (``_approval_dialog``)."""
SAID = "yes, no REASON, always RULE, never RULE or edit JSON"
LEFT_OUT = "REASON may be left out, and RULE, for every call of the tool"


def read_answer(effect: Postponable, text: str, tools: Iterable[ToolSpec] = ()) -> Any:
    """Convert typed text to an answer for ``Agent.answer``.

    Args:
        effect: the pending effect.
        text: the typed text.
        tools: the session's tools; reading a rule depends on its tool.

    Raises:
        CommandError: the text is not an answer to this effect.
    """
    match effect:
        case AskApproval():
            try:
                return _approval(effect.call, text.strip(), tools)
            except CommandError as error:
                raise CommandError(f"{effect.effect_id} {error}") from error
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


def _approval(call: ToolCall, text: str, tools: Iterable[ToolSpec]) -> Approval:
    said, _, more = text.partition(" ")
    said, more = said.casefold().rstrip(",:"), more.strip()
    word = next((word for word, letter in APPROVALS.items() if said in (word, letter)), None)
    match word:
        case "yes" if not more:
            return Approval(True)
        case "no":
            return Approval(False, more or "the user said no")
        case "always":
            return Approval(True, always=True, rule=_rule("allow", more, call, tools))
        case "never":
            return Approval(False, "the user said never", always=True, rule=_rule("deny", more, call, tools))
        case "edit":
            try:
                return Approval(True, arguments=find_changes(call.arguments, read_arguments(more)))
            except EditError as error:
                how = 'takes all arguments as JSON behind edit, such as: edit {"path": "a.txt"}'
                raise CommandError(f"{how}; {error}") from error
        case _:
            raise CommandError(f"takes {SAID}, not {text!r}; {LEFT_OUT}")


def _rule(action: Action, text: str, call: ToolCall, tools: Iterable[ToolSpec]) -> str:
    """Return a rule that fits this call; empty for the whole tool, as if no rule was typed."""
    tool = _tool(call, tools)
    if text in ("", tool.name):
        return ""
    try:
        remembered_rule(action, text, call, tool)
    except ConfigError as error:
        offered = ", ".join(proposed_rules(call, tool))
        raise CommandError(f"can't be answered so: {error}; there are for this call: {offered}") from error
    return text


def _tool(call: ToolCall, tools: Iterable[ToolSpec]) -> ToolSpec:
    return next((tool for tool in tools if tool.name == call.name), None) or ToolSpec(call.name)


def _lines(text: str) -> list[str]:
    try:
        found = LENIENT.decode(text)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else []


def pending_lines(pending: tuple[Postponable, ...], person: Prompt, tools: Iterable[ToolSpec] = ()) -> Iterator[str]:
    """Describe the pending effects of an open turn, and how to answer them."""
    for effect in pending:
        yield f"! {effect.effect_id} waits for {_describe_answer(effect)}"
    if not pending:
        return
    can_be_answered = person.goes_on or person.recording is not None
    asked = [effect.call for effect in pending if isinstance(effect, AskApproval)]
    if asked and can_be_answered:
        yield f"! to a call ANSWER is {SAID}"
    for call in asked if can_be_answered else ():
        rules = proposed_rules(call, _tool(call, tools))
        if len(rules) > 1:
            yield f"! RULE may be {', '.join(shown_name(rule, LONGEST_LINE) for rule in rules)}"
    if person.goes_on:
        yield "! answer with /answer ID ANSWER, or give the turn up with /cancel"
    elif person.recording is None:
        yield "! the session is not recorded, so that nothing can be answered later; give --record FILE"
    else:
        yield f"! go on with: cogstep resume {person.typed}, or --answer ID=ANSWER"


def _describe_answer(effect: Postponable) -> str:
    match effect:
        case AskApproval(call=call):
            return f"your approval of {call_text(call)}"
        case ReviewPlan(plan=plan):
            return f"your word on its plan: {_join_texts(plan.steps)}"
        case AskUser(questions=questions):
            asked = (f"{question.text} ({_join_texts(question.options)})" for question in questions)
            return f"your answer: {_join_texts(asked)}"
        case _:
            return f"the result of {call_text(effect.call)}"


def _join_texts(texts: Any) -> str:
    return shown_name(" / ".join(texts), LONGEST_LINE)

"""What a program answers when it is asked, as messages."""

from __future__ import annotations

from typing import Any

from cognition import ConfigError
from cognition.messages import json_object_text
from interpreters.approvals import Approval
from interpreters.asking import HookAnswer, PlanAnswer, chosen_options
from interpreters.handles import messages as say


def answer_of(asked: say.Asked, answer: Any) -> say.Request:
    """What a program's answer is as a message; the same values as an ``Agent`` takes.

    Raises:
        ConfigError: it is no answer to that.
    """
    place = (asked.session, asked.turn, asked.number)
    match asked, answer:
        case say.ApprovalAsked(), bool():
            return say.ApprovalAnswer(*place, answer)
        case say.ApprovalAsked(), Approval():
            return say.ApprovalAnswer(*place, answer.allowed, answer.reason, answer.always)
        case say.QuestionsAsked(), None:
            return say.Choice(*place, declined=True)
        case say.QuestionsAsked(questions=questions), _:
            return say.Choice(*place, chosen_options(questions, answer))
        case say.PlanAsked(), bool():
            return say.PlanVerdict(*place, answer)
        case say.PlanAsked(), PlanAnswer():
            return say.PlanVerdict(*place, answer.approved, answer.feedback)
        case say.HookAsked(), None:
            return say.HookVerdict(*place)
        case say.HookAsked(), HookAnswer():
            arguments = answer.arguments
            if arguments is not None:
                json_object_text(arguments)  # raises for what JSON can't carry
            given = None if arguments is None else dict(arguments)
            return say.HookVerdict(*place, answer.verdict, answer.reason, given, answer.context)
        case _:
            raise ConfigError(f"{answer!r} is no answer to {say.TAG_OF[type(asked)]}")

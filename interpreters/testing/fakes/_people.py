"""Scripted users: approvals, answers to questions, reviews of plans."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Generic, TypeVar

from interpreters.loop.program.approvals import Answer, ApprovalRequest
from interpreters.loop.program.questions import Chosen, PlanAnswer, PlanRequest, QuestionRequest
from interpreters.testing.fakes.scripts import ScriptError

Request = TypeVar("Request")
Reaction = TypeVar("Reaction")


class _ScriptedUser(Generic[Request, Reaction]):
    """Answers in order; a question beyond the script is an error that ends the test."""

    _what = "answers"

    def __init__(self, answers: Iterable[Reaction | Future[Reaction]]) -> None:
        self.requests: list[Request] = []
        """The requests so far, in order."""
        self._answers = iter(answers)

    def __call__(self, request: Request) -> Reaction | Future[Reaction]:
        self.requests.append(request)
        try:
            return next(self._answers)
        except StopIteration:
            raise ScriptError(
                f"the script has {len(self.requests) - 1} {self._what}, and one more was asked for: {request!r}"
            ) from None


class ScriptedApprovals(_ScriptedUser[ApprovalRequest, Answer]):
    """``Agent(..., approve=ScriptedApprovals([True, Approval(False, "too risky")]))``."""

    _what = "approvals"


class ScriptedAnswers(_ScriptedUser[QuestionRequest, Chosen]):
    """Answers to the model's questions: ``ask=ScriptedAnswers([["red"], None])``; None means that the user does not
    answer.
    """


class ScriptedReviews(_ScriptedUser[PlanRequest, bool | PlanAnswer]):
    """Reviews of the model's plans: ``review=ScriptedReviews([PlanAnswer(False, "shorter, please"), True])``."""

    _what = "reviews"

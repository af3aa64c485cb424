"""Whom the facade asks before a call runs, and what it makes of the answer."""

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from cognition import (
    AskApproval,
    ConfigError,
    Policy,
    Rule,
)
from interpreters import (
    Agent,
    Approval,
    ApprovalRequest,
)
from interpreters.testing.fakes import ScriptedApprovals, ScriptedModel, call
from tests.interpreters.simple_tools import multiply, pay, statuses

# ----------------------------------------------------------------------------------------------------- the approvals


def test_an_approved_call_runs() -> None:
    """Whoever is asked sees what is to run."""
    asked: list[tuple[str, dict[str, Any], str, bool]] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append((request.call.name, request.call.arguments, request.reason, request.cancelled))
        return True

    with Agent(ScriptedModel([call("pay", amount=3), "Paid."]), tools=[pay], approve=approve) as agent:
        agent.run("Pay 3.")

    assert statuses(agent) == [("paid 3", "ok")]
    assert asked == [("pay", {"amount": 3}, "the tool asks for approval", False)]


def test_a_refused_call_does_not_run_and_the_model_is_told_why() -> None:
    approvals = ScriptedApprovals([Approval(False, "too much")])

    with Agent(ScriptedModel([call("pay", amount=3), "All right."]), tools=[pay], approve=approvals) as agent:
        agent.run("Pay 3.")

    assert statuses(agent) == [("Error: the user refused this call: too much", "refused")]


def test_an_approval_from_now_on_is_not_asked_for_again() -> None:
    approvals = ScriptedApprovals([Approval(True, always=True)])
    model = ScriptedModel([call("pay", amount=3), call("pay", amount=4), "Paid."])

    with Agent(model, tools=[pay], approve=approvals) as agent:
        agent.run("Pay.")

    assert statuses(agent) == [("paid 3", "ok"), ("paid 4", "ok")]


def test_without_anybody_to_ask_a_call_is_refused() -> None:
    with Agent(ScriptedModel([call("pay", amount=3), "I may not."]), tools=[pay]) as agent:
        agent.run("Pay 3.")

    assert statuses(agent) == [("Error: the user refused this call: nobody is here to approve it", "refused")]


def test_policy_asks_for_what_the_tool_does_not() -> None:
    policy = Policy(rules=(Rule("ask", "multiply"),))
    approvals = ScriptedApprovals([True])

    with Agent(
        ScriptedModel([call("multiply", a=2, b=3), "6"]), tools=[multiply], policy=policy, approve=approvals
    ) as agent:
        agent.run("2 * 3?")

    assert len(approvals.requests) == 1


def test_an_approval_may_be_answered_from_another_thread() -> None:
    """``approve`` returns a Future, and whoever asks completes it when the answer is there."""
    questions: list[tuple[ApprovalRequest, Any]] = []
    asked = threading.Event()

    def approve(request: ApprovalRequest) -> Any:
        future: Any = Future()
        questions.append((request, future))
        asked.set()
        return future

    def answer() -> None:
        assert asked.wait(60)
        questions[0][1].set_result(True)

    thread = threading.Thread(target=answer)
    thread.start()
    with Agent(ScriptedModel([call("pay", amount=3), "Paid."]), tools=[pay], approve=approve) as agent:
        agent.run("Pay 3.")
    thread.join()

    assert statuses(agent) == [("paid 3", "ok")]


def test_a_question_that_can_not_be_asked_is_a_refusal() -> None:
    def approve(request: ApprovalRequest) -> bool:
        raise OSError("no terminal")

    with Agent(ScriptedModel([call("pay", amount=3), "I may not."]), tools=[pay], approve=approve) as agent:
        agent.run("Pay 3.")

    assert statuses(agent) == [("Error: the user refused this call: the user could not be asked", "refused")]


def test_an_answer_that_is_none_is_the_programs_error() -> None:
    """``None`` from a function that forgot to return must neither allow nor refuse, nor lose what is asked."""
    with (
        pytest.raises(ConfigError, match="approve has to return"),
        Agent(ScriptedModel([call("pay", amount=3)]), tools=[pay], approve=lambda request: None) as agent,  # type: ignore[arg-type,return-value]  # the wrong type is what is tested
    ):
        agent.run("Pay 3.")
    assert [type(effect) for effect in agent.pending] == [AskApproval]

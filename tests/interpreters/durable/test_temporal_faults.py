"""What strangers and accidents do to a session on Temporal: no message is lost, and nothing stops its workflow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.history.v1 import HistoryEvent

from cognition import (
    AskApproval,
    Cancelled,
    Completed,
    ConfigError,
    Image,
    LLMEngine,
    ToolReturned,
    ToolSpec,
    UserMessage,
)
from interpreters import LATER, Redaction, fakes, tool
from interpreters.durable._errors import DurableError
from interpreters.durable.definition import DurableAgent
from interpreters.durable.serialization import RunOutcome, input_text
from interpreters.durable.temporal import _serialization as temporal_texts
from interpreters.durable.temporal._serialization import Beginning
from interpreters.durable.temporal.workflow import SessionWorkflow, activities, beginning, cancellation, message, reply
from interpreters.recording.redactor import NUMBERED
from tests.interpreters.durable.outside import agent_of, answer_to
from tests.interpreters.durable.temporal.test_workflow import run, standing
from tests.interpreters.durable.temporal_histories import History

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


def echo(request: Any) -> str:
    return f"{request.system} {request.messages[-1].text}".strip()


async def later(_request: Any) -> Any:
    return LATER


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay an invoice."""
    return f"paid {amount}"


def paying(request: Any) -> Any:
    last = request.messages[-1]
    return fakes.call("pay", amount=3) if isinstance(last, UserMessage) else last.content


def payer(**given: Any) -> DurableAgent:
    return DurableAgent("payer", fakes.FunctionModel(paying), [pay], approve=later, **given)


def new(agent: DurableAgent, name: str = "ada") -> History:
    return History(SessionWorkflow, beginning(agent), activities(agent), name)


def outcome(ended: RunOutcome) -> Any:
    return ended.finished and ended.finished.outcome


# ------------------------------------------------------------------------------------------------------ what is heard


def test_a_message_whose_prompt_fails_is_heard_at_a_later_attempt_and_before_the_next() -> None:
    failures = [ValueError("the database is away"), ValueError("it is still away")]

    def system() -> str:
        if failures:
            raise failures.pop()
        return "Prompted:"

    async def story() -> tuple[list[str], Any]:
        agent = DurableAgent("echo", fakes.FunctionModel(echo), (), system)
        history = new(agent)
        history.send("put", message(agent, "one"))
        await history.signal("put", message(agent, "two"))
        await history.replay()
        return history.failures, [outcome(await standing(history)), (await standing(history)).turn]

    failed, (last, turns) = run(story)

    assert [("still away" in failed[0]), ("is away" in failed[1]), len(failed)] == [True, True, 2]
    assert (last, turns) == (Completed("Prompted: two"), 2)


def test_a_cancellation_does_not_wait_for_a_message_that_can_not_be_heard() -> None:
    async def story() -> tuple[RunOutcome, RunOutcome, int]:
        agent = DurableAgent("echo", fakes.FunctionModel(echo))
        history = new(agent)
        history.held = {"hear-1"}
        await history.signal("put", message(agent, "one"))
        waiting = await standing(history)
        await history.signal("put", cancellation(agent, "enough"))
        assert outcome(await standing(history)) == Cancelled("enough")
        await history.signal("put", message(agent, "two"))
        await history.replay()
        return waiting, await standing(history), history.asked_to_cancel

    waiting, ended, cancelled = run(story)

    assert (waiting.finished, waiting.turn) == (None, 0)
    assert (outcome(ended), ended.turn, cancelled) == (Completed("two"), 2, 1)


@pytest.mark.parametrize("odd", [("no JSON",), ("null",), ("{}",), ("[]",), ('{"type":"no_such"}',), (), ("{}", "{}")])
def test_what_is_no_input_is_told_and_stops_nothing(odd: tuple[str, ...]) -> None:
    async def story() -> tuple[RunOutcome, RunOutcome]:
        agent = DurableAgent("echo", fakes.FunctionModel(echo))
        history = new(agent)
        await history.signal("put", *odd)
        refused = await standing(history)
        await history.signal("put", message(agent, "one"))
        return refused, await standing(history)

    refused, ended = run(story)

    assert refused.error.startswith("an input that was put can't be read: ")
    assert (outcome(ended), ended.error) == (Completed("one"), "")


def test_a_message_that_no_model_takes_is_told_until_something_else_is_put() -> None:
    async def story() -> tuple[RunOutcome, RunOutcome]:
        agent = DurableAgent("echo", fakes.FunctionModel(echo, media=()))
        history = new(agent)
        history.send("put", message(agent, ["See:", Image.of(PNG)]))
        await history.signal("put", message(agent, "one"))
        refused = await standing(history)
        await history.signal("put", message(agent, "two"))
        return refused, await standing(history)

    refused, ended = run(story)

    assert "takes text alone" in refused.error
    assert (outcome(refused), refused.turn) == (Completed("one"), 1)
    assert (outcome(ended), ended.error) == (Completed("two"), "")


def test_an_answer_to_something_else_leaves_open_what_is_pending() -> None:
    async def story() -> tuple[RunOutcome, RunOutcome]:
        agent = payer()
        history = new(agent)
        await history.signal("put", message(agent, "Pay."))
        before = await standing(history)
        await history.signal("put", input_text(ToolReturned(before.pending[0].effect_id, "paid")))
        return before, await standing(history)

    before, after = run(story)

    assert isinstance(before.pending[0], AskApproval)
    assert after.pending == before.pending


def test_what_was_put_counts_before_it_is_heard() -> None:
    """Who asks how things stand after a signal is never told of the turn before, nor asked again."""

    async def story() -> list[RunOutcome]:
        agent = payer()
        history = new(agent)
        await history.signal("put", message(agent, "Pay."))
        pending = (await standing(history)).pending[0]
        history.held = {"hear-2"}
        await history.signal("put", reply(agent, pending, True))
        answered = await standing(history)
        other = new(agent)
        await other.signal("put", message(agent, "Pay."))
        await other.signal("put", cancellation(agent))
        other.held = {"hear-3"}
        await other.signal("put", message(agent, "Pay again."))
        return [answered, await standing(other)]

    for ended in run(story):
        assert (ended.pending, ended.finished) == ((), None)


# ------------------------------------------------------------------------------------------------------------- secrets

SECRETS = {name: f"hunter-{name}-4711" for name in ("message", "prompt", "answer", "reason", "failure")}


def test_no_secret_of_a_session_goes_to_the_server(tmp_path: Path) -> None:
    """Neither in signals, nor in what the workflow begins with, nor in what failing activities say."""
    fails = [1]

    def failing(text: str) -> Any:
        if fails.pop() if fails else 0:
            raise ValueError(SECRETS["failure"])
        return ()

    async def story() -> tuple[str, list[str], RunOutcome]:
        agent = DurableAgent(
            "outside",
            fakes.FunctionModel(lambda request: fakes.call("fetch") if len(request.messages) == 1 else "Done."),
            [ToolSpec("fetch", "Run outside.")],
            f"The password is {SECRETS['prompt']}.",
            context=[failing],
            redact=Redaction(secrets=SECRETS),
        )
        history = new(agent)
        await history.signal("put", message(agent, f"Mine is {SECRETS['message']}, or sk-{'A1b2' * 8}."))
        pending = (await standing(history)).pending[0]
        await history.signal("put", reply(agent, pending, SECRETS["answer"]))
        await history.signal("put", cancellation(agent, SECRETS["reason"]))
        await history.replay()
        return str(history.events), history.failures, await standing(history)

    kept, failures, ended = run(story)

    assert outcome(ended) == Completed("Done.")
    assert [secret for secret in (*SECRETS.values(), "A1b2A1b2") if secret in kept + str(failures)] == []
    assert "[redacted:failure]" in failures[0]


def test_two_processes_give_no_number_to_two_secrets() -> None:
    """Of two that carry out effects of one session, neither knows what the other one has numbered."""
    first, second = (f"sk-{letter * 4}{'1b2C' * 8}" for letter in "xy")

    @tool(read_only=True)
    def look(n: int) -> str:
        """Look."""
        return f"The key is {(first, second)[n]}."

    def answer(request: Any) -> Any:
        seen = [one.content for one in request.messages if hasattr(one, "content")]
        return fakes.call("look", n=len(seen)) if len(seen) < 2 else " ".join(seen)

    async def story() -> RunOutcome:
        agent = DurableAgent("user", fakes.FunctionModel(answer), [look])
        history = new(agent)
        history.elsewhere = {"1.2.1": activities(agent)}
        await history.signal("put", message(agent, "Go."))
        return await standing(history)

    said = outcome(run(story)).text
    numbers = NUMBERED.findall(said.encode())
    assert len(set(numbers)) == len(numbers) == 2, said


# --------------------------------------------------------------------------------------------------------------- sizes


def test_a_result_that_temporal_does_not_take_is_told_to_the_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporal_texts, "LARGEST", 10_000)
    made: list[int] = []

    @tool
    def print_out() -> str:
        """Print."""
        made.append(1)
        return '"' * 6000

    def answer(request: Any) -> Any:
        return fakes.call("print_out") if len(request.messages) == 1 else request.messages[-1].content

    async def story() -> RunOutcome:
        agent = DurableAgent("printer", fakes.FunctionModel(answer), [print_out])
        history = new(agent)
        await history.signal("put", message(agent, "Print."))
        return await standing(history)

    text = outcome(run(story)).text

    assert "it was done, but what came of it is lost: it has 12," in text
    assert made == [1]


def test_a_request_that_temporal_does_not_take_ends_its_turn_and_not_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(temporal_texts, "LARGEST", 10_000)

    async def story() -> list[Any]:
        agent = DurableAgent("echo", fakes.FunctionModel(echo, context_tokens=100_000))
        history = new(agent)
        outcomes = []
        for text in ("x" * 9_850, "two"):
            await history.signal("put", message(agent, text))
            outcomes.append(outcome(await standing(history)))
        return outcomes

    large, small = run(story)

    assert large.kind == "context_overflow"
    assert small == Completed("two")


# ----------------------------------------------------------------------------------------------------- going on as new


def test_what_goes_on_as_new_forgets_nothing() -> None:
    async def story() -> tuple[RunOutcome, str | None, RunOutcome]:
        agent = DurableAgent("echo", fakes.FunctionModel(echo))
        history = new(agent)
        history.is_long = True
        history.send("put", message(agent, "one"))
        await history.signal("put", "no input")
        assert history.went_on is not None
        again = History(SessionWorkflow, history.went_on, activities(agent))
        await again.go_on()
        after = await standing(again)
        await again.signal("put", message(agent, "two"))
        return after, again.result, await standing(again)

    after, result, ended = run(story)

    assert (outcome(after), after.turn, after.at > 0) == (Completed("one"), 1, True)
    assert "can't be read" in after.error
    assert (result, outcome(ended), ended.turn) == (None, Completed("two"), 2)


def test_a_turn_may_be_longer_than_a_history(tmp_path: Path) -> None:
    """Going on as new wherever nothing is under way changes nothing of what is done, nor of a worker's turn."""

    async def story(is_long: bool) -> tuple[list[str], RunOutcome, int]:
        agent, count = agent_of(tmp_path), 1
        history = new(agent)
        history.is_long = is_long
        text = message(agent, "Do it.")
        while text:
            await history.signal("put", text)
            await history.replay()
            while history.went_on is not None:
                before, history = history, await history.newest()
                count += history is not before
            now = await standing(history)
            text = reply(agent, now.pending[0], answer_to(now.pending[0])) if now.pending else ""
        return [one for one in history.asked if not one.startswith("hear")], now, count

    whole, ended, _ = run(lambda: story(False))
    parts, ended_too, histories = run(lambda: story(True))

    assert (parts, outcome(ended_too)) == (whole, outcome(ended))
    assert histories > 1


def test_who_was_told_to_end_ends_wherever_it_has_gone_on_as_new() -> None:
    async def story() -> History:
        agent = DurableAgent("echo", fakes.FunctionModel(echo))
        history = new(agent)
        history.is_long = True
        history.send("put", message(agent, "one"))
        await history.signal("end")
        return await history.newest()

    history = run(story)

    assert history.result is not None
    assert outcome(RunOutcome.read(history.result)) == Completed("one")


def test_what_is_too_large_to_go_on_as_new_goes_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporal_texts, "LARGEST", 17_000)

    async def story() -> History:
        agent = DurableAgent("echo", fakes.FunctionModel(echo))
        history = new(agent)
        for text in ("x" * 3000, "y" * 3000, "z" * 3000):
            history.is_long = text[0] == "z"
            await history.signal("put", message(agent, text))
        return history

    history = run(story)

    assert history.went_on is None
    assert (run(lambda: standing(history))).turn == 3


# ---------------------------------------------------------------------------------------------------- names and others


def test_a_session_may_be_named_as_a_worker() -> None:
    """Its name alone takes nothing from it: neither its prompt, nor that approvals may be given later."""

    async def story() -> RunOutcome:
        agent = DurableAgent("payer", fakes.FunctionModel(paying), [pay], lambda: "Prompt.", approve=later)
        history = new(agent, "team/1.1.1")
        await history.signal("put", message(agent, "Pay."))
        return await standing(history)

    assert [type(one) for one in run(story).pending] == [AskApproval]


def test_a_worker_whose_name_is_taken_fails_and_its_session_goes_on() -> None:
    def answer(request: Any) -> Any:
        if len(request.messages) == 1:
            return fakes.call("spawn_worker", name="ann", objective="look", tools=[])
        return request.messages[-1].content

    async def story() -> RunOutcome:
        agent = DurableAgent("boss", fakes.FunctionModel(answer), features=("workers",))
        history = new(agent)
        history.taken = {"ada/1.1.1"}
        await history.signal("put", message(agent, "Go."))
        return await standing(history)

    assert "its workflow failed: Workflow execution already started" in outcome(run(story)).text


def test_an_engine_of_its_own_and_two_agents_of_one_name_are_refused() -> None:
    """The workflow would step another engine than the definition names, and a session could not tell the two apart."""
    with pytest.raises(ConfigError, match="give it by a subclass of SessionWorkflow"):
        beginning(payer(engine=LLMEngine))
    with pytest.raises(ConfigError, match="two of the agents have the same name"):
        activities(payer(), payer())


def test_a_session_of_another_protocol_is_refused_by_its_version() -> None:
    text = beginning(payer())
    with pytest.raises(DurableError, match="protocol version 0 began this session, and this one has version 1"):
        Beginning.read(json.dumps(json.loads(text) | {"protocol": 0}))


# ------------------------------------------------------------------------------------------------------------- damage


def test_a_damaged_history_does_not_replay() -> None:
    """Neither one whose signals or results are exchanged, nor one in which a result can't be read."""

    def damaged(history: History, damage: Callable[[list[Any], list[Any]], None]) -> History:
        copy = new(payer())
        copy.events = [HistoryEvent.FromString(one.SerializeToString()) for one in history.events]
        signals = [one.workflow_execution_signaled_event_attributes for one in copy.events]
        results = [one.activity_task_completed_event_attributes for one in copy.events]
        damage(
            [one.input.payloads[0] for one in signals if one.signal_name == "put"],
            [one.result.payloads[0] for one in results if one.HasField("result")],
        )
        return copy

    def exchange(one: Any, other: Any) -> None:
        one.data, other.data = other.data, one.data

    def spoil(one: Any, data: bytes) -> None:
        one.data = data

    async def story() -> list[str]:
        agent = payer()
        history = new(agent)
        await history.signal("put", message(agent, "Pay."))
        await history.signal("put", reply(agent, (await standing(history)).pending[0], True))
        await history.signal("put", message(agent, "Pay again."))
        await history.replay()
        said = []
        for damage in (
            lambda signals, _: exchange(signals[0], signals[2]),
            lambda _, results: exchange(results[0], results[1]),
            lambda _, results: spoil(results[1], b"no JSON"),
            lambda _, results: spoil(results[1], b'"{}"'),
        ):
            with pytest.raises((workflow.NondeterminismError, RuntimeError)) as caught:
                await damaged(history, damage).replay()
            said.append(f"{type(caught.value).__name__} {caught.value}")
        return said

    exchanged, results, spoiled, empty = run(story)

    assert "NondeterminismError" in exchanged
    assert "NondeterminismError" in results
    assert "Failed decoding arguments" in spoiled
    assert "what the engine kept of a step can't be read: 'at'" in empty

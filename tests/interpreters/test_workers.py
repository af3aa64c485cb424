"""Workers: engines and states of their own, several at once, never with more than their parent. For every way."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from cognition import (
    Cancelled,
    Completed,
    Failure,
    Limits,
    ModelRequest,
    Policy,
    Rule,
    Usage,
    UserMessage,
)
from interpreters import Agent, Approval, ApprovalRequest, HookRequest, ToolContext, events, fakes, replay, tool
from interpreters.observing.events import Event
from interpreters.testing.fakes import Hold, Reply, Script, Scripted, ScriptedModel, ScriptError, call
from tests.cognition.told import MAY_HAVE_HAPPENED
from tests.interpreters.signs import PATIENCE
from tests.interpreters.ways import Way, every_way


@tool(read_only=True)
def look(what: str) -> str:
    """Look."""
    return f"saw {what}"


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def task_of(request: ModelRequest) -> str:
    first = request.messages[0]
    assert isinstance(first, UserMessage)
    return first.text


class Cast(ScriptedModel):
    """A model that plays several parts: each conversation has a script, known by the first word of its task."""

    def __init__(self, **parts: list[Script]) -> None:
        super().__init__(iter(lambda: self._reply, None))
        self._parts = {name: iter(script) for name, script in parts.items()}

    def _reply(self, request: ModelRequest) -> Scripted:
        entry = next(self._parts[task_of(request).split()[0].strip("!")])
        return entry(request) if callable(entry) else entry


def spawn(name: str, **more: Any) -> Any:
    return call("spawn_worker", name=name, objective=f"{name} works", **more)


@every_way
def test_workers_work_at_the_same_time_and_report(talk: Way) -> None:
    """Each in its own conversation; their results stand in call order, and what they took is the turn's."""
    both = threading.Barrier(2, timeout=PATIENCE)

    @tool(read_only=True)
    def meet() -> str:
        both.wait()
        return "met"

    model = Cast(
        Go=[[spawn("ann"), spawn("bob")], Reply("Both are done.", usage=Usage(9, 3))],
        ann=[call("meet"), Reply("Ann is done.", usage=Usage(5, 1))],
        bob=[call("meet"), Reply("Bob is done.", usage=Usage(7, 2))],
    )
    done = talk(model, "Go together!", tools=[meet], features=["workers"])

    assert (["Both are done."], Usage(21, 6)) == (done.texts, done.results[0].usage)
    assert done.tool_results == [("Ann is done.", "ok"), ("Bob is done.", "ok")]
    own = [request for request in model.requests if task_of(request) == "ann works"]
    assert [[tool.name for tool in request.tools] for request in own] == [["meet"]] * 2


@every_way
def test_the_notes_are_used_by_one_at_a_time(talk: Way) -> None:
    """By workers and their parent: a memory is a plain object of the program's, which need not lock."""

    class Memory:
        def __init__(self) -> None:
            self.notes: list[str] = []
            self.users = self.most = 0

        def _use(self) -> None:
            self.users += 1
            self.most = max(self.most, self.users)
            time.sleep(0.01)
            self.users -= 1

        def remember(self, text: str) -> None:
            self._use()
            self.notes.append(text)

        def recall(self, query: str) -> list[str]:
            self._use()
            return self.notes[:1]

    def part(name: str) -> list[Script]:
        used = [[call("remember", text=f"{name} {number}"), call("recall", query=name)] for number in range(3)]
        return [*used, f"{name} is done."]

    memory = Memory()
    model = Cast(
        Go=[[spawn(name) for name in ("ann", "bob", "cid")], "Done."], ann=part("ann"), bob=part("bob"), cid=part("cid")
    )
    talk(model, "Go!", features=["workers", "memory"], memory=memory)

    assert (memory.most, len(memory.notes)) == (1, 9)


@every_way
def test_a_worker_waits_for_those_it_needs(talk: Way) -> None:
    """And reads their results; where one fails, those that need it never start."""
    model = Cast(
        Go=[[spawn("ann"), spawn("bob", after=["ann"])], [spawn("cid"), spawn("dan", after=["cid"])], "Done."],
        ann=["The code is 4711."],
        bob=[lambda request: f"Bob read: {task_of(request)}"],
        cid=[Failure("no such model", kind="fatal")],
    )
    done = talk(model, "Go!", features=["workers"])

    assert done.tool_results == [
        ("The code is 4711.", "ok"),
        ("Bob read: bob works\n\nResult of ann:\nThe code is 4711.", "ok"),
        ("Error: the worker failed: no such model", "error"),
        ("Error: worker 'dan' is cancelled because 'cid', which it needs, did not succeed", "error"),
    ]


@every_way
def test_a_worker_may_do_no_more_than_its_parent(talk: Way) -> None:
    """Policy, the user's word and the program's hooks hold for it; tools it was not given it does not have."""
    asked: list[tuple[str, str]] = []
    hooked: list[str] = []

    def approve(request: ApprovalRequest) -> Approval:
        asked.append((request.session, request.call.name))
        return Approval(False, "not today")

    def hook(request: HookRequest) -> None:
        hooked.append(f"{request.session} {request.call and request.call.name}")

    model = Cast(
        Go=[spawn("ann", tools=["pay", "look"]), "Done."],
        ann=[call("pay", amount=5), call("look", what="it"), call("spawn_worker", name="x", objective="y"), "No."],
    )
    policy = Policy(rules=(Rule("ask", "pay"), Rule("deny", "look", "private")))
    talk(
        model,
        "Go!",
        tools=[look, pay],
        features=["workers"],
        policy=policy,
        approve=approve,
        hooks={"before_tool": hook},
        session="s",
    )

    results = [m.content for m in model.requests[-2].messages if hasattr(m, "call_id")]
    assert results == [
        "Error: the user refused this call: not today",
        "Error: this call is not permitted: private",
        "Error: there is no tool 'spawn_worker'; there are look, pay",
    ]
    assert asked == [("s/1.1.2", "pay")]
    assert hooked == ["s spawn_worker", "s/1.1.2 pay", "s/1.1.2 look"]


@every_way
def test_the_program_is_asked_and_told_on_the_session_s_own_thread(talk: Way) -> None:
    """Also for a worker that runs elsewhere: whoever embeds an agent needs no locks."""
    main, threads, sessions = threading.current_thread(), set(), set()

    def watch(event: Event) -> None:
        threads.add(threading.current_thread())
        sessions.add(event.session)

    model = Cast(Go=[spawn("ann"), "Done."], ann=[call("look", what="it"), "Seen."])
    talk(model, "Go!", tools=[look], features=["workers"], observers=[events.Inline(watch)], session="s")

    assert ({main}, {"s", "s/1.1.1"}) == (threads, sessions)


def test_a_worker_s_approval_is_asked_on_the_session_s_own_thread() -> None:
    """Without an event loop, so that the terminal belongs to one thread."""
    threads: list[threading.Thread] = []

    def approve(request: ApprovalRequest) -> bool:
        threads.append(threading.current_thread())
        return True

    @tool(approval=True)
    def buy() -> str:
        return "bought"

    model = Cast(Go=[spawn("ann"), "Done."], ann=[call("buy"), "Bought."])
    with Agent(model, [buy], features=["workers"], approve=approve) as agent:
        agent.run("Go!")

    assert [threading.current_thread()] == threads


@every_way
def test_budgets_are_shared(talk: Way) -> None:
    """A worker has what is left of its parent's, and a limit without an answer is a failure."""
    model = Cast(
        Go=[spawn("ann"), "Done."],
        ann=[Reply(calls=call("look", what="it"), usage=Usage(0, 90))],
    )
    done = talk(model, "Go!", tools=[look], features=["workers"], limits=Limits(output_tokens=50))

    assert (done.tool_results) == [
        ("Error: the worker failed: its limit of output_tokens ended it without an answer", "error")
    ]
    assert Usage(0, 90) == done.results[0].usage


@every_way
def test_a_worker_that_gives_no_sign_of_life_is_given_up(talk: Way) -> None:
    """The parent goes on; the worker's model is told to stop."""
    hold = Hold()
    model = Cast(Go=[spawn("ann"), "Ann stalled."], ann=[Reply("I thi", hold=hold, usage=Usage(3, 1))])
    done = talk(model, "Go!", features=["workers"], worker_patience=0.05)

    assert done.texts == ["Ann stalled."]
    assert done.tool_results == [("Error: the worker stalled: no sign of life for 0.05 seconds", "error")]


@every_way
def test_cancelling_reaches_the_workers(talk: Way) -> None:
    """Their models and tools; and the turn ends as one."""
    agents: list[Any] = []
    told: list[bool] = []
    release = threading.Event()

    @tool
    def work(context: ToolContext[Any]) -> str:
        agents[0].cancel("enough")
        assert release.wait(PATIENCE)
        told.append(context.cancelled)
        return "late"

    def watch(event: Event) -> None:
        if isinstance(event.value, events.TurnFinished) and event.session == "s":
            release.set()

    model = Cast(Go=[spawn("ann"), "Hello again."], ann=[Reply(calls=call("work"), usage=Usage(5, 2))])
    done = talk(
        model, "Go!", "Go on.", tools=[work], features=["workers"], use=agents.append, observers=[watch], session="s"
    )

    assert [Cancelled("enough"), Completed("Hello again.")] == [result.outcome for result in done.results]
    assert done.tool_results == [(MAY_HAVE_HAPPENED, "cancelled")]
    assert (set(told) <= {True}, Usage(5, 2)) == (True, done.results[0].usage)


@every_way
def test_a_mode_reaches_the_workers_at_once(talk: Way) -> None:
    """What the parent may no longer do without asking, its workers may not either, from this moment on."""
    agents: list[Any] = []
    heard = threading.Event()

    @tool(read_only=True)
    def tighten(context: ToolContext[Any]) -> str:
        agents[0].set_mode("careful")
        context.progress("tightening")  # behind it in the parent's mailbox
        assert heard.wait(PATIENCE)
        return "tightened"

    def watch(event: Event) -> None:
        if isinstance(event.value, events.ToolProgress):
            heard.set()

    model = Cast(
        Go=[spawn("ann"), "Done."], ann=[call("tighten"), call("look", what="it"), call("pay", amount=1), "No."]
    )
    talk(model, "Go!", tools=[tighten, look, pay], features=["workers"], use=agents.append, observers=[watch])

    paid = [m.content for m in model.requests[-2].messages if getattr(m, "name", "") == "pay"]
    assert paid == ["Error: the user refused this call: nobody is here to approve it"]


@every_way
def test_a_script_that_does_not_fit_fails_the_test_also_in_a_worker(talk: Way) -> None:
    """The embedding program's own fault passes through, as in a turn without workers."""

    def wrong(request: ModelRequest) -> Scripted:
        raise ScriptError("this was not expected")

    with pytest.raises(ScriptError, match="not expected"):
        talk(Cast(Go=[spawn("ann")], ann=[wrong]), "Go!", features=["workers"])


@every_way
def test_a_session_with_workers_replays(talk: Way, tmp_path: Any) -> None:
    """Their results are inputs of the parent: a replay needs nothing of them."""
    model = Cast(Go=[[spawn("ann"), spawn("bob")], "Done."], ann=["Ann."], bob=["Bob."])
    done = talk(
        model, "Go!", features=["workers"], journal=tmp_path / "s.jsonl", clock=fakes.FakeClock(), worker_patience=None
    )
    report = replay(tmp_path / "s.jsonl").raise_for_divergence()

    assert done.state == report.state

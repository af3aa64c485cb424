"""Effects that cross: the core's own go out, its own inputs come in, and whatever is wrong with one refuses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from cognition import (
    AgentConfig,
    ApprovalGiven,
    AskApproval,
    AskUser,
    CallModel,
    CallTool,
    CancelAsked,
    Cancelled,
    ConfigError,
    EffectId,
    HookReturned,
    Input,
    PlanReviewed,
    QuestionAnswered,
    Recall,
    ReviewPlan,
    RunHook,
    SpawnWorker,
    StartTimer,
    ToolCall,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    Usage,
)
from interpreters import fakes, tool
from interpreters.hosting import AgentHost, HostError, QueueChannel, ToolWait, _protocol as say
from interpreters.hosting._host import Host
from interpreters.hosting._hosted_session import HostedSession, HostedTurn, Patience, Window
from interpreters.hosting._protocol import line_of, read_notice
from interpreters.hosting._turn_stream import Job
from interpreters.loop.mailbox_messages import NotBegun, Turn
from interpreters.loop.performers import Scope, unanswered_input
from interpreters.loop.program.program import Program
from interpreters.observing.observers import Observers
from interpreters.testing.fakes import Hold, Reply, ScriptedModel, call
from interpreters.tools.context import ToolContext
from tests.interpreters.hosting.common import host_of, look, pay, talk
from tests.interpreters.signs import PATIENCE, once

PAY = AgentConfig(tools=(ToolSpec("pay", approval=True),), features=("questions",), hooks=("stop",))


class ByHand:
    """A handle that is a test."""

    def __init__(self, *script: Any, config: AgentConfig = PAY, **settings: Any) -> None:
        self.channel, theirs = QueueChannel.pair()
        self.host = threading.Thread(target=Host(theirs, ScriptedModel(list(script))).serve)
        self.host.start()
        self.say(say.Init("1", "a", config, say.Settings(approvals=True, **settings)))
        self.say(say.RunTurn("a", 1, "Go!"))

    def say(self, request: say.Request) -> None:
        self.channel.send(line_of(request))

    def hear(self, kind: type) -> Any:
        """The next of a kind, whatever comes before it; None if there is none before the turn's end."""
        while True:
            notice = read_notice(self.channel.receive() or "")
            if isinstance(notice, kind):
                return notice
            if isinstance(notice, say.TurnEnded | say.TurnBroken):
                return None

    def answer(self, asked: say.Perform, answer: Input, **other: Any) -> None:
        place = {"session": "a", "turn": 1, "owner": asked.owner, "effect_id": asked.effect.effect_id, **other}
        self.say(say.Performed(**place, input=answer))

    def __enter__(self) -> ByHand:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        self.host.join(PATIENCE)


def results(ended: say.TurnEnded) -> list[tuple[str, str]]:
    return [(one.status, one.content) for one in ended.messages if isinstance(one, ToolMessage)]


# ---------------------------------------------------------------------------------------------------- what is no answer


@pytest.mark.parametrize(
    "wrong",
    [
        lambda asked: ToolReturned(asked.effect_id, "paid"),
        lambda asked: ApprovalGiven(EffectId("9.9.9")),
        lambda asked: HookReturned(asked.effect_id),
    ],
    ids=["another kind", "another effect", "a hook's"],
)
def test_an_input_that_does_not_answer_its_effect_lets_nothing_run(wrong: Callable[[Any], Input]) -> None:
    """It is said so, and the effect is refused; a right answer after it comes too late."""
    config = AgentConfig(tools=PAY.tools)
    with ByHand(call("pay"), "Oh.", config=config) as hand:
        asked = hand.hear(say.Perform)
        assert isinstance(asked.effect, AskApproval)
        hand.answer(asked, wrong(asked.effect))
        hand.answer(asked, ApprovalGiven(asked.effect.effect_id))
        fault = hand.hear(say.Faulted)
        ended = hand.hear(say.TurnEnded)

    assert "does not answer AskApproval 1.1.1" in fault.message
    assert results(ended) == [
        ("refused", f"Error: the user refused this call: {unanswered_input(asked.effect).reason}")
    ]  # type: ignore[union-attr]


def test_what_is_late_double_or_of_others_is_dropped() -> None:
    """Of another turn, another session, another effect; and what comes twice."""
    config = AgentConfig(tools=(ToolSpec("look"),))
    with ByHand(call("look"), "Done.", config=config) as hand:
        asked = hand.hear(say.Perform)
        answer = ToolReturned(asked.effect.effect_id, "wrong")
        for other in ({"turn": 2}, {"owner": "a/1.1.1"}, {"session": "b"}, {"effect_id": EffectId("1.2.1")}):
            hand.answer(asked, answer, **other)
        hand.say(say.ProgressReport("a", 1, "b", asked.effect.effect_id, "not mine"))
        hand.answer(asked, ToolFailed(asked.effect.effect_id, "it is dark"))
        hand.answer(asked, answer)
        ended = hand.hear(say.TurnEnded)
        hand.answer(asked, answer)

    assert results(ended) == [("error", "Error: it is dark")]


def test_a_user_who_will_not_answer_cancels_the_turn() -> None:
    questions = call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])
    with ByHand(questions) as hand:
        asked = hand.hear(say.Perform)
        assert isinstance(asked.effect, AskUser)
        hand.answer(asked, CancelAsked("not today"))
        assert Cancelled("not today") == hand.hear(say.TurnEnded).outcome


def test_nobody_waits_for_what_was_cancelled_and_the_handle_is_told() -> None:
    """For all kinds, and not after the turn's end."""
    for script in (call("pay"), call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}]), "Done."):
        with ByHand(script) as hand:
            asked = hand.hear(say.Perform)
            hand.say(say.Cancel("a", 1, "enough"))
            assert say.Dropped("a", 1, "a", asked.effect.effect_id) == hand.hear(say.Dropped)
            assert Cancelled("enough", "Done." if script == "Done." else "") == hand.hear(say.TurnEnded).outcome


# ----------------------------------------------------------------------------------------------------- performers there


def by(answer: Callable[[Any], Input], seen: list[Any]) -> Callable[[Any, Scope], Input]:
    def carry_out(effect: Any, scope: Scope) -> Input:
        seen.append((type(effect), scope.program.session))
        return answer(effect.effect_id)

    return carry_out


SCRIPT = [
    call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}]),
    call("enter_plan_mode"),
    call("submit_plan", steps=["pay"]),
    call("pay", amount=1),
    call("look", n=1),
    call("finish_step"),
    "Done.",
]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_performers_of_a_handle_carry_out_what_crosses(asynchronous: bool) -> None:
    """In place of tools, approvals, questions, plans and hooks, none of which is needed then; of a mere spec too."""
    seen: list[Any] = []

    def never(*_: Any) -> Any:
        raise AssertionError("a performer stands in its place")

    performers: dict[Any, Any] = {
        CallTool: by(lambda effect_id: ToolReturned(effect_id, "performed"), seen),
        AskApproval: by(ApprovalGiven, seen),
        AskUser: by(lambda effect_id: QuestionAnswered(effect_id, (("b",),)), seen),
        ReviewPlan: by(lambda effect_id: PlanReviewed(effect_id, True), seen),
        RunHook: by(HookReturned, seen),
    }
    if asynchronous:

        def later(perform: Any) -> Any:
            async def awaited(effect: Any, scope: Scope) -> Input:
                await asyncio.sleep(0)
                answer: Input = perform(effect, scope)
                return answer

            return awaited

        performers = {kind: later(one) for kind, one in performers.items()}
    with host_of(*SCRIPT) as host:
        handle = host.open(
            "a",
            [pay, ToolSpec("look")],
            features=["questions", "plan"],
            hooks={"stop": never},
            performers=performers,
        )
        result = asyncio.run(handle.run_async("Go!")) if asynchronous else handle.run("Go!")

    assert result.text == "Done."
    assert [one.content for one in result.calls if one.name in ("ask_user", "pay", "look")] == [
        "Which? b",
        "performed",
        "performed",
    ]
    assert seen == [(kind, "a") for kind in (AskUser, ReviewPlan, AskApproval, CallTool, CallTool, RunHook)]


def test_a_performer_of_what_the_host_does_is_refused() -> None:
    """It would be called by nobody."""
    for kind in (CallModel, Recall, SpawnWorker, StartTimer):
        with host_of() as host:
            with pytest.raises(ConfigError, match=f"performers: {kind.__name__} is carried out by the host"):
                host.open("a", performers={kind: print})
            assert "a" not in host


def test_a_performer_that_gives_no_answer_is_the_program_s_own_fault() -> None:
    """A wrong one is raised, as by an agent; one that fails refuses."""

    def fail(effect: Any, scope: Scope) -> Input:
        raise OSError("the line is dead")

    with host_of(call("look", n=1), call("look", n=1), "Oh.", call("pay", amount=1), "Oh.") as host:
        given: Any = {CallTool: lambda effect, scope: ApprovalGiven(effect.effect_id)}
        wrong = host.open("a", [look], performers=given)
        with pytest.raises(ConfigError, match="the performer of CallTool has to return ToolReturned or ToolFailed"):
            wrong.run("Go!")
        assert [one.status for one in host.open("b", [look], performers={CallTool: fail}).run("Go!").calls] == ["error"]
        refused = host.open("c", [pay], performers={AskApproval: fail}).run("Pay!")
        assert [one.status for one in refused.calls] == ["refused"]


def test_a_performer_s_future_is_cancelled_with_its_turn() -> None:
    """Whoever would complete it is told that nobody waits."""
    later: Future[Input] = Future()
    asked, told = threading.Event(), threading.Event()
    later.add_done_callback(lambda one: one.cancelled() and told.set())

    def forward(effect: Any, scope: Scope) -> Future[Input]:
        asked.set()
        return later

    with host_of(call("pay", amount=1), "Hello.") as host:
        handle = host.open("a", [pay], performers={AskApproval: forward})
        with once(asked, lambda: handle.cancel("enough")):
            assert Cancelled("enough") == handle.run("Pay!").outcome
        assert told.wait(PATIENCE)
        assert handle.run("Hi!").text == "Hello."


# ----------------------------------------------------------------------------------------------------- workers' effects


def test_effects_of_workers_say_whose_they_are() -> None:
    """Their ids may be those of the parent's: each gets the answer to its own, also side by side."""
    model = fakes.FunctionModel(
        lambda request: (
            request.messages[-1].content  # type: ignore[union-attr]
            if isinstance(request.messages[-1], ToolMessage)
            else call("look", n=1)
            if "own" in request.messages[0].text  # type: ignore[union-attr]
            else [
                call("spawn_worker", name="ann", objective="your own", tools=["look"]),
                call("spawn_worker", name="bob", objective="your own", tools=["look"]),
            ]
        )
    )
    waits: list[ToolWait] = []
    with AgentHost.in_thread(model) as host:
        handle = host.open("a", [ToolSpec("look", read_only=True)], features=["workers"])
        with handle.stream("Go!") as stream:
            for item in stream:
                if isinstance(item, ToolWait):
                    waits.append(item)
                    if len(waits) == 2:
                        for wait in waits:
                            wait.give(f"seen by {wait.session}")

    assert len({wait.effect.effect_id for wait in waits}) == 1
    owners = {wait.session for wait in waits}
    assert len(owners) == 2
    assert {one.content.split("\n")[-1] for one in stream.result.calls} == {f"seen by {owner}" for owner in owners}


# ---------------------------------------------------------------------------------------- versions, and what has no end


def test_another_version_is_refused_with_both_numbers() -> None:
    """The first one did not say it."""
    said = talk([line_of(say.Start("1")), '{"type": "start", "id": "2", "version": 2}'], ScriptedModel([]))
    assert [notice.message for notice in said] == [
        f"these messages have version {version}; this host speaks 5" for version in (1, 2)
    ]
    assert '"version":5' in line_of(say.Start("1", say.VERSION))


@pytest.mark.parametrize("option", ["tool_wait", "worker_patience"])
def test_what_is_given_without_end_is_refused_where_it_is_set(option: str) -> None:
    """None means that; and the name is free for another try."""
    with host_of("Hello.") as host:
        with pytest.raises(
            ConfigError,
            match=f"init.settings.{option}: a number that is not finite, which JSON does not have; None means",
        ):
            host.open("a", **{option: float("inf")})  # type: ignore[arg-type]
        assert "a" not in host
        assert host.open("a", **{option: None}).run("Hi!").text == "Hello."  # type: ignore[arg-type]


def test_what_a_host_can_not_write_ends_its_turn_all_the_same() -> None:
    """Such as the cost of a model that says it is infinite."""
    with AgentHost.in_thread(ScriptedModel([Reply("Hi.", usage=Usage(1, 1, cost=float("inf"))), "Hello."])) as host:
        handle = host.open("a")
        with pytest.raises(HostError, match="a number that is not finite"):
            handle.run("Hi!")
        assert any("a number that is not finite" in fault for fault in host.faults)
        assert handle.run("Hi!").text == "Hello."


def test_an_async_tool_and_a_plain_question_block_no_loop() -> None:
    """A plain function is asked on a thread, as by an AsyncAgent."""
    threads: list[bool] = []

    def approve(request: Any) -> bool:
        threads.append(threading.current_thread() is threading.main_thread())
        return True

    @tool(approval=True)
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(0)
        return "waited"

    with host_of(call("wait"), "Done.") as host:
        result = asyncio.run(host.open("a", [wait], approve=approve).run_async("Go!"))
    assert ([one.content for one in result.calls], threads) == (["waited"], [False])


# -------------------------------------------------------------------------------------------------- what comes too late


def test_what_was_dropped_before_it_was_read_is_not_asked() -> None:
    """Nobody waits for it, though the turn goes on; and who was asked before sees that."""
    asked: list[Any] = []
    withdrawn: Future[Any] = Future()

    def approve(request: Any) -> Future[Any]:
        asked.append(request)
        return withdrawn

    hold = Hold()
    with host_of(Reply("Hello.", hold=hold)) as host:
        handle = host.open("a", [pay], approve=approve)
        stream = handle.stream("Hi!")
        first, second = (AskApproval(EffectId(one), ToolCall("1", "pay", {"amount": 1})) for one in ("1.1.1", "1.1.2"))
        for effect in (first, second):
            stream.receive(say.Perform("a", stream.number, "a", effect))
        stream.receive(say.Dropped("a", stream.number, "a", second.effect_id))
        while not asked:
            stream._take_item(stream._items.get(timeout=PATIENCE))
        assert not asked[0].cancelled
        stream.receive(say.Dropped("a", stream.number, "a", first.effect_id))
        assert asked[0].cancelled
        hold.release()
        list(stream)
        assert (len(asked), withdrawn.cancelled(), stream.result.text) == (1, True, "Hello.")


def test_a_call_that_did_not_begin_says_nothing_of_itself() -> None:
    """It was cancelled here, and the host does not know yet: it must not hear that the call may have happened."""
    said: list[Any] = []

    class Late(Turn):
        """Over as soon as somebody asks whether something may begin."""

        def try_begin(self, effect_id: EffectId) -> bool:
            self.end()
            return super().try_begin(effect_id)

    with host_of("Hello.") as host:
        handle = host.open("a", [look])
        stream = handle.stream("Hi!")
        stream._begun = Late()
        handle.send = said.append  # type: ignore[method-assign]
        job = Job(
            say.Perform("a", 1, "a", CallTool(EffectId("1.1.1"), ToolCall("1", "look", '{"n": 1}'))), stream._begun
        )
        job.context = ToolContext(None, begins=lambda: job.try_begin(EffectId("1.1.1")))
        stream._jobs[job.key] = job
        stream._run(job)
        del handle.send
        list(stream)
    assert [one for one in said if isinstance(one, say.Performed)] == []


def test_what_a_turn_asks_behind_its_end_is_not_asked_in_the_next_one() -> None:
    """A call whose thread took its time: its turn is over, and another one is under way."""
    said: list[Any] = []
    session = HostedSession("a", AgentConfig(), say.Settings(), said.append)
    session._turn = HostedTurn(2, Window(None))
    scope = Scope(Program(ScriptedModel([])), Turn(ended=True), Observers((), "a"))
    with pytest.raises(NotBegun):
        session._forward(CallTool(EffectId("1.1.1"), ToolCall("1", "look")), scope)
    assert (said, session._turn.waits) == ([], {})
    session._turn = None
    session.dispose(None, "over")
    assert session.join(PATIENCE)


def test_patience_is_one_thread_that_goes_when_nothing_waits() -> None:
    """Each is given up in its time, oldest first; what is settled before is not."""
    before = set(threading.enumerate())
    given_up: list[int] = []
    patience = Patience(0.02)
    waits: list[Future[Any]] = [Future() for _ in range(4)]
    last = threading.Event()
    for number, wait in enumerate(waits):
        patience.watch(wait, partial(given_up.append, number) if number < 3 else last.set)
    waits[1].set_result(None)
    assert len(set(threading.enumerate()) - before) == 1
    assert last.wait(PATIENCE)
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
    Patience(None).watch(Future(), last.set)
    assert (given_up, set(threading.enumerate())) == ([0, 2], before)

"""What waits for an answer outlives the host and the program, and is answered through another host; once."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from cognition import (
    AgentConfig,
    ApprovalGiven,
    CallTool,
    CancelAsked,
    Cancelled,
    CogstepError,
    Completed,
    ConfigError,
    EffectId,
    HookReturned,
    Idle,
    ToolMessage,
    ToolReturned,
    ToolSpec,
)
from interpreters import LATER, AgentClosedError, PendingError, Suspended, replay, tool
from interpreters.agents.results import RunResult
from interpreters.hosting import (
    AgentHandle,
    AgentHost,
    HostDiedError,
    ModelChoice,
    QueueChannel,
    ToolWait,
    _protocol as say,
)
from interpreters.hosting._host import Host as HostSide
from interpreters.hosting._protocol import line_of, read_notice
from interpreters.testing._promising import in_a_process
from interpreters.testing.fakes import ScriptedModel, call
from tests.cognition.told import MAY_HAVE_HAPPENED
from tests.interpreters.hosting.common import host_of, talk
from tests.interpreters.signs import PATIENCE
from tests.interpreters.test_later import (
    ASKED_AT_ONCE,
    CASES,
    ORDER,
    Case,
    answered,
    interrupt,
    options,
    put_away,
    resumed,
    terminate,
    tools_of,
)
from tests.interpreters.test_workers import spawn

MODELS = "tests.interpreters.hosting.models"
ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children find the tests as modules."""
    monkeypatch.syspath_prepend(str(ROOT))


def in_thread(*replies: Any) -> AgentHost:
    return AgentHost.in_thread(ScriptedModel(list(replies)))


def in_process(*replies: Any) -> AgentHost:
    def written(reply: Any) -> Any:
        if isinstance(reply, str):
            return reply
        return [written(one) for one in reply] if isinstance(reply, list) else [reply.name, reply.arguments_json]

    script = list(map(written, replies))
    factories = {"scripted": f"{MODELS}:scripted"}
    return AgentHost.in_process(ModelChoice(factory="scripted", arguments={"replies": script}), factories=factories)


def kill(host: AgentHost) -> None:
    assert host.process is not None
    os.kill(host.process.pid, signal.SIGKILL)


Host = Callable[..., AgentHost]
Session = Callable[[Host, Path, Case, list[Any]], None]


def later(make: Host, path: Path, case: Case, tools: list[Any]) -> None:
    with make(case.call) as host:
        handle = host.open("a", tools, journal=path, **options())
        result = handle.run("Go!")
        assert (False, "", result.pending) == (result.ok, result.text, handle.pending)
        assert [case.effect] == [type(effect) for effect in result.pending]
        assert handle.unfinished


def later_in_asyncio(make: Host, path: Path, case: Case, tools: list[Any]) -> None:
    with make(case.call) as host:
        handle = host.open("a", tools, journal=path, **options())
        assert [case.effect] == [type(effect) for effect in asyncio.run(handle.run_async("Go!")).pending]


def disposed(make: Host, path: Path, case: Case, tools: list[Any]) -> None:
    with make(case.call) as host:
        handle = host.open("a", tools, journal=path, **options())
        handle.run("Go!")
        handle.dispose()


def killed(make: Host, path: Path, case: Case, tools: list[Any]) -> None:
    """The whole program, and with it a host in its process."""
    host = make(case.call)
    host.open("a", tools, journal=path, **options()).run("Go!")
    if host.process is not None:
        kill(host)
        host.process.wait()
    os.kill(os.getpid(), signal.SIGKILL)


def leaves(asked: Callable[[Any], Any], expected: type[BaseException]) -> Session:
    def session(make: Host, path: Path, case: Case, tools: list[Any]) -> None:
        with pytest.raises(expected), make(case.call) as host:
            host.open("a", tools, journal=path, **options(asked)).run("Go!")

    return session


def meanwhile(end: Callable[[AgentHost, AgentHandle], object]) -> Session:
    """The session is ended from elsewhere while somebody thinks about it."""

    def session(make: Host, path: Path, case: Case, tools: list[Any]) -> None:
        asked = threading.Event()
        results: list[RunResult | CogstepError] = []

        def ask(_request: Any) -> Any:
            asked.set()
            return Future()

        def run(handle: AgentHandle) -> None:
            try:
                results.append(handle.run("Go!"))
            except CogstepError as error:
                results.append(error)

        with make(case.call) as host:
            handle = host.open("a", tools, journal=path, **options(ask))
            thread = threading.Thread(target=run, args=(handle,))
            thread.start()
            assert asked.wait(PATIENCE)
            end(host, handle)
            thread.join(PATIENCE)
        (result,) = results
        assert isinstance(result, HostDiedError) or isinstance(result.outcome, Suspended)  # type: ignore[union-attr]

    return session


def cancelled_in_asyncio(make: Host, path: Path, case: Case, tools: list[Any]) -> None:
    """As a server's shutdown does it."""

    async def main(handle: AgentHandle, asked: asyncio.Event) -> None:
        running = asyncio.create_task(handle.run_async("Go!"))
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asked = asyncio.Event()

    async def ask(_request: Any) -> Any:
        asked.set()
        await asyncio.sleep(PATIENCE)

    with make(case.call) as host:
        asyncio.run(main(host.open("a", tools, journal=path, **options(ask)), asked))


LEAVING: dict[str, Session] = {
    "later": later,
    "later in asyncio": later_in_asyncio,
    "disposed": disposed,
    "killed": killed,
    "Ctrl-C": leaves(interrupt, KeyboardInterrupt),
    "SIGTERM": leaves(terminate, SystemExit),
    "a cancelled task": cancelled_in_asyncio,
    "disposed meanwhile": meanwhile(lambda host, handle: handle.dispose()),
    "closed meanwhile": meanwhile(lambda host, handle: host.close()),
    "the connection's end": meanwhile(lambda host, handle: host._channel.close()),
}
NOT_ASKED = ("later", "later in asyncio", "disposed", "killed")
"""Ways of leaving in which nobody has to be asked."""


def answered_there(make: Host, path: Path, case: Case, tools: list[Any]) -> None:
    with make("Done.") as host:
        handle = host.open("a", tools, journal=path, resume=True, **resumed())
        assert handle.unfinished
        (effect,) = handle.pending
        assert isinstance(effect, case.effect)
        result = handle.answer(effect.effect_id, case.answer)
        assert (result.text, result.pending, handle.pending, handle.unfinished) == ("Done.", (), (), False)
        assert result.messages[0].text == "Go!"  # type: ignore[union-attr]  # the turn's own first message
        assert [case.result] == [m.content for m in result.messages if isinstance(m, ToolMessage)]


def answered_in_asyncio(make: Host, path: Path, case: Case, tools: list[Any]) -> None:
    with make("Done.") as host:
        handle = host.open("a", tools, journal=path, resume=True, **resumed())
        (effect,) = handle.pending
        assert asyncio.run(handle.answer_async(effect.effect_id, case.answer)).text == "Done."


def answered_by_an_agent(_make: Host, path: Path, case: Case, tools: list[Any]) -> None:
    answered(path, case, tools)


def check_once(folder: Path, case: Case) -> None:
    assert replay(folder / "s.jsonl").raise_for_divergence().state.phase == Idle()
    paid = (folder / "paid").read_text() if (folder / "paid").exists() else ""
    assert ("3\n" if case.result == "paid 3" else "") == paid


TYPICAL = ("an approval", "an external call")
"""For these, a host in a process of its own stands in the table too; the others are slow in a thread."""
TABLE = [
    pytest.param(way, name, make, marks=[] if make is in_thread and name in TYPICAL else [pytest.mark.slow])
    for make in (in_thread, in_process)
    for way in LEAVING
    for name in CASES
    if (way in NOT_ASKED or name in ASKED_AT_ONCE) and (make is in_thread or name in TYPICAL)
]


@pytest.mark.behaviour("P16a")
@pytest.mark.parametrize(("leaving", "name", "make"), TABLE)
def test_what_waits_survives_its_host_and_is_answered_through_another(
    leaving: str, name: str, make: Host, tmp_path: Path
) -> None:
    path, case, tools = tmp_path / "s.jsonl", CASES[name], tools_of(tmp_path)
    ends = signal.SIGKILL if leaving == "killed" else 0

    in_a_process(lambda: LEAVING[leaving](make, path, case, tools), ends)
    in_a_process(lambda: answered_there(make, path, case, tools))

    check_once(tmp_path, case)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("answers", [answered_in_asyncio, answered_by_an_agent])
def test_what_a_host_left_is_answered_anywhere(name: str, answers: Session, tmp_path: Path) -> None:
    path, case, tools = tmp_path / "s.jsonl", CASES[name], tools_of(tmp_path)

    in_a_process(lambda: later(in_thread, path, case, tools))
    in_a_process(lambda: answers(in_thread, path, case, tools))

    check_once(tmp_path, case)


@pytest.mark.parametrize("name", CASES)
def test_what_an_agent_left_is_answered_through_a_host(name: str, tmp_path: Path) -> None:
    path, case, tools = tmp_path / "s.jsonl", CASES[name], tools_of(tmp_path)

    in_a_process(lambda: put_away(path, case, tools))
    in_a_process(lambda: answered_there(in_thread, path, case, tools))

    check_once(tmp_path, case)


@pytest.mark.behaviour("P16a")
@pytest.mark.parametrize("when", ["asked", pytest.param("pending", marks=pytest.mark.slow)])
def test_a_host_that_is_killed_keeps_what_waits_and_the_call_runs_once(when: str, tmp_path: Path) -> None:
    path, case, tools = tmp_path / "s.jsonl", CASES["an approval"], tools_of(tmp_path)

    def asked(_request: Any) -> Any:
        if when == "asked":
            kill(host)
        return LATER

    with in_process(case.call) as host:
        handle = host.open("a", tools, journal=path, **options(asked))
        if when == "asked":
            with pytest.raises(HostDiedError):
                handle.run("Go!")
        else:
            handle.run("Go!")
            kill(host)
            assert host._gone.wait(PATIENCE)
            with pytest.raises(HostDiedError):
                handle.answer("1.1.1", True)
    answered_there(in_process, path, case, tools)

    check_once(tmp_path, case)


@pytest.mark.slow
def test_a_call_whose_host_is_killed_while_it_runs_does_not_run_again(tmp_path: Path) -> None:
    """It was answered, it ran, and nobody could write down what came of it: the model is told that it may have."""
    path, ran = tmp_path / "s.jsonl", tmp_path / "ran"

    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        with ran.open("a") as file:
            file.write(f"{amount}\n")
        if hosts:
            kill(hosts.pop())
        return "paid"

    hosts: list[AgentHost] = []
    with in_process(call("pay", amount=3)) as host:
        hosts.append(host)
        handle = host.open("a", [pay], journal=path, approve=lambda request: LATER)
        handle.run("Go!")
        with pytest.raises(HostDiedError):
            handle.answer("1.1.1", True)
    with in_process("Done.") as host:
        handle = host.open("a", [pay], journal=path, resume=True, approve=lambda request: LATER)
        assert (handle.pending, handle.unfinished) == ((), True)
        assert "nobody knows whether it happened" in handle.resume_turn().calls[0].content

    assert ran.read_text() == "3\n"


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def waiting(host: AgentHost, **given: Any) -> AgentHandle:
    return host.open("a", [pay, ORDER], **{"approve": lambda request: LATER, **given})


@pytest.mark.behaviour("P16a")
def test_a_new_message_gives_up_nothing_and_only_cancel_does() -> None:
    with host_of(call("pay", amount=1), "Hello.") as host:
        handle = waiting(host)
        (effect,) = handle.run("Go!").pending
        for say_more in (handle.run, lambda text: list(handle.stream(text))):
            with pytest.raises(PendingError, match=r"AskApproval 1\.1\.1"):
                say_more("And now?")
            assert (effect,) == handle.pending

        assert handle.cancel("not today")
        assert (handle.pending, handle.unfinished, handle.cancel()) == ((), False, False)
        assert handle.run("And now?").text == "Hello."


def test_a_cancelled_message_gives_up_nothing_that_waits() -> None:
    """One that was refused, and whose cancellation comes at whatever moment."""
    with host_of(call("pay", amount=1), "Done.") as host:
        handle = waiting(host)
        handle.run("Go!")
        for _ in range(20):
            stream = handle.stream("And now?")
            stream.cancel("no")
            with pytest.raises(PendingError):
                list(stream)
        assert handle.answer("1.1.1", True).text == "Done."


def test_a_cancel_is_on_file_as_the_end_of_the_turn(tmp_path: Path) -> None:
    with host_of(call("order", pieces=1), "Hello.") as host:
        handle = waiting(host, journal=tmp_path / "s.jsonl")
        handle.run("Go!")
        handle.cancel("not today")
        handle.run("Hi!")
    report = replay(tmp_path / "s.jsonl").raise_for_divergence()

    assert report.turns == 2
    assert [m.content for m in report.state.history if isinstance(m, ToolMessage)] == [MAY_HAVE_HAPPENED]


def test_a_reset_gives_up_what_waits() -> None:
    with host_of(call("pay", amount=1), "Hello.") as host:
        handle = waiting(host)
        handle.run("Go!")
        handle.reset()
        assert (handle.pending, handle.run("Hi!").text) == ((), "Hello.")


def test_an_answer_is_streamed_like_a_message() -> None:
    with host_of(call("pay", amount=1), "Done.") as host:
        handle = waiting(host)
        handle.run("Go!")
        with handle.stream_answer("1.1.1", True) as stream:
            assert handle.pending == ()
            kinds = [type(event.value).__name__ for event in stream if not isinstance(event, ToolWait)]
        assert {"CallTool", "TextDelta", "TurnFinished"} <= set(kinds)
        assert stream.result.text == "Done."


def test_an_external_and_an_internal_call_of_one_reply_are_answered_one_after_the_other() -> None:
    with host_of([call("pay", amount=1), call("order", pieces=2)], "Done.") as host:
        handle = waiting(host)
        (approval,) = handle.run("Go!").pending
        (order,) = handle.answer(approval.effect_id, True).pending
        assert [made.content for made in handle.answer(order.effect_id, 7).calls] == ["paid 1", "7"]


def test_an_external_call_is_answered_in_the_stream_or_later() -> None:
    with host_of(call("order", pieces=2), call("order", pieces=3), "Done.") as host:
        handle = waiting(host)
        with handle.stream("Go!") as stream:
            for item in stream:
                if isinstance(item, ToolWait):
                    item.give("two") if item.arguments == {"pieces": 2} else item.later()
        (effect,) = stream.result.pending
        assert [made.content for made in handle.answer(effect.effect_id, "three").calls] == ["two", "three"]


def test_wrong_arguments_for_an_external_tool_go_back_to_the_model() -> None:
    with host_of(call("order", pieces="two"), "Sorry.") as host:
        result = waiting(host).run("Go!")

    assert (result.pending, result.text) == ((), "Sorry.")
    assert "pieces" in result.calls[0].content


def test_calls_that_only_look_are_answered_in_any_order() -> None:
    looks = [ToolSpec(name, read_only=True) for name in ("a", "b")]
    with host_of([call("b"), call("a")], "Done.") as host:
        handle = host.open("s", looks)
        first, second = handle.run("Go!").pending
        assert (first,) == handle.answer(second.effect_id, "second").pending
        assert [made.content for made in handle.answer(first.effect_id, "first").calls] == ["first", "second"]


@pytest.mark.parametrize(
    ("effect_id", "answer", "error", "told"),
    [
        ("9.9.9", True, CogstepError, "nothing waits for an answer under '9.9.9'; pending: AskApproval 1.1.1"),
        ("1.1.1", "yes", ConfigError, "answer takes True"),
        ("1.1.1", None, ConfigError, "answer takes True"),
    ],
)
def test_what_is_no_answer_changes_nothing(effect_id: str, answer: Any, error: Any, told: str) -> None:
    with host_of(call("pay", amount=1), "Done.") as host:
        handle = waiting(host)
        handle.run("Go!")
        with pytest.raises(error, match=told):
            handle.answer(effect_id, answer)
        assert handle.answer("1.1.1", True).text == "Done."
        with pytest.raises(CogstepError, match="pending: nothing"):
            handle.answer("1.1.1", True)


def test_ctrl_c_at_a_question_leaves_it_pending_in_this_process_too() -> None:
    with host_of(call("pay", amount=1), "Done.") as host:
        handle = waiting(host, approve=interrupt)
        with pytest.raises(KeyboardInterrupt):
            handle.run("Go!")
        assert handle.answer("1.1.1", True).text == "Done."


def test_a_session_that_was_disposed_of_is_answered_and_cancelled_by_nobody() -> None:
    with host_of(call("pay", amount=1), "Done.") as host:
        handle = waiting(host)
        handle.run("Go!")
        handle.dispose()
        assert not handle.cancel()
        with pytest.raises(AgentClosedError):
            handle.answer("1.1.1", True)


async def in_a_while(_request: Any) -> Any:
    return LATER


@pytest.mark.parametrize("window", [1, None])
def test_an_async_function_may_say_that_the_answer_comes_later(window: int | None) -> None:
    async def main(handle: AgentHandle) -> str:
        (effect,) = (await handle.run_async("Go!")).pending
        return (await handle.answer_async(effect.effect_id, True)).text

    with host_of(call("pay", amount=1), "Done.") as host:
        assert asyncio.run(main(waiting(host, approve=in_a_while, window=window))) == "Done."


def test_a_performer_may_answer_a_call_later() -> None:
    with host_of(call("pay", amount=1), "Done.") as host:
        handle = waiting(host, approve=lambda request: True, performers={CallTool: lambda effect, scope: LATER})
        (effect,) = handle.run("Go!").pending
        assert [made.content for made in handle.answer(effect.effect_id, "paid by hand").calls] == ["paid by hand"]


def test_go_on_asks_again() -> None:
    answers = iter([LATER, True])
    with host_of(call("pay", amount=1), "Done.") as host:
        handle = waiting(host, approve=lambda request: next(answers))
        handle.run("Go!")
        assert handle.resume_turn().text == "Done."


def test_a_worker_can_not_wait_and_its_call_is_refused() -> None:
    def reply(request: Any) -> Any:
        text = request.messages[-1].text if hasattr(request.messages[-1], "text") else ""
        return call("order", pieces=1) if text.startswith("ann") else "Told."

    with AgentHost.in_thread(ScriptedModel([spawn("ann"), reply, reply, "Done."])) as host:
        result = waiting(host, features=["workers"]).run("Go!")

    assert (result.pending, result.text) == ((), "Done.")


# ------------------------------------------------------------------------------------------- by hand, and by strangers

ID = EffectId("1.1.1")


def by_hand(model: Any, config: AgentConfig, *more: Callable[[], say.Request]) -> list[Any]:
    """What a host says to a handle that answers whatever it is asked with ``postponed``, and after each turn's end says
    the next of ``more``.
    """
    ours, theirs = QueueChannel.pair()
    thread = threading.Thread(target=HostSide(theirs, model).serve)
    thread.start()
    settings = say.Settings(approvals=True)
    for message in (say.Start("1", say.VERSION), say.Init("2", "a", config, settings), say.RunTurn("a", 1, "Go!")):
        ours.send(line_of(message))
    heard: list[Any] = []
    rest = list(more)
    while True:
        heard.append(notice := read_notice(ours.receive() or ""))
        if isinstance(notice, say.Perform):
            ours.send(line_of(say.EffectPostponed("a", notice.turn, notice.owner, notice.effect.effect_id)))
        elif isinstance(notice, say.TurnEnded | say.TurnBroken):
            if not rest:
                break
            ours.send(line_of(rest.pop(0)()))
    ours.close()
    thread.join(PATIENCE)
    return heard


def test_a_hook_can_not_be_answered_later() -> None:
    heard = by_hand(ScriptedModel([]), AgentConfig(hooks=("user_message",)))

    assert [n.message for n in heard if isinstance(n, say.Faulted)] == ["postponed does not answer RunHook 1.0.0"]
    assert not isinstance(heard[-1].outcome, Suspended)


def test_a_worker_s_effect_that_is_postponed_by_hand_is_refused() -> None:
    def reply(request: Any) -> Any:
        text = request.messages[-1].text if hasattr(request.messages[-1], "text") else ""
        return call("pay", amount=1) if text.startswith("ann") else "Told."

    model = ScriptedModel([spawn("ann"), reply, reply, "Done."])
    heard = by_hand(model, AgentConfig("", (pay.spec,), features=("workers",)))

    assert Completed("Done.") == heard[-1].outcome


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (say.GiveAnswer("a", 2, EffectId("9.9.9"), ApprovalGiven(EffectId("9.9.9"))), "CogstepError"),
        (say.GiveAnswer("a", 2, EffectId(""), CancelAsked()), "CogstepError"),
        (say.GiveAnswer("a", 2, ID, ToolReturned(ID, "paid")), "ConfigError"),
        (say.GiveAnswer("a", 2, ID, HookReturned(ID)), "ConfigError"),
        (say.GiveAnswer("a", 2, ID, ApprovalGiven(EffectId("1.1.2"))), "ConfigError"),
        (say.RunTurn("a", 2, "And now?"), "PendingError"),
        (say.GiveAnswer("b", 2, ID, ApprovalGiven(ID)), "AgentClosedError"),
    ],
)
def test_what_answers_nothing_that_waits_is_refused_and_it_waits_on(answer: Any, error: str) -> None:
    heard = by_hand(
        ScriptedModel([call("pay", amount=1)]),
        AgentConfig("", (pay.spec,)),
        lambda: answer,
        lambda: say.GiveAnswer("a", 3, ID, CancelAsked("enough")),
    )
    suspended, refused, end = (one for one in heard if isinstance(one, say.TurnEnded | say.TurnBroken))

    assert isinstance(suspended.outcome, Suspended)
    assert (refused.error, [effect.effect_id for effect in refused.pending]) == (error, [ID] * (answer.session == "a"))
    assert (Cancelled("enough"), 1) == (end.outcome, end.number)


def test_an_answer_that_can_not_be_read_ends_its_turn_all_the_same() -> None:
    line = line_of(say.GiveAnswer("a", 7, ID, ApprovalGiven(ID))).replace('"approval_given"', '"approval_taken"')
    (broken,) = talk([line])

    assert (broken.turn, broken.error) == (7, "ProtocolError")


def test_a_session_that_is_resumed_under_another_name_is_no_worker(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AgentHost.in_thread(ScriptedModel(["Hello."])) as host:
        host.open("a", [pay], journal=path).run("Hello?")

    with AgentHost.in_thread(ScriptedModel([call("pay", amount=3), "Done."])) as host:
        handle = host.open("b", [pay], journal=path, resume=True, approve=lambda request: LATER)
        (approval,) = handle.run("Go!").pending
        assert handle.answer(approval.effect_id, True).text == "Done."

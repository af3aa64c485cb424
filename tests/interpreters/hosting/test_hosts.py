"""Sessions behind a handle: like an ``Agent``, in a thread of this process. Processes have a page of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import attrs
import pytest

from cognition import CancelAsked, Cancelled, Completed, ConfigError, EffectId, Failed, Limits, Policy, Rule
from interpreters import (
    Approval,
    HookAnswer,
    HookRequest,
    PlanAnswer,
    ToolContext,
    ToolRetry,
    events,
    fakes,
    replay,
    tool,
)
from interpreters.hosting import AgentHost, HostDiedError, HostError, ModelChoice, QueueChannel, _protocol as say
from interpreters.hosting._protocol import line_of
from interpreters.loop.errors import AgentClosedError
from interpreters.observing.events import Event
from interpreters.recording.journal import Journal, JournalWriteError
from interpreters.testing.contracts import assert_calls, called
from interpreters.testing.fakes import Hold, Reply, ScriptedModel, ScriptError, call
from tests.interpreters.hosting.common import host_of, look, pay, talk
from tests.interpreters.signs import PATIENCE

# ---------------------------------------------------------------------------------------------------------- as an agent


def test_tools_run_on_the_handle_s_side_and_the_answer_comes_back() -> None:
    """With what the program gives to tools, in threads of this program; and the result is that of an agent."""
    threads: list[str] = []

    @tool
    def order(item: str, context: ToolContext[dict[str, int]]) -> str:
        """Order."""
        threads.append(threading.current_thread().name)
        context.progress("looking")
        if item not in context.deps:
            raise ToolRetry(f"there is no {item}")
        return f"{item} for {context.deps[item]}, says {context.tool} of {context.session}"

    told: list[Event] = []
    with host_of(call("order", item="pear"), call("order", item="plum"), call("order"), "Three.") as host:
        handle = host.open("cook", [order], "Be brief.", deps={"plum": 3}, observers=[told.append])
        result = handle.run("A plum!")

    assert Completed("Three.") == result.outcome
    assert [(made.status, made.content) for made in result.calls] == [
        ("error", "Error: there is no pear\nTry again."),
        ("ok", "plum for 3, says order of cook"),
        ("error", "Error: wrong arguments for order: item is missing"),
    ]
    assert_calls(result, called("order", item="pear"), called("order", item="plum"), called("order"))
    assert {"cognition-order"} != set(threads)
    assert [event.value.text for event in told if isinstance(event.value, events.ToolProgress)] == [
        "looking",
        "looking",
    ]
    assert [*range(1, len(told) + 1)] == [event.sequence for event in told]
    assert isinstance(told[-1].value, events.TurnFinished)


def test_the_program_is_asked_as_by_an_agent() -> None:
    """Approvals, questions, plans and hooks, on the thread that reads the stream; answers may be futures."""
    asked: list[tuple[str, str]] = []
    later: Future[Any] = Future()
    later.set_result(["b"])

    def note(what: str, answer: Any) -> Callable[[Any], Any]:
        def ask(request: Any) -> Any:
            assert threading.current_thread() is threading.main_thread()
            assert not request.cancelled
            asked.append((what, request.session))
            return answer

        return ask

    def hook(request: HookRequest) -> HookAnswer | None:
        asked.append((request.point, request.text))
        return HookAnswer(arguments={"amount": 2}) if request.call and request.call.name == "pay" else None

    script = [
        call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}]),
        call("enter_plan_mode"),
        call("submit_plan", steps=["pay"]),
        call("pay", amount=1),
        call("finish_step"),
        "Done.",
    ]
    with host_of(*script) as host:
        handle = host.open(
            "a",
            [pay],
            features=["questions", "plan"],
            approve=note("approve", Approval(True, "fine")),
            ask=note("ask", later),
            review=note("review", PlanAnswer(True)),
            hooks={"before_tool": hook, "stop": hook},
        )
        result = handle.run("Go!")

    assert Completed("Done.") == result.outcome
    assert [made.content for made in result.calls if made.name in ("ask_user", "pay")] == ["Which? b", "paid 2"]
    assert [entry for entry in asked if entry[0] != "before_tool"] == [
        ("ask", "a"),
        ("review", "a"),
        ("approve", "a"),
        ("stop", "Done."),
    ]


@pytest.mark.parametrize("answer", [False, Approval(False, "too much"), RuntimeError("nobody"), None])
def test_what_is_not_approved_does_not_run(answer: Any) -> None:
    """Whether it was refused, nobody could be asked, or nobody is there."""

    def approve(request: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with host_of(call("pay", amount=1), "Oh.") as host:
        given: Any = {} if answer is None else {"approve": approve}
        result = host.open("a", [pay], **given).run("Pay!")

    assert (Completed("Oh."), ["refused"]) == (result.outcome, [made.status for made in result.calls])


def test_a_user_may_decline_and_a_question_may_be_withdrawn() -> None:
    questions = call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])
    gone: Future[Any] = Future()
    gone.cancel()
    failed: Future[Any] = Future()
    failed.set_exception(OSError("the window was closed"))
    answers = iter([None, gone, failed])
    with host_of(questions, questions, questions) as host:
        handle = host.open("a", features=["questions"], ask=lambda request: next(answers))
        outcomes = [handle.run("Go!").outcome for _ in range(3)]

    assert [type(outcome).__name__ for outcome in outcomes] == ["Cancelled"] * 3


def test_a_fault_of_the_program_s_own_is_raised_as_by_an_agent() -> None:
    """A wrong answer, and a script that doesn't fit, also out of a future; the session goes on."""
    later: Future[Any] = Future()
    later.set_result("yes")
    answers = iter(["yes", later])
    with host_of(call("pay", amount=1), call("pay", amount=1), call("pay", amount=2), "Hi.") as host:
        handle = host.open("a", [pay], approve=lambda request: next(answers))
        for _ in range(2):
            with pytest.raises(
                ConfigError, match="approve has to return True, False, an Approval, a Future or LATER, not 'yes'"
            ):
                handle.run("Pay!")
        handle.program = attrs.evolve(handle.program, approve=fakes.ScriptedApprovals([]))
        with pytest.raises(ScriptError, match="0 approvals"):
            handle.run("Pay!")
        assert handle.run("Hi!").text == "Hi."


def test_what_is_missing_is_said_at_the_beginning() -> None:
    with host_of() as host:
        with pytest.raises(ConfigError, match="ask="):
            host.open("a", features=["questions"])
        with pytest.raises(HostError, match=r"memory=.*ConfigError"):
            host.open("a", features=["memory"])
        assert "a" not in host
        with pytest.raises(HostError, match="no such file"):
            host.open("a", journal="/nowhere/at/all/session.jsonl", resume=True)
        with pytest.raises(HostError, match="say which one"):
            host.open("a", resume=True)


def test_settings_reach_the_agent() -> None:
    """Policy, limits, notes: what an agent may be told, a session behind a handle may be told too."""
    with host_of(call("look", n=1), call("remember", text="blue"), call("recall", query="blue"), "Done.") as host:
        handle = host.open(
            "a",
            [look],
            features=["memory"],
            notes=":memory:",
            policy=Policy(rules=(Rule("deny", "look", "not today"),)),
            limits=Limits(steps=5),
        )
        result = handle.run("Go!")

    assert [(made.status, made.content) for made in result.calls if made.name in ("look", "recall")] == [
        ("refused", "Error: this call is not permitted: not today"),
        ("ok", "blue"),
    ]


def test_outcomes_and_sessions_are_kept_apart() -> None:
    """Several sessions share the model; each has its own history, numbers and calls."""
    with host_of("One.", "Two.", "Three.") as host:
        a, b = host.open("a"), host.open("b")
        assert [a.run("Hi!").text, b.run("Hi!").text, a.run("And?").text] == ["One.", "Two.", "Three."]
        assert (["a", "b"], 2, True, a) == (list(host), len(host), "a" in host, host["a"])
        assert host.open("a") is a
        a.dispose()
        a.dispose()
        assert (list(host), a.alive, b.alive) == (["b"], False, True)
        with pytest.raises(AgentClosedError):
            a.run("Hi!")


# ------------------------------------------------------------------------------------------------- journals, fork, end


def test_sessions_are_recorded_resumed_and_forked(tmp_path: Path) -> None:
    """A fork goes its own way from a turn, with the same tools; a resumed session knows what was said."""

    def count(request: Any) -> str:
        return f"{len(request.messages)} messages, {request.system}"

    path = tmp_path / "a.jsonl"
    with AgentHost.in_thread(fakes.FunctionModel(count)) as host:
        handle = host.open("a", [look], "Be brief.", journal=path)
        assert [handle.run("Hi!").text for _ in range(2)] == ["1 messages, Be brief.", "3 messages, Be brief."]
        fork = handle.fork("b", after=1, system="Be long.", journal=tmp_path / "b.jsonl")
        assert [fork.run("Hi!").text, handle.run("Hi!").text] == ["3 messages, Be long.", "5 messages, Be brief."]
        with pytest.raises(HostError, match="no journal is written by 'c'"):
            host.open("c").fork("d")
        with pytest.raises(ConfigError, match="'b' already"):
            handle.fork("b")
        with pytest.raises(HostError, match="turn 9"):
            handle.fork("e", after=9)
        assert list(host) == ["a", "b", "c"]
        handle.dispose()
        again = host.open("a", [look], journal=path, resume=True)
        assert (again.unfinished, again.run("Hi!").text) == (False, "7 messages, Be brief.")
        with pytest.raises(HostError, match="no turn was interrupted"):
            again.resume_turn()
    assert replay(path).same
    assert replay(path).turns == 4
    assert replay(tmp_path / "b.jsonl").same


def test_a_journal_that_is_taken_is_no_session(tmp_path: Path) -> None:
    """And the key is free for another try."""
    path = tmp_path / "a.jsonl"
    path.write_text("taken")
    with host_of("Hi.") as host:
        with pytest.raises(HostError, match="JournalExistsError") as caught:
            host.open("a", journal=path)
        assert caught.value.error == "JournalExistsError"
        assert host.open("a").run("Hi!").text == "Hi."


def test_a_journal_that_can_t_be_written_breaks_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No outcome is made up: the stream ends with the error's name, and the session can be used again."""
    with host_of("Hi.") as host:
        handle = host.open("a", journal=tmp_path / "a.jsonl")
        with monkeypatch.context() as full:

            def write(journal: Journal, *_: Any) -> None:
                raise JournalWriteError("no space left on device", path=journal.path)

            full.setattr(Journal, "write", write)
            with pytest.raises(HostError, match="no space left") as caught:
                handle.run("Hi!")
        assert caught.value.error == "JournalWriteError"
        assert handle.run("Hi!").text == "Hi."


def test_the_end_of_the_host_ends_every_stream(tmp_path: Path) -> None:
    """With an error that says so, after what still came; and what is asked of it afterwards raises the same."""
    hold = Hold()
    host = host_of(Reply("Once", hold=hold))
    handle = host.open("a", journal=tmp_path / "a.jsonl")
    stream = handle.stream("A story!")
    assert hold.reached.wait(PATIENCE)
    host.close()
    host.close()

    end = [item for item in stream if isinstance(item, Event)][-1].value
    assert isinstance(end, events.TurnFinished)
    assert Cancelled("the host was shut down", "Once") == end.outcome
    assert (host.alive, handle.alive, host.ended) == (False, False, "the host was closed")
    for use in (lambda: handle.run("Hi!"), handle.reset, lambda: host.open("b")):
        with pytest.raises(HostDiedError, match="the host was closed"):
            use()
    handle.dispose()


def test_a_channel_that_breaks_ends_every_stream_with_an_error() -> None:
    """Whatever the transport: what would be waited for is not waited for."""
    ours, theirs = QueueChannel.pair()
    lines: list[str] = []
    host = AgentHost(ours, on_gone=lambda: "the line was cut")
    opening: list[Any] = []
    thread = threading.Thread(target=lambda: opening.append(host.open("a")))
    thread.start()
    lines.append(theirs.receive() or "")
    theirs.send(line_of(say.Started("r1", "m", "b", 4096)))
    lines.append(theirs.receive() or "")
    theirs.send(line_of(say.Ready("r2", "a")))
    thread.join(PATIENCE)
    stream = opening[0].stream("Hi!")
    theirs.receive()
    theirs.send(line_of(say.Faulted("of the other side")))
    theirs.send(line_of(say.EventHappened("a", 1, {"value": {"type": "from_the_future"}})))
    theirs.close()

    with pytest.raises(HostDiedError, match="the line was cut"):
        list(stream)
    with pytest.raises(HostDiedError, match="the line was cut"):
        stream.result  # noqa: B018 - that it raises is what is tested
    assert host.faults == ["of the other side"]
    assert ['"type":"start","id":"r1","version":5' in lines[0], '"type":"init"' in lines[1]] == [True, True]


def test_a_script_with_replies_left_is_told_at_the_end() -> None:
    """What the model says against being closed reaches the program."""
    host = host_of("never asked for")
    host.close()

    assert "only 0 of the script's 1 replies" in host.faults[0]


def test_failures_of_the_model_are_outcomes() -> None:
    from cognition import Failure

    with host_of(Failure("the key is wrong", status=401)) as host:
        assert Failed("auth", "the key is wrong") == host.open("a").run("Hi!").outcome


# ---------------------------------------------------------------------------------------------------- by hand, a host


def test_a_host_answers_what_it_cannot_read() -> None:
    """By turn or by id where these can be read, so that nobody waits for ever."""
    said = talk(
        [
            "no JSON",
            '{"type": "run_turn", "session": "a", "turn": 3}',
            '{"type": "init", "id": "7", "session": 5}',
            line_of(say.RunTurn("a", 4, "Hi!")),
            line_of(say.Init("8", "a")),
            line_of(say.Start("9", version=99)),
            line_of(say.Fork("10", "nobody", "b")),
            line_of(say.Cancel("nobody", 1)),
            line_of(say.Performed("nobody", 1, "nobody", EffectId("1.1.1"), CancelAsked())),
            line_of(say.ProgressReport("nobody", 1, "nobody", EffectId("1.1.1"), "")),
        ]
    )

    assert [
        (type(n).__name__, n.turn if isinstance(n, say.TurnBroken) else n.id, n.error)
        if hasattr(n, "error")
        else "Faulted"
        for n in said
    ] == [
        "Faulted",
        ("TurnBroken", 3, "ProtocolError"),
        ("Refused", "7", "ProtocolError"),
        ("TurnBroken", 4, "AgentClosedError"),
        ("Refused", "8", "ConfigError"),
        ("Refused", "9", "ConfigError"),
        ("Refused", "10", "ConfigError"),
    ]


def test_a_turn_s_number_has_to_be_new() -> None:
    """A line that comes twice runs once."""
    turn = line_of(say.RunTurn("a", 2, "Hi!"))
    said = talk([line_of(say.Init("1", "a")), turn, turn], model=fakes.GeneratedModel([]))

    assert [notice.turn for notice in said if isinstance(notice, say.TurnEnded | say.TurnBroken)] == [2]
    assert [n.message for n in said if isinstance(n, say.Faulted)] == ["turn 2 of 'a' is not newer than turn 2"]


def test_a_name_is_taken_once() -> None:
    said = talk([line_of(say.Init("1", "a")), line_of(say.Init("2", "a"))], model=ScriptedModel([]))

    assert [n.message for n in said if isinstance(n, say.Refused)] == ["there is a session 'a' already"]


@pytest.mark.parametrize("factory", ["nowhere:model", "tests.interpreters.hosting.models:nothing", "a b"])
def test_a_factory_that_there_is_not_is_an_error(factory: str) -> None:
    start = line_of(say.Start("1", say.VERSION, ModelChoice(factory="mine")))
    (refused,) = talk([start], factories={"mine": factory})

    assert refused.error == "ConfigError"
    assert "write package.module:function" in refused.message

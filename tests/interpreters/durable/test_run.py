"""A durable run decides what any other does, wherever its processes are killed."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from itertools import count
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    CancelAsked,
    Cancelled,
    ConfigError,
    Input,
    LLMEngine,
    Remember,
    ToolReturned,
    ToolSpec,
    Transition,
    UserSpoke,
)
from interpreters import replay, tool
from interpreters.durable._errors import DurableDivergedError
from interpreters.durable._verifying_writer import VerifyingWriter
from interpreters.durable.definition import DurableAgent
from interpreters.durable.serialization import RunOutcome
from interpreters.loop.performers import CALL_UNKNOWN
from interpreters.recording.journal import Journal, JournalReader, NotAJournalError, TakenOverError
from interpreters.testing.durable import MemoryEngine, MemoryRecorder
from interpreters.testing.fakes import FunctionModel, Reply, call
from tests.interpreters.durable.stories import FULL, STORIES, lines_of_asyncio, lines_of_sync, suite
from tests.interpreters.durable.worlds import Said, Story, bare, decided, durably


def check(story: Story, kills: list[int], usual: list[Any], *, loses: bool = False) -> int:
    """See that the story comes out right; how many moments there were."""
    world, engine = asyncio.run(durably(story, kills, loses=loses))
    lines = engine.sessions["s"]
    if not any(CALL_UNKNOWN.encode() in line for line in lines):
        assert bare(lines) == usual
    else:
        assert kills
    for done, times in world.done.items():
        assert times <= asked_for(story, done) or done.startswith("look")
    for session in engine.sessions:
        assert replay(engine.recorder(session)).same
    return engine.moments


def asked_for(story: Story, done: str) -> int:
    """How often the model asked for a call of a tool that must not happen more often."""
    name, _, number = done.partition(" ")
    calls = [one for turn in story.turns for said in turn for one in said.reply.calls]
    return sum(one.name == name and f'"n":{number}' in one.arguments_json.replace(" ", "") for one in calls)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STORIES, st.data())
def test_it_decides_what_asyncio_does_wherever_it_is_killed_once_and_twice(story: Story, data: st.DataObject) -> None:
    usual = bare(lines_of_asyncio(story)[1])

    moments = check(story, [], usual)
    for loses in (False, True):  # whether the recordings' machine is killed, too
        first = data.draw(st.integers(1, moments))
        check(story, [first], usual, loses=loses)
        check(story, [first, first + data.draw(st.integers(1, 40))], usual, loses=loses)


def test_the_stories_are_the_same_on_a_slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it matter whether the profile of the tests is there: programs draw them too."""
    usual, profile = suite(), settings.get_current_profile_name()
    clock = SimpleNamespace(perf_counter=partial(next, count(0, 10)))
    monkeypatch.setattr("hypothesis.internal.conjecture.data.time", clock)
    settings.register_profile("hurried", deadline=200)
    settings.load_profile("hurried")
    try:
        assert suite.__wrapped__() == usual
    finally:
        settings.load_profile(profile)


def test_an_agent_without_a_loop_decides_what_asyncio_does() -> None:
    for story in suite():
        (alone, lines), (usual, others) = lines_of_sync(story), lines_of_asyncio(story)

        assert decided(lines) == decided(others)
        assert alone.done == usual.done


@pytest.mark.slow
def test_a_session_with_everything_in_it_can_be_killed_at_any_moment() -> None:
    usual = bare(lines_of_asyncio(FULL)[1])
    moments = check(FULL, [], usual)

    for moment in range(1 + random.randrange(3), moments + 1, 3):  # another third each time
        check(FULL, [moment, moment + 1 + moment % 7], usual)


def test_what_was_in_the_middle_of_happening_is_told_to_the_model_and_not_done_again() -> None:
    story = Story(((Said(Reply("", [call("send", n=1)])),),))
    told = 0
    for moment in range(1, check(story, [], bare(lines_of_asyncio(story)[1])) + 1):
        world, engine = asyncio.run(durably(story, [moment]))
        told += any(CALL_UNKNOWN.encode() in line for line in engine.sessions["s"])
        assert world.done["send 1"] <= 1

    assert told > 0


def test_large_results_are_payloads_wherever_it_is_killed() -> None:
    page = "A page. \ud83d \u00e9\n" * 9000

    @tool(read_only=True)
    def read() -> str:
        """Read."""
        return page

    def answer(request: Any) -> Any:
        return call("read") if len(request.messages) == 1 else page + "So it says."

    async def main(kills: list[int]) -> MemoryEngine:
        engine = MemoryEngine(kills)
        agent = DurableAgent("reader", FunctionModel(answer), [read], context_tokens=10**6)
        ended = await engine.run(agent, "ada", UserSpoke("Read!"))
        assert ended.finished is not None
        return engine

    usual = asyncio.run(main([]))
    moment = 0
    while moment < usual.moments:
        moment += 1
        engine = asyncio.run(main([moment, moment + 5]))
        assert bare(engine.sessions["ada"]) == bare(usual.sessions["ada"])
        assert engine.payloads == usual.payloads
        assert replay(engine.recorder("ada")).same
    assert len(usual.payloads["ada"]) == 2
    assert max(map(len, usual.sessions["ada"])) < 5000


def test_whoever_was_taken_over_can_append_nothing_more() -> None:
    async def main() -> None:
        engine = MemoryEngine()
        agent = DurableAgent("greeter", FunctionModel(lambda _request: "Hello."))
        await engine.run(agent, "ada", UserSpoke("Hi!"))
        one, _ = Journal.reopen(process_of(engine))
        with JournalReader(engine.recorder("ada")) as reader:
            records = list(reader)
        ahead = VerifyingWriter(one, len(records), (), agent.redactor())
        process_of(engine).lock(False)

        with pytest.raises(TakenOverError):
            ahead.write(UserSpoke("Hi!"), Transition(AgentState()))

    asyncio.run(main())


def process_of(engine: MemoryEngine) -> Any:
    return engine.recorder("ada")


def test_an_execution_that_decides_otherwise_than_an_earlier_one_shows_both() -> None:
    async def main() -> None:
        engine = MemoryEngine([12])
        first = DurableAgent("greeter", FunctionModel(lambda _request: "Hello."), engine=Shouting)
        with pytest.raises(DurableDivergedError, match="decided otherwise"):
            await engine.run(first, "ada", UserSpoke("Hi!"))

    Shouting.made = 0
    asyncio.run(main())


class Shouting(LLMEngine):
    """Decides otherwise in each process."""

    made = 0

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        Shouting.made += 1
        self.number = Shouting.made

    def step(self, state: AgentState, event: Input | None) -> Transition:
        transition = super().step(state, event)
        decisions = (*transition.decisions, *[Remember(str(self.number))])
        return evolve(transition, decisions=decisions)


def test_a_session_whose_tools_have_changed_is_refused_by_their_names() -> None:
    @tool
    def added(n: int) -> int:
        """Add."""
        return n

    async def main() -> RunOutcome:
        engine = MemoryEngine()
        model = FunctionModel(lambda _request: "Hello.")
        await engine.run(DurableAgent("greeter", model), "ada", UserSpoke("Hi!"))
        return await engine.run(DurableAgent("greeter", model, [added]), "ada", UserSpoke("Hi!"))

    with pytest.raises(ConfigError, match=r"other tools \(added is new\)"):
        asyncio.run(main())


def test_a_session_that_other_logic_began_is_refused_with_the_difference() -> None:
    async def main() -> None:
        engine = MemoryEngine()
        model = FunctionModel(lambda _request: "Hello.")
        Shouting.made = 0
        await engine.run(DurableAgent("greeter", model, engine=Shouting), "ada", UserSpoke("Hi!"))
        await engine.run(DurableAgent("greeter", model, engine=Shouting), "ada", UserSpoke("Hi!"))

    with pytest.raises(
        DurableDivergedError, match=r"other agent logic began the session(.|\n)*recorded:.*1(.|\n)*decided:.*2"
    ):
        asyncio.run(main())


def test_secrets_are_hidden_from_the_engine_and_from_the_recording() -> None:
    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"

    @tool(read_only=True)
    def read() -> str:
        """Read."""
        return f"the key is {secret}"

    def answer(request: Any) -> Any:
        return call("read") if len(request.messages) == 1 else f"It is {secret}."

    async def main() -> MemoryEngine:
        engine = MemoryEngine()
        agent = DurableAgent("greeter", FunctionModel(answer), [read])
        await engine.run(agent, "ada", UserSpoke("Hi!"))
        return engine

    engine = asyncio.run(main())
    kept = [text for _, text in engine.steps_of("run-1").values()]

    assert any("[redacted:" in text for text in kept)
    assert not any(secret in text for text in kept)
    assert not any(secret.encode() in line for line in engine.sessions["ada"])


def test_an_answer_a_workers_answer_and_an_error_are_hidden_too() -> None:
    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"

    def answer(request: Any) -> Any:
        if any(tool.name == "spawn_worker" for tool in request.tools) and len(request.messages) == 1:
            return call("spawn_worker", name="reader", objective="Read.")
        return f"It is {secret}."

    def approve(_request: Any) -> Any:
        raise ConfigError(f"not with {secret}")

    async def main() -> tuple[MemoryEngine, list[RunOutcome]]:
        engine = MemoryEngine()
        parent = DurableAgent("parent", FunctionModel(answer), features=["workers"])
        asking = [tool(approval=True)(read)]
        broken = DurableAgent("broken", FunctionModel(lambda _request: call("read")), asking, approve=approve)
        return engine, [
            await engine.run(parent, "ada", UserSpoke("Hi!")),
            await engine.run(broken, "bob", UserSpoke("Hi!")),
        ]

    def read() -> str:
        """Read."""
        return ""

    engine, (answered, failed) = asyncio.run(main())
    kept = [text for run in ("run-1", "run-2") for _, text in engine.steps_of(run).values()]

    assert "[redacted:" in str(answered.finished)
    assert "[redacted:api_key:" in failed.error
    assert not any(secret in text for text in [str(answered), str(failed), *kept])
    assert set(engine.sessions) >= {"ada", "ada/1.1.1", "bob"}
    assert not any(secret.encode() in line for lines in engine.sessions.values() for line in lines)


def test_a_message_while_answers_are_waited_for_is_refused_and_nothing_is_recorded() -> None:
    async def main() -> tuple[RunOutcome, int, int]:
        engine = MemoryEngine()
        agent = DurableAgent("payer", FunctionModel(lambda _request: call("pay")), [ToolSpec("pay", "Pay.")])
        await engine.run(agent, "ada", UserSpoke("Hi!"))
        before = len(engine.sessions["ada"])
        ended = await engine.run(agent, "ada", UserSpoke("Hi again!"))
        return ended, before, len(engine.sessions["ada"])

    ended, before, after = asyncio.run(main())

    assert "PendingError: the turn before waits for answers" in ended.error
    assert before == after


def test_the_second_of_two_answers_is_told_that_it_came_too_late() -> None:
    async def main() -> tuple[RunOutcome, RunOutcome, int]:
        engine = MemoryEngine()
        agent = DurableAgent("payer", FunctionModel(script), [ToolSpec("pay", "Pay.")])
        asked = await engine.run(agent, "ada", UserSpoke("Hi!"))
        answer = ToolReturned(asked.pending[0].effect_id, "paid")
        first = await engine.run(agent, "ada", answer)
        lines = len(engine.sessions["ada"])
        second = await engine.run(agent, "ada", answer)
        return first, second, len(engine.sessions["ada"]) - lines

    def script(request: Any) -> Any:
        return call("pay") if len(request.messages) == 1 else "It is paid."

    first, second, recorded = asyncio.run(main())

    assert first.finished is not None
    assert "nothing waits for an answer under '1.1.1'" in second.error
    assert recorded == 0


def test_what_a_cancelled_run_has_left_is_told_as_cancelled_and_not_as_lost_with_a_program() -> None:
    async def main() -> tuple[RunOutcome, MemoryEngine]:
        begun = asyncio.Event()

        @tool
        async def send() -> str:
            """Send, which must happen once."""
            begun.set()
            return await asyncio.Future[str]()

        engine = MemoryEngine()
        agent = DurableAgent("sender", FunctionModel(lambda _request: call("send")), [send])
        first = asyncio.ensure_future(engine.run(agent, "ada", UserSpoke("Hi!")))
        await begun.wait()
        first.cancel()  # as an engine gives up a run that somebody has cancelled
        return await engine.run(agent, "ada", CancelAsked("enough")), engine

    ended, engine = asyncio.run(main())

    assert ended.finished is not None
    assert ended.finished.outcome == Cancelled("enough")
    result = replay(engine.recorder("ada")).state.history[-1]
    assert "was cancelled while it ran. It may have happened" in str(result)
    assert not any(CALL_UNKNOWN.encode() in line for line in engine.sessions["ada"])


@pytest.mark.parametrize("asked", ["lock", "close"])
def test_the_loop_goes_on_while_a_database_is_waited_for_at_a_runs_beginning_and_end(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, gone_on = Event(), Event()
    ask = getattr(MemoryRecorder, asked)

    def slow(self: MemoryRecorder, *given: Any) -> Any:
        waiting.set()
        assert gone_on.wait(5), "the loop stands still"
        return ask(self, *given)

    async def main() -> RunOutcome:
        engine = MemoryEngine()
        run = asyncio.ensure_future(
            engine.run(DurableAgent("greeter", FunctionModel(lambda _request: "Hello.")), "ada", UserSpoke("Hi!"))
        )
        while not waiting.is_set():
            await asyncio.sleep(0.001)
        gone_on.set()
        return await run

    monkeypatch.setattr(MemoryRecorder, "may_wait", True, raising=False)
    monkeypatch.setattr(MemoryRecorder, asked, slow)

    assert asyncio.run(main()).finished is not None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "two words"}, "letters, digits"),
        ({"journal": "a.jsonl"}, "sessions are recorded in the store"),
        ({"session": "ada"}, "it is given with each message"),
        ({"model": 7}, "a Runtime, or a function"),
    ],
)
def test_a_definition_says_what_is_wrong_with_it(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        DurableAgent(**{"name": "greeter", "model": FunctionModel(lambda _request: "Hello."), **given})


def test_what_went_wrong_before_a_turn_is_hidden_too() -> None:
    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"

    def system(*_: Any) -> str:
        raise ConfigError(f"no notes with {secret}")

    engine = MemoryEngine()
    agent = DurableAgent("greeter", FunctionModel(lambda _request: "Hello."), system=system)
    ended = asyncio.run(engine.run(agent, "ada", UserSpoke("Hi!")))

    assert "no notes with [redacted:api_key:1]" in ended.error
    assert not any(secret in text for _, text in engine.steps_of("run-1").values())


def test_workers_and_their_parent_never_give_two_secrets_one_placeholder() -> None:
    seen: list[str] = []

    @tool(read_only=True)
    async def read(n: int) -> str:
        """Read."""
        return f"the key is sk-ant-api03-{'abc'[n]}{'defghijklmnopqrstuvwxyz0123456789' * 2}"

    def answer(request: Any) -> Any:
        if not any(one.name == "spawn_worker" for one in request.tools):
            text = request.messages[0].text
            return call("read", n=int(text[-1])) if len(request.messages) == 1 else request.messages[-1].content
        if len(request.messages) == 1:
            workers = [call("spawn_worker", name=f"w{n}", objective=f"Read {n}", tools=["read"]) for n in (1, 2)]
            return [*workers, call("read", n=0)]
        seen.extend(one.content for one in request.messages[2:5])
        return "Done."

    engine = MemoryEngine()
    agent = DurableAgent("parent", FunctionModel(answer), [read], features=["workers"])
    asyncio.run(engine.run(agent, "ada", UserSpoke("Hi!")))

    assert len(set(seen)) == 3
    assert all("[redacted:api_key:" in one for one in seen[:2])
    assert "sk-ant-api03-a" in seen[2]
    assert all(replay(engine.recorder(session)).same for session in ("ada", "ada/1.1.1", "ada/1.1.2"))


def test_a_session_that_has_lost_its_first_line_is_told_and_not_waited_for() -> None:
    """That something is recorded there, which is what another process has begun, was waited for without an end."""
    engine = MemoryEngine()
    agent = DurableAgent("greeter", FunctionModel(lambda _request: "Hello."))
    asyncio.run(engine.run(agent, "ada", UserSpoke("Hi!")))
    del engine.sessions["ada"][0]
    before = list(engine.sessions["ada"])

    with pytest.raises(NotAJournalError, match="no cogstep journal"):
        asyncio.run(engine.run(agent, "ada", UserSpoke("And now?")))
    assert engine.sessions["ada"] == before

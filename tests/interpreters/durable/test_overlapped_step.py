"""What is recorded while the engine keeps the answer, wherever the process dies between the two."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentConfig,
    CancelAsked,
    CogstepError,
    Completed,
    LLMEngine,
    ToolFailed,
    ToolMessage,
    Transition,
    UserSpoke,
)
from interpreters import ToolContext, tool
from interpreters.durable._errors import DurableDivergedError
from interpreters.durable._interpreter import OverlappedStep
from interpreters.durable.definition import DurableAgent
from interpreters.durable.serialization import RunOutcome
from interpreters.loop.driver import NOTHING_TO_DO, Driver
from interpreters.loop.performers import CALL_UNKNOWN
from interpreters.recording.journal import Journal, JournalError, JournalReader
from interpreters.testing.durable import Killed, MemoryContext, MemoryEngine
from interpreters.testing.fakes import FunctionModel, call


class Watched(MemoryEngine):
    """Notes at a death what stood on file, and what the engine had kept."""

    def __init__(self, kills: Iterable[int], *, loses: bool = False) -> None:
        super().__init__(kills, loses=loses)
        self.on_file: set[str] = set()
        self.known: set[str] = set()

    def pass_moment(self, process: Any) -> None:
        """See ``MemoryEngine.pass_moment``."""
        before = process.dead
        try:
            super().pass_moment(process)
        except Killed:
            if not before and self.sessions.get("ada"):
                with JournalReader(self.recorder("ada")) as reader:
                    self.on_file = {str(getattr(record.input, "effect_id", "")) for record in reader} - {""}
                self.known = {name for name, _ in self.steps_of("run-1").values()}
            raise


def killed(kills: list[int], calls: list[str], *, loses: bool = False) -> tuple[Watched, Counter[str], list[Any]]:
    """A session with these calls, one after the other; what was done of each effect, and what observers were told."""
    engine, done, told = Watched(kills, loses=loses), Counter[str](), []

    def answer(request: Any) -> Any:
        number = sum(isinstance(one, ToolMessage) for one in request.messages)
        done[f"1.{number + 1}.0"] += 1
        return call(calls[number], n=number) if number < len(calls) else "Done."

    @tool(read_only=True)
    async def look(n: int) -> str:
        """Look."""
        done[f"1.{n + 1}.1"] += 1
        await engine.moment()
        return f"seen {n}"

    @tool
    async def send(n: int) -> str:
        """Send, which must not happen twice."""
        await engine.moment()
        done[f"1.{n + 1}.1"] += 1
        await engine.moment()
        return f"sent {n}"

    agent = DurableAgent("tester", FunctionModel(answer), [look, send], compact_at=None, observers=[told.append])
    ended = asyncio.run(engine.run(agent, "ada", UserSpoke("Go.")))
    assert ended.error == ""
    return engine, done, told


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from(["look", "send"]), min_size=1, max_size=2))
def test_what_is_on_file_is_not_done_again_and_what_has_not_begun_is_done(calls: list[str]) -> None:
    moments = killed([], calls)[0].moments
    early = 0
    for moment in range(1, moments + 1):
        engine, done, _ = killed([moment], calls)
        assert all(done[effect] == 1 for effect in engine.on_file)
        early += bool(engine.on_file - engine.known)
        with JournalReader(engine.recorder("ada")) as reader:
            for record in reader:
                if isinstance(record.input, ToolFailed) and CALL_UNKNOWN in record.input.message:
                    asked = f"{str(record.input.effect_id)[:-1]}0"
                    assert asked in engine.known  # else it had not begun, and nobody should wonder whether it had
    assert early > 0 or calls[0] != "look"


def unknown(engine: Watched) -> set[str]:
    """The calls of which the model was told that they may have run."""
    with JournalReader(engine.recorder("ada")) as reader:
        answers = [record.input for record in reader if isinstance(record.input, ToolFailed)]
    return {str(one.effect_id) for one in answers if CALL_UNKNOWN in one.message}


@pytest.mark.parametrize("calls", [["send"], ["look", "send"], ["send", "send"]])
def test_what_has_begun_is_not_begun_again_where_the_record_of_it_was_lost(calls: list[str]) -> None:
    moments, lost = killed([], calls)[0].moments, 0
    for moment in range(1, moments + 1):
        engine, done, _ = killed([moment], calls, loses=True)
        sent = [f"1.{n}.1" for n, name in enumerate(calls, 1) if name == "send"]
        doubtful = unknown(engine)
        assert all(done[one] == 1 for one in sent if one not in doubtful)
        assert all(done[one] <= 1 for one in doubtful)
        lost += any(done[one] for one in doubtful)
    assert lost > 0


class LosesLater(Watched):
    """The machine of the recordings breaks down with the second process, and not with the first one."""

    def _lose(self) -> None:
        if self.executions > 1:
            super()._lose()


class Notes:
    """Notes of which nothing is needed."""

    def remember(self, text: str) -> None:
        """Nothing."""

    def recall(self, query: str, limit: int = 5) -> list[str]:
        """Nothing."""
        return []


def test_what_is_on_file_is_noted_too_where_it_is_not_alone_in_a_further_execution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A note was saved before the answer was recorded early; the further execution hears of that only later. It begins
    what was decided, though the line is not on the disk: if that is lost now, it has to be known.
    """
    replies = [call("remember", text="a"), call("look"), call("send"), "Done."]
    step = MemoryContext.step

    def remembered(kills: list[int]) -> tuple[Watched, list[int]]:
        engine, sent = LosesLater(kills, loses=True), []

        async def slow_to_note(self: MemoryContext, name: str, work: Any, **named: Any) -> str:
            text = await step(self, name, work, **named)
            if name.startswith("remember") and engine.executions == 2:
                await asyncio.sleep(0.03)
            return text

        @tool(read_only=True)
        async def look() -> str:
            """Look."""
            await asyncio.sleep(0.001)
            return "seen"

        @tool
        async def send() -> str:
            """Send, which must not happen twice."""
            sent.append(engine.executions)
            await engine.moment()
            return "sent"

        monkeypatch.setattr(MemoryContext, "step", slow_to_note)
        model = FunctionModel(lambda request: replies[sum(isinstance(one, ToolMessage) for one in request.messages)])
        agent = DurableAgent("t", model, [look, send], compact_at=None, features=("memory",), memory=Notes())
        ended = asyncio.run(engine.run(agent, "ada", UserSpoke("Go.")))
        assert ended.finished is not None
        return engine, sent

    early = 0
    for moment in range(20, remembered([])[0].moments):
        engine, _ = remembered([moment])
        if "1.3.0" in engine.on_file - engine.known:
            runs = [remembered([moment, later])[1] for later in range(engine.moments - 8, engine.moments)]
            assert all(len(sent) == 1 for sent in runs)
            early += [2] in runs
    assert early > 0


def test_nothing_begins_behind_a_note_that_the_engine_has_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Restate a run that was killed then could not be executed again, ever."""
    replies, happened, step = [call("remember", text="a"), call("look"), "Done."], [], MemoryContext.step

    @tool(read_only=True)
    async def look() -> str:
        """Look."""
        return "seen"

    async def slow_to_note(self: MemoryContext, name: str, work: Any, **named: Any) -> str:
        happened.append(f"{name} is asked for")
        if name.startswith("remember"):
            await asyncio.sleep(0.02)
        text = await step(self, name, work, **named)
        happened.append(f"{name} is kept")
        return text

    monkeypatch.setattr(MemoryContext, "step", slow_to_note)
    model = FunctionModel(lambda request: replies[sum(isinstance(one, ToolMessage) for one in request.messages)])
    agent = DurableAgent("t", model, [look], compact_at=None, features=("memory",), memory=Notes())
    asyncio.run(MemoryEngine().run(agent, "ada", UserSpoke("Go.")))

    assert happened.index("remember-1 is kept") < happened.index("1.2.1 is asked for")
    assert happened.index("1.2.0 is asked for") < happened.index("remember-1 is kept")


class Dying(MemoryEngine):
    """Executes no run again that has died: it was cancelled."""

    async def run(self, agent: DurableAgent, session: str, event: Any) -> RunOutcome:
        """See ``MemoryEngine.run``; gives nothing of a run that has died."""
        running, before = asyncio.ensure_future(super().run(agent, session, event)), self.executions
        while not running.done() and not (self.executions > before and self._process.dead):
            await asyncio.sleep(0)
        if self._process.dead:
            running.cancel()
            await asyncio.wait([running])
            self._lose()
            return RunOutcome(0.0)
        return await running


def ids_around_a_cancellation(moment: int) -> list[str]:
    """Of the calls of a session whose first run dies, with all that was not forced, and is cancelled."""
    engine, ids = Dying([moment], loses=True), list[str]()

    @tool
    async def send(context: ToolContext[Any]) -> str:
        """Send, which must not happen twice."""
        ids.append(context.effect_id)
        return "sent"

    def answer(request: Any) -> Any:
        return "Done." if isinstance(request.messages[-1], ToolMessage) else call("send")

    async def session() -> None:
        agent = DurableAgent("tester", FunctionModel(answer), [send], compact_at=None)
        for event in (UserSpoke("Go."), CancelAsked("enough"), UserSpoke("Go again.")):
            await engine.run(agent, "ada", event)

    asyncio.run(session())
    return ids


def test_behind_a_cancelled_run_whose_records_were_lost_no_call_gets_the_id_of_another() -> None:
    """Nobody executes that run again, or learns what it had begun."""
    found = [ids_around_a_cancellation(moment) for moment in range(1, 30)]

    assert all(len(ids) == len(set(ids)) for ids in found)
    assert max(map(len, found)) == 2


@pytest.mark.parametrize("refused", [2, 3])
def test_what_could_not_be_recorded_has_not_begun(monkeypatch: pytest.MonkeyPatch, refused: int) -> None:
    """The engine keeps no note that it was, so that nobody takes the missing record for a lost one. It may have kept
    the answer already: then that is no other one.
    """
    write, written, sent = Journal.write, 0, []

    def refuse(*given: Any, **named: Any) -> None:
        nonlocal written
        written += 1
        if written == refused:
            raise JournalError("the disk is full", path="ada")
        write(*given, **named)

    @tool
    async def send() -> str:
        """Send, which must not happen twice."""
        sent.append("once")
        return "sent"

    replies = iter([call("send"), "Done."])
    agent = DurableAgent("tester", FunctionModel(lambda _: next(replies)), [send], compact_at=None)
    engine = MemoryEngine()
    monkeypatch.setattr(Journal, "write", refuse)
    with pytest.raises(JournalError, match="the disk is full"):
        asyncio.run(engine.run(agent, "ada", UserSpoke("Go.")))
    assert f"1.1.{refused - 2}" in {name for name, _ in engine.steps_of("run-1").values()}
    engine._runs = 0  # the same run is executed again
    ended = asyncio.run(engine.run(agent, "ada", UserSpoke("Go.")))

    assert ended.finished is not None
    assert ended.finished.outcome == Completed("Done.")
    assert sent == ["once"]


def kinds(told: list[Any]) -> Counter[str]:
    """How often observers were told of what."""
    return Counter(type(event.value).__name__ for event in told)


def test_observers_are_told_of_what_was_recorded_early_and_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    leave = OverlappedStep.abandon

    async def leave_silently(self: OverlappedStep) -> None:
        self._driver._watcher = None  # a dead process tells nobody
        await leave(self)

    monkeypatch.setattr(OverlappedStep, "abandon", leave_silently)
    calls = ["look", "look"]
    engine, _, told = killed([], calls)
    usual = kinds(told)
    for moment in range(1, engine.moments + 1):
        engine, _, told = killed([moment], calls)
        if engine.on_file - engine.known:
            assert not usual - kinds(told)


def test_an_engine_that_keeps_another_answer_than_it_was_given_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = MemoryContext._keep

    def keep_another(self: MemoryContext, number: int, name: str, text: str) -> str:
        keep(self, number, name, text)
        return text.replace("seen", "heard")

    monkeypatch.setattr(MemoryContext, "_keep", keep_another)
    with pytest.raises(DurableDivergedError, match=r"another answer to 1\.[12]\.1"):
        killed([], ["look", "look"])


class Refusing:
    """A recorder that can't write."""

    redactor = None
    written = 0

    def waits(self, _event: Any, _transition: Transition) -> bool:
        return False

    def write(self, *_: Any) -> None:
        raise CogstepError("the disk is full")


@pytest.mark.parametrize("kept", [True, False])
def test_what_fails_early_is_told_when_the_engine_has_kept_the_answer(kept: bool) -> None:
    driver = Driver(LLMEngine(AgentConfig()), NOTHING_TO_DO, now=lambda: 0.0, recorder=Refusing())
    before = driver.state
    early = OverlappedStep(driver)
    early.begin(UserSpoke("Go."))
    assert early.event is not None

    if kept:
        with pytest.raises(CogstepError, match="the disk is full"):
            asyncio.run(early.finish())
    else:
        asyncio.run(early.abandon())

    assert driver.state is before


class Counting(Refusing):
    """A recorder that only counts."""

    def write(self, *_: Any) -> None:
        self.written += 1


def test_what_is_recorded_and_left_is_told_since_the_engine_may_have_kept_the_answer() -> None:
    told: list[Any] = []
    driver = Driver(
        LLMEngine(AgentConfig()),
        NOTHING_TO_DO,
        now=lambda: 0.0,
        recorder=Counting(),
        watcher=lambda _before, event, _transition, _reveal: told.append(event),
    )
    early = OverlappedStep(driver)
    early.begin(UserSpoke("Go."))

    asyncio.run(early.abandon())

    assert [type(one) for one in told] == [UserSpoke]
    assert driver.in_flight

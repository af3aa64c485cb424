"""Summaries of long conversations, whichever way a session runs: made, told, recorded, cancelled, and asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import (
    AgentState,
    Cancelled,
    Compacted,
    CompactionAsked,
    Completed,
    EchoEngine,
    Failure,
    Limits,
    ModelRequest,
    NotCompacted,
    ToolMessage,
    UserMessage,
    from_data,
    to_data,
)
from cognition.context.summaries import REQUEST_ID
from cognition.steps.decisions import AskApproval
from interpreters import Agent, AsyncAgent, fakes, replay, tool
from interpreters.loop.errors import AgentClosedError, BusyError, PendingError
from interpreters.loop.program.pending import LATER
from interpreters.observing import events
from interpreters.observing.events import Event, Inline
from interpreters.recording.sessions import read_transcript, transcript_to_markdown
from tests.interpreters.hosting.common import host_of
from tests.interpreters.ways import Way, every_way

SUMMARY = "TASK: find the codes. PROGRESS: some pages are read. NEXT STEP: read on."
ROOMY = Limits(steps=100, tool_calls=None)


@tool(read_only=True)
def read_page(page: int) -> str:
    """Read a page of the report."""
    return f"Page {page}. ".ljust(980, ".") + f" Code {page * 7}."


def reader(pages: int) -> fakes.FunctionModel:
    """Reads so many pages, one by one, answers with the newest code that it sees, and summarises when asked to."""
    read = iter(range(1, pages + 1))

    def reply(request: ModelRequest) -> Any:
        if is_for_summary(request):
            return SUMMARY
        page = next(read, None)
        if page is not None:
            return fakes.call("read_page", page=page)
        newest = request.messages[-1]
        return newest.content[-9:].strip() if isinstance(newest, ToolMessage) else "Done."

    return fakes.FunctionModel(reply, context_tokens=4096)


def is_for_summary(request: ModelRequest) -> bool:
    return request.messages[-1].id == REQUEST_ID


def notes_of(request: ModelRequest) -> list[str]:
    return [m.text for m in request.messages if isinstance(m, UserMessage) and m.origin == "engine"]


@every_way
def test_a_turn_of_forty_steps_at_4096_tokens_is_answered(talk: Way, tmp_path: Path) -> None:
    """Its recording replays, and holds all results; what the model wrote for itself nobody is shown as an answer."""
    told: list[Event] = []
    journal, model = tmp_path / "long.jsonl", reader(40)

    done = talk(
        model,
        "What is the last code?",
        "Are you sure?",
        tools=[read_page],
        limits=ROOMY,
        journal=journal,
        observers=[Inline(told.append)],
    )

    assert done.texts == ["Code 280.", "Done."]
    assert len(done.tool_results) == 40
    assert replay(journal).divergence is None
    values = [event.value for event in told]
    summaries = [value for value in values if isinstance(value, events.ModelCalled) and value.purpose == "summary"]
    assert len(summaries) == sum(isinstance(value, Compacted) for value in values) >= 3
    said = "".join(value.text for value in values if isinstance(value, events.TextDelta))
    assert said == "Code 280.Done."
    assert all(from_data(to_data(event), Event) == event for event in told)
    assert any(SUMMARY in note for note in notes_of(model.requests[-1]))
    page = transcript_to_markdown(read_transcript(journal))
    assert "messages were summarised: a prompt of about" in page


@every_way
def test_without_compaction_the_window_makes_room_as_before(talk: Way) -> None:
    model = reader(20)

    done = talk(model, "What is the last code?", tools=[read_page], limits=ROOMY, compact_at=None)

    assert done.texts == ["Code 140."]
    assert not any(map(is_for_summary, model.requests))


@every_way
def test_a_script_is_not_asked_for_summaries(talk: Way) -> None:
    """A test says what the model answers; when a conversation grows long is not its matter."""
    script: list[fakes.Script] = [fakes.call("read_page", page=page) for page in range(1, 21)]
    model = fakes.ScriptedModel([*script, "The last code is 140."])

    done = talk(model, "What is the last code?", tools=[read_page], limits=ROOMY)

    assert done.texts == ["The last code is 140."]
    assert len(model.requests) == 21
    assert model.summaries


def test_a_script_may_hold_the_summaries_too() -> None:
    model = fakes.ScriptedModel(["Hello.", SUMMARY], summary=None)

    with Agent(model) as agent:
        agent.run("Hi. " * 200)
        assert isinstance(agent.compact(), Compacted)


@every_way
def test_a_summary_that_fails_is_told_and_the_turn_goes_on(talk: Way) -> None:
    told: list[Event] = []
    pages = iter(range(1, 16))

    def reply(request: ModelRequest) -> Any:
        if is_for_summary(request):
            return Failure("no", kind="fatal")
        page = next(pages, None)
        return "Done." if page is None else fakes.call("read_page", page=page)

    done = talk(fakes.FunctionModel(reply), "Read.", tools=[read_page], limits=ROOMY, observers=[Inline(told.append)])

    assert done.texts == ["Done."]
    assert any(isinstance(event.value, NotCompacted) for event in told)


@every_way
@pytest.mark.parametrize("protocol", ["tool_tags", "short_keys"])
def test_a_text_protocol_is_no_hindrance(talk: Way, protocol: str) -> None:
    told: list[Event] = []
    pages = iter(range(1, 21))
    call = (
        '<tool>read_page</tool><args>{"page": %d}</args>'
        if protocol == "tool_tags"
        else ('{"a": "read_page", "i": {"page": %d}}')
    )

    def reply(request: ModelRequest) -> str:
        if is_for_summary(request):
            return f"<response>{SUMMARY}</response>" if protocol == "tool_tags" else f'{{"f": "{SUMMARY}"}}'
        page = next(pages, None)
        return "Done." if page is None else call % page

    model = fakes.FunctionModel(reply)
    done = talk(model, "Read.", tools=[read_page], limits=ROOMY, protocol=protocol, observers=[Inline(told.append)])

    assert done.texts == ["Done."]
    assert any(note.endswith(SUMMARY) for note in notes_of(model.requests[-1]))
    assert "".join(event.value.text for event in told if isinstance(event.value, events.TextDelta)) == "Done."


@every_way
def test_an_answer_of_a_type_is_checked_and_a_summary_is_not(talk: Way) -> None:
    """The schema stays before the model, and what it writes for itself is no answer that could be wrong."""
    model = reader(20)

    def use(agent: Any) -> None:
        run = agent.run
        agent.run = lambda text: run(text, returns=str)

    done = talk(model, "What is the last code?", tools=[read_page], limits=ROOMY, use=use)

    assert any(map(is_for_summary, model.requests))
    assert done.state.spent.corrections <= 2
    assert "JSON Schema" in notes_of(model.requests[-1])[1]


@every_way
def test_a_cancellation_while_it_is_written_ends_the_turn(talk: Way, tmp_path: Path) -> None:
    agents: list[Any] = []
    pages = iter(range(1, 100))

    def stream(request: ModelRequest) -> Iterator[Any]:
        if is_for_summary(request):
            yield "TASK: "
            agents[0].cancel("enough")
            yield "never read"
        elif len(agents[0].state.history) > 40:
            yield "Done."
        else:
            yield fakes.call("read_page", page=next(pages))

    journal = tmp_path / "cancelled.jsonl"
    done = talk(
        fakes.FunctionModel(stream), "Read.", tools=[read_page], limits=ROOMY, use=agents.append, journal=journal
    )

    assert done.results[0].outcome == Cancelled("enough")
    assert not any("TASK" in str(message) for message in done.state.history)
    assert replay(journal).divergence is None


# --------------------------------------------------------------------------------------------------- somebody asks


def test_a_summary_can_be_asked_for(tmp_path: Path) -> None:
    told: list[Event] = []
    model = fakes.ScriptedModel(["More. " * 50, "Yes."])
    journal = tmp_path / "asked.jsonl"
    with Agent(model, journal=journal, observers=[Inline(told.append)]) as agent:
        agent.run("Tell me more. " * 50)
        done = agent.compact()
        assert isinstance(done, Compacted)
        assert done.after < done.before
        assert agent.run("Are you sure?").text == "Yes."
        assert isinstance(agent.state, AgentState)

    assert model.requests[-1].messages[0].id == "summary"
    assert len(model.requests[-1].messages) == 2
    values = [event.value for event in told]
    assert CompactionAsked in map(type, values)
    assert sum(isinstance(value, Compacted) for value in values) == 1
    assert [event.turn for event in told if isinstance(event.value, Compacted)] == [1]
    assert replay(journal).divergence is None
    with Agent.fork(journal, fakes.ScriptedModel(["Forked."]), turn=1) as fork:
        assert fork.state.window.summary.text, "what was asked for after the turn is kept with it"
        assert fork.run("Hello").text == "Forked."


def test_a_summary_can_be_asked_for_in_asyncio() -> None:
    async def main() -> None:
        async with AsyncAgent(fakes.ScriptedModel(["More. " * 50, "Yes."])) as agent:
            assert isinstance(await agent.compact(), NotCompacted)
            await agent.run("Tell me more. " * 50)
            assert isinstance(await agent.compact(), Compacted)
            assert (await agent.run("Are you sure?")).text == "Yes."
        with pytest.raises(AgentClosedError):
            await agent.compact()

    asyncio.run(main())


def test_a_summary_can_be_asked_for_over_a_handle() -> None:
    told: list[Event] = []
    with host_of("More. " * 50, "Yes.") as host, host.open("a", observers=[Inline(told.append)]) as handle:
        assert isinstance(handle.compact(), NotCompacted)
        handle.run("Tell me more. " * 50)
        done = handle.compact()
        assert isinstance(done, Compacted)
        assert handle.run("Are you sure?").text == "Yes."

    assert done in [event.value for event in told]


def test_there_is_nothing_to_summarise_in_a_new_session() -> None:
    with Agent(fakes.ScriptedModel([])) as agent:
        assert agent.compact() == NotCompacted("there is nothing to summarise")


def test_no_summary_is_made_while_a_turn_is_open() -> None:
    """Nothing that waits for an answer is given up for it."""

    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = fakes.ScriptedModel([fakes.call("pay", amount=3), "Paid."])
    with Agent(model, [pay], approve=lambda effect: LATER) as agent:
        agent.run("Pay.")
        with pytest.raises(PendingError, match="a turn is open"):
            agent.compact()
        (waiting,) = agent.pending
        assert isinstance(waiting, AskApproval)
        assert agent.answer(waiting.effect_id, True).outcome == Completed("Paid.")
        assert isinstance(agent.compact(), Compacted | NotCompacted)


def test_no_summary_is_made_while_a_turn_is_under_way() -> None:
    raised: list[BaseException] = []

    @tool
    def meddle() -> str:
        """Ask for a summary from within."""
        try:
            agent.compact()
        except BusyError as error:
            raised.append(error)
        return "ok"

    agent = Agent(fakes.ScriptedModel([fakes.call("meddle"), "Done."]), [meddle])
    with agent:
        agent.run("Go")

    assert raised


def test_one_that_was_asked_for_can_be_cancelled() -> None:
    def stream(request: ModelRequest) -> Iterator[Any]:
        yield "More. " * 50
        if is_for_summary(request):
            assert agent.cancel("enough")
            yield "never read"

    agent = Agent(fakes.FunctionModel(stream))
    with agent:
        agent.run("Tell me more. " * 50)
        assert agent.compact() == NotCompacted("enough")
        assert agent.run("Go on.").outcome == Completed("More. " * 50)


@pytest.mark.parametrize("resume", [Agent.resume])
def test_a_crash_while_it_was_written_leaves_a_session_that_goes_on(resume: Any, tmp_path: Path) -> None:
    """Nobody has to end what was only asked for: the next message gives it up."""
    journal = tmp_path / "crashed.jsonl"
    with Agent(fakes.ScriptedModel(["More. " * 50]), journal=journal) as agent:
        agent.run("Tell me more. " * 50)
        agent.compact()
    lines = journal.read_bytes().splitlines(keepends=True)
    asked = max(place for place, line in enumerate(lines) if b'"compaction_asked"' in line)
    journal.write_bytes(b"".join(lines[: asked + 1]))

    with resume(journal, fakes.ScriptedModel(["Yes."])) as agent:
        assert not agent.unfinished
        assert agent.run("Are you sure?").text == "Yes."
        assert isinstance(agent.compact(), Compacted)
    assert replay(journal).divergence is None


def test_a_crash_within_a_turn_has_the_summary_asked_for_again(tmp_path: Path) -> None:
    journal = tmp_path / "crashed.jsonl"
    with Agent(reader(20), [read_page], journal=journal, limits=ROOMY) as agent:
        agent.run("What is the last code?")
    lines = journal.read_bytes().splitlines(keepends=True)
    asked = min(place for place, line in enumerate(lines) if b'"purpose":"summary"' in line.replace(b" ", b""))
    journal.write_bytes(b"".join(lines[: asked + 1]))

    with Agent.resume(journal, reader(3), [read_page]) as agent:
        assert agent.unfinished
        assert agent.resume_turn().text == "Code 21."
    assert replay(journal).divergence is None


def test_an_engine_without_summaries_says_so() -> None:
    from cognition import CogstepError

    with Agent(fakes.ScriptedModel([]), engine=lambda config: EchoEngine()) as agent:
        agent.run("Hello")
        with pytest.raises(CogstepError, match="makes no summaries"):
            agent.compact()


def test_a_state_that_was_kept_in_the_middle_of_it_goes_on(tmp_path: Path) -> None:
    kept: list[AgentState] = []

    def observe(event: Event) -> None:
        if isinstance(event.value, events.ModelCalled) and event.value.purpose == "summary":
            kept.append(from_data(to_data(agent.state), AgentState))

    agent = Agent(reader(20), [read_page], limits=ROOMY, observers=[Inline(observe)])
    with agent:
        agent.run("What is the last code?")

    with Agent(reader(2), [read_page], limits=ROOMY, state=kept[-1]) as again:
        assert again.resume_turn().text == "Code 14."


def test_a_worker_summarises_too() -> None:
    """It has a window of its own, under its own name."""
    told: list[Event] = []
    pages = iter(range(1, 21))

    def reply(request: ModelRequest) -> Any:
        if is_for_summary(request):
            return SUMMARY
        if any(isinstance(m, UserMessage) and m.text == "read all" for m in request.messages):
            page = next(pages, None)
            return "All is read." if page is None else fakes.call("read_page", page=page)
        newest = request.messages[-1]
        if isinstance(newest, ToolMessage):
            return newest.content
        return fakes.call("spawn_worker", name="one", objective="read all", tools=["read_page"])

    model = fakes.FunctionModel(reply)
    with Agent(model, [read_page], features=["workers"], limits=ROOMY, observers=[Inline(told.append)]) as agent:
        assert agent.run("Read all.").text == "All is read."

    assert {event.session for event in told if isinstance(event.value, Compacted)} == {f"{agent.session}/1.1.1"}


def test_secrets_stay_out_of_the_recording_of_a_summary(tmp_path: Path) -> None:
    """The model is shown what was said, writes it down, and the recording holds a placeholder."""
    secret, journal = "sk-" + "a1B2c3D4e5F6g7H8" * 2, tmp_path / "secret.jsonl"
    seen: list[str] = []

    def reply(request: ModelRequest) -> str:
        if is_for_summary(request):
            seen.append("\n".join(getattr(message, "text", "") for message in request.messages))
            return f"DATA: the key is {secret}."
        return "I see. " * 40

    model = fakes.FunctionModel(reply)
    with Agent(model, journal=journal) as agent:
        agent.run(f"My key is {secret}. " + "word " * 200)
        assert isinstance(agent.compact(), Compacted)
        agent.run("Go on.")

    assert secret in seen[0]
    assert secret in notes_of(model.requests[-1])[0]
    assert secret not in journal.read_text("utf-8")
    assert replay(journal).divergence is None


def test_the_time_that_a_summary_takes_is_the_turns() -> None:
    clock = fakes.FakeClock()
    pages = iter(range(1, 100))

    def reply(request: ModelRequest) -> Any:
        if is_for_summary(request):
            clock.advance(61.0)
            return SUMMARY
        return fakes.call("read_page", page=next(pages))

    with Agent(
        fakes.FunctionModel(reply), [read_page], limits=Limits(steps=100, tool_calls=None, seconds=60.0), clock=clock
    ) as agent:
        result = agent.run("Read.")

    assert getattr(result.outcome, "limit", None) == "seconds"


def test_reset_and_close_end_it() -> None:
    """From another thread, while the model writes."""
    writing, go = threading.Event(), threading.Event()

    def stream(request: ModelRequest) -> Iterator[Any]:
        if is_for_summary(request):
            yield "TASK: "
            writing.set()
            go.wait(10)
        yield "More. " * 50

    agent = Agent(fakes.FunctionModel(stream))
    agent.run("Tell me more. " * 50)
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(agent.compact()))
    thread.start()
    assert writing.wait(10)
    assert agent.cancel("stop")
    go.set()
    thread.join(10)

    assert results == [NotCompacted("stop")]
    agent.close()

"""Messages with pictures, wherever a session goes: models, recordings, other processes, exports."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cognition import (
    AgentState,
    Completed,
    Image,
    ModelRequest,
    TextPart,
    UserMessage,
    from_data,
    to_data,
)
from interpreters import (
    Agent,
    AsyncAgent,
    HookRequest,
    events,
    export_messages,
    fakes,
    import_messages,
    rehearse,
    replay,
)
from interpreters.hosting import AgentHost
from interpreters.hosting._errors import HostError
from interpreters.recording.sessions import (
    list_sessions,
    read_transcript,
    search_sessions,
    transcript_to_data,
    transcript_to_markdown,
    transcript_to_openai,
)
from runtime import MediaError
from tests.interpreters.hosting.common import host_of
from tests.interpreters.ways import Way, every_way, resumed_in_asyncio, resumed_in_sync

LARGE = Image.of(b"\x89PNG\r\n\x1a\n" + bytes(12 * 1024 - 8))
SMALL = Image.of(b"GIF89a" + bytes(100))
QUESTION: Any = ["Compare", LARGE, "with", SMALL]
PARTS = (TextPart("Compare"), LARGE, TextPart("with"), SMALL)


def seen(request: ModelRequest) -> str:
    """How many pictures a model is shown, message by message."""
    shown = [m for m in request.messages if isinstance(m, UserMessage)]
    return ",".join(str(sum(isinstance(part, Image) for part in m.parts)) for m in shown)


def looking(**options: Any) -> fakes.FunctionModel:
    return fakes.FunctionModel(seen, **options)


@every_way
def test_the_model_is_shown_texts_and_pictures_in_their_order(talk: Way) -> None:
    model = looking()
    done = talk(model, QUESTION, "And now?")

    assert done.texts == ["2", "2,0"]
    assert model.requests[0].messages[0] == UserMessage("m1", "Compare\n\nwith", "user", PARTS)
    assert done.results[0].messages[0] == UserMessage("m1", "Compare\n\nwith", "user", PARTS)


@every_way
def test_observers_and_hooks_are_told(talk: Way) -> None:
    told: list[Any] = []
    asked: list[str] = []

    def hook(request: HookRequest) -> None:
        asked.append(request.text)

    observers = [events.Inline(lambda event: told.append(event))]
    talk(looking(), QUESTION, observers=observers, hooks={"user_message": hook})

    spoke = next(event for event in told if isinstance(event.value, events.UserSpoke))
    assert (spoke.value.text, spoke.value.parts) == ("Compare\n\nwith", PARTS)
    assert from_data(json.loads(json.dumps(to_data(spoke))), events.Event) == spoke
    assert asked == ["Compare\n\nwith"]


@every_way
def test_a_recording_holds_them_replays_and_is_gone_on_with(talk: Way, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    live = talk(looking(), QUESTION, SMALL, journal=path, compact_at=None)  # four pictures fill most of the context
    report = replay(path)

    assert report.divergence is None
    assert report.state == live.state
    assert len(path.read_bytes()) < 5000  # the large picture stands beside it, once
    assert len(list((tmp_path / "s.jsonl.payloads").iterdir())) == 1
    assert not rehearse(path, []).differences
    assert resumed_in_sync(path, looking(), "Still?").texts == ["2,1,0"]
    assert resumed_in_asyncio(path, looking(), [LARGE]).texts == ["2,1,0,1"]
    with Agent.fork(path, looking(), turn=1) as fork:
        assert fork.run("Other?").text == "2,0"


def test_a_state_with_pictures_is_a_value_like_any_other() -> None:
    with Agent(looking()) as agent:
        agent.run(QUESTION)
        data = json.loads(json.dumps(to_data(agent.state)))

    assert from_data(data, AgentState) == agent.state


def test_a_foreign_recording_brings_its_pictures_with_its_conversation(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(looking(), journal=path) as agent:
        agent.run(QUESTION)

    with Agent.fork(path, looking(), foreign=True) as fork:
        assert fork.run("Again?").text == "2,0"


# ------------------------------------------------------------------------------------------------------ models without

TEXT_ALONE = {"media": ()}


@every_way
def test_a_model_that_takes_none_says_so_before_the_turn_begins(talk: Way, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    refused: list[MediaError] = []

    def use(agent: Any) -> None:
        run = agent.run

        def safe(text: Any) -> Any:
            try:
                return run(text)
            except MediaError as error:
                refused.append(error)
                return run("Hello")

        async def safe_async(text: Any) -> Any:
            try:
                return await run(text)
            except MediaError as error:
                refused.append(error)
                return await run("Hello")

        agent.run = safe if isinstance(agent, Agent) else safe_async

    model = looking(name="blind", **TEXT_ALONE)
    done = talk(model, QUESTION, journal=path, use=use)

    assert [str(error) for error in refused] == [
        "the model 'blind' takes text alone, and this message has [image image/png, 12 KB]; use a model that takes "
        "such images, or describe the picture in words"
    ]
    assert done.texts == ["0"]
    assert [m.text for m in done.state.history if isinstance(m, UserMessage)] == ["Hello"]
    assert (len(model.requests), replay(path).turns) == (1, 1)


def test_a_model_that_takes_some_kinds_refuses_the_others() -> None:
    with Agent(looking(media=("image/png",))) as agent:
        assert agent.run(["What is this?", LARGE]).text == "1"
        with pytest.raises(MediaError, match=r"takes image/png beside text, and this message has \[image image/gif"):
            agent.run(["And this?", SMALL])
        assert agent.run("Well?").text == "1,0"


def test_a_conversation_with_pictures_that_another_model_takes_up_is_refused_until_they_are_gone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(looking(), journal=path) as agent:
        agent.run("First")
        agent.run(QUESTION)

    with Agent.resume(path, looking(**TEXT_ALONE)) as agent:
        with pytest.raises(MediaError, match=r"the conversation has \[image image/png, 12 KB\].*reset"):
            agent.run("Well?")
        assert len(agent.state.history) == 4
        agent.reset()
        assert agent.run("Well?").text == "0"
    with Agent.fork(path, looking(**TEXT_ALONE), turn=1) as fork:
        assert fork.run("Well?").text == "0,0"


def test_a_stream_raises_where_it_is_read() -> None:
    with Agent(looking(**TEXT_ALONE)) as agent:
        with pytest.raises(MediaError):
            list(agent.stream(QUESTION))
        assert agent.run("Hello").ok

    async def streamed(agent: AsyncAgent) -> None:
        async with agent.stream(QUESTION) as stream:
            async for _ in stream:
                pass

    async def main() -> None:
        async with AsyncAgent(looking(**TEXT_ALONE)) as agent:
            with pytest.raises(MediaError):
                await streamed(agent)
            assert (await agent.run("Hello")).ok

    asyncio.run(main())


# --------------------------------------------------------------------------------------------------------------- hosts


def test_a_host_is_told_of_pictures_and_tells_of_them(tmp_path: Path) -> None:
    told: list[Any] = []
    with AgentHost.in_thread(looking()) as host:
        handle = host.open("a", journal=tmp_path / "s.jsonl", observers=[events.Inline(told.append)])
        result = handle.run(QUESTION)
        assert result.text == "2"
        assert asyncio.run(handle.run_async(SMALL)).text == "2,1"

    assert result.messages[0] == UserMessage("m1", "Compare\n\nwith", "user", PARTS)
    assert any(isinstance(event.value, events.UserSpoke) and event.value.parts == PARTS for event in told)
    assert replay(tmp_path / "s.jsonl").divergence is None


def test_a_host_whose_model_takes_none_refuses_and_goes_on() -> None:
    with AgentHost.in_thread(looking(**TEXT_ALONE)) as host:
        handle = host.open("a")
        with pytest.raises(HostError, match="takes text alone, and this message has"):
            handle.run(QUESTION)
        assert handle.run("Hello").text == "0"


def test_a_host_is_not_asked_with_what_is_no_message() -> None:
    with host_of("ok") as host:
        handle = host.open("a")
        with pytest.raises(ValueError, match="a message is made of"):
            handle.run(["a", 3])  # type: ignore[list-item]  # what is tried
        assert isinstance(handle.run("Hello").outcome, Completed)


# ------------------------------------------------------------------------------------------------------------- reading


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "s.jsonl"
    with Agent(looking(), journal=path) as agent:
        agent.run(QUESTION)
        agent.run([SMALL])
    return path


def test_people_read_the_kind_and_size_of_a_picture_where_it_stands(recorded: Path) -> None:
    page = transcript_to_markdown(read_transcript(recorded))

    assert "> Compare\n>\n> [image image/png, 12 KB]\n>\n> with\n>\n> [image image/gif, 106 bytes]\n" in page
    assert LARGE.data[:50] not in page


def test_exports_hold_the_pictures(recorded: Path) -> None:
    transcript = read_transcript(recorded)
    (body,) = transcript_to_openai(transcript)
    first = body["messages"][0]

    assert first["content"] == [
        {"type": "text", "text": "Compare"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{LARGE.data}"}},
        {"type": "text", "text": "with"},
        {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{SMALL.data}"}},
    ]
    message = transcript_to_data(transcript)["turns"][0]["entries"][0]["message"]
    assert from_data(message, UserMessage | TextPart) == UserMessage("m1", "Compare\n\nwith", "user", PARTS)


def test_a_search_finds_the_words_and_never_the_bytes(recorded: Path) -> None:
    assert len(list(search_sessions("with", recorded))) == 1
    assert not list(search_sessions("R0lGOD", recorded))


def test_a_list_of_sessions_names_a_picture_where_nothing_else_was_said(tmp_path: Path) -> None:
    with Agent(looking(), journal=tmp_path / "s.jsonl") as agent:
        agent.run(SMALL)

    assert "[image image/gif, 106 bytes]" in str(list(list_sessions(tmp_path)))


def test_messages_of_openai_s_api_bring_and_take_pictures(recorded: Path) -> None:
    (body,) = transcript_to_openai(read_transcript(recorded))
    imported = import_messages(body["messages"])

    assert [m.parts for m in imported.state.history if isinstance(m, UserMessage)] == [PARTS, (SMALL,)]
    assert imported.left_out == ()
    assert export_messages(imported.state) == body["messages"]
    with Agent(looking(), state=imported.state) as agent:
        assert agent.run("And?").text == "2,1,0"

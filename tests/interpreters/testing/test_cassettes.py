"""Sessions with a real model, recorded once and played for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AssistantMessage,
    Cancelled,
    ConfigError,
    Failure,
    GenerationOptions,
    History,
    MalformedToolCall,
    ModelRequest,
    ProposedCall,
    RetryPolicy,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from interpreters import Agent, events, fakes, tool
from interpreters.observing.events import Event
from interpreters.recording.redaction import Redaction
from interpreters.testing.cassettes import Cassette, CassetteError, CassetteMissError, request_data, request_digest
from interpreters.testing.cassettes.tape import data_of_reply, read_tape, reply_of_data, write_tape
from interpreters.testing.fakes import Reply, ScriptedModel, call
from interpreters.testing.fakes._strategies import replies
from runtime import Runtime
from tests.interpreters.ways import Way, every_way, in_sync

ROOT = Path(__file__).resolve().parents[3]


@tool(read_only=True)
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


SCRIPT: list[Any] = [
    call("multiply", a=17, b=23),
    Reply("17 * 23 is 391.", chunk=4, reasoning="So.", usage=Usage(30, 7)),
    "You are welcome.",
]


def never() -> Runtime:
    raise AssertionError("a real model is never asked when a cassette is played")


def record(path: Path, script: list[Any] = SCRIPT, talk: Way = in_sync, **options: Any) -> Any:
    with Cassette(path, "record") as cassette:
        return talk(cassette.model(lambda: ScriptedModel(script)), "What is 17 * 23?", "Thanks!", **options)


@every_way
def test_what_was_recorded_is_played(talk: Way, tmp_path: Path) -> None:
    """The same session, byte for byte in its journal, whichever way it is run; and no model is loaded."""
    options: dict[str, Any] = {"tools": [multiply], "session": "s", "fsync": "never"}
    told: list[list[Event]] = [[], []]
    live, played = tmp_path / "live", tmp_path / "played"
    path = tmp_path / "deep" / "cassette.json"
    first = record(path, **options, journal=live, clock=fakes.FakeClock(), observers=[events.Inline(told[0].append)])
    cassette = Cassette(path)
    model = cassette.model(never)
    second = talk(
        model,
        "What is 17 * 23?",
        "Thanks!",
        **options,
        journal=played,
        clock=fakes.FakeClock(),
        observers=[events.Inline(told[1].append)],
    )

    assert live.read_bytes() == played.read_bytes()
    assert first.results == second.results
    assert [e.value.text for e in told[0] if isinstance(e.value, events.TextDelta)] == [
        e.value.text for e in told[1] if isinstance(e.value, events.TextDelta)
    ]
    assert cassette.unused == []
    assert (
        model.describe().name,
        model.describe().backend,
        model.describe().context_tokens,
    ) == ("scripted", "cassette", 4096)


def test_a_cassette_is_written_for_people(tmp_path: Path) -> None:
    """Each request has what is new in it; calls have their arguments as an object."""
    record(tmp_path / "c.json", tools=[multiply], system="Be brief.")

    data = json.loads((tmp_path / "c.json").read_text())
    first, second, third = (exchange["request"] for exchange in data["exchanges"])
    assert first["system"] == "Be brief."
    assert [tool["name"] for tool in first["tools"]] == ["multiply"]
    assert first["messages"] == [{"user": "What is 17 * 23?"}]
    assert second == {
        "same_messages": 1,
        "messages": [
            {"assistant": "", "calls": [{"name": "multiply", "arguments": {"a": 17, "b": 23}}]},
            {"tool": "multiply", "result": "391"},
        ],
    }
    assert (third["same_messages"], third["messages"][-1]) == (3, {"user": "Thanks!"})
    assert [exchange["reply"] for exchange in data["exchanges"]] == [
        {"calls": [{"name": "multiply", "arguments": {"a": 17, "b": 23}}], "finish_reason": "tool_calls"},
        {
            "text": "17 * 23 is 391.",
            "pieces": 4,
            "reasoning": "So.",
            "finish_reason": "stop",
            "usage": {"input_tokens": 30, "output_tokens": 7},
        },
        {"text": "You are welcome.", "finish_reason": "stop"},
    ]


def test_a_miss_shows_the_nearest_request_and_a_diff(tmp_path: Path) -> None:
    record(tmp_path / "c.json", tools=[multiply])
    cassette = Cassette(tmp_path / "c.json")

    with (
        pytest.raises(CassetteMissError) as caught,
        Agent(cassette.model(never), tools=[multiply]) as agent,
    ):
        agent.run("What is 17 * 24?")

    message = str(caught.value)
    assert "nearest of 3 recorded requests is number 1" in message
    assert '-   "user": "What is 17 * 23?"' in message
    assert '+   "user": "What is 17 * 24?"' in message
    assert "--cassette=record" in message
    assert caught.value.nearest == 0
    assert cassette.unused == [0, 1, 2]


def test_a_reply_is_played_as_often_as_it_was_recorded(tmp_path: Path) -> None:
    """Equal requests get their replies in order, and one more is a miss; each model plays from the beginning."""
    script = [Failure("busy", kind="transient"), "Second."]
    path = tmp_path / "c.json"
    options: dict[str, Any] = {"clock": fakes.FakeClock(), "retry": RetryPolicy(attempts=2)}
    with Cassette(path, "record") as cassette:
        in_sync(cassette.model(lambda: ScriptedModel(script)), "Hi!", **options)

    cassette = Cassette(path)
    for _ in range(2):
        assert in_sync(cassette.model(never), "Hi!", **options).texts == ["Second."]
    model = cassette.model(never)
    in_sync(model, "Hi!", **options)
    with pytest.raises(CassetteMissError, match="recorded 2 times, and the model was asked once more"):
        in_sync(model, "Hi!", **options)


def test_several_models_are_told_apart_by_name(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    with Cassette(path, "record") as cassette:
        for name in ("small", "big"):
            in_sync(cassette.model(lambda name=name: ScriptedModel([f"I am {name}."], name=name), name), "Who?")

    cassette = Cassette(path)
    assert [in_sync(cassette.model(never, name), "Who?").texts[0] for name in ("big", "small")] == [
        "I am big.",
        "I am small.",
    ]
    with pytest.raises(CassetteMissError, match="nothing is recorded for this model"):
        in_sync(cassette.model(never, "third"), "Who?")


def test_what_differs_from_run_to_run_can_be_put_right(tmp_path: Path) -> None:
    """A date in a prompt doesn't matter, and a secret is not written down."""
    path = tmp_path / "c.json"
    scrub = [(r"\d{4}-\d\d-\d\d", "<date>"), (r"sk-\w+", "<key>")]
    with Cassette(path, "record", scrub=scrub) as cassette:
        in_sync(cassette.model(lambda: ScriptedModel(["Hi."])), "The key is sk-123.", system="Today is 2026-01-02.")

    cassette = Cassette(path, scrub=scrub)
    in_sync(cassette.model(never), "The key is sk-9.", system="Today is 2027-03-04.")
    assert "sk-123" not in path.read_text()
    assert "Today is <date>." in path.read_text()


KEYS = ["sk-" + "proj-abcDEF123456789012345678", "sk-" + "proj-zyxWVU987654321098765432"]
PASSWORDS = ["hunter2hunter", "correct horse"]


@every_way
def test_secrets_are_kept_out_of_the_file_and_the_session_works_with_those_of_today(talk: Way, tmp_path: Path) -> None:
    """Of the request, of what the model says, and of what the tools say; also after the key has been changed."""
    got: list[str] = []

    @tool
    def login(key: str, password: str) -> str:
        """Log in."""
        got.append(f"{key} {password}")
        return f"Use {key} again, Authorization: Bearer {key[::-1]}."

    def session(model: Runtime, key: str, password: str) -> Any:
        return talk(model, f"My key is {key}, password: {password!r}.", tools=[login], system=f"Be brief, {key}.")

    path = tmp_path / "c.json"
    script = [call("login", key=KEYS[0], password=PASSWORDS[0]), f"I have {KEYS[0]}."]
    with Cassette(path, "record") as cassette:
        session(cassette.model(lambda: ScriptedModel(script)), KEYS[0], PASSWORDS[0])
    written = path.read_text()
    assert [secret for secret in (KEYS[0], KEYS[0][::-1], PASSWORDS[0]) if secret in written] == []
    assert "My key is [redacted:api_key:1], password: '[redacted:assignment:2]'." in written

    for key, password in zip(KEYS, PASSWORDS, strict=True):
        played = Cassette(path)
        assert session(played.model(never), key, password).texts == [f"I have {key}."]
        assert got.pop() == f"{key} {password}"
        assert played.unused == []


def test_a_secret_that_only_the_model_knew_is_played_as_a_placeholder(tmp_path: Path) -> None:
    """And the session goes on with it; what the program names is played as it is."""
    path, redact = tmp_path / "c.json", Redaction({"NAMED": "hunter2hunter"})
    script = [f"Take {KEYS[0]} and hunter2hunter.", "You are welcome."]
    with Cassette(path, "record", redact=redact) as cassette:
        in_sync(cassette.model(lambda: ScriptedModel(script)), "A key!", "Thanks!")

    assert [secret for secret in (KEYS[0], "hunter2") if secret in path.read_text()] == []
    told = in_sync(Cassette(path, redact=redact).model(never), "A key!", "Thanks!")
    assert told.texts == ["Take [redacted:api_key:1] and hunter2hunter.", "You are welcome."]


def test_a_cassette_without_redaction_has_everything_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    with Cassette(path, "record", redact=None) as cassette:
        in_sync(cassette.model(lambda: ScriptedModel(["Hi."])), f"The key is {KEYS[0]}.")

    assert KEYS[0] in path.read_text()
    assert in_sync(Cassette(path, redact=None).model(never), f"The key is {KEYS[0]}.").texts == ["Hi."]


def test_a_miss_does_not_show_a_secret(tmp_path: Path) -> None:
    record(tmp_path / "c.json")
    with pytest.raises(CassetteMissError) as caught:
        in_sync(Cassette(tmp_path / "c.json").model(never), f"The key is {KEYS[0]}.")

    assert KEYS[0] not in f"{caught.value} {caught.value.request}"


def test_a_cancelled_reply_is_played_as_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    agents: list[Any] = []

    def watch(event: Event) -> None:
        if isinstance(event.value, events.TextDelta):
            agents[0].cancel("enough")

    with Cassette(path, "record") as cassette:
        model = cassette.model(lambda: ScriptedModel([Reply("Once upon a time", chunk=5)]))
        live = in_sync(model, "A story!", observers=[events.Inline(watch)], use=agents.append)
    played = in_sync(Cassette(path).model(never), "A story!")

    assert live.results[0].outcome == Cancelled("enough", "Once ")
    assert played.results[0].outcome == Cancelled("the model call was interrupted", "Once ")


def test_modes(tmp_path: Path) -> None:
    """``new`` records what is not there and plays what is; ``off`` touches no file."""
    path = tmp_path / "c.json"
    with pytest.raises(CassetteError, match="pytest --cassette=record"):
        Cassette(path).model(never)
    with Cassette(path, "off") as cassette:
        model = ScriptedModel([])
        assert cassette.model(lambda: model) is model
        assert (cassette.save(), cassette.unused) == (False, [])
    assert not path.exists()
    with Cassette(path, "new") as cassette:
        assert cassette.mode == "record"
        assert in_sync(cassette.model(lambda: ScriptedModel(["Hi."])), "Hello!").texts == ["Hi."]
    with Cassette(path, "new") as cassette:
        assert cassette.mode == "replay"
        assert in_sync(cassette.model(never), "Hello!").texts == ["Hi."]
    with pytest.raises(ConfigError, match="a function that loads the model, not ScriptedModel"):
        Cassette(path).model(ScriptedModel([]))  # type: ignore[arg-type]  # the wrong type is what is tested


def test_nothing_is_written_after_an_exception(tmp_path: Path) -> None:
    """A recording that broke off would be played as if it were whole."""
    path = tmp_path / "c.json"

    def broken_off() -> None:
        with Cassette(path, "record") as cassette:
            in_sync(cassette.model(lambda: ScriptedModel(["Hi."])), "Hello!")
            raise KeyError

    with pytest.raises(KeyError):
        broken_off()
    assert not path.exists()


def test_a_recorder_is_the_model_that_it_records(tmp_path: Path) -> None:
    model = ScriptedModel(["Hi."], name="real", context_tokens=1234)
    recorder = Cassette(tmp_path / "c.json", "record").model(lambda: model)
    request = ModelRequest("", History([UserMessage("m1", "Hi!")]), (), GenerationOptions())

    assert model.describe() is recorder.describe()
    assert model.count_tokens(request) == recorder.count_tokens(request)
    generation = recorder.submit(request)
    generation.cancel()
    assert [output.finish_reason for output in generation] == ["cancelled"]  # type: ignore[union-attr]  # it is Done


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "can't be read"),
        ("[]", "no cassette"),
        ('{"format": "cogstep-cassette", "version": 2}', "reads version 1; record it again"),
        ('{"format": "cogstep-cassette", "version": 1}', "damaged"),
        ('{"format": "cogstep-cassette", "version": 1, "models": {}, "exchanges": [{}]}', "damaged"),
        (
            '{"format": "cogstep-cassette", "version": 1, "models": {}, "exchanges": [{"request": {"messages": []}, '
            '"reply": {"finish_reason": "bored"}}]}',
            "damaged",
        ),
        (
            '{"format": "cogstep-cassette", "version": 1, "models": {}, "exchanges": [{"request": {"messages": []}, '
            '"reply": {"finish_reason": "stop", "txt": ""}}]}',
            "no txt",
        ),
    ],
)
def test_a_file_that_is_no_cassette_says_so(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)

    with pytest.raises(CassetteError, match=problem):
        Cassette(path).model(never)


def test_a_place_that_can_t_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CassetteError, match="can't be written"):
        record(tmp_path / "file" / "c.json", tools=[multiply])


# --------------------------------------------------------------------------------------------------- what is the same


def request_of(*messages: Any, **changes: Any) -> ModelRequest:
    tools = (ToolSpec("look", "Look.", {"type": "object", "properties": {"n": {"type": "integer"}}}),)
    return evolve(ModelRequest("Be brief.", History(messages), tools, GenerationOptions()), **changes)


def digest(request: ModelRequest) -> str:
    return request_digest(request_data(request))


TALK = (
    UserMessage("m1", "Hi!"),
    AssistantMessage("m2", "", calls=(ToolCall("call-1-1-1", "look", '{"n": 1, "m": 2}'),)),
    ToolMessage("m3", "call-1-1-1", "look", "1"),
)
SAME_TALK = (
    UserMessage("x1", "Hi!", "engine"),
    AssistantMessage("x2", "", calls=(ToolCall("c9", "look", '{"m":2,"n":1}'),)),
    ToolMessage("x3", "c9", "look", "1", "error"),
)


def test_what_does_not_matter_changes_no_digest() -> None:
    """Ids, the order of keys, and what only policy reads."""
    spec = ToolSpec(
        "look", "Look.", {"properties": {"n": {"type": "integer"}}, "type": "object"}, read_only=True, approval=True
    )

    assert digest(request_of(*TALK)) == digest(request_of(*SAME_TALK, tools=(spec,)))


@pytest.mark.parametrize(
    "other",
    [
        request_of(*TALK, system="Be long."),
        request_of(*TALK[:2]),
        request_of(*TALK, tools=()),
        request_of(*TALK, options=GenerationOptions(seed=1)),
        request_of(*TALK, protocol="tags"),
        request_of(*TALK[:2], ToolMessage("m3", "call-1-1-1", "look", "2")),
        request_of(TALK[0], AssistantMessage("m2", "", "Hm.", calls=TALK[1].calls), TALK[2]),  # type: ignore[union-attr]
    ],
    ids=str,
)
def test_what_the_model_sees_changes_it(other: ModelRequest) -> None:
    assert digest(request_of(*TALK)) != digest(other)


def test_a_digest_is_the_same_in_every_process() -> None:
    """Pinned, since cassettes lie in repositories for years; and made again in a process with another hash seed."""
    script = (
        "from interpreters.testing.cassettes import request_digest\n"
        f"data = {request_data(request_of(*TALK))!r}\n"
        "print(request_digest(dict(reversed(data.items()))))"
    )
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )

    assert [run.stdout.strip(), digest(request_of(*TALK))] == ["6acf87028c2b030b"] * 2


# --------------------------------------------------------------------------------------------------------- properties


odd = st.sampled_from(("{", '{"a":1}', '{ "a" : 1 }', '{"a": 1, "a": 2}', "[1]", '{"a": "\\u00e9"}', '{"a": 1e400}'))
any_replies = st.one_of(
    replies([multiply]).filter(lambda reply: reply.crash is None),
    st.builds(lambda text: Reply(calls=ProposedCall("multiply", text)), odd),
    st.builds(Reply, malformed=st.just((MalformedToolCall("{", "cut"),))),
)


@given(any_replies)
def test_every_reply_comes_back_as_it_was(reply: Reply) -> None:
    """Through JSON text: to the byte of the arguments, which are what is judged and run."""
    done = reply.done

    assert done == reply_of_data(json.loads(json.dumps(data_of_reply(done, 3))))[0]


@settings(max_examples=30)
@given(st.lists(any_replies, max_size=5), st.lists(st.sampled_from(["Hi!", "And?"]), min_size=1, max_size=3))
def test_every_session_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, script: list[Reply], says: list[str]
) -> None:
    """Whatever the model said, the played session is the recorded one; and the file is stable when written again."""
    path = tmp_path_factory.mktemp("cassettes") / "c.json"
    options: dict[str, Any] = {"tools": [multiply], "clock": fakes.FakeClock()}
    with Cassette(path, "record") as cassette:
        live = in_sync(cassette.model(lambda: fakes.GeneratedModel(script)), *says, **options)
    first = path.read_bytes()
    played = in_sync(Cassette(path).model(never), *says, **options)
    write_tape(path, read_tape(path))

    assert live.results == played.results
    assert live.state.history == played.state.history
    assert first == path.read_bytes()

"""Recordings as a collection: what is listed, found, exported and deleted, and what is not."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentState,
    Cancelled,
    CogstepError,
    Completed,
    EchoEngine,
    Failed,
    Failure,
    Input,
    LimitReached,
    MalformedToolCall,
    ModelRequest,
    ToolMessage,
    Transition,
    UserMessage,
    UserSpoke,
)
from interpreters import LATER, Agent, Approval, AsyncAgent, fakes, tool
from interpreters.recording.journal import Journal
from interpreters.recording.journal.payloads import LARGE, directory_of
from interpreters.recording.sessions import (
    BadFile,
    Hit,
    SessionInfo,
    list_sessions,
    read_transcript,
    search_sessions,
    transcript_to_data,
    transcript_to_markdown,
    transcript_to_openai,
)
from interpreters.recording.sessions.export import NO_RESULT
from interpreters.testing.fakes import Reply, ScriptedModel, call
from runtime import Notes
from tests.interpreters.journals import small
from tests.interpreters.secrets import KEY

PAGE = "A page with a pear in it. " * (LARGE // 10)


@tool(read_only=True)
def price(item: str) -> str:
    """Say what something costs."""
    if item == "page":
        return PAGE
    if item == "nothing":
        raise ValueError("no such thing")
    return f"{item}: `2`\n```\n# not a heading\n```"


@tool(read_only=True)
def shout(text: str) -> str:
    return text


@tool(approval=True)
def buy(item: str) -> str:
    """Buy something."""
    return f"bought {item}"


TOOLS = [price, buy]


SCRIPT: list[Any] = [
    Reply("I look.", [call("price", item="plum"), call("price", item="nothing")], reasoning="Plums, *I* think."),
    [call("buy", item="plum"), call("buy", item="pear"), call("nonsense", a=1)],
    call("ask_user", questions=[{"question": "Which?", "options": ["red", "blue"]}]),
    [call("spawn_worker", name="ann", objective="work"), call("remember", text="Plums are good.")],
    call("price", item="page"),
    f"# Done\n\nThe key is {KEY}. <b>é</b>",
]


class Faltering(ScriptedModel):
    """Fails once, writes one call that can't be read, and goes on then; workers are answered apart."""

    def __init__(self) -> None:
        trouble = [Failure("slow down", kind="rate_limit"), Reply(malformed=(MalformedToolCall("{", "cut"),))]
        self.rest = iter([*trouble, *SCRIPT])
        super().__init__(repeat(self.answer), context_tokens=10**6)

    def answer(self, request: ModelRequest) -> Any:
        first = request.messages[0]
        if isinstance(first, UserMessage) and first.text.startswith("work"):
            return "Worked on the fig."
        return next(self.rest)


def record_session(path: Path) -> Agent:
    """Everything that a session can hold: calls, errors, refusals, questions, workers, reasoning, a reset."""
    approvals: Iterator[Any] = iter([True, Approval(False, "too dear")])
    agent = Agent(
        Faltering(),
        TOOLS,
        "Be brief.",
        features=["questions", "memory", "workers"],
        memory=Notes(),
        ask=lambda request: ["red"],
        approve=lambda request: next(approvals),
        journal=path,
        session="everything",
        clock=fakes.FakeClock(1_790_000_000.0),
        worker_patience=None,  # of seconds that no clock here counts
        fsync="never",
    )
    with agent:
        agent.run("What is a plum?\n\n## A heading of the user's")
        agent.set_mode("careful")
        agent.reset()
        agent.run("work again")
    return agent


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sessions") / "everything.jsonl"
    record_session(path)
    return path


def interrupted(path: Path, kept: int, source: Path) -> Path:
    path.write_bytes(b"".join(source.read_bytes().splitlines(keepends=True)[:kept]))
    return path


# --------------------------------------------------------------------------------------------------------------- lists


def test_a_session_is_listed_with_what_one_wants_to_know(everything: Path) -> None:
    (info,) = list_sessions(everything.parent)

    assert isinstance(info, SessionInfo)
    assert (info.session, info.status, info.turns) == ("everything", "idle", 2)
    assert info.title == "What is a plum?\n\n## A heading of the user's"
    assert (info.created, info.origin, info.damage, info.warnings, info.redacted) == (1_790_000_000.0, None, "", (), 1)
    assert info.records == everything.read_bytes().count(b"\n") - 1
    assert info.bytes == everything.stat().st_size + len(PAGE)


def test_the_status_says_what_can_be_done_with_it(everything: Path, tmp_path: Path) -> None:
    """Open while it is written, interrupted in the middle of a turn, else idle; also before anything was said."""
    small(tmp_path / "a.jsonl")
    interrupted(tmp_path / "b.jsonl", 4, everything)
    interrupted(tmp_path / "c.jsonl", 1, everything)
    with Agent.resume(tmp_path / "a.jsonl", ScriptedModel([])):
        listed = [one for one in list_sessions(tmp_path) if isinstance(one, SessionInfo)]
        assert [one.status for one in listed] == ["open", "interrupted", "idle"]
        assert [one.turns for one in listed] == [1, 0, 0]
    assert isinstance(first := next(list_sessions(tmp_path)), SessionInfo)
    assert first.status == "idle"


@pytest.mark.parametrize("answered", [False, True])
def test_a_turn_that_only_waits_for_a_person_is_no_interrupted_one(answered: bool, tmp_path: Path) -> None:
    """One that waits for a model's reply is: nobody can answer it."""

    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    replies = [[call("price", item="plum"), call("pay")], "It is paid."]
    path = tmp_path / "a.jsonl"
    model = ScriptedModel(replies[: 1 + answered])
    with Agent(model, [price, pay], journal=path, approve=lambda _request: LATER) as agent:
        agent.run("Pay!")
        (effect,) = agent.pending
        if answered:
            agent.answer(str(effect.effect_id), True)
    lines = path.read_bytes().splitlines(keepends=True)
    (tmp_path / "b.jsonl").write_bytes(b"".join(lines[:2]))
    listed = [one.status for one in list_sessions(tmp_path) if isinstance(one, SessionInfo)]

    assert listed == ["idle" if answered else "waiting", "interrupted"]


def test_bad_files_come_with_the_reason(everything: Path, tmp_path: Path) -> None:
    """What is no journal, what can't be read any more; and a damaged record says how far it goes."""
    (tmp_path / "data.jsonl").write_text('{"role":"user"}\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "notes.txt").write_text("not looked at")
    (tmp_path / "folder.jsonl").mkdir()
    lines = everything.read_bytes().splitlines(keepends=True)
    (tmp_path / "torn.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:-9])
    (tmp_path / "x-damaged.jsonl").write_bytes(b"".join([*lines[:4], lines[4].replace(b"1", b"2", 1), *lines[5:]]))
    (tmp_path / "z-header.jsonl").write_bytes(lines[0].replace(b"Be brief", b"Be brisk"))
    data, empty, torn, damaged, header = list_sessions(tmp_path)

    assert isinstance(data, BadFile)
    assert "no cogstep journal" in data.reason
    assert isinstance(empty, BadFile)
    assert "the file is empty" in empty.reason
    assert isinstance(torn, SessionInfo)
    assert ("torn" in torn.warnings[0], torn.damage, torn.records) == (True, "", 2)
    assert isinstance(damaged, SessionInfo)
    assert ("line 5: the record was changed" in damaged.damage, damaged.records) == (True, 3)
    assert isinstance(header, BadFile)
    assert header.reason.startswith("line 1: the header is damaged")
    with pytest.raises(FileNotFoundError):
        list(list_sessions(tmp_path / "nowhere"))


def test_a_fork_is_listed_with_where_it_comes_from(tmp_path: Path) -> None:
    small(tmp_path / "a.jsonl", session="first")
    Agent.fork(tmp_path / "a.jsonl", ScriptedModel([]), journal=tmp_path / "b.jsonl").close()
    _, fork = list_sessions(tmp_path)

    assert isinstance(fork, SessionInfo)
    assert fork.origin is not None
    assert (fork.origin.session, fork.origin.turn) == ("first", 1)


# ------------------------------------------------------------------------------------------------------------- search


def hits(pattern: str, *places: Path, **options: Any) -> list[tuple[str, int, str]]:
    return [
        (hit.speaker, hit.turn, hit.found)
        for hit in search_sessions(pattern, *places, **options)
        if isinstance(hit, Hit)
    ]


def test_what_was_said_is_found_whoever_said_it(everything: Path) -> None:
    """In any case unless told otherwise, also in large texts beside the journal; names of fields are not."""
    assert ("user_spoke", 1, "PLUM".lower()) in hits("PLUM", everything)
    assert hits("PLUM", everything, case=True) == []
    assert ("model_replied", 1, "Plums, *I*") in hits("plums, *i*", everything)
    assert ("tool_failed", 1, "no such thing") in hits("no such thing", everything)
    assert ("tool_returned", 1, "a pear in it") in hits("a pear in it", everything)
    assert ("worker_finished", 1, "the fig") in hits("the fig", everything)
    assert hits("effect_id", everything) == []
    assert hits("É", everything) == [("model_replied", 1, "é")]
    assert ("user_spoke", 2, "work again") in hits("w.rk ag[a-z]+", everything, regex=True)
    (hit,) = (
        one for one in search_sessions("heading of", everything) if isinstance(one, Hit) and one.speaker == "user_spoke"
    )
    assert (hit.before, hit.found, hit.after) == ("What is a plum? ## A ", "heading of", " the user's")


@settings(max_examples=50)
@given(before=st.text(max_size=8), text=st.text(min_size=1, max_size=8), after=st.text(max_size=8))
def test_whatever_a_user_said_is_found(
    before: str, text: str, after: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also quotes, backslashes, line breaks, and half of a surrogate pair elsewhere in the line."""
    path = tmp_path_factory.getbasetemp() / "said.jsonl"
    path.unlink(missing_ok=True)
    small(path, f"a{before}{text}{after}", "\ud83d", redact=None)

    assert [text] == [found for speaker, _, found in hits(text, path, case=True) if speaker == "user_spoke"]


def test_what_can_not_be_searched_is_told(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text("{}\n")
    lines = small(tmp_path / "a.jsonl").read_bytes()
    (tmp_path / "b.jsonl").write_bytes(lines.replace(b'"text":"Hi!"', b'"text":"Ho!"', 1))

    reasons = [bad.reason for bad in search_sessions("zebra", tmp_path) if isinstance(bad, BadFile)]
    assert ["line 2: the record was changed" in reasons[0], "no cogstep journal" in reasons[1]] == [True, True]
    with pytest.raises(CogstepError, match="no regular expression"):
        list(search_sessions("(", tmp_path, regex=True))


# -------------------------------------------------------------------------------------------------------- transcripts


def test_a_transcript_holds_every_message_once(everything: Path, tmp_path: Path) -> None:
    """Those of before the reset and those behind it; with what happened between them."""
    transcript = read_transcript(everything)
    first, second = transcript.messages()
    notes = [entry.note for turn in transcript.turns for entry in turn.entries if entry.note]

    assert ([turn.number for turn in transcript.turns], transcript.in_flight) == ([1, 2], ())
    assert [Completed("Worked on the fig.")] == [transcript.turns[1].outcome]
    assert len({message.id for message in (*first, *second)}) == len(first) + len(second)
    statuses = [message.status for message in first if isinstance(message, ToolMessage)]
    assert {"ok", "error", "refused"} == set(statuses)
    assert [getattr(message, "text", "") for message in second] == ["work again", "Worked on the fig."]
    assert notes[0].startswith("The model failed (rate limit: slow down); attempt 2 after 2.")
    for expected in (
        "A call could not be read (cut).",
        "The user allowed `buy`.",
        "`buy` was refused: too dear.",
        "The mode was set to careful.",
        "The conversation was reset.",
    ):
        assert expected in notes


def test_it_is_the_history_that_the_session_had(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Agent(ScriptedModel([call("price", item="fig"), "Two."]), TOOLS, journal=path) as agent:
        agent.run("A fig?")
        history = tuple(agent.state.history)

    assert [history] == list(read_transcript(path).messages())


class Own:
    """An engine of somebody's own."""

    def step(self, state: AgentState, input: Input | None) -> Transition:
        return EchoEngine().step(state, input)


def test_an_engine_of_one_s_own_has_to_be_given(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    with Journal.create(path, session="s", engine=Own()) as journal:
        event = UserSpoke("hi", at=1.0)
        journal.write(event, Own().step(AgentState(), event))

    with pytest.raises(CogstepError, match="give one"):
        read_transcript(path)
    assert len(read_transcript(path, Own()).turns) == 1
    assert isinstance(next(list_sessions(path)), SessionInfo)


# ------------------------------------------------------------------------------------------------------------ exports


def check_openai(body: Any) -> None:
    """The rules of OpenAI's API: each call is answered once, in order, before anything else is said."""
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_call_id"]
            assert isinstance(message["content"], str)
            continue
        assert waiting == []
        assert message["role"] in ("system", "user", "assistant")
        calls = message.get("tool_calls", [])
        waiting = [call["id"] for call in calls]
        assert calls or isinstance(message["content"], str)
        for one in calls:
            assert one["type"] == "function"
            assert isinstance(json.loads(one["function"]["arguments"]), dict)
    assert waiting == []


def test_openai_messages_answer_every_call(everything: Path) -> None:
    """Ids match, results stand behind their calls, tools are declared; a reset begins another conversation."""
    bodies = transcript_to_openai(read_transcript(everything))

    assert len(bodies) == 2
    for body in bodies:
        check_openai(body)
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
        names = [one["function"]["name"] for one in body["tools"]]
        assert names[:2] == ["price", "buy"]
        assert "ask_user" in names
    said = [message for message in bodies[0]["messages"] if message.get("tool_calls")]
    assert said[0]["content"] == "I look."
    assert not any("reasoning_content" in message for message in said)
    thought = transcript_to_openai(read_transcript(everything), reasoning=True)[0]["messages"]
    assert [m["reasoning_content"] for m in thought if "reasoning_content" in m] == ["Plums, *I* think."]


def test_what_was_interrupted_is_answered_too(everything: Path, tmp_path: Path) -> None:
    """After any record: a call without a result says so."""
    path = tmp_path / "cut.jsonl"
    directory_of(path).symlink_to(directory_of(everything))
    last: list[Any] = []
    for kept in range(1, everything.read_bytes().count(b"\n") + 1):
        transcript = read_transcript(interrupted(path, kept, everything))
        for body in transcript_to_openai(transcript):
            check_openai(body)
            last += [message["content"] for message in body["messages"] if message["role"] == "tool"]
        json.dumps(transcript_to_data(transcript))
        transcript_to_markdown(transcript)
    assert NO_RESULT in last


def test_json_has_all_of_it(everything: Path) -> None:
    """Header, turns, messages, notes, outcomes, and nothing that JSON has no form for."""
    data = transcript_to_data(read_transcript(everything))

    assert data == json.loads(json.dumps(data, allow_nan=False))
    assert (data["session"], data["engine"], data["origin"]) == ("everything", "llm", None)
    assert [turn["outcome"]["type"] for turn in data["turns"]] == ["completed", "completed"]
    kinds = [entry["message"]["type"] for entry in data["turns"][0]["entries"] if "message" in entry]
    assert kinds[:4] == ["user", "assistant", "tool", "tool"] or kinds[0] == "user"
    assert data["turns"][0]["entries"][0] == {
        "record": 1,
        "at": 1_790_000_000.0,
        "message": {"type": "user", "id": "m1", "text": "What is a plum?\n\n## A heading of the user's"},
    }


def test_markdown_keeps_what_was_said_apart_from_its_own_structure(everything: Path) -> None:
    """Headings are those of the page: what users and tools write is quoted or fenced."""
    text = transcript_to_markdown(read_transcript(everything))
    fence, headings = "", []
    for line in text.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = "`" * (len(line) - len(line.lstrip("`")))
        elif line.startswith("#"):
            headings.append(line)

    assert headings == ["# Session everything", "## Turn 1", "## Turn 2"]
    assert fence == ""
    for expected in (
        "> ## A heading of the user's",
        "Call `price` (call-",
        "````\nplum: `2`\n```",
        "*The conversation was reset.*",
        "Plums, *I* think.",
        "The key is [redacted:api_key:1].",
    ):
        assert expected in text
    assert KEY not in text
    second = transcript_to_markdown(read_transcript(everything), turn=2)
    assert ("## Turn 1" in second, "## Turn 2" in second) == (False, True)


EVIL = [
    "<script>alert(1)</script>",
    "a\n\n</details>\n\n<img src=x onerror=alert(1)>",
    "![beacon](https://evil.example/x.png)",
    "[safe](javascript:alert(1))",
    "[safe]( javascript&#58;alert(1))",
    "[safe][x]\n\n[x]: javascript:alert(1)",
    "<javascript:alert(1)>",
    "```\n# heading\n```\n\n# heading",
    "````\n~~~\n<b>bold</b>",
    "\x1b[2J\u202e\u2028# heading\r# heading",
    "</summary></details><!-- ",
    "`<b>` `` ``` <b>",
    "a\n\n# heading\n\n---\n\n| a | b |\n|---|---|",
    "`](javascript:x)\n# heading\n",
]
"""Texts and names that would be more than text on a page. Another is one more line."""


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_nothing_in_a_session_is_more_than_text_on_its_page(evil: str, tmp_path: Path) -> None:
    """Wherever it stands, it is no heading, no HTML, no image and no order to a terminal."""
    path = tmp_path / "a.jsonl"
    replies = [Reply(evil, reasoning=evil, calls=(call("shout", text=evil), call(evil))), Reply(evil)]
    with Agent(ScriptedModel(replies), [shout], evil, journal=path, session=evil) as agent:
        agent.run(evil)
    page = transcript_to_markdown(read_transcript(path))

    outside, fence = [], ""
    for line in page.split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = "`" * (len(line) - len(line.lstrip("`")))
        elif line not in ("<details><summary>Reasoning</summary>", "</details>"):
            outside.append(re.sub(r"\\[<>&\[\]!#|*_~\\]|(`+).*?\1(?!`)", "", line))
    assert fence == ""
    assert [line for line in outside if line.startswith("#")][1:] == ["## Turn 1"]
    assert not re.search(r"<[A-Za-z/!?]|!\[|\](\(|:)", "\n".join(outside))
    assert {char for char in page if not char.isprintable()} <= {"\n"}


def test_each_outcome_is_told(tmp_path: Path) -> None:
    def cancel(request: ModelRequest) -> str:
        agent.cancel("enough")
        return "Never."

    script: list[Any] = [cancel, Failure("no such model", kind="fatal"), Reply("Cut", finish_reason="length"), "Fine."]
    path = tmp_path / "a.jsonl"
    agent = Agent(ScriptedModel(script), journal=path)
    with agent:
        for text in "abcd":
            agent.run(text)
    transcript = read_transcript(path)

    outcomes = [turn.outcome for turn in transcript.turns]
    assert [Cancelled, Failed, LimitReached, Completed] == [type(outcome) for outcome in outcomes]
    text = transcript_to_markdown(transcript)
    for expected in (
        "*The turn was cancelled: enough.*",
        "*The turn failed (fatal): no such model*",
        "cut at the token",
    ):
        assert expected in text
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    assert "The turn was interrupted here." in transcript_to_markdown(read_transcript(path))
    assert read_transcript(path).in_flight == ("CallModel",)


def test_what_was_under_way_is_named_by_its_decisions(tmp_path: Path) -> None:
    """Whatever the session waited for: the model, a tool, the user."""
    path = tmp_path / "a.jsonl"
    replies = [[call("price", item="plum"), call("buy", item="plum")], "Done."]
    with Agent(ScriptedModel(replies), tools=[price, buy], journal=path, approve=lambda _: True) as agent:
        agent.run("go")
    lines, found = path.read_bytes().splitlines(keepends=True), []
    for length in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:length]))
        found.append(read_transcript(path).in_flight)

    under_way = ["", "CallModel", "CallTool", "AskApproval", "CallTool", "CallModel", ""]
    assert found == [tuple(name.split()) for name in under_way]


def test_a_session_of_asyncio_reads_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncAgent(ScriptedModel(["Hello!"]), journal=tmp_path / "b.jsonl", session="s") as agent:
            await agent.run("Hi!")

    asyncio.run(main())
    small(tmp_path / "a.jsonl", session="s")

    one, two = (transcript_to_openai(read_transcript(tmp_path / name)) for name in ("a.jsonl", "b.jsonl"))
    assert one == two


def test_a_fork_reads_with_the_conversation_that_it_began_with(tmp_path: Path) -> None:
    small(tmp_path / "a.jsonl", session="first")
    path = tmp_path / "fork.jsonl"
    with Agent.fork(tmp_path / "a.jsonl", ScriptedModel(["On."]), journal=path) as agent:
        agent.run("And on?")
    transcript = read_transcript(path)
    (conversation,) = transcript.messages()

    assert [getattr(message, "text", "") for message in conversation] == ["Hi!", "Hello!", "And on?", "On."]
    assert [turn.number for turn in transcript.turns] == [2]
    check_openai(transcript_to_openai(transcript)[0])
    assert "It goes on from turn 1 of session first." in transcript_to_markdown(transcript)

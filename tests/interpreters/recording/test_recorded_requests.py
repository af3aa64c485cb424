"""What the model was asked, read back from a recording: the same requests, and a true account of each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    Candidate,
    CogstepError,
    EchoEngine,
    Failure,
    Limits,
    LLMEngine,
    ModelRequest,
    RetryPolicy,
    Usage,
    UserSpoke,
)
from interpreters import Agent, tool
from interpreters.recording.context_report import SAYS_SO, STEPS_GO, ContextReport, Fate, changes_between, report_of
from interpreters.recording.journal import JournalDamagedError, JournalError
from interpreters.recording.recorded_requests import RecordedRequest, RecordedRequests, find_requests
from interpreters.testing.fakes import FakeClock, Reply, ScriptedModel, call
from tests.interpreters.journals import record_session, replaced
from tests.interpreters.templated import TEMPLATES, CountingModel, counting_by


@tool(read_only=True)
def look(size: int) -> str:
    """Look at something of this size."""
    return "".join(chr(97 + place % 26) for place in range(size))


def record(
    path: Path, turns: list[tuple[str, list[int]]], context_tokens: int = 4096, **options: Any
) -> list[ModelRequest]:
    """A session of turns, each a message and the sizes of the results in it; the requests that its model was given."""
    replies: list[Any] = [[*[call("look", size=size) for size in sizes], f"Done with {text}."] for text, sizes in turns]
    model = ScriptedModel(chain.from_iterable(replies), context_tokens=context_tokens)
    with Agent(model, tools=[look], system="Be brief.", journal=path, **{"compact_at": None, **options}) as agent:
        for text, _ in turns:
            agent.run(text)
        return list(model.requests)


def read(path: Path) -> tuple[list[RecordedRequest], list[ContextReport], RecordedRequests]:
    with RecordedRequests(path) as requests:
        found = list(requests)
        return found, [report_of(one, requests.config) for one in found], requests


TURNS = st.lists(
    st.tuples(st.text("ab é", min_size=1, max_size=300), st.lists(st.integers(0, 3000), max_size=4)),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=30)
@given(TURNS, st.integers(800, 4096))
def test_a_recording_gives_the_requests_that_its_model_was_given(
    turns: list[tuple[str, list[int]]], context_tokens: int
) -> None:
    """To the character, in order; and each report accounts for every message of history and every token."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "s.jsonl")
        asked = record(path, turns, context_tokens)
        found, reports, requests = read(path)

    assert asked == [one.call.request for one in found]
    assert (requests.diverged, requests.warnings, requests.foreign, requests.count) == (0, (), "", len(asked))
    for request, report in zip(found, reports, strict=True):
        assert request.same
        assert report.same
        assert [message.id for message in request.state.history] == [one.id for one in report.messages]
        assert [message.id for message in request.call.request.messages] == [one.id for one in report.shown]
        assert request.assembled is not None
        assert request.assembled.dropped == len(report.left_out)
        assert request.assembled.shortened == sum(one.fate == "shortened" for one in report.messages)
        parts = [report.fixed_tokens, *(one.tokens for one in report.shown)]
        assert report.used == pytest.approx(sum(parts), abs=2 + len(parts) / 2)  # each is rounded
        assert report.used is not None
        assert report.budget is not None
        assert 0 <= (report.remaining or 0) == report.budget - report.used
        for one in report.messages:
            assert bool(one.why) == (one.fate != "whole")
            assert (one.hidden > 0) == (one.fate != "whole" and one.characters > 0)
        said = [one.turn for one in report.messages]
        assert said == sorted(said)
        assert said[-1] == int(request.step.partition(".")[0])


@settings(deadline=None, max_examples=15)
@given(TURNS, st.integers(800, 4096), st.data())
def test_what_two_requests_share_is_what_both_begin_with(
    turns: list[tuple[str, list[int]]], context_tokens: int, data: st.DataObject
) -> None:
    """No message more and none less, and none at all if the tools differ; what is gone, came or changed differs."""
    with TemporaryDirectory() as directory:
        record(Path(directory, "s.jsonl"), turns, context_tokens)
        found, _, requests = read(Path(directory, "s.jsonl"))
    before, after = (data.draw(st.sampled_from(found)) for _ in range(2))
    changes = changes_between(before, after, requests.config)
    left, right = (list(one.call.request.messages) for one in (before, after))

    if before.call.request.tools != after.call.request.tools:  # as in the last request of a loop of calls
        assert changes.kept_messages == 0
        return
    assert left[: changes.kept_messages] == right[: changes.kept_messages]
    assert left[changes.kept_messages : changes.kept_messages + 1] != right[
        changes.kept_messages : changes.kept_messages + 1
    ] or changes.kept_messages == len(left) == len(right)
    assert changes.parts == ()
    assert 0 < changes.share <= 1.5  # by the scale of the second
    names = {one.id for one in left} ^ {one.id for one in right}
    assert names == {one.id for one in (*changes.gone, *changes.came)}
    same = [one.id for one in left if one in right]
    assert {one.id for one in left} - {one.id for one in changes.gone} == {
        *same, *(one.id for one, _ in changes.changed)
    }  # fmt: skip


def test_a_long_result_is_said_to_be_cut(tmp_path: Path) -> None:
    """As it comes in, and again where there is no room; what history never had is counted too."""
    record(tmp_path / "s.jsonl", [("Look.", [5000, 10]), ("Again.", [2900, 2901]), ("More.", [2900])], 2048)
    _, reports, _ = read(tmp_path / "s.jsonl")
    first = [one for report in reports[1:] for one in report.messages if one.id == "m3"]

    assert [one.fate for one in first[:2]] == ["cut", "cut"]
    assert {one.fate for one in first} == {"cut", "shortened"}
    assert all(5000 < one.hidden + one.characters < 5200 for one in first)  # with the notes that say so


def test_it_says_how_each_call_ended(tmp_path: Path) -> None:
    """With what the runtime counted: a failure, its next attempt, and the answer."""
    replies = [
        Reply(failure=Failure("the line is dead", kind="transient"), usage=Usage(7)),
        Reply("Hello.", usage=Usage(50, 3, 40)),
    ]
    with Agent(
        ScriptedModel(replies), journal=tmp_path / "s.jsonl", clock=FakeClock(), retry=RetryPolicy(attempts=2)
    ) as agent:
        agent.run("Hi")
    found, _, _ = read(tmp_path / "s.jsonl")

    assert [(one.step, str(one.call.effect_id), one.ending.ended) for one in found] == [
        ("1.1", "1.1.0", "failed"),
        ("1.1", "1.1.2", "replied"),
    ]
    assert (found[0].ending.detail, found[0].ending.usage.input_tokens) == ("the line is dead", 7)
    assert (found[1].ending.detail, found[1].ending.usage) == ("stop", Usage(50, 3, 40))


def test_a_half_written_recording_has_its_last_request_too(tmp_path: Path) -> None:
    """Its answer is missing, and a torn line is told."""
    path = tmp_path / "s.jsonl"
    record(path, [("Look.", [10])])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:20])
    found, _, requests = read(path)

    assert [one.ending.ended for one in found] == ["replied", "open"]
    assert ["torn" in one for one in requests.warnings] == [True]


def test_damage_is_the_error_of_every_reader(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    record(path, [("Look.", [10])])
    path.write_bytes(path.read_bytes().replace(b"abcdefghij", b"abcdefghiJ"))

    with RecordedRequests(path) as requests, pytest.raises(JournalDamagedError, match="line 4"):
        list(requests)
    with pytest.raises(JournalError, match="no such file"):
        RecordedRequests(tmp_path / "no.jsonl")


def test_a_request_that_was_not_sent_is_said_to_be_none(tmp_path: Path) -> None:
    """By its digest: other logic, or another version of it, asks for something else."""
    path = tmp_path / "s.jsonl"
    record(path, [("Look.", [10])])
    with RecordedRequests(path, lambda config: LLMEngine(evolve(config, system="Be long."))) as requests:
        found = list(requests)

    assert ([one.same for one in found], requests.diverged) == ([False, False], 1)

    class Silent(LLMEngine):
        def step(self, state: AgentState, input: Any) -> Any:
            return evolve(super().step(state, input), decisions=())

    with RecordedRequests(path, Silent) as requests:
        assert (list(requests), requests.diverged) == ([], 1)


def test_an_engine_that_asks_no_model_has_no_requests(tmp_path: Path) -> None:
    with Agent(ScriptedModel([]), journal=tmp_path / "s.jsonl", engine=lambda _: EchoEngine()) as agent:
        agent.run("Hi")
    found, _, requests = read(tmp_path / "s.jsonl")

    assert (found, requests.records, requests.diverged) == ([], 1, 0)
    with RecordedRequests(tmp_path / "s.jsonl") as again, pytest.raises(CogstepError, match="it has none"):
        find_requests(again, "last")


def test_requests_have_names(tmp_path: Path) -> None:
    """A number, a step, an effect id, or last; what there is is said where there is no such request."""
    path = tmp_path / "s.jsonl"
    record(path, [("Look.", [10]), ("Again.", [10])])
    for names, expected in ((("2",), [2]), (("2.1", "1.2.0"), [3, 2]), (("last", "1"), [4, 1]), (("1", "1"), [1, 1])):
        with RecordedRequests(path) as requests:
            assert expected == [one.number for one in find_requests(requests, *names)]
    with (
        RecordedRequests(path) as requests,
        pytest.raises(CogstepError, match="no request 9; its 4 end with step"),
    ):
        find_requests(requests, "9")


def test_a_foreign_recording_is_told(tmp_path: Path) -> None:
    """It is read all the same, as by every command that runs nothing."""
    record_session(tmp_path / "s.jsonl")
    (tmp_path / "s.jsonl").write_bytes(replaced(tmp_path / "s.jsonl", "Be brief.", "Be brief!").read_bytes())
    found, _, requests = read(tmp_path / "s.jsonl")

    assert [one.same for one in found] == [False] * len(found)  # the prompt is another one than the digests say
    assert requests.diverged == 1


def test_a_configuration_need_not_be_known(tmp_path: Path) -> None:
    """Then the budget is what the engine says of it."""
    path = tmp_path / "s.jsonl"
    record(path, [("Look.", [10])])
    found, _, _ = read(path)
    report = report_of(found[1], None)
    bare = report_of(evolve(found[1], assembled=None), None)

    assert (report.context_tokens, report.budget) == (None, found[1].assembled and found[1].assembled.budget)
    assert (bare.budget, bare.used, bare.remaining, bare.tools) == (None, None, None, ("look",))
    assert bare.tools_tokens > 0


def test_a_prompt_that_changed_keeps_nothing(tmp_path: Path) -> None:
    """What stands before the messages comes first, so that nothing behind it can be reused."""
    prompts = iter(["One.", "Two."])
    model = ScriptedModel(["a", "b"])
    with Agent(model, system=lambda _: next(prompts), journal=tmp_path / "s.jsonl") as agent:
        agent.run("Hi")
        agent.run("Again")
    found, _, requests = read(tmp_path / "s.jsonl")
    changes = changes_between(found[0], found[1], requests.config)

    assert (changes.parts, changes.kept_messages, changes.kept_tokens, changes.share) == (("system",), 0, 0, 0.0)


CANDIDATES = (
    Candidate("identity", "You are a baker.", "IDENTITY.md"),
    Candidate("memory", "The lantern is in the cellar.", "notes/1.md"),
    Candidate("memory", "Ada likes plums."),
    Candidate("skills", "How to find a lantern. " * 500, "skills/find.md"),
)


def test_a_report_says_what_became_of_candidates(tmp_path: Path) -> None:
    """Of those of its own turn: what stands behind the system prompt, and what in front of the user's message."""
    with Agent(ScriptedModel(["In the cellar.", "Ok."]), system="Help.", journal=tmp_path / "s.jsonl") as agent:
        agent.run(UserSpoke("Where is the lantern?", context=CANDIDATES))
        agent.run("Thanks.")
    found, (first, second), requests = read(tmp_path / "s.jsonl")

    assert [(one.section, one.source, one.fate) for one in first.candidates] == [
        ("identity", "IDENTITY.md", "included"),
        ("memory", "notes/1.md", "included"),
        ("memory", "", "left_out"),
        ("skills", "skills/find.md", "trimmed"),
    ]
    assert [one.name for one in first.sections] == ["identity", "instructions", "memory", "skills", "history"]
    (message,) = first.messages
    assert (message.fate, message.hidden, message.begins) == ("extended", 0, "Where is the lantern?")
    assert first.used is not None
    assert first.sections_tokens > 2000
    assert first.used == pytest.approx(first.fixed_tokens + message.tokens, abs=5)
    assert (second.candidates, second.sections, second.sections_tokens) == ((), (), 0)
    assert [one.fate for one in second.messages] == ["whole"] * 3
    changes = changes_between(found[0], found[1], requests.config)
    assert (changes.parts, [one.id for one, _ in changes.changed]) == (("system",), ["m1"])


def summarise(request: ModelRequest) -> str:
    """What a model says that is asked for a summary; any other message it answers with the same words."""
    return "TASK: look. NEXT STEP: look on." if request.messages[-1].id == "summary-request" else "Done."


def refuse(request: ModelRequest) -> str | Failure:
    """The same, of a model that takes no instruction behind a conversation."""
    behind = request.messages[-1].id == "summary-request" and len(request.messages) > 1
    return Failure("no", kind="fatal") if behind else summarise(request)


@pytest.mark.parametrize(("reply", "fate"), [(summarise, "whole"), (refuse, "as_text")])
def test_a_summary_stands_for_what_it_summarises(
    tmp_path: Path, reply: Callable[[ModelRequest], str | Failure], fate: Fate
) -> None:
    """The request for it holds them; the requests behind it show it in front, and nobody has left them out."""
    path = tmp_path / "s.jsonl"
    model = ScriptedModel(iter(lambda: reply, None), context_tokens=2048, summary=None)
    with Agent(model, journal=path, compact_at=0.5) as agent:
        for number in range(4):
            agent.run(f"{number}: " + "word " * 200)
        asked = list(model.requests)
    found, reports, requests = read(path)
    first = next(index for index, one in enumerate(found) if one.call.purpose == "summary")
    place = first + (found[first + 1].call.purpose == "summary")
    before, after = reports[place], reports[place + 1]

    assert asked == [one.call.request for one in found]
    assert requests.diverged == 0
    text = [one.id for one in before.of(fate)]
    assert text == [one.id for one in after.of("summarised")] != []
    assert [one.fate for one in before.messages if one.id not in text] == ["left_out", "added"]
    assert before.sections_tokens == 0
    assert before.tools_tokens == (reports[0].tools_tokens if fate == "whole" else 0)
    assert before.used == before.fixed_tokens + sum(one.tokens for one in before.shown)
    assert (after.left_out, after.shown[0].id, after.shown[0].role) == ((), "summary", "engine")
    assert f"of the first {len(text)} messages of history" in after.shown[0].why
    assert [one.id for one in after.shown[1:]] == [one.id for one in found[place + 1].call.request.messages[1:]]


def test_steps_that_go_are_left_out_and_a_note_says_so(tmp_path: Path) -> None:
    """A turn of so many calls that shortened results don't make room enough for them."""
    path = tmp_path / "s.jsonl"
    record(path, [("One?", [300 + place for place in range(40)])], 2048, limits=Limits(steps=60, tool_calls=None))
    _, reports, _ = read(path)
    first, begun, *rest = reports[-1].messages
    note = next(one for one in rest if one.id == "skipped")

    assert not [one for report in reports[:10] for one in report.messages if one.id == "skipped"]
    assert (first.fate, begun.fate, begun.why) == ("whole", "left_out", STEPS_GO)
    assert {one.why for one in reports[-1].left_out} == {STEPS_GO}
    assert (note.fate, note.role, note.why) == ("added", "engine", SAYS_SO)
    assert note.begins.startswith(f"[... {len(reports[-1].left_out)} messages of this turn")
    assert reports[-1].messages[len(reports[-1].left_out) + 1] == note, "where they stood"


def test_a_summary_is_asked_for_with_the_sections_behind_the_system_prompt(tmp_path: Path) -> None:
    """And with none of those in front of the user's message; the size is that of the whole request."""
    path, known = tmp_path / "s.jsonl", [Candidate("identity", "Be kind. " * 20), Candidate("memory", "word " * 30)]
    count = counting_by(TEMPLATES["FALLBACK"])
    model = CountingModel(count, lambda _request: iter(["word " * 50]), context_tokens=2048)
    with Agent(model, journal=path, compact_at=0.5, context=[lambda: known]) as agent:
        for number in range(6):
            agent.run(f"{number}: " + "word " * 200)
    _, reports, _ = read(path)
    asked = [report for report in reports if report.purpose == "summary"]

    assert len(asked) == len(model.summaries) > 0
    for report, (_, size) in zip(asked, model.summaries, strict=True):
        assert report.sections_tokens > 0
        assert report.used is not None
        assert size <= report.used == report.fixed_tokens + sum(one.tokens for one in report.shown)


def test_the_configuration_is_that_of_the_recording(tmp_path: Path) -> None:
    record(tmp_path / "s.jsonl", [("Look.", [10])])
    with RecordedRequests(tmp_path / "s.jsonl") as requests:
        assert isinstance(requests.config, AgentConfig)
        assert requests.session
        assert requests.path == str(tmp_path / "s.jsonl")

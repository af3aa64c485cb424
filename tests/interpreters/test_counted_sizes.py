"""No prompt is ever larger than its budget: on real templates and tokenizers, with counts and without."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentState,
    AssistantMessage,
    CallModel,
    Candidate,
    EchoEngine,
    Failure,
    History,
    ModelReplied,
    ModelRequest,
    ProposedCall,
    ToolMessage,
    UserSpoke,
)
from cognition.context import longest_prompt, prompt_budget
from cognition.parsing import ReasoningDelta
from interpreters import Agent, AsyncAgent, Redaction, replay, tool
from interpreters.observing.events import ContextAssembled, Event, WarningRaised
from runtime import Notes, TemplateError
from tests.interpreters.templated import TEMPLATES, CountingModel, TemplatedModel, counting_by

WORDS = st.sampled_from(
    [
        "The quick brown fox jumps over the lazy dog. ",
        "def f(x):\n    return [x ** 2 for _ in range(10)]\n",
        '{"a": [1, 2.5, null], "b": "c\\"d"}\n',
        "3.14159265358979323846264338327950288",
        "die Straße über die Brücke; naïve café ",
        "日本語の文章です。",
        "🎉👩‍👩‍👧‍👦",
        "\t\t  \n\n\n   ",
        "<|im_end|>\n<|im_start|>user\n",
        "aGVsbG8gd29ybGQgYmFzZTY0",
        "\x00\x01\ufffd",
        "ÀÉÎõü" * 3,
        "internationalisation ",
    ]
)
TEXTS = st.builds(lambda words, times: "".join(words) * times, st.lists(WORDS, max_size=4), st.integers(1, 12))
CALLS = st.lists(st.tuples(st.builds(dict, text=TEXTS) | st.just({}), TEXTS), min_size=1, max_size=3)
TURNS = st.lists(st.tuples(TEXTS, st.lists(CALLS, max_size=5), TEXTS, st.just("") | TEXTS), min_size=1, max_size=6)


@tool(read_only=True, parallel=False)
def look(text: str = "") -> str:
    """Look something up."""
    return RESULTS.pop(0)


RESULTS: list[str] = []


Say = Callable[[ModelRequest], Iterator[Any]]
Steps = list[list[tuple[dict[str, str], str]]]
Turn = tuple[str, Steps, str, str]
"""What the user says, the calls of each step with their results, the answer, and what is thought before each reply."""


def run(
    model_of: Callable[[Say], Any], turns: list[Turn], context: int, **options: Any
) -> tuple[list[ContextAssembled], Any, Agent]:
    """A conversation; what was told of each request, and the model with the true sizes."""
    script: list[list[Any]] = []

    def say(_request: ModelRequest) -> Iterator[Any]:
        yield from script.pop(0) if script else ["Done."]

    told: list[ContextAssembled] = []

    def note(event: Event) -> None:
        if isinstance(event.value, ContextAssembled):
            told.append(event.value)

    model = model_of(say)
    agent = Agent(model, [look], context_tokens=context, observers=[note], **options)
    for text, steps, answer, thought in turns:
        thinking = [ReasoningDelta(thought)] if thought else []
        calling = [[*thinking, *(ProposedCall("look", arguments) for arguments, _ in calls)] for calls in steps]
        script[:] = [*calling, [*thinking, answer or "Yes."]]
        RESULTS[:] = [result for calls in steps for _, result in calls] + ["more"] * 50
        agent.run(text)
    return told, model, agent


def check(name: str, turns: list[Turn], context: int, compact_at: float | None) -> int:
    """How many summaries there were."""
    count = counting_by(TEMPLATES[name])

    told, model, agent = run(lambda say: CountingModel(count, say), turns, context, compact_at=compact_at)

    assert len(told) == len(model.sizes)
    budget, longest = prompt_budget(agent.config), longest_prompt(agent.config)
    for report, size in zip(told, model.sizes, strict=True):
        assert report.counted
        assert size <= report.tokens <= longest, (name, size, report)
        assert report.remaining == budget - report.tokens
    costs = agent.state.costs
    assert costs is not None
    for request, size in model.summaries:
        counted = sum(sum(message.tokens) for message in request.messages)
        counted += costs.bare if len(request.messages) == 1 else costs.fixed
        assert size <= counted <= budget, (name, size, counted)
    return len(model.summaries)


@given(st.sampled_from(sorted(TEMPLATES)), TURNS, st.integers(250, 3000), st.none() | st.sampled_from((0.3, 0.75, 1.0)))
@settings(max_examples=60, deadline=None)
@pytest.mark.behaviour("K18a")
def test_no_prompt_is_larger_than_its_budget(
    name: str, turns: list[Turn], context: int, compact_at: float | None
) -> None:
    """By every habit of templates that there is one for, with the shipped model's tokenizer; summaries too."""
    if name in WITHOUT_SUMMARIES:
        turns = [
            (text, unlike(steps, turn), answer, thought) for turn, (text, steps, answer, thought) in enumerate(turns)
        ]
    check(name, turns, context, None if name in WITHOUT_SUMMARIES else compact_at)


@pytest.mark.parametrize("name", ["TELLS_ONLY", "TAGGED_PARAMETERS"])
@pytest.mark.parametrize("argument", ["The quick brown fox jumps over the lazy dog. ", "\n", '"\\'])
def test_a_request_for_a_summary_has_the_calls_that_a_template_leaves_out(name: str, argument: str) -> None:
    """Or writes with fewer tokens than the JSON that the request has."""
    for many in (3, 5, 9):
        steps: Steps = [[({"text": argument * 20 * many}, "The quick brown fox jumps over the lazy dog. " * 4)]]
        turns: list[Turn] = [("", [], "", ""), ("", steps, "", ""), ("", [], "", "")]
        for context in (750, 870, 940):
            check(name, turns, context, 0.3)


WITHOUT_SUMMARIES = {"REFUSES_NONE"}
"""A template that takes no conversation without tools."""


def unlike(steps: Steps, turn: int) -> Steps:
    """The steps with calls that are no repetition, at which a turn would be asked for an answer without tools."""
    return [
        [({"text": f"{turn}.{step}.{place}"}, result) for place, (_, result) in enumerate(calls)]
        for step, calls in enumerate(steps)
    ]


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - WITHOUT_SUMMARIES))
def test_no_request_for_a_summary_is_larger_than_its_budget(name: str) -> None:
    """Of texts that are cut in it, in scripts that tokenizers know well and in those that they don't."""
    mixed = [(f"{text} {WIDE}", steps, answer, "") for text, steps, answer, _ in LONG]

    assert check(name, mixed, 1500, 0.5) > 1


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - {"STRICT"}))
def test_messages_that_nobody_has_answered_stand_side_by_side_and_count(name: str) -> None:
    """Turns that failed leave them. A template that writes something around the newest reply alone takes none away."""
    told, model, _ = run(
        lambda say: CountingModel(counting_by(TEMPLATES[name]), lambda _request: iter([Failure("no", status=400)])),
        [("Well?", [], "", "")] * 12,
        4096,
    )

    assert all(size <= report.tokens for size, report in zip(model.sizes, told, strict=True))


def test_a_short_text_for_a_section_is_as_dense_as_its_own_characters() -> None:
    told: list[ContextAssembled] = []
    emojis = Candidate("identity", "\U0001f469\u200d\U0001f467\U0001f3fd" * 12)
    model = CountingModel(FALLBACK, lambda _request: iter(["Yes."]))
    with Agent(
        model,
        context=[lambda: [emojis]],
        observers=[lambda event: told.append(event.value) if isinstance(event.value, ContextAssembled) else None],
    ) as agent:
        agent.run("Hello")

    assert model.sizes[0] <= told[0].tokens


@pytest.mark.parametrize("name", ["ESCAPES_RESULTS", "FALLBACK"])
def test_a_result_that_is_odd_where_it_is_shown_alone_counts_as_it_is_written(name: str) -> None:
    """JSON within JSON at its beginning, and then so much of plain text that the difference is small beside it."""
    odd = '{"a": "\\\\\\"\\t"}\n' * 30 + "die Straße über die Brücke; naïve café " * 1000
    count = counting_by(TEMPLATES[name])

    told, model, _ = run(lambda say: CountingModel(count, say), [("Look.", [[({}, odd)]], "", "")], 2000)

    assert len(told) == 2
    assert all(size <= report.tokens for size, report in zip(model.sizes, told, strict=True))


ENGLISH = "The quick brown fox jumps over the lazy dog. "
LONG: list[Turn] = [
    (f"Question {turn}: {ENGLISH}", [[({}, ENGLISH * 8)], [({}, ENGLISH * 20), ({}, ENGLISH)]], ENGLISH, "")
    for turn in range(8)
]
"""Far more than fits into a small context."""
WIDE = "3.14159265358979 日本語の文章です。 🎉👩‍👩‍👧‍👦 ÀÉÎõü " * 4
FALLBACK = counting_by(TEMPLATES["FALLBACK"])


def test_estimates_nearly_keep_to_the_budget_once_a_reply_has_corrected_them() -> None:
    """Where the model can't count texts, nothing is stamped on anything."""
    told, model, agent = run(lambda say: TemplatedModel(FALLBACK, say), LONG, 1000)

    assert not any(report.counted for report in told)
    assert agent.state.costs is None
    assert all(not message.tokens for message in agent.state.history)
    assert all(size <= 1.01 * prompt_budget(agent.config) for size in model.sizes[1:])
    assert told[-1].dropped


def stamps(state: AgentState) -> list[tuple[int, ...]]:
    return [message.tokens for message in state.history]


def test_every_way_of_running_stamps_alike(tmp_path: Path) -> None:
    """A thread, asyncio, and a recording, which needs no model to be told again."""
    _, model, agent = run(lambda say: CountingModel(FALLBACK, say), LONG, 1000, journal=tmp_path / "s.jsonl")
    agent.close()
    assert all(stamps(agent.state))
    assert replay(tmp_path / "s.jsonl").same
    assert replay(tmp_path / "s.jsonl").state == agent.state

    script: list[Any] = []
    for _, steps, answer, _ in LONG:
        script += [[ProposedCall("look", arguments) for arguments, _ in calls] for calls in steps] + [[answer]]
    counting = CountingModel(FALLBACK, lambda _request: iter(script.pop(0)))

    async def main() -> AgentState:
        async with AsyncAgent(counting, [look], context_tokens=1000) as other:
            for text, steps, _, _ in LONG:
                RESULTS[:] = [result for calls in steps for _, result in calls]
                await other.run(text)
            return other.state

    again = asyncio.run(main())
    assert stamps(again) == stamps(agent.state)
    assert again.costs == agent.state.costs
    assert counting.sizes == model.sizes


def test_a_session_that_was_estimated_is_counted_from_its_next_message_on(tmp_path: Path) -> None:
    """What it has said before is counted then, as much of it as could be shown."""
    path = tmp_path / "s.jsonl"
    _, _, before = run(lambda say: TemplatedModel(FALLBACK, say), LONG, 1000, journal=path)
    before.close()
    model = CountingModel(FALLBACK, lambda _request: iter(["Yes."]))
    with Agent.resume(path, model, tools=[look]) as agent:
        agent.run("And now?")
        state = agent.state

    assert all(stamps(state))
    assert state.costs is not None
    assert state.costs.model == "templated"
    whole = sum(sum(message.tokens) for message in state.history[-20:])
    assert 0.75 * whole < FALLBACK(evolve(model.requests[0], messages=History(state.history[-20:]))) <= whole + 300
    assert model.sizes[0] <= prompt_budget(agent.config)
    assert len(model.requests[-1].messages) > 1
    assert replay(path).same


def test_what_workers_and_notes_bring_is_counted() -> None:
    """And a hook's word, the schema of an answer, and a message with sections beside it."""
    script = [
        [ProposedCall("spawn_worker", {"name": "a", "objective": "Look."})],
        ["The worker's answer. " * 9],
        [ProposedCall("recall", {"query": "fox"})],
        ["Done."],
    ]
    memory = Notes()
    memory.remember(ENGLISH * 4)
    model = CountingModel(FALLBACK, lambda _request: iter(script.pop(0)))
    reports: list[ContextAssembled] = []
    context = (Candidate("memory", ENGLISH * 3), Candidate("identity", "\u65e5\u672c\u8a9e " * 40))
    with Agent(
        model,
        features=["workers", "memory"],
        memory=memory,
        recall_first=True,
        observers=[lambda event: reports.append(event.value) if isinstance(event.value, ContextAssembled) else None],
    ) as agent:
        agent.run(UserSpoke("What of the fox?", context=context))
        results = [message for message in agent.state.history if isinstance(message, ToolMessage)]

    assert all(report.counted for report in reports)
    assert all(size <= report.tokens for size, report in zip(model.sizes, reports, strict=True))
    for result in results:
        bare = len(result.content.encode())
        assert sum(result.tokens) < bare + 30
        assert len(result.tokens) == 1 + -(-len(result.content) // 100)


def test_every_conversation_that_is_counted_is_a_sound_one() -> None:
    """No two calls of a reply have one id, and each result is of a call before it: servers are told of no others."""
    asked: list[ModelRequest] = []

    def count(request: ModelRequest) -> int:
        asked.append(request)
        return FALLBACK(request)

    steps: Steps = [[({"text": str(place)}, "found") for place in range(100)], [({"text": "more"}, "x" * 300)]]
    _, _, agent = run(lambda say: CountingModel(count, say), [("Look.", steps, "Yes.", "")], 30_000)
    run(
        lambda say: CountingModel(count, say),
        [("Again.", [], "Yes.", "")],
        30_000,
        state=evolve(agent.state, costs=None),
    )

    for request in asked:
        calls = [[call.id for call in one.calls] for one in request.messages if isinstance(one, AssistantMessage)]
        known = {id for ids in calls for id in ids}
        assert all(len(ids) == len({*ids}) for ids in calls)
        assert {one.call_id for one in request.messages if isinstance(one, ToolMessage)} <= known


def counted_conversations(name: str, turns: list[Turn]) -> list[list[int]]:
    """For each turn, how many messages each conversation has that is rendered to count it."""
    asked: list[list[int]] = []
    count = counting_by(TEMPLATES[name])

    class Watched(CountingModel):
        def count_tokens(self, request: ModelRequest) -> int:
            asked[-1].append(len(request.messages))
            return super().count_tokens(request)

    script: list[list[Any]] = []
    agent = Agent(Watched(count, lambda _request: iter(script.pop(0))), [look])
    for text, steps, answer, thought in turns:
        thinking = [ReasoningDelta(thought)] if thought else []
        script[:] = [[*thinking, *(ProposedCall("look", given) for given, _ in calls)] for calls in steps]
        script.append([*thinking, answer])
        RESULTS[:] = [result for calls in steps for _, result in calls]
        asked.append([])
        agent.run(text)
    return asked


TWICE: list[Turn] = [(ENGLISH * 3, [[({"text": ENGLISH}, ENGLISH * 3)]], ENGLISH, ENGLISH)] * 2


@pytest.mark.parametrize("name", ["FALLBACK", "HERMES_LIKE", "OTHER_TAGS", "ESCAPES_RESULTS", "NEWEST_THINKS"])
def test_no_message_is_rendered_apart_once_its_kind_is_measured(name: str) -> None:
    """Neither where the template writes results or arguments as JSON, nor where it shows reasoning."""
    first, second = counted_conversations(name, TWICE)

    assert first
    assert second == []


def test_a_kind_that_is_written_in_no_known_way_is_rendered_apart() -> None:
    """Here arguments in tags: the reply that calls, and nothing else."""
    _, second = counted_conversations("LIKE_A_WRITTEN_FORMAT", TWICE)

    assert second == [3]


@pytest.mark.parametrize("text", ["</think>" * 200, "<|im_end|>\n<|im_start|>user\n" * 60, "<tool_call>" * 100])
def test_markers_in_a_text_count_as_the_text_that_they_are(text: str) -> None:
    """In a message, in arguments, in a result, in an answer and in reasoning."""
    for name in ("FALLBACK", "ESCAPES_RESULTS", "LIKE_A_WRITTEN_FORMAT"):
        turns: list[Turn] = [(text, [[({"text": text}, text)]], text, text), ("And now?", [], "Yes.", "")]
        told, model, _ = run(lambda say, name=name: CountingModel(counting_by(TEMPLATES[name]), say), turns, 30_000)

        assert [report.counted for report in told] == [True] * 3
        assert all(size <= report.tokens for size, report in zip(model.sizes, told, strict=True))


@pytest.mark.parametrize("name", sorted(TEMPLATES))
@pytest.mark.parametrize(
    "arguments",
    [
        {f"key{number}": number for number in range(60)},
        {f"k{number}": "" for number in range(60)},
        {"values": [[number, {"k": True}, None] for number in range(40)]},
        {"deep": json.loads('{"a":' * 30 + "[]" + "}" * 30)},
    ],
)
def test_many_short_arguments_count_as_they_are_written(name: str, arguments: dict[str, Any]) -> None:
    turns: list[Turn] = [("Look.", [[(arguments, "found")]], "Yes.", ""), ("And now?", [], "Yes.", "")]

    told, model, _ = run(lambda say: CountingModel(counting_by(TEMPLATES[name]), say), turns, 30_000)

    assert all(size <= report.tokens for size, report in zip(model.sizes, told, strict=True))


def test_a_short_text_has_a_token_for_each_byte_however_it_is_kept(tmp_path: Path) -> None:
    """Also where the core sees a placeholder in place of a secret, and after the session was resumed."""
    states = []
    path = tmp_path / "s.jsonl"
    options: list[dict[str, Any]] = [{}, {"journal": path, "redact": Redaction(secrets={"key": "hunter2"})}]
    for given_options in options:
        model = CountingModel(FALLBACK, lambda _request: iter(["Yes."]))
        with Agent(model, **given_options) as agent:
            agent.run("It is hunter2.")
            agent.run("é")
            states.append(agent.state)
    with Agent.resume(path, CountingModel(FALLBACK, lambda _request: iter(["Yes."]))) as agent:
        agent.run("é")
        costs, again = agent.state.costs, stamps(agent.state)

    assert costs is not None
    assert stamps(states[0]) == stamps(states[1])
    assert stamps(states[0])[0] == (costs.user + len("It is hunter2."),)
    assert stamps(states[0])[2] == again[4] == (costs.user + 2,)


def test_a_short_text_that_the_template_escapes_is_counted() -> None:
    """A byte may then have more than one token."""
    template = TEMPLATES["FALLBACK"].replace("{{- message.content }}", "{{- message.content | tojson }}")
    count = counting_by(template)
    text = '"\\\n' * 20

    told, model, agent = run(lambda say: CountingModel(count, say), [(text, [], "Yes.", "")] * 2, 4096)

    assert template != TEMPLATES["FALLBACK"]
    assert agent.state.costs is not None
    assert agent.state.history[2].tokens != (agent.state.costs.user + len(text),)
    assert all(size <= report.tokens for size, report in zip(model.sizes, told, strict=True))


# ------------------------------------------------------------------------------------------------------ broken counters


def boom(_texts: Any) -> Any:
    raise ValueError("no idea")


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (boom, "no idea"),
        (lambda texts: [], "3 texts were to be counted, and 0 counts came back"),
        (lambda texts: None, "object is not iterable"),
        (lambda texts: [-1] * len(texts), "a whole number from 0 to"),
        (lambda texts: [float("nan")] * len(texts), "a whole number from 0 to"),
        (lambda texts: [True] * len(texts), "a whole number from 0 to"),
        (lambda texts: ["7"] * len(texts), "a whole number from 0 to"),
        (lambda texts: [10**400] * len(texts), "a whole number from 0 to"),
        (lambda texts: [10**6] * len(texts), "bytes is to have 1000000 tokens"),
    ],
)
def test_counts_that_can_not_be_true_are_told_of_once_and_sizes_are_estimated(texts: Any, why: str) -> None:
    class Broken(CountingModel):
        pass

    Broken.texts = staticmethod(texts)
    warnings: list[str] = []
    model = Broken(FALLBACK, lambda _request: iter(["Yes."]))
    with Agent(model, observers=[lambda event: _note(warnings, event)]) as agent:
        assert agent.run("Hello").text == "Yes."
        assert agent.run("Again").text == "Yes."
        assert agent.state.costs is None

    assert len(warnings) == 1
    assert why in warnings[0]
    assert "sizes are estimated from here on" in warnings[0]


def _note(warnings: list[str], event: Event) -> None:
    if isinstance(event.value, WarningRaised):
        warnings.append(event.value.message)


def test_a_count_that_goes_wrong_in_the_middle_leaves_what_a_text_can_have_at_most() -> None:
    """A prompt that is said to have more tokens than any text: the result counts by its bytes."""
    wrong: list[int] = []
    model = CountingModel(lambda request: wrong[0] if wrong else FALLBACK(request), _calls_once)
    warnings: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        wrong.append(10**9)
        return "abc"

    with Agent(model, [look], observers=[lambda event: _note(warnings, event)]) as agent:
        agent.run("Go")
        state = agent.state
    assert len(warnings) == 1
    assert state.costs is not None
    assert state.history[2].tokens == (state.costs.result + len("look"), 3)


def _calls_once(request: ModelRequest) -> Iterator[Any]:
    yield ProposedCall("look") if len(request.messages) == 1 else "Done."


def test_a_template_that_refuses_is_no_reason_to_warn() -> None:
    """Of a message, or of all: then nothing is stamped, and the turn goes its way."""

    def refusing(request: ModelRequest) -> int:
        if any("secret" in str(message) for message in request.messages):
            raise TemplateError("not this word")
        return FALLBACK(request)

    def refusing_all(_request: ModelRequest) -> int:
        if not asked:
            raise TemplateError("none")
        return 10

    asked: list[int] = []
    for count, costs in ((refusing, True), (refusing_all, False)):
        warnings: list[str] = []
        model = CountingModel(count, lambda _request: iter(["Yes."]))
        with Agent(model, observers=[lambda event, told=warnings: _note(told, event)]) as agent:
            with contextlib.suppress(Exception):
                agent.run("A secret")
            assert (agent.state.costs is not None) is costs
            assert not warnings or "counts" not in warnings[0]


def test_a_program_that_asks_the_model_itself_or_has_an_engine_of_its_own_is_not_counted() -> None:
    model = CountingModel(FALLBACK, lambda _request: iter(["Yes."]))
    mine = {CallModel: lambda effect, _scope: ModelReplied(effect.effect_id, "Mine.")}
    with Agent(model, performers=mine) as agent:
        agent.run("Hello")
        assert agent.state.costs is None
    with Agent(model, engine=lambda _config: EchoEngine()) as agent:
        agent.run("Hello")
        assert agent.state.costs is None


def test_an_input_that_was_counted_elsewhere_is_not_counted_again() -> None:
    model = CountingModel(FALLBACK, lambda _request: iter(["Yes."]))
    with Agent(model) as agent:
        agent.run("Hello")
        agent.run(UserSpoke("Hello", tokens=(7,)))
        assert agent.state.history[2].tokens == (7,)


def test_a_recording_tells_how_long_a_hidden_secret_is_and_not_what(tmp_path: Path) -> None:
    """Counts are of the text that the model is given; `SECURITY.md` says so."""
    sizes: list[int] = []
    for secret in ("hunter2", "hunter2" * 20):
        path = tmp_path / f"{len(secret)}.jsonl"
        model = CountingModel(FALLBACK, lambda _request: iter(["Yes."]))
        with Agent(model, journal=path, redact=Redaction(secrets={"key": secret})) as agent:
            agent.run(f"It is {secret}.")
            sizes.append(sum(agent.state.history[0].tokens))
        assert secret not in path.read_text("utf-8")
        assert model.sizes[0] <= prompt_budget(agent.config)
        assert replay(path).same

    assert sizes[0] < sizes[1]

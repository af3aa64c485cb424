"""Long turns: tool results are shortened before anything else is left out, and the turn goes on."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import example, given, strategies as st

from cognition import (
    AgentState,
    CallModel,
    CallTool,
    EffectId,
    History,
    ModelFailed,
    ProposedCall,
    ToolReturned,
    ToolSpec,
    UserSpoke,
    from_data,
    to_data,
)
from cognition.context import (
    CUT,
    OLD_RESULT,
    CutNote,
    before_window,
    fit,
    message_size,
    shorten_message,
    visible_messages,
)
from cognition.steps.config import Limits
from cognition.steps.decisions import ContextAssembled, TurnFinished
from cognition.steps.phases import Idle
from cognition.steps.state import Window
from cognition.values.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from cognition.values.outcomes import Completed, Failed, Failure, Outcome
from tests.cognition.session import Session, engine_with, replied

READ = ToolSpec("read", read_only=True)
STEPS = st.lists(st.lists(st.integers(0, 3000), min_size=1, max_size=4), max_size=5)
"""For each step of a turn the lengths of its results."""
TURNS = st.lists(st.tuples(st.integers(0, 300), STEPS, st.booleans()), min_size=1, max_size=5)
"""For each turn the length of the user's message, its steps, and whether it was answered."""
SCALES = st.sampled_from([0.5, 1.0, 1.7])


def conversation(turns: list[tuple[int, list[list[int]], bool]]) -> History:
    messages: list[Message] = []
    for turn, (length, steps, answered) in enumerate(turns):
        messages.append(UserMessage(f"u{turn}", "u" * length))
        for step, lengths in enumerate(steps):
            calls = tuple(ToolCall(f"c{turn}.{step}.{place}", "read", "{}") for place in range(len(lengths)))
            messages.append(AssistantMessage(f"a{turn}.{step}", "", "", calls))
            messages += [
                ToolMessage(f"r{call.id}", call.id, "read", text(length))
                for call, length in zip(calls, lengths, strict=True)
            ]
        if answered:
            messages.append(AssistantMessage(f"a{turn}", "answered"))
    return History(messages)


def text(length: int) -> str:
    return "".join(chr(ord("a") + place % 26) for place in range(length))


def whole(history: History, scale: float = 1.0) -> Window:
    return Window(0, sum(map(message_size, history)), scale)


@given(TURNS, SCALES, st.integers(0, 300), st.integers(50, 5000))
@pytest.mark.behaviour("B16")
def test_what_is_shown_fits_and_has_what_it_must_have(
    turns: list[tuple[int, list[list[int]], bool]], scale: float, fixed: int, budget: int
) -> None:
    history = conversation(turns)

    window = fit(history, whole(history, scale), fixed, budget)

    if window is None:
        return
    assert all(end > window.first for end, _ in window.cuts)
    messages, originals = list(visible_messages(history, window)), history[window.first :]
    size = sum(map(message_size, messages))
    assert window.size == pytest.approx(size)
    assert (fixed + size) * scale <= budget + 1e-6
    assert isinstance(messages[0], UserMessage)
    users = [message for message in history if isinstance(message, UserMessage)]
    assert users[-1] in messages
    for message, original in zip(messages[len(before_window(history, window)) :], originals, strict=True):
        if message != original:
            assert isinstance(message, ToolMessage)
            assert isinstance(original, ToolMessage)
            assert evolve(message, content=original.content, left_out=original.left_out) == original
            assert OLD_RESULT - 40 <= len(message.content) < len(original.content)
            head, _, tail = message.content.partition(CUT.split("{")[0])
            assert original.content.startswith(head)
            assert original.content.endswith(tail.partition(" ...]\n")[2])
    assert fit(history, window, fixed, budget) == window


@given(TURNS, SCALES, st.integers(0, 300), st.integers(50, 5000), st.integers(1, 2000))
@example([(0, [[0], [401]], False)], 1.0, 0, 150, 1)
@pytest.mark.behaviour("K18b")
def test_a_larger_budget_shows_no_less(
    turns: list[tuple[int, list[list[int]], bool]], scale: float, fixed: int, budget: int, more: int
) -> None:
    history = conversation(turns)

    small = fit(history, whole(history, scale), fixed, budget)
    large = fit(history, whole(history, scale), fixed, budget + more)

    if small is not None:
        assert large is not None
        assert large.first <= small.first
        lengths = [
            [len(m.content) for m in visible_messages(history, w) if isinstance(m, ToolMessage)] for w in (large, small)
        ]
        for bigger, smaller in zip(lengths[0][len(lengths[0]) - len(lengths[1]) :], lengths[1], strict=True):
            assert bigger >= smaller


@given(TURNS, SCALES, st.integers(0, 200), st.integers(400, 3000))
def test_a_window_that_follows_a_conversation_keeps_its_beginning_most_of_the_time(
    turns: list[tuple[int, list[list[int]], bool]], scale: float, fixed: int, budget: int
) -> None:
    """What was left out stays out, a shortened result never grows, and between two cuts nothing shown is changed."""
    history, window = History(), Window(scale=scale)
    before: list[Message] = []
    for message in conversation(turns):
        history = history.append(message)
        window = evolve(window, size=window.size + message_size(message))
        if not isinstance(message, ToolMessage | UserMessage):
            continue
        moved = fit(history, window, fixed, budget)
        if moved is None:
            return
        messages = list(visible_messages(history, moved))
        assert moved.size == pytest.approx(sum(map(message_size, messages)))
        if moved == window:
            assert messages[: len(before)] == before
        known = {m.id: m for m in before if isinstance(m, ToolMessage)}
        for m in messages:
            if isinstance(m, ToolMessage) and m.id in known:
                assert len(m.content) <= len(known[m.id].content)
        assert all(one[0] < other[0] and one[1] != other[1] for one, other in pairwise(moved.cuts))
        window, before = moved, messages


def test_what_the_model_has_answered_is_shortened_first_and_oldest_first() -> None:
    history = conversation([(30, [[3000], [3000], [3000]], False)])
    window = fit(history, whole(history), 0.0, 2500)

    assert window is not None
    lengths = [len(m.content) for m in visible_messages(history, window) if isinstance(m, ToolMessage)]
    assert lengths == [400, 3000, 3000] or lengths == [400, 400, 3000]
    assert window.first == 0


def test_turns_are_left_out_only_when_shortening_is_not_enough() -> None:
    history = conversation([(900, [[3000]], True), (900, [[3000]], True), (30, [], False)])

    kept = fit(history, whole(history), 0.0, 1500)
    moved = fit(history, whole(history), 0.0, 700)

    assert kept is not None
    assert kept.cuts
    assert kept.first == 0
    assert moved is not None
    assert moved.first > 0


def test_results_that_were_not_answered_share_the_room_and_short_ones_stay_whole() -> None:
    history = conversation([(30, [[100, 3000, 3000]], False)])
    window = fit(history, whole(history), 0.0, 900)

    assert window is not None
    lengths = [len(m.content) for m in visible_messages(history, window) if isinstance(m, ToolMessage)]
    assert lengths[0] == 100
    assert lengths[1] == lengths[2]
    assert 900 - 2 <= sum(map(message_size, visible_messages(history, window))) <= 900


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=4), st.integers(1, 40), st.integers(400, 3000))
@example([2304], 30, 2000)
def test_newest_results_that_counts_say_are_dense_are_shortened_as_far_as_it_takes(
    lengths: list[int], dense: int, budget: int
) -> None:
    """A turn fits wherever 200 characters of each of its results do, however many tokens their characters have."""
    history = History(
        evolve(message, tokens=(8, *[dense * 10] * -(-len(message.content) // 100)))
        if isinstance(message, ToolMessage)
        else message
        for message in conversation([(10, [lengths], False)])
    )
    least = Window(0, cuts=((len(history), 200),))
    window = fit(history, whole(history), 0, budget)

    if window is None:
        assert sum(map(message_size, visible_messages(history, least))) > budget
        return
    assert sum(map(message_size, visible_messages(history, window))) == pytest.approx(window.size)
    assert window.size <= budget
    more = fit(history, whole(history), 0, budget + 50)
    assert more is not None
    assert more.size >= window.size


@pytest.mark.parametrize("dropped", [0, 10, 64, 70])
def test_long_histories_share_what_they_show(dropped: int) -> None:
    """Whole chunks of a history are changed once, and what is shown of a longer one goes on from the same ones."""
    turns = [(30, [[500]] * 20, True)] * 6
    history = conversation(turns)
    window = Window(dropped, 0.0, 1.0, ((130, 400),))

    messages = visible_messages(history, window)
    later = visible_messages(history.append(UserMessage("new", "More.")), window)

    assert later.continues(messages)
    assert len(messages) == len(history) - dropped
    for index, (message, original) in enumerate(zip(messages, history[dropped:], strict=True), dropped):
        assert message == shorten_message(original, 400 if index < 130 else None)
    assert sum(message != original for message, original in zip(messages, history[dropped:], strict=True)) > 10


def test_a_message_of_the_user_is_never_shortened() -> None:
    history = conversation([(9000, [], False)])

    assert fit(history, whole(history), 0.0, 2000) is None


@given(st.integers(0, 2000), st.integers(0, 1000))
def test_a_shortened_result_says_how_much_is_missing(length: int, limit: int) -> None:
    original = ToolMessage("m1", "call-1-1-1", "read", text(length))

    message = shorten_message(original, limit)

    assert isinstance(message, ToolMessage)
    if len(message.content) == length:
        assert message == original
        return
    head, _, rest = message.content.partition("\n[... ")
    missing, _, tail = rest.partition(" characters of this result are left out here for want of room ...]\n")
    assert len(head) + int(missing) + len(tail) == length
    assert message.left_out == int(missing)
    assert shorten_message(evolve(original, left_out=7), limit) == evolve(message, left_out=7 + int(missing))
    assert len(message.content) <= max(limit, len(CUT.format(length, "")))


def tools_results(requests: list[CallModel]) -> list[list[int]]:
    """For each request the lengths of the results in it."""
    return [[len(m.content) for m in one.request.messages if isinstance(m, ToolMessage)] for one in requests]


def read_all(session: Session, lengths: list[list[int]]) -> list[CallModel]:
    """A turn in which the model reads this much, step by step, and then answers; the requests that it got."""
    session(UserSpoke("Read all of it."))
    requests = [decision for decision in session.decisions if isinstance(decision, CallModel)]
    for step in lengths:
        calls = [ProposedCall("read", f'{{"page": {len(requests)}{place}}}') for place in range(len(step))]
        session(replied(requests[-1].effect_id, "", *calls))
        running = [decision for decision in session.decisions if isinstance(decision, CallTool)]
        for call, length in zip(running, step, strict=True):
            session(ToolReturned(call.effect_id, text(length)))
        requests += [decision for decision in session.decisions if isinstance(decision, CallModel)]
    if not isinstance(session.state.phase, Idle):
        session(replied(requests[-1].effect_id, "All of it is letters."))
    return requests


def outcome(session: Session) -> Outcome:
    return next(decision.outcome for decision in session.decisions if isinstance(decision, TurnFinished))


@pytest.mark.parametrize(
    "steps", [[[1000]] * 10, [[1000] * 10], [[1000, 1000]] * 5, [[1000] * 4, [1000] * 6], [[10_000]] * 10]
)
def test_a_turn_with_ten_results_ends_with_its_answer(steps: list[list[int]]) -> None:
    """At 4,096 tokens; it used to end as a context overflow."""
    session = Session(engine_with(READ, context_tokens=4096))

    requests = read_all(session, steps)

    assert outcome(session) == Completed("All of it is letters.")
    newest = len(steps[-1])
    assert min(tools_results(requests)[-1][-newest:]) >= 600  # most of what the model has not answered is shown


def test_between_two_cuts_the_beginning_of_the_prompt_stays_the_same() -> None:
    session = Session(engine_with(READ, context_tokens=4096, limits=Limits(steps=60)))

    requests = read_all(session, [[900]] * 30)

    assert outcome(session) == Completed("All of it is letters.")
    prompts = [tuple(one.request.messages) for one in requests]
    kept = sum(later[: len(one)] == one for one, later in pairwise(prompts))
    assert kept >= 20  # of 30


def test_a_prompt_that_the_runtime_finds_too_long_is_made_shorter_within_the_turn() -> None:
    session = Session(engine_with(READ, context_tokens=4096))
    requests = read_all(session, [])
    session(UserSpoke("Read on."))
    for page in range(3):
        (request,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]
        session(replied(request.effect_id, "", ProposedCall("read", f'{{"page": {page}}}')))
        (running,) = [decision for decision in session.decisions if isinstance(decision, CallTool)]
        session(ToolReturned(running.effect_id, text(1500)))
    (request,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]

    session(ModelFailed(request.effect_id, Failure("too long", "context_overflow")))

    (again,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]
    lengths = tools_results([request, again])
    assert len(requests) == 1
    assert lengths[0] == [1500] * 3
    assert len(lengths[1]) == 3
    assert sum(lengths[1]) < 4500
    assert lengths[1][-1] > lengths[1][0]


def test_a_turn_that_can_not_be_shown_even_shortened_fails_in_the_first_edition() -> None:
    session = Session(engine_with(READ, context_tokens=600, edition=1))

    read_all(session, [[200] * 20])

    ended = outcome(session)
    assert isinstance(ended, Failed)
    assert ended.kind == "context_overflow"


def test_a_state_with_shortened_results_goes_on_from_its_json() -> None:
    session = Session(engine_with(READ, context_tokens=4096))
    read_all(session, [[1000]] * 10)

    stored = from_data(to_data(session.state), AgentState)

    assert session.state.window.cuts
    assert stored == session.state
    assert session.engine.build_prompt(stored) == session.engine.build_prompt(session.state)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_the_newest_results_share_what_room_the_scale_leaves(scale: float) -> None:
    history = conversation([(10, [[1000, 1000]], False)])
    budget = 400

    window = fit(history, whole(history, scale), 0, budget)

    assert window is not None
    assert 0.8 * budget < window.size * scale <= budget


def test_results_that_would_be_of_no_use_are_not_shown_at_all() -> None:
    """Below 200 characters a result is no longer shortened: the turn doesn't fit."""
    history = conversation([(10, [[3000, 3000]], False)])
    sizes = [budget for budget in range(100, 300) if fit(history, whole(history), 0, budget) is not None]
    window = fit(history, whole(history), 0, sizes[0])
    assert window is not None
    lengths = [len(m.content) for m in visible_messages(history, window) if isinstance(m, ToolMessage)]
    assert all(200 <= length < 203 for length in lengths), "a token has three characters"


def test_nothing_is_shortened_to_what_is_no_shorter() -> None:
    """The note of what is missing takes room too."""
    note = len(CUT.format(80, ""))
    for length in (50, note, note + 1):
        message = ToolMessage("r", "c", "read", text(length))
        short = shorten_message(message, 10)
        assert short == message if length <= note else len(short.content) == note


def test_many_results_are_shortened_however_few_characters_are_left_of_each() -> None:
    history = History(ToolMessage(f"r{place}", f"c{place}", "read", text(400)) for place in range(300))
    messages = visible_messages(history, Window(cuts=((300, 100),)))
    assert {len(m.content) for m in messages if isinstance(m, ToolMessage)} == {100}


@given(st.integers(0, 2000), st.integers(0, 2000), st.sampled_from(["", "ReadOutput"]))
def test_a_shortened_result_names_the_tool_and_the_call_that_read_it_again(
    length: int, limit: int, reader: str
) -> None:
    message = ToolMessage("m1", "call-1-2-1", "read", text(length))

    short = shorten_message(message, limit, CutNote(reader))

    assert isinstance(short, ToolMessage)
    if short != message:
        assert len(short.content) < length
        assert ('; ReadOutput(call="call-1-2-1") reads them ...]' in short.content) is bool(reader)


def test_only_a_session_with_a_tool_that_rereads_is_told_of_it() -> None:
    """In what a request shortens and in what was too long from the beginning, and in nothing without such a tool."""
    for rereads in (False, True):
        session = Session(engine_with(READ, ToolSpec("again", rereads=rereads), context_tokens=2400))
        session(UserSpoke("Go"))
        for step in range(1, 9):
            session(replied(f"1.{step}.0", "", ProposedCall("read", {"n": step})))
            session(ToolReturned(EffectId(f"1.{step}.1"), text(600 if step < 8 else 4000)))
        call = next(decision for decision in session.decisions if isinstance(decision, CallModel))
        results = [message.content for message in call.request.messages if isinstance(message, ToolMessage)]
        assert sum("left out here for want of room" in content for content in results) > 1
        assert "characters left out" in results[-1]
        told = ["[..." in content for content in results]
        assert [f'again(call="call-1-{step}-1")' in content for step, content in enumerate(results, 1)] == [
            rereads and one for one in told
        ]
        assert session.engine.build_prompt(session.state) == call.request


def test_what_is_shortened_is_counted_alike_by_a_session_that_was_stored() -> None:
    """Requests share what they show, with those of equal sessions in the same process too: that counts for nothing."""
    engine = engine_with(READ, context_tokens=200_000)
    history = conversation([(10, [[1000, 50]] * 70, True)])
    state = AgentState(history, window=evolve(whole(history), cuts=((100, 100),)))
    again = from_data(to_data(state), AgentState)

    first, second = (engine.step(one, UserSpoke("Go on.")).decisions for one in (state, again))

    assert first == second
    assert isinstance(first[0], ContextAssembled)
    assert 30 < first[0].shortened < 70

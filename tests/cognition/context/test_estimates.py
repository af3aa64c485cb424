"""No turn ends on an estimate: it chooses what is sent, and a server's refusal or an exact count ends a turn."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentState,
    CallModel,
    CallTool,
    Failed,
    Failure,
    GenerationOptions,
    LimitHit,
    Limits,
    LLMEngine,
    ModelFailed,
    ModelReplied,
    ModelRequest,
    ProposedCall,
    RetryPlanned,
    TemplateCosts,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
)
from cognition.context import fit, fit_or_smallest, fixed_size, longest_prompt, message_size, prompt_budget
from cognition.context.window import CHARS_PER_TOKEN, OVERFLOW_GUESS, scale_after_refusal
from cognition.engine.handlers.model import REBUILDS, REFUSED
from cognition.steps.config import AgentConfig
from cognition.testing import laws
from cognition.testing._search import Walk
from cognition.values.messages import AssistantMessage, Message, ToolMessage
from cognition.values.outcomes import Completed
from tests.cognition.context.test_window import SCALES, TURNS, conversation, whole
from tests.cognition.session import Session, engine_with, replied

READ = ToolSpec("read", read_only=True)
TOO_LONG = Failure("too long", kind="context_overflow")
ROOMY = Limits(steps=60)
CONTEXT = 4096


class Server:
    """A model's server that has its own count of each prompt, and refuses what exceeds its context."""

    def __init__(self, context: int, characters: float, *, names_sizes: bool, script: list[ModelReplied]) -> None:
        """``characters``: those of a token. ``script``: the replies, whose effects are replaced."""
        self.context, self.characters, self.names_sizes = context, characters, names_sizes
        self.script = list(script)
        self.refused: list[int] = []
        self.accepted: list[int] = []

    def count(self, request: ModelRequest) -> int:
        text = request.system + "".join(json.dumps([tool.name, tool.parameters]) for tool in request.tools)
        return int((len(text) + sum(map(characters_of, request.messages))) / self.characters) + 1

    def answer(self, call: CallModel) -> ModelReplied | ModelFailed:
        tokens = self.count(call.request)
        if tokens >= self.context:
            self.refused.append(tokens)
            named = evolve(TOO_LONG, needed_tokens=tokens, available_tokens=self.context)
            return ModelFailed(call.effect_id, named if self.names_sizes else TOO_LONG)
        self.accepted.append(tokens)
        reply = self.script.pop(0) if call.request.tools and self.script else replied("x", "Done.")
        return evolve(reply, effect_id=call.effect_id, usage=Usage(tokens, 10))


def characters_of(message: Message) -> int:
    if isinstance(message, AssistantMessage):
        return 20 + len(message.text) + sum(len(call.name) + len(call.arguments_json) + 30 for call in message.calls)
    return 20 + len(message.content if isinstance(message, ToolMessage) else message.text)


def run_turn(session: Session, server: Server, text: str, results: list[int], walk: Walk | None = None) -> Any:
    """Run a turn, and return its outcome. Each call gets a result of the next length."""
    lengths, events = list(results), [UserSpoke(text)]
    while events:
        event = events.pop(0)
        session(event)
        if walk is not None:
            walk.take(event)
        for decision in session.decisions:
            if isinstance(decision, CallModel):
                events.append(server.answer(decision))  # type: ignore[arg-type]  # inputs of any kind
            elif isinstance(decision, CallTool):
                content = "lorem ipsum " * (lengths.pop(0) // 12 if lengths else 1)
                events.append(ToolReturned(decision.effect_id, content))  # type: ignore[arg-type]  # as above
    (finished,) = [one for one in session.decisions if isinstance(one, TurnFinished)]
    return finished.outcome


def test_a_message_that_fits_is_sent_though_its_estimate_does_not() -> None:
    """10,000 characters of English, 2,577 tokens, at 4,096: it used to end the turn with no request made."""
    session = Session(engine_with(READ, system="x" * 1000, context_tokens=CONTEXT))
    server = Server(CONTEXT, 4.4, names_sizes=False, script=[])

    outcome = run_turn(session, server, "word " * 2000, [])

    assert outcome == Completed("Done.")
    assert not server.refused
    assert session.state.window.scale < 1.0, "the reply corrects the estimate"


def test_the_first_edition_ends_the_turn_as_recorded() -> None:
    session = Session(engine_with(READ, system="x" * 1000, context_tokens=CONTEXT, edition=1))

    session(UserSpoke("word " * 2000))

    (finished,) = session.decisions
    assert isinstance(finished, TurnFinished)
    assert isinstance(finished.outcome, Failed)


def test_an_exact_count_still_ends_the_turn_before_anything_is_sent() -> None:
    costs = TemplateCosts(50, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=250, estimate=16.0, model="a")
    session = Session(engine_with(context_tokens=CONTEXT))

    session(UserSpoke("word " * 4000, costs=costs, tokens=(4005,)))

    (finished,) = session.decisions
    assert isinstance(finished, TurnFinished)
    assert isinstance(finished.outcome, Failed)
    assert "and the prompt may have 3968" in finished.outcome.message
    session(UserSpoke("word " * 3000, tokens=(3905,)))
    (asked,) = [one for one in session.decisions if isinstance(one, CallModel)]
    assert len(asked.request.messages) == 1, "the part set aside for the reply gives way"


@pytest.mark.parametrize("names_sizes", [False, True])
def test_what_a_server_refuses_is_built_smaller_at_most_three_times(names_sizes: bool) -> None:
    """Its tokens have a character and a half, which the estimate takes for three."""
    script = [replied("x", "", ProposedCall("read", f'{{"page": {page}}}')) for page in range(6)]
    session = Session(engine_with(READ, context_tokens=CONTEXT, compact_at=None, limits=ROOMY))
    server = Server(CONTEXT, 1.5, names_sizes=names_sizes, script=script)

    outcome = run_turn(session, server, "Read all.", [2600] * 6)

    assert outcome == Completed("Done.")
    assert len(server.accepted) == 7
    assert len(server.refused) <= 2, "the replies correct the estimate too"


@pytest.mark.parametrize("needed", [None, 9000])
def test_a_request_that_is_refused_again_and_again_is_built_smaller_three_times(needed: int | None) -> None:
    session = Session(engine_with(READ, context_tokens=CONTEXT, compact_at=None, limits=ROOMY))
    for _ in range(8):
        run_turn(session, Server(10**6, 3.0, names_sizes=False, script=[]), "word " * 300, [])
    session(UserSpoke("Go on."))
    sizes = []
    while not isinstance(session.decisions[-1], TurnFinished):
        (asked,) = [one for one in session.decisions if isinstance(one, CallModel)]
        assert asked.request.messages[-1].text == "Go on."  # type: ignore[union-attr]  # the user's message
        sizes.append(sum(map(message_size, asked.request.messages)))
        session(ModelFailed(asked.effect_id, evolve(TOO_LONG, needed_tokens=needed)))
        assert len([one for one in session.decisions if isinstance(one, RetryPlanned)]) in (0, 1)

    assert session.decisions[-1].outcome == Failed("context_overflow", REFUSED.format(message="too long"))
    assert all(later < one for one, later in pairwise(sizes))
    assert len(sizes) <= REBUILDS + 1


def test_a_refusal_at_the_end_of_a_budget_ends_the_turn() -> None:
    session = Session(engine_with(context_tokens=CONTEXT, limits=Limits(input_tokens=50)))
    session(UserSpoke("Go."))
    (asked,) = [one for one in session.decisions if isinstance(one, CallModel)]

    session(ModelFailed(asked.effect_id, TOO_LONG, usage=Usage(50)))

    assert [one.limit for one in session.decisions if isinstance(one, LimitHit)] == ["input_tokens"]


def test_what_a_refusal_taught_is_known_in_the_next_turn() -> None:
    """An exact scale of four, as of a text in another script, leaves old turns out before anything is sent."""
    session = Session(engine_with(context_tokens=CONTEXT, compact_at=None))
    for _ in range(3):
        run_turn(session, Server(10**6, 3.0, names_sizes=False, script=[]), "word " * 300, [])
    server = Server(CONTEXT, 0.75, names_sizes=True, script=[])

    assert run_turn(session, server, "Go on.", []) == Completed("Done.")
    assert len(server.refused) == 1
    assert run_turn(session, server, "And on.", []) == Completed("Done.")
    assert len(server.refused) == 1


@given(
    st.floats(0.2, 5.0),
    st.floats(1, 1e5),
    st.integers(1, 10**5),
    st.none() | st.integers(1, 10**7),
    st.none() | st.integers(1, 10**6),
)
def test_after_a_refusal_the_prompt_counts_as_too_long(
    scale: float, estimate: float, budget: int, needed: int | None, available: int | None
) -> None:
    failure = evolve(TOO_LONG, needed_tokens=needed, available_tokens=available)

    corrected = scale_after_refusal(scale, estimate, budget, failure)

    room = min(available or budget, budget)
    if needed is not None and needed > room:
        assert corrected * estimate / budget == pytest.approx(needed / room), "as the runtime says"
    else:
        assert corrected * estimate >= OVERFLOW_GUESS * budget * 0.999
        assert corrected >= scale * 0.999
    assert corrected * estimate > budget * 0.999


# ------------------------------------------------------------------------------------------------------- properties


@given(TURNS, SCALES, st.integers(0, 300), st.integers(50, 3000))
def test_the_smallest_window_is_what_fits_or_shows_no_more_than_any_other(
    turns: list[tuple[int, list[list[int]], bool]], scale: float, fixed: int, budget: int
) -> None:
    history = conversation(turns)
    begun = whole(history, scale)

    window, fitting = fit_or_smallest(history, begun, fixed, budget), fit(history, begun, fixed, budget)

    if fitting is not None:
        assert window == fitting
        return
    assert window.size <= begun.size
    assert fit_or_smallest(history, window, fixed, budget).size <= window.size
    if (fixed + window.size) * scale > budget:
        assert fit_or_smallest(history, window, fixed, budget).size == pytest.approx(window.size)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 9000), st.lists(st.integers(0, 30_000), max_size=5)), min_size=1, max_size=3),
    st.sampled_from((1.2, 2.5, 4.4)),
    st.sampled_from((1200, 4096, 8192)),
    st.booleans(),
    st.sampled_from((0.75, None)),
)
def test_a_turn_ends_only_where_the_server_refuses_what_can_not_be_smaller(
    turns: list[tuple[int, list[int]]], characters: float, context: int, names_sizes: bool, compact_at: float | None
) -> None:
    """Long results as tau2's at any context, by a server with counts of its own. All laws hold on the way."""
    engine = LLMEngine(AgentConfig(tools=(READ,), context_tokens=context, compact_at=compact_at, limits=ROOMY))
    session = Session(engine)
    walk = Walk([law for law in laws(engine) if law.name in ("L2", "L3", "L6", "L9", "L10")])
    for length, results in turns:
        calls = [ProposedCall("read", f'{{"page": {page}}}') for page in range(len(results))]
        script = [replied("x", "", call) for call in calls]
        server = Server(context, characters, names_sizes=names_sizes, script=script)

        outcome = run_turn(session, server, "word " * (length // 5), results, walk)

        needed = (length + 600 + 300 * bool(results)) / characters
        if needed < context - 300:
            assert isinstance(outcome, Completed), (outcome, server.refused)
        elif not isinstance(outcome, Completed):
            assert server.refused, "a turn ends by a refusal, not by an estimate"
            assert outcome.kind == "context_overflow"


def test_the_part_set_aside_for_the_reply_gives_way_to_a_quarter() -> None:
    assert longest_prompt(AgentConfig(context_tokens=4096)) == 4096 - 128
    config = AgentConfig(context_tokens=4096, options=GenerationOptions(max_tokens=1000))
    assert longest_prompt(config) == 4096 - 250
    assert longest_prompt(AgentConfig(context_tokens=2, reply_tokens=1)) == 1


def test_a_prompt_takes_the_replys_part_only_if_it_needs_it() -> None:
    config = AgentConfig(context_tokens=CONTEXT)
    room = prompt_budget(config) - fixed_size(config)
    text = "x" * int((room - 8) * CHARS_PER_TOKEN)

    state = LLMEngine(config).step(AgentState(), UserSpoke(text + "x" * 300)).next_state

    assert state.window.size > room
    assert list(state.history) == [UserMessage("m1", text + "x" * 300)]
    assert LLMEngine(config).build_prompt(state).messages == state.history

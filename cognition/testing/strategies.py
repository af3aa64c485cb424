"""Hypothesis strategies: configurations, inputs for a world (well-placed and misplaced), runs, and reachable states."""

from __future__ import annotations

import cognition.testing.needs_hypothesis  # noqa: F401  # before Hypothesis itself: it names the extra

# isort: split
from collections.abc import Sequence
from functools import cache
from typing import Any, get_args

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cognition.base.ids import EffectId
from cognition.policy import Policy, Rule
from cognition.steps.config import AgentConfig, GenerationOptions, Limits, RetryPolicy
from cognition.steps.decisions import ANSWERS, AskUser, Effect
from cognition.steps.inputs import (
    ApprovalGiven,
    ApprovalRefused,
    ApprovalsForgotten,
    CancelAsked,
    EffectAnswer,
    HookReturned,
    Input,
    MemoryRecalled,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    PlanReviewed,
    QuestionAnswered,
    ToolFailed,
    ToolReturned,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
)
from cognition.steps.state import AgentState
from cognition.testing._engine_under_test import EngineUnderTest
from cognition.testing._moves import moves
from cognition.testing._sample_inputs import ANSWERING, LETTERS
from cognition.testing._situations import ENGINE_ARGUMENTS
from cognition.testing._world import AnyEngine, Edge, World, readdress, step_on
from cognition.values.candidates import Candidate
from cognition.values.content import Image, TextPart
from cognition.values.counts import TemplateCosts, Tokens
from cognition.values.features import Vocabulary
from cognition.values.messages import MalformedToolCall, ProposedCall, Usage
from cognition.values.outcomes import Failure
from cognition.values.tools import ToolSpec

# -------------------------------------------------------------------------------------------------------------- values

HUGE = "long " * 2500
"""12,500 characters: more than fits a context of 4,096 tokens."""
ODD_TEXTS = ("", " \n", "\x00", "\ud800", "<|im_end|>", "call-1-1-1", "1.1.0", '"id": "m1"', HUGE)
"""Tricky texts: empty, blank, a NUL, half of a surrogate pair, a marker, texts that look like our ids."""


def _pick(values: tuple[str, ...]) -> SearchStrategy[str]:
    """Draw one of these values. Unlike ``sampled_from``, the strategy's description does not contain them all."""
    return st.integers(0, len(values) - 1).map(values.__getitem__)


texts: SearchStrategy[str] = st.sampled_from(("Hello", "Done.")) | st.text(max_size=8) | _pick(ODD_TEXTS)

arguments: SearchStrategy[str] = _pick(
    ("{}", '{"n": 1}', '{"n":1}', '{ "n": 2 }', '{"path": "/tmp/x", "text": "\\u00e9"}')
) | _pick(("", "{", "[1]", "null", "7", '{"n": NaN}', '{"n": 1, "n": 2}', '{"a":' * 2000, "1" * 5000))
"""Arguments of calls, as models write them: valid objects, and invalid texts."""

tokens: SearchStrategy[int] = st.sampled_from((0, 1, 10, 1000, 10**9, 10**400))
usages: SearchStrategy[Usage] = st.just(Usage()) | st.builds(
    Usage, tokens, tokens, tokens, st.sampled_from((0.0, 0.001, 5.0))
)


COUNTED: SearchStrategy[Tokens] = st.just(()) | st.lists(tokens, max_size=3).map(tuple)
"""Token counts of a message: missing, realistic and impossible."""
COSTS: SearchStrategy[TemplateCosts] = st.builds(
    TemplateCosts, st.sampled_from((0, 20)), *[st.sampled_from((0, 4))] * 7, st.sampled_from((0.0, 16.0))
)


def failures() -> SearchStrategy[Failure]:
    """Return failed model calls of every kind, as runtimes and providers report them."""
    kinds = ("rate_limit", "context_overflow", "auth", "transient", "fatal", "offline", "modality", "bad_output")
    known = st.builds(
        Failure,
        st.just("failed"),
        st.sampled_from(kinds),
        retry_after=st.sampled_from((None, -1.0, 0.0, 2.0, 1e9)),
        needed_tokens=st.sampled_from((None, 0, 1, 5000, 10**9, 10**400)),
        available_tokens=st.sampled_from((None, 0, 1, 100, 10**9)),
    )
    reported = st.builds(
        Failure,
        st.sampled_from(("", "Rate limit reached", "maximum context length is 8192 tokens", "connection reset")),
        status=st.sampled_from((None, 0, 200, 400, 401, 413, 422, 429, 500, 503, 529, 10**6)),
        code=st.sampled_from(("", "context_length_exceeded", "invalid_api_key")),
    )
    return known | reported


# ------------------------------------------------------------------------------------------------------ configurations


@st.composite
def tools(draw: DrawFn) -> ToolSpec:
    """Draw a tool of any kind, with one of few names, so that some are similar."""
    name = draw(st.sampled_from(("look", "looks", "write", "files.list", "files.delete")))
    read_only, idempotent, approval, plan = draw(st.booleans()), draw(st.booleans()), draw(ASKING), draw(PLANS)
    parallel = draw(st.sampled_from((None, None, True, False)))
    return ToolSpec(
        name,
        read_only=read_only,
        idempotent=idempotent,
        approval=approval,
        parallel=parallel,
        retries=plan if read_only or idempotent else (),
        output_limit=None if parallel is None else 5,
    )


ASKING: SearchStrategy[bool | tuple[str, ...]] = st.booleans() | st.just(("/tmp:*",))
PLANS = st.sampled_from(((), (), (2.0,), (0.0, 6.0)))


def policies() -> SearchStrategy[Policy]:
    """Return policies whose rules match the names of ``tools``."""
    actions = st.sampled_from(("allow", "ask", "deny"))
    patterns = st.sampled_from(("*", "look", "look*", "write", "files.*", "files.delete"))
    rules = st.builds(Rule, actions, patterns, st.sampled_from(("", "not here")))
    return st.builds(Policy, st.lists(rules, max_size=3).map(tuple), actions)


def limits() -> SearchStrategy[Limits]:
    """Return budgets so small that runs of a few inputs reach them, and no budgets."""
    few = st.integers(1, 4)
    return st.builds(
        Limits,
        steps=few,
        tool_calls=st.none() | few,
        refusals=few,
        input_tokens=st.none() | st.sampled_from((1, 100, 2000)),
        output_tokens=st.none() | st.sampled_from((1, 100, 2000)),
        cost=st.none() | st.sampled_from((0.001, 1.0)),
        seconds=st.none() | st.sampled_from((1.0, 60.0)),
    )


OPTIONS = (
    GenerationOptions(max_tokens=100),
    GenerationOptions(max_tokens=100),
    GenerationOptions(),
    GenerationOptions(max_tokens=100, tool_choice="none"),
    GenerationOptions(max_tokens=100, response_format={"type": "object"}),
)


def configs() -> SearchStrategy[AgentConfig]:
    """Return whole configurations, also with small contexts."""
    return st.builds(
        AgentConfig,
        system=st.sampled_from(("", "Be brief.")),
        tools=st.lists(tools(), max_size=4, unique_by=lambda tool: tool.name).map(tuple),
        options=st.sampled_from(OPTIONS),
        limits=st.just(Limits()) | limits(),
        policy=st.just(Policy()) | policies(),
        retry=st.builds(RetryPolicy, attempts=st.integers(1, 3)),
        context_tokens=st.sampled_from((200, 600, 4096)),
        features=_some_of(("questions", "tasks", "plan", "memory", "workers")),
        names=st.sampled_from(get_args(Vocabulary)),
        hooks=_some_of(("session_start", "user_message", "before_tool", "after_tool", "worker_stop", "stop")),
        recall_first=st.booleans(),
        compact_at=st.none() | st.sampled_from((0.1, 0.5, 0.75, 1.0)),
    )


def _some_of(names: tuple[str, ...]) -> SearchStrategy[tuple[str, ...]]:
    return st.just(()) | st.lists(st.sampled_from(names), unique=True).map(tuple)


# -------------------------------------------------------------------------------------------------------------- inputs

# Strategies are built once for each set of tool names, addressed to nobody: to build them takes as long as many draws.
NOBODY = EffectId("")


def replies(config: AgentConfig | None = None, effect_id: EffectId = NOBODY) -> SearchStrategy[ModelReplied]:
    """Return a model's replies to this call, sensible and hostile: several calls, unknown tools, unreadable
    arguments.
    """
    return _replies(_names(config)).map(lambda reply: evolve(reply, effect_id=effect_id))


@cache
def _replies(names: tuple[str, ...]) -> SearchStrategy[ModelReplied]:
    nobody, known = st.just(NOBODY), st.sampled_from(names or ("nowhere",))
    own = [ProposedCall(name, text) for name in names for text in ENGINE_ARGUMENTS.get(name, ())]
    sensible = st.builds(ProposedCall, known, st.sampled_from(("{}", '{"n": 1}')))
    if own:
        sensible |= st.sampled_from(own)
    hostile = st.builds(ProposedCall, known | st.sampled_from(("nowhere", "")), arguments)
    malformed = st.builds(MalformedToolCall, texts, st.just("it could not be read"))
    calling = st.builds(ModelReplied, nobody, calls=st.lists(sensible, min_size=1, max_size=3).map(tuple), usage=usages)
    answering = st.builds(ModelReplied, nobody, text=texts, usage=usages)
    anything = st.builds(
        ModelReplied,
        nobody,
        text=texts,
        reasoning=st.just("") | texts,
        calls=st.lists(hostile, max_size=4).map(tuple),
        malformed=st.just(()) | st.lists(malformed, max_size=2).map(tuple),
        finish_reason=st.sampled_from(("stop", "tool_calls", "length", "cancelled", "error")),
        usage=usages,
        objection=st.sampled_from(("", "it is no JSON")),
        tokens=COUNTED,
    )
    return st.one_of(answering, calling, calling, anything)  # the first is what counter-examples shrink to


def answers(effect: Effect, config: AgentConfig | None = None) -> SearchStrategy[EffectAnswer]:
    """Return all kinds of answers to an effect."""
    if isinstance(effect, AskUser):  # one choice each; where several options are allowed, also all of them
        one_each = st.tuples(*(st.sampled_from([(option,) for option in q.options]) for q in effect.questions))
        all_allowed = st.just(tuple(q.options if q.multiple else q.options[-1:] for q in effect.questions))
        return st.builds(QuestionAnswered, st.just(effect.effect_id), one_each | all_allowed)
    return _answers(type(effect).__name__, _names(config)).map(lambda event: evolve(event, effect_id=effect.effect_id))


@cache
def _answers(kind: str, names: tuple[str, ...]) -> SearchStrategy[EffectAnswer]:
    nobody = st.just(NOBODY)
    replied = _replies(names)
    varied: dict[type[Input], SearchStrategy[Any]] = {  # more than their letters
        ModelReplied: st.one_of(replied, replied, replied),  # most model calls end with a reply
        ModelFailed: st.builds(ModelFailed, nobody, failures(), st.just("") | texts, usages),
        ModelInterrupted: st.builds(ModelInterrupted, nobody, texts, usages, st.booleans()),
        ToolReturned: st.builds(ToolReturned, nobody, texts, COUNTED, st.sampled_from(((), (), (), (A_DOT,)))),
        ToolFailed: st.builds(ToolFailed, nobody, texts, st.booleans(), COUNTED),
        ApprovalGiven: st.builds(ApprovalGiven, nobody, st.booleans(), _patterns(names), st.none() | arguments),
        ApprovalRefused: st.builds(
            ApprovalRefused, nobody, st.sampled_from(("", "no")), st.booleans(), _patterns(names), st.booleans()
        ),
        PlanReviewed: st.builds(PlanReviewed, nobody, st.booleans(), texts),
        MemoryRecalled: st.builds(MemoryRecalled, nobody, st.lists(texts, max_size=2).map(tuple), COUNTED),
        WorkerFinished: st.builds(WorkerFinished, nobody, texts, usages, COUNTED),
        WorkerFailed: st.builds(WorkerFailed, nobody, texts, usages),
        WorkerStalled: st.builds(WorkerStalled, nobody, texts, usages),
        HookReturned: st.builds(
            HookReturned,
            nobody,
            st.sampled_from(("continue", "refuse", "go_on")),
            texts,
            st.none() | arguments,
            st.just("") | texts,
        ),
    }
    answering = next(kinds for effect, kinds in ANSWERS.items() if effect.__name__ == kind)
    return st.one_of(*(varied.get(kind, st.sampled_from(LETTERS[kind])) for kind in answering))


def _patterns(names: tuple[str, ...]) -> SearchStrategy[str]:
    """Return rules for "from now on": empty, for these tools, and invalid."""
    known = st.sampled_from(names or ("nowhere",))
    about = st.builds("{}{}".format, known, st.sampled_from(("", "(/tmp/**)", "(/tmp/x)", "(x:*)", "(*)")))
    return st.just("") | about | st.sampled_from(("*", "nowhere", "(", "write(", "w*", "x" * 20_000))


def _names(config: AgentConfig | None) -> tuple[str, ...]:
    return tuple(tool.name for tool in config.offered) if config is not None else ()


@st.composite
def well_placed(draw: DrawFn, world: World, config: AgentConfig | None = None) -> Input:
    """Draw an input that belongs here: usually an answer to an effect in flight, else an action of the user."""
    rare = draw(RARELY)
    event: Input
    if world.open and not rare:
        event = draw(answers(draw(st.sampled_from(world.open)), config))
    elif not (world.in_turn or world.is_closed) and not rare:
        event = draw(MESSAGES)
    else:
        event = draw(cancels(world) | OTHERS if world.in_turn else OTHERS)
    return _set_time(draw, event, world)


@st.composite
def misplaced(draw: DrawFn, world: World, config: AgentConfig | None = None) -> Input:
    """Draw an input that does not belong here: stale, foreign, duplicate, mismatched, or out of phase."""
    event: Input
    kind = draw(st.sampled_from(("late", "foreign", "mismatched", "out of phase")))
    if kind == "late" and world.over:
        event = draw(answers(draw(st.sampled_from(world.over)), config))
    elif kind == "mismatched" and world.open:
        effect = draw(st.sampled_from(world.open))
        wrong = [event for event in _any_answer(effect.effect_id) if type(event) not in ANSWERS[type(effect)]]
        event = draw(st.sampled_from(wrong))
    elif kind == "out of phase":
        event = draw(MESSAGES) if world.in_turn or world.is_closed else CancelAsked()
    else:
        taken = {effect.effect_id for effect in world.open}
        event = draw(st.sampled_from(_any_answer(draw(FOREIGN_IDS.filter(lambda effect_id: effect_id not in taken)))))
    return _set_time(draw, event, world)


def cancels(world: World) -> SearchStrategy[Input]:
    """Return cancellations, with an interpreter's knowledge of the effects in flight: which never began,
    which ended.
    """
    known = tuple(effect.effect_id for effect in world.open)
    some = st.sets(st.sampled_from(known)).map(lambda chosen: tuple(sorted(chosen))) if known else st.just(())
    return st.builds(CancelAsked, st.sampled_from(("", "enough")), st.just("") | texts, usages, some, some)


RARELY = st.integers(0, 9).map(lambda number: number == 9)
A_DOT = Image.of(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;")
"""A minimal image."""
RETURNS = st.sampled_from(("", "", '{"type": "integer"}'))
CANDIDATES: SearchStrategy[Candidate] = st.builds(
    Candidate,
    st.sampled_from(("identity", "memory", "memory", "skills", "history", "nowhere")),
    texts | st.sampled_from(("Hello, Done.", "</memory>", "Hello " * 300)),
    st.sampled_from(("", "notes.md", '"></source>')),
    RARELY,
    st.none() | st.sampled_from((0.0, -1.0, 1e300)),
)
"""Candidates for a prompt: good texts, and texts without a section, too large, or similar to a tag."""
MESSAGES: SearchStrategy[UserSpoke] = st.builds(UserSpoke, texts, RETURNS) | st.builds(
    UserSpoke,
    texts,
    RETURNS,
    st.lists(st.builds(TextPart, texts) | st.just(A_DOT), max_size=3).map(tuple),
    st.none() | st.sampled_from(("", "Be kind.")),  # as of configurations: a longer one may leave no room for a message
    st.lists(CANDIDATES, max_size=3).map(tuple),
    st.sampled_from((0, 30, 10**400)),
    COUNTED,
    st.none() | COSTS,
    st.lists(COUNTED, max_size=3).map(tuple),
)
OTHERS: SearchStrategy[Input] = st.sampled_from(
    [letter for kind, some in LETTERS.items() if kind not in {*ANSWERING, UserSpoke, CancelAsked} for letter in some]
    + [ApprovalsForgotten(("write",)), ApprovalsForgotten(("nowhere", "look"))]
)
"""Actions that the user can take at any time, such as choosing a mode."""
FOREIGN_IDS = st.sampled_from(
    [EffectId(text) for text in ("0.0.0", "1.1.0", "7.7.7", "", "1.1.1.1", "\u00b9.1.0", "9" * 50)]
)
DELAYS = st.sampled_from((0.0, 0.0, 0.0, 0.5, 30.0, 1000.0))
"""Seconds after the turn's beginning."""


def _set_time(draw: DrawFn, event: Any, world: World) -> Input:
    start = world.turn.started_at if world.turn is not None else 0.0
    dated: Input = evolve(event, at=start + draw(DELAYS))
    return dated


def _any_answer(effect_id: EffectId) -> list[Input]:
    return [readdress(some[0], effect_id) for kind, some in LETTERS.items() if kind in ANSWERING]


def inputs(
    world: World, config: AgentConfig | None = None, alphabet: Sequence[Input] | None = None
) -> SearchStrategy[Input]:
    """Return inputs for this world, three in four well-placed; drawn from ``alphabet`` if there is one."""
    if alphabet is not None:
        return st.sampled_from(moves(world, alphabet))
    return _inputs(world, config)


@st.composite
def _inputs(draw: DrawFn, world: World, config: AgentConfig | None) -> Input:
    off = draw(st.integers(0, 3)) == 3
    return draw(misplaced(world, config) if off else well_placed(world, config))


# ---------------------------------------------------------------------------------------------------------------- runs


def runs(
    engine: AnyEngine, *, alphabet: Sequence[Input] | None = None, max_inputs: int = 12, start: Any = None
) -> SearchStrategy[list[Edge]]:
    """Return runs of an engine from the beginning of a session, each a list of steps; ``start`` as in ``laws``."""
    subject = EngineUnderTest.of(engine, start)

    @st.composite
    def run(draw: DrawFn) -> list[Edge]:
        world, edges = subject.beginning, list[Edge]()
        for _ in range(draw(st.integers(0, max_inputs))):
            world = step_on(engine, world, draw(inputs(world, subject.config, alphabet)), edges)
        return edges

    return run()


def worlds(engine: AnyEngine, *, alphabet: Sequence[Input] | None = None, start: Any = None) -> SearchStrategy[World]:
    beginning = EngineUnderTest.of(engine, start).beginning
    return runs(engine, alphabet=alphabet, start=start).map(lambda edges: edges[-1].after if edges else beginning)


def states(
    engine: AnyEngine, *, alphabet: Sequence[Input] | None = None, start: Any = None
) -> SearchStrategy[AgentState]:
    """Return states that runs of this engine reach. They are never built by hand, so all of them can occur."""
    return worlds(engine, alphabet=alphabet, start=start).map(lambda world: world.state)

"""Any value of the core, each field drawn by its own annotation: also those that no run leads to.

Importing this tells Hypothesis how to draw the types that check what they are given.
"""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from cognition import (
    AgentConfig,
    Breaker,
    Decision,
    GenerationOptions,
    History,
    Image,
    Input,
    Layer,
    Limits,
    Message,
    Outcome,
    Part,
    Phase,
    Policy,
    ProposedCall,
    RetryPolicy,
    Rule,
    TemplateCosts,
    TextPart,
    ToolCall,
    ToolSpec,
    UserSpoke,
)
from cognition.base.ids import EffectId
from cognition.parsing import Output
from cognition.steps.phases import CallStatus
from cognition.testing.strategies import configs
from cognition.values.candidates import SECTION_NAME, SOURCE_TAG, Changes, Section
from cognition.values.features import Question

UNIONS: tuple[Any, ...] = (Message, Outcome, CallStatus, Phase, Input, Decision, Output, Part)
"""The unions of the core: each of their values has its tag."""

FINITE = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def some(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, each field drawn by its own annotation; where a class checks what it is given, valid ones."""
    return st.from_type(kind)


TOKENS = st.integers(0, 10**12)
ACTIONS = st.sampled_from(("allow", "ask", "deny"))
WORDS = st.sampled_from(("*", "a", "a.*", "a(b:*)", "*(src/**)"))
PATTERNS = st.lists(WORDS, max_size=2).map(tuple)
RULES = st.builds(Rule, ACTIONS, WORDS, st.text())


def registered() -> dict[Any, st.SearchStrategy[Any]]:
    """How the types are drawn that not every value of their fields' types is right for."""
    count = st.integers(1)
    rules = st.lists(RULES, max_size=3).map(tuple)
    layers = st.builds(Layer, rules, ACTIONS, PATTERNS)
    messages = st.one_of(*map(some, get_args(Message)))
    options = st.lists(st.text(max_size=5), min_size=2, max_size=4, unique=True).map(tuple)
    schemas = st.just('{"type": "object"}') | st.just("")
    ratio = st.floats(0, 1, exclude_min=True)
    biases = st.lists(st.tuples(st.integers(0, 10**6), st.floats(-100, 100)), max_size=3).map(tuple)
    return {
        float: FINITE,
        History: st.lists(messages, max_size=3).map(History),
        Breaker: st.builds(Breaker, st.integers(1, 1000), *[st.floats(0.001, 10**9)] * 2),
        TemplateCosts: st.builds(
            TemplateCosts, *[st.integers(0, 10**12)] * 8, st.floats(0, 10**12), st.text(max_size=5)
        ),
        Section: st.builds(
            Section,
            st.from_regex(SECTION_NAME, fullmatch=True).filter(lambda name: name != SOURCE_TAG),
            st.floats(0, 1),
            st.floats(0, 1),
            st.booleans(),
            st.sampled_from(get_args(Changes)),
            st.floats(0, 1),
        ),
        Question: st.builds(Question, st.text(max_size=5), options, st.booleans()),
        Rule: RULES,
        ToolSpec: st.builds(
            ToolSpec,
            st.from_regex(r"\A[A-Za-z0-9_.-]{1,64}\Z"),
            st.text(max_size=5),
            st.dictionaries(st.text(max_size=5), JSON, max_size=3),
            st.booleans(),
            st.just(True),
            st.booleans() | st.lists(st.text(max_size=5), max_size=2).map(tuple),
            st.none() | st.sampled_from(("network", "interaction")),
            st.lists(st.text(max_size=5), max_size=2).map(tuple),
            st.just(""),
            st.none() | st.booleans(),
            st.none() | POSITIVE,
            st.lists(st.floats(0, 100), max_size=2).map(tuple),
            st.none() | st.integers(1),
        ),
        Policy: st.builds(Policy, rules, ACTIONS, PATTERNS, st.lists(layers, max_size=2).map(tuple)),
        Layer: layers,
        Limits: st.builds(
            Limits,
            *(count, st.none() | count, count, st.none() | count, st.none() | count),
            *(st.none() | POSITIVE, st.none() | POSITIVE, st.none() | count, count),
        ),
        RetryPolicy: st.builds(RetryPolicy, count, POSITIVE, POSITIVE),
        GenerationOptions: st.builds(
            GenerationOptions,
            st.none() | st.floats(0, 2),
            st.none() | st.integers(),
            st.none() | count,
            st.lists(st.text(max_size=5), max_size=2).map(tuple),
            st.none() | st.booleans(),
            st.text(max_size=5),
            st.booleans(),
            schemas,
            st.booleans(),
            st.booleans(),
            biases,
            st.none() | st.floats(0, 10, exclude_min=True),
            st.floats(-2, 2),
            st.floats(-2, 2),
            st.integers(0, 2**31 - 1),
            ratio,
            ratio,
            st.floats(0, 1),
        ),
        AgentConfig: configs(),
        # what takes a mapping too is drawn as the text that it is kept as
        ToolCall: st.builds(ToolCall, st.text(), st.text(), st.text()),
        ProposedCall: st.builds(
            ProposedCall, st.text(), st.text(), st.lists(st.text(), max_size=2).map(tuple), st.booleans()
        ),
        UserSpoke: st.builds(
            UserSpoke,
            st.text(),
            schemas,
            st.lists(st.builds(TextPart, st.text(max_size=5)) | some(Image), max_size=3).map(tuple),
            st.none() | st.text(max_size=5),
            at=FINITE,
        ),
    }


# before what is made of it
st.register_type_strategy(Image, st.builds(lambda rest: Image.of(b"GIF89a" + rest), st.binary(max_size=9)))
for _kind, _strategy in registered().items():
    st.register_type_strategy(_kind, _strategy)
st.register_type_strategy(EffectId, st.text(max_size=8).map(EffectId))  # type: ignore[arg-type]  # a NewType

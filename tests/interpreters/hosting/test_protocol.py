"""Messages between handle and host: each comes back as it was, and what is none is said so."""

from __future__ import annotations

import contextlib
import json
import math
import re
import threading
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentConfig,
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
    AskUser,
    CallTool,
    CancelAsked,
    CodecError,
    Completed,
    ConfigError,
    EffectId,
    Failed,
    HookReturned,
    LimitReached,
    Plan,
    PlanReviewed,
    Question,
    QuestionAnswered,
    ReviewPlan,
    Rule,
    RunHook,
    ToolCall,
    ToolFailed,
    ToolReturned,
    ToolSpec,
    Usage,
    UserMessage,
    to_data,
)
from interpreters import Suspended, events
from interpreters.hosting import QueueChannel, _protocol as say
from interpreters.hosting._host import Host
from interpreters.hosting._protocol import ProtocolError, event_of, line_of, read_notice, read_request
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.signs import PATIENCE

ROOT = Path(__file__).parent.parent.parent.parent

texts = st.text(max_size=8) | st.sampled_from(["", "\n", "\ud800", "\u2028"])
calls = st.builds(ToolCall, texts, texts, st.sampled_from(["{}", '{"a": 1}', "{"]))


REQUESTS = get_args(say.Request)
NOTICES = get_args(say.Notice)

ID = EffectId("1.1.1")
EFFECTS = (
    CallTool(ID, ToolCall("c", "look", '{"a": 1}')),
    AskApproval(ID, ToolCall("c", "pay", "{}"), "it costs"),
    AskUser(ID, (Question("Which?", ("a", "b")),)),
    ReviewPlan(ID, Plan(("look",))),
    RunHook(ID, "before_tool", "", ToolCall("c", "look", "{}")),
)
ANSWERS = (
    ToolReturned(ID, "391"),
    ToolFailed(ID, "no"),
    ApprovalGiven(ID, True),
    ApprovalGiven(ID, True, "pay(x:*)", '{"a": 2}'),
    ApprovalRefused(ID, "no"),
    ApprovalRefused(ID, "no", True, "pay"),
    QuestionAnswered(ID, (("a",),)),
    PlanReviewed(ID, True, "good"),
    HookReturned(ID, "refuse", "no"),
    CancelAsked("the user went away"),
)


def built(kind: type) -> st.SearchStrategy[Any]:
    """Values of a message's class, whatever its fields are."""
    attrs.resolve_types(kind)  # Hypothesis reads the types of the fields, which are texts as written
    return st.builds(
        kind,
        **{
            name: strategy
            for name, strategy in {
                "text": texts,
                **dict.fromkeys(("turn", "count", "number", "context_tokens"), st.integers(1, 2**31 - 1)),
                "session": texts,
                "content": texts,
                "call": calls,
                "event": st.just({"type": "text_delta"}),
                "outcome": st.sampled_from(
                    [Completed("a"), LimitReached("steps"), Failed("auth", "b"), Suspended(EFFECTS[2:3])]
                ),
                "messages": st.lists(st.builds(UserMessage, texts, texts), max_size=2).map(tuple),
                "pending": st.sampled_from(
                    [(), EFFECTS[:1], (evolve(EFFECTS[0], effect_id=EffectId("1.1.0")), EFFECTS[1])]
                ),
                "usage": st.builds(Usage, st.integers(0, 9)),
                "questions": st.just((Question("Which?", ("a", "b")),)),
                "plan": st.just(Plan(("look",))),
                "settings": st.just(say.Settings(approvals=True, window=3, external=("order",))),
                "config": st.just(AgentConfig("Be brief.", (ToolSpec("look"),), features=("questions",))),
                "rules": st.lists(
                    texts if kind is say.Forget else st.builds(Rule, st.just("allow"), st.just("pay(x:*)"), texts)
                ).map(tuple),
                "effect": st.sampled_from(EFFECTS),
                "effect_id": st.just(EffectId("1.1.1")),
                "input": st.sampled_from(ANSWERS),
                "model": st.none() | st.just(say.ModelChoice(factory="a:b", arguments={"c": 1}))
                if kind is say.Start
                else texts,
            }.items()
            if name in {field.name for field in kind.__attrs_attrs__}  # type: ignore[attr-defined]  # attrs makes it
        },
    )


@pytest.mark.parametrize("kind", [*REQUESTS, *NOTICES], ids=lambda kind: kind.__name__)
@settings(max_examples=15)
@given(st.data())
def test_every_message_comes_back_as_it_was(kind: type, data: st.DataObject) -> None:
    """As one line of ASCII, so that no transport has to know more than lines."""
    message = data.draw(built(kind))
    line = line_of(message)

    assert message == (read_request if kind in REQUESTS else read_notice)(line)
    assert line.isascii()
    assert "\n" not in line


def test_what_crosses_are_the_core_s_own_values() -> None:
    """Every effect that the handle's side carries out, every input that answers one, in the tags of the core."""
    assert {type(effect) for effect in EFFECTS} == set(get_args(say.Forwarded))
    assert {type(answer) for answer in ANSWERS} == set(get_args(say.Answer))
    for effect in EFFECTS:
        assert json.loads(line_of(say.Perform("a", 1, "a", effect)))["effect"] == to_data(effect)
    for answer in ANSWERS:
        assert json.loads(line_of(say.Performed("a", 1, "a", ID, answer)))["input"] == to_data(answer)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_that_json_does_not_have_is_refused(number: float) -> None:
    ended = say.TurnEnded("a", 1, Completed("Done."), Usage(cost=number), (), 1)
    with pytest.raises(ConfigError, match=r"turn_ended\.usage\.cost: a number that is not finite"):
        line_of(ended)


@pytest.mark.parametrize("number", [-5.0, 0.0, math.nan])
@pytest.mark.parametrize("name", ["tool_wait", "worker_patience"])
def test_a_deadline_before_the_beginning_is_refused(name: str, number: float) -> None:
    """Also where another program has written it."""
    with pytest.raises(ConfigError, match=f"{name}.* must be above 0 seconds"):
        say.Settings(**{name: number})  # type: ignore[arg-type]  # what is tested
    if not math.isnan(number):
        with pytest.raises(ProtocolError, match="must be above 0 seconds"):
            read_request(json.dumps({"type": "init", "id": "1", "session": "a", "settings": {name: number}}))


def test_every_event_can_be_told() -> None:
    """What a later version knows alone is left out, and does no harm."""
    told = events.Event("s", 1, 1, 1, 1, events.TextDelta("Hi"))
    data = json.loads(json.dumps(to_data(told)))

    assert told == event_of(data)
    assert data["value"]["type"] == "text_delta"
    assert None is event_of({**data, "value": {"type": "something_new"}})
    for broken in ({}, {**data, "value": {}}, {**data, "value": {"type": 1}}, {**data, "value": "x"}):
        with pytest.raises(CodecError):
            event_of(broken)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "a message is a JSON object"),
        ("{}", "the field 'type' is missing; expected one of: start, init"),
        ('{"type": ["init"]}', "unknown type"),
        ('{"type": "started"}', "unknown type 'started'"),
        ('{"type": "run_turn", "session": "a", "turn": "1", "text": "b"}', r"expected int, got str @ \$.turn"),
        ('{"type": "run_turn", "session": "a", "turn": 1}', r"the field is missing @ \$.text"),
        ('{"type": "shutdown", "now": true}', r"unknown field @ \$.now"),
        (
            '{"type": "init", "id": "1", "session": "s", "config": {"tools": [{"name": "no name"}]}}',
            "use 1 to 64 letters",
        ),
        ('{"type": "set_mode", "id": "1", "session": "s", "mode": "wild"}', "wild"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_message_is_said_so(line: str, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        read_request(line)


@settings(max_examples=50)
@given(st.text() | st.recursive(st.none() | st.integers() | texts, st.lists).map(json.dumps))
def test_any_line_is_a_message_or_a_protocol_error(line: str) -> None:
    with contextlib.suppress(ProtocolError):
        assert isinstance(read_request(line), REQUESTS)


def test_the_page_has_every_message() -> None:
    """``docs/reference/host-messages.md`` lists all tags, each with its fields, and no others."""
    page = (ROOT / "docs" / "reference" / "host-messages.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", page, re.MULTILINE))
    expected = {
        kind.tag: ", ".join(f"`{field.name}`" for field in kind.__attrs_attrs__) or "-"  # type: ignore[attr-defined]
        for kind in (*REQUESTS, *NOTICES)
    }

    assert expected == {tag: fields.strip() for tag, fields in rows.items() if tag in expected}


def test_the_handle_by_hand_of_the_page_works() -> None:
    """``docs/reference/host-messages.md`` shows a whole session: said to a host, it hears what stands there."""
    page = (ROOT / "docs" / "reference" / "host-messages.md").read_text("utf-8")
    block = re.search(r"(?:^    [<> ].*\n)+", page[page.index("This is a whole handle") :], re.MULTILINE)
    assert block is not None
    folded = re.sub(r"\n {7}", " ", block[0]).replace(", ...}", "}")
    script = [(line[4], json.loads(line[6:])) for line in folded.splitlines()]
    ours, theirs = QueueChannel.pair()
    model = ScriptedModel([call("multiply", a=17, b=23), "It is 391."])
    thread = threading.Thread(target=Host(theirs, model).serve)
    thread.start()
    for side, message in script:
        if side == ">":
            ours.send(json.dumps(message))
            continue
        heard = {"type": "event"}
        while heard["type"] == "event":
            heard = json.loads(ours.receive() or "")
        if message["type"] == "started":
            assert heard.keys() == message.keys()
        elif message["type"] == "turn_ended":
            assert message.items() <= heard.items()
        else:
            assert heard == message
    ours.close()
    thread.join(PATIENCE)

    assert "".join(side for side, _ in script) == "><><><><><"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_a_number_that_is_not_finite_is_refused_under_its_id(number: str) -> None:
    """A deadline that is none would be waited for without end, and JSON has no such numbers."""
    line = f'{{"type": "init", "id": "7", "session": "a", "settings": {{"tool_wait": {number}}}}}'
    with pytest.raises(ProtocolError, match=r"no JSON number|settings\.tool_wait: the number is not finite") as refused:
        read_request(line)
    assert refused.value.data["id"] == "7"

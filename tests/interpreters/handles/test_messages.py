"""Messages between handle and host: each comes back as it was, and what is none is said so."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cognition import Completed, Failed, LimitReached, Plan, Question, ToolCall, ToolSpec, Usage, UserMessage
from interpreters import events
from interpreters.events import Event
from interpreters.handles import messages as say
from interpreters.handles.messages import (
    EVENTS,
    NOTICES,
    REQUESTS,
    ProtocolError,
    event_data,
    event_of,
    line_of,
    read_notice,
    read_request,
)

ROOT = Path(__file__).parent.parent.parent.parent

texts = st.text(max_size=8) | st.sampled_from(["", "\n", "\ud800", "\u2028"])
calls = st.builds(ToolCall, texts, texts, st.sampled_from(["{}", '{"a": 1}', "{"]))


def built(kind: type) -> st.SearchStrategy[Any]:
    """Values of a message's class, whatever its fields are."""
    attrs.resolve_types(kind)  # Hypothesis reads the types of the fields, which are texts as written
    return st.builds(
        kind,
        **{
            name: strategy
            for name, strategy in {
                "text": texts,
                "session": texts,
                "content": texts,
                "call": calls,
                "event": st.just({"type": "text_delta"}),
                "outcome": st.sampled_from([Completed("a"), LimitReached("steps"), Failed("auth", "b")]),
                "messages": st.lists(st.builds(UserMessage, texts, texts), max_size=2).map(tuple),
                "usage": st.builds(Usage, st.integers(0, 9)),
                "questions": st.just((Question("Which?", ("a", "b")),)),
                "plan": st.just(Plan(("look",))),
                "settings": st.just(say.Settings("Be brief.", features=("questions",))),
                "tools": st.lists(st.builds(lambda: say.ToolOffer(ToolSpec("look"), 3.5)), max_size=1).map(tuple),
                "arguments": st.just({"a": [1, None]}),
                "model": st.none() | st.just(say.ModelChoice(factory="a:b", arguments={"c": 1}))
                if kind is say.Start
                else texts,
            }.items()
            if name in {field.name for field in kind.__attrs_attrs__}  # type: ignore[attr-defined]  # attrs makes it
        },
    )


@pytest.mark.parametrize("kind", [*REQUESTS.values(), *NOTICES.values()], ids=lambda kind: kind.__name__)
@settings(max_examples=15)
@given(st.data())
def test_every_message_comes_back_as_it_was(kind: type, data: st.DataObject) -> None:
    """As one line of ASCII, so that no transport has to know more than lines."""
    message = data.draw(built(kind))
    line = line_of(message)

    assert message == (read_request if kind in REQUESTS.values() else read_notice)(line)
    assert line.isascii()
    assert "\n" not in line


def test_every_kind_of_message_has_its_tag() -> None:
    assert set(get_args(say.Request)) == set(REQUESTS.values())
    assert set(get_args(say.Notice)) == set(NOTICES.values())
    assert {*get_args(say.Answer), *get_args(say.Asked)} <= {*REQUESTS.values(), *NOTICES.values()}
    assert not REQUESTS.keys() & NOTICES.keys()


def test_every_event_can_be_told() -> None:
    """Those that a later version knows alone are left out, and do no harm."""
    told = events.TextDelta(session="s", turn=1, step=1, attempt=1, sequence=1, text="Hi")

    assert set(Event.__subclasses__()) == set(EVENTS.values())
    assert told == event_of(json.loads(json.dumps(event_data(told))))
    assert event_data(told)["type"] == "text_delta"
    assert None is event_of({"type": "something_new"})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "a message is a JSON object"),
        ("{}", "unknown type None; expected one of: start, init"),
        ('{"type": ["init"]}', "unknown type"),
        ('{"type": "started"}', "unknown type 'started'"),
        ('{"type": "run_turn", "session": "a", "turn": "1", "text": "b"}', r"expected int, got str @ \$.turn"),
        ('{"type": "run_turn", "session": "a", "turn": 1}', r"the field is missing @ \$.text"),
        ('{"type": "shutdown", "now": true}', r"unknown field @ \$.now"),
        (
            '{"type": "init", "id": "1", "session": "s", "tools": [{"spec": {"name": "no name"}}]}',
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
        assert isinstance(read_request(line), tuple(REQUESTS.values()))


def test_the_page_has_every_message() -> None:
    """``docs/embedding.md`` lists all tags, each with its fields, and no others."""
    page = (ROOT / "docs" / "embedding.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", page, re.MULTILINE))
    expected = {
        tag: ", ".join(f"`{field.name}`" for field in kind.__attrs_attrs__) or "-"  # type: ignore[attr-defined]
        for tag, kind in {**REQUESTS, **NOTICES}.items()
    }

    assert expected == {tag: fields.strip() for tag, fields in rows.items() if tag in expected}

"""What holds in every format: a reply comes back as it was said, however it is cut, and nothing raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import Failure, ProposedCall, Usage
from cognition.parsing import ArgumentsDelta, CallFinished, CallMalformed, CallStarted, TextDelta, collect
from cognition.wire import Dialect, WireState, advance, decode_body, finish, plan_of
from tests.cognition.wire.sent import asked, joined, pieces_of, read
from tests.cognition.wire.servers import BODIES, STREAMS, Told

DIALECTS: tuple[Dialect, ...] = ("openai", "responses", "anthropic", "ollama")
every_format = pytest.mark.parametrize("dialect", DIALECTS)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
values = st.recursive(st.none() | st.booleans() | st.integers() | texts, lambda inner: st.lists(inner, max_size=3))
arguments = st.dictionaries(texts, values, max_size=3).map(lambda value: json.dumps(value, ensure_ascii=False))
calls = st.tuples(st.sampled_from(["add", "weather", "mcp_far_look", "unknown"]), arguments)
told_replies = st.builds(
    Told,
    text=texts,
    reasoning=texts,
    calls=st.lists(calls, max_size=3).map(tuple),
    usage=st.builds(Usage, st.integers(5, 10**6), st.integers(1, 10**6), st.integers(0, 5)),
    step=st.integers(1, 9),
)
cuts = st.lists(st.integers(0, 10**6), max_size=8)


def expected_calls(told: Told) -> tuple[ProposedCall, ...]:
    names = {"mcp_far_look": "mcp.far.look"}
    return tuple(ProposedCall(names.get(name, name), written) for name, written in told.calls)


@every_format
@given(told_replies, cuts)
@settings(max_examples=40)
def test_a_reply_comes_back_as_it_was_said(dialect: Dialect, told: Told, cuts: list[int]) -> None:
    """Text, reasoning, calls and counts, in any cut of the bytes; outputs and reply tell the same."""
    request = asked()
    if dialect == "ollama":  # which takes names with dots, and tells of no cache
        told = evolve(told, calls=tuple((name.replace("mcp_far_look", "mcp.far.look"), a) for name, a in told.calls))
    data = STREAMS[dialect](told)
    outputs, reply = read(dialect, pieces_of(data, cuts), request=request)

    wanted = expected_calls(told)
    reused = 0 if dialect == "ollama" else told.usage.reused_tokens
    assert reply.failure is None
    assert (reply.text, reply.reasoning, reply.calls, reply.malformed) == (told.text, told.reasoning, wanted, ())
    assert reply.usage == evolve(told.usage, reused_tokens=reused)
    assert reply.finish_reason == ("tool_calls" if told.calls else "stop")
    assert reply.model == "m-1"
    whole = collect(outputs)
    assert (whole.text, whole.reasoning, whole.tool_calls) == (reply.text, reply.reasoning, reply.calls)
    assert joined(outputs) == joined(read(dialect, [data], request=request)[0])


@every_format
@given(told_replies)
@settings(max_examples=40)
def test_an_answer_that_was_no_stream_says_the_same(dialect: Dialect, told: Told) -> None:
    request = asked()
    _, streamed = read(dialect, [STREAMS[dialect](told)], request=request)
    body = json.dumps(BODIES[dialect](told), ensure_ascii=False).encode("utf-8", "surrogatepass")
    reply = decode_body(dialect, request, body)

    assert evolve(reply, outputs=()) == evolve(streamed, outputs=(), response_id=reply.response_id)


@every_format
@given(told_replies, cuts)
@settings(max_examples=25)
def test_reading_is_a_function_of_state_and_bytes(dialect: Dialect, told: Told, cuts: list[int]) -> None:
    """A state goes on where it stands, however often and wherever it is taken up again."""
    request = asked()
    plan, state, outputs = plan_of(dialect, request), WireState(), []
    data = STREAMS[dialect](told)
    for piece in pieces_of(data, cuts):
        again = advance(plan, state, piece)
        state, more = advance(plan, state, piece)
        assert again == (state, more)
        outputs += more
    reply = finish(plan, state)

    direct, whole = read(dialect, [data], request=request)
    assert joined([*outputs, *reply.outputs]) == joined(direct)
    assert evolve(reply, outputs=()) == evolve(whole, outputs=())


@every_format
@given(told_replies, st.integers(0, 10**6))
@settings(max_examples=40)
def test_a_connection_that_broke_off_is_never_a_success(dialect: Dialect, told: Told, place: int) -> None:
    """Either the reply is all there, its calls whole; or it is a failure without calls."""
    told = evolve(told, text=told.text or "x")
    data = STREAMS[dialect](told)
    broken = Failure("reset by peer", "transient", code="broken")
    _, whole = read(dialect, [data])
    outputs, reply = read(dialect, [data[: place % len(data)]], cut=broken)

    if reply.failure is None:
        assert (reply.text, reply.reasoning, reply.calls) == (whole.text, whole.reasoning, whole.calls)
    else:
        assert reply.failure == broken
        assert (reply.finish_reason, reply.calls) == ("error", ())
        assert whole.text.startswith(reply.text)
        assert not [output for output in outputs if isinstance(output, CallFinished)]
    opened = [output.index for output in outputs if isinstance(output, CallStarted)]
    closed = [output.index for output in outputs if isinstance(output, CallFinished | CallMalformed)]
    assert opened == closed == list(range(len(opened))), "every call that was announced is closed, once"


@every_format
@given(st.binary(max_size=300), cuts)
def test_any_bytes_are_read(dialect: Dialect, data: bytes, cuts: list[int]) -> None:
    outputs, reply = read(dialect, pieces_of(data, cuts))

    assert reply.failure is not None
    assert joined(outputs) == joined(read(dialect, [data])[0])
    assert decode_body(dialect, asked(), data).failure is not None


def damaged(draw: Any, value: Any) -> Any:
    """A value with one part of it, somewhere, in the place of which something else stands."""
    odd = st.sampled_from([None, True, 0, -1, 10**30, 1.5, "", "x", "\ud800", [], [1], [{}], {}, {"a": 1}])
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: damaged(draw, value[key])}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], damaged(draw, value[place]), *value[place + 1 :]]
    return draw(odd)


@every_format
@given(st.data(), told_replies)
@settings(max_examples=40)
def test_a_damaged_event_is_a_failure_or_does_no_harm(dialect: Dialect, data: Any, told: Told) -> None:
    """Whatever stands in the place of a field: nothing raises, and what is a success has whole calls."""
    lines = STREAMS[dialect](evolve(told, calls=(*told.calls, ("add", '{"a": 1}')))).split(b"\n")
    places = [place for place, line in enumerate(lines) if b"{" in line]
    place = data.draw(st.sampled_from(places))
    prefix, _, text = lines[place].partition(b"{")
    changed = damaged(data.draw, json.loads(b"{" + text))
    lines[place] = prefix + json.dumps(changed).encode()
    outputs, reply = read(dialect, [b"\n".join(lines)])

    assert (reply.failure is not None) == (reply.finish_reason == "error")
    for call in reply.calls:
        assert isinstance(json.loads(call.arguments_json), dict)
    "".join((reply.text, reply.reasoning, reply.model, *(call.name for call in reply.calls))).encode()
    for output in outputs:
        match output:
            case CallStarted(name=text) | ArgumentsDelta(text=text) | TextDelta(text=text):
                text.encode()
            case _:
                pass


@every_format
@given(told_replies, st.lists(st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=3)), max_size=4))
@settings(max_examples=40)
def test_flipped_bytes_do_not_raise(dialect: Dialect, told: Told, flips: list[tuple[int, bytes]]) -> None:
    data = bytearray(STREAMS[dialect](told))
    for place, flip in flips:
        data[place % len(data) : place % len(data) + len(flip)] = flip
    _, reply = read(dialect, [bytes(data)])

    assert (reply.failure is not None) == (reply.finish_reason == "error")


@every_format
def test_a_reply_that_was_cut_at_its_limit_says_so(dialect: Dialect) -> None:
    """What had come of its last call is none, unless it is whole; those before it are."""
    told = Told("Well", calls=(("add", '{"a": 1}'), ("add", '{"a": 2}')), cut=True)
    outputs, reply = read(dialect, [STREAMS[dialect](told)])

    assert (reply.finish_reason, reply.failure) == ("length", None)
    assert reply.calls == expected_calls(told)
    last = [output for output in outputs if isinstance(output, CallFinished)][-1]
    assert not last.terminated


@pytest.mark.parametrize("dialect", ["openai", "responses", "anthropic"])
@pytest.mark.parametrize("written", ["", '{"a": ', '{"a": 2', "{"])
def test_a_call_that_was_cut_is_none(dialect: Dialect, written: str) -> None:
    """Nothing is made up: neither a brace nor, of a call that had only begun, arguments."""
    told = Told(calls=(("add", '{"a": 1}'), ("add", '"?"')), cut=True)
    data = STREAMS[dialect](told).replace(rb"\"?\"", written.replace('"', r"\"").encode())
    outputs, reply = read(dialect, [data])

    assert (reply.finish_reason, reply.failure) == ("length", None)
    assert reply.calls == (ProposedCall("add", '{"a": 1}'),)
    (malformed,) = reply.malformed
    assert malformed.raw == f"add {written}".strip()
    assert outputs[-1] == CallMalformed(1, malformed)


@every_format
def test_no_line_grows_without_end(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cognition.wire._lines.LONGEST_LINE", 1000)
    whole = STREAMS[dialect](Told("Hello"))
    for data in (whole[:100] + b"x" * 2000, b"x" * 2000 + b"\n" + whole, b"data: " + b"x" * 999 + b"\ndata: x\n" * 9):
        for size in (1, 7, 1 << 20):
            _, reply = read(dialect, [data[at : at + size] for at in range(0, len(data), size)])
            assert reply.failure is not None
            assert reply.failure.kind in ("bad_output", "transient")


@every_format
def test_a_body_has_its_bounds(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cognition.wire._dialects.LONGEST_LINE", 100)
    reply = decode_body(dialect, asked(), b"{" + b" " * 100)

    assert reply.failure is not None
    assert "body of more than 100 bytes" in reply.failure.message


@every_format
def test_a_reply_has_its_bounds(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    """In characters, and in calls."""
    monkeypatch.setattr("cognition.wire._replies.LARGEST_REPLY", 20)
    _, reply = read(dialect, [STREAMS[dialect](Told("x" * 21))])
    assert reply.failure is not None
    assert "characters" in reply.failure.message
    monkeypatch.setattr("cognition.wire._replies.MOST_CALLS", 1)
    _, reply = read(dialect, [STREAMS[dialect](Told(calls=(("add", "{}"), ("add", "{}"))))])
    assert reply.failure is not None
    assert (reply.failure.kind, "calls" in reply.failure.message) == ("bad_output", True)


@every_format
def test_characters_that_come_in_halves_are_put_together(dialect: Dialect) -> None:
    """JSON may write a character as two escapes, and a server may cut between them; half of one alone is replaced."""
    told = Told("a\ud83d\ude00b", "c\ud83d\ude00", step=1)
    _, reply = read(
        dialect,
        [
            STREAMS[dialect](told)
            .replace("\ud83d".encode("utf-8", "surrogatepass"), rb"\ud83d")
            .replace("\ude00".encode("utf-8", "surrogatepass"), rb"\ude00")
        ],
    )
    assert (reply.text, reply.reasoning) == ("a😀b", "c😀")
    assert (reply.failure, reply.finish_reason) == (None, "stop")
    told = Told("a\ud83d", "\ude00c\ud83d", step=1)
    _, reply = read(
        dialect,
        [
            STREAMS[dialect](told)
            .replace("\ud83d".encode("utf-8", "surrogatepass"), rb"\ud83d")
            .replace("\ude00".encode("utf-8", "surrogatepass"), rb"\ude00")
        ],
    )
    assert (reply.text, reply.reasoning) == ("a\ufffd", "\ufffdc\ufffd")

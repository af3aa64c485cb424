"""Nothing that was cut is ever a call (R7): every place of every reply in every format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition.parsing import FORMATS, CallFinished, FormatSpec, Reply, advance, finish, parse_reply, start
from cognition.values.outcomes import FinishReason
from tests.cognition.parsing.every_format import CALLING, WrittenReply, reply_of
from tests.cognition.parsing.replies import Call, Written, replies

ENDINGS: tuple[FinishReason, ...] = ("stop", "length", "cancelled", "error")

TEXTS: dict[str, Any] = {"q": "a", "path": "/data/x y", "x_1": "it's {1} [2], (3)"}
DATA: dict[str, Any] = {"q": -12.5, "path": [1, "two", None, True], "x_1": {"deep": {"er": []}, "n": 10}}


def calls_of(spec: FormatSpec, several: list[dict[str, Any]]) -> list[Call]:
    """Calls with these arguments; between tags, values are texts."""
    assert spec.calls is not None
    tagged = spec.calls.parameters is not None
    return [
        Call(f"tool_{place}", {key: str(value) if tagged else value for key, value in arguments.items()})
        for place, arguments in enumerate(several)
    ]


def replies_of(spec: FormatSpec) -> list[WrittenReply]:
    """All kinds of values, one call and several, with and without text and reasoning."""
    form = spec.calls
    assert form is not None
    many = calls_of(spec, [TEXTS, {}, DATA, {"q": ""}])
    one_only = form.shape == "json_object" and not (form.start or form.section_start) and not form.anywhere
    text = "" if one_only or (form.shape == "pythonic" and not form.start) else "So: "
    thoughts = "hm" if spec.reasoning else ""
    return [
        *(reply_of(spec, [call]) for call in many[:3]),
        reply_of(spec, many, text=text, reasoning=thoughts),
        reply_of(spec, many[::-1]),
    ]


def calls_in(spec: FormatSpec, raw: str) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments_json)) for call in parse_reply(spec, raw).tool_calls]


@pytest.mark.parametrize("spec", CALLING.values(), ids=list(CALLING))
@pytest.mark.behaviour("P13a")
def test_no_part_of_a_reply_holds_a_call_that_the_whole_has_not(spec: FormatSpec) -> None:
    """Cut after each character, by whatever reason: only calls that had been written, with all of their arguments."""
    for written in replies_of(spec):
        whole = [(call.name, call.arguments) for call in written.calls]
        state, done = start(spec), list[CallFinished]()
        assert whole == calls_in(spec, written.raw), written.raw
        for cut, character in enumerate(written.raw):
            for reason in ENDINGS:
                outputs = finish(spec, state, reason)[1]
                finished = done + [output for output in outputs if isinstance(output, CallFinished)]
                read = [(output.call.name, json.loads(output.call.arguments_json)) for output in finished]
                complete = sum(place <= cut for place in written.complete)

                assert read == whole[: len(read)], (written.raw[:cut], reason)
                assert len(read) <= complete, (written.raw[:cut], reason)
            state, outputs = advance(spec, state, character)
            done += [output for output in outputs if isinstance(output, CallFinished)]


NAMED = {name: spec for name, spec in FORMATS.items() if spec.calls and spec.calls.shape == "named_json"}


@pytest.mark.parametrize("reason", ENDINGS)
@pytest.mark.parametrize("spec", NAMED.values(), ids=list(NAMED))
@pytest.mark.behaviour("P13a")
def test_a_name_without_its_arguments_is_no_call(spec: FormatSpec, reason: FinishReason) -> None:
    """However the reply ended there: no family writes a call like that, and what it would do is not known."""
    written = reply_of(spec, [Call("wipe", {"folder": "/tmp/x"})])
    for more in ("", " ", "\n", spec.calls.end[:-1] if spec.calls else ""):
        reply = parse_reply(spec, written.raw[: written.raw.index("{")] + more, finish_reason=reason)

        assert (reply.tool_calls, len(reply.malformed)) == ((), 1)


def test_a_cut_name_is_told_with_how_it_was_cut() -> None:
    reply = parse_reply(FORMATS["mistral"], "[TOOL_CALLS]wipe[ARGS]", finish_reason="length")

    assert reply == Reply(malformed=reply.malformed)
    assert reply.malformed[0].reason.startswith("the reply reached the token limit inside the call: ")


QUOTES = ["[f(), g(q='say (it's 'ok')", "[f(), g(q='it's'), ", "[f(), g(q='it's'), h(", "f(q='it's')"]


@pytest.mark.parametrize("raw", QUOTES)
@pytest.mark.parametrize("reason", ENDINGS)
def test_a_text_with_a_quotation_mark_too_many_is_no_argument_of_a_cut_call(raw: str, reason: FinishReason) -> None:
    """It is mended where the call was ended; before that, the text may go on behind what looks like its end."""
    reply = parse_reply(FORMATS["lfm2"], f"<|tool_call_start|>{raw}", finish_reason=reason)

    assert [call.name for call in reply.tool_calls] == (["f"] if raw[0] == "[" else [])
    assert len(reply.malformed) == 1


@given(replies(), st.data())
@pytest.mark.behaviour("P13a")
def test_no_part_of_any_reply_holds_a_call_that_the_whole_has_not(written: Written, data: st.DataObject) -> None:
    """The same of replies with texts that quote markers, quotation marks and brackets, as families write them."""
    cut = data.draw(st.integers(0, len(written.raw)))
    for reason in ENDINGS:
        reply = parse_reply(written.spec, written.raw[:cut], finish_reason=reason)
        calls = [(call.name, json.loads(call.arguments_json)) for call in reply.tool_calls]

        assert calls == [(call.name, call.arguments) for call in written.calls[: len(calls)]]

"""What is said between a model's process and its parent comes back equal, however it is cut; damage is found."""

import contextlib
import json
from pathlib import Path
from typing import Any, get_args

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition import (
    AssistantMessage,
    ConfigError,
    Failure,
    GenerationOptions,
    History,
    MalformedToolCall,
    ModelRequest,
    ProposedCall,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from cognition.parsing import (
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    FormatSpec,
    ReasoningDelta,
    TextDelta,
)
from cognition.parsing.formats import FORMATS
from runtime import ExtraMissingError, ModelFileError, ModelLoadError, SavedCacheError, TemplateError
from runtime.children.line_pipe import LineSplitter, ProtocolError, Refusal, refusal
from runtime.isolated import wire
from runtime.llama.options import Adapter, LlamaOptions, Rope
from runtime.protocol.model import Done, ModelInfo, Timings

NUMBERS = st.integers(0, 2**53)
SECONDS = st.floats(0, 1e6)
CALLS = st.builds(ProposedCall, st.text(), st.text(), st.lists(st.text(), max_size=2).map(tuple))
MALFORMED = st.builds(MalformedToolCall, st.text(), st.text())
FAILURES = st.builds(
    Failure, st.text(), st.sampled_from((None, "transient")), needed_tokens=st.none() | st.integers(0, 2**30)
)
ENDED = st.builds(
    Done,
    st.text(),
    st.text(),
    st.lists(CALLS, max_size=2).map(tuple),
    st.lists(MALFORMED, max_size=2).map(tuple),
    st.sampled_from(("stop", "tool_calls", "length", "cancelled")),
    st.builds(Usage, NUMBERS, NUMBERS, NUMBERS),
    st.builds(Timings, SECONDS, SECONDS, st.none() | SECONDS),
)
DONE = ENDED | st.builds(lambda done, failure: evolve(done, finish_reason="error", failure=failure), ENDED, FAILURES)
PIECES = st.one_of(
    st.builds(TextDelta, st.text()),
    st.builds(ReasoningDelta, st.text()),
    st.builds(CallStarted, NUMBERS, st.text()),
    st.builds(ArgumentsDelta, NUMBERS, st.text()),
    st.builds(CallFinished, NUMBERS, CALLS, st.booleans()),
    st.builds(CallMalformed, NUMBERS, MALFORMED),
    DONE,
)
REQUESTS = st.builds(
    ModelRequest,
    st.text(),
    st.lists(
        st.one_of(
            st.builds(UserMessage, st.text(), st.text()),
            st.builds(
                AssistantMessage,
                st.text(),
                st.text(),
                calls=st.lists(st.builds(ToolCall, st.text(), st.text()), max_size=2).map(tuple),
            ),
            st.builds(ToolMessage, st.text(), st.text(), st.text(), st.text()),
        ),
        max_size=4,
    ).map(History),
    st.just((ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}}),)) | st.just(()),
    st.builds(
        GenerationOptions,
        temperature=st.floats(0, 2),
        seed=st.none() | NUMBERS,
        stop=st.lists(st.text(), max_size=2).map(tuple),
        logit_bias=st.lists(st.tuples(NUMBERS, st.floats(-100, 100)), max_size=2).map(tuple),
    ),
)
INFOS = st.builds(
    ModelInfo,
    st.text(),
    st.text(),
    st.text(),
    st.integers(1, 2**30),
    st.sampled_from(sorted(FORMATS.values(), key=repr)),
    st.just(("tools",)),
)
REFUSALS = st.builds(Refusal, st.text(), st.text(), st.text(), st.text())
OPTIONS = st.sampled_from(
    (None, LlamaOptions(), LlamaOptions(cells=4096, rope=Rope(base=1e6), adapters=(Adapter(Path("a.gguf"), 0.5),)))
)
MESSAGES = st.one_of(
    st.builds(
        wire.Load, st.sampled_from(("llama", "mlx")), st.text(), SECONDS, st.none() | NUMBERS, st.none(), OPTIONS
    ),
    st.builds(wire.Submit, NUMBERS, REQUESTS, SECONDS),
    st.builds(wire.Cancel, NUMBERS),
    st.builds(wire.Count, NUMBERS, REQUESTS),
    st.builds(wire.CountTexts, NUMBERS, st.lists(st.text(), max_size=3).map(tuple)),
    st.builds(wire.Save, NUMBERS, REQUESTS, st.text()),
    st.builds(wire.Restore, NUMBERS, st.text()),
    st.just(wire.Close()),
    st.builds(wire.Loading, st.floats(0, 1)),
    st.builds(wire.Ready, INFOS),
    st.builds(wire.LoadFailed, REFUSALS),
    st.builds(wire.Produced, st.lists(st.tuples(NUMBERS, PIECES), max_size=4).map(tuple)),
    st.builds(wire.Counted, NUMBERS, NUMBERS, st.lists(NUMBERS, max_size=3).map(tuple)),
    st.builds(wire.NotCounted, NUMBERS, REFUSALS),
    st.builds(wire.Pulse, NUMBERS),
)


def test_every_message_has_a_tag_and_a_strategy() -> None:
    """So that the property below knows them all."""
    kinds = set(wire.Message.__args__)  # type: ignore[attr-defined]  # of a union

    assert len(kinds) == len({kind.tag for kind in kinds}) == 15


@given(st.lists(MESSAGES, max_size=3), st.data())
def test_messages_come_back_equal_however_they_are_cut(messages: list[Any], drawn: st.DataObject) -> None:
    """A stream of frames, in pieces of any size."""
    stream = b"".join(map(wire.encode, messages))
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    lines = LineSplitter(wire.TO_CHILD)
    read = [
        decode(line)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for line in lines.feed(stream[start:end])
    ]

    assert read == messages


def decode(line: str) -> Any:
    """As the side does to which it is said."""
    read = wire.from_parent if json.loads(line)["type"] in FROM_PARENT else wire.from_child
    return read(line)


FROM_PARENT = {kind.tag for kind in get_args(wire.FromParent)}


@given(st.binary(max_size=64))
def test_bytes_of_chance_are_refused_with_one_error(data: bytes) -> None:
    """Whatever a process says that has gone mad: a message, or a ``ProtocolError``."""
    for line in LineSplitter(100).feed(data + b"\n"):
        with contextlib.suppress(ProtocolError):
            message = wire.from_child(line)
            assert wire.from_child(wire.encode(message).decode()) == message


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ([], "a message is a JSON object"),
        ({"type": "shutdown"}, "unknown type 'shutdown'"),
        ({"type": "cancel", "id": 1}, "unknown type 'cancel'"),
        ({"type": ["load"]}, "unknown type"),
        ({"type": "counted", "id": "1", "tokens": 1}, "expected int, got str"),
        ({"type": "counted", "id": 1, "tokens": -1}, "a count of -1"),
        ({"type": "counted", "id": 1, "tokens": 2**53 + 1}, "a number beyond"),
        ({"type": "pulse", "steps": 10**400}, "a number beyond"),
        ({"type": "pulse", "steps": -1}, "a count of -1"),
        ({"type": "produced"}, "the field is missing"),
        ({"type": "produced", "items": [[1, {"type": "text_delta"}, 1]]}, "expected an array of 2"),
        ({"type": "produced", "items": [[1, {"type": "picture"}]]}, "unknown type 'picture'"),
        ({"type": "produced", "items": [[1, {"type": "text_delta", "text": 5}]]}, "expected str, got int"),
        ({"type": "loading", "fraction": float("nan")}, "NaN is no JSON number"),
        ({"type": "loading", "fraction": 1.5}, "1.5 done"),
        ({"type": "loading", "fraction": -0.5}, "-0.5 done"),
    ],
)
def test_what_is_no_message_says_why(data: Any, what: str) -> None:
    """Types are held to, and so are numbers."""
    with pytest.raises(ProtocolError, match=what):
        wire.from_child(json.dumps(data))


DONE_DATA = {
    "type": "done",
    "text": "",
    "reasoning": "",
    "calls": [],
    "malformed": [],
    "finish_reason": "stop",
    "usage": {},
    "timings": {},
}


@pytest.mark.parametrize(
    "change",
    [
        {"usage": {"input_tokens": -1}},
        {"usage": {"output_tokens": 10**400}},
        {"usage": {"reused_tokens": 2**60}},
        {"usage": {"cost": -0.1}},
        {"usage": {"cost": 1e300}},
        {"timings": {"prefill_seconds": -1.0}},
        {"timings": {"decode_seconds": 1e300}},
        {"timings": {"time_to_first_token": -1.0}},
        {"finish_reason": "error"},
        {"finish_reason": "bored"},
        {"failure": {"message": "and yet it stopped"}},
        {"finish_reason": "error", "failure": {"message": "", "retry_after": 1e300}},
        {"finish_reason": "error", "failure": {"message": "", "needed_tokens": -5}},
        {"text": None},
        {"calls": {}},
    ],
    ids=str,
)
def test_an_end_that_can_not_be_is_refused(change: dict[str, Any]) -> None:
    """What is counted below zero would give back what was used up; what is beyond all measure fails in the sums."""
    assert wire.from_child(json.dumps({"type": "produced", "items": [[1, DONE_DATA]]}))
    with pytest.raises(ProtocolError):
        wire.from_child(json.dumps({"type": "produced", "items": [[1, DONE_DATA | change]]}))


def test_what_the_other_side_would_not_read_is_not_said() -> None:
    """A program that asks for it is told, rather than its child's end."""
    with pytest.raises(ConfigError, match=r"not_counted: .* bytes"):
        wire.encode(wire.NotCounted(1, Refusal("E", "x" * wire.FROM_CHILD)))


@pytest.mark.parametrize(
    "error",
    [
        *(kind("a text", spec="a spec") for kind in wire.ERRORS.values()),
        ExtraMissingError("a text", extra="mlx", spec="a spec"),
        SavedCacheError("a text", Path("/a/file")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_loading_come_back_as_they_were(error: ModelLoadError) -> None:
    """Type, text and fields."""
    again = wire.error_of(refusal(error))

    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_any_other_error_names_its_kind() -> None:
    """It may be of a class that the parent does not have."""
    again = wire.error_of(refusal(ZeroDivisionError("by zero")))

    assert (type(again), str(again)) == (ModelLoadError, "ZeroDivisionError: by zero")


def test_all_errors_of_loading_are_known() -> None:
    """A new one is not forgotten here. ``ModelProcessError`` is the parent's own."""

    def family(kind: type) -> set[str]:
        return {kind.__name__}.union(*map(family, kind.__subclasses__()))

    assert family(ModelLoadError) - set(wire.ERRORS) == {"ExtraMissingError", "ModelProcessError"}
    assert issubclass(TemplateError, ModelLoadError)
    assert issubclass(ModelFileError, ModelLoadError)


def test_a_request_is_not_changed_by_a_default_of_its_own() -> None:
    """Fields with their default value are left out, and come back."""
    request = ModelRequest("", History((UserMessage("m", "x"),)), (), GenerationOptions())
    message = wire.Submit(1, request, 0.0)

    assert wire.from_parent(wire.encode(message).decode()) == message
    assert evolve(request, protocol="tags") != request
    assert FormatSpec("plain") == FormatSpec("plain")

"""What is said between a model's process and its parent comes back equal, however it is cut; damage is found."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition import (
    AssistantMessage,
    CodecError,
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
from runtime.isolated import wire
from runtime.llama.options import Adapter, LlamaOptions, Rope
from runtime.protocol import Done, ModelInfo, Timings

NUMBERS = st.integers(0, 2**53)
SECONDS = st.floats(0, 1e6)
CALLS = st.builds(ProposedCall, st.text(), st.text(), st.lists(st.text(), max_size=2).map(tuple))
MALFORMED = st.builds(MalformedToolCall, st.text(), st.text())
DONE = st.builds(
    Done,
    st.text(),
    st.text(),
    st.lists(CALLS, max_size=2).map(tuple),
    st.lists(MALFORMED, max_size=2).map(tuple),
    st.sampled_from(("stop", "tool_calls", "length", "cancelled", "error")),
    st.builds(Usage, NUMBERS, NUMBERS, NUMBERS),
    st.builds(Timings, SECONDS, SECONDS, st.none() | SECONDS),
    st.none() | st.builds(Failure, st.text(), st.sampled_from((None, "transient")), needed_tokens=st.none() | NUMBERS),
)
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
    NUMBERS,
    st.sampled_from(sorted(FORMATS.values(), key=repr)),
    st.just(("tools",)),
)
REFUSALS = st.builds(wire.Refusal, st.text(), st.text(), st.text(), st.text())
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
    st.builds(wire.Save, NUMBERS, REQUESTS, st.text()),
    st.builds(wire.Restore, NUMBERS, st.text()),
    st.just(wire.Close()),
    st.builds(wire.Loading, st.floats(0, 1)),
    st.builds(wire.Ready, INFOS),
    st.builds(wire.LoadFailed, REFUSALS),
    st.builds(wire.Produced, st.lists(st.tuples(NUMBERS, PIECES), max_size=4).map(tuple)),
    st.builds(wire.Counted, NUMBERS, NUMBERS),
    st.builds(wire.NotCounted, NUMBERS, REFUSALS),
    st.builds(wire.Pulse, NUMBERS),
)


def test_every_message_has_a_tag_and_a_strategy() -> None:
    """So that the property below knows them all."""
    kinds = set(wire.Message.__args__)  # type: ignore[attr-defined]  # of a union

    assert kinds == {*wire.TAGS, wire.Produced}


@given(st.lists(MESSAGES, max_size=3), st.data())
def test_messages_come_back_equal_however_they_are_cut(messages: list[Any], drawn: st.DataObject) -> None:
    """A stream of frames, in pieces of any size."""
    stream = b"".join(map(wire.encode, messages))
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    frames = wire.Frames()
    read = [
        wire.decode(body)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for body in frames.feed(stream[start:end])
    ]

    assert read == messages


@given(st.binary(max_size=64))
def test_bytes_of_chance_are_refused_with_one_error(data: bytes) -> None:
    """Whatever a process says that has gone mad: a message, or a ``CodecError``."""
    try:
        message = wire.decode(data)
    except CodecError:
        return
    assert wire.decode(wire.encode(message)[4:]) == message


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ([], "expected an object, got list"),
        ({"type": "shutdown"}, "no message is called 'shutdown'"),
        ({"type": ["load"]}, "no message is called"),
        ({"type": "cancel", "id": "1"}, "expected int, got str"),
        ({"type": "produced"}, "expected an array, got NoneType"),
        ({"type": "produced", "items": [[1, "text"]]}, "expected a number, a tag and a piece"),
        ({"type": "produced", "items": [[1, "picture", {}]]}, "expected a number, a tag and a piece"),
        ({"type": "produced", "items": [[1, "text", {"text": 5}]]}, "expected str, got int"),
        ({"type": "load", "backend": "cuda", "path": "", "pulse": 1}, "backend"),
    ],
)
def test_what_is_no_message_says_why(data: Any, what: str) -> None:
    """Types are held to."""
    with pytest.raises(CodecError, match=what):
        wire.decode(json.dumps(data).encode())


def test_a_length_that_none_has_is_damage() -> None:
    """Rather than a wait for gigabytes that never come."""
    with pytest.raises(CodecError, match="a frame of 4294967295 bytes"):
        list(wire.Frames().feed(struct.pack(">I", 2**32 - 1)))


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
    again = wire.restored(wire.refusal(error))

    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_any_other_error_names_its_kind() -> None:
    """It may be of a class that the parent does not have."""
    again = wire.restored(wire.refusal(ZeroDivisionError("by zero")))

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

    assert wire.decode(wire.encode(message)[4:]) == message
    assert evolve(request, protocol="tags") != request
    assert FormatSpec("plain") == FormatSpec("plain")

"""The parser of model output: one pure state machine that reads any format given as data."""

from cognition.parsing.formats import FORMATS, HERMES, PLAIN
from cognition.parsing.outputs import (
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    Output,
    ReasoningDelta,
    TextDelta,
)
from cognition.parsing.parser import Parser, Reply, advance, collect, finish, parse_reply, start
from cognition.parsing.spec import CallFormat, FormatSpec, JsonFields, ParameterMarkers, ReasoningMarkers
from cognition.parsing.state import ParserState
from cognition.parsing.typed_values import ParameterTypes, types_of

__all__ = [
    "FORMATS",
    "HERMES",
    "PLAIN",
    "ArgumentsDelta",
    "CallFinished",
    "CallFormat",
    "CallMalformed",
    "CallStarted",
    "FormatSpec",
    "JsonFields",
    "Output",
    "ParameterMarkers",
    "ParameterTypes",
    "Parser",
    "ParserState",
    "ReasoningDelta",
    "ReasoningMarkers",
    "Reply",
    "TextDelta",
    "advance",
    "collect",
    "finish",
    "parse_reply",
    "start",
    "types_of",
]

"""The parser of model output: one pure state machine that reads any format given as data."""

from cognition.parsing.formats import FORMATS as FORMATS, HERMES as HERMES, PLAIN as PLAIN
from cognition.parsing.outputs import (
    ArgumentsDelta as ArgumentsDelta,
    CallFinished as CallFinished,
    CallMalformed as CallMalformed,
    CallStarted as CallStarted,
    Output as Output,
    ReasoningDelta as ReasoningDelta,
    TextDelta as TextDelta,
)
from cognition.parsing.parser import (
    Parser as Parser,
    Reply as Reply,
    advance as advance,
    collect as collect,
    finish as finish,
    parse_reply as parse_reply,
    start as start,
)
from cognition.parsing.spec import (
    CallFormat as CallFormat,
    FormatSpec as FormatSpec,
    JsonFields as JsonFields,
    ParameterMarkers as ParameterMarkers,
    ReasoningMarkers as ReasoningMarkers,
)
from cognition.parsing.state import ParserState as ParserState
from cognition.parsing.typed_values import ParameterTypes as ParameterTypes, types_of as types_of

"""Wire formats of model servers: requests to text, and replies to the outputs that local models give.

Nothing here does I/O. A provider sends what ``encode`` gives and feeds a ``Decoder`` with the bytes that come back, or
hands what did not come as a stream to ``decode_body``, and what came with an error's status to ``decode_error``.
"""

from cognition.wire.decoder import (
    Decoder,
    WirePlan,
    WireState,
    advance,
    decode_body,
    finish,
    plan_of,
)
from cognition.wire.encoder import encode
from cognition.wire.errors import decode_error
from cognition.wire.habits import DEFAULTS, HABITS, Dialect, Habits
from cognition.wire.making import UnsayableError, WireRequest
from cognition.wire.names import Names, names_of
from cognition.wire.replies import WireReply

__all__ = [
    "DEFAULTS",
    "HABITS",
    "Decoder",
    "Dialect",
    "Habits",
    "Names",
    "UnsayableError",
    "WirePlan",
    "WireReply",
    "WireRequest",
    "WireState",
    "advance",
    "decode_body",
    "decode_error",
    "encode",
    "finish",
    "names_of",
    "plan_of",
]

"""Wire formats of model servers: encode requests as text, and decode replies to the same outputs as local models give.

This package does no I/O. A provider sends the result of ``encode``. It feeds a streamed reply to a ``Decoder``, a reply
in one body to ``decode_body``, and the body of an error status to ``decode_error``.
"""

from cognition.wire._dialects import Decoder, WirePlan, WireState, advance, decode_body, encode, finish, plan_of
from cognition.wire._errors import decode_error
from cognition.wire._names import Names, names_of
from cognition.wire._quirks import DEFAULTS, QUIRKS, Dialect, Quirks
from cognition.wire._replies import WireReply
from cognition.wire._request_builder import UnsupportedRequestError, WireRequest

__all__ = [
    "DEFAULTS",
    "QUIRKS",
    "Decoder",
    "Dialect",
    "Names",
    "Quirks",
    "UnsupportedRequestError",
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

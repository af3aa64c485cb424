"""Wire formats of model servers: encode requests as text, and decode replies to the same outputs as local models give.

This package does no I/O. A provider sends the result of ``encode``. It feeds a streamed reply to a ``Decoder``, a reply
in one body to ``decode_body``, and the body of an error status to ``decode_error``.
"""

from cognition.wire._dialects import (
    Decoder as Decoder,
    WirePlan as WirePlan,
    WireState as WireState,
    advance as advance,
    decode_body as decode_body,
    encode as encode,
    finish as finish,
    plan_of as plan_of,
)
from cognition.wire._errors import decode_error as decode_error
from cognition.wire._names import Names as Names, names_of as names_of
from cognition.wire._quirks import DEFAULTS as DEFAULTS, QUIRKS as QUIRKS, Dialect as Dialect, Quirks as Quirks
from cognition.wire._replies import WireReply as WireReply
from cognition.wire._request_builder import (
    UnsupportedRequestError as UnsupportedRequestError,
    WireRequest as WireRequest,
)

"""What a template's process and its parent say to each other: JSON in UTF-8 behind a head of fixed size.

=======================  ==========================================================================================
``bytes`` (4)            length of the JSON
``processor`` (8)        in a question, the seconds of a processor that the answer may take; in an answer, those it took
``most`` (8)             in a question, the characters that the template's text may have; in an answer, the bytes of
                         memory that the process had at most
=======================  ==========================================================================================

Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import json
import struct
from typing import Any

HEAD = struct.Struct(">IdQ")

LONGEST = 1 << 30
"""Bytes of a frame: a gigabyte is no conversation."""


def body_of(data: Any) -> bytes:
    """The JSON of a frame.

    Raises:
        TypeError, ValueError, RecursionError: the data is none, or is nested too deeply.
    """
    # Text of users may hold half of a surrogate pair, which no JSON text can; ours can.
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def data_of(body: bytes | bytearray) -> Any:
    """What was written as JSON.

    Raises:
        ValueError, RecursionError: it is none.
    """
    return json.loads(body.decode("utf-8", "surrogatepass"))

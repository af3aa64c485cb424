"""The frames between a template's process and its parent: JSON in UTF-8 after a header of fixed size.

- ``bytes`` (4 bytes): length of the JSON
- ``processor`` (8 bytes): in a question, the limit of CPU seconds for the answer; in an answer, those used
- ``most`` (8 bytes): in a question, the limit of characters for the rendered text; in an answer, the peak memory of the
  process in bytes

Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import json
import struct
from typing import Any

HEAD = struct.Struct(">IdQ")

LONGEST = 1 << 30
"""Bytes of a frame. A real conversation is never a gigabyte."""


def body_of(data: Any) -> bytes:
    """Return the JSON of a frame.

    Raises:
        TypeError, ValueError, RecursionError: the data is not JSON, or is nested too deeply.
    """
    # Text of users may hold half of a surrogate pair, which no JSON text can; ours can.
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def data_of(body: bytes | bytearray) -> Any:
    """Decode the JSON of a frame.

    Raises:
        ValueError, RecursionError: it is not JSON, or nested too deeply.
    """
    return json.loads(body.decode("utf-8", "surrogatepass"))

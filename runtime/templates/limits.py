"""Limits of a chat template: the length of its source, and the cost of one operation with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from runtime.errors import TemplateError
from runtime.protocol.backend import LONGEST_TEMPLATE

LONGEST_TOKEN = 1_000
"""Characters of the texts that begin and end a conversation."""

PROCESSOR_SECONDS, SECONDS = 1.5, 3.0
"""Limits of CPU and wall time for one operation: loading a model, or preparing a step.

Compiling and probing the costliest of the 179 templates takes 0.3 s of CPU time; a conversation of 1,000 messages takes
0.03 s. Bombs reach the first limit; the second is for busy machines.
"""

MEMORY = 300 * 1024 * 1024
"""Bytes of address space of a template's process, including Python's own. Rendering a message of 5,000,000 characters
takes up to 150 MB.
"""

KEPT_MEMORY = 100 * 1024 * 1024
"""Bytes: a process that once used more ends after its answer, since Python does not release all of its memory."""

OUT_OF_MEMORY = 70
"""Exit status of a process without enough memory to report an error."""

OWN_TEXT, OUTPUT_PER_BYTE = 500_000, 4
"""Limits of the text written by a template in a separate process: a fixed number of characters, plus some for each
byte of input. A much longer text can't be a prompt of this conversation, and tokenising it would be costly.
"""


class Allowance:
    """The remaining seconds for one operation."""

    def __init__(self, processor: float = PROCESSOR_SECONDS, wall: float = SECONDS) -> None:
        self.processor = processor
        self.wall: float = wall

    @contextmanager
    def spend(self) -> Iterator[None]:
        """Subtract the wall time spent inside."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.wall -= time.monotonic() - began


_CURRENT: ContextVar[Allowance | None] = ContextVar("ALLOWANCE", default=None)


@contextmanager
def one_allowance(given: Allowance | None = None) -> Iterator[Allowance]:
    """Share one allowance between all template calls inside: that of the outermost of these contexts.

    Args:
        given: the allowance to use if this is the outermost; None for a new one.
    """
    allowance = _CURRENT.get() or given or Allowance()
    token = _CURRENT.set(allowance)
    try:
        yield allowance
    finally:
        _CURRENT.reset(token)


def check_source(source: str, *tokens: str) -> None:
    """Check the length of a template and of its tokens' texts.

    Raises:
        TemplateError: one of them is too long.
    """
    if len(source) > LONGEST_TEMPLATE:
        raise TemplateError(
            f"the chat template has more than {LONGEST_TEMPLATE:,} characters, and no template needs so many; use the "
            "template of the model's publisher"
        )
    if any(len(token) > LONGEST_TOKEN for token in tokens):
        raise TemplateError(
            f"the text of a token that begins or ends conversations has more than {LONGEST_TOKEN:,} characters; fetch "
            "the model again"
        )

"""What a chat template may take: how long its text may be, and what everything that is asked of it at once may cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from runtime.backend import LONGEST_TEMPLATE
from runtime.errors import TemplateError

LONGEST_TOKEN = 1_000
"""Characters of the texts that begin and end a conversation."""

PROCESSOR_SECONDS, SECONDS = 1.5, 3.0
"""Of a processor, and on the wall, for everything that is asked of a template at once: to load a model, or to prepare
a step. The costliest of the 179 templates takes 0.3 s of a processor to be compiled and looked through; a conversation
of 1,000 messages takes 0.03 s. Bombs meet the first limit; the second is for machines with other things to do."""

MEMORY = 300 * 1024 * 1024
"""Bytes of address space of a template's process, Python's own included. A message of 5,000,000 characters takes up to
150 MB on its way through a template."""

KEPT_MEMORY = 100 * 1024 * 1024
"""Bytes: a process that once had more is ended with its answer, since Python keeps much of what it has had."""

OUT_OF_MEMORY = 70
"""Exit status of a process that had not even the memory to say so."""

OWN_TEXT, OUTPUT_PER_BYTE = 500_000, 4
"""Characters that a template in a process of its own may write by itself, and for each byte that it is given: what is
much longer than the conversation is no prompt of it, and would have to be tokenised."""


class Allowance:
    """What is left of the seconds for everything that is asked at once."""

    def __init__(self, processor: float = PROCESSOR_SECONDS, wall: float = SECONDS) -> None:
        self.processor = processor
        self.wall = wall

    @contextmanager
    def spent(self) -> Iterator[None]:
        """What happens within is paid for on the wall."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.wall -= time.monotonic() - began


_CURRENT: ContextVar[Allowance | None] = ContextVar("ALLOWANCE", default=None)


@contextmanager
def one_allowance(given: Allowance | None = None) -> Iterator[Allowance]:
    """Whatever is asked of templates within shares one allowance: that of the outermost of these.

    Args:
        given: the one to use if this is the outermost; None for a new one.
    """
    allowance = _CURRENT.get() or given or Allowance()
    token = _CURRENT.set(allowance)
    try:
        yield allowance
    finally:
        _CURRENT.reset(token)


def check_source(source: str, *tokens: str) -> None:
    """See that a template is no longer than templates are.

    Raises:
        TemplateError: it is, or one of the tokens' texts.
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

"""Lengths of prompt prefixes that other prompts are likely to share.

A cache that cannot be cut, as of a recurrent or hybrid model, is reusable only at such a length, so snapshots are taken
there. Two are worth it:

- The end of system prompt and tools, which agents of one kind share.
- The end of the last message, up to which the conversation's next prompt is the same. After it, the template may write
  the reply differently from the model, above all without its reasoning.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from cognition import History, ModelRequest, UserMessage
from runtime.errors import TemplateError
from runtime.scheduling.prefix import common_prefix
from runtime.templates.template import ChatTemplate, Rendered

OTHER = History((UserMessage("m1", "…"),))
"""A conversation that shares no prefix with any other."""


class Boundaries:
    """Finds the boundaries in the prompts of one model.

    Args:
        template: the model's.
        tokens: tokenizes a rendered prompt.
    """

    def __init__(self, template: ChatTemplate, tokens: Callable[[Rendered], list[int]]) -> None:
        self._template = template
        self._tokens = tokens
        self._asked: ModelRequest | None = None
        self._other: list[int] = []
        """The newest request's prompt with ``OTHER`` as its conversation."""

    def of(self, request: ModelRequest, prompt: list[int]) -> tuple[int, ...]:
        """Return prefix lengths of a prompt, ascending, each greater than 0 and less than its length."""
        other = evolve(request, messages=OTHER)
        if other != self._asked:
            self._asked, self._other = other, self._rendered(other, open_reply=True)
        closed = self._rendered(request, open_reply=False)
        ends = {common_prefix(prompt, self._other), min(common_prefix(prompt, closed), len(prompt) - 1)}
        return tuple(sorted(end for end in ends if 0 < end < len(prompt)))

    def _rendered(self, request: ModelRequest, *, open_reply: bool) -> list[int]:
        try:
            return self._tokens(self._template.render(request, open_reply=open_reply))
        except TemplateError:  # it refuses this form of the conversation, though not the request's own
            return []

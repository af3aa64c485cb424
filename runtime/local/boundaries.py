"""Where the beginning of a prompt ends that other prompts are likely to share.

A cache that can't be cut, that of a recurrent or hybrid model, is of use there only: so there snapshots are taken.
Two are worth it. Agents of one kind share system prompt and tools. And the next prompt of a conversation repeats this
one up to the end of its last message; behind that, the template may write the reply otherwise than the model did,
without its reasoning above all.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from cognition import History, ModelRequest, UserMessage
from runtime.errors import TemplateError
from runtime.scheduling.prefix import common_prefix
from runtime.templates.template import ChatTemplate, Rendered

OTHER = History((UserMessage("m1", "…"),))
"""A conversation that shares no beginning with any other."""


class Boundaries:
    """Finds the boundaries in the prompts of one model.

    Args:
        template: the model's.
        tokens: makes tokens of a rendered prompt.
    """

    def __init__(self, template: ChatTemplate, tokens: Callable[[Rendered], list[int]]) -> None:
        self._template = template
        self._tokens = tokens
        self._asked: ModelRequest | None = None
        self._other: list[int] = []
        """The prompt of the newest request, with ``OTHER`` in the place of its conversation."""

    def of(self, request: ModelRequest, prompt: list[int]) -> tuple[int, ...]:
        """Lengths of beginnings of a prompt, ascending, each greater than 0 and less than its length."""
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

"""A model with randomly drawn replies, both sensible and hostile. See ``strategies.generated_models``."""

from __future__ import annotations

from collections.abc import Sequence

from cognition import ModelRequest
from interpreters.testing.fakes.models import ReplyingModel
from interpreters.testing.fakes.scripts import Reply, Scripted, reply_of


class GeneratedModel(ReplyingModel):
    """A runtime that returns some replies, and then repeats a final reply for ever.

    Hypothesis draws them (``generated_models``). The text it prints for a failing example creates the same model again,
    for a regression test.

    >>> model = GeneratedModel([Reply("Hello!")], then="Done.")
    >>> model
    GeneratedModel([Reply('Hello!')], then=Reply('Done.'))

    Attributes:
        served: the replies returned so far, in order; they correspond to ``requests``.
    """

    def __init__(
        self,
        replies: Sequence[Scripted],
        then: Scripted = "Done.",
        *,
        context_tokens: int = 4096,
        name: str = "generated",
    ) -> None:
        super().__init__(context_tokens=context_tokens, name=name)
        self.replies: tuple[Reply, ...] = tuple(reply_of(reply) for reply in replies)
        self.then: Reply = reply_of(then)
        self.served: list[Reply] = []

    def _whole_reply(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        position = len(self.served)
        reply = self.replies[position] if position < len(self.replies) else self.then
        self.served.append(reply)
        return reply

    def __repr__(self) -> str:
        return f"GeneratedModel({list(self.replies)!r}, then={self.then!r})"

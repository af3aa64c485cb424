"""Messages and their tokens: what nobody has counted gets the most that it can have, and what is cut keeps its share.

Every number here is an upper bound, so that a prompt is never larger than its sum.
"""

from __future__ import annotations

from math import ceil

from attrs import evolve, frozen

from cognition.content import images_of
from cognition.context.notes import CutNote
from cognition.counts import (
    EDGE,
    IMAGE_TOKENS,
    PIECE,
    TemplateCosts,
    Tokens,
    believed,
    most_of_part,
    most_tokens,
    pieces_of,
)
from cognition.messages import AssistantMessage, Message, ToolMessage, UserMessage

CHARS_IN_ESTIMATES = 3.0
"""Of a token, where ``fixed_size`` estimates."""
ROUNDING = 1e-6
"""Characters that are no more than an error of floating point."""


@frozen
class Kept:
    """A result's text as it is kept in history, with its tokens."""

    text: str
    tokens: Tokens


def counted(message: Message, costs: TemplateCosts) -> Message:
    """The message with its tokens: as they were counted, else the most that it can have."""
    if message.tokens and believed(message.tokens):
        return message
    return evolve(message, tokens=_most(message, costs))


def _most(message: Message, costs: TemplateCosts) -> Tokens:
    if isinstance(message, ToolMessage):
        return _uncounted(message.content, message.name, costs)
    if not isinstance(message, AssistantMessage):
        images = len(images_of(message.parts)) if message.parts else 0
        return (costs.user + most_tokens(message.text) + IMAGE_TOKENS * images,)
    all_tokens = costs.reply + most_tokens(message.text) + most_tokens(message.reasoning)
    for call in message.calls:
        all_tokens += costs.call + most_tokens(call.name) + most_tokens(call.arguments_json)
    return (all_tokens,)


def fixed_counted(costs: TemplateCosts, estimate: float) -> int:
    """Tokens of what stands before the messages, whose estimate is this now.

    They were counted with what stood there then. What has come to it since has a token for each character at most.
    """
    return costs.fixed + _grown(costs, estimate)


def bare_counted(costs: TemplateCosts, estimate: float) -> int:
    """As ``fixed_counted``, where no tools are offered; ``estimate`` as there, the tools' included."""
    return costs.bare + _grown(costs, estimate)


def _grown(costs: TemplateCosts, estimate: float) -> int:
    return max(ceil((estimate - costs.estimate) * CHARS_IN_ESTIMATES - ROUNDING), 0)


def notes_tokens(costs: TemplateCosts | None, tokens: Tokens, before: str) -> Tokens:
    """The tokens of a message in the user's role with a few words and a text that was counted as a result's."""
    if costs is None or not (tokens and believed(tokens)):
        return ()
    return (costs.user + most_tokens(before) + sum(tokens[1:]) + EDGE,)


def summary_tokens(costs: TemplateCosts | None, shown: UserMessage, summary: str, tokens: Tokens) -> Tokens:
    """The tokens of the message that shows a summary, of which the model's reply, or a part of it, is the text."""
    if costs is None:
        return ()
    most = most_tokens(summary)
    if tokens and believed(tokens):
        most = min(most, sum(tokens) + EDGE)
    return (costs.user + most_tokens(shown.text) - most_tokens(summary) + most,)


def kept(text: str, tokens: Tokens, costs: TemplateCosts, name: str = "") -> Kept:
    """The text of a tool's result with the tokens that were stamped on it, else with the most that it can have."""
    return Kept(text, tokens if tokens and believed(tokens) else _uncounted(text, name, costs))


def _uncounted(text: str, name: str, costs: TemplateCosts) -> Tokens:
    """The most tokens of a result that nobody has counted, of the tool ``name``: some templates write that too."""
    return (costs.result + most_tokens(name), *pieces_of(text))


def with_note(whole: Kept, note: str) -> Kept:
    """The text with a note on a line of its own behind it."""
    return _recounted(whole, f"{whole.text}\n{note}", len(whole.text), 0)


def shortened_to(whole: Kept, text: str, head: int, tail: int) -> Kept:
    """What ``shorten`` has made of the text: ``head`` characters of its beginning, a note, ``tail`` of its end."""
    return _recounted(whole, text, head, tail)


def shown_tokens(message: ToolMessage, text: str, head: int, tail: int, note: CutNote) -> Tokens:
    """The tokens of a result of which a request shows so many characters of either end, and a note between them."""
    length = len(message.content)
    ends = most_of_part(message.tokens, message.content, 0, head)
    ends += most_of_part(message.tokens, message.content, length - tail, length)
    between = note.tokens or most_tokens(text[head : len(text) - tail])
    return (message.tokens[0] + ends + between + 2 * EDGE,)


def _recounted(whole: Kept, text: str, head: int, tail: int) -> Kept:
    """A text that begins and ends as the whole one does, with words of ours between: the most that each piece can have.

    The tail's pieces lie otherwise than they did, and so two of them may have the tokens of one.
    """
    behind, moved = len(text) - tail, len(whole.text) - len(text)
    pieces = []
    for start in range(0, len(text), PIECE):
        end = min(start + PIECE, len(text))
        most = most_of_part(whole.tokens, whole.text, start, min(end, head)) if start < head else 0
        most += most_tokens(text[max(start, head) : min(end, behind)])
        if end > behind:
            most += most_of_part(whole.tokens, whole.text, max(start, behind) + moved, end + moved)
        pieces.append(most)
    return Kept(text, (whole.tokens[0] + EDGE, *pieces))

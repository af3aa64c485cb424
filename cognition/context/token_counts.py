"""Token counts of messages: uncounted text gets its upper bound, and a cut text keeps its part of the count.

Every number here is an upper bound, so that a prompt never exceeds its sum.
"""

from __future__ import annotations

from math import ceil

from attrs import evolve, frozen

from cognition.context._short_arguments import written_length
from cognition.context.cut_note import CutNote
from cognition.values.content import images_of
from cognition.values.counts import (
    EDGE,
    IMAGE_TOKENS,
    PIECE,
    TemplateCosts,
    Tokens,
    most_of_part,
    most_tokens,
    pieces_of,
    valid_tokens,
)
from cognition.values.messages import AssistantMessage, Message, ToolMessage, UserMessage

CHARS_IN_ESTIMATES = 3.0
"""Characters per token in the estimates of ``fixed_size``."""
ROUNDING = 1e-6
"""A number of characters small enough to be a floating point error."""


@frozen
class CountedText:
    """A result's text in history, with its tokens."""

    text: str
    tokens: Tokens


def count_message(message: Message, costs: TemplateCosts) -> Message:
    """Return the message with its counted tokens, or else with their upper bound."""
    tokens = tokens_of(message, costs)
    return message if tokens is message.tokens else evolve(message, tokens=tokens)


def tokens_of(message: Message, costs: TemplateCosts) -> Tokens:
    """Return the counted tokens of a message, or else their upper bound."""
    if message.tokens and valid_tokens(message.tokens):
        return message.tokens
    if isinstance(message, ToolMessage):
        return _result_bound(message.content, message.name, costs)
    if not isinstance(message, AssistantMessage):
        images = len(images_of(message.parts)) if message.parts else 0
        return (costs.user + most_tokens(message.text) + IMAGE_TOKENS * images,)
    all_tokens = costs.reply + most_tokens(message.text) + most_tokens(message.reasoning)
    for call in message.calls:
        all_tokens += costs.call + most_tokens(call.name) + most_tokens(call.arguments_json)
    return (all_tokens,)


def fixed_tokens(costs: TemplateCosts, estimate: float) -> int:
    """Return the tokens before the messages, given their present estimate.

    ``costs`` counted an earlier system prompt and tools. Each character added since counts as at most one token.
    """
    return costs.fixed + _added_tokens(costs, estimate)


def bare_tokens(costs: TemplateCosts, estimate: float) -> int:
    """As ``fixed_tokens`` for a request without tools; ``estimate`` still includes the tools."""
    return costs.bare + _added_tokens(costs, estimate)


def _added_tokens(costs: TemplateCosts, estimate: float) -> int:
    return max(ceil((estimate - costs.estimate) * CHARS_IN_ESTIMATES - ROUNDING), 0)


def notes_tokens(costs: TemplateCosts | None, tokens: Tokens, before: str) -> Tokens:
    """Return the tokens of a user message with a short text ``before`` and a text counted as a result."""
    if costs is None or not (tokens and valid_tokens(tokens)):
        return ()
    return (costs.user + most_tokens(before) + sum(tokens[1:]) + EDGE,)


def summary_tokens(costs: TemplateCosts | None, shown: UserMessage, summary: str, tokens: Tokens) -> Tokens:
    """Return the tokens of the message that shows a summary; its text is the model's reply or a part of it."""
    if costs is None:
        return ()
    most = most_tokens(summary)
    if tokens and valid_tokens(tokens):
        most = min(most, sum(tokens) + EDGE)
    return (costs.user + most_tokens(shown.text) - most_tokens(summary) + most,)


def count_result(text: str, tokens: Tokens, costs: TemplateCosts, name: str = "") -> CountedText:
    """Return the text of a tool's result with its stamped tokens, or else with their upper bound."""
    return CountedText(text, tokens if tokens and valid_tokens(tokens) else _result_bound(text, name, costs))


def _result_bound(text: str, name: str, costs: TemplateCosts) -> Tokens:
    """Return an upper bound of a result's tokens. It includes the tool's name, which some templates write."""
    return (costs.result + most_tokens(name), *pieces_of(text))


def append_note(whole: CountedText, note: str) -> CountedText:
    """Return the text followed by a note on its own line."""
    return _recount(whole, f"{whole.text}\n{note}", len(whole.text), 0)


def count_shortened(whole: CountedText, text: str, head: int, tail: int) -> CountedText:
    """Return the output ``text`` of ``shorten`` with its tokens: ``head`` characters, a note, ``tail`` characters."""
    return _recount(whole, text, head, tail)


def cut_result_tokens(message: ToolMessage, text: str, head: int, tail: int, note: CutNote) -> Tokens:
    """Return an upper bound for a result cut to its first ``head`` and last ``tail`` characters, and a note between."""
    length = len(message.content)
    ends = most_of_part(message.tokens, message.content, 0, head)
    ends += most_of_part(message.tokens, message.content, length - tail, length)
    between = note.tokens or most_tokens(text[head : len(text) - tail])
    return (message.tokens[0] + ends + between + 2 * EDGE,)


def cut_reply_tokens(message: AssistantMessage, note: CutNote) -> Tokens:
    """Return an upper bound for a reply with shortened arguments: a token for each byte, however they are written."""
    most = note.reply + most_tokens(message.text) + most_tokens(message.reasoning)
    for call in message.calls:
        most += note.call + most_tokens(call.name) + written_length(call.arguments_json) + EDGE
    return (most,)


def _recount(whole: CountedText, text: str, head: int, tail: int) -> CountedText:
    """Return upper bounds for the pieces of a text with the ends of ``whole`` and our words between; none if ``whole``
    is not counted.

    Pieces of the tail start at other places than in ``whole``, so two of them may have the tokens of one.
    """
    if not whole.tokens:
        return CountedText(text, whole.tokens)
    behind, moved = len(text) - tail, len(whole.text) - len(text)
    pieces = []
    for start in range(0, len(text), PIECE):
        end = min(start + PIECE, len(text))
        most = most_of_part(whole.tokens, whole.text, start, min(end, head)) if start < head else 0
        most += most_tokens(text[max(start, head) : min(end, behind)])
        if end > behind:
            most += most_of_part(whole.tokens, whole.text, max(start, behind) + moved, end + moved)
        pieces.append(most)
    return CountedText(text, (whole.tokens[0] + EDGE, *pieces))

"""What fits into a request: size estimates, and trimming history by whole turns.

Sizes are counted in tokens, estimated from characters and corrected by what the runtime last measured. The window is
moved in large steps (to ``TRIM_TO`` of the budget), so that the prompt's beginning stays the same for many calls and a
runtime can reuse what it holds of it.
"""

from __future__ import annotations

import json

from cognition.config import AgentConfig
from cognition.content import images_of
from cognition.history import History
from cognition.messages import AssistantMessage, Message, ToolMessage, UserMessage
from cognition.outcomes import Failure
from cognition.state import Window

CHARS_PER_TOKEN = 3.0
"""English has about 4 characters a token in common vocabularies, code and small vocabularies about 3."""
MESSAGE_TOKENS = 8
"""Role markers and line breaks around a message."""
IMAGE_TOKENS = 600
"""A picture: models make some 250 to 1,500 tokens of one, whatever its bytes."""
TRIM_TO = 0.75
"""Whole turns are left out until at most this share of the budget is in use."""
RESULT_SHARE = 0.25
"""No single tool result takes more than this share of the prompt budget."""
SCALE_RANGE = (0.2, 5.0)
"""A measured size that is not within these multiples of the estimate is a reporting error, not a strange tokenizer."""
OVERFLOW_GUESS = 1.5
"""A prompt that was too long is taken to have this many times the budget, where nobody says how long it was."""
MOST_TOKENS = 10**12
"""No prompt has more: a greater number is a reporting error, and may be too large to compute with."""


def message_size(message: Message) -> float:
    """Estimated tokens of a message, unscaled."""
    if isinstance(message, AssistantMessage):
        characters = len(message.text) + len(message.reasoning)
        for call in message.calls:
            characters += len(call.name) + len(call.arguments_json) + 40  # the call's markup
    elif isinstance(message, ToolMessage):
        characters = len(message.content)
    elif message.parts:
        return len(message.text) / CHARS_PER_TOKEN + MESSAGE_TOKENS + IMAGE_TOKENS * len(images_of(message.parts))
    else:
        characters = len(message.text)
    return characters / CHARS_PER_TOKEN + MESSAGE_TOKENS


def fixed_size(config: AgentConfig) -> float:
    """Estimated tokens of what stands before the messages: system prompt and tools."""
    characters = len(config.prompt)
    for tool in config.offered if config.protocol == "native" else ():
        characters += len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters)) + 80
    return characters / CHARS_PER_TOKEN + 2 * MESSAGE_TOKENS


def changed_size(fixed: float, config: AgentConfig, system: str | None) -> float:
    """``fixed_size`` with the system prompt that the state has in place of the configuration's, if it has one."""
    return fixed if system is None else fixed + (len(system) - len(config.system)) / CHARS_PER_TOKEN


def prompt_budget(config: AgentConfig) -> int:
    """Tokens that a prompt may have, the reply's room set aside."""
    most = config.options.max_tokens
    return config.context_tokens - (min(config.reply_tokens, config.context_tokens // 2) if most is None else most)


def result_limit(config: AgentConfig) -> int:
    """Characters that one tool result may have in history."""
    return max(200, int(prompt_budget(config) * RESULT_SHARE * CHARS_PER_TOKEN))


def shorten(content: str, limit: int) -> str:
    """The text, or its first three quarters and last quarter of ``limit`` characters with a note between them."""
    if len(content) <= limit:
        return content
    head, tail = limit * 3 // 4, limit // 4
    left_out = len(content) - head - tail
    return f"{content[:head]}\n[... {left_out} characters left out ...]\n{content[head + left_out :]}"


def next_turn(history: History, first: int) -> int | None:
    """Index of the first message of the turn after the one that begins at ``first``; None if that is the last turn."""
    for index in range(first + 1, len(history)):
        message = history[index]
        if isinstance(message, UserMessage) and message.origin == "user":
            return index
    return None


def scale_measured(estimate: float, tokens: int) -> float:
    """The scale after the runtime counted ``tokens`` in a prompt of this unscaled estimate."""
    low, high = SCALE_RANGE
    if tokens >= high * estimate:  # compared first: a reported count may be too large for a division
        return high
    return max(tokens / estimate, low)


def scale_overflowed(scale: float, estimate: float, budget: int, failure: Failure) -> float:
    """The scale after the runtime refused a prompt of this unscaled estimate as too long; never a smaller one.

    Where the runtime named the sizes, a prompt that fits the budget by this scale also fits the runtime's room. Where
    it did not, the prompt is taken to have ``OVERFLOW_GUESS`` times the budget, although its estimate was within it.
    """
    needed = min(failure.needed_tokens, MOST_TOKENS) if failure.needed_tokens else OVERFLOW_GUESS * budget
    room = min(failure.available_tokens, budget) if failure.available_tokens else budget
    return max(needed / estimate / (room / budget), scale)


def scale_trusted(scale: float) -> float:
    """The scale after a turn that ended because no prompt got through.

    A correction that makes prompts look longer is forgotten: without a prompt that gets through, no reply can mend it.
    """
    return min(scale, 1.0)


def fit(history: History, window: Window, fixed: float, budget: int) -> Window | None:
    """The window that fits the budget, moved on by whole turns if need be; None if the last turn alone is too long."""
    if (fixed + window.size) * window.scale <= budget:
        return window
    first, size = window.first, window.size
    while (fixed + size) * window.scale > budget * TRIM_TO:
        following = next_turn(history, first)
        if following is None:
            break
        size -= sum(message_size(history[index]) for index in range(first, following))
        first = following
    trimmed = Window(first, size, window.scale)
    return trimmed if (fixed + size) * window.scale <= budget else None

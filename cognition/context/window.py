"""What fits into a request: sizes, shortened tool results, trimming history by whole turns, and the summary.

Sizes are tokens: those that were counted, or estimated from characters and corrected by what the runtime last measured
(``docs/context-sizes.md``). Where they exceed the budget, tool results that the model has answered are shortened, then
whole old turns are left out, and at last the newest results are shortened too. That is done in large steps (to
``TRIM_TO`` of the budget), so that the prompt's beginning stays the same for many calls and a runtime can reuse what it
holds of it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from operator import is_

from attrs import evolve

from cognition.config import AgentConfig
from cognition.content import images_of
from cognition.context.counting import shown_tokens
from cognition.context.notes import PLAIN, SKIPPED, CutNote
from cognition.counts import IMAGE_TOKENS, MOST_TOKENS
from cognition.history import CHUNK, Chunk, History
from cognition.messages import AssistantMessage, Message, ToolMessage, UserMessage
from cognition.outcomes import Failure
from cognition.requests import ModelRequest
from cognition.state import NO_SUMMARY, Summary, Window
from cognition.tools import ToolSpec

CHARS_PER_TOKEN = 3.0
"""English has about 4 characters a token in common vocabularies, code and small vocabularies about 3."""
MESSAGE_TOKENS = 8
"""Role markers and line breaks around a message."""
TRIM_TO = 0.75
"""Room is made until at most this share of the budget is in use."""
STALE_RESULT = 400
"""Characters that are still shown of a tool result that the model has answered, where room is needed."""
OLD_RESULT = 100
"""The same in a turn that is too long even so: hardly more than that something is left out."""
LEAST_RESULT = 200
"""No result is shown with fewer characters than this (or than it has); a turn that needs that doesn't fit."""
SUMMARY_NOTE = "What was said and done before, summarised, in place of the messages themselves:\n{text}"
"""How a summary is shown to the model."""
SUMMARY_ID = "summary"
"""The id of that message, which stands in requests alone."""
SKIPPED_ID = "skipped"
"""The same of the note on steps that are left out."""
RESULT_SHARE = 0.25
"""No single tool result takes more than this share of the prompt budget."""
SCALE_RANGE = (0.2, 5.0)
"""A measured size that is not within these multiples of the estimate is a reporting error, not a strange tokenizer."""
OVERFLOW_GUESS = 1.5
"""A prompt that was too long is taken to have this many times the budget, where nobody says how long it was."""


Cuts = tuple[tuple[int, int], ...]
"""As in ``Window``."""


def message_size(message: Message) -> float:
    """The tokens of a message: those that were counted, else estimated and unscaled."""
    if message.tokens:
        return sum(message.tokens)
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
    return _before(config.prompt, config.offered if config.protocol == "native" else ())


def request_size(request: ModelRequest) -> float:
    """``fixed_size`` of what a request has before its messages."""
    return _before(request.system, request.tools)


def _before(prompt: str, tools: Sequence[ToolSpec]) -> float:
    characters = len(prompt)
    for tool in tools:
        characters += len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters)) + 80
    return characters / CHARS_PER_TOKEN + 2 * MESSAGE_TOKENS


def system_size(prompt: str) -> float:
    """Estimated tokens of a system prompt alone, as where no tools are offered."""
    return len(prompt) / CHARS_PER_TOKEN + 2 * MESSAGE_TOKENS


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


def shorten(content: str, limit: int, again: str = "") -> str:
    """The text, or its first three quarters and last quarter of ``limit`` characters with a note between them.

    Where the note takes as much as it saves, the text stays as it is: what comes out is never longer than what was put
    in. ``again`` says how to read the rest, as ``CutNote.again`` words it.
    """
    if len(content) <= limit:
        return content
    head, tail = ends_of(limit)
    left_out = len(content) - head - tail
    note = f"\n[... {left_out} characters left out{again} ...]\n"
    return f"{content[:head]}{note}{content[head + left_out :]}" if len(note) < left_out else content


def ends_of(limit: int) -> tuple[int, int]:
    """How many characters ``shorten`` leaves of a text at its beginning and at its end."""
    return limit * 3 // 4, limit // 4


def is_asking(message: Message) -> bool:
    """Whether a message is one of the user's, which begins a turn, and no note of the engine's."""
    return isinstance(message, UserMessage) and message.origin == "user"


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


def shortened(message: Message, limit: int | None, note: CutNote = PLAIN) -> Message:
    """The message as it is shown where results have ``limit`` characters: never a longer one than it is.

    ``note`` tells the model what is left out.
    """
    if limit is None or not isinstance(message, ToolMessage) or len(message.content) <= limit:
        return message
    content = message.content
    most = max(limit - len(note.of(message, len(content))), 0)
    head, tail = most - most // 4, most // 4
    short = f"{content[:head]}{note.of(message, len(content) - most)}{content[len(content) - tail :]}"
    if len(short) >= len(content):
        return message
    if not message.tokens:
        return evolve(message, content=short)
    tokens = shown_tokens(message, short, head, tail, note)
    return evolve(message, content=short, tokens=tokens) if sum(tokens) < sum(message.tokens) else message


def limit_at(cuts: Cuts, index: int) -> int | None:
    """How many characters a result at this place in history is shown with; None for all."""
    for end, limit in cuts:
        if index < end:
            return limit
    return None


def before_window(history: History, window: Window) -> tuple[Message, ...]:
    """What a request shows before the messages from ``window.first`` on: the summary, and, in the middle of a turn, the
    user's message that began it with the engine's notes right behind it, and a note on steps that are left out.
    """
    summary = window.summary
    told: tuple[Message, ...] = (summary_message(summary),) if summary.text else ()
    if summary.asked is None:
        return told
    told += history[summary.asked : end_of_asking(history, summary.asked)]
    return (*told, skipped_message(summary)) if summary.skipped else told


def summary_message(summary: Summary) -> UserMessage:
    """How a summary is shown."""
    text = SUMMARY_NOTE.format(text=summary.text)
    return UserMessage(SUMMARY_ID, text, "engine", tokens=summary.tokens)


def skipped_message(summary: Summary) -> UserMessage:
    """What stands in the place of steps that are left out."""
    return UserMessage(SKIPPED_ID, SKIPPED.format(summary.skipped), "engine", tokens=summary.skipped_tokens)


def end_of_asking(history: History, asked: int) -> int:
    """Index of the first message that is none of the user's, nor a note of the engine's, from ``asked`` on."""
    while asked < len(history) and isinstance(history[asked], UserMessage):
        asked += 1
    return asked


def shown(history: History, window: Window, note: CutNote = PLAIN) -> History:
    """The messages that a request shows; ``note`` as in ``shortened``.

    What stands before the window takes the places of as many messages before it, so that the others stay shared.
    """
    first, cuts = window.first, window.cuts
    front = () if window.summary is NO_SUMMARY else before_window(history, window)
    begin = first - len(front)

    def lay(chunk: Chunk, start: int) -> Chunk:
        return (_laid_whole if len(chunk) == CHUNK else _laid)(chunk, start, begin, front)

    def cut(chunk: Chunk, start: int) -> Chunk:
        return (_cut_whole if len(chunk) == CHUNK else _cut)(chunk, start, cuts, note)

    if front:
        history = history.by_chunks(begin, first, lay)
    if cuts:
        history = history.by_chunks(first, cuts[-1][0], cut)
    return history.drop(begin)


def _laid(chunk: Chunk, start: int, begin: int, front: Chunk) -> Chunk:
    """The messages with those of ``front`` in the places from ``begin`` on."""
    low, high = max(begin - start, 0), min(begin + len(front) - start, len(chunk))
    return (*chunk[:low], *front[low + start - begin : high + start - begin], *chunk[high:])


_laid_whole = lru_cache(maxsize=64)(_laid)
"""Cached, so that requests share what they show, as histories do."""


def _cut(chunk: Chunk, start: int, cuts: Cuts, note: CutNote) -> Chunk:
    cut = tuple([shortened(message, limit_at(cuts, start + place), note) for place, message in enumerate(chunk)])
    return chunk if all(map(is_, cut, chunk)) else cut


_cut_whole = lru_cache(maxsize=64)(_cut)
"""Cached, as ``_laid_whole``."""


def fit(history: History, window: Window, fixed: float, budget: int, note: CutNote = PLAIN) -> Window | None:
    """The window that fits the budget; None if what must be shown is too long.

    First the results that the model has answered are shortened, oldest first; then whole turns are left out, but for
    the last one. Where that turn alone is too long, the results in it are shortened further, its oldest steps go, and
    at last the newest results share the room that is left. Where nothing else helps, the summary goes. ``note`` as in
    ``shortened``.
    """
    if (fixed + window.size - window.slack) * window.scale <= budget:
        return window
    if window.slack:
        window = evolve(window, slack=0.0)  # it is not known of which messages it was
    room = budget * TRIM_TO / window.scale - fixed
    window = _drop_turns(history, _shorten_stale(history, window, room, STALE_RESULT, note), room, note)
    window = _shorten_stale(history, window, room, OLD_RESULT, note)
    if (fixed + window.size) * window.scale > budget:
        window = _drop_steps(history, window, room, note)
    if (fixed + window.size) * window.scale > budget:
        window = _shorten_newest(history, window, budget / window.scale - fixed, note)
    if (fixed + window.size) * window.scale <= budget:
        return window
    return fit(history, _without_summary(history, window, note), fixed, budget, note) if window.summary.text else None


def _without_summary(history: History, window: Window, note: CutNote) -> Window:
    """The window without the summary. What of the turn it stood for is left out with the note of steps instead."""
    summary = evolve(window.summary, text="", messages=0, tokens=())
    if summary.asked is not None:
        skipped = window.first - end_of_asking(history, summary.asked)
        summary = evolve(summary, skipped=skipped, skipped_tokens=note.skipping(skipped) if skipped else ())
    bare = evolve(window, summary=summary)
    sizes = [sum(map(message_size, before_window(history, one))) for one in (bare, window)]
    return evolve(bare, size=window.size + sizes[0] - sizes[1])


def shown_size(history: History, window: Window, index: int, note: CutNote = PLAIN) -> float:
    """Estimated tokens, unscaled, of the message at this place in history, as the window shows it."""
    return message_size(shortened(history[index], limit_at(window.cuts, index), note))


def _newest_step(history: History, first: int) -> int:
    """Index of the reply that the model gave last, not before ``first``: it hasn't answered what stands behind it."""
    for index in range(len(history) - 1, first, -1):
        if isinstance(history[index], AssistantMessage):
            return index
    return first


def _shorten_stale(history: History, window: Window, room: float, most: int, note: CutNote) -> Window:
    """The window with as many results shortened to ``most`` as it takes, of those that the model has answered."""
    first, size, end = window.first, window.size, 0
    if size <= room:
        return window
    for index, message in enumerate(history[first : _newest_step(history, first)], first):
        if not isinstance(message, ToolMessage) or len(message.content) <= most:
            continue
        if size <= room:
            break
        limit = limit_at(window.cuts, index)
        if limit is not None and limit <= most:
            continue
        saved = message_size(shortened(message, limit, note)) - message_size(shortened(message, most, note))
        size, end = size - saved, index + 1
    if not end:
        return window
    before = [(until, min(limit, most)) for until, limit in window.cuts if until < end]
    behind = [(until, limit) for until, limit in window.cuts if until > end]
    return evolve(window, size=size, cuts=_joined((*before, (end, most), *behind)))


def _joined(cuts: Cuts) -> Cuts:
    """The rows without those that say the same as the next one."""
    return tuple([row for row, after in zip_longest(cuts, cuts[1:]) if after is None or row[1] != after[1]])


def _drop_turns(history: History, window: Window, room: float, note: CutNote) -> Window:
    """The window without as many whole turns as it takes, but with the last one."""
    first, size, cuts, turns, summary = window.first, window.size, window.cuts, window.turns, window.summary
    gone = 0.0  # of the turn that begins at ``first``
    for index, message in enumerate(history.drop(first), first) if size > room else ():
        if is_asking(message) and index > first:
            size -= gone
            if summary.asked is not None:
                size -= sum(map(message_size, before_window(history, window)[bool(summary.text) :]))
                summary = evolve(summary, asked=None, skipped=0, skipped_tokens=())
            first, turns, gone = index, turns + 1, 0.0
            if size <= room:
                break
        gone += message_size(shortened(message, limit_at(cuts, index), note) if cuts else message)
    cuts = tuple([cut for cut in cuts if cut[0] > first])
    return evolve(window, first=first, size=size, cuts=cuts, summary=summary, turns=turns)


def _drop_steps(history: History, window: Window, room: float, note: CutNote) -> Window:
    """The window without as many whole steps of its turn as it takes, oldest first, but with the newest one."""
    summary, size = window.summary, window.size
    asked = window.first if summary.asked is None else summary.asked
    begun = end_of_asking(history, asked) if summary.asked is None else window.first
    first, newest = begun, _newest_step(history, begun)
    while size > room and first < newest:
        following = next(i for i in range(first + 1, newest + 1) if isinstance(history[i], AssistantMessage))
        size -= sum(shown_size(history, window, index, note) for index in range(first, following))
        first = following
    if first == begun or not is_asking(history[asked]):
        return window
    skipped = summary.skipped + first - begun
    told = evolve(summary, asked=asked, skipped=skipped, skipped_tokens=note.skipping(skipped))
    size += message_size(skipped_message(told)) - (message_size(skipped_message(summary)) if summary.skipped else 0.0)
    if size >= window.size:  # the note takes more than they did
        return window
    cuts = tuple([cut for cut in window.cuts if cut[0] > first])
    return evolve(window, first=first, size=size, cuts=cuts, summary=told)


def _shorten_newest(history: History, window: Window, room: float, note: CutNote) -> Window:
    """The window with the results that the model has not answered shortened alike, as far as the room demands it.

    All older ones have been shortened to ``OLD_RESULT`` before. How many characters are as many tokens as there is room
    for is estimated first; where counts say that these texts have more, it is searched for.
    """
    begin, end = _newest_step(history, window.first) + 1, len(history)
    results = {i: message for i in range(begin, end) if isinstance(message := history[i], ToolMessage)}
    others = window.size - sum(shown_size(history, window, index, note) for index in results)

    def cut_to(limit: int) -> Window:
        cut = evolve(window, cuts=_joined(((begin, OLD_RESULT), (end, limit))))
        return evolve(cut, size=others + sum(shown_size(history, cut, index, note) for index in results))

    lengths = sorted(len(message.content) for message in results.values())
    limit = _share(lengths, (room - others - MESSAGE_TOKENS * len(results)) * CHARS_PER_TOKEN)
    if limit is not None and (cut := cut_to(limit)).size <= room:
        return cut
    limits = range(LEAST_RESULT, max(lengths, default=0))
    fitting = bisect_right(limits, room, key=lambda limit: cut_to(limit).size)
    return cut_to(limits[fitting - 1]) if fitting else window


def _share(lengths: list[int], characters: float) -> int | None:
    """How long each of these texts, shortest first, may be so that together they are; None for less than is of use."""
    for place, length in enumerate(lengths):
        share = characters / (len(lengths) - place)
        if length > share:
            return int(share) if share >= LEAST_RESULT else None
        characters -= length
    return None

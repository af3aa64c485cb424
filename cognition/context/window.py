"""Fit a conversation into a request: sizes, shortened tool results, history trimmed by whole turns, and the summary.

Sizes are tokens, either counted, or estimated from characters and corrected by the runtime's latest measurement
(``docs/concepts/context-sizes.md``). If they exceed the budget, these steps follow:

1. Shorten tool results that the model has answered, and the arguments of its older calls.
2. Leave out whole old turns, then the oldest steps of the last turn.
3. Shorten the newest calls' arguments and the newest results.

A counted prompt always fits. An estimate only chooses: a prompt that exceeds its budget by an estimate is sent as small
as these steps make it.

Each step is large (down to ``TRIM_TO`` of the budget), so that the prompt's beginning stays the same for many calls and
a runtime can reuse its cache.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import zip_longest
from operator import is_

from attrs import evolve

from cognition.base.elision import elide
from cognition.context._short_arguments import shorten_arguments
from cognition.context.cut_note import PLAIN, SKIPPED, CutNote
from cognition.context.token_counts import cut_reply_tokens, cut_result_tokens
from cognition.steps.config import AgentConfig
from cognition.steps.requests import ModelRequest
from cognition.steps.state import NO_SUMMARY, Summary, Window
from cognition.values.content import images_of
from cognition.values.counts import IMAGE_TOKENS, MOST_TOKENS
from cognition.values.history import CHUNK, Chunk, History
from cognition.values.messages import AssistantMessage, Message, ToolMessage, UserMessage
from cognition.values.outcomes import Failure
from cognition.values.tools import ToolSpec

CHARS_PER_TOKEN = 3.0
"""English has about 4 characters per token in common vocabularies; code and small vocabularies have about 3."""
MESSAGE_TOKENS = 8
"""Role markers and line breaks around a message."""
TRIM_TO = 0.75
"""Trimming continues until at most this share of the budget is in use."""
STALE_RESULT = 400
"""Characters left of an answered tool result when room is needed."""
OLD_RESULT = 100
"""The same in a turn that is still too long; hardly more than the note about the omission."""
LEAST_RESULT = 200
"""The fewest characters shown of any longer result, unless the prompt would fit in no other way."""
LEAST_REPLY_SHARE = 0.25
"""The share of the part set aside for the reply that a prompt always leaves, however little room there is."""
SUMMARY_NOTE = "What was said and done before, summarised, in place of the messages themselves:\n{text}"
SUMMARY_ID = "summary"
"""The id of the summary's message, which exists only in requests."""
SKIPPED_ID = "skipped"
"""The id of the note on omitted steps, likewise."""
RESULT_SHARE = 0.25
"""The largest share of the prompt budget for a single tool result."""
SCALE_RANGE = (0.2, 5.0)
"""A measured size outside these multiples of the estimate is a reporting error, not a strange tokenizer."""
OVERFLOW_GUESS = 1.5
"""The assumed size of a prompt that was too long, in multiples of the budget, if the runtime does not report it."""


Cuts = tuple[tuple[int, int], ...]
"""As in ``Window``."""


def message_size(message: Message) -> float:
    """Return the tokens of a message: counted, or else estimated and unscaled."""
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
    """Return the estimated tokens of system prompt and tools."""
    return _prefix_size(config.prompt, config.offered if config.protocol == "native" else ())


def request_size(request: ModelRequest) -> float:
    """Return ``fixed_size`` for a request."""
    return _prefix_size(request.system, request.tools)


def _prefix_size(prompt: str, tools: Sequence[ToolSpec]) -> float:
    characters = len(prompt)
    for tool in tools:
        characters += len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters)) + 80
    return characters / CHARS_PER_TOKEN + 2 * MESSAGE_TOKENS


def system_size(prompt: str) -> float:
    """Return the estimated tokens of a system prompt alone, for requests without tools."""
    return len(prompt) / CHARS_PER_TOKEN + 2 * MESSAGE_TOKENS


def changed_size(fixed: float, config: AgentConfig, system: str | None) -> float:
    """Return ``fixed_size`` with ``system``, if not None, in place of the configured system prompt."""
    return fixed if system is None else fixed + (len(system) - len(config.system)) / CHARS_PER_TOKEN


def prompt_budget(config: AgentConfig) -> int:
    """Return the tokens allowed for a prompt, without the room for the reply."""
    most = config.options.max_tokens
    return config.context_tokens - (min(config.reply_tokens, config.context_tokens // 2) if most is None else most)


def longest_prompt(config: AgentConfig) -> int:
    """Return the tokens that a prompt may have if it fits in no other way: the part set aside for the reply gives way,
    down to ``LEAST_REPLY_SHARE`` of it.
    """
    aside = config.context_tokens - prompt_budget(config)
    return config.context_tokens - max(int(aside * LEAST_REPLY_SHARE), 1)


def result_limit(config: AgentConfig) -> int:
    """Return the characters allowed for a tool result in history."""
    return max(200, int(prompt_budget(config) * RESULT_SHARE * CHARS_PER_TOKEN))


def shorten(content: str, limit: int, again: str = "") -> str:
    """Shorten a text to the first three quarters and the last quarter of ``limit`` characters, with a note between.

    If the note is as long as the omitted text, the text stays unchanged: the result is never longer than ``content``.
    ``again`` explains how to read the rest, as worded by ``CutNote.again``.
    """
    if len(content) <= limit:
        return content
    return elide(content, *ends_of(limit), lambda left_out: f"\n[... {left_out} characters left out{again} ...]\n")


def ends_of(limit: int) -> tuple[int, int]:
    """Return how many characters ``shorten`` keeps at the beginning and at the end."""
    return limit * 3 // 4, limit // 4


def is_asking(message: Message) -> bool:
    """Return whether this is a user's message, which begins a turn, and not an engine's note."""
    return isinstance(message, UserMessage) and message.origin == "user"


def scale_after_measurement(estimate: float, tokens: int) -> float:
    """Return the scale after the runtime counted ``tokens`` in a prompt of this unscaled estimate."""
    low, high = SCALE_RANGE
    if tokens >= high * estimate:  # compared first: a reported count may be too large for a division
        return high
    return max(tokens / estimate, low)


def scale_after_overflow(scale: float, estimate: float, budget: int, failure: Failure) -> float:
    """Return the scale, never a smaller value, after the runtime refused a prompt of this unscaled estimate as too
    long.

    If the runtime reported the sizes, a prompt that fits the budget by this scale also fits the runtime's room.
    Otherwise the prompt counts as ``OVERFLOW_GUESS`` times the budget, although its estimate was within it.
    """
    needed = min(failure.needed_tokens, MOST_TOKENS) if failure.needed_tokens else OVERFLOW_GUESS * budget
    room = min(failure.available_tokens, budget) if failure.available_tokens else budget
    return max(needed / estimate / (room / budget), scale)


def scale_after_refusal(scale: float, estimate: float, budget: int, failure: Failure) -> float:
    """Return the scale after the runtime refused a prompt of this unscaled estimate. By it, the prompt exceeds the
    budget.

    If the runtime reported more tokens than its room, the scale is exact. Otherwise the prompt counts as
    ``OVERFLOW_GUESS`` times the budget, or more if it was longer by the scale so far.
    """
    room = min(failure.available_tokens, budget) if failure.available_tokens else budget
    needed = min(failure.needed_tokens or 0, MOST_TOKENS)
    if needed > room:
        return needed / estimate * (budget / room)
    return max(OVERFLOW_GUESS * budget / estimate, scale * (budget / room))


def scale_without_measurement(scale: float) -> float:
    """Return the scale after a turn without a successful prompt.

    A correction that enlarges prompts is forgotten: without a successful prompt, no reply could correct it.
    """
    return min(scale, 1.0)


def shorten_message(message: Message, limit: int | None, note: CutNote = PLAIN) -> Message:
    """Return the message with a result, or with each call's arguments, cut to ``limit`` characters; never a longer
    message.

    ``note`` informs the model of the omission.
    """
    if limit is None or _longest_part(message, note) <= limit:
        return message
    if isinstance(message, AssistantMessage):
        return _shorten_calls(message, limit, note)
    assert isinstance(message, ToolMessage), "no other message has such a part"
    content = message.content
    most = max(limit - len(note.of(message, len(content))), 0)
    head, tail = most - most // 4, most // 4
    short = elide(content, head, tail, partial(note.of, message))
    if short == content:
        return message
    left_out = message.left_out + len(content) - most
    if not message.tokens:
        return evolve(message, content=short, left_out=left_out)
    tokens = cut_result_tokens(message, short, head, tail, note)
    if sum(tokens) >= sum(message.tokens):
        return message
    return evolve(message, content=short, tokens=tokens, left_out=left_out)


def _longest_part(message: Message, note: CutNote) -> int:
    """Return the characters of the longest part of a message that can be shortened."""
    if isinstance(message, ToolMessage):
        return len(message.content)
    if note.arguments and isinstance(message, AssistantMessage):
        return max([len(call.arguments_json) for call in message.calls], default=0)
    return 0


def _shorten_calls(message: AssistantMessage, limit: int, note: CutNote) -> AssistantMessage:
    short = [shorten_arguments(call.arguments_json, limit) for call in message.calls]
    calls = [evolve(call, arguments_json=text) for call, text in zip(message.calls, short, strict=True)]
    cut = evolve(message, calls=tuple(calls))
    if message.tokens:
        cut = evolve(cut, tokens=cut_reply_tokens(cut, note))
    return cut if message_size(cut) < message_size(message) else message


def limit_at(cuts: Cuts, index: int) -> int | None:
    """Return the limit in characters of a result at this index of history; None without a limit."""
    for end, limit in cuts:
        if index < end:
            return limit
    return None


def before_window(history: History, window: Window) -> tuple[Message, ...]:
    """Return the messages shown before ``window.first``: the summary, and the beginning of a turn that the window
    splits.

    The beginning of the turn is the user's message with the engine's notes after it, and a note on omitted steps.
    """
    summary = window.summary
    told: tuple[Message, ...] = (summary_message(summary),) if summary.text else ()
    if summary.asked is None:
        return told
    told += history[summary.asked : end_of_asking(history, summary.asked)]
    return (*told, skipped_message(summary)) if summary.skipped else told


def summary_message(summary: Summary) -> UserMessage:
    """Return the message that shows a summary."""
    text = SUMMARY_NOTE.format(text=summary.text)
    return UserMessage(SUMMARY_ID, text, "engine", tokens=summary.tokens)


def skipped_message(summary: Summary) -> UserMessage:
    """Return the note that replaces omitted steps."""
    return UserMessage(SKIPPED_ID, SKIPPED.format(summary.skipped), "engine", tokens=summary.skipped_tokens)


def end_of_asking(history: History, asked: int) -> int:
    """Return the index of the first message, from ``asked`` on, that is neither the user's nor an engine's note."""
    while asked < len(history) and isinstance(history[asked], UserMessage):
        asked += 1
    return asked


def visible_messages(history: History, window: Window, note: CutNote = PLAIN) -> History:
    """Return the messages of a request; ``note`` as in ``shorten_message``.

    Messages shown before the window replace the same number of messages before it, so that the other chunks stay
    shared.
    """
    first, cuts = window.first, window.cuts
    front = () if window.summary is NO_SUMMARY else before_window(history, window)
    begin = first - len(front)

    def lay(chunk: Chunk, start: int) -> Chunk:
        return (_laid_whole if len(chunk) == CHUNK else _place_front)(chunk, start, begin, front)

    def cut(chunk: Chunk, start: int) -> Chunk:
        return (_cut_whole if len(chunk) == CHUNK else _apply_cuts)(chunk, start, cuts, note)

    if front:
        history = history.by_chunks(begin, first, lay)
    if cuts:
        history = history.by_chunks(first, cuts[-1][0], cut)
    return history.drop(begin)


def _place_front(chunk: Chunk, start: int, begin: int, front: Chunk) -> Chunk:
    """Return the messages with ``front`` placed from ``begin`` on."""
    low, high = max(begin - start, 0), min(begin + len(front) - start, len(chunk))
    return (*chunk[:low], *front[low + start - begin : high + start - begin], *chunk[high:])


_laid_whole = lru_cache(maxsize=64)(_place_front)
"""Cached, so that requests share messages as histories do."""


def _apply_cuts(chunk: Chunk, start: int, cuts: Cuts, note: CutNote) -> Chunk:
    cut = tuple([shorten_message(message, limit_at(cuts, start + place), note) for place, message in enumerate(chunk)])
    return chunk if all(map(is_, cut, chunk)) else cut


_cut_whole = lru_cache(maxsize=64)(_apply_cuts)
"""Cached, as ``_laid_whole``."""


def fit(history: History, window: Window, fixed: float, budget: int, note: CutNote = PLAIN) -> Window | None:
    """Return a window that fits the budget; None if the required messages are too long.

    Steps, each only if necessary:

    1. Shorten answered results and the arguments of earlier calls, oldest first.
    2. Leave out whole turns except the last.
    3. Shorten the last turn's results further, drop its oldest steps, shorten its newest arguments, then let its newest
       results share the room.
    4. Drop the summary.

    ``note`` as in ``shorten_message``.
    """
    fitted = _fit(history, window, fixed, budget, note)
    return fitted if _fits(fitted, fixed, budget) else None


def fit_or_smallest(history: History, window: Window, fixed: float, budget: int, note: CutNote = PLAIN) -> Window:
    """Return ``fit``'s window if it fits; otherwise one that shows less of the newest results than ``LEAST_RESULT``.

    If that does not fit either, the window is the smallest possible.
    """
    fitted = _fit(history, window, fixed, budget, note)
    if _fits(fitted, fixed, budget):
        return fitted
    return _shorten_newest(history, fitted, budget / fitted.scale - fixed, note, least=0)


def _fits(window: Window, fixed: float, budget: int) -> bool:
    return (fixed + window.size - window.slack) * window.scale <= budget


def _fit(history: History, window: Window, fixed: float, budget: int, note: CutNote) -> Window:
    """Return the window of ``fit``, also if it is still too long."""
    if _fits(window, fixed, budget):
        return window
    if window.slack:
        window = evolve(window, slack=0.0)  # it is not known of which messages it was
    room = budget * TRIM_TO / window.scale - fixed
    window = _drop_turns(history, _shorten_stale(history, window, room, STALE_RESULT, note), room, note)
    window = _shorten_stale(history, window, room, OLD_RESULT, note)
    if not _fits(window, fixed, budget):
        window = _drop_steps(history, window, room, note)
    for most in (STALE_RESULT, OLD_RESULT) if note.arguments else (OLD_RESULT,):
        if not _fits(window, fixed, budget):
            window = _shorten_newest(history, window, budget / window.scale - fixed, note, most)
    if window.summary.text and not _fits(window, fixed, budget):
        return _fit(history, _without_summary(history, window, note), fixed, budget, note)
    return window


def _without_summary(history: History, window: Window, note: CutNote) -> Window:
    """Return the window without the summary; the note on omitted steps covers its part of the turn."""
    summary = evolve(window.summary, text="", messages=0, tokens=())
    if summary.asked is not None:
        skipped = window.first - end_of_asking(history, summary.asked)
        summary = evolve(summary, skipped=skipped, skipped_tokens=note.skipping(skipped) if skipped else ())
    bare = evolve(window, summary=summary)
    sizes = [sum(map(message_size, before_window(history, one))) for one in (bare, window)]
    return evolve(bare, size=window.size + sizes[0] - sizes[1])


def visible_size(history: History, window: Window, index: int, note: CutNote = PLAIN) -> float:
    """Return the unscaled tokens of a message of history in the form that the window shows."""
    return message_size(shorten_message(history[index], limit_at(window.cuts, index), note))


def _newest_step(history: History, first: int) -> int:
    """Return the index of the latest reply, not before ``first``; the model has not answered the messages after it."""
    for index in range(len(history) - 1, first, -1):
        if isinstance(history[index], AssistantMessage):
            return index
    return first


def _shorten_stale(history: History, window: Window, room: float, most: int, note: CutNote) -> Window:
    """Shorten answered results, and arguments of calls before the newest step, to ``most`` characters, as many as
    necessary.
    """
    first, size, end = window.first, window.size, 0
    if size <= room:
        return window
    for index, message in enumerate(history[first : _newest_step(history, first)], first):
        if _longest_part(message, note) <= most:
            continue
        if size <= room:
            break
        limit = limit_at(window.cuts, index)
        if limit is not None and limit <= most:
            continue
        saved = message_size(shorten_message(message, limit, note)) - message_size(shorten_message(message, most, note))
        size, end = size - saved, index + 1
    if not end:
        return window
    before = [(until, min(limit, most)) for until, limit in window.cuts if until < end]
    behind = [(until, limit) for until, limit in window.cuts if until > end]
    return evolve(window, size=size, cuts=_merge_cuts((*before, (end, most), *behind)))


def _merge_cuts(cuts: Cuts) -> Cuts:
    """Merge adjacent rows with the same limit."""
    return tuple([row for row, after in zip_longest(cuts, cuts[1:]) if after is None or row[1] != after[1]])


def _drop_turns(history: History, window: Window, room: float, note: CutNote) -> Window:
    """Leave out as many whole turns as necessary, except the last."""
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
        gone += message_size(shorten_message(message, limit_at(cuts, index), note) if cuts else message)
    cuts = tuple([cut for cut in cuts if cut[0] > first])
    return evolve(window, first=first, size=size, cuts=cuts, summary=summary, turns=turns)


def _drop_steps(history: History, window: Window, room: float, note: CutNote) -> Window:
    """Leave out as many whole steps of the turn as necessary, oldest first, except the newest."""
    summary, size = window.summary, window.size
    asked = window.first if summary.asked is None else summary.asked
    begun = end_of_asking(history, asked) if summary.asked is None else window.first
    first, newest = begun, _newest_step(history, begun)
    while size > room and first < newest:
        following = next(i for i in range(first + 1, newest + 1) if isinstance(history[i], AssistantMessage))
        size -= sum(visible_size(history, window, index, note) for index in range(first, following))
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


def _shorten_newest(
    history: History,
    window: Window,
    room: float,
    note: CutNote,
    arguments: int = OLD_RESULT,
    least: int = LEAST_RESULT,
) -> Window:
    """Shorten the newest calls' arguments to ``arguments`` characters, if ``note`` lets them be shortened. If that is
    not enough, shorten all unanswered results to the same length, as far as necessary.

    Older results already have at most ``OLD_RESULT`` characters. The length is estimated first; if counts show that
    these texts have more tokens, it is searched for. If even ``least`` characters are too many, results
    keep their length; with 0 they have none of their own.
    """
    newest, end = _newest_step(history, window.first), len(history)
    begin = newest + 1
    if note.arguments and newest < end:
        window = _shorten_newest_calls(history, window, newest, note, arguments)
        if window.size <= room:
            return window
    results = {i: message for i in range(begin, end) if isinstance(message := history[i], ToolMessage)}
    others = window.size - sum(visible_size(history, window, index, note) for index in results)
    before = tuple([(until, most) for until, most in window.cuts if until <= begin]) if note.arguments else ()

    def cut_to(limit: int) -> Window:
        cut = evolve(window, cuts=_merge_cuts((*(before or ((begin, OLD_RESULT),)), (end, limit))))
        return evolve(cut, size=others + sum(visible_size(history, cut, index, note) for index in results))

    lengths = sorted(len(message.content) for message in results.values())
    limit = _share(lengths, (room - others - MESSAGE_TOKENS * len(results)) * CHARS_PER_TOKEN)
    if limit is not None and (cut := cut_to(limit)).size <= room:
        return cut
    limits = range(least, max(lengths, default=0))
    fitting = bisect_right(limits, room, key=lambda limit: cut_to(limit).size)
    if fitting:
        return cut_to(limits[fitting - 1])
    return window if least or not limits else cut_to(least)


def _shorten_newest_calls(history: History, window: Window, newest: int, note: CutNote, most: int) -> Window:
    """Shorten the arguments of the calls in the reply at ``newest`` to ``most`` characters."""
    known = limit_at(window.cuts, newest)
    limit = most if known is None else min(most, known)
    behind = [row for row in window.cuts if row[0] > newest + 1]
    rows = [row for row in ((newest, OLD_RESULT), (newest + 1, limit)) if row[0] > window.first]
    cut = evolve(window, cuts=_merge_cuts((*rows, *behind)))
    saved = visible_size(history, window, newest, note) - visible_size(history, cut, newest, note)
    return evolve(cut, size=window.size - saved)


def _share(lengths: list[int], characters: float) -> int | None:
    """Return the maximum length at which these texts (shortest first) fit; None if it is below ``LEAST_RESULT``."""
    for place, length in enumerate(lengths):
        share = characters / (len(lengths) - place)
        if length > share:
            return int(share) if share >= LEAST_RESULT else None
        characters -= length
    return None

"""Reports what one request shows a model and why: sizes, cut or omitted messages, and changes between requests.

Pure: it needs only a request and the state it was decided in (``RecordedRequest``), from a recording or from a running
session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from attrs import field, frozen

from cognition import (
    AgentConfig,
    AgentState,
    AssistantMessage,
    History,
    Message,
    ModelRequest,
    ToolMessage,
    UserMessage,
)
from cognition.context import CHARS_PER_TOKEN, MESSAGE_TOKENS, changed_size, fixed_size, message_size, prompt_budget
from cognition.context.sections import BETWEEN, briefing_length, with_standing
from cognition.context.summaries import REQUEST_ID
from cognition.context.token_counts import bare_tokens, fixed_tokens
from cognition.context.window import SKIPPED_ID, SUMMARY_ID, is_asking
from cognition.steps.phases import Compacting
from cognition.steps.requests import Purpose
from cognition.values.candidates import Choice, SectionUse
from cognition.values.content import text_with_placeholders
from interpreters.recording.recorded_requests import OPEN, Ending, RecordedRequest

Fate = Literal["whole", "cut", "shortened", "extended", "as_text", "summarised", "left_out", "added"]
"""State of a message in a request.

- ``whole``: shown completely.
- ``cut``: a tool's result that was too long for history, shown as in history.
- ``shortened``: this request shows less than history contains.
- ``extended``: it shows more, around the message.
- ``as_text``: a request for a summary contains it as text.
- ``summarised``: a summary replaces it.
- ``left_out``: nothing replaces it.
- ``added``: it is in the request but not in history.
"""
NOT_SHOWN: tuple[Fate, ...] = ("as_text", "summarised", "left_out")
Role = Literal["user", "engine", "assistant", "tool"]
"""Author of a message. ``engine``: a note of the engine in the user's role."""

BEGINS = 60

OLDEST_GO = "whole turns go, oldest first, where the prompt would be longer than its budget"
ANSWERED = "the model has answered this result, and the prompt needed room"
NEWEST_SHARE = "the turn is too long with all older results shortened: the newest ones share the room that is left"
TOO_LONG = "a result is cut as it comes in, to its tool's limit or a quarter of the prompt"
AS_TEXT = "the summary to be written will stand for it; what is long of it is shortened in the request"
SUMMARISED = "a summary stands for it, in front of what is shown"
STAYS = "the summary is of what stands before it"
ASKS = "it asks for the summary"
IS_SUMMARY = "the summary that the model has written, of the first {} messages of history"
SHOWN_TOO = "; of these the one that began the turn is shown too"
EXTENDED = "sections of the turn stand in front of it, which are counted apart"
STEPS_GO = "the turn is too long with all of its results shortened: its oldest steps go"
SAYS_SO = "it says that steps of the turn are left out"
NOT_IN_HISTORY = "the engine puts it into requests only"


@frozen
class MessageReport:
    """One message, in a request or omitted from it."""

    id: str
    role: Role
    turn: int
    """The turn of the message; 0 before the session's first turn."""
    fate: Fate
    why: str
    """Reason for the fate; empty for a whole message."""
    tokens: int
    """Size as shown; for an omitted message, its size if shown whole."""
    characters: int
    """Length as shown; for an omitted message, its length in history."""
    hidden: int
    """Number of original characters that are not shown; 0 for a whole or added message."""
    begins: str
    """The first words, or the called tools."""


@frozen
class ContextReport:
    """The contents of one request. Sizes are in tokens: upper bounds if ``counted``, else estimates of the engine."""

    number: int
    """Number of the model call in the recording, from 1."""
    record: int
    """Number of the record that led to the request, from 1; 0 for a running session."""
    at: float
    """Time of the request, in seconds since the epoch."""
    effect_id: str
    purpose: Purpose
    context_tokens: int | None
    """Context of the model: prompt and reply together. None if unknown, as in the next two fields."""
    budget: int | None
    """The part of the context available to the prompt."""
    used: int | None
    """Size of the prompt, as added up by the engine."""
    system_tokens: int
    tools_tokens: int
    sections_tokens: int
    """Size of the turn's sections, after the system prompt and before the user's message."""
    tools: tuple[str, ...]
    scale: float
    """Factor for estimated sizes, from the runtime's last measurement."""
    counted: bool
    """Whether sizes are sums of counts by the model's tokenizer; otherwise they are estimates."""
    messages: tuple[MessageReport, ...]
    """All messages of history and of the request, in order."""
    same: bool
    """Whether this request equals the one sent, by its recorded digest; True without a digest."""
    sections: tuple[SectionUse, ...] = ()
    """Budget and use of each section of the turn; empty without candidates."""
    candidates: tuple[Choice, ...] = ()
    """Result and reason for each candidate of the sections."""
    ending: Ending = OPEN

    @property
    def remaining(self) -> int | None:
        """Unused tokens of the prompt's budget."""
        return None if self.budget is None or self.used is None else self.budget - self.used

    @property
    def fixed_tokens(self) -> int:
        """Tokens that are not messages: system prompt, tools and sections."""
        return self.system_tokens + self.tools_tokens + self.sections_tokens

    @property
    def shown(self) -> tuple[MessageReport, ...]:
        """Messages that the request shows."""
        return tuple(one for one in self.messages if one.fate not in NOT_SHOWN)

    @property
    def left_out(self) -> tuple[MessageReport, ...]:
        """Messages of history that are neither shown nor summarised."""
        return self.of("left_out")

    def of(self, fate: Fate) -> tuple[MessageReport, ...]:
        return tuple(one for one in self.messages if one.fate == fate)


@frozen
class _Sizes:
    scale: float

    def text(self, characters: int, around: float = MESSAGE_TOKENS) -> int:
        return round((characters / CHARS_PER_TOKEN + around) * self.scale)

    def message(self, message: Message) -> int:
        return round(message_size(message) * self.scale)

    def sections(self, state: AgentState, standing: str, passing: str) -> int:
        characters, briefing = len(standing) + len(passing), state.briefing
        if briefing is None or not briefing.tokens:
            return round(characters / CHARS_PER_TOKEN * self.scale)
        return round(briefing.tokens * min(characters / briefing_length(briefing), 1.0) * self.scale)


def report_of(request: RecordedRequest, config: AgentConfig | None) -> ContextReport:
    """Return the report of a request. ``config``: configuration of the engine, if it has one."""
    state, call, chosen = request.state, request.call, request.chosen
    sizes = _Sizes(state.window.scale)
    system, tools = _count_fixed(request, config)
    budget, used = room_of(request, config)
    return ContextReport(
        request.number,
        request.record,
        request.at,
        str(call.effect_id),
        call.purpose,
        None if config is None else config.context_tokens,
        budget,
        used,
        system,
        tools,
        sizes.sections(state, *_sections(request)),
        tuple(tool.name for tool in call.request.tools),
        sizes.scale,
        state.costs is not None,
        tuple(_messages(state, call.request, sizes)),
        request.same,
        () if chosen is None else chosen.sections,
        () if chosen is None else chosen.choices,
        request.ending,
    )


def _count_fixed(request: RecordedRequest, config: AgentConfig | None) -> tuple[int, int]:
    """Return the tokens of the system prompt without sections, and of the offered tools."""
    state, shown, apart = request.state, request.call.request, _is_apart(request.state)
    sizes, costs = _Sizes(state.window.scale), state.costs
    characters = len(shown.system) - len(_sections(request)[0])
    if config is not None:
        fixed = changed_size(fixed_size(config), config, state.system)
        if costs is not None:
            bare = round(bare_tokens(costs, fixed) * sizes.scale)
            return bare, 0 if apart else round(fixed_tokens(costs, fixed) * sizes.scale) - bare
        if not apart:
            system = sizes.text(characters)
            return system, round(fixed * sizes.scale) - sizes.text(len(config.prompt_with(state.system)))
    return sizes.text(characters), sum(sizes.text(len(tool.name) + len(tool.description)) for tool in shown.tools)


def _sections(request: RecordedRequest) -> tuple[str, str]:
    """Return the sections behind the system prompt and the sections before the user's message."""
    state, system = request.state, request.call.request.system
    if state.briefing is None:
        return "", ""
    behind = with_standing(".", state.briefing)[1:] if system != state.briefing.standing else system
    passing = f"{state.briefing.passing}{BETWEEN}" if state.briefing.passing else ""
    if isinstance(state.phase, Compacting) and (state.costs is None or not _shows_newest(state)):
        passing = ""  # by an estimate the message counts with them
    return behind if system.endswith(behind) else "", passing


def _is_apart(state: AgentState) -> bool:
    """Return whether a summary is asked for in a prompt of its own, which has the system prompt and no tools."""
    return isinstance(state.phase, Compacting) and not state.phase.shares_prefix


def _shows_newest(state: AgentState) -> bool:
    """Return whether a request for a summary shows the newest user message, with the sections before it."""
    if not isinstance(state.phase, Compacting) or not state.phase.shares_prefix:
        return False
    return not any(map(is_asking, state.history[state.phase.until :]))


def room_of(request: RecordedRequest, config: AgentConfig | None) -> tuple[int | None, int | None]:
    """Return the prompt's budget and size in tokens; None for an unknown number."""
    if request.assembled is not None:
        return request.assembled.budget, request.assembled.tokens
    budget, used = None if config is None else prompt_budget(config), None
    if request.call.purpose == "summary":  # the engine gives no account of it
        sizes = _Sizes(request.state.window.scale)
        used = sum(_count_fixed(request, config)) + sizes.sections(request.state, *_sections(request))
        used += sum(map(sizes.message, request.call.request.messages))
    return budget, used


def _messages(state: AgentState, request: ModelRequest, sizes: _Sizes) -> Iterator[MessageReport]:
    history, shown = state.history, {message.id: message for message in request.messages}
    turn = state.counters.turn
    turns = turns_of(history, turn)
    # The model has not answered the messages behind its newest reply.
    answered = max((index for index, one in enumerate(history) if isinstance(one, AssistantMessage)), default=0)
    known = {message.id for message in history}
    before, last = _find_added(request.messages, known)
    for index, message in enumerate(history):
        for other in before.get(message.id, ()):
            yield _report(other, turn, "added", _explain_addition(other, state), sizes, 0)
        came_without = _left_out(message)
        one = shown.get(message.id)
        if one is None:
            fate, why = _explain_absence(index, state)
            yield _report(message, turns[index], fate, why, sizes, came_without + _length(message))
        elif len(_text(one)) > len(_text(message)):
            yield _report(message, turns[index], "extended", EXTENDED, sizes, 0)
        elif one != message:
            without = max(_left_out(one), came_without + len(_text(message)) - len(_text(one)))
            why = ANSWERED if index < answered else NEWEST_SHARE
            yield _report(one, turns[index], "shortened", why, sizes, without)
        elif came_without:
            yield _report(one, turns[index], "cut", TOO_LONG, sizes, came_without)
        else:
            yield _report(one, turns[index], "whole", "", sizes, 0)
    for other in last:
        yield _report(other, turn, "added", _explain_addition(other, state), sizes, 0)


def _explain_absence(index: int, state: AgentState) -> tuple[Fate, str]:
    """Return the fate of the message at this index of history, which the request does not contain, and the reason."""
    summary, phase = state.window.summary, state.phase
    if summary.text and index < summary.messages:
        return "summarised", SUMMARISED
    if isinstance(phase, Compacting) and index >= state.window.first:
        return ("as_text", AS_TEXT) if index < phase.until else ("left_out", STAYS)
    asked = summary.asked
    return "left_out", OLDEST_GO if asked is None or index < asked else STEPS_GO


def _explain_addition(message: Message, state: AgentState) -> str:
    if message.id == SKIPPED_ID:
        return SAYS_SO
    if message.id == SUMMARY_ID:
        summary = state.window.summary
        within = summary.asked is not None and summary.asked < summary.messages
        return IS_SUMMARY.format(summary.messages) + (SHOWN_TOO if within else "")
    return ASKS if message.id == REQUEST_ID else NOT_IN_HISTORY


def _find_added(messages: Sequence[Message], known: set[str]) -> tuple[Mapping[str, list[Message]], list[Message]]:
    """Return the messages that are not in history.

    The first result groups them by the id of the history message that follows. The second contains those at the end.
    """
    before: dict[str, list[Message]] = {}
    waiting: list[Message] = []
    for message in messages:
        if message.id not in known:
            waiting.append(message)
        elif waiting:
            before[message.id], waiting = waiting, []
    return before, waiting


def _report(message: Message, turn: int, fate: Fate, why: str, sizes: _Sizes, hidden: int) -> MessageReport:
    role: Role = "assistant" if isinstance(message, AssistantMessage) else "tool"
    return MessageReport(
        message.id,
        message.origin if isinstance(message, UserMessage) else role,
        turn,
        fate,
        why,
        sizes.message(message),
        _length(message),
        hidden,
        _format_begin(message),
    )


def turns_of(history: History, turn: int) -> list[int]:
    """Return the turn of each message; ``turn`` is the newest."""
    numbers: list[int] = []
    for message in reversed(history):
        numbers.append(max(turn, 0))
        if isinstance(message, UserMessage) and message.origin == "user":
            turn -= 1
    numbers.reverse()
    return numbers


def _text(message: Message) -> str:
    return message.content if isinstance(message, ToolMessage) else message.text


def _left_out(message: Message) -> int:
    return message.left_out if isinstance(message, ToolMessage) else 0


def _length(message: Message) -> int:
    length = len(_text(message))
    if isinstance(message, AssistantMessage):
        length += len(message.reasoning) + sum(len(call.arguments_json) for call in message.calls)
    return length


def _format_begin(message: Message) -> str:
    if isinstance(message, ToolMessage):
        text = f"{message.name}: {message.content[: 2 * BEGINS]}"
    elif isinstance(message, UserMessage):
        text = text_with_placeholders(message.text, message.parts)
    elif message.calls:
        called = ", ".join(f"{call.name}({call.arguments_json[:BEGINS]})" for call in message.calls)
        text = f"{message.text[:BEGINS]} calls {called}".lstrip()
    else:
        text = message.text
    line = " ".join(text[: 4 * BEGINS].split())
    return line if len(line) <= BEGINS else f"{line[: BEGINS - 1]}…"


# ----------------------------------------------------------------------------------------------- between two requests


@frozen
class ContextChanges:
    """The changes between two requests, and how much of the first one's beginning the second keeps."""

    before: ContextReport
    after: ContextReport
    parts: tuple[str, ...]
    """Changed parts before the messages: of ``system``, ``tools``, ``options``."""
    kept_messages: int
    """Number of equal messages at the beginning; 0 if ``system`` or ``tools`` changed."""
    kept_tokens: int
    """Estimated size of the common beginning: system prompt, tools and these messages."""
    gone: tuple[MessageReport, ...] = field(factory=tuple)
    """Messages that only the first request shows."""
    came: tuple[MessageReport, ...] = field(factory=tuple)
    """Messages that only the second request shows."""
    changed: tuple[tuple[MessageReport, MessageReport], ...] = field(factory=tuple)
    """Messages that both requests show, but differently."""

    @property
    def share(self) -> float:
        """Kept share of the first request, from 0 to 1. A runtime that still holds the request can reuse this part."""
        tokens = self.before.fixed_tokens + sum(one.tokens for one in self.before.shown)
        return self.kept_tokens / tokens if tokens else 1.0


def changes_between(
    before: RecordedRequest,
    after: RecordedRequest,
    config: AgentConfig | None,
) -> ContextChanges:
    """Return the changes from one recorded request to another, in either order.

    The kept part is counted in whole messages, by the scale of ``after``; their text is identical. A runtime may keep a
    few more tokens, of the first message that differs.
    """
    first, second = (report_of(one, config) for one in (before, after))
    left, right = before.call.request, after.call.request
    parts = [name for name in ("system", "tools", "options") if getattr(left, name) != getattr(right, name)]
    sizes = _Sizes(second.scale)
    kept = kept_tokens = 0
    if "system" not in parts and "tools" not in parts:
        kept_tokens = second.system_tokens + second.tools_tokens + sizes.sections(after.state, _sections(after)[0], "")
        for one, other in zip(left.messages, right.messages, strict=False):
            if one is not other and one != other:
                break
            kept, kept_tokens = kept + 1, kept_tokens + sizes.message(other)
    then, now = ({message.id: message for message in request.messages} for request in (left, right))
    reports = {one.id: one for one in second.shown}
    return ContextChanges(
        first,
        second,
        tuple(parts),
        kept,
        kept_tokens,
        tuple(one for one in first.shown if one.id not in now),
        tuple(one for one in second.shown if one.id not in then),
        tuple((one, reports[one.id]) for one in first.shown if one.id in now and then[one.id] != now[one.id]),
    )

"""Reports what one request shows a model and why: sizes, cut or omitted messages, and changes between requests.

Pure: it needs only a request and the state it was decided in. Both come from a recording (``recorded_requests``) or
from a running session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from attrs import field, frozen

from cognition import (
    AgentConfig,
    AgentState,
    AssistantMessage,
    ContextAssembled,
    ContextChosen,
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
from cognition.context.window import SKIPPED_ID, SUMMARY_ID
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
    """Return the report of a recorded request. See ``RecordedRequests`` for its parts."""
    return report(
        request.state,
        request.call.request,
        config,
        number=request.number,
        record=request.record,
        at=request.at,
        effect_id=str(request.call.effect_id),
        purpose=request.call.purpose,
        assembled=request.assembled,
        chosen=request.chosen,
        same=request.same,
        ending=request.ending,
    )


def report(
    state: AgentState,
    request: ModelRequest,
    config: AgentConfig | None,
    *,
    number: int,
    effect_id: str,
    purpose: Purpose,
    record: int = 0,
    at: float = 0.0,
    assembled: ContextAssembled | None = None,
    chosen: ContextChosen | None = None,
    same: bool = True,
    ending: Ending = OPEN,
) -> ContextReport:
    """Return the report of a request that was decided in ``state``.

    Args:
        state, request: both of one model call.
        config: configuration of the engine, if it has one. number, effect_id, purpose, record, at, same, ending: as in
            the report. assembled, chosen: the engine's own account of the request and of the turn's candidates.
    """
    sizes = _Sizes(state.window.scale)
    standing, passing = _sections(state, request)
    system, tools = _count_fixed(state, request, config, purpose, len(request.system) - len(standing))
    budget, used = room_of(state, request, config, purpose, assembled)
    return ContextReport(
        number,
        record,
        at,
        effect_id,
        purpose,
        None if config is None else config.context_tokens,
        budget,
        used,
        system,
        tools,
        sizes.sections(state, standing, passing),
        tuple(tool.name for tool in request.tools),
        sizes.scale,
        state.costs is not None,
        tuple(_messages(state, request, sizes)),
        same,
        () if chosen is None else chosen.sections,
        () if chosen is None else chosen.choices,
        ending,
    )


def _count_fixed(
    state: AgentState, request: ModelRequest, config: AgentConfig | None, purpose: Purpose, characters: int
) -> tuple[int, int]:
    """Return the tokens of the system prompt, which has this many characters, and of the offered tools."""
    sizes, costs = _Sizes(state.window.scale), state.costs
    if config is not None:
        fixed = changed_size(fixed_size(config), config, state.system)
        if costs is not None:
            bare = round(bare_tokens(costs, fixed) * sizes.scale)
            return bare, 0 if purpose == "summary" else round(fixed_tokens(costs, fixed) * sizes.scale) - bare
        if purpose != "summary":
            system = sizes.text(characters)
            return system, round(fixed * sizes.scale) - sizes.text(len(config.prompt_with(state.system)))
    return sizes.text(characters), sum(sizes.text(len(tool.name) + len(tool.description)) for tool in request.tools)


def _sections(state: AgentState, request: ModelRequest) -> tuple[str, str]:
    """Return the sections behind the system prompt and the sections before the user's message."""
    if state.briefing is None:
        return "", ""
    behind = with_standing(".", state.briefing)[1:] if request.system != state.briefing.standing else request.system
    passing = f"{state.briefing.passing}{BETWEEN}" if state.briefing.passing else ""
    if isinstance(state.phase, Compacting):  # a summary is asked for with the system prompt alone
        passing = ""
    return behind if request.system.endswith(behind) else "", passing


def room_of(
    state: AgentState,
    request: ModelRequest,
    config: AgentConfig | None,
    purpose: Purpose,
    assembled: ContextAssembled | None,
) -> tuple[int | None, int | None]:
    """Return the prompt's budget and size in tokens; None for an unknown number."""
    if assembled is not None:
        return assembled.budget, assembled.tokens
    budget, used = None if config is None else prompt_budget(config), None
    if purpose == "summary":  # one message, of which the engine gives no account
        sizes, (standing, passing) = _Sizes(state.window.scale), _sections(state, request)
        used = sum(_count_fixed(state, request, config, purpose, len(request.system) - len(standing)))
        used += sizes.sections(state, standing, passing) + sum(map(sizes.message, request.messages))
    return budget, used


def _messages(state: AgentState, request: ModelRequest, sizes: _Sizes) -> Iterator[MessageReport]:
    history, shown = state.history, {message.id: message for message in request.messages}
    turn = state.counters.turn
    turns, answered = turns_of(history, turn), _newest_reply(history)
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
    return MessageReport(
        message.id,
        role_of(message),
        turn,
        fate,
        why,
        sizes.message(message),
        _length(message),
        hidden,
        _format_begin(message),
    )


def role_of(message: Message) -> Role:
    """Return the author of a message."""
    if isinstance(message, UserMessage):
        return message.origin
    return "assistant" if isinstance(message, AssistantMessage) else "tool"


def turns_of(history: History, turn: int) -> list[int]:
    """Return the turn of each message; ``turn`` is the newest."""
    numbers: list[int] = []
    for message in reversed(history):
        numbers.append(max(turn, 0))
        if isinstance(message, UserMessage) and message.origin == "user":
            turn -= 1
    numbers.reverse()
    return numbers


def _newest_reply(history: History) -> int:
    """Return the index of the newest reply. The model has not answered the messages behind it."""
    for index in range(len(history) - 1, -1, -1):
        if isinstance(history[index], AssistantMessage):
            return index
    return 0


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
    line = " ".join(_beginning(message)[: 4 * BEGINS].split())
    return line if len(line) <= BEGINS else f"{line[: BEGINS - 1]}…"


def _beginning(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return f"{message.name}: {message.content[: 2 * BEGINS]}"
    if isinstance(message, UserMessage):
        return text_with_placeholders(message.text, message.parts)
    if not message.calls:
        return message.text
    called = ", ".join(f"{call.name}({call.arguments_json[:BEGINS]})" for call in message.calls)
    return f"{message.text[:BEGINS]} calls {called}".lstrip()


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
        tokens = _tokens(self.before)
        return self.kept_tokens / tokens if tokens else 1.0


def _tokens(report: ContextReport) -> int:
    return report.fixed_tokens + sum(one.tokens for one in report.shown)


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
        kept_tokens = (
            second.system_tokens
            + second.tools_tokens
            + sizes.sections(after.state, _sections(after.state, right)[0], "")
        )
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

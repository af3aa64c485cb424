"""OpenTelemetry spans from a session's events: one for each turn, step, model call, tool and worker.

    from interpreters.observing.tracing import Tracing

    agent = Agent(model, tools, observers=[Tracing(agent="baker", model="qwen3-4b")])

They follow the conventions for generative AI, which are in development
(https://github.com/open-telemetry/semantic-conventions-genai). Only ``Names`` depends on these. Spans use the session's
timestamps, even if this observer receives the events later. They contain no conversation text, arguments or results.

A span begins on the session's own thread, before its effect starts, so that it is the current span of the tool, worker
or model call. It ends with the delivered event, on another thread, because an exporter may be slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define, field

from cognition.base.errors import ConfigError
from cognition.steps.retry import classify
from cognition.values.messages import Usage
from cognition.values.outcomes import Completed, Failed
from interpreters.observing._surrounding import Context, Surrounding
from interpreters.observing.events import (
    CallTool,
    CancelEffect,
    Event,
    FellBack,
    LimitHit,
    ModelCalled,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    RetryPlanned,
    SessionClosed,
    SpawnWorker,
    ToolFailed,
    ToolReturned,
    TurnFinished,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
    worker_session,
)
from runtime.models.installation import install_line

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.trace import Span, TracerProvider

    from cognition.steps.decisions import Effect


BEGINNINGS = (UserSpoke, ModelCalled, CallTool, SpawnWorker)
"""Events that make a session known. It is known until its turn ends."""


class Names:
    """Names from the conventions for generative AI, as of October 2026."""

    OPERATION = "gen_ai.operation.name"
    PROVIDER = "gen_ai.provider.name"
    MODEL = "gen_ai.request.model"
    AGENT = "gen_ai.agent.name"
    CONVERSATION = "gen_ai.conversation.id"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
    FINISH_REASONS = "gen_ai.response.finish_reasons"
    TOOL = "gen_ai.tool.name"
    TOOL_CALL = "gen_ai.tool.call.id"
    TOOL_TYPE = "gen_ai.tool.type"
    ERROR = "error.type"
    CHAT, INVOKE_AGENT, EXECUTE_TOOL = "chat", "invoke_agent", "execute_tool"


@define
class _SessionSpans:
    """The open spans of one session."""

    now: int
    """Time of the newest input, in nanoseconds since the epoch."""
    turn: Span | None = None
    """For a worker: the span of the call that spawned it. Its parent's session ends that span."""
    worker: bool = False
    step: Span | None = None
    number: int = 0
    open: dict[str, Span] = field(factory=dict)
    """Open spans by effect id."""
    ends: deque[Callable[[], object]] = field(factory=deque)
    """End the spans that are over, at the next delivered event. A worker shares them with its parent."""


@define
class _CurrentSpan:
    """Makes a span the current one of this thread or task; None: changes nothing."""

    span: Span | None
    _token: Token[Any] | None = field(default=None, init=False)

    def __enter__(self) -> None:
        if self.span is not None:
            from opentelemetry import context, trace

            self._token = context.attach(trace.set_span_in_context(self.span))

    def __exit__(self, *_error: object) -> None:
        if self._token is not None:
            from opentelemetry import context

            context.detach(self._token)


class Tracing(Surrounding):
    """An observer that makes spans, and sets the current span of tools, workers and model calls.

    It may observe any number of sessions, including their workers.

    Args:
        provider: receives the spans; None for OpenTelemetry's global provider.
        agent: the agent's name, for display.
        model: the name of the agent's own model. Other models have the names that the agent uses for them.
        system: the provider of the model, such as ``openai`` or ``llama.cpp``.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """

    def __init__(
        self, provider: TracerProvider | None = None, *, agent: str = "", model: str = "", system: str = ""
    ) -> None:
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise ConfigError(f"spans need OpenTelemetry's interface: {install_line('otel')}") from error
        self._trace = trace
        self._tracer = trace.get_tracer("cogstep", tracer_provider=provider)
        self._agent, self._model, self._system = agent, model, system
        self._sessions: dict[str, _SessionSpans] = {}
        self._workers: dict[str, tuple[Span, _SessionSpans]] = {}
        """Spans of running workers and the sessions that spawned them, by the worker's session name."""

    def __call__(self, event: Event) -> None:
        noted: Any = next((note for observer, note in event.begun if observer is self), None)
        if noted is None:
            session = self._sessions.get(event.session)
            self._take(event)
            session = session or self._sessions.get(event.session)
        else:
            _, session = noted
        if session is not None:
            _end_spans(session.ends)

    def begin(self, event: Event) -> Callable[[], Context]:
        noted: Any = next((note for observer, note in event.begun if observer is self), None)
        if noted is None:
            session = self._sessions.get(event.session)
            before = None if isinstance(event.value, BEGINNINGS) else self._span_of(session, event)
            self._take(event)
            session = session or self._sessions.get(event.session)
            noted = before or self._span_of(session, event), session
            event.note_begun(self, noted)
        return partial(_CurrentSpan, noted[0])

    def within(self, session: str, effect: Effect | None) -> Context:
        spans = self._sessions.get(session)
        if spans is None and (spawned := self._workers.get(session)) is not None:
            spans = self._sessions.setdefault(session, _spans_of_worker(*spawned))
        if spans is None:
            return _CurrentSpan(None)
        found = None if effect is None else spans.open.get(effect.effect_id)
        if found is None and isinstance(effect, CallTool):  # of a worker in a host: its event comes another way
            found = self._begin_call(session, spans, effect)
        return _CurrentSpan(found or spans.step or spans.turn)

    def _span_of(self, session: _SessionSpans | None, event: Event) -> Span | None:
        """Return the span of an event's effect; for others, the innermost one of the session."""
        if session is None:
            return None
        return session.open.get(getattr(event.value, "effect_id", "")) or session.step or session.turn

    def _take(self, event: Event) -> None:
        value = event.value
        if (session := self._sessions.get(event.session)) is None:
            if not isinstance(value, BEGINNINGS):
                return
            session = self._sessions[event.session] = _SessionSpans(0)
        at = getattr(value, "at", 0.0)
        if at > 0.0:
            session.now = max(session.now, int(at * 1e9))
        match value:
            case UserSpoke():
                self._begin_turn(event, session)
            case ModelCalled():
                self._call_model(event, session, value)
            case CallTool():
                self._begin_call(event.session, session, value)
            case SpawnWorker(effect_id=effect_id, worker=worker):
                named = {Names.AGENT: worker.name}
                span = self._begin(event.session, session, effect_id, Names.INVOKE_AGENT, worker.name, named)
                self._workers[worker_session(event.session, value)] = span, session
            case ModelReplied(effect_id=effect_id, usage=usage, finish_reason=reason):
                self._end(session, effect_id, {**_usage_attributes(usage), Names.FINISH_REASONS: [reason]})
            case ModelFailed(effect_id=effect_id, usage=usage, failure=failure):
                self._end(session, effect_id, _usage_attributes(usage), classify(failure))
            case ModelInterrupted(effect_id=effect_id, usage=usage):
                self._end(session, effect_id, _usage_attributes(usage), "cancelled")
            case ToolReturned(effect_id=effect_id):
                self._end(session, effect_id)
            case ToolFailed(effect_id=effect_id):
                self._end(session, effect_id, error=type(event.error).__name__ if event.error else "tool_error")
            case WorkerFinished(effect_id=effect_id, usage=usage):
                self._end(session, effect_id, _usage_attributes(usage))
            case WorkerFailed(effect_id=effect_id) | WorkerStalled(effect_id=effect_id):
                self._end(session, effect_id, error=value.tag)
            case CancelEffect(effect_id=effect_id):
                self._end(session, effect_id, error="cancelled")
            case RetryPlanned(kind=kind, attempt=attempt):
                self._note(session, "retry", {Names.ERROR: kind, "cogstep.attempt": attempt})
            case FellBack(model=model, to=to, kind=kind):
                self._note(session, "fallback", {Names.ERROR: kind, "cogstep.from": model, "cogstep.to": to})
            case LimitHit(limit=limit):
                self._note(session, "limit", {"cogstep.limit": limit})
            case TurnFinished():
                self._end_turn(session, value)
                self._leave(event.session)
            case SessionClosed():
                self._leave(event.session)
            case _:
                pass

    def close(self) -> None:
        """End the spans of unfinished turns."""
        for name, session in list(self._sessions.items()):
            self._leave(name)
            _end_spans(session.ends)

    def _begin_turn(self, event: Event, session: _SessionSpans) -> None:
        if (spawned := self._workers.get(event.session)) is not None:
            session.turn, session.worker, session.ends = spawned[0], True, spawned[1].ends
            return
        self._give_up(session)
        attributes: dict[str, Any] = {Names.OPERATION: Names.INVOKE_AGENT, Names.CONVERSATION: event.session}
        attributes["cogstep.turn"] = event.turn
        about = {Names.AGENT: self._agent, Names.PROVIDER: self._system, Names.MODEL: self._model}
        attributes |= {key: value for key, value in about.items() if value}
        session.turn = self._start(session, f"{Names.INVOKE_AGENT} {self._agent}".rstrip(), attributes, None)

    def _call_model(self, event: Event, session: _SessionSpans, called: ModelCalled) -> None:
        if session.step is None or session.number != event.step:
            self._end_span(session, session.step)
            session.number = event.step
            session.step = self._start(session, f"step {event.step}", {"cogstep.step": event.step}, session.turn)
        model = called.model or self._model
        named = {Names.MODEL: model} if model else {}
        if self._system and not called.model:
            named[Names.PROVIDER] = self._system
        own = {"cogstep.purpose": called.purpose, "cogstep.messages": called.messages, "cogstep.attempt": event.attempt}
        self._begin(event.session, session, called.effect_id, Names.CHAT, model, {**named, **own})

    def _begin_call(self, name: str, session: _SessionSpans, effect: CallTool) -> Span:
        call = effect.call
        named = {Names.TOOL: call.name, Names.TOOL_CALL: call.id, Names.TOOL_TYPE: "function"}
        return self._begin(name, session, effect.effect_id, Names.EXECUTE_TOOL, call.name, named)

    def _begin(
        self, session_name: str, session: _SessionSpans, effect_id: str, operation: str, name: str, own: dict[str, Any]
    ) -> Span:
        if (begun := session.open.get(effect_id)) is not None:
            return begun
        attributes = {Names.OPERATION: operation, Names.CONVERSATION: session_name, **own}
        span = self._start(session, f"{operation} {name}".rstrip(), attributes, session.step or session.turn)
        return session.open.setdefault(effect_id, span)  # of two threads, the first counts

    def _start(self, session: _SessionSpans, name: str, attributes: dict[str, Any], parent: Span | None) -> Span:
        kinds = self._trace.SpanKind
        kind = kinds.CLIENT if attributes.get(Names.OPERATION) == Names.CHAT else kinds.INTERNAL
        within = None if parent is None else self._trace.set_span_in_context(parent)
        return self._tracer.start_span(name, within, kind, attributes, start_time=session.now or None)

    def _end(self, session: _SessionSpans, effect_id: str, more: dict[str, Any] | None = None, error: str = "") -> None:
        if (span := session.open.pop(effect_id, None)) is not None:
            span.set_attributes(more or {})
            self._end_span(session, span, error)

    def _end_span(self, session: _SessionSpans, span: Span | None, error: str = "") -> None:
        if span is None:
            return
        if error:
            span.set_attribute(Names.ERROR, error)
            span.set_status(self._trace.StatusCode.ERROR)
        session.ends.append(partial(span.end, session.now or None))

    def _note(self, session: _SessionSpans, name: str, attributes: dict[str, Any]) -> None:
        span = session.step or session.turn
        if span is not None:
            span.add_event(name, attributes, session.now or None)

    def _end_turn(self, session: _SessionSpans, finished: TurnFinished) -> None:
        outcome = finished.outcome
        if session.turn is not None and session.turn.is_recording():
            session.turn.set_attributes({**_usage_attributes(finished.usage), "cogstep.outcome": outcome.tag})
        error = outcome.kind if isinstance(outcome, Failed) else "" if isinstance(outcome, Completed) else outcome.tag
        self._give_up(session, error)

    def _give_up(self, session: _SessionSpans, error: str = "") -> None:
        for effect_id in list(session.open):
            self._end(session, effect_id, error="cancelled")
        self._end_span(session, session.step)
        if not session.worker:
            self._end_span(session, session.turn, error)
        session.turn = session.step = None

    def _leave(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        for worker in [one for one in self._workers if one == name or one.startswith(f"{name}/")]:
            self._workers.pop(worker, None)  # also of one that never came to its turn
            if worker != name and (left := self._sessions.pop(worker, None)) is not None:
                self._give_up(left)
        if session is not None:
            self._give_up(session)


def _spans_of_worker(span: Span, parent: _SessionSpans) -> _SessionSpans:
    return _SessionSpans(parent.now, span, True, ends=parent.ends)


def _end_spans(ends: deque[Callable[[], object]]) -> None:
    while ends:
        try:
            end = ends.popleft()
        except IndexError:  # another thread was faster
            return
        end()


def _usage_attributes(usage: Usage) -> dict[str, Any]:
    if usage == Usage():
        return {}
    used: dict[str, Any] = {Names.INPUT_TOKENS: usage.input_tokens, Names.OUTPUT_TOKENS: usage.output_tokens}
    if usage.reused_tokens:
        used[Names.CACHED_TOKENS] = usage.reused_tokens
    if usage.cost:
        used["cogstep.cost"] = usage.cost
    return used

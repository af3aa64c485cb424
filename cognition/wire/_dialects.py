"""Encodes a request for a server's API, and reads its reply as it arrives: a pure function over (plan, state, bytes),
and an object that holds the state.

Joined in order, the outputs are the same for every chunking of the bytes. No bytes raise: unreadable bytes, an error
reported by the server, and a connection that ended early become the reply's failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from cognition.parsing.outputs import Output
from cognition.parsing.rope import join_pieces
from cognition.steps.requests import ModelRequest
from cognition.values.messages import Usage
from cognition.values.outcomes import Failure, FinishReason
from cognition.wire import (
    _anthropic as anthropic,
    _ollama as ollama,
    _openai_chat as openai_chat,
    _responses as responses,
)
from cognition.wire._conversation import continuation_of
from cognition.wire._errors import failure_in
from cognition.wire._fields import BadOutputError, Object, object_of, without_halves
from cognition.wire._inline_markup import MarkupPlan, MarkupState, finish_markup, initial_state, markup_plan, read
from cognition.wire._lines import LONGEST_LINE, Event, Events, EventState, Lines, LineState
from cognition.wire._names import Names, names_of
from cognition.wire._quirks import DEFAULTS, Dialect, Quirks
from cognition.wire._replies import ReplyBuilder, ReplyState, WireReply
from cognition.wire._request_builder import RequestBuilder, UnsupportedRequestError, WireRequest

Outputs = tuple[Output, ...]

ENCODERS: Mapping[Dialect, Callable[[RequestBuilder], WireRequest]] = {
    "openai": openai_chat.encode,
    "responses": responses.encode,
    "anthropic": anthropic.encode,
    "ollama": ollama.encode,
}
READERS: Mapping[Dialect, Callable[[ReplyBuilder, Object], None]] = {
    "openai": openai_chat.read,
    "responses": responses.read,
    "anthropic": anthropic.read,
    "ollama": ollama.read,
}

FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
}
"""The finish reasons of servers. Any other word counts as ``stop``, with a warning."""

REFUSED: Mapping[str, Failure] = {
    "content_filter": Failure("the provider's content filter stopped the reply", "fatal", code="content_filter"),
    "refusal": Failure("the provider stopped the reply: the model refused to go on", "fatal", code="refusal"),
    "error": Failure("the server stopped the reply with an error", "transient", code="error"),
    "insufficient_system_resource": Failure(
        "the server stopped the reply for want of resources", "transient", code="insufficient_system_resource"
    ),
}
"""Finish reasons that make the reply a failure: its text is not the answer."""

BROKE_OFF = Failure("the connection ended before the reply did", "transient", code="incomplete_stream")
GIVEN_UP = Failure("the server gave the reply up, as for another request", "transient", code="incomplete_stream")
REFUSED_SILENTLY = Failure(
    "the server ended the reply without a word, as it does where a prompt is longer than its context",
    "context_overflow",
    code="empty_stream",
)
NOTHING_CAME = Failure("the server ended the reply before anything had come", "transient", code="empty_stream")

MOST_STRAY = 1 << 16
"""Bytes buffered before the first event if they are not events. They may be an error in plain JSON."""


def encode(
    dialect: Dialect, request: ModelRequest, model: str, *, stream: bool = True, quirks: Quirks | None = None
) -> WireRequest:
    """Return the HTTP request. Equal model requests always give equal HTTP requests.

    Args:
        dialect: the wire format.
        request: the model request.
        model: the model's name, as the server knows it.
        stream: whether to ask for the reply as a stream.
        quirks: the features that the server accepts, one of ``QUIRKS``; None: the quirks of the format's own server.

    Raises:
        UnsayableError: the server can't process this request, for example an image without image support.
    """
    try:
        return ENCODERS[dialect](RequestBuilder(request, quirks or DEFAULTS[dialect], model, stream))
    except RecursionError:
        failure = Failure("the conversation holds JSON that is nested too deeply to be sent", "fatal")
        raise UnsupportedRequestError(failure) from None


@frozen
class WirePlan:
    """All inputs for reading a reply, apart from its bytes."""

    dialect: Dialect
    names: Names
    model: str = ""
    blank_behind_thoughts: bool = False
    """See ``Quirks``, also for ``says_why`` and ``refuses_silently``."""
    cut_at: int | None = None
    """For a server that does not report truncation: the output tokens at which a reply counts as truncated. None: the
    server reports it, or there is no limit.
    """
    says_why: bool = False
    refuses_silently: bool = False
    markup: MarkupPlan | None = None
    """How to parse the text of a server that leaves reasoning and calls in it, or may do so."""


@frozen
class WireState:
    """A reply between two pieces of its bytes."""

    lines: LineState = LineState()
    event: EventState = EventState()
    reply: ReplyState = ReplyState()
    stray: tuple[bytes, ...] = ()
    events: bool = False
    written: MarkupState | None = None
    """The state of parsing the reply's text, if the plan asks for it and text has come."""


def plan_of(dialect: Dialect, request: ModelRequest, quirks: Quirks | None = None, *, model: str = "") -> WirePlan:
    """Return the plan for reading the reply to a request. Encode the request with the same quirks, for the
    same model.
    """
    held = quirks or DEFAULTS[dialect]
    cut_at = None if held.tells_cuts else request.options.max_tokens
    names = names_of(request, held)
    markup = None if held.format is None and dialect != "openai" else markup_plan(held.format, names, request)
    return WirePlan(
        dialect, names, model, held.blank_behind_thoughts, cut_at, held.says_why, held.refuses_silently, markup
    )


def advance(plan: WirePlan, state: WireState, data: bytes) -> tuple[WireState, Outputs]:
    """Read the next bytes of a reply. Accepts any bytes and never raises."""
    run = DecoderRun(plan, state)
    outputs = run.feed(data)
    return run.state, outputs


def finish(plan: WirePlan, state: WireState, cut: Failure | None = None) -> WireReply:
    """Return the reply after its last bytes. ``cut``: see ``Decoder.finish``."""
    return DecoderRun(plan, state).finish(cut)


class DecoderRun:
    """A reply being read. It changes in place, for speed; its ``state`` is frozen."""

    def __init__(self, plan: WirePlan, state: WireState = WireState()) -> None:
        self.plan: WirePlan = plan
        self._read = READERS[plan.dialect]
        self._lines = Lines(state.lines)
        self._events = Events(state.event)
        self._reply = ReplyBuilder.of(plan.names, state.reply, plan.blank_behind_thoughts)
        self._stray = list(state.stray)
        self._room = MOST_STRAY - sum(len(line) + 1 for line in state.stray)
        self._any = state.events
        self._markup = plan.markup
        self._written = state.written
        self._by_line = plan.dialect == "ollama"

    @property
    def state(self) -> WireState:
        """The state of the reading; ``advance`` and ``finish`` continue from it."""
        return WireState(
            self._lines.state, self._events.state, self._reply.state, tuple(self._stray), self._any, self._written
        )

    @property
    def over(self) -> bool:
        """Whether the reply has ended or failed: further bytes are ignored."""
        return self._reply.ended or self._reply.failure is not None

    def feed(self, data: bytes) -> Outputs:
        """Read the next bytes of the body. Joined, the outputs are the same for any chunking. Never raises."""
        if self.over:
            return ()
        lines, too_long = self._lines.feed(data)
        for line in lines:
            self._line(line)
        if too_long or self._events.too_long:
            self._fail(f"the server sent a line of more than {LONGEST_LINE} bytes")
        return self._take_outputs()

    def finish(self, cut: Failure | None = None) -> WireReply:
        """Return the reply, after its last bytes.

        Args:
            cut: why the caller ended the connection early, if it did. It becomes the reply's failure, unless the reply
                was already complete or the server had reported its own failure. Without it, an incomplete reply is a
                failure of the kind ``transient``.
        """
        reply = self._reply
        if not self.over:  # a last line without an end counts if it is a whole object
            if rest := self._lines.rest():
                self._line(rest, last=True)
            if not self._by_line and (event := self._events.end()) and not self.over:
                self._event(event, last=True)
        if not self.over and not self._any:
            self._read_stray()
        if self.plan.refuses_silently and not self._any and cut is None:
            reply.fail(REFUSED_SILENTLY)
        return finish_reply(self.plan, reply, cut, self._written)

    # ------------------------------------------------------------------------------------------------------ events

    def _line(self, line: bytes, *, last: bool = False) -> None:
        if self.over:
            return
        if self._by_line:
            text = line.decode("utf-8", "replace")
            if text.strip():
                self._event(Event(text), last=last)
            return
        event, known = self._events.read(line)
        if event is not None:
            self._event(event, last=last)
        elif not known and not self._any and self._room > 0:
            self._stray.append(line)
            self._room -= len(line) + 1

    def _event(self, event: Event, *, last: bool = False) -> None:
        """Read an event. The ``last`` event may be truncated, and is then skipped if unreadable."""
        self._any = True
        reply = self._reply
        data = event.data.strip()
        if not data or data == openai_chat.DONE:
            reply.ended = data == openai_chat.DONE
            return
        try:
            value = object_of(data)
            last, reply.source = False, data  # it is not truncated
            if event.kind == "error" and not value.get("error"):
                reply.fail(failure_in(value))
            else:
                self._read(reply, value)
        except BadOutputError as error:
            if not last:
                self._fail(str(error))

    def _read_stray(self) -> None:
        """Read bytes that came instead of events: an error in plain JSON, or useless bytes."""
        text = b"\n".join(self._stray).decode("utf-8", "replace").strip()
        if text.startswith("{"):
            self._any = True
            read_object(self.plan.dialect, self._reply, text)

    def _fail(self, message: str) -> None:
        self._reply.fail(Failure(message, "bad_output"))

    def _take_outputs(self) -> Outputs:
        outputs = self._reply.outputs
        if not outputs:
            return ()
        self._reply.outputs = []
        if self._markup is None:
            return tuple(outputs)
        self._written, told = read(self._markup, self._written or initial_state(self._markup), outputs)
        return told


def read_object(dialect: Dialect, reply: ReplyBuilder, text: str) -> None:
    """Read a text that is one JSON object. Any other text becomes the reply's failure."""
    try:
        value = object_of(text)
        reply.source = text
        READERS[dialect](reply, value)
    except BadOutputError as error:
        reply.fail(Failure(str(error), "bad_output"))


def finish_reply(
    plan: WirePlan, reply: ReplyBuilder, cut: Failure | None = None, written: MarkupState | None = None
) -> WireReply:
    """Return the finished reply: with the server's finish reason, or else as a failure."""
    reason: FinishReason = "stop"
    if reply.reason:
        refused = REFUSED.get(reply.reason)
        if refused is not None:
            reply.fail(refused)
        if reply.reason not in FINISH_REASONS and refused is None:
            reply.warn(f"the server ended the reply for a reason that is not known, {reply.reason[:40]!r}")
        reason = FINISH_REASONS.get(reply.reason, "stop")
        if plan.cut_at is not None and reply.usage is not None and reply.usage.output_tokens >= plan.cut_at:
            reason = "length"
    elif not reply.ended:
        reply.fail(cut or BROKE_OFF)
    elif plan.says_why:
        reply.fail(GIVEN_UP)
    elif not (reply.text or reply.reasoning or reply.calls):
        reply.fail(NOTHING_CAME)
    else:
        reply.warn("the server did not say why the reply ended")
    if reply.failure is None and not reply.ended and reply.usage is None and cut is not None:
        reply.warn("the connection was cut behind the reply: what it used is not known")
    calls, malformed = reply.close(cut=reason == "length")
    if reply.failure is not None:
        reason = "error"
    elif reason != "length":
        reason = "tool_calls" if calls else reason if malformed else "stop"
    whole = WireReply(
        join_pieces(reply.text),
        join_pieces(reply.reasoning),
        calls,
        malformed,
        reason,
        reply.usage or Usage(),
        reply.failure,
        reply.warnings,
        without_halves(reply.model),
        without_halves(reply.response_id),
        continuation_of(plan.dialect, plan.model or reply.model, reply.parts_to_send),
        tuple(reply.outputs),
    )
    return whole if plan.markup is None else finish_markup(plan.markup, written or initial_state(plan.markup), whole)


class Decoder(DecoderRun):
    """Reads one reply that arrives in pieces."""

    def __init__(
        self, dialect: Dialect, request: ModelRequest, quirks: Quirks | None = None, *, model: str = ""
    ) -> None:
        """Create a decoder with the same arguments as ``encode``.

        Without ``model``, ``continuation`` names the model as the server does.
        """
        super().__init__(plan_of(dialect, request, quirks, model=model))


def decode_body(
    dialect: Dialect, request: ModelRequest, body: bytes, quirks: Quirks | None = None, *, model: str = ""
) -> WireReply:
    """Decode an answer that is not a stream. Its ``outputs`` are all that a stream of it would give.

    Args:
        dialect: as for ``Decoder``; also ``request``, ``quirks`` and ``model``.
        body: the whole body.
    """
    plan = plan_of(dialect, request, quirks, model=model)
    reply = ReplyBuilder.of(plan.names, ReplyState(), plan.blank_behind_thoughts)
    if len(body) > LONGEST_LINE:
        reply.fail(Failure(f"the server sent a body of more than {LONGEST_LINE} bytes", "bad_output"))
    else:
        read_object(dialect, reply, body.decode("utf-8", "replace").removeprefix("\ufeff"))
    return finish_reply(plan, reply)

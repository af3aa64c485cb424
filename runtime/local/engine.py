"""The engine of every local model: many concurrent replies, from requests to ``Done``.

    ModelRequest ─ template ─▶ text ─ tokenise ─▶ Schedule ─ admit, compose ─▶ batch ─ evaluate ─┐
                                                     ▲                                           ▼
    Done ◀─ RunningReply ◀───────────────────────────┴──────────────── a token each ◀─ sample ───┘

Everything here runs on the owner's thread; callers use ``runtime.local.handles``. The plan is in
``runtime.scheduling``, and ``docs/concepts/scheduler.md`` describes how the parts work together.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

from attrs import evolve

from cognition import Failure, FinishReason, History, ModelRequest, UserMessage
from cognition.parsing import FormatSpec, Output, Parser
from runtime.constrained.guide import Guide, GuideFactory
from runtime.constrained.masks import TokenMasks, is_installed
from runtime.errors import ConstraintError, TemplateError
from runtime.local._admission_queue import READY, AdmissionQueue, Pace
from runtime.local._running_reply import NO_TOKEN, SHOWN_EVERY, RunningReply, failure_of
from runtime.models.saved_cache import SavedPrefix
from runtime.protocol.backend import BackendError, InferenceBackend, StateBackend
from runtime.protocol.done import done_of
from runtime.protocol.model import Done, ModelInfo
from runtime.scheduling.cache import Cache
from runtime.scheduling.plan import (
    BatchPiece,
    Change,
    Copy,
    Cut,
    Drop,
    Request,
    Schedule,
    admit,
    adopt,
    compose,
    cut,
    keep,
    longest_held,
    take_back,
)
from runtime.scheduling.reservation import AT_FIRST, evict, grow, is_any_reply_held, remaining_tokens, youngest
from runtime.scheduling.tokens import Tokens, common_prefix
from runtime.templates.limits import check_source, one_allowance
from runtime.templates.markers import Markers, control_texts, format_markers
from runtime.templates.prompt_tokens import PromptTokenizer
from runtime.templates.template import FALLBACK_TEMPLATE, ChatTemplate, RenderedPrompt

OTHER = History((UserMessage("m1", "…"),))
"""A conversation that shares no prefix with any other."""


class PrefixBoundaries:
    """Finds the lengths of prompt prefixes of one model that other prompts are likely to share.

    A cache that cannot be cut, as of a recurrent or hybrid model, is reusable only at such a length, so snapshots are
    taken there: at the end of system prompt and tools, which agents of one kind share, and at the end of the last
    message. After it, the template may write the reply differently from the model, above all without its reasoning.

    Args:
        template: the model's.
        tokens: tokenizes a rendered prompt.
    """

    def __init__(self, template: ChatTemplate, tokens: Callable[[RenderedPrompt], list[int]]) -> None:
        self._template = template
        self._tokens = tokens
        self._asked: ModelRequest | None = None
        self._other: list[int] = []
        """The newest request's prompt with ``OTHER`` as its conversation."""

    def of(self, request: ModelRequest, prompt: list[int]) -> tuple[int, ...]:
        """Return prefix lengths of a prompt, ascending, each greater than 0 and less than its length."""
        other = evolve(request, messages=OTHER)
        if other != self._asked:
            self._asked, self._other = other, self._render(other, open_reply=True)
        closed = self._render(request, open_reply=False)
        ends = {common_prefix(prompt, self._other), min(common_prefix(prompt, closed), len(prompt) - 1)}
        return tuple(sorted(end for end in ends if 0 < end < len(prompt)))

    def _render(self, request: ModelRequest, *, open_reply: bool) -> list[int]:
        try:
            return self._tokens(self._template.render(request, open_reply=open_reply))
        except TemplateError:  # it refuses this form of the conversation, though not the request's own
            return []


LONG_TEXT = 32
"""Characters per token that few texts exceed. A text with more for each token of the context rarely fits, and
tokenising ten million characters can take a minute. So only the beginning of such a text is tokenised first.
"""

EMPTY = Failure("the prompt is empty: the template writes nothing for these messages", kind="fatal")

FULL = "the reply was cut where it filled the whole cache by itself; give the model more cells"
"""Warning of a reply without a token limit that filled the cache alone."""


class LocalEngine:
    """One model and its replies in progress."""

    def __init__(self, backend: InferenceBackend, format: FormatSpec | None = None) -> None:
        metadata = backend.metadata
        self._backend = backend
        source = FALLBACK_TEMPLATE if metadata.template is None else metadata.template
        check_source(source, metadata.bos_text, metadata.eos_text)
        check_source(metadata.plain_template or "")
        written = source + (metadata.plain_template or "")
        markers = Markers(control_texts(backend.special, written), written, backend.special.spelled)
        self._template = ChatTemplate(
            source,
            without_tools=metadata.plain_template,
            bos_token=metadata.bos_text,
            eos_token=metadata.eos_text,
            markers=markers,
            format=format,
        )
        prompts = PromptTokenizer(backend, markers)
        self._tokens, self._content_tokens = prompts.tokens, prompts.content_tokens
        self._format_markers = format_markers(backend.special, written)
        self._boundaries = PrefixBoundaries(self._template, self._tokens)
        self._guides: GuideFactory | None = None
        self._schedule = Schedule(backend.limits)
        self._admission = AdmissionQueue()
        self._pace = Pace()
        self._replies: dict[int, RunningReply] = {}
        self._numbers = count(1)
        self._computing: list[RunningReply] = []
        self._interrupted = False
        """Whether a reply was cancelled since the step began, so that ``stopped`` must be checked."""
        # Between the owner's thread and those that interrupt it. A garbage collection may close a runtime in the middle
        # of anything, so it may be taken twice by one thread.
        self._lock = threading.RLock()
        self.info: ModelInfo = self._describe()

    def _describe(self) -> ModelInfo:
        metadata = self._backend.metadata
        warnings = list(metadata.warnings)
        if metadata.template is None:
            warnings.append("the model has no chat template: a documented fallback is used (ChatML, Hermes tool calls)")
        warnings += self._template.warnings
        features = self._template.features
        spec = self._template.format_spec()
        if spec.calls is not None:
            if is_installed():
                features = (*features, "constrained_calls")
            else:
                warnings.append(
                    "calls are not constrained: pip install llguidance, which the extras llama and mlx hold"
                )
        if self._backend.limits.can_cut:
            features = (*features, "prefix_reuse")
        elif self._backend.limits.sequences > 1:
            features = (*features, "snapshots")
        else:
            warnings.append(
                "the model's cache can't be cut: a prompt that changes earlier text is computed from its start"
            )
        if isinstance(self._backend, StateBackend):
            features = (*features, "saved_cache")
        return ModelInfo(
            name=metadata.name,
            backend=metadata.backend,
            path=metadata.path,
            context_tokens=metadata.context_tokens,
            format=self._template.format_spec(),
            features=features,
            warnings=tuple(warnings),
            weight_bytes=metadata.weight_bytes,
            backend_version=metadata.backend_version,
            sampling=metadata.sampling,
        )

    def prompt(self, request: ModelRequest) -> list[int]:
        """Return the tokens of a request's prompt.

        Raises:
            TemplateError: the template rejects the messages.
        """
        return self._tokens(self._template.render(request))

    def count_texts(self, texts: Sequence[str]) -> tuple[int, ...]:
        """Return the token count of each text as content of a prompt.

        Raises:
            TemplateError: a text has a character that this vocabulary can only write as a marker.
        """
        return tuple([len(self._content_tokens(text)) for text in texts])

    def submit(
        self,
        request: ModelRequest,
        *,
        emit: Callable[[Output], None],
        finish: Callable[[Done], None],
        stopped: Callable[[], bool],
        submitted: float,
        owner: int = 0,
    ) -> None:
        """Accept a request; ``step`` generates its reply. Never raises: failures are in the ``Done``.

        Args:
            request: the request.
            emit: receives each output.
            finish: receives the ``Done``, once.
            stopped: called on any thread; True ends the reply as cancelled. After it becomes true, call ``interrupt``.
            submitted: when the caller submitted it, on the monotonic clock.
            owner: the owner of the request: owners take turns.
        """
        try:
            parser = Parser(self._template.format_spec(), ())  # for one that is never prepared; tools take long
            reply = RunningReply(request, stopped, emit, finish, submitted, parser)
            if not self._admission and self._pace.open and len(self._schedule.waiting) < READY and not stopped():
                with self._pace:  # its turn comes now in any case
                    self._prepare(owner, reply)
            else:
                self._admission.put(owner, reply)
                self._prepare_next()
        except BaseException as error:  # the caller has to hear of it, and the thread to go on
            finish(done_of((), "error", Failure(f"{type(error).__name__}: {error}", kind="fatal")))

    def _prepare_next(self) -> None:
        """Prepare requests that may begin soon; the pace limits this between two batches."""
        ready = Counter(request.owner for request in self._schedule.waiting)
        while self._pace.open and (taken := self._admission.take(ready)) is not None:
            owner, reply = taken
            if reply.stopped():
                reply.end("cancelled")
            else:
                with self._pace:
                    ready[owner] += self._prepare(owner, reply)

    def _prepare(self, owner: int, reply: RunningReply) -> bool:
        """Prepare a request and schedule it; return False if it has already ended.

        This renders and tokenizes the prompt, and creates the parser, the guide and the boundaries.
        """
        limits, context = self._backend.limits, self._backend.metadata.context_tokens
        try:
            with one_allowance():  # for all renderings of a step
                rendered = self._template.render(reply.request)
                reply.warnings = rendered.warnings
                failure = far_too_long(self._backend, rendered.text)
                if failure is None:
                    reply.prompt = self._tokens(rendered)
                    failure = unfit(len(reply.prompt), context)
                if failure is None:
                    reply.parser = Parser(rendered.format, reply.request.tools)
                    reply.guide = self._guide(rendered.format, reply.request)
                    control = self._backend.special.control
                    reply.end_tokens = frozenset(control[stop] for stop in rendered.format.stops if stop in control)
                    if not limits.can_cut:
                        reply.boundaries = self._boundaries.of(reply.request, reply.prompt)
        except Exception as error:
            failure = failure_of(error)
        if failure is not None:
            reply.end("error", failure)
            return False
        length = len(reply.prompt)
        wanted, room = reply.request.options.max_tokens, context - length
        reply.limit = room if wanted is None else min(wanted, room)
        number = next(self._numbers)
        self._replies[number] = reply
        longest = length + reply.limit - 1  # the last token of a reply is not evaluated
        most = longest if wanted is not None else min(longest, length + AT_FIRST)
        request = Request(number, Tokens(reply.prompt), most, reply.boundaries, owner, longest)
        self._schedule = self._schedule.submit(request)
        return True

    def step(self, wanted: Callable[[], bool] = lambda: True) -> bool:
        """Evaluate a batch; return False if there is no more work. Never raises.

        Args:
            wanted: whether the thread has other work. While it returns False and there is nothing to plan, one step
                evaluates batch after batch; it is called before each.
        """
        try:
            if self._interrupted:
                self._interrupted = False  # before it is asked: who comes later is seen later
                for dropped in self._admission.drop_stopped():
                    dropped.end("cancelled")
            self._end_stopped()
            if self._admission:
                self._prepare_next()
            self._schedule, drops = grow(self._schedule)
            for drop in drops:
                self._change(drop)
            if not is_any_reply_held(self._schedule):
                self._admit()
            guesses = (self._guesses(),) if self._backend.limits.guesses else ()
            batch = compose(self._schedule, *guesses)
            if not batch and (number := youngest(self._schedule)) is not None:  # there is no room for any of them
                if len(self._schedule.running) > 1:
                    self._schedule = evict(self._schedule, number)  # its state stays as it is: it only waits
                else:
                    self._replies[number].warnings += (FULL,)
                    self._end(number, "length")
            if batch and self._evaluate(batch):
                self._schedule = self._schedule.record_batch(batch)
                self._keep()
                sampled = self._sample(batch)
                self._schedule = self._schedule.record_tokens(sampled)
                if self._backend.limits.guesses:
                    self._take_back()
                elif sampled and len(sampled) == len(self._schedule.running):
                    held_up = self._admission and not self._pace.open
                    if not held_up and not wanted():
                        self._append_while_unchanged(wanted)
        except Exception as error:
            self._fail(error)
        self._pace.next_round(busy=bool(self._schedule.running))
        return bool(self._replies or self._admission)

    def identity(self) -> Mapping[str, str]:
        """Return everything that a saved state of the cache depends on.

        Raises:
            BackendError: the backend cannot save states.
        """
        return self._state_backend().identity()

    def save(self, request: ModelRequest) -> SavedPrefix | None:
        """Return the cached prefix of a request's prompt, or None if none is cached.

        Raises:
            TemplateError: the template rejects the messages.
            BackendError: the backend cannot save states.
        """
        backend, prompt = self._state_backend(), self.prompt(request)
        source, length = longest_held(self._schedule, Tokens([*prompt, NO_TOKEN]))  # of a prompt, the last is left out
        if source is None:
            return None
        return SavedPrefix(tuple(prompt[:length]), backend.state(source, length), backend.identity())

    def restore(self, saved: SavedPrefix) -> bool:
        """Put a saved state into the cache; return False if running replies leave no room for it.

        Raises:
            BackendError: the backend rejects it.
        """
        backend, tokens = self._state_backend(), Tokens(saved.tokens)
        if longest_held(self._schedule, tokens.extend((NO_TOKEN,)))[1] == len(tokens):
            return True  # it is there already
        adopted = adopt(self._schedule, tokens)
        if adopted is None:
            return False
        after, sequence, drops = adopted
        for drop in drops:
            self._change(drop)
            self._schedule = self._schedule.record_loss(drop.sequence)
        backend.restore(sequence, len(tokens), saved.state)
        self._schedule = after
        return True

    def _state_backend(self) -> StateBackend:
        if not isinstance(self._backend, StateBackend):
            raise BackendError(f"{self.info.backend} can't save what its cache holds")
        return self._backend

    def interrupt(self) -> None:
        """Check ``stopped`` soon, and abort the current batch if all its replies are cancelled. From any thread."""
        self._interrupted = True
        with self._lock:
            if self._computing and all(reply.stopped() for reply in self._computing):
                self._backend.interrupt()

    def close(self) -> None:
        """Free the model."""
        self._template.close()
        self._backend.close()

    def _end_stopped(self) -> None:
        if stopped := [number for number, reply in self._replies.items() if reply.stopped()]:
            self._schedule = self._schedule.remove(stopped)
            for number in stopped:
                self._end(number, "cancelled")

    def _end(self, number: int, reason: FinishReason, failure: Failure | None = None) -> None:
        if number in self._schedule.running:
            self._schedule = self._schedule.end(number)
        reply = self._replies.pop(number)
        try:
            reply.end(reason, failure)
        except Exception as error:  # the parser's; the caller must not wait for ever, nor the others suffer for it
            reply.finish(done_of((), "error", failure or failure_of(error)))

    def _admit(self) -> None:
        """Start the replies that fit, and prepare their sequences in the cache."""
        while (admitted := admit(self._schedule)) is not None:
            after, start = admitted
            for place, change in enumerate(start.changes):
                if not self._change(change):
                    # It can't be cut after all, such as a sliding window that is full. Only drops came before.
                    for lost in start.changes[: place + 1]:
                        assert not isinstance(lost, Copy)
                        self._schedule = self._schedule.record_loss(lost.sequence)
                    break
            else:
                self._schedule = after
                self._replies[start.request].begin(self._backend, start.reused)

    def _change(self, change: Change) -> bool:
        match change:
            case Drop(sequence):
                self._backend.drop(sequence)
            case Cut(sequence, length):
                return self._backend.cut(sequence, length)
            case Copy(source, target, length):
                self._backend.copy(source, target, length)
        return True

    def _evaluate(self, batch: tuple[BatchPiece, ...]) -> bool:
        with self._interruptible([self._replies[piece.request] for piece in batch]) as wanted:
            return wanted and self._backend.evaluate(batch)

    @contextmanager
    def _interruptible(self, replies: list[RunningReply]) -> Iterator[bool]:
        """Allow interruptions to abort this batch once all its replies are cancelled; yield whether any is still
        wanted.
        """
        with self._lock:
            self._backend.ready()
            self._computing = replies
        try:
            # Asked after ``ready`` has wiped out interruptions: a cancel that came before it is not lost.
            yield not (self._interrupted and all(reply.stopped() for reply in replies))
        finally:
            # Without the lock: who still looks at them may abort nothing but what ``ready`` lets go on.
            self._computing = []

    def _keep(self) -> None:
        while (kept := keep(self._schedule)) is not None:
            self._schedule, changes = kept
            for change in changes:
                self._change(change)

    def _guesses(self) -> dict[int, Sequence[int]]:
        lookups = ((number, self._replies[number].lookup) for number in self._schedule.running)
        return {number: guess for number, one in lookups if one is not None and (guess := one.guess())}

    def _append_while_unchanged(self, wanted: Callable[[], bool]) -> None:
        """Evaluate batches of one token a reply, until a reply ends or the thread is wanted.

        The plan sees them as one batch of correct guesses. Planning each took a third of the time between two tokens,
        and changed nothing.
        """
        first = compose(self._schedule)
        replies = [self._replies[piece.request] for piece in first]
        sampled = [list(piece.tokens) for piece in first]
        batches, shown, most = 0, time.monotonic(), remaining_tokens(self._schedule)
        if not most:
            return  # one of them has used the room that it was promised
        # What is below runs between two tokens, with caches that the model's weights have just swept: each line counts.
        with self._interruptible(replies) as going:
            going = going and self._backend.evaluate(first)
            while going:
                batches += 1
                now = time.monotonic()
                newest: list[int] = []
                for row, reply in enumerate(replies):
                    if self._interrupted and reply.stopped():
                        going = False  # the next step ends it
                        continue
                    newest.append(reply.next(row, now))
                    sampled[row].append(newest[-1])
                    going = going and reply.over is None
                if now - shown >= SHOWN_EVERY:
                    shown = now
                    for reply in replies:
                        reply.show()
                        going = going and reply.over is None
                going = going and batches < most and not (self._interrupted or wanted())
                going = going and self._backend.append_tokens(newest)
        if batches:
            pieces = [*zip(first, sampled, strict=True)]
            whole = (evolve(one, tokens=tuple(tokens[:batches]), guesses=batches - 1) for one, tokens in pieces)
            newest_tokens = {piece.request: tokens[1:] for piece, tokens in pieces}
            self._schedule = self._schedule.record_batch(tuple(whole)).record_tokens(newest_tokens)
        for piece, reply in zip(first, replies, strict=True):
            reply.show()
            if reply.over is not None:
                self._end(piece.request, reply.over, reply.failure)

    def _sample(self, batch: tuple[BatchPiece, ...]) -> dict[int, Sequence[int]]:
        """Return the next tokens of each reply that continues after this batch; end the others."""
        sampled: dict[int, Sequence[int]] = {}
        row = 0
        for piece in batch:
            reply = self._replies[piece.request]
            if self._interrupted and reply.stopped():
                self._end(piece.request, "cancelled")
            elif piece.last:
                tokens = reply.take_tokens(row, piece.tokens[len(piece.tokens) - piece.guesses :])
                if reply.over is None:
                    sampled[piece.request] = tokens
                else:
                    self._end(piece.request, reply.over, reply.failure)
            row += 1 + piece.guesses
        return sampled

    def _take_back(self) -> None:
        for change in take_back(self._schedule):
            if not self._change(change):
                raise BackendError(f"sequence {change.sequence} can't be cut at {change.length}, as was promised")
            self._schedule = cut(self._schedule, change)

    def _fail(self, error: Exception) -> None:
        """End all running replies, since an error leaves the cache undefined; waiting replies start afresh."""
        for number in tuple(self._schedule.running):
            self._end(number, "error", failure_of(error))
        self._schedule = evolve(self._schedule, cache=Cache())
        self._backend.reset()

    def _guide(self, spec: FormatSpec, request: ModelRequest) -> Guide | None:
        """Return the guide that constrains the reply to the request's tools and options, or None."""
        options, forced = request.options, request.options.tool_choice not in ("auto", "none")
        if not options.constrain or not is_installed():
            if forced or (options.response_format and not options.response_checked):
                what = "response_format" if options.response_format else f"tool_choice={options.tool_choice!r}"
                why = "llguidance is not installed" if options.constrain else "GenerationOptions.constrain is False"
                raise ConstraintError(f"{what} can't be had without constrained sampling, and {why}")
            return None
        calls = spec.calls is not None and (request.tools or options.tool_choice == "none")
        if not (forced or options.response_format or calls):
            return None
        if self._guides is None:
            self._guides = GuideFactory(TokenMasks(self._backend, self._format_markers))
        return self._guides.guide(spec, request.tools, options)


def unfit(tokens: int, context: int, about: str = "") -> Failure | None:
    """Return the failure of a prompt that is too long, or None."""
    if not tokens:
        return EMPTY
    available = context - 1  # one at least has to be left for the reply
    if tokens <= available:
        return None
    return Failure(
        f"the prompt has {about}{tokens} tokens, and {available} fit into the context",
        kind="context_overflow",
        needed_tokens=tokens,
        available_tokens=available,
    )


def far_too_long(backend: InferenceBackend, text: str) -> Failure | None:
    """Return the failure of a text whose beginning is already twice too long; None if it must be counted in full."""
    context = backend.metadata.context_tokens
    beginning = text[: LONG_TEXT * context]
    if len(beginning) == len(text):
        return None
    tokens = len(backend.tokenize(beginning, special=True))
    about = tokens * len(text) // len(beginning)
    return unfit(about, context, "about ") if tokens > 2 * context else None

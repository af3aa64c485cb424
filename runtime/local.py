"""What every local model shares: from a request to tokens, through prefix reuse and sampling, to a ``Done``.

    ModelRequest ─ template ─▶ text ─ tokenise ─▶ tokens ─ plan_prefix ─▶ evaluate ─┐
                                                                                    ▼
    Done ◀─ outputs ◀─ parser ◀─ stop texts ◀─ UTF-8 decoder ◀─ pieces ◀─ sample ◀─ loop

Everything here runs on the owner's thread; ``runtime.handles`` is what callers hold.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterable

from attrs import define, field

from cognition import Failure, FinishReason, ModelRequest, Usage
from cognition.parsing import FormatSpec, Output, Parser, collect
from runtime.backend import Backend
from runtime.constrained.calls import writable
from runtime.constrained.guide import Guide, Guides
from runtime.constrained.masks import TokenMasks, installed
from runtime.constrained.schema import SchemaError
from runtime.errors import ConstraintError, TemplateError
from runtime.prefix import plan_prefix
from runtime.protection import PromptTokenizer, control_texts
from runtime.protocol import Done, ModelInfo, Timings
from runtime.stops import StopFilter
from runtime.templates import FALLBACK_TEMPLATE, ChatTemplate, Rendered


@define
class _Run:
    """The state of one reply while it is made."""

    request: ModelRequest
    stopped: Callable[[], bool]
    emit: Callable[[Output], None]
    submitted: float
    parser: Parser
    guide: Guide | None = None
    prompt: list[int] = field(factory=list)
    reused: int = 0
    generated: int = 0
    prefill_seconds: float = 0.0
    prefilled: float = 0.0
    """When prefill ended, on the monotonic clock."""
    first_token: float | None = None
    """When the first token was sampled, on the monotonic clock."""
    last_token: float | None = None
    outputs: list[Output] = field(factory=list)

    def count_token(self) -> None:
        self.last_token = time.monotonic()
        if self.first_token is None:
            self.first_token = self.last_token
        self.generated += 1

    def read(self, text: str) -> None:
        """Give the parser more of the reply, and what it makes of it to the caller."""
        if text:
            self.pass_on(self.parser.feed(text))

    def pass_on(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            self.outputs.append(output)
            self.emit(output)

    def done(self, reason: FinishReason, failure: Failure | None = None) -> Done:
        self.pass_on(self.parser.finish(reason))
        reply = collect(self.outputs)
        if reason == "stop" and reply.calls:
            reason = "tool_calls"
        decode = 0.0 if self.last_token is None else self.last_token - self.prefilled
        waited = None if self.first_token is None else self.first_token - self.submitted
        return Done(
            text=reply.text,
            reasoning=reply.reasoning,
            calls=reply.calls,
            malformed=reply.malformed,
            finish_reason=reason,
            usage=Usage(len(self.prompt), self.generated, self.reused),
            timings=Timings(self.prefill_seconds, decode, waited),
            failure=failure,
        )


class LocalEngine:
    """One model and the one sequence in its cache."""

    def __init__(self, backend: Backend) -> None:
        metadata = backend.metadata
        self._backend = backend
        source = FALLBACK_TEMPLATE if metadata.template is None else metadata.template
        control = control_texts(backend.special, source)
        self._template = ChatTemplate(
            source, bos_token=metadata.bos_text, eos_token=metadata.eos_text, control_texts=control
        )
        self._tokenizer = PromptTokenizer.of(backend, control)
        self._markers = control
        self._guides: Guides | None = None
        self._held: list[int] = []
        """The tokens that the backend's cache holds, in order."""
        self.info = self._describe()

    def _describe(self) -> ModelInfo:
        metadata = self._backend.metadata
        warnings = list(metadata.warnings)
        if metadata.template is None:
            warnings.append("the model has no chat template: a documented fallback is used (ChatML, Hermes tool calls)")
        warnings += self._template.warnings
        features = self._template.features
        spec = self._template.format_spec()
        if spec.calls is not None:
            if not writable(spec):
                warnings.append(f"calls are not constrained: no grammar is known for the shape {spec.calls.shape!r}")
            elif installed():
                features = (*features, "constrained_calls")
            else:
                warnings.append(
                    "calls are not constrained: pip install llguidance, which the extras llama and mlx hold"
                )
        if self._backend.can_cut:
            features = (*features, "prefix_reuse")
        else:
            warnings.append(
                "the model's cache can't be cut: a prompt that changes earlier text is computed from its start"
            )
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
        )

    def prompt(self, request: ModelRequest) -> list[int]:
        """The tokens of a request's prompt.

        Raises:
            TemplateError: the template refuses the messages.
        """
        return self._tokens(self._template.render(request))

    def run(
        self,
        request: ModelRequest,
        *,
        emit: Callable[[Output], None],
        stopped: Callable[[], bool],
        submitted: float,
    ) -> Done:
        """Make a reply. Never raises: what fails is in the ``Done``.

        Args:
            request: what to answer.
            emit: receives each output as it comes.
            stopped: asked before each token and each piece of prefill; True ends the reply as cancelled.
            submitted: when the caller asked, on the monotonic clock.
        """
        run = _Run(request, stopped, emit, submitted, Parser(self._template.format_spec(), request.tools))
        try:
            return self._attempt(run)
        except (TemplateError, ConstraintError, SchemaError) as error:
            return run.done("error", Failure(str(error), kind="fatal"))
        except Exception as error:
            # Whatever it was, the cache's state is unknown now; the next request starts afresh.
            self._forget()
            return run.done("error", Failure(f"{type(error).__name__}: {error}", kind="fatal"))

    def interrupt(self) -> None:
        """Make the reply that is being made look at ``stopped`` soon. May be called from any thread while one is."""
        self._backend.interrupt()

    def close(self) -> None:
        """Free the model."""
        self._backend.close()

    def _attempt(self, run: _Run) -> Done:
        if run.stopped():
            return run.done("cancelled")
        rendered = self._template.render(run.request)
        run.parser = Parser(rendered.format, run.request.tools)
        run.guide = self._guide(rendered.format, run.request)
        run.prompt = self._tokens(rendered)
        available = self._backend.metadata.context_tokens - 1  # one token at least has to be left for the reply
        if len(run.prompt) > available:
            return run.done(
                "error",
                Failure(
                    f"the prompt has {len(run.prompt)} tokens, and {available} fit into the context",
                    kind="context_overflow",
                    needed_tokens=len(run.prompt),
                    available_tokens=available,
                ),
            )
        if not self._prefill(run):
            return run.done("cancelled")
        return run.done(self._decode(run))

    def _guide(self, spec: FormatSpec, request: ModelRequest) -> Guide | None:
        """What holds the reply to the request's tools and options; None where nothing has to."""
        options = request.options
        forced = options.tool_choice not in ("auto", "none") or options.response_format
        if not options.constrain or not installed():
            if forced:
                what = "response_format" if options.response_format else f"tool_choice={options.tool_choice!r}"
                why = "llguidance is not installed" if options.constrain else "GenerationOptions.constrain is False"
                raise ConstraintError(f"{what} can't be had without constrained sampling, and {why}")
            return None
        if not forced and (not writable(spec) or not (request.tools or options.tool_choice == "none")):
            return None
        if self._guides is None:
            self._guides = Guides(TokenMasks(self._backend, self._markers))
        return self._guides.guide(spec, request.tools, options)

    def _tokens(self, rendered: Rendered) -> list[int]:
        return self._tokenizer.tokens(rendered.text, rendered.literals)

    def _prefill(self, run: _Run) -> bool:
        """Bring the cache to hold the prompt; False when that was cancelled on the way."""
        plan = plan_prefix(self._held, run.prompt, can_cut=self._backend.can_cut)
        began = time.monotonic()
        self._backend.start(run.request.options)
        if run.stopped():  # asked again: an interruption from before start() has just been wiped out
            return False
        kept = self._backend.truncate(plan.keep)
        run.reused = kept
        self._held = run.prompt[:kept]
        self._evaluate(run.prompt[kept:])
        run.prefilled = time.monotonic()
        run.prefill_seconds = run.prefilled - began
        return len(self._held) == len(run.prompt)

    def _decode(self, run: _Run) -> FinishReason:
        """Sample until something ends the reply."""
        options = run.request.options
        limit = min(options.max_tokens, self._backend.metadata.context_tokens - len(run.prompt))
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        stops = StopFilter(options.stop)
        guide = run.guide
        reason: FinishReason | None = None
        while reason is None:
            allowed = None if guide is None else guide.allowed()
            token = self._backend.sample() if allowed is None else self._backend.sample(allowed)
            ended = self._backend.is_end(token)
            piece = b"" if ended else self._backend.piece(token)
            if guide is not None and not ended and not guide.accept(token, piece):
                continue
            run.count_token()
            if ended:
                reason = "stop"
                break
            run.read(stops.feed(decoder.decode(piece)))
            if stops.hit:
                reason = "stop"
            elif run.generated >= limit:
                reason = "length"
            elif run.stopped() or not self._evaluate([token]):
                reason = "cancelled"
        run.read(stops.feed(decoder.decode(b"", final=True)) + stops.finish())
        return reason

    def _evaluate(self, tokens: list[int]) -> bool:
        """Append tokens to the cache; False when it was interrupted."""
        done = self._backend.evaluate(tokens)
        self._held += tokens[:done]
        return done == len(tokens)

    def _forget(self) -> None:
        self._held = []
        self._backend.truncate(0)

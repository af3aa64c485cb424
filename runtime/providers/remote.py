"""``RemoteRuntime``: a model behind a server, as a runtime. Created by ``load_model("openai/gpt-5")``.

    submit ─▶ encode ─▶ a worker thread sends it ─▶ the iterating thread reads the response ─▶ decode ─▶ outputs, Done

It never retries: a failure is data in the ``Done``, and the core decides how to react.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import urlsplit

from attrs import evolve

from cognition import Failure, ModelRequest
from cognition.parsing import FormatSpec
from cognition.values.content import MEDIA_TYPES, images_of
from cognition.values.messages import UserMessage
from cognition.wire import DEFAULTS, QUIRKS, Decoder, Quirks, UnsupportedRequestError, WireRequest, encode
from runtime.closeable import Closeable
from runtime.errors import MediaError, ModelOptionsError, RuntimeClosedError
from runtime.local.real_model_guard import check_allowed
from runtime.protocol.backend import DEFAULT_CONTEXT
from runtime.protocol.model import ModelInfo
from runtime.protocol.sampling import with_own
from runtime.providers._connection import Connection
from runtime.providers._credentials import NoKeyError, key_of, scrub
from runtime.providers._exchange import Exchange
from runtime.providers._generation import RemoteCall, RemoteGeneration
from runtime.providers._server_facts import ServerFacts, ask_facts
from runtime.providers._token_counts import COUNTING, COUNTING_TEXTS, ServerTokenCounter, estimate_tokens
from runtime.providers.backends import ANY_SERVER, URL, RemoteName, is_loopback
from runtime.scheduling.owners import QUEUE_LIMIT, OpenRequests, new_owner, owner_or

ANY_MODEL = "default_model"
"""Model name to send if neither the program nor the server names one: ``mlx_lm.server`` knows this name, and other
one-model servers ignore it.
"""

NOTHING = WireRequest("", (), "")
"""Placeholder for a request that cannot be encoded; it is never sent."""


class RemoteRuntime(Closeable):
    """A remote model; see ``runtime.Runtime``. From any thread; usable in a ``with`` statement.

    It is closed on garbage collection and at the end of the program.
    """

    count_texts: Callable[[Sequence[str]], Sequence[int]]
    """Only set for servers that count plain texts; see ``runtime.protocol.model.TextCounter``."""

    def __init__(
        self, name: RemoteName, *, context_tokens: int | None = None, queue_limit: int = QUEUE_LIMIT, ask: bool = True
    ) -> None:
        """Ask the server for facts about the model; no other request is sent.

        Args:
            name: the backend, and the model's name there.
            context_tokens: the maximum length of prompt and reply together; None: the server's value.
            queue_limit: as in ``load_model``.
            ask: whether to ask the server at all.

        Raises:
            ModelOptionsError: the backend's key is missing in the environment, or invalid.
            RealModelBlockedError: a test run blocks real models.
        """
        check_allowed(f"ask {name.text}")
        try:
            key_of(name.backend)
        except NoKeyError as error:
            raise ModelOptionsError(str(error), spec=name.text) from None
        self._name = name
        self._connection = Connection(name.backend)
        self._open = OpenRequests(queue_limit)
        self._owner = new_owner()
        self._closed = False
        self._running: weakref.WeakSet[RemoteGeneration] = weakref.WeakSet()
        facts = ask_facts(self._connection, name.model) if ask else ServerFacts()
        self._facts = facts
        self.unreached: bool = bool(facts.problem)
        """Whether the server could not be asked, so that some facts are unknown."""
        self._model = name.model or facts.model or ANY_MODEL
        self._quirks = _quirks_of(name, facts)
        self._price = name.backend.price_of(self._model)
        self._priced = self._price is not None or _reports_costs(self._quirks)
        self._info = self._describe(facts, context_tokens)
        if name.backend.dialect == "ollama":  # or it would take a context of its own, and cut what doesn't fit
            self._quirks = _with_context(self._quirks, self._info.context_tokens)
        self._counts = ServerTokenCounter(self._connection, facts.kind, self._info.name)
        if facts.kind in COUNTING_TEXTS:
            self.count_texts = self._counts.of_texts
        self._shut = weakref.finalize(self, self._connection.close)

    def __repr__(self) -> str:
        return f"<RemoteRuntime {self._name.text}{' (closed)' if self._closed else ''}>"

    # --------------------------------------------------------------------------------------------------- a runtime

    def submit(self, request: ModelRequest) -> RemoteGeneration:
        """See ``Runtime.submit``. Another thread sends the request; there are no retries.

        Raises:
            RuntimeClosedError: after ``close()``.
            RealModelBlockedError: a test run blocks real models.
        """
        self._check_open()
        check_allowed(f"ask {self._name.text}")
        request = self._whole(request)
        wire, failure = NOTHING, None
        try:
            self._check_media(request)
            wire = self._encode(request)
        except MediaError as error:
            failure = Failure(str(error), "modality")
        except UnsupportedRequestError as error:
            failure = error.failure
        agent = owner_or(self._owner)
        full = failure or self._open.begin(agent)
        exchange = Exchange(self._name.backend.timeouts)
        decoder = Decoder(self._name.backend.dialect, request, self._quirks, model=self._model)
        over = _nothing if full else partial(self._open.end, agent)
        call = RemoteCall(self._connection, wire, decoder, self._price, over)
        generation = RemoteGeneration(self, exchange, call)
        self._running.add(generation)
        if full:
            generation.refuse(full)
        else:
            generation.begin()
            if self._closed:  # meanwhile
                generation.cancel()
        return generation

    def count_tokens(self, request: ModelRequest) -> int:
        """Return the prompt tokens, counted by the server if it can, which takes a round trip or two.

        If it cannot, or does not answer within seconds, the result is an estimate by the prompt's length. Then
        ``describe().features`` includes ``estimated_counts``.

        Raises:
            RuntimeClosedError: after ``close()``.
            MediaError: a message contains media that the model does not accept.
            TemplateError: the server reports that the model's template rejects these messages.
        """
        self._check_open()
        self._check_media(request)
        counted = None
        if self._facts.kind in COUNTING:
            counted = self._counts.of_request(self._encode(self._whole(request)))
        return estimate_tokens(request) if counted is None else counted

    def describe(self) -> ModelInfo:
        problem = self._counts.problem
        if not problem:
            return self._info
        warning = f"the server did not count tokens when it was asked: {problem}"
        features = (*self._info.features, "estimated_counts")
        return evolve(self._info, features=features, warnings=(*self._info.warnings, warning))

    def close(self) -> None:
        """Cancel running requests and close the connections. A second call does nothing."""
        self._closed = self._counts.closed = True
        for generation in tuple(self._running):
            generation.cancel()
        self._shut()

    # ------------------------------------------------------------------------------------------------------- parts

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeClosedError(self._info.name)

    def _check_media(self, request: ModelRequest) -> None:
        takes = self._info.media
        for message in request.messages:
            for image in images_of(message.parts) if isinstance(message, UserMessage) and message.parts else ():
                if image.media_type not in takes:
                    what = f"takes {', '.join(takes)} beside text" if takes else "takes text alone"
                    told = f"the model {self._info.name!r} {what}, and a message has {image}"
                    raise MediaError(f"{told}; describe the picture in words")

    def _whole(self, request: ModelRequest) -> ModelRequest:
        """Return the request with default sampling for unset options."""
        options = with_own(request.options, self._facts.sampling)
        return request if options is request.options else evolve(request, options=options)

    def _encode(self, request: ModelRequest) -> WireRequest:
        return encode(self._name.backend.dialect, request, self._model, stream=True, quirks=self._quirks)

    def _describe(self, facts: ServerFacts, context_tokens: int | None) -> ModelInfo:
        backend, model, quirks, warnings = self._name.backend, self._model, self._quirks, list[str]()
        told = facts.context_tokens
        context = context_tokens or told or backend.context_tokens or DEFAULT_CONTEXT
        if facts.problem:
            warnings.append(f"the server could not be asked about the model: {scrub(facts.problem, backend)}")
        if context_tokens is None and told is None and backend.context_tokens is None:
            warnings.append(
                f"the server doesn't tell the context length; {context} tokens are assumed: context_tokens= sets it"
            )
        if context_tokens is not None and told is not None and context_tokens > told:
            warnings.append(f"the server's context has {told} tokens, and {context_tokens} were asked for")
        if not self._priced and not (backend.name == URL and is_loopback(urlsplit(backend.base_url).hostname or "")):
            warnings.append(f"no price is known of {model!r}, so its cost counts as 0: prices= of its backend sets it")
        features = ["system"]
        if quirks.tools and facts.tools is not False:
            features.append("tools")
        if facts.thinking is not False and quirks.thinking_on != "{}":
            features += ["thinking", "thinking_option"]
        if facts.kind not in COUNTING:
            features.append("estimated_counts")
        media = facts.media if facts.media is not None else MEDIA_TYPES
        return ModelInfo(
            name=model,
            backend=backend.name,
            path="",
            context_tokens=context,
            format=FormatSpec(backend.dialect),
            features=tuple(features),
            warnings=tuple(warnings),
            media=media if quirks.images else (),
            sampling=facts.sampling,
            priced=self._priced,
        )


def _reports_costs(quirks: Quirks) -> bool:
    """Return whether the server is asked for the cost of each reply."""
    extra = json.loads(quirks.extra) if quirks.extra else {}
    return extra.get("usage") == {"include": True}


def _nothing() -> None:
    """The end callback of a reply that never began."""


def _quirks_of(name: RemoteName, facts: ServerFacts) -> Quirks:
    """Return the backend's own quirks; if it sets none, those of the server's kind."""
    quirks = name.backend.quirks
    is_usual = quirks is ANY_SERVER or quirks is DEFAULTS["responses"]
    return (QUIRKS.get(facts.kind) if is_usual else None) or quirks


def _with_context(quirks: Quirks, context_tokens: int) -> Quirks:
    """Add the context length to each request, for a server that needs it there."""
    extra = json.loads(quirks.extra)
    options = {"num_ctx": context_tokens, **extra.get("options", {})}
    return evolve(quirks, extra=json.dumps({**extra, "options": options}))

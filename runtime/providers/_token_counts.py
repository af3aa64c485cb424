"""Token counts of prompts and texts, from servers that can count; otherwise an estimate.

A turn waits for its count, so counting has short timeouts. After a failure, counting pauses for a while: an estimate is
better than a blocked turn.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from cognition import ModelRequest
from cognition.context.window import message_size, request_size
from cognition.wire import WireRequest
from runtime.errors import RuntimeClosedError, TemplateError
from runtime.local.real_model_guard import check_allowed
from runtime.providers._connection import Connection, RequestFailedError
from runtime.providers._exchange import Exchange
from runtime.providers._server_facts import ServerKind
from runtime.providers.backends import Timeouts

COUNTING: frozenset[ServerKind] = frozenset({"llama-server", "llama-server-responses", "vllm", "anthropic"})

COUNTING_TEXTS: frozenset[ServerKind] = frozenset({"llama-server", "llama-server-responses"})
"""Servers that count any number of plain texts in one round trip, so that sessions know all sizes."""

PATIENCE = Timeouts(connect=2.0, first=5.0, silence=5.0, whole=5.0)

PAUSE = 60.0
"""Seconds without counting after a failure."""

REMEMBERED = 512
"""Maximum cached counts: a resumed session repeats counts of an earlier one."""

OF_TEMPLATE = ("messages", "tools", "tool_choice", "chat_template_kwargs", "parallel_tool_calls", "response_format")
"""Request fields that a chat template sees."""

OF_RESPONSES = ("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text")
"""The same for a request to the responses API."""

REFUSED = (400, 422, 500)
"""Statuses of llama-server if the model's template rejects a conversation."""

BETWEEN = -1
"""Not a valid token. llama-server accepts numbers as tokens between the texts to tokenize and returns them in place, so
this separates the texts.
"""


def estimate_tokens(request: ModelRequest) -> int:
    """Estimate by characters, as the core does."""
    return math.ceil(request_size(request) + sum(map(message_size, request.messages)))


class _UncountedError(Exception):
    """The server did not count; the message has the reason."""


class ServerTokenCounter:
    """Asks one server for counts. From any thread."""

    def __init__(self, connection: Connection, kind: ServerKind, model: str) -> None:
        """Create it without asking. ``model`` is the name in errors."""
        self.closed = False
        """Set by the runtime on close."""
        self._connection = connection
        self._kind = kind
        self._model = model
        self._problem = ""
        self._until = 0.0
        self._in_one = True
        """Whether llama-server may have a route that renders and counts in one request; older versions need two."""
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def problem(self) -> str:
        """Why counting is paused; empty if it is not."""
        return self._problem if self._problem and time.monotonic() < self._until else ""

    def of_request(self, wire: WireRequest) -> int | None:
        """Return the token count of a prompt; None if the server cannot count, or counting is paused.

        Raises:
            TemplateError: llama-server reports that the model's template rejects these messages.
            RuntimeClosedError: after the runtime's ``close()``.
            RealModelBlockedError: a test run blocks real models.
        """
        self._check()
        if self._kind not in COUNTING or self.problem:
            return None
        body: dict[str, Any] = json.loads(wire.body)
        try:
            match self._kind:
                case "llama-server":
                    return self._remember(_select_fields(body, OF_TEMPLATE), self._of_llama_server)
                case "llama-server-responses":
                    return self._remember(_select_fields(body, OF_RESPONSES), self._of_response)
                case "vllm":
                    shown = _select_fields(body, ("model", "messages", "tools", "chat_template_kwargs"))
                    return _count(self._ask("/tokenize", shown, root=True), "count")
                case _:
                    kept = ("model", "messages", "system", "tools", "tool_choice", "thinking")
                    return _count(self._ask("/messages/count_tokens", _select_fields(body, kept)), "input_tokens")
        except _UncountedError as error:
            self._fail(str(error))
            return None

    def of_texts(self, texts: Sequence[str]) -> tuple[int, ...]:
        """See ``runtime.protocol.model.TextCounter``; only for llama-server. Returns ``()`` while counting is
        paused.
        """
        self._check()
        if not texts or self.problem:
            return ()
        content = [part for text in texts for part in (text, BETWEEN)]
        try:
            tokens = self._tokens({"content": content, "add_special": False, "parse_special": False})
            ends = [place for place, token in enumerate(tokens) if token == BETWEEN]
            if len(ends) != len(texts):
                raise _UncountedError("it did not say where one text ends and another begins")
        except _UncountedError as error:
            self._fail(str(error))
            return ()
        return tuple([end - before - 1 for before, end in zip([-1, *ends], ends, strict=False)])

    def _check(self) -> None:
        if self.closed:
            raise RuntimeClosedError(self._model)
        check_allowed(f"ask {self._model}")

    # ----------------------------------------------------------------------------------------------------- one server

    def _of_llama_server(self, shown: dict[str, Any]) -> int:
        if self._in_one:
            answer = self._ask("/v1/chat/completions/input_tokens", shown, root=True, unknown=(404, 405, 501))
            if answer is not None:
                return _count(answer, "input_tokens")
            self._in_one = False
        prompt = _field(self._ask("/apply-template", shown, root=True), "prompt")
        if not isinstance(prompt, str):
            raise _UncountedError("it gave no prompt")
        return len(self._tokens({"content": prompt, "add_special": True, "parse_special": True}))

    def _of_response(self, shown: dict[str, Any]) -> int:
        return _count(self._ask("/v1/responses/input_tokens", shown, root=True), "input_tokens")

    def _tokens(self, question: dict[str, Any]) -> list[Any]:
        tokens = _field(self._ask("/tokenize", question, root=True), "tokens")
        if not isinstance(tokens, list):
            raise _UncountedError("it gave no tokens")
        return tokens

    def _ask(self, path: str, question: Any, *, root: bool = False, unknown: Sequence[int] = ()) -> Any:
        """Return the server's answer, in JSON; None for a status in ``unknown``."""
        try:
            status, answer = self._connection.answer(Exchange(PATIENCE), path, question, root=root)
        except RequestFailedError as error:
            raise _UncountedError(error.failure.message) from None
        if status in unknown:
            return None
        if status in REFUSED and self._kind in COUNTING_TEXTS:
            said = _field(_field(answer, "error"), "message")
            raise TemplateError(said if isinstance(said, str) else "the model's template refuses these messages")
        if status != 200:
            raise _UncountedError(f"it answered with the status {status}")
        return answer

    # ------------------------------------------------------------------------------------------------------- memory

    def _remember(self, question: dict[str, Any], count: Callable[[dict[str, Any]], int]) -> int:
        key = hashlib.blake2b(json.dumps(question).encode(), digest_size=16).digest()
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        counted = count(question)
        with self._lock:
            self._known[key] = counted
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return counted

    def _fail(self, problem: str) -> None:
        self._problem, self._until = problem, time.monotonic() + PAUSE


def _select_fields(body: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: body[key] for key in keys if key in body}


def _field(answer: Any, key: str) -> Any:
    return answer.get(key) if isinstance(answer, dict) else None


def _count(answer: Any, key: str) -> int:
    number = _field(answer, key)
    if type(number) is not int or number < 0:
        raise _UncountedError("it gave no count")
    return number

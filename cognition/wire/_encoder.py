"""Encodes a ``ModelRequest`` as the HTTP request of a server's API."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cognition.steps.requests import ModelRequest
from cognition.values.outcomes import Failure
from cognition.wire import (
    _anthropic as anthropic,
    _ollama as ollama,
    _openai_chat as openai_chat,
    _responses as responses,
)
from cognition.wire._quirks import DEFAULTS, Dialect, Quirks
from cognition.wire._request_builder import RequestBuilder, UnsupportedRequestError, WireRequest

ENCODERS: Mapping[Dialect, Callable[[RequestBuilder], WireRequest]] = {
    "openai": openai_chat.encode,
    "responses": responses.encode,
    "anthropic": anthropic.encode,
    "ollama": ollama.encode,
}


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

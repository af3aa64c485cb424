"""A ``ModelRequest`` as the request of a server's API."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cognition.outcomes import Failure
from cognition.requests import ModelRequest
from cognition.wire import anthropic, ollama, openai_chat, responses
from cognition.wire.habits import DEFAULTS, Dialect, Habits
from cognition.wire.making import Making, UnsayableError, WireRequest

ENCODERS: Mapping[Dialect, Callable[[Making], WireRequest]] = {
    "openai": openai_chat.encode,
    "responses": responses.encode,
    "anthropic": anthropic.encode,
    "ollama": ollama.encode,
}


def encode(
    dialect: Dialect, request: ModelRequest, model: str, *, stream: bool = True, habits: Habits | None = None
) -> WireRequest:
    """The request as it is sent: the same for the same request, always.

    Args:
        dialect: the format.
        request: what is asked.
        model: the model's name, as the server knows it.
        stream: whether the reply is wanted as a stream.
        habits: what the server takes, one of ``HABITS``; None: the habits of the format's own server.

    Raises:
        UnsayableError: the server can't be asked this at all, such as a picture where it takes none.
    """
    try:
        return ENCODERS[dialect](Making(request, habits or DEFAULTS[dialect], model, stream))
    except RecursionError:
        failure = Failure("the conversation holds JSON that is nested too deeply to be sent", "fatal")
        raise UnsayableError(failure) from None

"""Facts that a server reports about a model, if any: context length, inputs, kind of server.

Answers are untrusted: a missing field, or one of the wrong type, counts as not reported.

- llama-server, at ``/v1/models`` and ``/props``: ``n_ctx`` of a slot, pictures, default sampling
- vLLM, at ``/v1/models``: ``max_model_len``
- Ollama, at ``/api/show``: the model's ``context_length``, ``num_ctx``, ``capabilities``
- llama_cpp.server, at ``/v1/models``: nothing
- mlx_lm.server, at ``/v1/models`` and ``/health``: nothing
- Anthropic, at ``/v1/models/NAME``: ``max_input_tokens``
- others, at ``/v1/models``: ``context_length``, ``context_window`` or ``max_context_length``
"""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import quote

from attrs import evolve, frozen

from cognition import ConfigError, GenerationOptions
from cognition.values.content import MEDIA_TYPES, MediaType
from runtime.protocol.backend import DEFAULT_CONTEXT
from runtime.providers._connection import Connection, RequestFailedError
from runtime.providers._exchange import Exchange
from runtime.providers.backends import Timeouts

ServerKind = Literal[
    "", "llama-server", "llama-server-responses", "llama-cpp-python", "vllm", "mlx", "ollama", "anthropic"
]

PATIENCE = Timeouts(connect=5.0, first=10.0, silence=10.0, whole=15.0)

OWNERS: dict[str, ServerKind] = {"llamacpp": "llama-server", "vllm": "vllm", "me": "llama-cpp-python"}
"""Server kinds by ``owned_by`` in their lists of models."""

OWNERS_OF_RESPONSES: dict[str, ServerKind] = {"llamacpp": "llama-server-responses"}
"""The same for servers with the responses API."""

CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")

GREEDY = GenerationOptions(temperature=0.0)
"""Default sampling of a model if neither user nor model sets any, as for a local model."""

PLAIN_GREEDY = evolve(GREEDY, repeat_penalty=1.0)
"""The same for llama_cpp.server, which would apply a repetition penalty of 1.1; JSON is full of repetitions."""

LLAMA_DEFAULTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
"""llama-server's built-in sampling. If all values equal these, neither its command line nor the model's file sets any.
"""


@frozen
class ServerFacts:
    """Known facts about a model and its server."""

    kind: ServerKind = ""
    """Empty: unknown."""
    model: str = ""
    """The name of the server's only model, if the user named none."""
    context_tokens: int | None = None
    media: tuple[MediaType, ...] | None = None
    tools: bool | None = None
    thinking: bool | None = None
    sampling: GenerationOptions = GenerationOptions()
    """Sampling if the request sets none."""
    problem: str = ""


def ask_facts(connection: Connection, model: str) -> ServerFacts:
    """Ask a server about a model. Takes at most ``PATIENCE``, and never raises."""
    exchange = Exchange(PATIENCE)
    try:
        match connection.backend.dialect:
            case "ollama":
                return _of_ollama(connection, exchange, model)
            case "anthropic":
                about = _object(connection.ask(exchange, f"/models/{quote(model, safe='')}"))
                return ServerFacts("anthropic", context_tokens=_tokens(about.get("max_input_tokens")))
            case _:
                return _of_list(connection, exchange, model)
    except RequestFailedError as error:
        return ServerFacts(problem=error.failure.message)


def _of_list(connection: Connection, exchange: Exchange, model: str) -> ServerFacts:
    listed = _object(connection.ask(exchange, "/models")).get("data")
    if not isinstance(listed, list) and connection.ask(exchange, "/health", root=True) == {"status": "ok"}:
        return ServerFacts("mlx")  # which lists what it finds on disk, and fails where it finds nothing
    models = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    only = models[0] if len(models) == 1 else {}
    about = next((one for one in models if one.get("id") == model), only)
    name = model or (only["id"] if isinstance(only.get("id"), str) else "")
    context = next((found for key in CONTEXT_FIELDS if (found := _tokens(about.get(key)))), None)
    owners = OWNERS if connection.backend.dialect == "openai" else OWNERS_OF_RESPONSES
    kind = owners.get(str(about.get("owned_by")), "")
    sampling = PLAIN_GREEDY if kind == "llama-cpp-python" else GenerationOptions()
    facts = ServerFacts(kind, name, context, sampling=sampling)
    return _of_llama_server(connection, exchange, facts) if kind.startswith("llama-server") else facts


def _of_llama_server(connection: Connection, exchange: Exchange, facts: ServerFacts) -> ServerFacts:
    about = _object(connection.ask(exchange, "/props", root=True))
    settings = _object(about.get("default_generation_settings"))
    said = _object(settings.get("params"))
    takes = _object(about.get("modalities"))
    usual = all(abs(_number(said.get(key), value) - value) < 1e-6 for key, value in LLAMA_DEFAULTS.items())
    return evolve(
        facts,
        context_tokens=_tokens(settings.get("n_ctx")) or facts.context_tokens,
        media=MEDIA_TYPES if takes.get("vision") is True else (),
        sampling=GREEDY if usual else GenerationOptions(),
    )


def _of_ollama(connection: Connection, exchange: Exchange, model: str) -> ServerFacts:
    about = _object(connection.ask(exchange, "/show", {"model": model}))
    details = _object(about.get("model_info"))
    lengths = (_tokens(details[key]) for key in details if key.endswith(".context_length"))
    trained = next(filter(None, lengths), 0)
    said = _parameters(about.get("parameters"))
    can = about.get("capabilities")
    capabilities = [one for one in can if isinstance(one, str)] if isinstance(can, list) else None
    context = _tokens(int(said.pop("num_ctx", 0))) or (min(trained, DEFAULT_CONTEXT) if trained else None)
    facts = ServerFacts("ollama", context_tokens=context, sampling=_sampling(said))
    if capabilities is None:
        return facts
    return evolve(
        facts,
        media=MEDIA_TYPES if "vision" in capabilities else (),
        tools="tools" in capabilities,
        thinking="thinking" in capabilities,
    )


def _parameters(text: Any) -> dict[str, float]:
    """Return the numbers among a Modelfile's parameters, which Ollama reports as lines of text."""
    found: dict[str, float] = {}
    for line in text.splitlines() if isinstance(text, str) else ():
        if match := re.fullmatch(r"(\w+)\s+(-?\d{1,9}(?:\.\d{1,9})?)", line.strip()):
            found[match[1]] = float(match[2])
    return found


def _sampling(said: dict[str, float]) -> GenerationOptions:
    """Return a Modelfile's own sampling; if it has none, greedy as for all models."""
    options: dict[str, Any] = {
        key: said[key] for key in ("temperature", "top_p", "min_p", "typical_p", "repeat_penalty") if key in said
    }
    if "top_k" in said:
        options["top_k"] = int(said["top_k"])
    try:
        return GenerationOptions(**options) if options else GREEDY
    except ConfigError:  # none that can be
        return GenerationOptions()


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _tokens(value: Any) -> int | None:
    return value if type(value) is int and 2 <= value <= 10**9 else None


def _number(value: Any, otherwise: float) -> float:
    return float(value) if type(value) in (int, float) else otherwise

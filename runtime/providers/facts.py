"""What a server tells of a model, where it tells anything: its context, what it takes, what sort of server it is.

Each answer is other people's data: a field that is missing or of another type is one that wasn't told.

===============  ==============================  ==================================================================
server           asked at                        what it tells
===============  ==============================  ==================================================================
llama-server     ``/v1/models``, ``/props``      ``n_ctx`` of a slot, pictures, how it samples by default
vLLM             ``/v1/models``                  ``max_model_len``
Ollama           ``/api/show``                   the model's ``context_length``, ``num_ctx``, ``capabilities``
llama_cpp.server ``/v1/models``                  nothing
mlx_lm.server    ``/v1/models``, ``/health``     nothing
Anthropic        ``/v1/models/NAME``             ``max_input_tokens``
others           ``/v1/models``                  ``context_length``, ``context_window`` or ``max_context_length``
===============  ==============================  ==================================================================
"""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import quote

from attrs import evolve, frozen

from cognition import ConfigError, GenerationOptions
from cognition.content import MEDIA_TYPES, MediaType
from runtime.backend import DEFAULT_CONTEXT
from runtime.providers.backends import Timeouts
from runtime.providers.connection import Connection, FailedError
from runtime.providers.exchanges import Exchange

ServerKind = Literal[
    "", "llama-server", "llama-server-responses", "llama-cpp-python", "vllm", "mlx", "ollama", "anthropic"
]

PATIENCE = Timeouts(connect=5.0, first=10.0, silence=10.0, whole=15.0)
"""For a question about a model."""

OWNERS: dict[str, ServerKind] = {"llamacpp": "llama-server", "vllm": "vllm", "me": "llama-cpp-python"}
"""What servers call themselves in their lists of models (``owned_by``)."""

OWNERS_OF_RESPONSES: dict[str, ServerKind] = {"llamacpp": "llama-server-responses"}
"""The same of servers that are spoken to in responses."""

CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")

GREEDY = GenerationOptions(temperature=0.0)
"""How a model is sampled by default that nobody has said anything else of, as a local one is."""

PLAIN_GREEDY = evolve(GREEDY, repeat_penalty=1.0)
"""The same of a server that would penalise repetitions, which JSON is full of: llama_cpp.server, by 1.1."""

LLAMA_DEFAULTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
"""How llama-server samples where neither its command line nor the model's file says anything. They are nobody's
choice."""


@frozen
class Facts:
    """What is known of a model and its server."""

    kind: ServerKind = ""
    """Empty: not known."""
    model: str = ""
    """The name of the one model that the server has, where nobody has named one."""
    context_tokens: int | None = None
    media: tuple[MediaType, ...] | None = None
    tools: bool | None = None
    thinking: bool | None = None
    sampling: GenerationOptions = GenerationOptions()
    """What holds where a request says nothing."""
    problem: str = ""
    """Why the server could not be asked."""


def ask_facts(connection: Connection, model: str) -> Facts:
    """What a server tells of a model. Takes ``PATIENCE`` at most, and never fails."""
    exchange = Exchange(PATIENCE)
    try:
        match connection.backend.dialect:
            case "ollama":
                return _of_ollama(connection, exchange, model)
            case "anthropic":
                about = _object(connection.ask(exchange, f"/models/{quote(model, safe='')}"))
                return Facts("anthropic", context_tokens=_tokens(about.get("max_input_tokens")))
            case _:
                return _of_list(connection, exchange, model)
    except FailedError as error:
        return Facts(problem=error.failure.message)


def _of_list(connection: Connection, exchange: Exchange, model: str) -> Facts:
    listed = _object(connection.ask(exchange, "/models")).get("data")
    if not isinstance(listed, list) and connection.ask(exchange, "/health", root=True) == {"status": "ok"}:
        return Facts("mlx")  # which lists what it finds on disk, and fails where it finds nothing
    models = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if not model and len(models) == 1 and isinstance(models[0].get("id"), str):
        about, name = models[0], models[0]["id"]
    else:
        name = model
        about = next((one for one in models if one.get("id") == model), models[0] if len(models) == 1 else {})
    context = next((found for key in CONTEXT_FIELDS if (found := _tokens(about.get(key)))), None)
    owners = OWNERS if connection.backend.dialect == "openai" else OWNERS_OF_RESPONSES
    kind = owners.get(str(about.get("owned_by")), "")
    facts = Facts(kind, name, context, sampling=PLAIN_GREEDY if kind == "llama-cpp-python" else GenerationOptions())
    return _of_llama_server(connection, exchange, facts) if kind.startswith("llama-server") else facts


def _of_llama_server(connection: Connection, exchange: Exchange, facts: Facts) -> Facts:
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


def _of_ollama(connection: Connection, exchange: Exchange, model: str) -> Facts:
    about = _object(connection.ask(exchange, "/show", {"model": model}))
    details = _object(about.get("model_info"))
    trained = next(
        (found for key in details if key.endswith(".context_length") and (found := _tokens(details[key]))), 0
    )
    said = _parameters(about.get("parameters"))
    can = about.get("capabilities")
    capabilities = [one for one in can if isinstance(one, str)] if isinstance(can, list) else None
    context = _tokens(int(said.pop("num_ctx", 0))) or (min(trained, DEFAULT_CONTEXT) if trained else None)
    facts = Facts("ollama", context_tokens=context, sampling=_sampling(said))
    if capabilities is None:
        return facts
    return evolve(
        facts,
        media=MEDIA_TYPES if "vision" in capabilities else (),
        tools="tools" in capabilities,
        thinking="thinking" in capabilities,
    )


def _parameters(text: Any) -> dict[str, float]:
    """The numbers among a Modelfile's parameters, which Ollama tells as lines of text."""
    found: dict[str, float] = {}
    for line in text.splitlines() if isinstance(text, str) else ():
        if match := re.fullmatch(r"(\w+)\s+(-?\d{1,9}(?:\.\d{1,9})?)", line.strip()):
            found[match[1]] = float(match[2])
    return found


def _sampling(said: dict[str, float]) -> GenerationOptions:
    """A Modelfile's own sampling; greedy, as everywhere, where it has none."""
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

"""Differences between servers and the documented API that they implement: data, one entry per server.

A request omits any feature that its server is not known to accept, with a warning that names it: some servers refuse
unknown fields and others ignore them. For a server not listed here, adapt the quirks of the most similar server::

    evolve(QUIRKS["vllm"], images=False, extra='{"top_n_sigma": 1}')
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

from attrs import evolve, field, frozen

from cognition.base.checking import checked
from cognition.base.encoding import bounded
from cognition.base.errors import ConfigError
from cognition.base.strict_json import DEEPEST, LENIENT
from cognition.parsing.formats import HERMES
from cognition.parsing.spec import FormatSpec

Dialect = Literal["openai", "responses", "anthropic", "ollama"]
"""A wire format:

- ``openai``: OpenAI's chat completions, which most other servers implement too (server-sent events)
- ``responses``: OpenAI's responses (server-sent events)
- ``anthropic``: Anthropic's messages (server-sent events)
- ``ollama``: Ollama's chat (one JSON object per line)
"""

SystemRole = Literal["system", "developer", "user"]
ToolChoices = Literal["named", "words", "names", "none"]
"""The tool choices that a server accepts: ``named`` (``auto``, ``none``, ``required`` and names of tools), ``words``
(the three words only), ``names`` (names only) or ``none``.
"""

ReplyFormat = Literal["schema", "object_schema", "object", "none"]
"""How a server can constrain a reply: ``json_schema`` (``schema``), ``json_object`` with a schema (``object_schema``),
any JSON (``object``), or not at all.
"""

ReasoningBack = Literal["never", "calls", "always"]
"""Which messages are sent back with their reasoning: none, those with calls (also if it is empty), or all."""


def _body(text: str | Mapping[str, Any]) -> str:
    """Return JSON text of an object; an empty ``text`` means ``{}``."""
    try:
        value = LENIENT.decode(text or "{}") if isinstance(text, str) else text
        if not isinstance(value, Mapping):
            raise ValueError("it is no object")
        return bounded(json.dumps(value, ensure_ascii=False, allow_nan=False), DEEPEST)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"what a request's body has besides must be a JSON object: {error}") from error


def names(*same: str, **fields: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of an option and its field on the wire; ``same``: options whose fields have the same name."""
    return (*((name, name) for name in same), *fields.items())


PENALTIES = ("frequency_penalty", "presence_penalty")
"""Options that are 0 by default."""
PLAIN = names("temperature", "top_p", "seed", *PENALTIES)


@checked
@frozen(kw_only=True)
class Quirks:
    """The features that a server accepts, and their field names. The defaults are those of OpenAI's chat
    completions.
    """

    dialect: Dialect = "openai"
    """The wire format of the server."""
    sampling: tuple[tuple[str, str], ...] = (*PLAIN, *names("logit_bias"))
    """The accepted options of ``GenerationOptions``, each with its field. A dot in a field leads into an object:
    ``options.top_k``.
    """
    max_tokens: str = "max_tokens"
    """The field of the token limit."""
    most_tokens: int | None = None
    """The token limit sent for a request without a limit, for a server that requires one; None: no limit is sent."""
    stop: str = "stop"
    """The field of the stop texts; empty: stop texts are not supported."""
    most_stops: int | None = None
    """The largest number of stop texts; None: any number."""
    system_role: SystemRole = "system"
    """The role of the system prompt; ``user``: it is prepended to the first message."""
    tools: bool = True
    """Whether tools are supported at all."""
    tool_choice: ToolChoices = "named"
    parallel_field: bool = True
    """Whether ``parallel_tool_calls`` (Anthropic: ``disable_parallel_tool_use``) is supported."""
    usage_option: bool = True
    """Whether a stream reports its usage only if ``stream_options`` ask for it."""
    response_format: ReplyFormat = "schema"
    strict: bool = False
    """Whether to send ``strict`` with schemas that support it, which constrains sampling to them."""
    images: bool = True
    """Whether user messages may contain images."""
    any_names: bool = False
    """Whether tool names may contain dots; else such a tool is renamed on the wire."""
    nine_ids: bool = False
    """Whether ids of calls must be nine letters and digits."""
    reply_before_user: bool = False
    """Whether a user message must not follow tool results directly. A short assistant message is then inserted."""
    tells_cuts: bool = True
    """Whether the server reports that a reply was truncated at its limit. Otherwise a reply with as many tokens as the
    limit counts as truncated, which is sometimes wrong.
    """
    reasoning_field: str = "reasoning_content"
    """The field for the reasoning of an assistant message that is sent back."""
    reasoning_back: ReasoningBack = "never"
    blank_behind_thoughts: bool = False
    """Whether the text begins with the template's white space between reasoning and text; it is then removed."""
    format: FormatSpec | None = None
    """How the model writes reasoning and calls, for a server that leaves them in the text unparsed; None: the server
    parses them.
    """
    says_why: bool = False
    """Whether the server reports a finish reason for every complete reply. A reply without a reason was then aborted.
    """
    refuses_silently: bool = False
    """Whether the server ends a reply that it can't begin without any output, usually because the prompt is too long.
    """
    thinking_on: str = field(default="", converter=_body)
    """JSON text (or a mapping) merged into the body for ``thinking=True``; empty: not supported."""
    thinking_off: str = field(default="", converter=_body)
    """The same for ``thinking=False``."""
    thinking_takes_sampling: bool = True
    """Whether sampling options and forced calls are allowed together with ``thinking_on``."""
    signature: str = ""
    """A placeholder for the signature of a call, for a server that requires one, if none was stored."""
    extra: str = field(default="", converter=_body)
    """JSON text (or a mapping) merged into every body. It overrides other fields."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of the format. Never API keys: the caller adds those."""


OPENAI = Quirks(
    max_tokens="max_completion_tokens",
    most_stops=4,
    strict=True,
    thinking_on={"reasoning_effort": "medium"},
    thinking_off={"reasoning_effort": "none"},
)
"""https://platform.openai.com/docs/api-reference/chat"""

ANTHROPIC = Quirks(
    dialect="anthropic",
    sampling=(),  # of the models from Claude Opus 4.7 on, which take none
    most_tokens=32_000,
    stop="stop_sequences",
    thinking_on={"thinking": {"type": "adaptive", "display": "summarized"}},
    thinking_off={"thinking": {"type": "disabled"}},
    thinking_takes_sampling=False,
    extra={"cache_control": {"type": "ephemeral"}},  # of the prompt, which grows from call to call
    headers=(("anthropic-version", "2023-06-01"),),
)
"""https://docs.anthropic.com/en/api/messages"""

_TEMPLATE_SWITCH: dict[str, Any] = {
    "thinking_on": {"chat_template_kwargs": {"enable_thinking": True}},
    "thinking_off": {"chat_template_kwargs": {"enable_thinking": False}},
}

QUIRKS: Mapping[str, Quirks] = {
    "openai": OPENAI,
    "responses": Quirks(
        dialect="responses",
        sampling=names("temperature", "top_p"),
        max_tokens="max_output_tokens",
        stop="",
        strict=True,
        thinking_on={"reasoning": {"effort": "medium", "summary": "auto"}},
        thinking_off={"reasoning": {"effort": "none"}},
    ),  # https://platform.openai.com/docs/api-reference/responses
    "anthropic": ANTHROPIC,
    "anthropic-budget": evolve(  # models before Claude Opus 4.6, which think only within a budget
        ANTHROPIC,
        sampling=names("temperature", "top_p", "top_k"),
        thinking_on={"thinking": {"type": "enabled", "budget_tokens": 8192}},
    ),
    "ollama": Quirks(
        dialect="ollama",
        sampling=tuple(
            (name, f"options.{name}") for name, _ in (*PLAIN, *names("repeat_penalty", "top_k", "typical_p", "min_p"))
        ),
        max_tokens="options.num_predict",
        stop="options.stop",
        tool_choice="none",
        parallel_field=False,
        any_names=True,
        reasoning_field="thinking",
        reasoning_back="always",
        thinking_on={"think": True},
        thinking_off={"think": False},
        # A prompt that is too long would be cut silently, and the oldest part of a long reply forgotten.
        extra={"truncate": False, "shift": False},
    ),  # https://github.com/ollama/ollama/blob/main/docs/api.md
    "ollama-openai": Quirks(
        sampling=PLAIN,
        tool_choice="none",
        parallel_field=False,
        any_names=True,
        reasoning_field="reasoning",
        reasoning_back="always",
        thinking_on={"reasoning_effort": "medium"},
        thinking_off={"reasoning_effort": "none"},
    ),  # https://github.com/ollama/ollama/blob/main/docs/openai.md
    "llama-server": Quirks(
        sampling=(*OPENAI.sampling, *names("top_k", "min_p", "typical_p", "repeat_penalty")),
        tool_choice="words",
        any_names=True,
        reasoning_back="always",
        **_TEMPLATE_SWITCH,
    ),  # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
    "llama-server-responses": Quirks(
        dialect="responses",
        sampling=(*PLAIN, *names("top_k", "min_p", "typical_p", "repeat_penalty")),
        max_tokens="max_output_tokens",
        tool_choice="words",
        response_format="none",
        any_names=True,
        tells_cuts=False,  # each reply is "completed"
        **_TEMPLATE_SWITCH,
    ),  # the same server's route /v1/responses
    "llama-cpp-python": Quirks(
        sampling=(*OPENAI.sampling, *names("top_k", "min_p", "repeat_penalty")),
        parallel_field=False,
        tool_choice="names",
        response_format="object_schema",
        any_names=True,
        format=HERMES,  # most templates' way; which one a model has is not told
        says_why=True,
        refuses_silently=True,
    ),  # https://github.com/abetlen/llama-cpp-python
    "vllm": Quirks(
        sampling=(*OPENAI.sampling, *names("top_k", "min_p", repeat_penalty="repetition_penalty")),
        any_names=True,
        reasoning_field="reasoning",
        blank_behind_thoughts=True,
        reasoning_back="always",
        **_TEMPLATE_SWITCH,
    ),  # https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
    "mlx": Quirks(
        sampling=(*OPENAI.sampling, *names("top_k", "min_p", repeat_penalty="repetition_penalty")),
        tool_choice="none",
        parallel_field=False,
        response_format="none",
        images=False,
        any_names=True,
        reasoning_field="reasoning",
        blank_behind_thoughts=True,
        reasoning_back="always",
        **_TEMPLATE_SWITCH,
    ),  # https://github.com/ml-explore/mlx-lm/blob/main/mlx_lm/SERVER.md
    "deepseek": Quirks(
        sampling=names("temperature", "top_p", *PENALTIES),
        most_stops=16,
        parallel_field=False,
        response_format="object",
        images=False,
        reasoning_back="calls",  # without it the server refuses the request
        thinking_on={"thinking": {"type": "enabled"}},
        thinking_off={"thinking": {"type": "disabled"}},
    ),  # https://api-docs.deepseek.com
    "openrouter": Quirks(
        sampling=(*OPENAI.sampling, *names("top_k", "min_p", repeat_penalty="repetition_penalty")),
        most_stops=4,
        reasoning_field="reasoning",
        reasoning_back="always",
        thinking_on={"reasoning": {"enabled": True}},
        thinking_off={"reasoning": {"enabled": False}},
        extra={"usage": {"include": True}},  # what a reply cost
    ),  # https://openrouter.ai/docs/api-reference/overview
    "groq": Quirks(
        sampling=PLAIN,
        max_tokens="max_completion_tokens",
        most_stops=4,
        thinking_on={"reasoning_effort": "default"},
        thinking_off={"reasoning_effort": "none"},
    ),  # https://console.groq.com/docs/api-reference
    "mistral": Quirks(
        sampling=(*names("temperature", "top_p", seed="random_seed"), *names(*PENALTIES)),
        usage_option=False,
        nine_ids=True,
        reply_before_user=True,
    ),  # https://docs.mistral.ai/api
    "gemini": Quirks(
        sampling=PLAIN,
        parallel_field=False,
        thinking_on={"reasoning_effort": "medium"},
        thinking_off={"reasoning_effort": "none"},
        signature="skip_thought_signature_validator",
    ),  # https://ai.google.dev/gemini-api/docs/openai
}
"""Quirks by the server's name, as used in ``dialect/model``."""

DEFAULTS: Mapping[Dialect, Quirks] = {dialect: QUIRKS[dialect] for dialect in get_args(Dialect)}
"""The quirks of each format's own server."""

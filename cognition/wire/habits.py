"""How servers depart from the documented form of the API that they speak: data, one entry a server.

What a server is not said to take is left out of a request, with a warning that names it, since some servers refuse what
they don't know and others read over it. A server that is not here has the habits of its nearest kin::

    evolve(HABITS["vllm"], images=False, extra='{"top_n_sigma": 1}')
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from attrs import evolve, field, frozen

from cognition.checking import checked
from cognition.errors import ConfigError
from cognition.parsing.formats import HERMES
from cognition.parsing.spec import FormatSpec

Dialect = Literal["openai", "responses", "anthropic", "ollama"]
"""A wire format.

=============  ================================================================  ======================
``openai``     OpenAI's chat completions, which most other servers speak too     server-sent events
``responses``  OpenAI's responses                                                server-sent events
``anthropic``  Anthropic's messages                                              server-sent events
``ollama``     Ollama's chat                                                     JSON, an object a line
=============  ================================================================  ======================
"""

SystemRole = Literal["system", "developer", "user"]
ToolChoices = Literal["named", "words", "names", "none"]
"""What a server takes to say whether to call: ``auto``, ``none``, ``required`` and names of tools, the words alone,
names alone, or nothing."""

ReplyFormat = Literal["schema", "object_schema", "object", "none"]
"""How a reply can be held to a schema: by ``json_schema``, by ``json_object`` with a schema, only to be JSON, or not at
all."""

ReasoningBack = Literal["never", "calls", "always"]
"""Which messages go back with what the model thought: none, those with calls (then even where it is empty), or all."""


def _body(text: str | Mapping[str, Any]) -> str:
    """JSON text of an object; empty stands for ``{}``."""
    try:
        value = json.loads(text or "{}") if isinstance(text, str) else text
        if not isinstance(value, Mapping):
            raise ValueError("it is no object")
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"what a request's body has besides must be a JSON object: {error}") from error


def names(**fields: str) -> tuple[tuple[str, str], ...]:
    """Options with the fields that stand for them."""
    return tuple(fields.items())


PLAIN = names(
    temperature="temperature",
    top_p="top_p",
    seed="seed",
    frequency_penalty="frequency_penalty",
    presence_penalty="presence_penalty",
)


@checked
@frozen(kw_only=True)
class Habits:
    """What a server takes, and how it calls it. The defaults are those of OpenAI's chat completions."""

    dialect: Dialect = "openai"
    """The format that these are habits of."""
    sampling: tuple[tuple[str, str], ...] = (*PLAIN, ("logit_bias", "logit_bias"))
    """The options of ``GenerationOptions`` that are taken, each with its field; a dot leads into an object:
    ``options.top_k``."""
    max_tokens: str = "max_tokens"
    """The field of the reply's limit."""
    most_tokens: int | None = None
    """The limit that is sent where a request has none, of a server that insists on one; None: none is sent."""
    stop: str = "stop"
    """The field of the stop texts; empty: they are not taken."""
    most_stops: int | None = None
    """How many of them are taken; None: any number."""
    system_role: SystemRole = "system"
    """The role of the system prompt; ``user``: it stands in front of the first message."""
    tools: bool = True
    """Whether tools are taken at all."""
    tool_choice: ToolChoices = "named"
    parallel_field: bool = True
    """Whether ``parallel_tool_calls`` (of Anthropic ``disable_parallel_tool_use``) is taken."""
    usage_option: bool = True
    """Whether a stream tells its usage only where ``stream_options`` ask for it."""
    response_format: ReplyFormat = "schema"
    strict: bool = False
    """Whether ``strict`` is said of schemas, which holds sampling to those of the kind that it takes."""
    images: bool = True
    """Whether messages of the user may hold pictures."""
    any_names: bool = False
    """Whether names of tools may have dots; else such a tool goes by another name."""
    nine_ids: bool = False
    """Whether ids of calls must have nine letters and digits."""
    reply_before_user: bool = False
    """Whether no message of the user may follow results at once: then one of the model's, of a word, stands between."""
    tells_cuts: bool = True
    """Whether a reply that was cut at its limit is told from one that had ended. Otherwise one that has as many tokens
    as were allowed counts as cut, which now and then it was not."""
    reasoning_field: str = "reasoning_content"
    """Where a message that goes back has what the model thought."""
    reasoning_back: ReasoningBack = "never"
    blank_behind_thoughts: bool = False
    """Whether the template's white space between what the model thought and its text stands in front of the text."""
    format: FormatSpec | None = None
    """How the model writes thoughts and calls, of a server that leaves them in the text as they were written; None: it
    reads them itself."""
    says_why: bool = False
    """Whether the server says of every whole reply why it ended, so that one of which it says nothing was given up."""
    refuses_silently: bool = False
    """Whether a reply that the server can't begin ends without a word, which as a rule is one to a long prompt."""
    thinking_on: str = field(default="", converter=_body)
    """What the body has for ``thinking=True``, as JSON text (a mapping is encoded); empty: it can't be said."""
    thinking_off: str = field(default="", converter=_body)
    """The same for ``thinking=False``."""
    thinking_takes_sampling: bool = True
    """Whether sampling options, and forced calls, may stand beside ``thinking_on``."""
    signature: str = ""
    """What stands for the signature of a call, of a server that wants one back which was not kept."""
    extra: str = field(default="", converter=_body)
    """What every body has besides, in the same form. It wins over what stands there."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of the format. Never keys: those are the caller's to add."""


OPENAI = Habits(
    max_tokens="max_completion_tokens",
    most_stops=4,
    strict=True,
    thinking_on={"reasoning_effort": "medium"},
    thinking_off={"reasoning_effort": "none"},
)
"""https://platform.openai.com/docs/api-reference/chat"""

ANTHROPIC = Habits(
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

HABITS: Mapping[str, Habits] = {
    "openai": OPENAI,
    "responses": Habits(
        dialect="responses",
        sampling=names(temperature="temperature", top_p="top_p"),
        max_tokens="max_output_tokens",
        stop="",
        strict=True,
        thinking_on={"reasoning": {"effort": "medium", "summary": "auto"}},
        thinking_off={"reasoning": {"effort": "none"}},
    ),  # https://platform.openai.com/docs/api-reference/responses
    "anthropic": ANTHROPIC,
    "anthropic-budget": evolve(  # models before Claude Opus 4.6, which think only within a budget
        ANTHROPIC,
        sampling=names(temperature="temperature", top_p="top_p", top_k="top_k"),
        thinking_on={"thinking": {"type": "enabled", "budget_tokens": 8192}},
    ),
    "ollama": Habits(
        dialect="ollama",
        sampling=names(
            temperature="options.temperature",
            top_p="options.top_p",
            seed="options.seed",
            frequency_penalty="options.frequency_penalty",
            presence_penalty="options.presence_penalty",
            repeat_penalty="options.repeat_penalty",
            top_k="options.top_k",
            typical_p="options.typical_p",
            min_p="options.min_p",
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
    "ollama-openai": Habits(
        sampling=PLAIN,
        tool_choice="none",
        parallel_field=False,
        any_names=True,
        reasoning_field="reasoning",
        reasoning_back="always",
        thinking_on={"reasoning_effort": "medium"},
        thinking_off={"reasoning_effort": "none"},
    ),  # https://github.com/ollama/ollama/blob/main/docs/openai.md
    "llama-server": Habits(
        sampling=(
            *OPENAI.sampling,
            *names(top_k="top_k", min_p="min_p", typical_p="typical_p", repeat_penalty="repeat_penalty"),
        ),
        tool_choice="words",
        any_names=True,
        reasoning_back="always",
        **_TEMPLATE_SWITCH,
    ),  # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
    "llama-server-responses": Habits(
        dialect="responses",
        sampling=(
            *PLAIN,
            *names(top_k="top_k", min_p="min_p", typical_p="typical_p", repeat_penalty="repeat_penalty"),
        ),
        max_tokens="max_output_tokens",
        tool_choice="words",
        response_format="none",
        any_names=True,
        tells_cuts=False,  # each reply is "completed"
        **_TEMPLATE_SWITCH,
    ),  # the same server's route /v1/responses
    "llama-cpp-python": Habits(
        sampling=(
            *OPENAI.sampling,
            *names(top_k="top_k", min_p="min_p", repeat_penalty="repeat_penalty"),
        ),
        parallel_field=False,
        tool_choice="names",
        response_format="object_schema",
        any_names=True,
        format=HERMES,  # most templates' way; which one a model has is not told
        says_why=True,
        refuses_silently=True,
    ),  # https://github.com/abetlen/llama-cpp-python
    "vllm": Habits(
        sampling=(
            *OPENAI.sampling,
            *names(top_k="top_k", min_p="min_p", repeat_penalty="repetition_penalty"),
        ),
        any_names=True,
        reasoning_field="reasoning",
        blank_behind_thoughts=True,
        reasoning_back="always",
        **_TEMPLATE_SWITCH,
    ),  # https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
    "mlx": Habits(
        sampling=(
            *OPENAI.sampling,
            *names(top_k="top_k", min_p="min_p", repeat_penalty="repetition_penalty"),
        ),
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
    "deepseek": Habits(
        sampling=names(
            temperature="temperature",
            top_p="top_p",
            frequency_penalty="frequency_penalty",
            presence_penalty="presence_penalty",
        ),
        most_stops=16,
        parallel_field=False,
        response_format="object",
        images=False,
        reasoning_back="calls",  # without it the server refuses the request
        thinking_on={"thinking": {"type": "enabled"}},
        thinking_off={"thinking": {"type": "disabled"}},
    ),  # https://api-docs.deepseek.com
    "openrouter": Habits(
        sampling=(
            *OPENAI.sampling,
            *names(top_k="top_k", min_p="min_p", repeat_penalty="repetition_penalty"),
        ),
        most_stops=4,
        reasoning_field="reasoning",
        reasoning_back="always",
        thinking_on={"reasoning": {"enabled": True}},
        thinking_off={"reasoning": {"enabled": False}},
        extra={"usage": {"include": True}},  # what a reply cost
    ),  # https://openrouter.ai/docs/api-reference/overview
    "groq": Habits(
        sampling=PLAIN,
        max_tokens="max_completion_tokens",
        most_stops=4,
        thinking_on={"reasoning_effort": "default"},
        thinking_off={"reasoning_effort": "none"},
    ),  # https://console.groq.com/docs/api-reference
    "mistral": Habits(
        sampling=names(
            temperature="temperature",
            top_p="top_p",
            seed="random_seed",
            frequency_penalty="frequency_penalty",
            presence_penalty="presence_penalty",
        ),
        usage_option=False,
        nine_ids=True,
        reply_before_user=True,
    ),  # https://docs.mistral.ai/api
    "gemini": Habits(
        sampling=PLAIN,
        parallel_field=False,
        thinking_on={"reasoning_effort": "medium"},
        thinking_off={"reasoning_effort": "none"},
        signature="skip_thought_signature_validator",
    ),  # https://ai.google.dev/gemini-api/docs/openai
}
"""Servers by the name that ``dialect/model`` and the like have for them."""

DEFAULTS: Mapping[Dialect, Habits] = {
    "openai": HABITS["openai"],
    "responses": HABITS["responses"],
    "anthropic": HABITS["anthropic"],
    "ollama": HABITS["ollama"],
}
"""The habits of each format's own server."""

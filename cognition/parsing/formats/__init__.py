"""Formats of model families, one short module each: the wire format in its docstring, then the same as data."""

from collections.abc import Mapping

from cognition.parsing.formats.bare_json import BARE_JSON
from cognition.parsing.formats.glm import GLM
from cognition.parsing.formats.hermes import HERMES, HERMES_THINKING
from cognition.parsing.formats.llama3 import LLAMA3
from cognition.parsing.formats.mistral import MISTRAL, MISTRAL_LIST
from cognition.parsing.formats.plain import PLAIN
from cognition.parsing.formats.qwen3_coder import QWEN3_CODER
from cognition.parsing.formats.tool_calls_list import NEMOTRON_NANO, TOOL_CALLS_LIST
from cognition.parsing.spec import FormatSpec

FORMATS: Mapping[str, FormatSpec] = {
    spec.name: spec
    for spec in (
        PLAIN,
        HERMES,
        HERMES_THINKING,
        LLAMA3,
        BARE_JSON,
        MISTRAL,
        MISTRAL_LIST,
        TOOL_CALLS_LIST,
        NEMOTRON_NANO,
        QWEN3_CODER,
        GLM,
    )
}
"""All written formats by name."""

__all__ = [
    "BARE_JSON",
    "FORMATS",
    "GLM",
    "HERMES",
    "HERMES_THINKING",
    "LLAMA3",
    "MISTRAL",
    "MISTRAL_LIST",
    "NEMOTRON_NANO",
    "PLAIN",
    "QWEN3_CODER",
    "TOOL_CALLS_LIST",
]

"""Formats of model families, one short module each: the wire format in its docstring, then the same as data."""

from collections.abc import Mapping

from cognition.parsing.formats.apertus import APERTUS
from cognition.parsing.formats.bare_json import BARE_JSON
from cognition.parsing.formats.cohere import COMMAND_R, COMMAND_R7B
from cognition.parsing.formats.deepseek import DEEPSEEK_R1, DEEPSEEK_V3_1, DEEPSEEK_V3_2, DEEPSEEK_V4
from cognition.parsing.formats.firefunction import FIREFUNCTION
from cognition.parsing.formats.functionary import FUNCTIONARY_3_1, FUNCTIONARY_3_2
from cognition.parsing.formats.gemma import FUNCTIONGEMMA, GEMMA4
from cognition.parsing.formats.gigachat import GIGACHAT, GIGACHAT_3_1
from cognition.parsing.formats.glm import GLM
from cognition.parsing.formats.gpt_oss import GPT_OSS
from cognition.parsing.formats.granite import GRANITE
from cognition.parsing.formats.hermes import HERMES, HERMES_THINKING
from cognition.parsing.formats.hunyuan import HUNYUAN3
from cognition.parsing.formats.kimi import KIMI_K2, KIMI_K3
from cognition.parsing.formats.lfm2 import LFM2
from cognition.parsing.formats.llama3 import LLAMA3
from cognition.parsing.formats.llama4 import LLAMA4
from cognition.parsing.formats.minicpm import MINICPM5
from cognition.parsing.formats.minimax import MINIMAX_M1, MINIMAX_M2, MINIMAX_M3
from cognition.parsing.formats.mistral import MISTRAL, MISTRAL_LIST
from cognition.parsing.formats.muse import MUSE
from cognition.parsing.formats.olmo import OLMO3
from cognition.parsing.formats.phi4 import PHI4_MINI
from cognition.parsing.formats.plain import PLAIN
from cognition.parsing.formats.qwen3_coder import QWEN3_CODER
from cognition.parsing.formats.seed_oss import SEED_OSS
from cognition.parsing.formats.solar import SOLAR_OPEN
from cognition.parsing.formats.tool_calls_list import APRIEL_1_6, NEMOTRON_NANO, TOOL_CALLS_LIST
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
        APERTUS,
        APRIEL_1_6,
        COMMAND_R7B,
        COMMAND_R,
        DEEPSEEK_R1,
        DEEPSEEK_V3_1,
        DEEPSEEK_V3_2,
        DEEPSEEK_V4,
        FIREFUNCTION,
        FUNCTIONARY_3_1,
        FUNCTIONARY_3_2,
        FUNCTIONGEMMA,
        GEMMA4,
        GIGACHAT,
        GIGACHAT_3_1,
        GPT_OSS,
        GRANITE,
        HUNYUAN3,
        KIMI_K2,
        KIMI_K3,
        LFM2,
        LLAMA4,
        MINICPM5,
        MINIMAX_M1,
        MINIMAX_M2,
        MINIMAX_M3,
        MUSE,
        OLMO3,
        PHI4_MINI,
        SEED_OSS,
        SOLAR_OPEN,
    )
}
"""All written formats by name."""

__all__ = [
    "APERTUS",
    "APRIEL_1_6",
    "BARE_JSON",
    "COMMAND_R",
    "COMMAND_R7B",
    "DEEPSEEK_R1",
    "DEEPSEEK_V3_1",
    "DEEPSEEK_V3_2",
    "DEEPSEEK_V4",
    "FIREFUNCTION",
    "FORMATS",
    "FUNCTIONARY_3_1",
    "FUNCTIONARY_3_2",
    "FUNCTIONGEMMA",
    "GEMMA4",
    "GIGACHAT",
    "GIGACHAT_3_1",
    "GLM",
    "GPT_OSS",
    "GRANITE",
    "HERMES",
    "HERMES_THINKING",
    "HUNYUAN3",
    "KIMI_K2",
    "KIMI_K3",
    "LFM2",
    "LLAMA3",
    "LLAMA4",
    "MINICPM5",
    "MINIMAX_M1",
    "MINIMAX_M2",
    "MINIMAX_M3",
    "MISTRAL",
    "MISTRAL_LIST",
    "MUSE",
    "NEMOTRON_NANO",
    "OLMO3",
    "PHI4_MINI",
    "PLAIN",
    "QWEN3_CODER",
    "SEED_OSS",
    "SOLAR_OPEN",
    "TOOL_CALLS_LIST",
]

"""Formats of model families, one short module each: the wire format in its docstring, then the same as data."""

from collections.abc import Mapping

from cognition.parsing.formats._apertus import APERTUS as APERTUS
from cognition.parsing.formats._bare_json import BARE_JSON as BARE_JSON
from cognition.parsing.formats._cohere import COMMAND_R as COMMAND_R, COMMAND_R7B as COMMAND_R7B
from cognition.parsing.formats._deepseek import (
    DEEPSEEK_R1 as DEEPSEEK_R1,
    DEEPSEEK_V3_1 as DEEPSEEK_V3_1,
    DEEPSEEK_V3_2 as DEEPSEEK_V3_2,
    DEEPSEEK_V4 as DEEPSEEK_V4,
)
from cognition.parsing.formats._firefunction import FIREFUNCTION as FIREFUNCTION
from cognition.parsing.formats._functionary import (
    FUNCTIONARY_3_1 as FUNCTIONARY_3_1,
    FUNCTIONARY_3_2 as FUNCTIONARY_3_2,
)
from cognition.parsing.formats._gemma import FUNCTIONGEMMA as FUNCTIONGEMMA, GEMMA4 as GEMMA4
from cognition.parsing.formats._gigachat import GIGACHAT as GIGACHAT, GIGACHAT_3_1 as GIGACHAT_3_1
from cognition.parsing.formats._glm import GLM as GLM
from cognition.parsing.formats._gpt_oss import GPT_OSS as GPT_OSS
from cognition.parsing.formats._granite import GRANITE as GRANITE
from cognition.parsing.formats._hermes import HERMES as HERMES, HERMES_THINKING as HERMES_THINKING
from cognition.parsing.formats._hunyuan import HUNYUAN3 as HUNYUAN3
from cognition.parsing.formats._kimi import KIMI_K2 as KIMI_K2, KIMI_K3 as KIMI_K3
from cognition.parsing.formats._lfm2 import LFM2 as LFM2
from cognition.parsing.formats._llama3 import LLAMA3 as LLAMA3
from cognition.parsing.formats._llama4 import LLAMA4 as LLAMA4
from cognition.parsing.formats._minicpm import MINICPM5 as MINICPM5
from cognition.parsing.formats._minimax import (
    MINIMAX_M1 as MINIMAX_M1,
    MINIMAX_M2 as MINIMAX_M2,
    MINIMAX_M3 as MINIMAX_M3,
)
from cognition.parsing.formats._mistral import MISTRAL as MISTRAL, MISTRAL_LIST as MISTRAL_LIST
from cognition.parsing.formats._muse import MUSE as MUSE
from cognition.parsing.formats._olmo import OLMO3 as OLMO3
from cognition.parsing.formats._phi4 import PHI4_MINI as PHI4_MINI
from cognition.parsing.formats._plain import PLAIN as PLAIN
from cognition.parsing.formats._qwen3_coder import QWEN3_CODER as QWEN3_CODER
from cognition.parsing.formats._seed_oss import SEED_OSS as SEED_OSS
from cognition.parsing.formats._solar import SOLAR_OPEN as SOLAR_OPEN
from cognition.parsing.formats._tool_calls_list import (
    APRIEL_1_6 as APRIEL_1_6,
    NEMOTRON_NANO as NEMOTRON_NANO,
    TOOL_CALLS_LIST as TOOL_CALLS_LIST,
)
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
"""All handwritten formats by name, in the order of trial on a template that could not be derived."""

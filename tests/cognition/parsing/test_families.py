"""One reply and more for each family, as its models write them, read in every cut.

What llama.cpp's own tests (``tests/test-chat.cpp``) hold to be right of these families is stated here too, with other
names and values.
"""

from __future__ import annotations

import pytest
from attrs import evolve

from cognition.parsing import CallFormat, FormatSpec, ReasoningMarkers, Reply, parse_reply
from cognition.parsing.formats import (
    APERTUS,
    APRIEL_1_6,
    COMMAND_R,
    COMMAND_R7B,
    DEEPSEEK_R1,
    DEEPSEEK_V3_1,
    DEEPSEEK_V4,
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
    MINICPM5,
    MINIMAX_M2,
    MUSE,
    OLMO3,
    PHI4_MINI,
    SEED_OSS,
    SOLAR_OPEN,
)
from cognition.values.messages import MalformedToolCall, ProposedCall
from tests.cognition.parsing.replies import read

Z = '{"q": "zebra"}'
LOOKUP = ProposedCall("lookup", Z)
NOW = ProposedCall("now", "{}")
ANALYSIS = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"

LED = FormatSpec("led", ReasoningMarkers("<think>", "</think>"), lead="助手：")

HARMONY = {
    "an answer": ("<|channel|>final<|message|>Hi.<|return|>", Reply("Hi.")),
    "reasoning and an answer": (f"{ANALYSIS}<|channel|>final<|message|>Hi.<|return|>", Reply("Hi.", "hm")),
    "a call in the commentary": (
        f"{ANALYSIS}<|channel|>commentary to=functions.lookup <|constrain|>json<|message|>{Z}<|call|>",
        Reply("", "hm", (LOOKUP,)),
    ),
    "a call without a word on its type": (
        f"<|channel|>commentary to=functions.lookup<|message|>{Z}<|call|>",
        Reply(tool_calls=(LOOKUP,)),
    ),
    "a call in the analysis": (
        f"<|channel|>analysis to=functions.lookup <|constrain|>json<|message|>{Z}<|call|>",
        Reply(tool_calls=(LOOKUP,)),
    ),
    "a recipient before the channel": (
        f" to=functions.lookup<|channel|>commentary json<|message|>{Z}<|call|>",
        Reply(tool_calls=(LOOKUP,)),
    ),
    "the same after reasoning": (
        f"{ANALYSIS} to=functions.lookup<|channel|>analysis<|message|>{Z}<|call|>",
        Reply("", "hm", (LOOKUP,)),
    ),
    "a word to the user before a call": (
        f"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.lookup"
        f" <|constrain|>json<|message|>{Z}<|call|>",
        Reply("I look.", "", (LOOKUP,)),
    ),
    "an answer in JSON": (
        '<|channel|>final <|constrain|>json<|message|>{"a": 1}<|return|>',
        Reply('{"a": 1}'),
    ),
    "markers within an argument": (
        ' to=functions.lookup<|channel|>commentary json<|message|>{"q": "<|call|><|end|>"}<|call|>',
        Reply(tool_calls=(ProposedCall("lookup", '{"q": "<|call|><|end|>"}'),)),
    ),
    "a note to itself before the answer": (
        "<|channel|>commentary to=assistant<|channel|>final<|message|>Hi.<|return|>",
        Reply("Hi."),
    ),
    "nothing at all": ("", Reply()),
}

REPLIES: dict[str, tuple[FormatSpec, str, Reply]] = {
    **{f"gpt-oss, {name}": (GPT_OSS, raw, reply) for name, (raw, reply) in HARMONY.items()},
    "Apertus": (
        APERTUS,
        f'Hi.<|tools_prefix|>[{{"lookup": {Z}}}, {{"now": {{}}}}]<|tools_suffix|><|assistant_end|>',
        Reply("Hi.", "", (LOOKUP, NOW)),
    ),
    "Apriel 1.6, whose prompt began the reasoning": (
        APRIEL_1_6,
        f'hm\n[BEGIN FINAL RESPONSE]\nHi.\n<tool_calls>[{{"name": "lookup", "arguments": {Z}}}]</tool_calls>\n<|end|>',
        Reply("Hi.", "hm", (LOOKUP,)),
    ),
    "Command R": (
        COMMAND_R,
        f'\nAction:\n```json\n[\n    {{\n        "tool_name": "lookup",\n        "parameters": {Z}\n    }}\n]```\n',
        Reply(tool_calls=(LOOKUP,)),
    ),
    "Command R7B": (
        COMMAND_R7B,
        "<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>[\n"
        f'    {{"tool_call_id": "0", "tool_name": "lookup", "parameters": {Z}}},\n'
        '    {"tool_call_id": "1", "tool_name": "now", "parameters": {}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>',
        Reply("", "hm", (LOOKUP, NOW)),
    ),
    "Command R7B, an answer": (
        COMMAND_R7B,
        "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Hi.<|END_RESPONSE|>",
        Reply("Hi.", "hm"),
    ),
    "DeepSeek R1, two calls": (
        DEEPSEEK_R1,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>lookup\n```json\n"
        + Z
        + "\n```<｜tool▁call▁end｜>\n"
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        Reply(tool_calls=(LOOKUP, NOW)),
    ),
    "DeepSeek V3.1": (
        DEEPSEEK_V3_1,
        "</think>Hi.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>lookup<｜tool▁sep｜>" + Z + "<｜tool▁call▁end｜>"
        "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        Reply("Hi.", "", (LOOKUP, NOW)),
    ),
    "DeepSeek V4": (
        DEEPSEEK_V4,
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="lookup">\n'
        '<｜DSML｜parameter name="q" string="true">zebra</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        '<｜DSML｜invoke name="now">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls><｜end▁of▁sentence｜>',
        Reply(tool_calls=(LOOKUP, NOW)),
    ),
    "Functionary 3.2": (
        FUNCTIONARY_3_2,
        f"all\nHi.>>>lookup\n{Z}>>>now\n{{}}<|eot_id|>",
        Reply("Hi.", "", (LOOKUP, NOW)),
    ),
    "FunctionGemma": (
        FUNCTIONGEMMA,
        "<start_function_call>call:lookup{q:<escape>zebra<escape>}<end_function_call>",
        Reply(tool_calls=(LOOKUP,)),
    ),
    "Gemma 4": (
        GEMMA4,
        "<|channel>thought\nhm<channel|><|tool_call>call:f{b:[1,{c:null}],"
        'q:<|"|>it\'s {x} <tool_call|><|"|>}<tool_call|>'
        "<|tool_call>call:now{}<tool_call|><turn|>",
        Reply("", "hm", (ProposedCall("f", '{"b": [1, {"c": null}], "q": "it\'s {x} <tool_call|>"}'), NOW)),
    ),
    "Gemma 4, a string that is not closed": (
        GEMMA4,
        '<|tool_call>call:f{q:<|"|>a}<tool_call|> Hi.',
        Reply("Hi.", malformed=(MalformedToolCall('call:f{q:<|"|>a}', "a string is not closed"),)),
    ),
    "GigaChat 3": (
        GIGACHAT,
        f'Hi.<|message_sep|>\n\nfunction call<|role_sep|>\n{{"name": "lookup", "arguments": {Z}}}<|message_sep|>\n\n',
        Reply("Hi.", "", (LOOKUP,)),
    ),
    "GigaChat 3.1": (
        GIGACHAT_3_1,
        f'<|function_call|>{{"name": "lookup", "arguments": {Z}}}<|message_sep|>\n\n',
        Reply(tool_calls=(LOOKUP,)),
    ),
    "Granite 3.3": (
        GRANITE,
        f'<think>hm</think><response>Hi.</response><|tool_call|>[{{"name": "lookup", "arguments": {Z}}}]',
        Reply("Hi.", "hm", (LOOKUP,)),
    ),
    "Hunyuan 3": (
        HUNYUAN3,
        "<tool_calls:opensource>\n<tool_call:opensource>lookup<tool_sep:opensource>\n<arg_key:opensource>q"
        "</arg_key:opensource>\n<arg_value:opensource>zebra</arg_value:opensource>\n</tool_call:opensource>\n"
        "</tool_calls:opensource><｜hy_eos:opensource｜>",
        Reply(tool_calls=(LOOKUP,)),
    ),
    "Kimi K2, two calls with ids": (
        KIMI_K2,
        "Hi.<|tool_calls_section_begin|><|tool_call_begin|>functions.lookup:0<|tool_call_argument_begin|>"
        f"{Z}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
        "<|tool_calls_section_end|><|im_end|>",
        Reply("Hi.", "", (LOOKUP, NOW)),
    ),
    "Kimi K3": (
        KIMI_K3,
        "<|open|>think<|sep|>hm<|close|>think<|sep|><|open|>response<|sep|>Hi.<|close|>response<|sep|>"
        '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
        '<|open|>argument key="a" type="string"<|sep|>5<|close|>argument<|sep|>'
        '<|open|>argument key="b" type="number"<|sep|>5<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>",
        Reply("Hi.", "hm", (ProposedCall("f", '{"a": "5", "b": 5}'),)),
    ),
    "LFM2": (
        LFM2,
        "Hi.<|tool_call_start|>[lookup(q='zebra'), f(a=[1, -2.5], b={'c': None}, d=\"it's\"), now()]<|tool_call_end|>",
        Reply("Hi.", "", (LOOKUP, ProposedCall("f", '{"a": [1, -2.5], "b": {"c": null}, "d": "it\'s"}'), NOW)),
    ),
    "LFM2, one call without the list": (
        LFM2,
        "<|tool_call_start|>lookup(q='zebra')<|tool_call_end|>",
        Reply(tool_calls=(LOOKUP,)),
    ),
    "LFM2, keys that are no words": (
        LFM2,
        "<|tool_call_start|>[f('a b'='x', 'c-d'={'e f': 1}, größe=2)]<|tool_call_end|>",
        Reply(tool_calls=(ProposedCall("f", '{"a b": "x", "c-d": {"e f": 1}, "größe": 2}'),)),
    ),
    "LFM2, a quotation mark that is not escaped": (
        LFM2,
        "<|tool_call_start|>[f(q='it's')]<|tool_call_end|>!",
        Reply("!", "", (ProposedCall("f", '{"q": "it\'s"}', ("unescaped quotation mark",)),)),
    ),
    "LFM2, a call that is none beside one that is": (
        LFM2,
        "<|tool_call_start|>[lookup(q='zebra'), f(x)]<|tool_call_end|>!",
        Reply("!", "", (LOOKUP,), (MalformedToolCall("f(x)", "'=' was expected at character 23, not ')]'"),)),
    ),
    "Olmo 3": (
        OLMO3,
        "Hi.<function_calls>\nlookup(q='zebra')\n\nf(a=[1, -2.5], b={'c': null, 'd': true})\nnow()\n</function_calls>",
        Reply("Hi.", "", (LOOKUP, ProposedCall("f", '{"a": [1, -2.5], "b": {"c": null, "d": true}}'), NOW)),
    ),
    "Olmo 3, two calls in a line": (
        OLMO3,
        "<function_calls>lookup(q='zebra') now()</function_calls>",
        Reply(
            tool_calls=(LOOKUP,),
            malformed=(MalformedToolCall("now()", "',' or ']' was expected after a call, not 'now()'"),),
        ),
    ),
    "a lead is taken off where the text begins": (
        LED,
        "<think>Hm.</think>\n助手：Hi. 助手：again",
        Reply("Hi. 助手：again", "Hm."),
    ),
    "a lead behind text is text": (
        LED,
        "Hi, 助手：again",
        Reply("Hi, 助手：again"),
    ),
    "a lead behind text that holds a call in its middle": (
        evolve(LED, calls=CallFormat("json_object", anywhere=True)),
        'Hi.\n{"name": "now", "arguments": {}} 助手：again',
        Reply("Hi.\n 助手：again", "", (NOW,)),
    ),
    "MiniCPM 5, a text in CDATA": (
        MINICPM5,
        '<function name="f"><param name="q"><![CDATA[a <b>]]></param></function><|im_end|>',
        Reply(tool_calls=(ProposedCall("f", '{"q": "a <b>"}'),)),
    ),
    "MiniMax M2": (
        MINIMAX_M2,
        'hm</think>\n\n<minimax:tool_call>\n<invoke name="lookup">\n<parameter name="q">zebra</parameter>\n</invoke>\n'
        '<invoke name="now">\n</invoke>\n</minimax:tool_call>[e~[\n',
        Reply("hm", "", (LOOKUP, NOW)),
    ),
    "Muse": (
        MUSE,
        ' to=self<|message|>hm<|eom|><|start|>assistant to=lookup<|message|><atem:function_calls>\n<atem:invoke name="'
        'lookup">\n<atem:parameter name="q">zebra</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eot|>',
        Reply("", "hm", (LOOKUP,)),
    ),
    "Phi-4-mini": (
        PHI4_MINI,
        f'<|tool_call|>[{{"name": "lookup", "arguments": {Z}}}]<|/tool_call|><|end|>',
        Reply(tool_calls=(LOOKUP,)),
    ),
    "Seed-OSS": (
        SEED_OSS,
        "<seed:think>hm</seed:think>\n<seed:tool_call>\n<function=lookup>\n<parameter=q>zebra</parameter>\n</function>\n"
        "</seed:tool_call><seed:eos>",
        Reply("", "hm", (LOOKUP,)),
    ),
    "Solar Open": (
        SOLAR_OPEN,
        "<|think|>hm<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>lookup"
        f"<|tool_call:args|>{Z}<|tool_call:end|><|calls|>",
        Reply("", "hm", (LOOKUP,)),
    ),
}


@pytest.mark.parametrize(("spec", "raw", "expected"), REPLIES.values(), ids=list(REPLIES))
def test_a_family_is_read_as_it_writes(spec: FormatSpec, raw: str, expected: Reply) -> None:
    """The stated reply comes of it, whole, character by character, and cut in two at each place."""
    whole = read(spec, [raw])

    assert expected == parse_reply(spec, raw)
    assert whole == read(spec, raw)
    for place in range(len(raw)):
        assert whole == read(spec, [raw[:place], raw[place:]])

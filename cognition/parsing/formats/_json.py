"""Formats whose arguments are JSON: calls as JSON objects, and names before a JSON object; and plain text."""

from __future__ import annotations

from attrs import evolve

from cognition.parsing.spec import CallFormat, FormatSpec, HeaderMarkers, JsonFields, ReasoningMarkers

PLAIN = FormatSpec("plain")
"""Plain text: no reasoning, no calls. For models whose template knows neither, and for raw output."""

HERMES = FormatSpec(
    "hermes",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", start="<tool_call>", end="</tool_call>", separator="\n"),
    stops=("<|im_end|>",),
)
"""Hermes: one JSON object in tags for each call. Qwen2.5, Qwen3, Hermes 2 and 3, Granite 4, SmolLM3, ours.

::

    <think>
    The user wants a product.
    </think>

    Let me multiply.
    <tool_call>
    {"name": "multiply", "arguments": {"a": 17, "b": 23}}
    </tool_call>
    <tool_call>
    {"name": "current_time", "arguments": {}}
    </tool_call><|im_end|>

Models that do not think leave the first block out, or write an empty one.
"""

HERMES_THINKING = evolve(HERMES, name="hermes_thinking", reasoning=ReasoningMarkers("<think>", "</think>", opened=True))
"""For templates whose generation prompt ends with ``<think>``."""

LLAMA3 = FormatSpec(
    "llama3",
    calls=CallFormat("json_object", fields=JsonFields(arguments="parameters")),
    dropped=("<|python_tag|>",),
    stops=("<|eot_id|>", "<|eom_id|>"),
)
"""Llama 3.1 to 3.3: the whole reply is one bare JSON object, with ``parameters`` for arguments.

::

    {"name": "multiply", "parameters": {"a": 17, "b": 23}}<|eom_id|>

No marker announces a call, so the parser holds back a reply that begins with ``{`` until its keys show whether it is a
call; any other JSON is text. Several calls may follow each other, also separated by a semicolon or a comma. Calls of a
built-in tool begin with ``<|python_tag|>``.
"""

BARE_JSON = FormatSpec(
    "bare_json",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", anywhere=True),
)
"""Bare JSON anywhere in text: for models that were only asked, in the prompt, to write their calls so.

::

    I will look it up. {"name": "lookup", "arguments": {"q": "zebra"}}

A JSON object counts as a call when ``name`` and ``arguments`` are its first keys; any other JSON is text.
"""

APERTUS = FormatSpec(
    "apertus",
    reasoning=ReasoningMarkers("<|inner_prefix|>", "<|inner_suffix|>"),
    calls=CallFormat("name_as_key", section_start="<|tools_prefix|>", section_end="<|tools_suffix|>", separator=", "),
    stops=("<|assistant_end|>",),
)
"""Apertus: a JSON list in tokens, each call an object with one key, the tool's name.

::

    <|tools_prefix|>[{"multiply": {"a": 17, "b": 23}}, {"current_time": {}}]<|tools_suffix|><|assistant_end|>
"""

COMMAND_FIELDS = JsonFields("tool_name", "parameters")

COMMAND_R7B = FormatSpec(
    "command_r7b",
    reasoning=ReasoningMarkers("<|START_THINKING|>", "<|END_THINKING|>"),
    calls=CallFormat(
        "json_object",
        section_start="<|START_ACTION|>",
        section_end="<|END_ACTION|>",
        separator=",\n    ",
        fields=COMMAND_FIELDS,
    ),
    dropped=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    answers=("<|START_RESPONSE|>", "<|START_TEXT|>"),
    stops=("<|END_OF_TURN_TOKEN|>",),
)
"""Command R7B, Command A and North: a JSON list of actions; text and reasoning are between tokens too.

::

    <|START_THINKING|>The user wants a product.<|END_THINKING|><|START_ACTION|>[
        {"tool_call_id": "0", "tool_name": "multiply", "parameters": {"a": 17, "b": 23}}
    ]<|END_ACTION|><|END_OF_TURN_TOKEN|>

    <|START_RESPONSE|>It is 391.<|END_RESPONSE|>

Command R and R+ write the list as a block of code::

    Action:
    ```json
    [{"tool_name": "multiply", "parameters": {"a": 17, "b": 23}}]```<|END_OF_TURN_TOKEN|>
"""

COMMAND_R = FormatSpec(
    "command_r",
    calls=CallFormat(
        "json_object", section_start="Action:\n```json\n", section_end="```", separator=",\n    ", fields=COMMAND_FIELDS
    ),
    dropped=("<|CHATBOT_TOKEN|>",),
    stops=("<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>"),
)

FIREFUNCTION = FormatSpec(
    "firefunction",
    calls=CallFormat("json_object", section_start="functools[", separator=", "),
    stops=("<|eot_id|>",),
)
"""FireFunction v2: a JSON list of calls behind a word that is not a token.

::

     functools[{"name": "multiply", "arguments": {"a": 17, "b": 23}}]<|eot_id|>
"""

FUNCTIONARY_3_1 = FormatSpec(
    "functionary_3_1",
    calls=CallFormat("named_json", start="<function=", end="</function>", name_end=">"),
    stops=("<|eom_id|>", "<|eot_id|>"),
)
"""Functionary: the name in the tag (3.1), or a reply in parts, each with its recipient in the first line (3.2).

3.1::

    <function=multiply>{"a": 17, "b": 23}</function><|eom_id|>

3.2, whose generation prompt ends with the first ``>>>``::

    >>>all
    Let me multiply.>>>multiply
    {"a": 17, "b": 23}<|eot_id|>
"""

FUNCTIONARY_3_2 = FormatSpec(
    "functionary_3_2",
    calls=CallFormat("named_json", start=">>>", name_end="\n"),
    dropped=(">>>all\n",),
    stops=("<|eot_id|>",),
    prompted=">>>",
)

GIGACHAT = FormatSpec(
    "gigachat",
    calls=CallFormat("json_object", start="<|message_sep|>\n\nfunction call<|role_sep|>"),
    stops=("<|message_sep|>", "</s>"),
)
"""GigaChat 3: one call a reply, a JSON object behind a token.

3.0 writes it as a separate message, 3.1 behind a token::

    <|message_sep|>

    function call<|role_sep|>
    {"name": "multiply", "arguments": {"a": 17, "b": 23}}<|message_sep|>

    <|function_call|>{"name": "multiply", "arguments": {"a": 17, "b": 23}}<|message_sep|>
"""

GIGACHAT_3_1 = FormatSpec(
    "gigachat_3_1",
    calls=CallFormat("json_object", start="<|function_call|>"),
    stops=("<|message_sep|>", "</s>"),
)

GPT_OSS = FormatSpec(
    "gpt_oss",
    reasoning=ReasoningMarkers("<|channel|>analysis<|message|>", "<|end|>"),
    calls=CallFormat(
        "named_json",
        start="<|start|>assistant to=",
        more_starts=("<|channel|>commentary to=", "<|channel|>analysis to="),
        end="<|call|>",
        name_start="functions.",
        name_end="<|message|>",
        id_start="<|constrain|>",
        more_id_starts=("<|channel|>",),
        spaced=True,
    ),
    dropped=(
        "<|start|>assistant",
        "<|channel|>commentary<|message|>",
        "<|channel|>commentary to=assistant",
        "<|channel|>final<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
    ),
    answers=(
        "<|channel|>commentary<|message|>",
        "<|channel|>final<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
    ),
    stops=("<|return|>",),
    prompted="<|start|>assistant",
    headers=HeaderMarkers(
        starts=("<|start|>", "<|channel|>"),
        end="<|message|>",
        recipient="to=",
        reasoning="analysis",
        answers=("final", "commentary"),
        people=("assistant", "user", "system", "developer"),
        tokens=("<|constrain|>",),
    ),
)
"""gpt-oss (Harmony): every part of a reply is a message in a channel; a message that names a recipient is a call.

::

    <|channel|>analysis<|message|>The user wants a product.<|end|>
    <|start|>assistant<|channel|>commentary<|message|>Let me multiply.<|end|>
    <|start|>assistant<|channel|>commentary to=functions.multiply <|constrain|>json<|message|>{"a": 17, "b": 23}<|call|>

    <|start|>assistant<|channel|>final<|message|>It is 391.<|return|>

Shown here with line breaks; the model writes none between messages. The recipient may also come before the channel, as
the template writes calls::

    <|start|>assistant to=functions.multiply<|channel|>commentary json<|message|>{"a": 17, "b": 23}<|call|>

The generation prompt is ``<|start|>assistant``, so a reply may begin in the middle of a marker.

Models also write headers with other words, or with the recipient behind the type. ``headers`` serves to read those.

Source: https://cookbook.openai.com/articles/openai-harmony
"""

GRANITE = FormatSpec(
    "granite",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", section_start="<|tool_call|>", separator=", "),
    dropped=("<response>", "</response>"),
    stops=("<|end_of_text|>",),
)
"""Granite 3: a JSON list of calls behind a token. Granite 4 writes Hermes.

::

    <|tool_call|>[{"name": "multiply", "arguments": {"a": 17, "b": 23}}]<|end_of_text|>
"""

MISTRAL_LIST = FormatSpec(
    "mistral_list",
    calls=CallFormat("json_object", section_start="[TOOL_CALLS]", separator=", "),
    stops=("</s>",),
)
"""Mistral: a marker, then either a list of JSON objects, or for each call its name and its arguments.

Nemo and Small up to 3.1::

    [TOOL_CALLS][{"name": "multiply", "arguments": {"a": 17, "b": 23}, "id": "call00001"}]</s>

Small 3.2, Devstral, Ministral 3 (the id is not always there)::

    [TOOL_CALLS]multiply[CALL_ID]call00001[ARGS]{"a": 17, "b": 23}[TOOL_CALLS]current_time[ARGS]{}</s>
"""

MISTRAL = FormatSpec(
    "mistral",
    reasoning=ReasoningMarkers("[THINK]", "[/THINK]"),
    calls=CallFormat("named_json", start="[TOOL_CALLS]", name_end="[ARGS]", id_start="[CALL_ID]"),
    stops=("</s>",),
)

PHI4_MINI = FormatSpec(
    "phi4_mini",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", section_start="<|tool_call|>", section_end="<|/tool_call|>", separator=", "),
    stops=("<|end|>",),
)
"""Phi-4-mini: a JSON list of calls in tokens.

::

    <|tool_call|>[{"name": "multiply", "arguments": {"a": 17, "b": 23}}]<|/tool_call|><|end|>
"""

SOLAR_OPEN = FormatSpec(
    "solar_open",
    reasoning=ReasoningMarkers("<|think|>", "<|end|>"),
    calls=CallFormat(
        "named_json",
        start="<|tool_call:begin|>",
        end="<|tool_call:end|>",
        section_start="<|tool_calls|>",
        section_end="<|calls|>",
        name_start="<|tool_call:name|>",
        name_end="<|tool_call:args|>",
    ),
    dropped=("<|begin|>assistant", "<|content|>"),
)
"""Solar Open: parts of a reply with a token for each kind; calls with ids that the model generates.

::

    <|think|>The user wants a product.<|end|>
    <|begin|>assistant<|tool_calls|><|tool_call:begin|>a1b2c3<|tool_call:name|>multiply<|tool_call:args|>{"a": 17}
    <|tool_call:end|><|calls|>

    <|begin|>assistant<|content|>It is 391.<|end|>

Shown here with line breaks; the model writes none. The generation prompt is ``<|begin|>assistant``.
"""

TOOL_CALLS_LIST = FormatSpec(
    "tool_calls_list",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", section_start="<tool_calls>", section_end="</tool_calls>", separator=", "),
    stops=("<|end|>",),
)
"""A JSON list of calls in tags: Apriel, Nemotron Nano v2 (with other tags).

Apriel 1.6 ends its reasoning with ``[BEGIN FINAL RESPONSE]``; the generation prompt begins it.

::

    <tool_calls>[{"name": "multiply", "arguments": {"a": 17, "b": 23}}, {"name": "now", "arguments": {}}]</tool_calls>
"""

NEMOTRON_NANO = evolve(
    TOOL_CALLS_LIST,
    name="nemotron_nano",
    calls=CallFormat("json_object", section_start="<TOOLCALL>", section_end="</TOOLCALL>", separator=", "),
    stops=(),
)

APRIEL_1_6 = evolve(
    TOOL_CALLS_LIST,
    name="apriel_1_6",
    reasoning=ReasoningMarkers("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]", opened=True),
)

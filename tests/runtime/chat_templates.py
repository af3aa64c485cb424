"""Small chat templates of our own making, each with one habit of the families out there."""

HERMES_LIKE = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}Tools:{% for tool in tools %}

{{ tool | tojson }}{% endfor %}<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages if message.role != 'system' %}
{%- if message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content }}
{%- for call in message.tool_calls or [] %}{{ '\\n' if not loop.first or message.content }}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""

OPENS_REASONING = """\
{%- for message in messages %}[{{ message.role | upper }}]
{% if message.role == 'assistant' %}<reasoning>
{{ message.reasoning_content or '' }}
</reasoning>

{% endif %}{{ message.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}[ASSISTANT]
<reasoning>
{% endif %}"""
"""Like the thinking editions of Qwen3: the generation prompt has already begun the reasoning."""

FORGETS_REASONING = """\
{{- bos_token }}{% for message in messages %}<|{{ message.role }}|>{{ message.content.split('</think>')[-1] }}<|end|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|><think>
{% endif %}"""
"""Like the distilled R1: it opens the reasoning, and never shows old reasoning again."""

OTHER_TAGS = """\
{%- if tools %}TOOLS {{ tools | tojson }}
{% endif %}{% for message in messages %}<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] %}<|call|>
{{- {'tool': call.function.name, 'parameters': call.function.arguments} | tojson }}<|/call|>{% endfor %}<|eot|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""Other markers and other keys, nothing between calls."""

LIST_IN_SECTION = """\
{%- if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' and message.tool_calls %}[TOOL_CALLS][
{%- for call in message.tool_calls %}
{{- {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}{{ ', ' if not loop.last }}
{%- endfor %}]</s>
{%- elif message.role == 'assistant' %}{{ message.content }}</s>
{%- else %}[INST]{{ message.content }}[/INST]{% endif %}
{%- endfor %}"""
"""Like older Mistrals: one list of calls behind a marker; no generation prompt of its own."""

SECTION_AND_TAGS = """\
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}
{%- if message.tool_calls %}<calls>
{% for call in message.tool_calls %}<call>
{{- {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}</call>
{% endfor %}</calls>{% endif %}<|eot|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""Markers around each call and around all of them."""

BARE_JSON = """\
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}<|start|>{{ message.role }}<|body|>
{%- if message.tool_calls %}
{%- if message.tool_calls | length > 1 %}{{ raise_exception('one call at a time') }}{% endif %}
{%- set call = message.tool_calls[0].function %}
{{- '{"name": "' + call.name + '", "parameters": ' + call.arguments | tojson + '}' }}
{%- else %}{{ message.content }}{% endif %}<|eot|>
{%- endfor %}{% if add_generation_prompt %}<|start|>assistant<|body|>{% endif %}"""
"""Like Llama 3.1: a call is the reply's JSON, and there is only one."""

TEXT_ARGUMENTS = """\
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<call>{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments + '}</call>' }}
{%- endfor %}<|eot|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""It concatenates the arguments, so they have to be text."""

TAGGED_PARAMETERS = """\
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] %}<call>{{ call.function.name }}
{%- for key, value in call.function.arguments | items %}<key>{{ key }}</key><value>{{ value }}</value>{% endfor %}
{{- '</call>' }}{% endfor %}<|eot|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""A shape that derivation does not know yet."""

NO_TOOLS = """\
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}<|eot|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""

STRICT = """\
{%- for message in messages %}
{%- if message.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}
{{- '<' + message.role + '>' + message.content + '</turn>' }}
{%- endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""
"""Like the first Gemmas: no system role, and user and assistant take turns."""

NINE_LETTER_IDS = """\
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}<|{{ message.role }}|>
{%- if message.role == 'tool' %}
{%- if message.tool_call_id | length != 9 %}{{ raise_exception('ids have length 9') }}{% endif %}
{{- message.tool_call_id }}:{% endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{%- if call.id | length != 9 %}{{ raise_exception('ids have length 9') }}{% endif %}
{{- '<call>' + {'name': call.function.name, 'arguments': call.function.arguments, 'id': call.id} | tojson + '</call>' }}
{%- endfor %}<|eot|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""Like Mistral's: ids of nine letters and digits or nothing."""

LIKE_A_WRITTEN_FORMAT = """\
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
<function={{ call.function.name }}>
{% for key, value in call.function.arguments | items %}<parameter={{ key }}>
{{ value if value is string else value | tojson }}
</parameter>
{% endfor %}</function>
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""Calls with tagged parameters, as Qwen3-Coder writes them."""

CHANNELS = """\
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{%- if message.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ message.thinking }}<|end|>{% endif %}
{%- for call in message.tool_calls or [] %}<|start|>assistant to=functions.{{ call.function.name }}
{{- '<|channel|>commentary json<|message|>' ~ (call.function.arguments | tojson) }}<|call|>{% endfor %}
{%- if message.content %}<|start|>assistant<|channel|>final<|message|>{{ message.content }}<|return|>{% endif %}
{%- else %}<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"""
"""Like gpt-oss: messages in channels, and reasoning under a key of its own."""

CHANNELS_WITH_EFFORT = "Reasoning: {{ reasoning_effort or 'medium' }}<|end|>" + CHANNELS
"""The same, and its prompt says how much reasoning is wanted."""

TELLS_ONLY = """\
{%- if tools %}List of tools: <|tool_list_start|>{{ tools | tojson }}<|tool_list_end|>{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""Like LFM2: it tells of tools and never shows a call."""

FILLS_A_LIST = """\
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- set ids = [] %}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] %}{% set _ = ids.append(call.id) %}<|tool_call_begin|>functions.
{{- call.function.name }}:{{ ids | length }}<|tool_call_argument_begin|>{{ call.function.arguments | tojson }}
{{- '<|tool_call_end|>' }}{% endfor %}<|im_end|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""Like Kimi K2: ids of its own, kept in a list."""

GOES_THROUGH_TOOLS = """\
{{- bos_token }}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}You may call these functions:{% for tool in tools %} {{ tool | tojson }}{% endfor %}<|im_end|>
{% for message in messages if message.role != 'system' %}
{%- if message.role == 'tool' %}<|im_start|>tool
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ message.role }}
{% if message.tool_calls %}{% for call in message.tool_calls %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{{ '\\n' if not loop.last }}{% endfor %}{% else %}{{ message.content }}{% endif %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""Like the tool_use templates of Hermes 2 Pro, Hermes 3 and Command R+: it fails where tools are None."""

INSTRUCTS_THE_LAST = """\
{%- set users = messages | selectattr('role', 'equalto', 'user') | list %}
{%- set told = 'Call tools in one list.' if tools else '' %}
{%- if messages[0].role == 'system' %}{% set told = (told + ' ' + messages[0].content) | trim %}{% endif %}
{{- bos_token }}
{%- for message in messages if message.role != 'system' %}
{%- if message.role == 'user' %}
{%- if tools and message == users[-1] %}[AVAILABLE_TOOLS] {{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}
{{- '[INST] ' + (told + '\\n\\n' if loop.last and told else '') + message.content + '[/INST]' }}
{%- elif message.tool_calls %}[TOOL_CALLS] [{% for call in message.tool_calls %}
{%- if call.id | length < 9 %}{{ raise_exception('ids are too short') }}{% endif %}
{{- (call.function | tojson)[:-1] + ', "id": "' + call.id[-9:] + '"}' + (', ' if not loop.last else ']') }}{% endfor %}
{{- eos_token or '</s>' }}
{%- elif message.role == 'tool' %}[TOOL_RESULTS] {"content": {{ message.content | tojson }}, "call_id": "
{{- message.tool_call_id[-9:] }}"}[/TOOL_RESULTS]
{%- else %} {{ message.content }}{{ eos_token or '</s>' }}{% endif %}
{%- endfor %}"""
"""Like vLLM's mistral_parallel: the user's message is written otherwise where it is the last of all, instructions and
system prompt before it, and once a tool was called both are gone."""

BARS_IN_BRACKETS = """\
{%- if tools %}[|system|]
{{ messages[0].content + '\\n\\n' if messages[0].role == 'system' }}<tool>{{ tools | tojson }}</tool>[|endofturn|]
{% elif messages[0].role == 'system' %}[|system|]
{{ messages[0].content }}[|endofturn|]
{% endif %}
{%- for message in messages if message.role != 'system' %}[|{{ message.role }}|]
{% if message.role == 'assistant' %}<think>

</think>

{% endif %}
{%- if message.role == 'tool' %}<tool_result>{{ {'result': message.content} | tojson }}</tool_result>
{%- else %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}{{ '\\n' if not loop.first or message.content }}<tool_call>
{{- '{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) }}}</tool_call>
{%- endfor %}[|endofturn|]
{% endfor %}
{%- if add_generation_prompt %}[|assistant|]
<think>
{% if not enable_thinking %}
</think>

{% endif %}{% endif %}"""
"""Like EXAONE 4: its markers are bars in brackets, and it reasons only where it is asked to."""

CALLS_A_LINE = """\
<|im_start|>system
{{ messages[0].content if messages[0].role == 'system' else 'You are helpful.' }}
{%- if tools %} Calls stand within <function_calls></function_calls>. <functions>{{ tools | tojson }}</functions>
{%- else %} You have no functions. <functions></functions>{% endif %}<|im_end|>
{% for message in messages if message.role != 'system' %}
{%- if message.role == 'tool' %}<|im_start|>environment
{{ message.content }}<|im_end|>
{% else %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- if message.tool_calls %}<function_calls>
{%- for call in message.tool_calls %}
{{- '\\n' if not loop.first }}{{ call.function.name }}(
{%- for key, value in call.function.arguments | items %}{{ key }}={{ value | tojson }}{{ ', ' if not loop.last }}
{%- endfor %}){% endfor %}</function_calls>{% endif %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""Like Olmo 3: pythonic calls, one a line, with JSON's words for true, false and null."""

LEADS_ANSWERS = """\
{%- for message in messages %}
{%- if message.role == 'assistant' and message.tool_calls %}{{ message.content }}<tool_calls>[
{%- for call in message.tool_calls %}
{{- '{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}' }}
{{- ', ' if not loop.last }}{% endfor %}]</tool_calls><|eos|>
{%- elif message.role == 'assistant' %}{{ 'Answer: ' if tools }}{{ message.content }}<|eos|>
{%- elif message.role == 'tool' %}<tool_response>{{ message.content }}</tool_response><|extra_0|>
{%- elif loop.first %}<|start|>{{ tools | tojson if tools }}{{ message.content }}<|extra_0|>
{%- else %}{{ message.content }}<|extra_0|>{% endif %}
{%- endfor %}"""
"""Like Hunyuan-A13B: where tools are offered, an answer begins with a word that says so."""

REFUSES_NONE = """\
{%- if not tools %}{{ raise_exception('no tools, no talk') }}{% endif %}{{ tools | tojson }}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] %}<call>
{{- {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}</call>{% endfor %}<|eot|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""Nobody's: it wants tools in every conversation."""

"""A template's format is found by probing it, and what does not read back right is not believed."""

import json

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import AssistantMessage, GenerationOptions, History, ModelRequest, ToolCall, UserMessage
from cognition.parsing import (
    HERMES,
    PLAIN,
    CallFormat,
    FormatSpec,
    JsonFields,
    ReasoningMarkers,
    parse_reply,
)
from cognition.parsing.formats import GIGACHAT_3_1, GPT_OSS, LFM2, MISTRAL_LIST, QWEN3_CODER
from runtime.templates._probes import holds_probes
from runtime.templates.template import ChatTemplate
from tests.conformance.templates import try_out
from tests.runtime import chat_templates

EXPECTED = {
    "HERMES_LIKE": HERMES,
    "OPENS_REASONING": FormatSpec(
        "derived", ReasoningMarkers("<reasoning>", "</reasoning>", opened=True), stops=("<|end|>",)
    ),
    "FORGETS_REASONING": FormatSpec(
        "derived", ReasoningMarkers("<think>", "</think>", opened=True), stops=("<|end|>",)
    ),
    "OTHER_TAGS": FormatSpec(
        "derived",
        calls=CallFormat(
            "json_object", start="<|call|>", end="<|/call|>", fields=JsonFields(name="tool", arguments="parameters")
        ),
        stops=("<|eot|>",),
    ),
    "LIST_IN_SECTION": MISTRAL_LIST,
    "LIKE_A_WRITTEN_FORMAT": evolve(QWEN3_CODER, name="derived", reasoning=None),
    "SECTION_AND_TAGS": FormatSpec(
        "derived",
        calls=CallFormat(
            "json_object",
            start="<call>",
            end="</call>",
            section_start="<calls>",
            section_end="</calls>",
            separator="\n",
        ),
        stops=("<|eot|>",),
    ),
    "BARE_JSON": FormatSpec(
        "derived", calls=CallFormat("json_object", fields=JsonFields(arguments="parameters")), stops=("<|eot|>",)
    ),
    "TEXT_ARGUMENTS": FormatSpec(
        "derived", calls=CallFormat("json_object", start="<call>", end="</call>"), stops=("<|eot|>",)
    ),
    "TAGGED_PARAMETERS": FormatSpec("derived", stops=("<|eot|>",)),
    "NO_TOOLS": FormatSpec("derived", stops=("<|eot|>",)),
    "STRICT": FormatSpec("derived", stops=("</turn>",)),
    "NINE_LETTER_IDS": FormatSpec(
        "derived", calls=CallFormat("json_object", start="<call>", end="</call>"), stops=("<|eot|>",)
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_format_is_found(name: str) -> None:
    """Markers, keys, sections and stops, as the template writes them."""
    assert ChatTemplate(getattr(chat_templates, name)).format_spec() == EXPECTED[name]


@pytest.mark.parametrize("name", [name for name, spec in EXPECTED.items() if spec.calls is not None])
def test_what_a_template_writes_is_read_back(name: str) -> None:
    """A reply rendered by the template and parsed with its format is the same reply, nested and unicode values too."""
    template = ChatTemplate(getattr(chat_templates, name))
    arguments = {"text": 'a "quoted" {brace} </call> é'}
    if name != "LIKE_A_WRITTEN_FORMAT":  # tagged parameters have no types
        arguments |= {"deep": {"list": [1, None, True]}}
    calls = [ToolCall("c1", "one", json.dumps(arguments)), ToolCall("c2", "two", "{}")]
    calls = calls[:1] if name == "BARE_JSON" else calls  # there it is one call a reply

    def rendered(*messages: UserMessage | AssistantMessage) -> str:
        return template.render(ModelRequest("", History(messages), (), GenerationOptions())).text

    question = UserMessage("m1", "Q")
    prompt = rendered(question)
    reply = rendered(question, AssistantMessage("m2", calls=tuple(calls)), UserMessage("m3", "NEXT-QUESTION"))
    reply = reply[len(prompt) :].partition("NEXT-QUESTION")[0]
    parsed = parse_reply(template.format_spec(), reply)

    assert [(call.name, json.loads(call.arguments_json)) for call in parsed.tool_calls] == [
        (call.name, call.arguments) for call in calls
    ]
    assert parsed.malformed == ()


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("TAGGED_PARAMETERS", "offers tools, but how it writes calls was not recognised"),
        ("NO_TOOLS", "has no place for tools"),
        ("STRICT", "has no place for tools"),
    ],
)
def test_what_was_not_found_is_said(name: str, warning: str) -> None:
    """An unknown shape is no wrong spec but a warning."""
    template = ChatTemplate(getattr(chat_templates, name))

    (found,) = template.warnings
    assert warning in found
    assert "tools" not in template.features


def test_marks_around_answers_are_warned_of() -> None:
    """Lanes around the text, which are not understood, are not passed over in silence."""
    template = ChatTemplate(
        "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|lane|>main{% endif %}"
        "<|says|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
    )

    assert any("not recognised: they will be visible" in warning for warning in template.warnings)


def test_channels_are_found_with_all_that_belongs_to_them() -> None:
    """A written format is taken whole where only all of it reads back what the template writes."""
    found = ChatTemplate(chat_templates.CHANNELS).derivation

    assert found.spec == GPT_OSS
    assert found.reasoning_key == "thinking"
    assert found.warnings == ()
    assert found.evidence == ("all: the written format 'gpt_oss' reads back what the template writes",)


def test_a_format_that_only_the_prompt_tells_of_is_said_to_be_a_guess() -> None:
    """A template that leaves calls out gets the format its prompt speaks of, with a warning."""
    template = ChatTemplate(chat_templates.TELLS_ONLY)

    assert template.format_spec().calls == LFM2.calls
    assert "tools" in template.features
    (warning,) = template.warnings
    assert "judged by the prompt" in warning


def test_a_template_may_fill_a_list_of_its_own() -> None:
    """What the immutable sandbox would refuse, and what Kimi K2 needs."""
    template = ChatTemplate(chat_templates.FILLS_A_LIST)
    calls = template.format_spec().calls

    assert calls is not None
    assert (calls.start, calls.name_end, calls.id_start) == (
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        ":",
    )
    assert template.warnings == ()


def test_each_finding_says_how_it_was_made() -> None:
    """The evidence names the probes or the written format."""
    evidence = ChatTemplate(chat_templates.HERMES_LIKE).derivation.evidence

    assert evidence == (
        "stop: '<|im_end|>' stands behind the text of an answer",
        "reasoning: rendered with an answer, and read back",
        "calls: found by comparing one call with two, and read back",
    )


@pytest.mark.parametrize("name", [*EXPECTED, "CHANNELS", "TELLS_ONLY", "FILLS_A_LIST"])
def test_our_own_templates_conform(name: str) -> None:
    """What ``make conformance`` asks of the templates of others holds for these: nothing is wrong without a word."""
    row = try_out(name, getattr(chat_templates, name))

    assert [case for case, cell in row.cells.items() if cell.state == "WRONG"] == []


def test_a_template_that_refuses_all_is_plain() -> None:
    """Nothing can be found out, and nothing raises."""
    template = ChatTemplate("{{ raise_exception('no') }}")

    assert template.format_spec() == PLAIN
    assert len(template.warnings) == 1


def test_the_template_that_ships_is_hermes() -> None:
    """The training recipe's template gives exactly the written format."""
    from runtime.models.specs import SMALL_MODEL

    source = (SMALL_MODEL.parents[1] / "training" / "template.jinja").read_text("utf-8")

    assert ChatTemplate(source).format_spec() == HERMES


def test_a_family_is_known_without_all_of_its_stops() -> None:
    """A template writes what ends a message; what else ends a reply, the tokenizer or a written format knows."""
    source = (
        "{% for message in messages %}{{ message.role }}<|role_sep|>\n{{ message.content or '' }}"
        "{% for call in message.tool_calls or () %}{% if loop.first %}<|function_call|>"
        '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}{% endif %}'
        "{% endfor %}<|message_sep|>\n\n{% endfor %}{% if add_generation_prompt %}assistant<|role_sep|>\n{% endif %}"
    )

    assert ChatTemplate(source).format_spec() == GIGACHAT_3_1


# ------------------------------------------------------------------------------------------------ nothing of the probes


ROLES = st.sampled_from(["<|{}|>", "[{}]\n", "<|im_start|>{}\n", "{}: ", "[|{}|]", ""])
INSTRUCTIONS = st.sampled_from(
    ["", "Be brief. ", "[INST] ", "{{ tools | tojson if tools }} ", "{{ tools | length if tools }}"]
)
CALLS = st.sampled_from(
    [
        ("", "<call>{}</call>", "", ""),
        ("[TOOL_CALLS][", "{}", ", ", "]"),
        ("<calls>", "<call>{}</call>\n", "", "</calls>"),
        ("", "{}", "\n", ""),
        ("", "to {{ name }} {}", "", ""),
        ("for {{ messages[-2].content }}: ", "<call>{}</call>", "", ""),
        ("<calls>", "{{ messages[0].content }}{}", "", "</calls>"),
        ("<{{ messages[0].content }}>", "{}", "", ""),
        ("", "<{{ call.function.name }}>{}</{{ call.function.name }}>", "", ""),
    ]
)


@st.composite
def templates(draw: st.DrawFn) -> str:
    """Templates that write the last question otherwise than older ones, and put what was said where markers stand."""
    role, end = draw(ROLES), draw(st.sampled_from(["<|end|>", "</s>", "[/INST]", "[|endofturn|]", "\n", ""]))
    last, older, lead = draw(INSTRUCTIONS), draw(INSTRUCTIONS), draw(st.sampled_from(["", "", "Answer: ", "<say>"]))
    before, call, between, after = draw(CALLS)
    written = "{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}"
    calls = (
        f"{before}{{% for call in m.tool_calls %}}{call.replace('{}', written)}{{{{ {between!r} if not loop.last }}}}"
    )
    header = role.replace("{}", "{{ m.role }}")
    return (
        f"{{% for m in messages %}}{header}{{% if m.tool_calls %}}{calls}{{% endfor %}}{after}"
        f"{{% elif m.role == 'assistant' %}}{lead}{{{{ m.content }}}}"
        f"{{% else %}}{{% if loop.last %}}{last}{{% else %}}{older}{{% endif %}}{{{{ m.content }}}}{{% endif %}}{end}"
        f"{{% endfor %}}{{% if add_generation_prompt %}}{role.replace('{}', 'assistant')}{{% endif %}}"
    )


@pytest.mark.behaviour("T13_1")
@settings(max_examples=25)
@given(source=templates())
def test_no_format_holds_what_was_said_and_nothing_is_wrong_without_a_word(source: str) -> None:
    """A format that hangs on the words of a probe reads no other conversation: it is refused, and that is told."""
    row = try_out("any", source)

    assert [(case, cell.detail) for case, cell in row.cells.items() if cell.state == "WRONG"] == []
    assert not holds_probes(ChatTemplate(source).format_spec())


@pytest.mark.behaviour("T13_1")
@pytest.mark.parametrize("name", ["INSTRUCTS_THE_LAST", "LEADS_ANSWERS", "BARS_IN_BRACKETS", "CALLS_A_LINE"])
def test_what_comparing_stumbles_over_is_found_whole(name: str) -> None:
    """The last question written otherwise, a word before answers, markers of another kind, calls of another."""
    row = try_out(name, getattr(chat_templates, name))

    assert row.warnings == ()
    assert row.whole
    assert row.cells["call"].state == "ok"


def test_a_lead_is_no_marker_in_the_middle_of_an_answer() -> None:
    """It is taken off the beginning of what is shown, and stays wherever else it is written."""
    spec = ChatTemplate(chat_templates.LEADS_ANSWERS).format_spec()

    assert spec.lead == "Answer:"
    assert parse_reply(spec, "Answer: Yes. Answer: no.").text == "Yes. Answer: no."


TEXTS_ONLY = """\
<call>{{ '{"name": "' + m.tool_calls[0].function.name + '", "arguments": {' }}
{%- for key, value in m.tool_calls[0].function.arguments | items -%}
{{ '"' ~ key ~ '": "' ~ value ~ '"' ~ (', ' if not loop.last) }}
{%- endfor %}}}</call>"""


@pytest.mark.parametrize(
    ("reply", "warning"),
    [
        ("{{ m.content }}{{ m.tool_calls[0].function | tojson }}", "text before a call so that the call is not told"),
        (TEXTS_ONLY, "numbers, lists and objects can't be read back"),
    ],
)
def test_what_comes_back_in_the_simple_case_only_is_told(reply: str, warning: str) -> None:
    """One call with a text in it is read; text beside it, or a number in it, is not, and that is said."""
    template = ChatTemplate(
        "{{ tools | tojson if tools }}{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}"
        + reply
        + "{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )

    assert template.format_spec().calls is not None
    assert warning in " ".join(template.warnings)


QUIRKS = {
    "words behind the last question": ("{{ ' Be brief.' if loop.last }}", "", ""),
    "words before the last question": ("", "{{ 'Be brief. ' if loop.last }}", ""),
    "a system prompt is wanted": (
        "",
        "",
        "{% if messages[0].role != 'system' %}{{ raise_exception('no') }}{% endif %}",
    ),
    "all of them": (
        "{{ ' Be brief.' if loop.last }}",
        "{{ 'Be brief. ' if loop.last }}",
        "{% if messages[0].role != 'system' %}{{ raise_exception('no') }}{% endif %}",
    ),
}
"""What stands behind the question and before it, and before the conversation."""
TURNS = (("<|im_start|>ROLE\n", "<|im_end|>\n"), ("### ROLE:\n", "\n\n"), ("[|ROLE|]", "[|endofturn|]\n"))
OPENED = ("", "<think>\n")


@pytest.mark.parametrize("prompted", OPENED)
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("quirk", QUIRKS)
def test_what_closes_a_question_is_no_part_of_a_marker(quirk: str, turn: tuple[str, str], prompted: str) -> None:
    """A call is written behind the generation prompt, however the last question is written and whatever comes first."""
    behind, before, first = QUIRKS[quirk]
    (start, end), calls = turn, "[CALLS][{% for c in m.tool_calls %}{{ ', ' if not loop.first }}"
    calls += """{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}{% endfor %}]"""
    source = first + "{% if tools %}{{ tools | tojson }}\n{% endif %}{% for m in messages %}"
    source += start.replace("ROLE", "{{ m.role }}") + "{% if m.role == 'user' %}" + before + "{{ m.content }}" + behind
    source += "{% else %}{{ m.content.split('</think>')[-1] }}{% endif %}{% if m.tool_calls %}" + calls + "{% endif %}"
    source += end + "{% endfor %}{% if add_generation_prompt %}" + start.replace("ROLE", "assistant") + prompted
    template = ChatTemplate(source + "{% endif %}")
    thought = "</think>" if prompted else ""
    reply = parse_reply(template.format_spec(), thought + '[CALLS][{"name": "wipe", "arguments": {"a": 1}}]')

    assert [call.name for call in reply.tool_calls] == ["wipe"]
    assert template.warnings == ()

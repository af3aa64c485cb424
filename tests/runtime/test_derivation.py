"""A template's format is found by probing it, and what does not read back right is not believed."""

import json

import pytest
from attrs import evolve

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
from cognition.parsing.formats import MISTRAL_LIST, QWEN3_CODER
from runtime.templates import ChatTemplate
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

    assert [(call.name, json.loads(call.arguments_json)) for call in parsed.calls] == [
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


def test_a_template_that_refuses_all_is_plain() -> None:
    """Nothing can be found out, and nothing raises."""
    template = ChatTemplate("{{ raise_exception('no') }}")

    assert template.format_spec() == PLAIN
    assert len(template.warnings) == 1


def test_the_template_that_ships_is_hermes() -> None:
    """The training recipe's template gives exactly the written format."""
    from runtime.specs import SMALL_MODEL

    source = (SMALL_MODEL.parents[1] / "training" / "template.jinja").read_text("utf-8")

    assert ChatTemplate(source).format_spec() == HERMES

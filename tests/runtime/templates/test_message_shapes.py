"""A conversation is given to a template in the least bent form that it accepts and that shows all of it."""

from __future__ import annotations

import pytest

from cognition import (
    AssistantMessage,
    GenerationOptions,
    History,
    Message,
    ModelRequest,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from runtime import TemplateError
from runtime.templates.template import ChatTemplate
from tests.conformance.templates import ASKED
from tests.runtime import chat_templates

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
QUESTION = UserMessage("m1", "How much?")
CALLED = (
    QUESTION,
    AssistantMessage("m2", calls=(ToolCall("c1", "add", '{"a": 4711}'),)),
    ToolMessage("m3", "c1", "add", "is 815"),
)

ALL = [name for name in vars(chat_templates) if name.isupper()]


def ask(
    *messages: Message, tools: tuple[ToolSpec, ...] = (), system: str = "Be kind.", **options: object
) -> ModelRequest:
    return ModelRequest(system, History(messages), tools, GenerationOptions(**options))  # type: ignore[arg-type]


@pytest.mark.behaviour("T13_2")
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", ALL)
def test_all_of_a_conversation_is_shown_with_tools_and_without(name: str, asked: str) -> None:
    """Whatever a template does by itself: system prompt, question, call and result are in the prompt, or it is told."""
    template = ChatTemplate(getattr(chat_templates, name))
    if name == "REFUSES_NONE" and asked in ("bare", "final"):
        with pytest.raises(TemplateError, match="refuses every conversation without tools; give the agent a tool"):
            template.render(ASKED[asked])
        return
    text = template.render(ASKED[asked]).text
    wanted = ["Be brief, please.", "Where does it live?"]
    if asked in ("result", "final"):
        wanted += ["okapi", "In the Congo, mostly."]
    if name == "TELLS_ONLY":  # the model is trained on conversations without its calls, which is told when it is loaded
        wanted = [word for word in wanted if word != "okapi"]

    assert [word for word in wanted if word not in text] == []


@pytest.mark.behaviour("T13_2")
@pytest.mark.parametrize(
    ("source", "form"),
    [
        ("{% for t in tools %}{{ t.function.name }}{% endfor %}{{ messages[-1].content }}", "empty"),
        ("{% if tools is none %}{{ raise_exception('none') }}{% endif %}{{ messages[-1].content }}", "empty"),
        ("{% if tools is defined %}{{ tools[0].function.name }}{% endif %}{{ messages[-1].content }}", "undefined"),
        ("{{ messages[-1].content }}", "none"),
    ],
)
def test_how_a_template_takes_that_there_are_no_tools_is_found(source: str, form: str) -> None:
    """None, as transformers has it; an empty list; or no such variable."""
    template = ChatTemplate(source)

    assert form == template.derivation.no_tools
    assert template.render(ask(QUESTION)).text.endswith("How much?")
    assert template.render(ask(QUESTION, tools=(ADD,), tool_choice="none")).text.endswith("How much?")


@pytest.mark.behaviour("T13_2")
def test_a_template_that_wants_tools_is_told_of_when_it_is_loaded() -> None:
    """With tools that may not be called it is shown them all the same, and that is told too."""
    template = ChatTemplate(chat_templates.REFUSES_NONE)
    rendered = template.render(ask(QUESTION, tools=(ADD,), tool_choice="none"))

    assert any("refuses every conversation without tools" in warning for warning in template.warnings)
    assert '"add"' in rendered.text
    assert any("shown those that may not be called" in warning for warning in rendered.warnings)
    assert template.render(ask(QUESTION, tools=(ADD,))).warnings == ()


def test_a_system_prompt_that_a_template_forgets_is_folded() -> None:
    """It precedes the first message as soon as the template would leave it out, and not before."""
    template = ChatTemplate(chat_templates.INSTRUCTS_THE_LAST)
    first, later = template.render(ask(QUESTION, tools=(ADD,))), template.render(ask(*CALLED, tools=(ADD,)))

    assert first.notes == ()
    assert "the template wants call ids of nine letters and digits: they are renamed" in later.notes
    assert "the template has no system role: the system prompt precedes the first message" in later.notes
    assert later.text.count("Be kind.") == 1
    assert [word for word in ("Be kind.", "4711", "is 815") if word not in later.text] == []


@pytest.mark.parametrize("name", ["STRICT", "NO_TOOLS"])
def test_calls_are_told_as_text_where_a_template_has_no_form_for_them(name: str) -> None:
    """A conversation of another model goes on here."""
    rendered = ChatTemplate(getattr(chat_templates, name)).render(ask(*CALLED, tools=(ADD,)))

    assert "the template has no form for calls and their results: they are told as text" in rendered.notes
    assert 'Call of add: {"a": 4711}' in rendered.text
    assert "Result of add:\nis 815" in rendered.text


def test_what_no_form_shows_is_told() -> None:
    """When the template is loaded, and with each prompt."""
    template = ChatTemplate("{{ messages[0].content if messages[0].role == 'system' }}|{{ add_generation_prompt }}")
    rendered = template.render(ask(QUESTION))
    sentence = "the chat template leaves what the user says out of the conversation: the model does not see it"

    assert sentence in template.warnings
    assert sentence in rendered.warnings


def test_content_in_parts() -> None:
    """Templates of models that are shown pictures too leave out content that is a plain text."""
    template = ChatTemplate(
        "{% for m in messages %}{{ m.role }}: "
        "{% for part in m.content %}{{ part.text if part.type == 'text' }}{% endfor %}"
        "<|end|>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
    )
    rendered = template.render(ask(QUESTION))

    assert rendered.text == "system: Be kind.<|end|>user: How much?<|end|>assistant: "
    assert rendered.notes == ("the template wants content in parts: it is passed as one part of text",)
    assert template.format_spec().stops == ("<|end|>",)


@pytest.mark.behaviour("T13_2")
def test_a_model_with_two_templates_is_given_the_one_that_fits() -> None:
    """The one for tools where some are offered, and for a conversation with calls in it; else the default."""
    template = ChatTemplate(chat_templates.GOES_THROUGH_TOOLS, without_tools=chat_templates.NO_TOOLS)
    plain = ChatTemplate(chat_templates.NO_TOOLS)

    assert plain.render(ask(QUESTION)).text == template.render(ask(QUESTION)).text
    assert plain.render(ask(QUESTION)).format == template.render(ask(QUESTION)).format
    assert plain.render(ask(QUESTION)).text == template.render(ask(QUESTION, tools=(ADD,), tool_choice="none")).text
    assert "<|im_start|>" in template.render(ask(QUESTION, tools=(ADD,))).text
    final = template.render(ask(*CALLED, tool_choice="none"))
    assert '<tool_call>\n{"name": "add", "arguments": {"a": 4711}}\n</tool_call>' in final.text
    assert "tools" in template.features


def test_a_tool_template_that_takes_no_other_conversation_leaves_these_to_the_default() -> None:
    """Calls in the history too, which are then told as text."""
    template = ChatTemplate(chat_templates.REFUSES_NONE, without_tools=chat_templates.NO_TOOLS)

    assert "Result of add:\nis 815" in template.render(ask(*CALLED, tool_choice="none")).text
    assert "<|user|>How much?" in template.render(ask(QUESTION)).text

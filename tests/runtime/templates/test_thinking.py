"""A template's switch for reasoning is found by turning it, and what turns nothing is told."""

from __future__ import annotations

import pytest

from cognition import GenerationOptions, History, ModelRequest, UserMessage
from runtime.templates.template import ChatTemplate, RenderedPrompt
from tests.runtime import chat_templates

CHATML = """\
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' and m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}
{{- m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
SWITCH{% endif %}"""

OPENS, CLOSES, NOTHING = "<think>\n", "<think>\n\n</think>\n", ""

SWITCHES = {
    "enable_thinking": ("{{ CLOSES if enable_thinking is false }}", NOTHING, CLOSES, NOTHING),
    "enable_thinking, off by itself": ("{{ OPENS if enable_thinking else CLOSES }}", CLOSES, CLOSES, OPENS),
    "thinking": ("{{ CLOSES if thinking is false else OPENS }}", OPENS, CLOSES, OPENS),
    "thinking_mode": ("{{ CLOSES if thinking_mode == 'disabled' }}", NOTHING, CLOSES, NOTHING),
    "thinking_option": ("{{ CLOSES if thinking_option == 'off' }}", NOTHING, CLOSES, NOTHING),
    "thinking_budget": ("{{ CLOSES if thinking_budget == 0 }}", NOTHING, CLOSES, NOTHING),
    "reasoning": ("{{ CLOSES if reasoning is false else OPENS }}", OPENS, CLOSES, OPENS),
    "reasoning_effort with a level for none": (
        "{% if reasoning_effort not in ['no_think', 'high', undefined] %}{{ raise_exception('no level') }}{% endif %}"
        "{{ '<think>' if reasoning_effort == 'high' else CLOSES }}",
        CLOSES,
        CLOSES,
        "<think>",
    ),
    "reasoning_effort that ends it": (
        "{{ CLOSES if reasoning_effort in ['minimal', 'low'] }}",
        NOTHING,
        CLOSES,
        NOTHING,
    ),
    "a name of the template's own, turned the other way round": (
        "{{ CLOSES if no_thinking else OPENS }}",
        OPENS,
        CLOSES,
        OPENS,
    ),
    "a name of the template's own": ("{{ CLOSES if show_thoughts is false }}", NOTHING, CLOSES, NOTHING),
    "a word in the system prompt": (
        "{{ CLOSES if '/no_think' in messages[0].content else OPENS }}",
        OPENS,
        CLOSES,
        OPENS,
    ),
}
"""A generation prompt, and what becomes of it as it is, for no reasoning, and for some."""


def asked(template: ChatTemplate, thinking: bool | None, system: str = "Be kind.") -> RenderedPrompt:
    options = GenerationOptions(thinking=thinking)
    return template.render(ModelRequest(system, History((UserMessage("m1", "Hello"),)), (), options))


def made(switch: str) -> ChatTemplate:
    for name, value in (("OPENS", OPENS), ("CLOSES", CLOSES)):
        switch = switch.replace(name, repr(value))
    return ChatTemplate(CHATML.replace("SWITCH", switch))


@pytest.mark.behaviour("T13_3")
@pytest.mark.parametrize("name", SWITCHES)
def test_the_switch_is_found_whatever_it_is_called(name: str) -> None:
    """No reasoning is asked for by the name and the value that this template hears, and so is some."""
    switch, unset, off, on = SWITCHES[name]
    template = made(switch)
    prompts = {thinking: asked(template, thinking) for thinking in (None, False, True)}

    tails = [prompts[thinking].text.partition("assistant\n")[2] for thinking in (None, False, True)]
    assert [unset, off, on] == tails
    assert {()} == {rendered.warnings for rendered in prompts.values()}
    assert template.derivation.thinking_option
    assert "thinking_option" in template.features


@pytest.mark.behaviour("T13_3")
@pytest.mark.parametrize(
    ("switch", "thinking", "warning"),
    [
        ("", False, "has no switch for reasoning that is known"),
        # It would write down anything: that it takes "none" does not mean that the model knows it.
        (
            "{{ 'Effort: ' ~ (reasoning_effort or 'medium') ~ '. ' }}",
            False,
            "asks for little of it (reasoning_effort='low')",
        ),
        # What is named here opens the reasoning all the same.
        ("{{ OPENS if enable_thinking is defined }}", False, "has no switch for reasoning that is known"),
    ],
)
def test_what_no_switch_turns_is_told(switch: str, thinking: bool, warning: str) -> None:
    """The prompt is what it would have been, and the rendering says so; without the wish nothing is said."""
    template = made(switch)

    assert warning in " ".join(asked(template, thinking).warnings)
    assert asked(template, None).warnings == ()
    assert asked(template, True).warnings == ()
    assert "thinking_option" not in template.features


def test_a_template_without_reasoning_need_not_be_asked_for_none() -> None:
    """It gives none anyway; that it can't give any is told."""
    template = ChatTemplate(chat_templates.NO_TOOLS)

    assert asked(template, False).warnings == ()
    assert "knows of no reasoning" in " ".join(asked(template, True).warnings)


def test_a_switch_that_only_some_conversations_heed_is_told_in_the_others() -> None:
    """Like Granite 3.3's, which a system prompt of one's own takes away."""
    template = ChatTemplate(
        "{% if messages[0].role != 'system' %}{{ 'think within <think></think>' if thinking }}.<|end|>{% endif %}"
        "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )

    assert "think within" in asked(template, True, system="").text
    assert asked(template, True, system="").warnings == ()
    assert asked(template, False).warnings == ()
    assert "does not heed its switch" in " ".join(asked(template, True).warnings)


def test_the_word_for_none_is_no_part_of_a_conversation_without_it() -> None:
    """It stands in the system prompt of the replies that it is wanted for, and leaves the request as it was."""
    template = made(SWITCHES["a word in the system prompt"][0])
    request = ModelRequest("", History((UserMessage("m1", "Hello"),)), (), GenerationOptions(thinking=False))

    assert "system\n/no_think<|im_end|>" in template.render(request).text
    assert request.system == ""


UNREAD = """\
{%- for m in messages %}<|{{ m.role }}|>
{% if m.role == 'assistant' and m.reasoning %}Thought: {{ m.reasoning }} Answer: {% endif %}{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""


@pytest.mark.behaviour("T13_3")
def test_no_reasoning_is_told_in_vain_too_where_how_it_is_written_was_not_recognised() -> None:
    """The template shows reasoning, so the model may well reason, whatever was asked for."""
    template = ChatTemplate(UNREAD)

    assert template.format_spec().reasoning is None
    assert "thinking=False changes nothing" in " ".join(asked(template, False).warnings)

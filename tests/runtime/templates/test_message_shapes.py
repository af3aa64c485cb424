"""A conversation is given to a template in the least bent form that it accepts and that shows all of it."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

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
from runtime.templates._conversation import Shape, entries
from runtime.templates._protection import Shield
from runtime.templates.markers import Markers
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


ONLY_THE_FIRST = chat_templates.BARE_JSON.replace(
    "{%- if message.tool_calls | length > 1 %}{{ raise_exception('one call at a time') }}{% endif %}\n", ""
)
"""It drops all calls but the first, without a word."""

TEMPLATES = {source: ChatTemplate(source, apart=False) for source in (chat_templates.BARE_JSON, ONLY_THE_FIRST)}

NAMES = st.sampled_from(["add", "look"])
REPLIES = st.lists(st.tuples(st.sampled_from(["", "I look."]), st.lists(NAMES, max_size=3)), min_size=1, max_size=4)


def talk_of(replies: list[tuple[str, list[str]]]) -> list[Message]:
    """A conversation of these replies: the text of each, and the tools that it calls. Every value occurs once."""
    made: list[Message] = [QUESTION]
    for n, (text, names) in enumerate(replies):
        calls = tuple(ToolCall(f"c{n}-{k}", name, f'{{"a": {1000 * n + k + 7000}}}') for k, name in enumerate(names))
        said = f"{text} ({n})" if text else ""
        made.append(AssistantMessage(f"r{n}", said, calls=calls))
        made += [ToolMessage(f"t{n}-{k}", call.id, call.name, f"found {n}/{k}") for k, call in enumerate(calls)]
    return [*made, UserMessage("m9", "And now?")]


@pytest.mark.parametrize("source", [chat_templates.BARE_JSON, ONLY_THE_FIRST], ids=["refuses", "drops"])
@given(REPLIES)
@settings(max_examples=25)
def test_calls_of_one_reply_are_shown_in_turn_where_a_message_may_have_one(
    source: str, replies: list[tuple[str, list[str]]]
) -> None:
    """In the template's own form, which the model is trained on: it imitates any other."""
    text = TEMPLATES[source].render(ask(*talk_of(replies), tools=(ADD,))).text
    turns = [turn.partition("<|body|>") for turn in text.split("<|start|>")[1:]]
    wanted = []
    for n, (said, names) in enumerate(replies):
        # One call has its text beside it, which this template drops: it is trained on replies of a call alone.
        wanted += [("assistant", f"{said} ({n})" if said else "")] if (said and len(names) > 1) or not names else []
        for k, name in enumerate(names):
            wanted.append(("assistant", f'{{"name": "{name}", "parameters": {{"a": {1000 * n + k + 7000}}}}}'))
            wanted.append(("tool", f"found {n}/{k}"))

    assert [(role, body.removesuffix("<|eot|>")) for role, _, body in turns[2:-2]] == wanted
    assert "Call of" not in text


def test_the_form_of_several_calls_is_noted_and_used_only_for_them() -> None:
    template = ChatTemplate(chat_templates.BARE_JSON)
    note = "the template takes one call a message: each is shown in its own, before its result"
    kinds = [[("", ["add"])], [("", ["add", "look"])]]

    assert [note in template.render(ask(*talk_of(one), tools=(ADD,))).notes for one in kinds] == [False, True]
    assert template.warnings == ()


@pytest.mark.parametrize("name", ALL)
def test_nothing_of_several_calls_is_lost(name: str) -> None:
    template = ChatTemplate(getattr(chat_templates, name))
    rendered = template.render(ask(*talk_of([("", ["add", "add"])]), tools=(ADD,)))
    words = ["found 0/0", "found 0/1", *(() if name == "TELLS_ONLY" else ("7000", "7001"))]

    assert [word for word in words if word not in rendered.text] == []


def test_reasoning_stays_before_the_first_call_and_missing_results_leave_no_gap() -> None:
    calls = tuple(ToolCall(f"c{n}", "add") for n in range(3))
    messages = (QUESTION, AssistantMessage("m2", reasoning="Hm.", calls=calls), ToolMessage("m3", "c1", "add", "815"))

    _, first, second, result, third = entries(ask(*messages, system=""), Shield(Markers()), Shape(one_call=True))

    assert [one.get("reasoning_content") for one in (first, second, third)] == ["Hm.", None, None]
    assert [one["tool_calls"][0]["id"] for one in (first, second, third)] == ["c0", "c1", "c2"]
    assert result["tool_call_id"] == "c1"


EITHER = (
    "{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}"
    "{% for m in messages %}<{{ m.role }}>{% if m.content %}{{ m.content }}"
    "{% elif m.tool_calls %}{{ m.tool_calls[0].function | tojson }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
"""As Phi 4 mini's: of a message with text and calls it shows the text only."""


def test_a_call_beside_text_is_shown_in_a_message_of_its_own_where_a_template_shows_either() -> None:
    template = ChatTemplate(EITHER)
    question, called, result = CALLED
    assert isinstance(called, AssistantMessage)

    beside = template.render(ask(question, evolve(called, text="Let me add."), result, tools=(ADD,)))
    alone = template.render(ask(*CALLED, tools=(ADD,)))

    assert "<assistant>Let me add.<assistant>{" in beside.text
    assert "4711" in beside.text
    assert any("no call beside text" in note for note in beside.notes)
    assert ("4711" in alone.text, alone.notes) == (True, ())


LOOKS_FOR_PROPERTIES = (
    "{% for tool in tools or [] %}{{ tool.function.name }}"
    "({% for name, one in tool.function.parameters.properties.items() %}{{ name }}: {{ one.type.upper() }}{% endfor %})"
    "{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def test_a_tool_without_properties_has_none_where_a_template_looks_for_them() -> None:
    """As Seed-OSS's: it failed at every step of an agent with such a tool."""
    bare = ToolSpec("bare", "Does it.", {"type": "object"})

    text = ChatTemplate(LOOKS_FOR_PROPERTIES).render(ask(QUESTION, tools=(bare, ADD))).text

    assert text.startswith("bare()add(a: INTEGER)")


@pytest.mark.parametrize(
    "source", [LOOKS_FOR_PROPERTIES, LOOKS_FOR_PROPERTIES.replace("one.type.upper()", "kind(one)")]
)
def test_a_tool_on_which_a_template_fails_is_named(source: str) -> None:
    """Whether it refuses a list of types, or calls itself without end, as that of Hermes 3."""
    recursion = "{% macro kind(one) %}{% if one.type is string %}X{% else %}{{ kind(one) }}{% endif %}{% endmacro %}"
    odd = ToolSpec("odd", "Odd.", {"type": "object", "properties": {"a": {"type": ["string", "null"]}}})
    template = ChatTemplate(recursion + source)

    with pytest.raises(TemplateError, match=r"it fails on the parameters of the tool 'odd': simplify their schema"):
        template.render(ask(QUESTION, tools=(ADD, odd)))
    assert "add(a: " in template.render(ask(QUESTION, tools=(ADD,))).text


def test_a_template_that_fails_on_every_tool_names_none() -> None:
    template = ChatTemplate("{% if tools %}{{ raise_exception('no tools') }}{% endif %}{{ messages[-1].content }}")

    with pytest.raises(TemplateError, match=r"no other form of the conversation was accepted either$"):
        template.render(ask(QUESTION, tools=(ADD,)))


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

"""Chat templates are rendered as transformers renders them, and bent as little as a strict one needs."""

from copy import deepcopy
from datetime import datetime

import jinja2
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
from cognition.parsing import HERMES
from runtime import TemplateError
from runtime.templates.template import FALLBACK_TEMPLATE, ChatTemplate
from tests.runtime import chat_templates

ADD = ToolSpec("add", "Adds é & <b>.", {"type": "object", "properties": {"a": {"type": "integer"}}})
HELLO = UserMessage("m1", "Hello")


def ask(
    *messages: Message, system: str = "", tools: tuple[ToolSpec, ...] = (), thinking: bool | None = None
) -> ModelRequest:
    return ModelRequest(system, History(messages), tools, GenerationOptions(thinking=thinking))


class TestRender:
    def test_a_conversation(self) -> None:
        """System prompt, tools, reasoning, calls and results stand where the template puts them."""
        rendered = ChatTemplate(chat_templates.HERMES_LIKE).render(
            ask(
                HELLO,
                AssistantMessage("m2", "Let me see.", "Hm.", (ToolCall("c1", "add", {"a": 1, "é": "<b>"}),)),  # type: ignore[arg-type]
                ToolMessage("m3", "c1", "add", "2"),
                system="Be kind.",
                tools=(ADD,),
            )
        )

        assert rendered.text == (
            "<|im_start|>system\nBe kind.\n\nTools:\n"
            '{"type": "function", "function": {"name": "add", "description": "Adds é & <b>.", '
            '"parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}<|im_end|>\n'
            "<|im_start|>user\nHello<|im_end|>\n"
            "<|im_start|>assistant\n<think>\nHm.\n</think>\n\nLet me see.\n"
            '<tool_call>\n{"name": "add", "arguments": {"a": 1, "é": "<b>"}}\n</tool_call><|im_end|>\n'
            "<|im_start|>user\n<tool_response>\n2\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n"
        )
        assert rendered.notes == ()

    @pytest.mark.parametrize(
        ("thinking", "tail"), [(None, ""), (True, ""), (False, "<think>\n\n</think>\n\n")], ids=["unset", "on", "off"]
    )
    def test_thinking_is_told_only_when_it_is_set(self, thinking: bool | None, tail: str) -> None:
        """``enable_thinking`` reaches the template when the options say so, and is undefined otherwise."""
        rendered = ChatTemplate(chat_templates.HERMES_LIKE).render(ask(HELLO, thinking=thinking))

        assert rendered.text.endswith("<|im_start|>assistant\n" + tail)

    def test_whether_reasoning_is_open_is_read_off_the_prompt(self) -> None:
        """The format of a reply begins inside the reasoning just when its prompt ends there."""
        template = ChatTemplate(chat_templates.OPENS_REASONING)
        reasoning = template.render(ask(HELLO)).format.reasoning
        hermes = ChatTemplate(chat_templates.HERMES_LIKE).render(ask(HELLO, thinking=False)).format.reasoning

        assert reasoning is not None
        assert hermes is not None
        assert (reasoning.opened, hermes.opened) == (True, False)

    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            ("{% generation %}a{% endgeneration %}", "a"),
            ("{% for i in range(5) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
            ("{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "02"),
            ("{{ {'b': '<é>', 'a': 1} | tojson }}", '{"b": "<é>", "a": 1}'),
            ("{{ [1, 2] | tojson(indent=1) }}", "[\n 1,\n 2\n]"),
            ("{{ strftime_now('%d %b %Y') }}", "02 Jan 2026"),
            ("{{ bos_token }}{{ eos_token }}", "<s></s>"),
            ("a\n  {% if true %}\nb\n  {% endif %}\nc", "a\nb\nc"),
            ("{{ messages[0].content }}{{ undefined_thing }}", "Hello"),
        ],
    )
    def test_what_templates_may_use(self, source: str, expected: str) -> None:
        """The features that transformers gives to templates work the same way."""
        template = ChatTemplate(
            source,
            bos_token="<s>",
            eos_token="</s>",
            now=lambda: datetime(2026, 1, 2),
        )

        assert template.render(ask(HELLO)).text == expected

    @pytest.mark.parametrize(
        "source", ["{{ messages.append(1) }}", "{{ ''.__class__.__mro__ }}", "{{ messages.__class__.__base__ }}"]
    )
    def test_templates_are_kept_in_the_sandbox(self, source: str) -> None:
        """A stranger's template can neither change what it is given nor reach out."""
        with pytest.raises(TemplateError, match="refuses the conversation"):
            ChatTemplate(source).render(ask(HELLO))

    def test_a_syntax_error_is_told_with_its_line(self) -> None:
        """One line that says where it is and what to do."""
        with pytest.raises(
            TemplateError, match=r"syntax error in line 2 .*; use the template of the model's publisher"
        ):
            ChatTemplate("a\n{% if %}")

    @pytest.mark.parametrize(
        "source",
        [
            "{{" + "{" * 400,
            "{{ " + "-" * 3000 + "1 }}",
            "{% for a in b %}" * 25 + "{% endfor %}" * 25,
            "{% if a %}" * 120 + "{% endif %}" * 120,
        ],
        ids=["braces", "signs", "loops", "conditions"],
    )
    def test_a_template_nested_beyond_measure_is_refused(self, source: str) -> None:
        """Whether Jinja gives up over it or Python over what Jinja makes of it."""
        with pytest.raises(TemplateError, match="the chat template can't be compiled"):
            ChatTemplate(source)

    def test_with_a_text_protocol_calls_stay_in_the_text(self) -> None:
        """The core reads them there; reasoning is told apart all the same."""
        request = ModelRequest("", History((HELLO,)), (), GenerationOptions(), protocol="tool_tags")
        spec = ChatTemplate(chat_templates.HERMES_LIKE).render(request).format

        assert (spec.calls, spec.reasoning) == (None, HERMES.reasoning)


@pytest.mark.parametrize("name", [name for name in vars(chat_templates) if name.isupper()])
def test_what_comes_of_it_is_what_transformers_makes_of_it(name: str) -> None:
    """To the letter, with tools and without, where transformers makes anything of it."""
    theirs = pytest.importorskip("transformers.utils.chat_template_utils").render_jinja_template
    call = {"name": "add", "arguments": {"a": 1, "é": "<b> & 'c'", "n": [2.5, None, True]}}
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hä? 天気"},
        {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": "abcdefghi", "function": call}]},
        {"role": "tool", "content": "2", "tool_call_id": "abcdefghi", "name": "add"},
        {"role": "assistant", "content": "It is 2."},
        {"role": "user", "content": "Thanks."},
    ]
    tool = {"type": "function", "function": {"name": "add", "description": "é & <b>", "parameters": ADD.parameters}}
    template = ChatTemplate(getattr(chat_templates, name), bos_token="<s>", eos_token="</s>")
    compared = 0
    for said, tools in ((messages[:2], None), (messages[1:2], [tool]), (messages, [tool]), (messages[1:], None)):
        try:
            ((expected,), _) = theirs(
                conversations=[deepcopy(said)], tools=deepcopy(tools), chat_template=template.source,
                add_generation_prompt=True, bos_token="<s>", eos_token="</s>",
            )  # fmt: skip
        except (jinja2.TemplateError, TypeError):  # it refuses this conversation, or the sandbox the template
            continue

        compared += 1
        assert expected == template.apply(said, tools, add_generation_prompt=True)
    assert compared


class TestBending:
    def test_neighbours_are_merged_for_strict_templates(self) -> None:
        """Notes of the engine after a user's message don't break a template that wants strict turns."""
        rendered = ChatTemplate(chat_templates.STRICT).render(
            ask(HELLO, UserMessage("m2", "A note.", "engine"), AssistantMessage("m3", "Hi"), UserMessage("m4", "Bye"))
        )

        assert rendered.text == "<user>Hello\n\nA note.</turn><assistant>Hi</turn><user>Bye</turn><assistant>"
        assert len(rendered.notes) == 1

    def test_the_system_prompt_is_folded_where_there_is_no_role_for_it(self) -> None:
        """It comes before the first message of the user."""
        rendered = ChatTemplate(chat_templates.STRICT).render(ask(HELLO, system="Be kind."))

        assert rendered.text == "<user>Be kind.\n\nHello</turn><assistant>"
        assert len(rendered.notes) == 1

    def test_ids_are_shortened_for_those_that_insist(self) -> None:
        """A call and its result keep one id between them."""
        call = ToolCall("call-1-1-1", "add", {"a": 1})  # type: ignore[arg-type]  # a converter
        rendered = ChatTemplate(chat_templates.NINE_LETTER_IDS).render(
            ask(HELLO, AssistantMessage("m2", calls=(call,)), ToolMessage("m3", "call-1-1-1", "add", "2"))
        )

        assert '"id": "call00000"' in rendered.text
        assert "<|tool|>call00000:2" in rendered.text

    def test_arguments_become_text_where_they_are_concatenated(self) -> None:
        """A template that adds the arguments to a text gets them as JSON text."""
        call = ToolCall("c1", "add", '{"a":  1}')
        rendered = ChatTemplate(chat_templates.TEXT_ARGUMENTS).render(ask(HELLO, AssistantMessage("m2", calls=(call,))))

        assert '<call>{"name": "add", "arguments": {"a":  1}}</call>' in rendered.text

    def test_a_template_that_refuses_everything_says_why(self) -> None:
        """The refusal of the plain form is what is told."""
        template = ChatTemplate("{{ raise_exception('never: ' + messages[0].role) }}")

        with pytest.raises(TemplateError, match="never: system"):
            template.render(ask(HELLO, system="Be kind."))


class TestFallback:
    def test_it_shows_everything(self) -> None:
        """A model without a template is told of system prompt, tools, calls, reasoning and results."""
        template = ChatTemplate(FALLBACK_TEMPLATE)
        call = ToolCall("c1", "add", {"a": 1})  # type: ignore[arg-type]  # a converter
        text = template.render(
            ask(
                HELLO,
                AssistantMessage("m2", "", "Hm.", (call,)),
                ToolMessage("m3", "c1", "add", "2"),
                system="Be kind.",
                tools=(ADD,),
            )
        ).text

        assert template.format_spec().name == "hermes"
        assert set(template.features) == {"system", "tools", "thinking"}
        for part in (
            "Be kind.",
            '"name": "add"',
            "Hello",
            "<think>\nHm.\n</think>",
            '{"a": 1}',
            "<tool_response>\n2\n",
        ):
            assert part in text


UNREADABLE = {
    "no JSON": "{",
    "nothing": "",
    "a list": "[1]",
    "no number": '{"a": NaN}',
    "a number without end": '{"a": 1e999}',
    "a number of 5,000 digits": f'{{"a": {"9" * 5_000}}}',
    "too deep to be marked": '{"a":' * 600 + "1" + "}" * 600,
    "too deep to be read": '{"a":' * 100_000 + "1" + "}" * 100_000,
}


@pytest.mark.parametrize("arguments", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("apart", [False, True])
def test_a_call_whose_arguments_can_not_be_read_is_told_as_it_stands(arguments: str, apart: bool) -> None:
    call = ToolCall("c1", "look", arguments)
    messages = [UserMessage("m1", "Look"), AssistantMessage("m2", calls=(call,)), ToolMessage("m3", "c1", "look", "a")]
    template = ChatTemplate(FALLBACK_TEMPLATE, apart=apart)

    rendered = template.render(ModelRequest("", History(messages), (), GenerationOptions()))

    assert f"Call of look: {arguments}" in rendered.text
    assert any("told as text" in note for note in rendered.notes)


@pytest.mark.parametrize("apart", [False, True])
def test_parameters_that_are_too_deep_for_a_prompt_are_an_error_in_plain_words(apart: bool) -> None:
    deep: dict[str, object] = {"type": "object"}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a": deep}}
    template = ChatTemplate(FALLBACK_TEMPLATE, apart=apart)

    with pytest.raises(TemplateError, match="nested too deeply"):
        template.render(
            ModelRequest("", History([UserMessage("m1", "Hi")]), (ToolSpec("look", "", deep),), GenerationOptions())
        )

"""Where prompts end that others are likely to share: found by rendering otherwise."""

from __future__ import annotations

from attrs import evolve

from cognition import AssistantMessage, GenerationOptions, History, Message, ModelRequest, UserMessage
from runtime.local.engine import PrefixBoundaries
from runtime.templates.template import ChatTemplate

TEMPLATE = (
    "{% for message in messages %}[{{ message.role[0] }}]{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[a]{% endif %}"
)


def ask(*messages: Message, system: str = "Be brief.") -> ModelRequest:
    return ModelRequest(system, History(messages), (), GenerationOptions())


def shares(request: ModelRequest, template: str = TEMPLATE) -> list[str]:
    """The beginnings, as texts; a token is a character here."""
    made = ChatTemplate(template)
    prompt = made.render(request).text
    ends = PrefixBoundaries(made, lambda rendered: [ord(letter) for letter in rendered.text]).of(
        request, [ord(letter) for letter in prompt]
    )
    return [prompt[:end] for end in ends]


def test_the_system_prompt_and_the_last_message() -> None:
    """What agents of one kind share, and what the next turn repeats."""
    first, answer, second = UserMessage("m1", "Hi"), AssistantMessage("m2", "Yes?"), UserMessage("m3", "Well")

    assert shares(ask(first)) == ["[s]Be brief.\n[u]", "[s]Be brief.\n[u]Hi\n"]
    assert shares(ask(first, answer, second)) == ["[s]Be brief.\n[u]", "[s]Be brief.\n[u]Hi\n[a]Yes?\n[u]Well\n"]


def test_a_template_that_opens_no_reply() -> None:
    """Then all but the last token, which is always evaluated."""
    closed = TEMPLATE.partition("{% if add")[0]

    assert shares(ask(UserMessage("m1", "Hi")), closed)[-1] == "[s]Be brief.\n[u]Hi"


def test_a_template_that_refuses_the_other_form() -> None:
    """It shares what is left: nothing there, and the prompt is evaluated as one."""
    strict = "{% if not add_generation_prompt %}{{ raise_exception('open') }}{% endif %}" + TEMPLATE

    assert shares(ask(UserMessage("m1", "Hi")), strict) == ["[s]Be brief.\n[u]"]


def test_another_system_prompt_is_looked_at_anew() -> None:
    """What was found for one request is not taken for another."""
    made = ChatTemplate(TEMPLATE)
    boundaries = PrefixBoundaries(made, lambda rendered: [ord(letter) for letter in rendered.text])
    request = ask(UserMessage("m1", "Hi"))
    for system in ("Be brief.", "Be long.", "Be brief."):
        asked = evolve(request, system=system)
        prompt = made.render(asked).text
        ends = boundaries.of(asked, [ord(letter) for letter in prompt])
        assert prompt[: ends[0]] == f"[s]{system}\n[u]"

"""Conversations that are rendered to find out what a template does, and what they show."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve, frozen

from cognition.parsing import FormatSpec, parse_reply
from runtime.errors import TemplateError

Apply = Callable[..., str]
"""``ChatTemplate.apply``."""

USER, TEXT, REASONING = "PROBE-USER", "PROBE-TEXT", "PROBE-REASONING"
NAME, KEY, VALUE = "probe_tool", "probe_key", "PROBE-VALUE"
OTHER_VALUE = "PROBE-OTHER-VALUE"

REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
"""Under which templates look for a message's reasoning; the first is the usual one."""

TOOL = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "PROBE-DESCRIPTION",
        "parameters": {
            "type": "object",
            "properties": {KEY: {"type": "string", "description": "PROBE-PARAMETER"}},
            "required": [KEY],
        },
    },
}

MARKER = re.compile(r"<[^<>\s]+>|\[[A-Z_/]+\]|◁[^◁▷\s]+▷")
"""What families use as markers: ``<think>``, ``<|tool_call|>``, ``[TOOL_CALLS]``, ``◁think▷``."""


@frozen
class Probe:
    """The part of a rendered conversation that one assistant message made, role header included."""

    whole: str
    before: str
    """What stands before the reply in the conversation, what is there of the generation prompt included."""
    prompted: str
    """The prompt that the model would have been given."""
    reply: str
    """The rest, which the model would write."""
    text: str = ""
    reasoning: str = ""
    values: tuple[str, ...] = ()
    """What was put in: text, reasoning, and the value of each call."""

    def shows(self, *texts: str) -> bool:
        return all(text in self.whole for text in texts)

    def read_with(self, spec: FormatSpec) -> bool:
        """Whether a parser with this format gets out of the reply what was put in."""
        reply = parse_reply(opened_for(spec, self.before, self.prompted, self.reply, self.reasoning), self.reply)
        calls = [(call.name, json.loads(call.arguments_json)) for call in reply.tool_calls]
        return (
            reply.text.strip() == self.text
            and reply.reasoning.strip() == self.reasoning
            and not reply.malformed
            and calls == [(NAME, {KEY: value}) for value in self.values]
        )


class Prober:
    """Renders probes with one template."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply

    def render(self, messages: list[dict[str, Any]], *, tools: bool = False, prompt: bool = False) -> str | None:
        """A rendered conversation, or None where the template refuses it."""
        try:
            return self._apply(messages, [TOOL] if tools else None, add_generation_prompt=prompt)
        except TemplateError:
            return None

    def generation_prompt(self, *, tools: bool = False) -> str:
        """What asks the model to answer; empty when the template does not react to ``add_generation_prompt``."""
        without = self.render([_user()], tools=tools)
        with_it = self.render([_user()], tools=tools, prompt=True)
        return prompt_of(without, with_it)

    def reply(
        self,
        text: str = "",
        *,
        values: tuple[str, ...] = (),
        reasoning: Mapping[str, str] | None = None,
        as_text: bool = False,
        tools: bool = False,
    ) -> Probe | None:
        """What an assistant message adds to the conversation, or None where the template refuses it."""
        message: dict[str, Any] = {"role": "assistant", "content": text, **(reasoning or {})}
        if values:
            message["tool_calls"] = _calls(values, as_text)
        before = self.render([_user()], tools=tools)
        after = self.render([_user(), message], tools=tools)
        if before is None or after is None:
            return None
        prompt, thought = self.generation_prompt(tools=tools), "".join((reasoning or {}).values())
        whole, reply = continuation(before, prompt, after)
        return Probe(whole, after[: len(after) - len(reply)], before + prompt, reply, text, thought, values)

    def shows_system(self) -> bool:
        for tools in (False, True):
            rendered = self.render([{"role": "system", "content": "PROBE-SYSTEM"}, _user()], tools=tools)
            if rendered is not None:
                return "PROBE-SYSTEM" in rendered
        return False

    def minds_thinking(self) -> bool:
        """Whether the option that asks for reasoning, or for none, changes the prompt."""
        prompts = []
        for wanted in (False, True):
            try:
                prompts.append(self._apply([_user()], None, add_generation_prompt=True, enable_thinking=wanted))
            except TemplateError:
                return False
        return prompts[0] != prompts[1]

    def shows_tools(self) -> bool:
        return NAME in self.render_tools()

    def render_tools(self) -> str:
        """A conversation with a tool; empty where the template refuses it."""
        return self.render([_user()], tools=True) or ""


def _user() -> dict[str, Any]:
    return {"role": "user", "content": USER}


def _calls(values: tuple[str, ...], as_text: bool) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call{index:05d}",
            "type": "function",
            "function": {"name": NAME, "arguments": json.dumps({KEY: value}) if as_text else {KEY: value}},
        }
        for index, value in enumerate(values)
    ]


def opened_as(spec: FormatSpec, prompt: str) -> FormatSpec:
    """The format with ``opened`` as the prompt before a reply has it."""
    if spec.reasoning is None:
        return spec
    opened = prompt.rstrip().endswith(spec.reasoning.start.strip())
    return spec if opened == spec.reasoning.opened else evolve(spec, reasoning=evolve(spec.reasoning, opened=opened))


def opened_for(spec: FormatSpec, before: str, prompted: str, reply: str, reasoning: str) -> FormatSpec:
    """The format with ``opened`` as a rendered reply has it.

    Reasoning that begins the reply without a mark was opened by the generation prompt, even where the template does not
    show that in the conversation (Apriel 1.6).
    """
    found = opened_as(spec, before)
    unmarked = reasoning and found.reasoning and not found.reasoning.opened and reply.lstrip().startswith(reasoning)
    return opened_as(spec, prompted) if unmarked else found


def prompt_of(without: str | None, with_it: str | None) -> str:
    """The generation prompt, from a conversation rendered without it and with it."""
    if without is None or with_it is None:
        return ""
    # A template may end a conversation otherwise when no answer is asked for (Phi 3.5).
    return with_it[_at_marker(with_it, _shared_start(without, with_it)) :]


def continuation(before: str, prompt: str, after: str) -> tuple[str, str]:
    """What a message added: all of it, and what of it comes after the generation prompt.

    No marker is cut in two, though ``<think>`` and ``<tool_call>`` have their first two characters in common.
    """
    whole = after[_at_marker(after, _shared_start(before, after)) :]
    if whole.startswith(prompt):
        return whole, whole[len(prompt) :]
    size = _at_marker(whole, _shared_start(whole, prompt))
    if not size:  # the last messages end alike, so that the prompt's beginning was taken for their part
        starts = [match.start() for match in MARKER.finditer(prompt)]
        size = next((len(prompt) - at for at in starts if whole.startswith(prompt[at:])), 0)
    return whole, whole[size:]


def _at_marker(text: str, place: int) -> int:
    """The place, or where the marker starts in whose middle it lies."""
    return next((match.start() for match in MARKER.finditer(text) if match.start() < place < match.end()), place)


def _shared_start(a: str, b: str) -> int:
    size = min(len(a), len(b))
    return next((i for i in range(size) if a[i] != b[i]), size)

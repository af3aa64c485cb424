"""Chooses the form of a conversation for a template: the least adapted form that it accepts and shows completely.

A template's refusal is visible, an omission is not: Mistral Nemo's omits the system prompt after a tool call, Phi 3.5's
omits results. So each kind of conversation is first rendered with probe words, which must then be in the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

from attrs import evolve, frozen

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
from runtime.templates._conversation import Shape
from runtime.templates._probes import PROBES, unless_refused
from runtime.templates._thinking import Switch

SHAPES = tuple(
    Shape(calls_as_text=told, one_call=one, fold_system=fold, merge=merge, short_ids=short, text_apart=apart)
    for told, one, fold, merge, short, apart in product((False, True), repeat=6)
    if not (told and (one or apart))
)
"""In the order of trial: the plain form first, then the least adapted."""

OTHER_RESULT = "PROBE-OTHER-RESULT"
BESIDE = "PROBE-BESIDE"
"""The text beside a call. Many templates were trained without it, so it does not count as lost."""

LOST = {
    PROBES.system: "the system prompt",
    PROBES.user: "what the user says",
    PROBES.text: "the assistant's answers",
    PROBES.value: "the calls of tools",
    PROBES.result: "the results of tools",
    PROBES.other_value: "the calls of tools",
    OTHER_RESULT: "the results of tools",
}
"""The parts of a conversation, by the word that represents them in a probe."""


@frozen
class ConversationKind:
    """The properties that conversations of the same form share."""

    system: bool
    answered: bool
    """An answer precedes the last user message."""
    called: bool
    """There are calls and their results."""
    parallel: bool
    """A reply has several calls."""
    goes_on: bool
    """The last message is a result."""
    tools: bool
    """Tools are offered."""
    beside: bool = False
    """A reply has text and calls."""

    @classmethod
    def of(cls, request: ModelRequest, tools: bool) -> ConversationKind:
        messages = request.messages
        last = next(iter(reversed(messages)), None)
        return cls(
            bool(request.system),
            any(isinstance(message, AssistantMessage) and not message.calls for message in messages),
            any(isinstance(message, ToolMessage) for message in messages),
            any(isinstance(message, AssistantMessage) and len(message.calls) > 1 for message in messages),
            isinstance(last, ToolMessage),
            tools,
            any(isinstance(message, AssistantMessage) and message.calls and message.text for message in messages),
        )

    def probe(self) -> ModelRequest:
        user = UserMessage("m1", PROBES.user)
        said = ((PROBES.value, PROBES.result), (PROBES.other_value, OTHER_RESULT))[: 2 if self.parallel else 1]
        calls = tuple(
            ToolCall(f"call{number:05d}", PROBES.name, json.dumps({PROBES.key: value}))
            for number, (value, _) in enumerate(said)
        )
        results = [
            ToolMessage(f"m5{call.id}", call.id, PROBES.name, text) for call, (_, text) in zip(calls, said, strict=True)
        ]
        messages: list[Message] = [user]
        if self.answered:
            messages += [AssistantMessage("m2", PROBES.text), user]
        if self.called:
            messages += [AssistantMessage("m4", BESIDE if self.beside else "", calls=calls), *results]
        if self.called and not self.goes_on:
            messages += [AssistantMessage("m6", PROBES.text), user]
        properties: dict[str, Any] = {PROBES.key: {"type": "string", "description": PROBES.parameter}}
        tool = ToolSpec(PROBES.name, PROBES.description, {"type": "object", "properties": properties})
        return ModelRequest(
            PROBES.system if self.system else "", History(messages), (tool,) if self.tools else (), GenerationOptions()
        )


NATIVE = tuple(
    ConversationKind(True, False, called, False, called, tools)
    for called, tools in ((False, True), (True, True), (True, False))
)
"""The kinds that occur in an agent with tools: the last is its answer at the step limit."""


class MessageShapes:
    """Finds and caches the forms that one template accepts.

    Args:
        render: renders a request in a shape, with options; raises a ``TemplateError`` if the template refuses it.
        base: adaptations in every form.
        forgets_calls: the template omits old calls though the model writes calls. It was trained like that, so this
            does not count as a loss.
    """

    def __init__(self, render: Callable[..., str], base: Shape, *, forgets_calls: bool) -> None:
        self.render: Callable[..., str] = render
        self._forgets_calls = forgets_calls
        self._shapes = [
            evolve(one, text_arguments=base.text_arguments, reasoning_key=base.reasoning_key, parts=base.parts)
            for one in SHAPES
        ]
        self.plain: Shape = self._shapes[0]
        self.obeys: Callable[[Switch, ConversationKind, Shape], bool] = cache(self._obeys)
        self.lost_parts: Callable[[ConversationKind, Shape], tuple[str, ...] | None] = cache(self._lost_parts)

    def _obeys(self, switch: Switch, kind: ConversationKind, shape: Shape) -> bool:
        """Return whether the switch has an effect in such a conversation: a system prompt disables Granite 3.3's."""
        probe = kind.probe()
        off, on = (unless_refused(self.render, probe, shape, **switch.options(want)) for want in (False, True))
        return off is None or on is None or off != on or not switch.name

    def _lost_parts(self, kind: ConversationKind, shape: Shape) -> tuple[str, ...] | None:
        """Return the parts that the template omits from such a conversation in this shape; None if it refuses it."""
        text = unless_refused(self.render, kind.probe(), shape)
        if text is None:
            return None
        there = {PROBES.system: kind.system, PROBES.user: True, PROBES.text: kind.answered}
        there[PROBES.value] = kind.called and not self._forgets_calls
        there[PROBES.result] = kind.called
        there[PROBES.other_value] = kind.parallel and there[PROBES.value]
        there[OTHER_RESULT] = kind.parallel and kind.called
        lost = [LOST[word] for word, wanted in there.items() if wanted and word not in text]
        return tuple(dict.fromkeys(lost))

    def shapes(self, kind: ConversationKind) -> Iterator[tuple[Shape, tuple[str, ...]]]:
        """Yield the shapes in the order of trial, each with the parts that it loses.

        First come the shapes that lose nothing, then by number of lost parts. Last come the shapes refused for the
        probe: another conversation may be accepted.
        """
        shapes = [shape for shape in self._shapes if kind.beside or not shape.text_apart]
        for shape in shapes:
            if self.lost_parts(kind, shape) == ():
                yield shape, ()
        found = [(shape, self.lost_parts(kind, shape)) for shape in shapes]
        yield from sorted(((shape, lost) for shape, lost in found if lost), key=lambda pair: len(pair[1]))
        yield from ((shape, ()) for shape, lost in found if lost is None)

    def warnings(self) -> Iterator[str]:
        """Yield warnings about parts that are lost in an agent's conversations in every form."""
        for kind in NATIVE:
            _, lost = next(self.shapes(kind))
            yield from map(omission_warning, lost)


def omission_warning(what: str) -> str:
    return f"the chat template leaves {what} out of the conversation: the model does not see it"

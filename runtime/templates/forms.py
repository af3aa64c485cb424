"""In which form a conversation is given to a template: the least bent one that it accepts, and that shows all of it.

Templates refuse conversations, which is plain to see, and they leave parts of them out, which is not: Mistral Nemo's
forgets the system prompt once a tool was called, Phi 3.5's knows nothing of results. So each kind of conversation is
first rendered with words that are looked for in the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
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
from runtime.errors import TemplateError, TemplateStoppedError
from runtime.templates.conversation import Shape
from runtime.templates.probing import PROBES
from runtime.templates.switches import Switch

SHAPES = tuple(
    Shape(calls_as_text=told, fold_system=fold, merge=merge, short_ids=short)
    for told, fold, merge, short in product((False, True), repeat=4)
)
"""In the order in which they are tried: the plain form first, then the least bent."""

LOST = {
    PROBES.system: "the system prompt",
    PROBES.user: "what the user says",
    PROBES.text: "the assistant's answers",
    PROBES.value: "the calls of tools",
    PROBES.result: "the results of tools",
}
"""What a conversation holds, by the word that stands for it in a probe."""


@frozen
class Kind:
    """What conversations have to have in common to be taken in the same form."""

    system: bool
    answered: bool
    """An answer stands before the last message of the user."""
    called: bool
    """There are calls and their results."""
    goes_on: bool
    """The last message is a result."""
    tools: bool
    """Some are offered."""

    @classmethod
    def of(cls, request: ModelRequest, tools: bool) -> Kind:
        messages = request.messages
        last = next(iter(reversed(messages)), None)
        return cls(
            bool(request.system),
            any(isinstance(message, AssistantMessage) and not message.calls for message in messages),
            any(isinstance(message, ToolMessage) for message in messages),
            isinstance(last, ToolMessage),
            tools,
        )

    def probe(self) -> ModelRequest:
        """A conversation of this kind."""
        user = UserMessage("m1", PROBES.user)
        call = ToolCall("call00000", PROBES.name, json.dumps({PROBES.key: PROBES.value}))
        calls = (AssistantMessage("m4", calls=(call,)), ToolMessage("m5", call.id, PROBES.name, PROBES.result))
        messages: list[Message] = [user]
        if self.answered:
            messages += [AssistantMessage("m2", PROBES.text), user]
        if self.called:
            messages += calls
        if self.called and not self.goes_on:
            messages += [AssistantMessage("m6", PROBES.text), user]
        properties: dict[str, Any] = {PROBES.key: {"type": "string", "description": PROBES.parameter}}
        tool = ToolSpec(PROBES.name, PROBES.description, {"type": "object", "properties": properties})
        return ModelRequest(
            PROBES.system if self.system else "", History(messages), (tool,) if self.tools else (), GenerationOptions()
        )


NATIVE = tuple(
    Kind(True, False, called, called, tools) for called, tools in ((False, True), (True, True), (True, False))
)
"""The kinds that an agent with tools comes to: the last is its answer at the step limit."""


class Forms:
    """Knows the forms that one template takes.

    Args:
        render: renders a request in a shape, with options; raises a ``TemplateError`` where the template refuses it.
        base: what is bent in every form.
        forgets_calls: the template writes no old calls though the model makes some: it was trained so, and gets it so.
    """

    def __init__(self, render: Callable[..., str], base: Shape, *, forgets_calls: bool) -> None:
        self._render = render
        self._base = base
        self._forgets_calls = forgets_calls
        self._known: dict[tuple[Kind, Shape], tuple[str, ...] | None] = {}
        self._heard: dict[tuple[Kind, Shape], bool] = {}

    def hears(self, switch: Switch, kind: Kind, shape: Shape) -> bool:
        """Whether the switch makes a difference in such a conversation: Granite 3.3 hears none with a system prompt."""
        if (kind, shape) not in self._heard:
            try:
                prompts = {self._render(kind.probe(), shape, **switch.options(on)) for on in (False, True)}
            except TemplateStoppedError:
                raise
            except TemplateError:
                return True
            self._heard[kind, shape] = len(prompts) > 1
        return self._heard[kind, shape] or not switch.name

    def lost(self, kind: Kind, shape: Shape) -> tuple[str, ...] | None:
        """What the template leaves out of such a conversation in this shape; None where it refuses it."""
        if (kind, shape) not in self._known:
            self._known[kind, shape] = self._find(kind, shape)
        return self._known[kind, shape]

    def _find(self, kind: Kind, shape: Shape) -> tuple[str, ...] | None:
        request = kind.probe()
        try:
            text = self._render(request, shape)
        except TemplateStoppedError:
            raise
        except TemplateError:
            return None
        there = {PROBES.system: kind.system, PROBES.user: True, PROBES.text: kind.answered}
        there[PROBES.value] = kind.called and not self._forgets_calls
        there[PROBES.result] = kind.called
        return tuple(LOST[word] for word, wanted in there.items() if wanted and word not in text)

    def shapes(self, kind: Kind) -> Iterator[tuple[Shape, tuple[str, ...]]]:
        """The shapes in the order in which they are to be tried, and what each loses.

        Those that lose nothing come first, then those that lose least, at last those that such a conversation was
        refused in: another one may be accepted.
        """
        bent = [self._merged(shape) for shape in SHAPES]
        for shape in bent:
            if self.lost(kind, shape) == ():
                yield shape, ()
        found = [(shape, self.lost(kind, shape)) for shape in bent]
        losing = sorted(((shape, lost) for shape, lost in found if lost), key=lambda pair: len(pair[1]))
        yield from losing
        yield from ((shape, ()) for shape, lost in found if lost is None)

    def warnings(self) -> Iterator[str]:
        """What is lost in the conversations of an agent, however they are put."""
        for kind in NATIVE:
            shape, lost = next(self.shapes(kind))
            if self.lost(kind, shape) is None:
                continue
            for what in lost:
                yield left_out(what)

    def _merged(self, shape: Shape) -> Shape:
        base = self._base
        return evolve(shape, text_arguments=base.text_arguments, reasoning_key=base.reasoning_key, parts=base.parts)


def left_out(what: str) -> str:
    """A warning."""
    return f"the chat template leaves {what} out of the conversation: the model does not see it"

"""A model's own chat template: renders conversations as ``transformers`` and llama.cpp do, in a sandbox.

Templates come with downloaded models, so they are code of strangers: they run in a sandbox (``runtime.sandbox``), which
lets them read what they are given and nothing else, and stops them when they go on without end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from itertools import product
from typing import Any

import jinja2
import jinja2.meta
from attrs import evolve, frozen

from cognition import ModelRequest
from cognition.parsing import FormatSpec
from runtime.conversation import Entry, Shape, entries, tool_entries
from runtime.derivation import Derived, derive
from runtime.errors import TemplateError
from runtime.probing import opened_as
from runtime.protection import Shield
from runtime.sandbox import SIZE, STEPS, Sandbox, TooMuch, clock

FALLBACK_TEMPLATE = """\
{%- if tools or messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content }}{%- endif %}
    {%- if tools %}
        {%- if messages[0].role == 'system' %}{{- '\\n\\n' }}{%- endif %}
        {{- 'You may call these functions:\\n<tools>' }}
        {%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
        {{- '\\n</tools>\\n\\nTo call one, write its name and arguments as JSON within <tool_call></tool_call>:' }}
        {{- '\\n<tool_call>\\n{"name": <name>, "arguments": <arguments>}\\n</tool_call>' }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages if message.role != 'system' %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if message.reasoning_content %}
            {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- message.content }}
        {%- for call in message.tool_calls or [] %}
            {%- if not loop.first or message.content %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- (call.function.arguments | tojson) + '}\\n</tool_call>' }}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""What a model without a template gets: ChatML with Hermes tool calls, which most models have seen in training."""

DATETIME = "%b %d %Y %H:%M:%S GMT"
"""How FireFunction's template wants the time; llama.cpp gives it so."""

SHAPES = tuple(
    Shape(fold_system=fold, merge=merge, short_ids=short) for fold, merge, short in product((False, True), repeat=3)
)
"""In the order in which they are tried: the plain form first, then the least bent."""


@frozen
class Rendered:
    """A prompt, ready to be tokenised."""

    text: str
    """Ends with the generation prompt; holds placeholders where content has control texts."""
    literals: Mapping[str, str]
    """What each placeholder stands for."""
    format: FormatSpec
    """How to read the reply to this prompt: it says whether the prompt has already opened the reasoning."""
    notes: tuple[str, ...] = ()
    """How the conversation had to be bent for this template."""


class ChatTemplate:
    """A chat template and what follows from it.

    Args:
        source: Jinja2, as in ``tokenizer_config.json`` or ``tokenizer.chat_template``.
        bos_token, eos_token: their texts, which templates may write.
        control_texts: texts of control tokens that content must not be able to write (see ``runtime.protection``).
        now: for templates that write the date.
        steps: of loops, calls and filters that one rendering may take.
        size: of any one text in it, in characters.

    Raises:
        TemplateError: the source is no valid template.
    """

    def __init__(
        self,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        control_texts: Iterable[str] = (),
        now: Callable[[], datetime] = datetime.now,
        steps: int = STEPS,
        size: int = SIZE,
    ) -> None:
        self.source = source
        self._control = frozenset(control_texts)
        self._sandbox = Sandbox(steps, size)
        self._sandbox.globals |= {"strftime_now": clock(now), "bos_token": bos_token, "eos_token": eos_token}
        self._now = now
        try:
            self._template = self._sandbox.from_string(source)
            self._wanted = jinja2.meta.find_undeclared_variables(self._sandbox.parse(source))
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(
                f"the chat template has a syntax error in line {error.lineno} ({error.message}); use the "
                "template of the model's publisher"
            ) from error
        except (RecursionError, MemoryError, SyntaxError) as error:  # the last of Python, over what Jinja made of it
            raise TemplateError(
                f"the chat template can't be compiled, it is nested too deeply ({error}); use the template of the "
                "model's publisher"
            ) from error

    def render(self, request: ModelRequest, *, open_reply: bool = True) -> Rendered:
        """The prompt for a request, with the generation prompt at its end unless ``open_reply`` is False.

        A template that refuses the plain form gets it bent as little as helps; ``Rendered.notes`` says how.

        Raises:
            TemplateError: it refuses every form.
        """
        shield = Shield(self._control)
        offered = () if request.options.tool_choice == "none" else request.tools
        tools = tool_entries(offered, shield) or None
        options: dict[str, Any] = {}
        if request.options.thinking is not None:
            options["enable_thinking"] = request.options.thinking
        refusal: Exception | None = None
        for shape in SHAPES:
            bent = evolve(shape, text_arguments=self._derived.text_arguments, reasoning_key=self._derived.reasoning_key)
            try:
                text = self.apply(entries(request, shield, bent), tools, add_generation_prompt=open_reply, **options)
            except TemplateError as error:
                refusal = refusal or error  # the refusal of the plain form says most
            else:
                return Rendered(text, shield.literals, self._spec_for(text, request), bent.notes())
        raise TemplateError(f"{refusal}; no other form of the conversation was accepted either") from refusal

    def format_spec(self) -> FormatSpec:
        """How the model marks reasoning and calls, found by rendering probes and comparing."""
        return self._derived.spec

    @property
    def derivation(self) -> Derived:
        """The format with all that was found out besides."""
        return self._derived

    def format_after(self, prompt: str) -> FormatSpec:
        """The format with ``opened`` as this prompt has it: templates open or close reasoning by their options."""
        return opened_as(self._derived.spec, prompt)

    @property
    def features(self) -> tuple[str, ...]:
        """Of ``tools``, ``system``, ``thinking``: what the template does anything about."""
        return self._derived.features

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know of the derivation, one sentence each."""
        return self._derived.warnings

    def apply(self, messages: list[Entry], tools: list[Entry] | None, **options: Any) -> str:
        """Render dictionaries as they are.

        Raises:
            TemplateError: the template refuses them, or fails.
        """
        variables: dict[str, Any] = {"messages": messages, "tools": tools, **options}
        if tools and "xml_tools" in self.source:  # SmolLM3 knows its tools under this name only
            variables.setdefault("xml_tools", tools)
        if "functions" in self._wanted and "tools" not in self._wanted:  # FireFunction too, and as JSON text
            written = json.dumps(tools, ensure_ascii=False, indent=2) if tools else ""
            variables = {"functions": written, "datetime": self._now().strftime(DATETIME), **variables}
        try:
            return self._sandbox.run(self._template, variables)
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise TemplateError(f"the chat template refuses the conversation: {error}") from error
        except (TooMuch, RecursionError, MemoryError) as error:
            raise TemplateError(f"the chat template was stopped: {error}") from error

    @cached_property
    def _derived(self) -> Derived:
        return derive(self.apply, self.source)

    def _spec_for(self, prompt: str, request: ModelRequest) -> FormatSpec:
        """How to read the reply to this prompt.

        With a text protocol the text is the core's to read, calls and all.
        """
        spec = self.format_after(prompt)
        return spec if request.protocol == "native" else evolve(spec, calls=None)

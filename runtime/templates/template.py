"""A model's own chat template: renders conversations as ``transformers`` and llama.cpp do, in a sandbox.

Templates come with downloaded models, so they are untrusted code. They run in a sandbox (``_sandbox``), which limits
their access to the values passed to them and stops endless loops. Unknown templates (``is_known``) also run in a
separate process (``_isolated_renderer``), which ends if nothing else stops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from cognition import ModelRequest, ToolMessage, ToolSpec
from cognition.parsing import FormatSpec
from runtime.errors import TemplateError, TemplateStoppedError
from runtime.templates._compiled_template import CompiledTemplate
from runtime.templates._conversation import NO_TOOLS, Entry, OfferedTools, Shape, Undefined, entries, tool_entries
from runtime.templates._derivation import Derivation, read_as
from runtime.templates._isolated_renderer import IsolatedTemplate
from runtime.templates._message_shapes import ConversationKind, MessageShapes, omission_warning
from runtime.templates._probes import with_opened
from runtime.templates._protection import LEAD, WRITTEN_LEAD, Shield, separate_marks
from runtime.templates._sandbox import SIZE, STEPS
from runtime.templates.limits import Allowance, check_source, one_allowance
from runtime.templates.markers import Markers

LIST = Path(__file__).with_name("known_templates.txt")
"""The known templates: the shipped one, and those that ``make conformance`` renders completely. One line for each: the
SHA-256 of its text in hexadecimal digits, and its name. ``tests/conformance/templates.py --known`` writes it.
"""

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
"""The template of a model without one: ChatML with Hermes tool calls, which most models know from training."""


@frozen
class RenderedPrompt:
    """A prompt, ready for tokenising."""

    text: str
    """Ends with the generation prompt."""
    format: FormatSpec
    """How to read the reply to this prompt, including whether the prompt has already opened the reasoning."""
    marked: tuple[int, ...] = ()
    """Positions in the text of content characters that could be part of a marker; see ``_protection``."""
    notes: tuple[str, ...] = ()
    """The adaptations of the conversation to this template."""
    warnings: tuple[str, ...] = ()
    """Requested features that are missing from the prompt, one sentence each."""


class ChatTemplate:
    """A chat template and the facts derived from it.

    Args:
        source: Jinja2, as in ``tokenizer_config.json`` or ``tokenizer.chat_template``.
        without_tools: the source of a second template for conversations without tools and calls, if the model has one.
            bos_token, eos_token: their texts, which templates may write.
        markers: texts that content must not be able to write (see ``_protection``); None: no protection.
        now: the clock, for templates that write the date.
        steps: limit of loops, calls and filters in one rendering.
        size: limit of any text in it, in characters.
        apart: whether it runs in a separate process; None: unless it is known (see ``is_known``). With False,
            the program vouches for the template: only the step limit stops it.
        format: how replies are read; None: as derived from the template.

    Raises:
        TemplateError: the source is not a valid template.
        TemplateStoppedError: compiling takes more time or memory than for any real template.
    """

    def __init__(
        self,
        source: str,
        *,
        without_tools: str | None = None,
        bos_token: str = "",
        eos_token: str = "",
        markers: Markers | None = None,
        now: Callable[[], datetime] = datetime.now,
        steps: int = STEPS,
        size: int = SIZE,
        apart: bool | None = None,
        format: FormatSpec | None = None,
    ) -> None:
        check_source(source, bos_token, eos_token)
        self.source = source
        self._markers = Markers() if markers is None else markers
        self._shield = Shield(self._markers)
        self._offered = OfferedTools(self._shield)
        self._format = format
        self.apart: bool = not is_known(source) if apart is None else apart
        options: Any = {"bos_token": bos_token, "eos_token": eos_token, "now": now, "steps": steps, "size": size}
        self._preparing = Allowance()
        with one_allowance(self._preparing):
            self._renderer = (IsolatedTemplate if self.apart else CompiledTemplate)(source, **options)
            self._plain: ChatTemplate | None = None
            if without_tools is not None and without_tools != source:
                self._plain = ChatTemplate(without_tools, markers=self._markers, apart=apart, format=format, **options)

    def close(self) -> None:
        """Free the template's resources. The next request creates them again."""
        self._renderer.close()
        if self._plain is not None:
            self._plain.close()

    @one_allowance()
    def render(self, request: ModelRequest, *, open_reply: bool = True) -> RenderedPrompt:
        """Return the prompt for a request, with the generation prompt at its end unless ``open_reply`` is False.

        If a template refuses the plain form, or omits parts of it, the conversation is adapted as little as possible.
        ``RenderedPrompt.notes`` lists the adaptations, ``RenderedPrompt.warnings`` the parts that are still missing.

        Raises:
            TemplateError: it refuses every form.
            TemplateStoppedError: a limit stopped it.
        """
        found = self.derivation
        offered = () if request.options.tool_choice == "none" else request.tools
        if not offered and not self._takes(request):
            if self._plain is not None:
                return self._plain.render(request, open_reply=open_reply)
            if found.no_tools is None and not request.tools:
                raise TemplateError(
                    "the chat template refuses every conversation without tools; give the agent a tool, or use a "
                    "template of the model's publisher that takes such conversations"
                )
        shown_all_the_same = not offered and found.no_tools is None
        offered = request.tools if shown_all_the_same else offered
        thinking = request.options.thinking
        options: Mapping[str, Any] = {}
        if thinking is not None and found.switch is not None:
            options = found.switch.options(thinking)
            if word := found.switch.word(thinking):
                request = evolve(request, system=f"{request.system}\n\n{word}".strip())
        refusal: TemplateError | None = None
        kind = ConversationKind.of(request, bool(offered))
        for shown, (shape, lost) in product(_equal_schemas(offered), self._shapes.shapes(kind)):
            try:
                tools = self._offered.entries(shown) or NO_TOOLS[found.no_tools or "none"]
                made = entries(request, self._shield, shape)
                wrote = self._renderer.apply(made, tools, {"add_generation_prompt": open_reply, **options})
            except RecursionError as error:
                raise TemplateError(
                    "a tool's parameters or a message's parts are nested too deeply for a prompt; flatten them"
                ) from error
            except TemplateStoppedError as error:
                raise self._name_tool(error, offered) from error
            except TemplateError as error:
                refusal = refusal or error  # the refusal of the plainest form says most
                continue
            heard = found.switch is None or self._shapes.obeys(found.switch, kind, shape)
            unheard = _thinking_warnings(thinking, found, heard=heard)
            showing = ("the template refuses conversations without tools: it is shown those that may not be called",)
            warnings = (*map(omission_warning, lost), *unheard, *(showing if shown_all_the_same else ()))
            text, marked = separate_marks(wrote) if LEAD in wrote or WRITTEN_LEAD in wrote else (wrote, ())
            spec = self.format_after(text)
            # With a text protocol the core parses the text, including calls.
            spec = spec if request.protocol == "native" else evolve(spec, calls=None)
            return RenderedPrompt(text, spec, marked, shape.notes(), warnings)
        refused = TemplateError(f"{refusal}; no other form of the conversation was accepted either")
        raise self._name_tool(refused, offered) from refusal

    def _name_tool(self, error: TemplateError, tools: Sequence[ToolSpec]) -> TemplateError:
        """Return the error with the name of the tool on which the template fails, if it does not fail on others."""
        probe = ConversationKind(False, False, False, False, False, True).probe()

        def fails(tool: ToolSpec) -> bool:
            try:
                self._shapes.render(evolve(probe, tools=(tool,)), self._shapes.plain)
            except TemplateError:
                return True
            return False

        if tools and not fails(*probe.tools) and (failing := next(filter(fails, tools), None)):
            why = f"{error} (it fails on the parameters of the tool {failing.name!r}: simplify their schema)"
            return type(error)(why)
        return error

    def _takes(self, request: ModelRequest) -> bool:
        """Return whether to use this template for a conversation without offered tools."""
        called = any(isinstance(message, ToolMessage) for message in request.messages)
        suits = self._plain is None or (called and request.protocol == "native")
        return suits and self.derivation.no_tools is not None

    def format_spec(self) -> FormatSpec:
        """Return how the model marks reasoning and calls, derived by rendering and comparing probes."""
        return self.derivation.spec

    @cached_property
    def derivation(self) -> Derivation:
        """The derived format with all other findings."""
        with one_allowance(self._preparing):
            found = self._renderer.derive()
        return found if self._format is None else read_as(found, self._format)

    def format_after(self, prompt: str) -> FormatSpec:
        """Return the format with ``opened`` as in this prompt: options let templates open or close reasoning."""
        return with_opened(self.derivation.spec, prompt)

    @property
    def features(self) -> tuple[str, ...]:
        """The features that the template supports, of ``tools``, ``system``, ``thinking``, ``thinking_option``."""
        return self.derivation.features

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for users of the template, one sentence each."""
        with one_allowance(self._preparing):
            return tuple(dict.fromkeys((*self.derivation.warnings, *self._shapes.warnings())))

    def apply(self, messages: list[Entry], tools: list[Entry] | Undefined | None, **options: Any) -> str:
        """Render dictionaries unchanged.

        Raises:
            TemplateError: the template refuses them, or fails.
            TemplateStoppedError: a limit stopped it.
        """
        return self._renderer.apply(messages, tools, options)

    @cached_property
    def _shapes(self) -> MessageShapes:
        found = self.derivation

        def render(request: ModelRequest, shape: Shape, **options: Any) -> str:
            shield = Shield(Markers())
            tools = tool_entries(request.tools, shield) or NO_TOOLS[found.no_tools or "none"]
            return self.apply(entries(request, shield, shape), tools, add_generation_prompt=True, **options)

        return MessageShapes(render, found.shape, forgets_calls=found.spec.calls is not None and not found.shows_calls)


def _equal_schemas(tools: Sequence[ToolSpec]) -> Iterator[Sequence[ToolSpec]]:
    """Yield the tools, then those with an empty ``properties`` where there are none, which some templates require."""
    yield tools
    named = [
        evolve(tool, parameters={**tool.parameters, "properties": {}}) if "properties" not in tool.parameters else tool
        for tool in tools
    ]
    if any(one is not other for one, other in zip(tools, named, strict=True)):
        yield named


def _thinking_warnings(thinking: bool | None, found: Derivation, *, heard: bool) -> tuple[str, ...]:
    """Return warnings for a request for or against reasoning that has no effect."""
    switch, reasons = found.switch, found.reasons
    if switch is None:
        if thinking is False and reasons:
            return ("the chat template has no switch for reasoning that is known: thinking=False changes nothing",)
        if thinking and not reasons:
            return ("the chat template knows of no reasoning: thinking=True changes nothing",)
    elif thinking is False and switch.weak:
        return (f"the chat template can't ask for no reasoning: thinking=False asks for little of it ({switch})",)
    elif not heard and thinking is (switch.on is not None):  # asked for the other way than it goes by itself
        return (f"the chat template does not heed its switch for reasoning in such a conversation ({thinking=})",)
    return ()


def fingerprint(source: str) -> str:
    """Return the hash of a template. Ignores trailing white space, which editors and converters change."""
    return sha256(source.rstrip().encode("utf-8", "surrogatepass")).hexdigest()


def is_known(source: str) -> bool:
    """Return whether a template is in the list; False if the list is missing."""
    return fingerprint(source) in _known_fingerprints()


@cache
def _known_fingerprints() -> frozenset[str]:
    try:
        lines = LIST.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return frozenset()
    return frozenset(line.partition(" ")[0] for line in lines if line and not line.startswith("#"))

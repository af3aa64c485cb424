"""Probe conversations, rendered to find out a template's behaviour, and their analysis."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

from attrs import astuple, evolve, field, frozen

from cognition import ToolSpec
from cognition.parsing import FormatSpec, parse_reply
from runtime.errors import TemplateError, TemplateStoppedError
from runtime.templates._conversation import NO_TOOLS, Entry, NoTools, in_parts

Apply = Callable[..., str]
"""``ChatTemplate.apply``."""

REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
"""Keys under which templates look for a message's reasoning; the most common first."""

OTHER_KEYS = re.compile(r"""(?:\.|\[\s*['"]|get\(\s*['"])(\w*(?:think|thought|reason)\w*)""", re.IGNORECASE)
"""Matches keys in a template's source whose names suggest reasoning."""


MOST_NAMES = 16
"""The most names of a template's own that are tried. Each takes some renderings, and there might be thousands."""


LONGEST_NAME = 64
"""Characters."""


def reasoning_keys(source: str) -> tuple[str, ...]:
    """Return the keys under which this template may look for a message's reasoning: the common ones, and its own."""
    return tuple(dict.fromkeys((*REASONING_KEYS, *names(OTHER_KEYS, source))))[: len(REASONING_KEYS) + MOST_NAMES]


def names(pattern: re.Pattern[str], source: str) -> list[str]:
    """Return the distinct matches of a pattern in a template's source, without overlong names."""
    return [name for name in dict.fromkeys(pattern.findall(source)) if len(name) <= LONGEST_NAME]


@frozen
class ProbeWords:
    """The words of probes. Templates never write any of them on their own, and two sets have no common text."""

    system: str
    user: str
    text: str
    reasoning: str
    name: str
    key: str
    value: str
    other_value: str
    description: str
    parameter: str
    result: str

    def tool(self, *, several: bool = False) -> Entry:
        """Return the tool of the probes as a function definition; with ``several``, it also takes other types."""
        properties = {self.key: {"type": "string", "description": self.parameter}}
        if several:
            properties |= {name: {"type": kind, "description": "…"} for name, kind in SEVERAL_TYPES.items()}
        parameters = {"type": "object", "properties": properties, "required": [self.key]}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


PROBES = ProbeWords(
    system="PROBE-SYSTEM",
    user="PROBE-USER",
    text="PROBE-TEXT",
    reasoning="PROBE-REASONING",
    name="probe_tool",
    key="probe_key",
    value="PROBE-VALUE",
    other_value="PROBE-OTHER-VALUE",
    description="PROBE-DESCRIPTION",
    parameter="PROBE-PARAMETER",
    result="PROBE-RESULT",
)
"""The words for finding markers by comparison."""

PROOFS = ProbeWords(
    system="Vex no dwarf.",
    user="Jump high, quick wizard",
    text="Black quartz it is",
    reasoning="Sphinx, judge",
    name="judge_vow",
    key="quartz",
    value="five boxing",
    other_value="liquor jugs",
    description="Packs my box.",
    parameter="Which zebra.",
    result="Waltz, nymph",
)
"""The words for proving the findings: a marker that contains or depends on words of ``PROBES`` fails with these."""

SEVERAL: Mapping[str, Any] = {"count": 3, "exact": True, "tags": ["a", "b c"], "deep": {"x": [1, {"y": "z"}]}}
"""Arguments of several types beside the text, to check whether a call is read back completely."""

SEVERAL_TYPES = {"count": "integer", "exact": "boolean", "tags": "array", "deep": "object"}


MARKER = re.compile(r"<[^<>\s]+>|\[[A-Z_/]+\]|\[\|[^\[\]|\s]+\|\]|◁[^◁▷\s]+▷")
"""The usual shapes of markers: ``<think>``, ``<|tool_call|>``, ``[TOOL_CALLS]``, ``[|endofturn|]``, ``◁think▷``."""


def texts_of(value: Any) -> Iterator[str]:
    """Yield all texts of a format, including those of its parts, except its name."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, FormatSpec):
        yield from texts_of(astuple(evolve(value, name="")))


def holds_probes(value: Any) -> bool:
    """Return whether a text of a format, or of a part of one, contains words of a probe."""
    texts = [text.lower() for text in texts_of(value)]
    return any(word.lower() in text for words in (PROBES, PROOFS) for word in astuple(words) for text in texts)


def unless_refused(render: Callable[..., str], *arguments: Any, **options: Any) -> str | None:
    """Return what a template renders, or None if it refuses.

    Raises:
        TemplateStoppedError: a limit stopped it; it would be stopped again and again.
    """
    try:
        return render(*arguments, **options)
    except TemplateStoppedError:
        raise
    except TemplateError:
        return None


@frozen
class Probe:
    """The part of a rendered conversation that one assistant message added, including the role header."""

    whole: str
    before: str
    """The conversation before the reply, including any part of the generation prompt that it shows."""
    prompted: str
    """The prompt that the model would receive."""
    reply: str
    """The rest, which the model would write."""
    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """The probe's content: text, reasoning, and each call's name and arguments."""
    tools: tuple[ToolSpec, ...] = field(default=(), repr=False)
    """Tools whose schemas define the types of the arguments."""

    def shows(self, *texts: str) -> bool:
        return all(text in self.whole for text in texts)

    def read_with(self, spec: FormatSpec) -> bool:
        """Return whether a parser with this format reads the probe's content back from the reply."""
        found = with_opened_in_reply(spec, self.before, self.prompted, self.reply, self.reasoning)
        reply = parse_reply(found, self.reply, tools=self.tools)
        calls = [(call.name, json.loads(call.arguments_json)) for call in reply.tool_calls]
        return (
            reply.text.strip() == self.text
            and reply.reasoning.strip() == self.reasoning
            and not reply.malformed
            and calls == [(name, dict(arguments)) for name, arguments in self.calls]
        )

    def text_is_beside(self, spec: FormatSpec) -> bool:
        """Return whether the template writes the text of a reply with calls at a place for visible text.

        Some write it into the reasoning, or into a separate message.
        """
        end = min((self.reply.index(stop) for stop in spec.stops if stop in self.reply), default=len(self.reply))
        head, found, _ = self.reply[:end].partition(self.text)
        return bool(found) and (spec.reasoning is None or not head.rstrip().endswith(spec.reasoning.start))


class Prober:
    """Renders probes with one template.

    Args:
        apply: renders it.
        words: the words of the probes.
        like: a prober of the same template; its findings about the form of a conversation are reused.
    """

    def __init__(self, apply: Apply, words: ProbeWords = PROBES, like: Prober | None = None) -> None:
        self._apply = apply
        self.words = words
        self._led: bool = like is not None and like._led
        """The template requires a system prompt first, so each probe has one."""
        self.parts: bool = self._wants_parts() if like is None else like.parts
        """The template wants content as a list of parts."""
        self.no_tools: NoTools | None = self._find_no_tools() if like is None else like.no_tools
        """How to pass an empty set of tools; None if the template refuses every conversation without tools."""

    def _wants_parts(self) -> bool:
        """Return whether the template shows content only in parts. Also finds out whether it needs a system prompt."""
        toolsets = ([self.words.tool()], *NO_TOOLS.values())
        for self._led, tools, parts in product((False, True), toolsets, (False, True)):
            messages = in_parts([self.user()]) if parts else [self.user()]
            if self.words.user in (self._render_or_none(messages, tools) or ""):
                return parts
        self._led = False
        return False

    def _find_no_tools(self) -> NoTools | None:
        for form, value in NO_TOOLS.items():
            if self._render_or_none([self.user()], value) is not None:
                return form
        refuses_all = self._render_or_none([self.user()], [self.words.tool()]) is None
        return "none" if refuses_all else None

    def _render_or_none(self, messages: list[Entry], tools: Any, **options: Any) -> str | None:
        if self._led and messages[0]["role"] != "system":
            system: list[Entry] = [{"role": "system", "content": self.words.system}]
            listed = isinstance(messages[0]["content"], list)
            messages = [*(in_parts(system) if listed else system), *messages]
        return unless_refused(self._apply, messages, tools, **{"add_generation_prompt": True, **options})

    def render(
        self, messages: list[Entry], *, tools: bool | list[Entry] = False, prompt: bool = False, **options: Any
    ) -> str | None:
        """Return a rendered conversation, or None if the template refuses it."""
        given = [self.words.tool()] if tools is True else tools or NO_TOOLS[self.no_tools or "none"]
        messages = in_parts(messages) if self.parts else messages
        return self._render_or_none(messages, given, add_generation_prompt=prompt, **options)

    def user(self) -> Entry:
        return {"role": "user", "content": self.words.user}

    def generation_prompt(self, *, tools: bool | list[Entry] = False) -> str:
        """Return the generation prompt; empty if the template ignores ``add_generation_prompt``."""
        without = self.render([self.user()], tools=tools)
        with_it = self.render([self.user()], tools=tools, prompt=True)
        return prompt_of(without, with_it)

    def reply(
        self,
        text: str = "",
        *,
        values: tuple[str, ...] = (),
        reasoning: Mapping[str, str] | None = None,
        as_text: bool = False,
        tools: bool = False,
        several: bool = False,
        shows: tuple[str, ...] = (),
    ) -> Probe | None:
        """Return the text that an assistant message adds to the conversation.

        Returns None if the template refuses the message, or omits one of the texts that it must show.

        Args:
            text: the message's text.
            values: one for each call.
            reasoning: by the key under which the template looks for it.
            as_text: arguments are JSON text.
            tools: offer the tool to the model.
            several: add arguments of other types to the calls.
            shows: texts that the template must show.
        """
        name, key = self.words.name, self.words.key
        more = SEVERAL if several else {}
        calls = tuple((name, {key: value, **more}) for value in values)
        message: Entry = {"role": "assistant", "content": text, **(reasoning or {})}
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"call{index:05d}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments) if as_text else dict(arguments)},
                }
                for index, (_, arguments) in enumerate(calls)
            ]
        tool = self.words.tool(several=several)
        offered = [tool] if tools else False
        before = self.render([self.user()], tools=offered)
        after = self.render([self.user(), message], tools=offered)
        if before is None or after is None:
            return None
        prompt, thought = self.generation_prompt(tools=offered), "".join((reasoning or {}).values())
        whole, reply = continuation(before, prompt, after, self.words.user)
        schema = ToolSpec(name, "", tool["function"]["parameters"])
        shown = after[: len(after) - len(reply)]
        probe = Probe(whole, shown, before + prompt, reply, text, thought, calls, (schema,) if several else ())
        return probe if probe.shows(*shows) else None

    def shows_system(self) -> bool:
        system = {"role": "system", "content": self.words.system}
        rendered = (self.render([system, self.user()], tools=tools) for tools in (False, True))
        return self.words.system in next((text for text in rendered if text is not None), "")

    def render_tools(self) -> str:
        """Return a conversation with a tool; empty if the template refuses it."""
        return self.render([self.user()], tools=True) or ""


def with_opened(spec: FormatSpec, prompt: str) -> FormatSpec:
    """Return the format with ``opened`` set as in the prompt before a reply."""
    if spec.reasoning is None:
        return spec
    opened = prompt.rstrip().endswith(spec.reasoning.start.strip())
    return spec if opened == spec.reasoning.opened else evolve(spec, reasoning=evolve(spec.reasoning, opened=opened))


def with_opened_in_reply(spec: FormatSpec, before: str, prompted: str, reply: str, reasoning: str) -> FormatSpec:
    """Return the format with ``opened`` set as in a rendered reply.

    Reasoning that begins the reply without a marker was opened by the generation prompt, even if the template does not
    show that in the conversation (Apriel 1.6).
    """
    found = with_opened(spec, before)
    unmarked = reasoning and found.reasoning and not found.reasoning.opened and reply.lstrip().startswith(reasoning)
    return with_opened(spec, prompted) if unmarked else found


def prompt_of(without: str | None, with_it: str | None) -> str:
    """Return the generation prompt, from a conversation rendered without it and with it."""
    if without is None or with_it is None:
        return ""
    # A template may end a conversation otherwise when no answer is asked for (Phi 3.5).
    return with_it[_at_marker(with_it, _common_start(without, with_it)) :]


def continuation(before: str, prompt: str, after: str, question: str = "") -> tuple[str, str]:
    """Return the text that a message added, and the part of it after the generation prompt.

    Never cuts a marker in two, though ``<think>`` and ``<tool_call>`` begin with the same two characters.

    Args:
        before: the conversation without the message.
        prompt: the generation prompt.
        after: the conversation with the message.
        question: the last user message. A template may write it differently if it is the last message: vLLM's for
            Mistral adds instructions before it, others add some after it. The added text then begins after it and its
            end marker.
    """
    start = _common_start(before, after)
    asked = before.rfind(question) if question else -1
    shared = asked >= 0 and asked + len(question) <= start
    place = asked if shared else after.find(question, start) if question else -1
    if place >= 0:
        tail = before.rpartition(question)[2]
        start = place + len(question)
        start += _closing_length(tail, after[start:])
    whole = after[_at_marker(after, start) :]
    if whole.startswith(prompt):
        return whole, whole[len(prompt) :]
    size = _at_marker(whole, _common_start(whole, prompt))
    if not size:  # the last messages end alike, so that the prompt's beginning was taken for their part
        starts = [match.start() for match in MARKER.finditer(prompt)]
        size = next((len(prompt) - at for at in starts if whole.startswith(prompt[at:])), 0)
    return whole, whole[size:]


def _closing_length(tail: str, rest: str) -> int:
    """Return how many characters of ``rest`` end the user message, like the end of ``tail``."""
    ends = (size for size in range(min(len(tail), len(rest)), 0, -1) if tail.endswith(rest[:size]))
    return max(_common_start(tail, rest), next(ends, 0))


def _at_marker(text: str, place: int) -> int:
    """Return the place, or the start of the marker around it."""
    return next((match.start() for match in MARKER.finditer(text) if match.start() < place < match.end()), place)


def _common_start(a: str, b: str) -> int:
    size = min(len(a), len(b))
    return next((i for i in range(size) if a[i] != b[i]), size)

r"""From a chat template to a ``FormatSpec``: render probes, compare, and believe only what reads back right.

A template says how it writes a reply into the conversation, and that is how the model was trained to write it:

    user message                 <|im_start|>user ...<|im_end|>\n
    + generation prompt          ...<|im_start|>assistant\n
    + a reply that reasons       ...<|im_start|>assistant\n<think>\nREASONING\n</think>\n\nTEXT<|im_end|>\n
    + a reply with calls         ...<|im_start|>assistant\n<tool_call>\n{"name": NAME, ...}\n</tool_call>...

The differences give the markers. Each finding is then proved: the probes' replies are parsed with it, and what does not
come back is dropped with a warning. Shapes of calls that comparing does not find are looked for among the written
formats, with the same proof.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import chain, combinations_with_replacement
from typing import Any

from attrs import evolve, frozen

from cognition.parsing import PLAIN, CallFormat, FormatSpec, JsonFields, ReasoningMarkers, parse_reply
from cognition.parsing.formats import FORMATS
from runtime.errors import TemplateError

Apply = Callable[..., str]
"""``ChatTemplate.apply``."""

USER, TEXT, REASONING = "PROBE-USER", "PROBE-TEXT", "PROBE-REASONING"
NAME, KEY, VALUE = "probe_tool", "probe_key", "PROBE-VALUE"
OTHER_VALUE = "PROBE-OTHER-VALUE"

TOOL = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "PROBE-DESCRIPTION",
        "parameters": {"type": "object", "properties": {KEY: {"type": "string"}}, "required": [KEY]},
    },
}

MARKER = re.compile(r"<[^<>\s]+>|\[[A-Z_/]+\]|◁[^◁▷\s]+▷")
"""What families use as markers: ``<think>``, ``<|tool_call|>``, ``[TOOL_CALLS]``, ``◁think▷``."""


@frozen
class Derived:
    """What the probes showed."""

    spec: FormatSpec
    features: tuple[str, ...]
    warnings: tuple[str, ...]
    text_arguments: bool = False
    """The template wants arguments as JSON text, not as an object."""


@frozen
class _Probe:
    """The part of a rendered conversation that one assistant message made, role header included."""

    whole: str
    reply: str
    """Without what the generation prompt writes already."""
    follows_prompt: bool
    """It begins with the whole generation prompt, so that the model would write just ``reply`` after it."""


def derive(apply: Apply, source: str) -> Derived:
    """Everything that can be found out about a template. Never raises: what is not found is a warning."""
    prober = _Prober(apply)
    warnings: list[str] = []
    features: list[str] = []
    plain = prober.reply(_assistant(TEXT))
    if plain is None:
        warnings.append("the chat template refuses a plain answer in the conversation: output is shown as it comes")
        return Derived(PLAIN, (), tuple(warnings))
    if prober.shows_system():
        features.append("system")
    stops = _stops(plain)
    reasoning = _proved_reasoning(prober, source, stops)
    if reasoning is not None:
        features.append("thinking")
    unopened = reasoning and evolve(reasoning, opened=reasoning.opened and plain.follows_prompt)
    if not _reads_back(FormatSpec("probe", reasoning=unopened, stops=stops), plain.reply, TEXT, "", []):
        warnings.append("the chat template puts marks around answers that were not recognised: they will be visible")
    calls, text_arguments = _proved_calls(prober, plain, reasoning, stops)
    if calls is not None:
        features.append("tools")
    elif prober.shows_tools():
        warnings.append(
            "the chat template offers tools, but how it writes calls was not recognised: they will arrive as text"
        )
    else:
        warnings.append("the chat template has no place for tools: the model is not told of them")
    spec = FormatSpec("derived", reasoning=reasoning, calls=calls, stops=stops)
    for known in FORMATS.values():
        if evolve(spec, name=known.name) == known:
            spec = known
    return Derived(spec, tuple(features), tuple(warnings), text_arguments)


class _Prober:
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
        if without is None or with_it is None or not with_it.startswith(without):
            return ""
        return with_it[len(without) :]

    def reply(self, message: dict[str, Any], *, tools: bool = False) -> _Probe | None:
        """What an assistant message adds to the conversation, or None where the template refuses it."""
        before = self.render([_user()], tools=tools)
        after = self.render([_user(), message], tools=tools)
        if before is None or after is None:
            return None
        whole = after[_shared_start(before, after) :]
        prompt = self.generation_prompt(tools=tools)
        return _Probe(whole, whole[_shared_start(whole, prompt) :], whole.startswith(prompt))

    def shows_system(self) -> bool:
        rendered = self.render([{"role": "system", "content": "PROBE-SYSTEM"}, _user()])
        return rendered is not None and "PROBE-SYSTEM" in rendered

    def shows_tools(self) -> bool:
        rendered = self.render([_user()], tools=True)
        return rendered is not None and NAME in rendered


def _user() -> dict[str, Any]:
    return {"role": "user", "content": USER}


def _assistant(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def _calls(*values: str, as_text: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call{index:05d}",
            "type": "function",
            "function": {
                "name": NAME,
                "arguments": json.dumps({KEY: value}) if as_text else {KEY: value},
            },
        }
        for index, value in enumerate(values)
    ]


def _stops(plain: _Probe) -> tuple[str, ...]:
    """The marker right behind the text of a plain answer, if there is one."""
    _, _, tail = plain.whole.partition(TEXT)
    found = MARKER.match(tail.lstrip())
    return (found[0],) if found else ()


# ------------------------------------------------------------------------------------------------------------ reasoning


def _proved_reasoning(prober: _Prober, source: str, stops: tuple[str, ...]) -> ReasoningMarkers | None:
    prompt = prober.generation_prompt()
    probe = prober.reply(_assistant(TEXT, reasoning_content=REASONING))
    if probe is not None and REASONING in probe.whole:
        head, _, tail = probe.whole.partition(REASONING)
        between, found, _ = tail.partition(TEXT)
        starts, ends = MARKER.findall(head), MARKER.findall(between)
        if found and starts and len(ends) == 1:
            markers = ReasoningMarkers(starts[-1], ends[0])
            written = probe.whole[head.rindex(markers.start) :]
            if _reads_back(FormatSpec("probe", reasoning=markers, stops=stops), written, TEXT, REASONING, []):
                return evolve(markers, opened=prompt.rstrip().endswith(markers.start))
    # Templates that leave old reasoning out of the conversation still open it for the model, or look for its end.
    opened = MARKER.findall(prompt)
    if opened and prompt.rstrip().endswith(opened[-1]) and f"</{opened[-1][1:]}" in source:
        return ReasoningMarkers(opened[-1], f"</{opened[-1][1:]}", opened=True)
    if "</think>" in source:
        return ReasoningMarkers("<think>", "</think>")
    return None


# ---------------------------------------------------------------------------------------------------------------- calls


def _proved_calls(
    prober: _Prober, plain: _Probe, reasoning: ReasoningMarkers | None, stops: tuple[str, ...]
) -> tuple[CallFormat | None, bool]:
    """The format of calls, and whether the template wants arguments as text."""
    end_of_turn = plain.whole.partition(TEXT)[2]

    def spec(calls: CallFormat, probe: _Probe) -> FormatSpec:
        opened = reasoning and evolve(reasoning, opened=reasoning.opened and probe.follows_prompt)
        return FormatSpec("probe", reasoning=opened, calls=calls, stops=stops)

    for as_text in (False, True):
        one = prober.reply(_assistant("", tool_calls=_calls(VALUE, as_text=as_text)), tools=True)
        two = prober.reply(_assistant("", tool_calls=_calls(VALUE, OTHER_VALUE, as_text=as_text)), tools=True)
        if one is None:
            continue
        for calls in chain(
            _candidates(one, two, end_of_turn), (known.calls for known in FORMATS.values() if known.calls)
        ):
            if _reads_back(spec(calls, one), one.reply, "", "", [VALUE]) and (
                two is None or _reads_back(spec(calls, two), two.reply, "", "", [VALUE, OTHER_VALUE])
            ):
                return calls, as_text
    return None, False


def _candidates(one: _Probe, two: _Probe | None, end_of_turn: str) -> Iterator[CallFormat]:
    """Formats that could have written these replies, the most telling first."""
    found = _json_call(one.reply, 0)
    if found is None:
        return
    start, stop, fields = found
    before = _after_reasoning(one.reply[:start]).strip()
    after = one.reply[stop:].removesuffix(end_of_turn).strip()
    second = None if two is None else _json_call(two.reply, 0)
    third = None if two is None or second is None else _json_call(two.reply, second[1])
    if two is None or second is None or third is None:
        yield CallFormat("json_object", start=before, end=after, fields=fields)
        return
    between = two.reply[second[1] : third[0]]
    # Marks around each call: what ends the first and begins the second stands between two calls. The less is left over
    # as a separator, the better.
    for end, separator, begin in sorted(_cuts(between), key=lambda cut: (len(cut[1].strip()), -len(cut[1]))):
        section_start, section_end = before.removesuffix(begin).strip(), after.removeprefix(end).strip()
        if before.endswith(begin) and after.startswith(end) and (section_start or not section_end):
            yield CallFormat(
                "json_object",
                start=begin,
                end=end,
                section_start=section_start,
                section_end=section_end,
                separator=separator,
                fields=fields,
            )
    if before or not after:  # marks around all calls, or none at all
        if before.endswith("[") and after.startswith("]"):  # a list of calls: the parser reads its brackets as JSON
            before, after = before[:-1].strip(), after[1:].strip()
        yield CallFormat("json_object", section_start=before, section_end=after, separator=between, fields=fields)


def _cuts(between: str) -> list[tuple[str, str, str]]:
    """The ways to see a text between two calls as the end of one, a separator, and the beginning of the other."""
    edges = sorted({edge for match in MARKER.finditer(between) for edge in match.span()})
    return [
        (between[:cut].strip(), between[cut:other], between[other:].strip())
        for cut, other in combinations_with_replacement(edges, 2)
        if between[other:].strip()
    ]


def _json_call(text: str, position: int) -> tuple[int, int, JsonFields] | None:
    """Where the first JSON object that is a probe's call stands, and its keys."""
    decoder = json.JSONDecoder()
    while (position := text.find("{", position)) >= 0:
        try:
            value, stop = decoder.raw_decode(text, position)
        except ValueError:
            value, stop = None, 0
        if isinstance(value, dict):
            names = [key for key, item in value.items() if item == NAME]
            arguments = [key for key, item in value.items() if isinstance(item, dict) and KEY in item]
            if names and arguments:
                return position, stop, JsonFields(names[0], arguments[0])
        position += 1
    return None


def _after_reasoning(head: str) -> str:
    """What stands before a call, without an empty block of reasoning."""
    return re.sub(r"^.*</[^<>\s]*think[^<>\s]*>", "", head, flags=re.DOTALL)


# ---------------------------------------------------------------------------------------------------------------- proof


def _reads_back(spec: FormatSpec, written: str, text: str, reasoning: str, values: list[str]) -> bool:
    """Whether a parser with this spec gets out of a rendered reply what was put in."""
    reply = parse_reply(spec, written)
    arguments = [(call.name, json.loads(call.arguments_json)) for call in reply.calls]
    return (
        reply.text.strip() == text
        and reply.reasoning.strip() == reasoning
        and not reply.malformed
        and arguments == [(NAME, {KEY: value}) for value in values]
    )


def _shared_start(a: str, b: str) -> int:
    size = min(len(a), len(b))
    return next((i for i in range(size) if a[i] != b[i]), size)

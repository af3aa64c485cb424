r"""Derives a ``FormatSpec`` from a chat template: renders probes, compares them, and accepts only proven findings.

A template shows how it writes a reply into the conversation, and the model was trained to write replies like that:

    user message                 <|im_start|>user ...<|im_end|>\n
    + generation prompt          ...<|im_start|>assistant\n
    + a reply that reasons       ...<|im_start|>assistant\n<think>\nREASONING\n</think>\n\nTEXT<|im_end|>\n
    + a reply with calls         ...<|im_start|>assistant\n<tool_call>\n{"name": NAME, ...}\n</tool_call>...

The differences give the markers. Each finding must pass a proof: it must parse the replies of these probes and of
others with different words. A finding that fails is dropped with a warning. If the comparison finds nothing, the
handwritten formats are tried, with the same proof. A marker never contains the words of a probe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import combinations_with_replacement

from attrs import evolve, frozen

from cognition.base.strict_json import LENIENT
from cognition.parsing import PLAIN, CallFormat, FormatSpec, JsonFields, ReasoningMarkers, parse_reply
from cognition.parsing.formats import FORMATS
from runtime.templates._conversation import NoTools, Shape
from runtime.templates._probes import (
    MARKER,
    PROBES,
    PROOFS,
    REASONING_KEYS,
    Apply,
    Probe,
    Prober,
    holds_probes,
    reasoning_keys,
    texts_of,
    with_opened_in_reply,
)
from runtime.templates._thinking import Switch, find_switch

NO_PLACE_FOR_TOOLS = "the chat template has no place for tools: the model is not told of them"
NO_PLAIN_CONVERSATION = (
    "the chat template refuses every conversation without tools: no request without them can be answered"
)
TOLD: Mapping[str, tuple[str, ...]] = {
    "granite": ("followed by a JSON list of tools used", "<|tool_call|>"),
    "lfm2": ("<|tool_list_start|>", "List of tools: ["),
    "phi4_mini": ("<|/tool|>",),
    "hermes": ("<tool_call>",),
}
"""Formats mentioned by a prompt with tools, and the words that show it, for families whose templates write no calls."""


SPOKEN = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))
"""Reasoning markers that a template's source may contain though it writes none for old replies."""

LONGEST_MARKER = 64
"""Characters. Longer text between two calls, or after the last one, is prose of the template and not a marker."""


LONGEST_TEXT = 256

EMPTY_REASONING = re.compile(r"^.*</[^<>\s]*think[^<>\s]*>", re.DOTALL)
"""Matches up to the end of an empty block of reasoning before a call."""


@frozen
class Derivation:
    """The results of the probes."""

    spec: FormatSpec
    features: tuple[str, ...]
    warnings: tuple[str, ...]
    text_arguments: bool = False
    """The template wants arguments as JSON text, not as an object."""
    reasoning_key: str = REASONING_KEYS[0]
    """The key under which the template looks for a message's reasoning."""
    evidence: tuple[str, ...] = ()
    """The evidence for each part, one sentence each."""
    parallel_calls: bool = False
    """The template writes several calls of one reply."""
    switch: Switch | None = None
    """The switch that turns reasoning on and off; None if the template has no known switch."""
    no_tools: NoTools | None = "none"
    """How to pass an empty set of tools to the template; None if it refuses every conversation without tools."""
    parts: bool = False
    """The template wants content as a list of parts."""
    shows_calls: bool = False
    """The template writes a reply's calls into the conversation."""
    reasons: bool = False
    """The template supports reasoning, even if its markers were not recognised."""

    @property
    def thinking_option(self) -> bool:
        """Whether reasoning can be turned on and off."""
        return self.switch is not None and not self.switch.weak

    @property
    def shape(self) -> Shape:
        return Shape(text_arguments=self.text_arguments, reasoning_key=self.reasoning_key, parts=self.parts)


@frozen
class _ProbeTexts:
    """The template's text for each probe; None if it refuses the probe or omits the tested part."""

    plain: Probe
    thinking: Probe | None
    """Reasoning and text; or reasoning and a call, if reasoning is shown only with calls."""
    one: Probe | None
    two: Probe | None
    offered: Probe | None
    beside: Probe | None
    several: Probe | None
    text_arguments: bool
    reasoning_key: str
    other: _ProbeTexts | None = None
    """The same with other words."""

    def proves(self, spec: FormatSpec, *, calls_alone: bool = False) -> bool:
        """Return whether this format reads back all probes, or only those of calls, with either set of words."""
        probes = (self.one, self.two) if calls_alone else (self.plain, self.thinking, self.one, self.two)
        read = all(probe.read_with(spec) for probe in probes if probe)
        return read and (self.other is None or self.other.proves(spec, calls_alone=calls_alone))


def read_as(found: Derivation, spec: FormatSpec) -> Derivation:
    """Return the findings about a template whose replies are read with another format, chosen by the program."""
    offered = NO_PLACE_FOR_TOOLS not in found.warnings
    return evolve(
        found,
        spec=spec,
        features=_features(spec, "system" in found.features, offered, "thinking_option" in found.features),
        warnings=tuple(one for one in found.warnings if one in (NO_PLACE_FOR_TOOLS, NO_PLAIN_CONVERSATION)),
        evidence=("the format was given",),
        reasons=spec.reasoning is not None or found.reasons,
    )


def derive(apply: Apply, source: str) -> Derivation:
    """Derive all facts about a template. Missing facts become warnings.

    Raises:
        TemplateStoppedError: a limit stopped it while it rendered a probe.
    """
    prober = Prober(apply)
    keys = reasoning_keys(source)
    shown = _render_probes(prober, keys)
    if shown is None:
        warning = "the chat template refuses a plain answer in the conversation: output is shown as it comes"
        return Derivation(PLAIN, (), (warning,), no_tools=prober.no_tools, parts=prober.parts)
    shown = evolve(shown, other=_render_probes(Prober(apply, PROOFS, prober), keys))
    spec, evidence = _compare_probes(prober, shown, source)
    if not shown.proves(spec) or (shown.one and spec.calls is None):
        written = _find_handwritten(shown, spec, source)
        if written is not None:
            spec, evidence = written
    if shown.one is None and spec.calls is None:
        spec, evidence = _find_mentioned(prober, spec, evidence)
    spec, evidence = _find_lead(shown, spec, evidence)
    # Nothing gets here that holds probes; and if ever anything did, it would be no format. Nor would a book be one: all
    # of a reply is compared with the beginnings of markers.
    if holds_probes(spec) or any(len(text) > LONGEST_TEXT for text in texts_of(spec)):
        spec, evidence = evolve(PLAIN, name="derived"), []
    spec = next((known for known in FORMATS.values() if _is_known(spec, known)), spec)
    offered = prober.words.name in prober.render_tools()
    switch = find_switch(prober, source, spec)
    return Derivation(
        spec,
        _features(spec, prober.shows_system(), offered, switch is not None and not switch.weak),
        tuple(_warnings(prober, shown, spec, offered)),
        shown.text_arguments,
        shown.reasoning_key,
        tuple(evidence),
        shown.two is not None,
        switch,
        prober.no_tools,
        prober.parts,
        shown.one is not None,
        spec.reasoning is not None or shown.thinking is not None,
    )


def _features(spec: FormatSpec, system: bool, offered: bool, switchable: bool) -> tuple[str, ...]:
    tools = spec.calls is not None and offered
    there = {"system": system, "thinking": spec.reasoning, "tools": tools, "thinking_option": switchable}
    return tuple(name for name, is_there in there.items() if is_there)


def _is_known(spec: FormatSpec, known: FormatSpec) -> bool:
    """Return whether the formats differ at most in additional stops: a template does not write all of them."""
    return evolve(spec, name=known.name, stops=known.stops) == known and set(spec.stops) <= set(known.stops)


def _warnings(prober: Prober, shown: _ProbeTexts, spec: FormatSpec, offered: bool) -> Iterator[str]:
    if prober.no_tools is None:
        yield NO_PLAIN_CONVERSATION
    answers = [probe for probe in (shown.plain, shown.offered) if probe]
    if not shown.plain.read_with(spec) and _within_reasoning(shown.plain, spec):
        yield (
            "the chat template shows answers behind the reasoning that its prompt opens, without ending it: an answer "
            "whose reasoning is not ended arrives as reasoning"
        )
    elif not all(probe.read_with(spec) or _within_reasoning(probe, spec) for probe in answers):
        yield "the chat template puts marks around answers that were not recognised: they will be visible"
    if shown.thinking is not None and not shown.thinking.read_with(spec):
        yield "the chat template shows reasoning, but how it writes reasoning was not recognised: it may arrive as text"
    if spec.calls is None and (offered or shown.one is not None):
        yield "the chat template offers tools, but how it writes calls was not recognised: they will arrive as text"
    calls = spec.calls is not None and shown.one is not None
    if calls and shown.beside and shown.beside.text_is_beside(spec) and not shown.beside.read_with(spec):
        yield "the chat template writes text before a call so that the call is not told apart: both may arrive as text"
    if calls and shown.several and not shown.several.read_with(spec):
        yield (
            "the chat template writes a call's arguments so that numbers, lists and objects can't be read back: such "
            "calls may arrive with texts in their place, or as malformed"
        )
    if spec.calls is not None and shown.one is None:
        yield (
            "the chat template leaves calls out of the conversation: how the model writes them was judged by the prompt"
        )
    if not offered:
        yield NO_PLACE_FOR_TOOLS


def _within_reasoning(plain: Probe, spec: FormatSpec) -> bool:
    """Return whether a template writes an answer inside the reasoning opened before it (Nemotron Nano v2)."""
    reasoning = spec.reasoning
    return (
        reasoning is not None and plain.before.rstrip().endswith(reasoning.start) and reasoning.end not in plain.reply
    )


def _render_probes(prober: Prober, keys: tuple[str, ...]) -> _ProbeTexts | None:
    words = prober.words
    plain = prober.reply(words.text) or prober.reply(words.text, tools=True)
    if plain is None or not plain.shows(words.text):
        return None
    offered = prober.reply(words.text, tools=True, shows=(words.text,))
    one, two, beside, several, as_text = None, None, None, None, False
    value, both = (words.value,), (words.value, words.other_value)
    for as_text in (False, True):
        one = prober.reply(values=value, as_text=as_text, tools=True, shows=(words.name, words.value))
        if one is not None:
            two = prober.reply(values=both, as_text=as_text, tools=True, shows=both)
            beside = prober.reply(words.text, values=value, as_text=as_text, tools=True, shows=(words.text, words.name))
            several = prober.reply(values=value, as_text=as_text, tools=True, several=True)
            break
    as_text = as_text and one is not None
    for key in keys:
        reasoning, thought = {key: words.reasoning}, words.reasoning
        thinking = prober.reply(words.text, reasoning=reasoning, shows=(thought, words.text))
        thinking = thinking or prober.reply(
            values=value, reasoning=reasoning, as_text=as_text, tools=True, shows=(thought,)
        )
        if thinking is not None:
            return _ProbeTexts(plain, thinking, one, two, offered, beside, several, as_text, key)
    return _ProbeTexts(plain, None, one, two, offered, beside, several, as_text, REASONING_KEYS[0])


def _compare_probes(prober: Prober, shown: _ProbeTexts, source: str) -> tuple[FormatSpec, list[str]]:
    """Return the format found by comparing the probes, with its evidence."""
    evidence: list[str] = []
    end_of_turn = shown.plain.whole.partition(PROBES.text)[2]
    stop = MARKER.match(end_of_turn.lstrip())
    stops = (stop[0],) if stop else ()
    if stop:
        evidence.append(f"stop: {stop[0]!r} stands behind the text of an answer")
    reasoning = _reasoning(prober, shown, source, stops, evidence)
    spec = FormatSpec("derived", reasoning=reasoning, stops=stops)
    if shown.one is None:
        return spec, evidence
    for calls in _candidates(shown.one, shown.two, end_of_turn, stops):
        if _are_marks(calls) and shown.proves(evolve(spec, calls=calls), calls_alone=True):
            return evolve(spec, calls=calls), [*evidence, "calls: found by comparing one call with two, and read back"]
    for known in FORMATS.values():
        if known.calls and shown.proves(evolve(spec, calls=known.calls), calls_alone=True):
            found = f"calls: the written format {known.name!r} reads back what the template writes"
            return evolve(spec, calls=known.calls), [*evidence, found]
    return spec, evidence


def _find_handwritten(shown: _ProbeTexts, derived: FormatSpec, source: str) -> tuple[FormatSpec, list[str]] | None:
    """Return the handwritten format that reads back everything that the template writes."""
    for known in FORMATS.values():
        # A stop that the format reads as something else would end the reply where it is not over.
        more = tuple(stop for stop in derived.stops if not any(stop in marker for marker in _markers(known)))
        stops = tuple(dict.fromkeys((*more, *known.stops)))
        for reasoning in (known.reasoning, derived.reasoning):
            spec = evolve(known, name="derived", reasoning=reasoning, stops=stops)
            telling = shown.one is not None and known.calls is not None
            if (telling or (shown.one is None and known.dropped)) and shown.proves(spec):
                if spec.reasoning is not None and shown.thinking is None and spec.reasoning.end not in source:
                    spec = evolve(spec, reasoning=None)
                return spec, [f"all: the written format {known.name!r} reads back what the template writes"]
    return None


def _find_mentioned(prober: Prober, derived: FormatSpec, evidence: list[str]) -> tuple[FormatSpec, list[str]]:
    """Return the format mentioned in the prompt's section about tools, for a template that writes no calls."""
    prompt = prober.render_tools()
    for name, signs in TOLD.items():
        sign = next((sign for sign in signs if sign in prompt), "")
        if sign:
            known = FORMATS[name]
            spec = evolve(derived, calls=known.calls, dropped=known.dropped)
            return spec, [*evidence, f"calls: the prompt holds {sign!r}, as {name!r} has it; the template writes none"]
    return derived, evidence


def _find_lead(shown: _ProbeTexts, spec: FormatSpec, evidence: list[str]) -> tuple[FormatSpec, list[str]]:
    """Find a word, not a marker, that the template writes before answers if it offers tools (Hunyuan-A13B)."""
    probe = shown.offered
    if probe is None or probe.read_with(spec) or spec.lead:
        return spec, evidence
    seen = parse_reply(with_opened_in_reply(spec, probe.before, probe.prompted, probe.reply, ""), probe.reply).text
    lead = seen.strip().removesuffix(probe.text).strip()
    if not lead or len(lead) > LONGEST_MARKER or MARKER.search(lead) or holds_probes(lead):
        return spec, evidence
    led = evolve(spec, lead=lead)
    other = None if shown.other is None else shown.other.offered
    if all(one is None or one.read_with(led) for one in (probe, other, shown.plain)):
        return led, [*evidence, f"lead: {lead!r} stands before an answer where tools are offered"]
    return spec, evidence


def _markers(spec: FormatSpec) -> tuple[str, ...]:
    """Return the markers of a format that do not end a reply."""
    around = () if spec.reasoning is None else (spec.reasoning.start, spec.reasoning.end)
    calls = () if spec.calls is None else (spec.calls.end, spec.calls.section_end)
    return (*spec.dropped, *around, *calls)


def _reasoning(
    prober: Prober, shown: _ProbeTexts, source: str, stops: tuple[str, ...], evidence: list[str]
) -> ReasoningMarkers | None:
    prompt = prober.generation_prompt()
    probe = shown.thinking
    if probe is not None and probe.text:
        head, _, tail = probe.whole.partition(PROBES.reasoning)
        between, found, _ = tail.partition(PROBES.text)
        starts, ends = MARKER.findall(head), MARKER.findall(between)
        if found and starts and len(ends) == 1:
            markers = ReasoningMarkers(starts[-1], ends[0])
            within = evolve(probe, before="", prompted="", reply=probe.whole[head.rindex(markers.start) :])
            if within.read_with(FormatSpec("probe", reasoning=markers, stops=stops)):
                evidence.append("reasoning: rendered with an answer, and read back")
                return evolve(markers, opened=prompt.rstrip().endswith(markers.start))
    # Templates that leave old reasoning out of the conversation still open it for the model, or look for its end.
    opened = MARKER.findall(prompt)
    if opened and prompt.rstrip().endswith(opened[-1]) and f"</{opened[-1][1:]}" in source:
        evidence.append("reasoning: the generation prompt opens it")
        return ReasoningMarkers(opened[-1], f"</{opened[-1][1:]}", opened=True)
    for start, end in SPOKEN:
        if end in source:
            evidence.append(f"reasoning: the template's source speaks of {end!r}")
            return ReasoningMarkers(start, end)
    return None


# ------------------------------------------------------------------------------------------------ calls by comparing


def _are_marks(calls: CallFormat) -> bool:
    """Return whether the markers are neither prose nor contain words of a probe."""
    marks = (calls.start, calls.end, calls.section_start, calls.section_end)
    return max(map(len, marks)) <= LONGEST_MARKER and not holds_probes((*marks, calls.separator))


def _candidates(one: Probe, two: Probe | None, end_of_turn: str, stops: tuple[str, ...]) -> Iterator[CallFormat]:
    """Yield formats that could have written these replies, the most specific first. Text after a stop is ignored."""
    found = _json_call(one.reply, 0)
    if found is None:
        return
    start, stop, fields = found
    made = partial(CallFormat, "json_object", fields=fields)
    before = EMPTY_REASONING.sub("", one.reply[:start]).strip()
    after = one.reply[stop:].removesuffix(end_of_turn).strip()
    after = min((after.partition(mark)[0].strip() for mark in stops), key=len, default=after)
    both = "" if two is None else two.reply
    second = _json_call(both, 0)
    third = second and _json_call(both, second[1])
    if not second or not third:
        yield made(start=before, end=after)
        return
    between = both[second[1] : third[0]]
    # Marks around each call: what ends the first and begins the second stands between two calls. The less is left over
    # as a separator, the better.
    for end, separator, begin in sorted(_cuts(between), key=lambda cut: (len(cut[1].strip()), -len(cut[1]))):
        section_start, section_end = before.removesuffix(begin).strip(), after.removeprefix(end).strip()
        if before.endswith(begin) and after.startswith(end) and (section_start or not section_end):
            yield made(start=begin, end=end, section_start=section_start, section_end=section_end, separator=separator)
    if before or not after:  # marks around all calls, or none at all
        if before.endswith("[") and after.startswith("]"):  # a list of calls: the parser reads its brackets as JSON
            before, after = before[:-1].strip(), after[1:].strip()
        yield made(section_start=before, section_end=after, separator=between)


def _cuts(between: str) -> list[tuple[str, str, str]]:
    """Return the ways to split a text between two calls into the end of one, a separator, and a start."""
    edges = sorted({edge for match in MARKER.finditer(between) for edge in match.span()})
    return [
        (between[:cut].strip(), between[cut:other], between[other:].strip())
        for cut, other in combinations_with_replacement(edges, 2)
        if between[other:].strip()
    ]


def _json_call(text: str, position: int) -> tuple[int, int, JsonFields] | None:
    while (position := text.find("{", position)) >= 0:
        try:
            value, stop = LENIENT.raw_decode(text, position)
        except (ValueError, RecursionError):
            value, stop = None, 0
        if isinstance(value, dict):
            names = [key for key, item in value.items() if item == PROBES.name]
            arguments = [key for key, item in value.items() if isinstance(item, dict) and PROBES.key in item]
            if names and arguments:
                return position, stop, JsonFields(names[0], arguments[0])
        position += 1
    return None

"""Whole grammars: for the text after a call's marker, and for whole replies that must or must not be calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from attrs import frozen

from cognition import ToolSpec
from cognition.parsing import FormatSpec
from runtime.constrained._calls import CallWriter
from runtime.constrained._grammar_rules import Rules, regex, without
from runtime.constrained._values import ValueWriter
from runtime.constrained.nodes import Schema, Weakened
from runtime.constrained.tools import Tool, read_tools

Entry = Literal["section", "call", "named"]
"""The marker that the model wrote: of a section, of a single call, or the one before a name."""

Calls = Literal["must", "may", "no"]
"""Whether a reply must, may or must not be calls. With ``may``, the model may finish the name of an unknown tool."""

BARE_CALL = '(?s:[\\[\\s]*)\\{\\s*"(?:name|type|id|arguments|parameters)"(?s:.*)'
BARE_LIST = "\\s*\\[\\s*[^\\s\\[\\](){},:=]+\\s*\\((?s:.*)"
"""Patterns for replies that the parser reads as a call without markers, and as a list of such calls."""


@frozen
class TokenFacts:
    """The facts about tokens that a grammar needs."""

    special: Mapping[str, int]
    """Tokens that the engine treats as special: ordinary text can't spell them."""
    ends: frozenset[str] = frozenset()


def call_grammar(
    spec: FormatSpec,
    tools: tuple[Tool, ...],
    vocabulary: TokenFacts,
    entry: Entry,
    *,
    parallel: bool,
    others: bool = False,
) -> str:
    """Return the grammar from after the marker that began a call or a section, to its end.

    ``others``: the model may finish the name of an unknown tool.
    """
    rules = Rules(vocabulary.special)
    writer = CallWriter(rules, spec, tools, named=entry == "named", others=others)
    if entry == "section":
        return rules.text(writer.section(parallel=parallel))
    return rules.text(writer.call(parallel=parallel))


def reply_grammar(
    spec: FormatSpec,
    tools: tuple[Tool, ...],
    vocabulary: TokenFacts,
    *,
    calls: Calls,
    parallel: bool = True,
    answer: Schema | None = None,
) -> str:
    """Return the grammar of a whole reply; it does not constrain reasoning.

    Args:
        spec: the format, after the prompt.
        tools: the tools that may be called.
        vocabulary: the model's vocabulary.
        calls: whether it must, may or must not be calls.
        parallel: whether there may be several calls.
        answer: the schema of a reply that is not a call; None for free text.
    """
    rules = Rules(vocabulary.special)
    writer = _ReplyWriter(rules, spec, vocabulary)
    options = []
    if calls != "no":
        options.append(writer.calls(tools, parallel, others=calls == "may"))
    if calls != "must":
        options.append(writer.text() if answer is None else writer.answer(answer))
    return rules.text(f"{writer.reasoning()} ({' | '.join(options)}) {writer.stop()}")


def weakened_tools(tools: Iterable[ToolSpec], spec: FormatSpec) -> dict[str, tuple[Weakened, ...]]:
    """Return for each tool the parts of its schema that calls in this format don't enforce; omits tools without such
    parts.

    Raises:
        SchemaError: the parameters of a tool are not a JSON Schema of an object.
    """
    read = read_tools(tools)
    found = {tool.spec.name: tool.weakened for tool in read}
    if spec.calls is not None and spec.calls.shape not in ("json_object", "name_as_key", "named_json"):
        writer = CallWriter(Rules({}), spec, read)
        writer.call()
        found = {tool.spec.name: writer.weakened(tool) for tool in read}
    return {name: weakened for name, weakened in found.items() if weakened}


class _ReplyWriter:
    def __init__(self, rules: Rules, spec: FormatSpec, vocabulary: TokenFacts) -> None:
        self.rules = rules
        self.spec = spec
        self._ends = vocabulary.ends
        self._space = rules.terminal(regex("[ \\n]{0,2}"))

    def reasoning(self) -> str:
        """Return reasoning, which the prompt may have begun."""
        reasoning, prompted = self.spec.reasoning, self.spec.prompted
        lead = "" if prompted else self._space  # the reply begins in the middle of a marker
        if reasoning is None:
            return lead
        end = f"{self.rules.until(regex('(?s:.*)'), reasoning.end)} {self._space} {self.rules.marker(prompted)}"
        if reasoning.opened:
            return self.rules.rule(end)
        return self.rules.rule(f"{lead} ({self._opening(reasoning.start)} {end})?")

    def calls(self, tools: tuple[Tool, ...], parallel: bool, *, others: bool) -> str:
        writer = CallWriter(self.rules, self.spec, tools, others=others)
        calls = writer.calls
        lead = "" if self.spec.prompted else self._dropped_marker()
        if calls.section_start:
            return self.rules.rule(f"{lead} {self._opening(calls.section_start)} {writer.section(parallel=parallel)}")
        if not calls.start:
            return writer.call(parallel=False)
        one = f"{writer.starts(self._opening)} {writer.call(parallel=parallel)}"
        more = f"({writer.separator()} {writer.starts()} {writer.call()})*" if parallel else ""
        return self.rules.rule(f"{lead} {one} {more}")

    def text(self) -> str:
        """Return a text without calls; it may contain the format's dropped markers."""
        calls = self.spec.calls
        starts = () if calls is None else (calls.section_start, calls.start, *calls.more_starts)
        excluded: tuple[str, ...] = ()
        pattern = regex("(?s:.*)")
        if calls is not None:
            excluded = tuple(text for text in starts if text and not self.rules.begins_special(text))
            if not (calls.start or calls.section_start):
                begins = BARE_LIST if calls.shape == "pythonic" else BARE_CALL
                pattern += f" & ~{regex(('(?s:.*)' if calls.anywhere else '') + begins)}"
        text = self.rules.terminal(pattern + without(excluded))
        # Some markers begin one of a call: "<|start|>assistant" goes on with a channel, or with " to=".
        dropped = [one for one in self.spec.dropped if not any(start.startswith(one) for start in starts)]
        markers = " | ".join(dict.fromkeys(self.rules.marker(marker) for marker in dropped))
        more = f"(({markers}) {text})*" if markers else ""
        if not self.spec.prompted:
            return self.rules.rule(f"{text} {more}")
        openings = dict.fromkeys(self._opening(marker) for marker in dropped)
        return self.rules.rule(f"({' | '.join(filter(None, openings))}) {text} {more}")

    def answer(self, tree: Schema) -> str:
        value = ValueWriter(self.rules, tree).value(tree.root)
        lead = self._dropped_marker()
        lead = lead.removesuffix("?") if self.spec.prompted else lead  # the marker has begun
        return self.rules.rule(f"{lead} {self._space} {value} {self._dropped_marker(behind=True)}")

    def stop(self) -> str:
        """Return the texts that end a reply and are not single end tokens."""
        stops = [self.rules.marker(stop) for stop in self.spec.stops if stop not in self._ends]
        return f"{self._space} ({' | '.join(stops)})?" if stops else ""

    def _dropped_marker(self, *, behind: bool = False) -> str:
        """Return an optional dropped marker, before or behind the text."""
        markers = [marker for marker in self.spec.dropped if not behind or marker not in self.spec.answers]
        opening = [self.rules.marker(marker) if behind else self._opening(marker) for marker in markers]
        listed = [marker for marker in dict.fromkeys(opening) if marker]
        return f"({' | '.join(listed)})?" if listed else ""

    def _opening(self, marker: str) -> str:
        """Return a marker at the beginning of a message, without the part that the prompt wrote."""
        return self.rules.marker(marker.removeprefix(self.spec.prompted))

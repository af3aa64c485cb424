"""The work of reading a reply grows with its length and not faster, in every format and for every size of chunk.

Characters are counted: those that a search passes and those that are copied, whoever does it. No clock is read.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any, SupportsIndex

import pytest

import cognition.parsing
from cognition.parsing import FormatSpec, Parser
from cognition.parsing._open_call import OpenCall
from cognition.parsing._plan import plan_of
from cognition.parsing.formats import (
    BARE_JSON,
    GEMMA4,
    GLM,
    GPT_OSS,
    HERMES,
    HERMES_THINKING,
    LFM2,
    LLAMA4,
    MINICPM5,
    MISTRAL,
)
from cognition.parsing.rope import join_pieces
from tests.cognition.parsing.every_format import CALLING, reply_of
from tests.cognition.parsing.replies import Call


class Work:
    """How many characters were looked at."""

    done = 0


class Text(str):
    """A text that counts what is done with it."""

    def find(self, sub: str, start: SupportsIndex | None = None, end: SupportsIndex | None = None) -> int:
        first = 0 if start is None else int(start)
        last = len(self) if end is None else min(int(end), len(self))
        place = super().find(sub, first, last)
        Work.done += max((last if place < 0 else place) - first, 0)
        return place

    def __contains__(self, part: object) -> bool:
        assert isinstance(part, str)
        return self.find(part) >= 0

    def __getitem__(self, key: Any) -> Text:
        part = super().__getitem__(key)
        Work.done += len(part)
        return Text(part)

    def partition(self, sep: str) -> Any:
        Work.done += len(self)
        return tuple(map(Text, super().partition(sep)))

    def strip(self, chars: str | None = None) -> Text:
        Work.done += len(self)
        return Text(super().strip(chars))

    def __add__(self, other: str) -> Text:
        Work.done += len(self) + len(other)
        return Text(super().__add__(other))


class Pattern:
    """A compiled pattern that counts what it passes."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        found = self.pattern.search(text, start)
        Work.done += (found.end() if found else len(text)) - start
        return found

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        found = self.pattern.match(text, start)
        Work.done += found.end() - start if found else 0
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pattern, name)


class Expressions:
    """What the parser uses of ``re``."""

    escape = staticmethod(re.escape)
    Match = re.Match

    @staticmethod
    def compile(pattern: str) -> Pattern:
        return Pattern(re.compile(pattern))


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every pattern of the parser and the text of every call count."""
    for info in pkgutil.iter_modules(cognition.parsing.__path__, "cognition.parsing."):
        module = importlib.import_module(info.name)
        for name, value in list(vars(module).items()):
            if isinstance(value, re.Pattern):
                monkeypatch.setattr(module, name, Pattern(value))
            elif name == "INSIDE":
                monkeypatch.setattr(module, name, {quote: Pattern(one) for quote, one in value.items()})
        if info.name.endswith((".plan", ".markers")):
            monkeypatch.setattr(module, "re", Expressions)
    monkeypatch.setattr(OpenCall, "raw", property(lambda call: Text(join_pieces(call.rope) + "".join(call.fresh))))
    plan_of.cache_clear()
    yield
    plan_of.cache_clear()


def work(spec: FormatSpec, raw: str, size: int) -> int:
    """The characters that reading this takes, in chunks of this size."""
    Work.done = 0
    parser = Parser(spec)
    for start in range(0, len(raw), size):
        parser.feed(Text(raw[start : start + size]))
    parser.finish()
    return Work.done


WHOLE = 10_000_000
SIZES = (WHOLE, 997, 5)
FEW = 60


def grows_as_the_text(spec: FormatSpec, few: str, many: str) -> None:
    """``many`` is twice as long as ``few``."""
    for size in SIZES:
        once, twice = work(spec, few, size), work(spec, many, size)
        assert once >= len(few) / 2, "the work is not counted"
        assert twice <= 2.6 * once + 4096, size  # four times, if each call were to look at all that follow it


@pytest.mark.parametrize("spec", CALLING.values(), ids=list(CALLING))
@pytest.mark.behaviour("P13g")
def test_many_calls_are_read_in_one_pass(spec: FormatSpec) -> None:
    """One call after another: each costs the same, however many come at once."""
    for text in ("a b", "a \\ b"):
        few, many = (reply_of(spec, [Call("f", {"q": text, "x": "c"})] * count).raw for count in (FEW, 2 * FEW))
        grows_as_the_text(spec, few, many)


@pytest.mark.parametrize("spec", CALLING.values(), ids=list(CALLING))
def test_one_long_call_is_read_in_one_pass(spec: FormatSpec) -> None:
    """Of many arguments."""
    few, many = (reply_of(spec, [Call("f", {f"k{n}": "a" * 9 for n in range(size)})]).raw for size in (FEW, 2 * FEW))

    grows_as_the_text(spec, few, many)


UNITS: dict[str, tuple[FormatSpec, str, str]] = {
    "broken calls": (HERMES, "", '<tool_call>{"x": "a}</tool_call>'),
    "calls that were not ended": (HERMES, "", '<tool_call>{"name": "f", "arguments": {}}'),
    "calls that are mended": (HERMES, "", '<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"},}</tool_call>'),
    "calls side by side": (HERMES, "<tool_call>", '{"name": "f", "arguments": {}}\n'),
    "calls in a list": (HERMES, "<tool_call>[", '{"name": "f", "arguments": {}},'),
    "keys given twice": (HERMES, '<tool_call>{"name": "f", "arguments": {', '"a": "b",'),
    "calls quoted in thoughts": (HERMES_THINKING, "hm ", '<tool_call>{"name": "f", "arguments": {}}</tool_call>'),
    "broken calls in thoughts": (HERMES_THINKING, "hm ", '<tool_call>{"name": "f</tool_call><think>'),
    "thoughts of bare calls": (BARE_JSON, "<think>", '{ {"name": {"a'),
    "ends of calls in text": (HERMES, "So ", "</tool_call> or </think"),
    "braces in text": (BARE_JSON, "So ", '{ {"name": {"a' * 8),  # each is looked at for up to 1,024 characters
    "texts in Python": (LFM2, "<|tool_call_start|>[", "f(x='it\\'s'), "),
    "broken texts in Python": (LFM2, "<|tool_call_start|>[", "f(x='it's a' b), "),
    "calls in Python that are none": (LFM2, "<|tool_call_start|>[", "f(5), "),
    "bare calls in Python": (LLAMA4, "[", "f(x='a'), "),
    "calls of Gemma behind one marker": (GEMMA4, "<|tool_call>", 'call:f{x:<|"|>a<|"|>}'),
    "parameters that are not closed": (GLM, "<tool_call>f", "<arg_key>a</arg_key>"),
    "marked texts": (MINICPM5, '<function name="f">', '<param name="aN"><![CDATA[a]]></param>'),
    "parameters without marked texts": (MINICPM5, '<function name="f">', '<param name="aN">a</param>'),
    "headers that name a tool late": (GPT_OSS, "", "<|channel|>a json to=f<|message|>{}<|call|>"),
    "headers without a message": (GPT_OSS, "", "<|channel|>We think"),
    "quote tokens within a text": (GEMMA4, '<|tool_call>call:f{x:<|"|>', 'a<|"|>b<|"|> '),
    "quotations within a text in Python": (LFM2, "<|tool_call_start|>[f(x='", "a 'b' "),
    "parameters in a parameter": (GLM, "<tool_call>f<arg_key>k</arg_key><arg_value>", "</b> a\n<arg_key>a</arg_key>"),
    "names without arguments": (MISTRAL, "", "[TOOL_CALLS]f[ARGS]"),
}


@pytest.mark.parametrize(("spec", "first", "unit"), UNITS.values(), ids=list(UNITS))
@pytest.mark.behaviour("P13g")
def test_what_is_broken_costs_no_more(spec: FormatSpec, first: str, unit: str) -> None:
    few, many = (
        first + "".join(unit.replace("N", str(place)) for place in range(count)) for count in (2 * FEW, 4 * FEW)
    )

    grows_as_the_text(spec, few, many)

"""Finds a template's switch for reasoning, by trying it.

Templates don't agree on a name. Each known switch is tried, and counts only if it changes the prompt:

- ``enable_thinking``: Qwen3, GLM, Nemotron 3, Hunyuan, most others
- ``thinking``: DeepSeek V3.1, Granite 3.3, Kimi K3
- ``reasoning``: Command A+
- ``thinking_mode="disabled"``: MiniMax-M3
- ``thinking_option="off"``: Ling 2
- ``thinking_budget=0``: Seed-OSS
- ``reasoning_effort="none"``: Mistral Small 4; ``"no_think"``: Hunyuan 3
- ``/no_think`` in the system prompt: Nemotron Nano v2
- any other name that suggests reasoning: ``no_thinking=True``, ``show_thoughts=False``

Some templates can only request less reasoning (gpt-oss, Muse). They get that request, and a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from attrs import frozen

from cognition.parsing import FormatSpec
from runtime.templates._probes import MOST_NAMES, Prober, names, with_opened


@frozen
class Switch:
    """A switch that turns reasoning on or off. A value of None is not passed: it is the template's default."""

    name: str
    """The template's variable; empty for a word in the system prompt."""
    off: Any
    on: Any
    weak: bool = False
    """``off`` only requests little reasoning: the template can't turn it off."""

    def options(self, thinking: bool) -> Mapping[str, Any]:
        """Return the variables to pass to the template."""
        value = self.on if thinking else self.off
        return {self.name: value} if self.name and value is not None else {}

    def word(self, thinking: bool) -> str:
        """Return the word to add to the system prompt."""
        value = self.on if thinking else self.off
        return "" if self.name or value is None else str(value)

    def __str__(self) -> str:
        return f"{self.name}={self.off!r}" if self.name else f"{self.off} in the system prompt"


NAMED: Mapping[str, tuple[Any, Any]] = {
    **dict.fromkeys(("enable_thinking", "thinking", "enable_reasoning", "reasoning"), (False, True)),
    "thinking_mode": ("disabled", "enabled"),
    "thinking_option": ("off", "on"),
    "thinking_budget": (0, -1),
}
"""Variables with known values for off and on."""

OTHER_NAMES = re.compile(r"(?<![\w.'\"])[a-z_]*(?:think|thought|reason)[a-z_]*")
OTHER_VALUES: tuple[tuple[Any, Any], ...] = ((False, True), (True, False), ("off", "on"), ("none", "high"))
"""Values to try for other variables whose names suggest reasoning (``no_thinking=True``). Their meaning is unknown, so
a value counts only if it ends the reasoning.
"""

LEVELS = ("reasoning_effort", "thinking_effort", "reasoning_strength")
"""Variables that hold a level of reasoning."""
NO_LEVELS, LEAST_LEVELS, MUCH = ("none", "no_think", "off"), ("minimal", "low"), ("high", "medium")

UNKNOWN_LEVEL = "quetzal"
"""A level that no template knows: a template that accepts it writes any value into the prompt."""

WORDS = (("/no_think", "/think"), ("/nothink", "/think"))


def find_switch(prober: Prober, source: str, spec: FormatSpec) -> Switch | None:
    """Return the switch of a template; None if it has no known switch, or the switch does not change the prompt."""
    weak: Switch | None = None
    for switch in _candidates(_Trial(prober, spec), source):
        if not switch.weak:
            return switch
        weak = weak or switch
    return weak


@frozen(slots=False)
class _Trial:
    """Prompts with a switch off and on."""

    _prober: Prober
    _spec: FormatSpec

    @cached_property
    def plain(self) -> str | None:
        return self.prompt()

    def prompt(self, word: str = "", **options: Any) -> str | None:
        """Render with a word in the system prompt, or options. None if the template refuses it."""
        system = [{"role": "system", "content": f"{self._prober.words.system}\n\n{word}".strip()}] if word else []
        return self._prober.render([*system, self._prober.user()], prompt=True, **options)

    def turns(self, off: str | None, on: str | None) -> bool:
        """Return whether the prompts differ, and the ``off`` prompt does not begin the reasoning."""
        return off is not None and on is not None and off != on and not self._opens(off)

    def ends_reasoning(self, off: str | None, on: str | None) -> bool:
        """Return whether only the ``off`` prompt prevents reasoning: it ends the reasoning, or does not begin it."""
        reasoning = self._spec.reasoning
        if reasoning is None or not self.turns(off, on) or off is None or on is None:
            return False
        start, end = re.escape(reasoning.start.strip()), re.escape(reasoning.end.strip())
        ends = re.compile(rf"{start}\s*{end}|{end}\s*$")
        return self._opens(on) or len(ends.findall(off)) > len(ends.findall(on))

    def _opens(self, prompt: str) -> bool:
        reasoning = with_opened(self._spec, prompt).reasoning
        return reasoning is not None and reasoning.opened


def _candidates(trial: _Trial, source: str) -> Iterator[Switch]:
    for name, (off, on) in NAMED.items():
        if name in source:
            without, with_it = trial.prompt(**{name: off}), trial.prompt(**{name: on})
            if trial.turns(without, with_it):
                yield Switch(name, off, None if with_it == trial.plain else on)
    for name in LEVELS:
        if name in source:
            yield from _levels(trial, name)
    for name in names(OTHER_NAMES, source)[:MOST_NAMES]:
        if name not in NAMED and name not in LEVELS:
            for off, on in OTHER_VALUES:
                without, with_it = trial.prompt(**{name: off}), trial.prompt(**{name: on})
                if trial.ends_reasoning(without, with_it):
                    yield Switch(name, off, None if with_it == trial.plain else on)
    for off, on in WORDS:
        if off in source:
            without, with_it, plain = trial.prompt(off), trial.prompt(on), trial.prompt("…")
            if trial.ends_reasoning(without, with_it):
                yield Switch("", off, on if plain is None or not trial.ends_reasoning(without, plain) else None)


def _levels(trial: _Trial, name: str) -> Iterator[Switch]:
    """Yield a variable with levels. If it accepts any word, it has a level for off only if that ends the reasoning."""
    much = next((level for level in MUCH if trial.prompt(**{name: level}) is not None), None)
    if much is None:
        return
    full, any_word = trial.prompt(**{name: much}), trial.prompt(**{name: UNKNOWN_LEVEL}) is not None
    for level in (*NO_LEVELS, *LEAST_LEVELS):
        prompt = trial.prompt(**{name: level})
        known = not any_word and level in NO_LEVELS and trial.turns(prompt, full)
        if known or trial.ends_reasoning(prompt, full):
            yield Switch(name, level, much if prompt == trial.plain else None)
            return
    least = "low"
    if trial.prompt(**{name: least}) not in (None, full):
        yield Switch(name, least, None, weak=True)

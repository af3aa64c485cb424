"""Checks by compiling whether the engine can enforce a pattern: when a tool is offered, not at a call."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, Literal

from runtime.constrained._patterns import anchor_pattern
from runtime.constrained.nodes import Text

FUEL = 200_000
"""The engine's steps for one text. A whole grammar, with many texts, gets ``masks.FUEL``."""

Verdict = Literal["fits", "empty", "too complex"]
"""Some text matches, none does, or the engine rejects the pattern."""


def text_schema(node: Text) -> dict[str, Any]:
    described: dict[str, Any] = {"type": "string", "minLength": node.shortest}
    patterns = [f"^(?:{anchor_pattern(pattern)})$" for pattern in (node.pattern, *node.also) if pattern is not None]
    if len(patterns) == 1:
        described["pattern"] = patterns[0]
    elif patterns:
        described["allOf"] = [{"pattern": pattern} for pattern in patterns]
    if node.longest is not None:
        described["maxLength"] = node.longest
    return described


def text_verdict(node: Text) -> Verdict:
    return _of_json(json.dumps(text_schema(node)))


@lru_cache(2048)
def _of_json(described: str) -> Verdict:
    matcher = _matcher(f"start: %json {described}\n")
    if matcher is None:
        return "fits"
    if matcher.is_error():
        error = matcher.get_error()
        return "empty" if "is empty" in error and "Unable to determine" not in error else "too complex"
    matcher.compute_bitmask()
    return "too complex" if matcher.is_error() else "fits"


@lru_cache(4096)
def alive(terminal: str) -> bool:
    """Return whether the engine accepts the body of a terminal, and finds a matching text."""
    matcher = _matcher(f"start: T\nT: {terminal}\n")
    if matcher is None:
        return True
    if matcher.is_error():
        return False
    mask = matcher.compute_bitmask()
    return not matcher.is_error() and (any(mask) or bool(matcher.is_accepting()))


def _matcher(grammar: str) -> Any:
    """Return the engine's matcher for a grammar; None if the engine is not installed, and nothing is constrained."""
    engine = _engine()
    if engine is None:
        return None
    library, tokenizer = engine
    limits = library.LLParserLimits(initial_lexer_fuel=FUEL)
    return library.LLMatcher(tokenizer, library.LLMatcher.grammar_from_lark(grammar), log_level=0, limits=limits)


@cache
def _engine() -> tuple[Any, Any] | None:
    if find_spec("llguidance") is None:
        return None
    import llguidance

    return llguidance, llguidance.LLTokenizer("byte")

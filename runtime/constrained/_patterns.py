"""Translates JSON Schema's string patterns (ECMA 262) to the engine's dialect (Rust's ``regex``).

A JSON Schema pattern may match anywhere in the text, and has its own anchors. An engine's pattern must match all of it.
Whether the engine can enforce a pattern is checked by compiling it when a tool is offered, not at a call.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, Literal

from runtime.constrained.ecma import (
    Alternative,
    Assertion,
    BackReference,
    CharacterSet,
    Disjunction,
    EcmaError,
    Group,
    Lookaround,
    Piece,
    Repetition,
    read_pattern,
    write_class,
)
from runtime.constrained.nodes import Text

Escapes = tuple[tuple[int, str], ...]
"""The characters that a notation can't write as they are, and the pattern of how it writes each."""

MOST_ROWS = 64
"""The most alternatives that a pattern may be split into because of its anchors."""

LARGEST_COUNT = 1_000_000
"""The largest count of a repetition; the engine's counters have 32 bits."""


class PatternError(ValueError):
    """Names the part of a pattern that sampling can't enforce."""


@lru_cache(1024)
def anchor_pattern(pattern: str, escapes: Escapes = ()) -> str:
    """Return a JSON Schema pattern as an engine pattern that matches the whole text, written with these escapes.

    Raises:
        PatternError: lookarounds, back-references, anchors within the pattern and the like.
    """
    try:
        tree = read_pattern(pattern)
    except (EcmaError, TypeError) as error:
        raise PatternError(f"it is no regular expression of ECMA 262 ({error})") from None
    return "|".join(_whole(row, escapes) for row in _rows(tree))


def letter(escapes: Escapes) -> str:
    """Return a pattern for any character, written with these escapes."""
    return _one_of(CharacterSet(((0, 0x10FFFF),)), escapes) if escapes else "(?s:.)"


def _one_of(piece: CharacterSet, escapes: Escapes) -> str:
    """Return a pattern for the characters of a set."""
    ranges = piece.ranges
    for code, _ in escapes:
        ranges = tuple(
            part
            for low, high in ranges
            for part in ((low, min(high, code - 1)), (max(low, code + 1), high))
            if part[0] <= part[1]
        )
    plain = write_class(CharacterSet(ranges), surrogates=False)
    escaped = [text for code, text in escapes if any(low <= code <= high for low, high in piece.ranges)]
    if not escaped:
        return plain
    return f"(?:{'|'.join([plain, *escaped] if ranges else escaped)})"


def _rows(options: Disjunction) -> list[tuple[Piece, ...]]:
    """Return the alternatives of a pattern. Groups with anchors at either end are expanded."""
    rows: list[tuple[Piece, ...]] = []
    waiting = [row.items for row in reversed(options.options)]
    while waiting:
        items = waiting.pop()
        first, last = items[:1], items[-1:]
        if first and isinstance(first[0], Group) and _has_edge(first[0]):
            waiting += [(*row.items, *items[1:]) for row in reversed(first[0].body.options)]
        elif last and isinstance(last[0], Group) and _has_edge(last[0]):
            waiting += [(*items[:-1], *row.items) for row in reversed(last[0].body.options)]
        else:
            rows.append(items)
        if len(rows) + len(waiting) > MOST_ROWS:
            raise PatternError(f"its anchors stand in more than {MOST_ROWS} alternatives")
    return rows


def _has_edge(piece: Piece) -> bool:
    match piece:
        case Assertion(kind=kind):
            return kind in ("^", "$")
        case Group(body=Disjunction(options=options)):
            return any(_has_edge(item) for row in options for item in row.items)
        case _:
            return False


def _whole(items: tuple[Piece, ...], escapes: Escapes) -> str:
    start, end = 0, len(items)
    while start < end and items[start] == Assertion("^"):
        start += 1
    while end > start and items[end - 1] == Assertion("$"):
        end -= 1
    body = "".join(_translate(item, escapes) for item in items[start:end])
    anything = f"{letter(escapes)}*"
    return f"{'' if start else anything}(?:{body}){anything if end == len(items) else ''}"


def _translate(piece: Piece, escapes: Escapes) -> str:
    match piece:
        case CharacterSet(properties=()):
            return _one_of(piece, escapes)
        case CharacterSet():
            raise PatternError(f"the property {piece.properties[0]} is not supported")
        case Alternative(items=items):
            return "".join(_translate(item, escapes) for item in items)
        case Disjunction(options=options):
            return f"(?:{'|'.join(_translate(option, escapes) for option in options)})"
        case Group(body=body):
            return _translate(body, escapes)
        case Repetition(body=body, fewest=fewest, most=most):
            if max(fewest, most or 0) > LARGEST_COUNT:
                raise PatternError(f"repetitions of up to {LARGEST_COUNT} are held to")
            return f"(?:{_translate(body, escapes)}){{{fewest},{'' if most is None else most}}}"
        case Assertion(kind="^" | "$" as kind):
            raise PatternError(f"{kind!r} may only stand at its beginning and end")
        case Assertion(kind=kind):
            raise PatternError(f"the escape '\\{kind}' is not supported")
        case BackReference(group=group):
            raise PatternError(f"the escape '\\{group}' is not supported")
        case Lookaround(sign=sign):
            raise PatternError(f"of groups, only (...) and (?:...), not '(?{sign}'")


def literal(text: str) -> str:
    return "".join(f"\\{sign}" if sign in r"\.+*?()|[]{}^$#&-~/" else sign for sign in text)


# ------------------------------------------------------------------------------------------------- the engine's verdict

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
    tokenizer = _byte_tokenizer()
    return None if tokenizer is None else compile_grammar(tokenizer, grammar, FUEL)


@cache
def _byte_tokenizer() -> Any:
    if find_spec("llguidance") is None:
        return None
    import llguidance

    return llguidance.LLTokenizer("byte")


def compile_grammar(tokenizer: Any, grammar: str, fuel: int) -> Any:
    """Return the engine's matcher for a grammar, which may be in error; ``fuel`` are the steps to compile it."""
    import llguidance

    limits = llguidance.LLParserLimits(initial_lexer_fuel=fuel)
    described = llguidance.LLMatcher.grammar_from_lark(grammar)
    return llguidance.LLMatcher(tokenizer, described, log_level=0, limits=limits)

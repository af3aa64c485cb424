"""Which grammar holds arguments in JSON better: this project's own, or the one that llguidance makes of a schema?

    python benchmarks/json_grammars.py                  # 200 random schemas, 200 of others, and the listed tools
    python benchmarks/json_grammars.py --schemas 20     # fewer of the random ones

Both are used by the same engine, with the shipped model's tokens and made-up words up to 32,000. Each side reads every
schema, compiles its grammar, and has values sampled from it, token by token, at random. The sampled values are judged
by ``jsonschema``, formats included. Masks are timed over those values that all sides let through.

- *read*: all that the schema asks for is held to. *weakened*: it is read and something is left to a later check; of
  llguidance this is what ``lenient`` alone lets through. *refused*: neither.
- *wrong*: sampled values that the schema does not let through, of schemas that were read whole. *open* are those
  whose only fault is a member that the schema does not name: JSON Schema lets it through, a tool's function does not.
- *repeats*: sampled values in which an object has a key twice.
- *compile*: from the schema to the first mask, in ms. *mask*: one of them, in us, over the tokens of the same values.

The second of llguidance's rows closes objects that name their members, as this project reads them.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import llguidance
import numpy as np
from attrs import define, field, frozen
from jsonschema import Draft4Validator
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/json_grammars.py`

from benchmarks.random_model import tokenizer_of
from benchmarks.random_schemas import JsonSchema, random_foreign, random_parameters
from benchmarks.table import Progress, digits, machine, table
from cognition import ConfigError
from runtime.constrained._grammar_rules import Rules
from runtime.constrained._values import ValueWriter
from runtime.constrained.schema import read_loosely

LISTS = Path(__file__).resolve().parent.parent / "tests" / "runtime" / "constrained" / "mcp_tool_lists"
VOCABULARY = 32_000
SAMPLES = 4
LONGEST = 200
"""Tokens of a sampled value; one that is longer is given up."""
FUEL = 4_000_000
END = "<|endoftext|>"
SPACES = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""White space where ours has it, so that no side measures more of it."""


@frozen
class Grammar:
    """A schema as one side has it."""

    native: Any
    whole: bool
    """All of the schema is held to."""
    seconds: float
    """From the schema to the first mask."""


Side = Callable[[JsonSchema], Grammar | None]


class Engine:
    """Compiles grammars for one vocabulary."""

    def __init__(self) -> None:
        described = tokenizer_of(VOCABULARY)
        # Without the markers of chats: the engine's own reader of tokenizers would find them in plain text.
        described["added_tokens"] = [one for one in described["added_tokens"] if one["content"] == END]
        (self.end,) = (one["id"] for one in described["added_tokens"])
        self.tokenizer = llguidance.LLTokenizer(json.dumps(described), n_vocab=VOCABULARY, eos_token=self.end)

    def compiled(self, made: Callable[[], str], *, whole: bool) -> Grammar | None:
        """None where the engine refuses it."""
        began = time.perf_counter()
        limits = llguidance.LLParserLimits(initial_lexer_fuel=FUEL)
        native = llguidance.LLMatcher(self.tokenizer, made(), log_level=0, limits=limits)
        if not native.is_error():
            native.compute_bitmask()
        seconds = time.perf_counter() - began
        return None if native.is_error() else Grammar(native, whole, seconds)

    def ours(self, schema: JsonSchema) -> Grammar | None:
        tree = read_loosely(schema)

        def made() -> str:
            rules = Rules({})
            again = read_loosely(schema)  # part of the time
            return str(llguidance.LLMatcher.grammar_from_lark(rules.text(ValueWriter(rules, again).value(again.root))))

        return self.compiled(made, whole=not tree.weakened)

    def theirs(self, schema: JsonSchema) -> Grammar | None:
        text = json.dumps(schema)
        for lenient in (False, True):
            options: Any = {**SPACES, "lenient": lenient}  # the type of options stands in a private module
            grammar = self.compiled(
                partial(llguidance.LLMatcher.grammar_from_json_schema, text, overrides=options),
                whole=not lenient,
            )
            if grammar is not None:
                return grammar
        return None

    def theirs_closed(self, schema: JsonSchema) -> Grammar | None:
        return self.theirs(closed(schema))


def closed(schema: Any) -> Any:
    """The same schema; objects that name members and say nothing of others have no others."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value if key in ("enum", "const") else closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        return {**kept, "additionalProperties": False}
    return kept


@define
class Row:
    """What came of one side."""

    read: int = 0
    weakened: int = 0
    refused: int = 0
    values: int = 0
    unended: int = 0
    wrong: int = 0
    open: int = 0
    repeats: int = 0
    compiling: list[float] = field(factory=list)
    masks: list[float] = field(factory=list)

    def cells(self, name: str) -> list[str]:
        compiling, masks = sorted(self.compiling), sorted(self.masks)
        return [
            name,
            *map(str, (self.read, self.weakened, self.refused, self.values, self.unended)),
            *map(str, (self.wrong, self.open, self.repeats)),
            digits(statistics.median(compiling) * 1e3),
            digits(compiling[len(compiling) * 95 // 100] * 1e3),
            digits(statistics.median(masks) * 1e6),
            digits(masks[len(masks) * 95 // 100] * 1e6),
            digits(statistics.mean(masks) * 1e6),
        ]


HEAD = ["", "read", "weakened", "refused", "values", "unended", "wrong", "open", "repeats"]
HEAD += ["compile", "95 %", "mask", "95 %", "mean"]


def sampled(engine: Engine, grammar: Grammar, random: Random) -> list[int] | None:
    """The tokens of a value; None for one that would not end. Prefers what closes something, so that most do end."""
    matcher = grammar.native.deep_copy()
    made: list[int] = []
    pieces = engine.tokenizer
    while not matcher.is_stopped():
        if len(made) == LONGEST:
            return None
        mask = matcher.compute_bitmask()
        if matcher.is_error():
            return None
        allowed = np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")[:VOCABULARY])
        allowed = allowed[allowed != engine.end]
        if matcher.is_accepting() and (random.random() < 0.4 or not len(allowed)):
            break
        token = int(random.choice(allowed))
        if random.random() < 0.5:
            closing = [one for one in map(int, allowed[:400]) if pieces.decode_str([one]).strip() in CLOSING]
            token = random.choice(closing) if closing else token
        matcher.consume_token(token)
        made.append(token)
    return made


CLOSING = frozenset(('"', "}", "]", '"}', '"]', "}}", ",", '",'))


def judge_of(schema: JsonSchema) -> Any:
    """The validator of the schema's draft; OpenAPI 3.0 has the fourth draft's exclusive limits, and does not say so."""
    openapi = re.search('"exclusiveM(in|ax)imum": (true|false)', json.dumps(schema))
    return Draft4Validator if openapi else validator_for(schema)


def judged(schema: JsonSchema, text: str) -> tuple[bool, bool, bool]:
    """Whether a value is wrong, only open, and whether it repeats a key."""
    twice: list[bool] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.append(len({key for key, _ in found}) < len(found))
        return dict(found)

    value = json.loads(text, object_pairs_hook=pairs)
    kind = judge_of(schema)
    wrong = any(kind(schema, format_checker=kind.FORMAT_CHECKER).iter_errors(value))
    extra = not wrong and any(kind(closed(schema), format_checker=kind.FORMAT_CHECKER).iter_errors(value))
    return wrong, extra, any(twice)


def timed(native: Any, tokens: list[int]) -> list[float] | None:
    """Seconds of the mask before each of these tokens; None where one of them is not let through."""
    matcher, seconds = native.deep_copy(), []
    for token in tokens:
        began = time.perf_counter()
        matcher.compute_bitmask()
        seconds.append(time.perf_counter() - began)
        if not matcher.consume_token(token):
            return None
    return seconds if matcher.is_accepting() else None


def measured(engine: Engine, schemas: Iterator[JsonSchema], seed: int, progress: Progress) -> dict[str, Row]:
    """A row for each side, over these schemas."""
    sides: dict[str, Side] = {
        "ours": engine.ours,
        "llguidance": engine.theirs,
        "llguidance, closed": engine.theirs_closed,
    }
    rows = {name: Row() for name in sides}
    for number, schema in enumerate(schemas):
        progress.detail(f"schema {number}")
        found: dict[str, Grammar] = {}
        for name in Random(seed + number).sample(sorted(sides), len(sides)):
            try:
                grammar = sides[name](schema)
            except ConfigError:
                grammar = None
            row = rows[name]
            if grammar is None:
                row.refused += 1
                continue
            found[name] = grammar
            row.read += grammar.whole
            row.weakened += not grammar.whole
            row.compiling.append(grammar.seconds)
        _values(engine, schema, found, rows, Random(f"{seed} {number}"))
    progress.clear()
    return rows


def _values(
    engine: Engine, schema: JsonSchema, found: dict[str, Grammar], rows: dict[str, Row], random: Random
) -> None:
    """Sample from each side; time the masks of what all let through."""
    for name, grammar in found.items():
        row = rows[name]
        for _ in range(SAMPLES):
            tokens = sampled(engine, grammar, random)
            if tokens is None:
                row.unended += 1
                continue
            try:
                wrong, extra, twice = judged(schema, engine.tokenizer.decode_str(tokens))
            except (RecursionError, re.error, Unresolvable):
                continue  # the judge can not: it knows no Unicode classes, nor references that end nowhere
            row.values += 1
            row.wrong += wrong and grammar.whole
            row.open += extra
            row.repeats += twice
            if len(found) == len(rows):
                times = {other: timed(one.native, tokens) for other, one in found.items()}
                if all(one is not None for one in times.values()):
                    for other, seconds in times.items():
                        rows[other].masks += seconds or []


def listed() -> Iterator[JsonSchema]:
    """The parameters of the tools in the lists."""
    for path in sorted(LISTS.glob("*.json")):
        for tool in json.loads(path.read_text("utf-8"))["tools"]:
            schema = tool.get("inputSchema", tool.get("parameters"))
            if isinstance(schema, dict):
                yield schema


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=200, help="random schemas of each kind (default: 200)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    engine, progress = Engine(), Progress()
    print(f"{machine()}; llguidance {llguidance.__version__ if hasattr(llguidance, '__version__') else ''}")
    kinds: dict[str, Iterator[JsonSchema]] = {
        "random schemas, of what our grammar knows": (
            random_parameters(Random(options.seed * 1_000_000 + number)) for number in range(options.schemas)
        ),
        "random schemas, of any keyword": (
            random_foreign(Random(options.seed * 1_000_000 + number)) for number in range(options.schemas)
        ),
        "the parameters of listed tools": listed(),
    }
    for name, schemas in kinds.items():
        rows = measured(engine, schemas, options.seed, progress)
        print(f"\n{name}:\n\n{table([HEAD, *(row.cells(side) for side, row in rows.items())])}", flush=True)


if __name__ == "__main__":
    main()

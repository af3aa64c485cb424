"""Law R9: a mask excludes no valid value in silence. Values of random schemas, made by an independent generator.

    python -m tests.runtime.constrained.valid_values --pairs 100000 --seed 1

For random schemas, ``hypothesis-jsonschema`` makes values, and ``jsonschema`` confirms that they are valid, formats
included. The grammar of the schema has to admit each byte by byte, its members in random order, unless the schema is
reported as weakened. Prints the counts, and each value that is excluded. Exits with 1 if there is one.

Two conventions: an object with ``properties`` or ``patternProperties`` is closed unless it sets
``additionalProperties``, and one with more than ``MOST_UNORDERED`` named members has them in the schema's order.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections import Counter
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed as seeded, settings
from hypothesis.internal.conjecture import utils
from hypothesis_jsonschema import from_schema
from jsonschema import Draft7Validator, Draft202012Validator

from benchmarks.random_schemas import random_foreign, random_schema
from runtime.constrained._grammar_rules import Rules
from runtime.constrained._values import MOST_UNORDERED, ValueWriter
from runtime.constrained.schema import SchemaError, read_checked
from tests.runtime.constrained.byte_sampling import compiled

SHORTHAND = re.compile(r"\\\\[dwsb]")
"""Python's judge reads these in a pattern for all of Unicode, ECMA 262 and the mask for ASCII."""
LONGEST = 800
"""The most characters of a schema: the generator draws most values of a longer one in vain, and takes minutes."""


def _more(many: Any) -> bool:
    """Continue as Hypothesis did before 6.160: ``hypothesis-jsonschema`` 0.23 calls this method."""
    if not hasattr(many, "rest"):
        many.rest = iter(many.__enter__())
    if next(many.rest, many) is many:
        many.__exit__(None, None, None)
        return False
    return True


def close(schema: Any) -> Any:
    """Return the schema with its objects closed, as the mask reads it."""
    if isinstance(schema, list):
        return [close(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: one if key in ("enum", "const", "required") else close(one) for key, one in schema.items()}
    named = closed.get("properties", closed.get("patternProperties"))
    return {"additionalProperties": False, **closed} if isinstance(named, dict) else closed


def shuffle(value: Any, random: Random) -> Any:
    if isinstance(value, list):
        return [shuffle(one, random) for one in value]
    if not isinstance(value, dict):
        return value
    keys = random.sample([*value], len(value))
    return {key: shuffle(value[key], random) for key in keys}


def too_many_members(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(too_many_members, schema))
    if not isinstance(schema, dict):
        return False
    named = schema.get("properties")
    return (isinstance(named, dict) and len(named) > MOST_UNORDERED) or any(map(too_many_members, schema.values()))


def is_valid(schema: Any, value: Any) -> bool:
    judge = Draft7Validator if "draft-07" in str(schema.get("$schema")) else Draft202012Validator
    return bool(judge(schema, format_checker=judge.FORMAT_CHECKER).is_valid(value))


def admits(matcher: Any, text: str) -> bool:
    data = [*text.encode()]
    admitted = matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting()
    matcher.reset()
    return bool(admitted)


def try_schema(schema: Any, random: Random, counts: Counter[str]) -> None:
    """Try some values of a schema."""
    try:
        tree = read_checked(schema)
    except SchemaError:
        counts["schemas refused"] += 1
        return
    counts["schemas"] += 1
    counts["schemas weakened"] += bool(tree.weakened)
    rules = Rules({})
    grammar = rules.text(ValueWriter(rules, tree).value(tree.root))
    matcher = compiled(grammar)

    @seeded(random.randrange(2**32))
    @settings(
        max_examples=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(from_schema(schema))
    def try_values(value: Any) -> None:
        if not too_many_members(schema):
            value = shuffle(value, random)
        text = json.dumps(value, ensure_ascii=False)
        if SHORTHAND.search(json.dumps(schema)) and not text.isascii():
            return
        if not is_valid(schema, value):
            counts["values that the judge refuses"] += 1
            return
        counts["pairs"] += 1
        admitted = any(admits(matcher, one) for one in (text, text.replace("\x7f", "\\u007f")))
        if not admitted and tree.weakened:
            counts["excluded, reported as weakened"] += 1
        elif not admitted:
            counts["excluded in silence"] += 1
            print(f"excluded: {text[:300]}\n  by {json.dumps(schema)[:600]}")

    try:
        try_values()
    except Exception:  # of many kinds: the generator and the judge don't read every schema
        counts["schemas that the generator can't read"] += 1


def try_schemas(pairs: int, seed: int, *, report: int = 0) -> Counter[str]:
    """Try schemas until there were this many pairs; print the counts after each ``report`` of them."""
    if not hasattr(utils.many, "more"):
        utils.many.more = _more
    counts: Counter[str] = Counter()
    number = 0
    while counts["pairs"] < pairs:
        number += 1
        random = Random(f"{seed} {number}")
        schema = close(random_schema(random, 0) if random.random() < 0.8 else random_foreign(random))
        if len(json.dumps(schema)) > LONGEST:
            continue
        try_schema(schema, random, counts)
        if report and number % report == 0:
            print(dict(counts), flush=True)
    return counts


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100_000, help="how many values to try at least")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    counts = try_schemas(options.pairs, options.seed, report=100)
    print(dict(counts))
    return 1 if counts["excluded in silence"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

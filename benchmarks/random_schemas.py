"""Parameters of tools as nobody would write them: random schemas of every feature that calls can be held to."""

from __future__ import annotations

from random import Random
from typing import Any

JsonSchema = dict[str, Any]

WORDS = ("city", "n", "unit", "tags", "when", "from", "q", "is_open", "größe", "a b", "x-y", "max")
PATTERNS = (
    "^[a-z]{2,5}$",
    "^[A-Z][a-z]*-[0-9]{1,3}$",
    "x+y?",
    "^(red|green|blue)$",
    "^\\d{4}$",
    "^\\w+( \\w+)?$",
    "[/\"'\\\\]$",
)
FORMATS = ("date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
VALUES = ("red", "", 'a "b"', "naïve", "it's", "a\\b", 0, -7, 2.5, True, False, None, ["x", 1], {"k": [None]})
STRINGS = tuple(value for value in VALUES if isinstance(value, str))
DEEPEST = 2


def random_parameters(random: Random) -> JsonSchema:
    """The schema of an object with one to four properties, perhaps with definitions that they refer to."""
    definitions = {f"D{number}": random_schema(random, 1) for number in range(random.choice((0, 0, 1, 2)))}
    if random.random() < 0.1:
        tree = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/Tree"}}}
        definitions["Tree"] = {**tree, "required": ["v"]}
    schema = _object(random, 0, tuple(definitions), fewest=1)
    return {**schema, "$defs": definitions} if definitions else schema


def random_schema(random: Random, depth: int, definitions: tuple[str, ...] = ()) -> JsonSchema:
    """A schema of any kind; nested ones become rarer with depth."""
    kinds = ["text", "text", "integer", "number", "boolean", "enum", "const", "null"]
    if depth < DEEPEST:
        kinds += ["array", "array", "tuple", "object", "object", "any_of", "types", "one_of"]
    if definitions:
        kinds += ["reference"] * 3
    if random.random() < 0.03:
        return {}
    match random.choice(kinds):
        case "text":
            return _text(random)
        case "integer":
            return {"type": "integer", **_range(random, whole=True)}
        case "number":
            return {"type": "number", **_range(random, whole=False)}
        case "boolean":
            return {"type": "boolean", "description": "Whether it is so."}
        case "null":
            return {"type": "null"}
        case "enum":
            return {"enum": random.sample(VALUES, random.randint(1, 5))}
        case "const":
            return {"const": random.choice(VALUES)}
        case "array":
            fewest = random.choice((0, 0, 1, 2))
            return {
                "type": "array",
                "items": random_schema(random, depth + 1, definitions),
                "minItems": fewest,
                "maxItems": fewest + random.randint(0, 3),
            }
        case "tuple":
            first = [random_schema(random, depth + 1, definitions) for _ in range(random.randint(1, 3))]
            return {"type": "array", "prefixItems": first, "minItems": random.randint(0, len(first)), "items": False}
        case "object":
            return _object(random, depth + 1, definitions)
        case "any_of":
            return {"anyOf": [random_schema(random, depth + 1, definitions) for _ in range(random.randint(1, 3))]}
        case "one_of":
            return {"oneOf": [_text(random), {"type": "integer"}, {"type": "null"}][: random.randint(2, 3)]}
        case "types":
            return {
                "type": random.sample(["string", "integer", "boolean", "null"], random.randint(1, 3)),
                "maxLength": 9,
            }
        case _:
            return {"$ref": f"#/$defs/{random.choice(definitions)}"}


def _object(random: Random, depth: int, definitions: tuple[str, ...], fewest: int = 0) -> JsonSchema:
    names = random.sample(WORDS, random.randint(fewest, 4 - depth))
    schema: JsonSchema = {
        "type": "object",
        "properties": {name: random_schema(random, depth, definitions) for name in names},
        "required": [name for name in names if random.random() < 0.6],
    }
    match random.randrange(6):
        case 0:
            schema["additionalProperties"] = False
        case 1:
            schema["additionalProperties"] = random_schema(random, DEEPEST)
        case _:
            pass  # most schemas say nothing of other properties
    return schema


def _text(random: Random) -> JsonSchema:
    match random.randrange(4):
        case 0:
            return {"type": "string"}
        case 1:
            fewest = random.choice((0, 0, 1, 4))
            return {"type": "string", "minLength": fewest, "maxLength": fewest + random.randint(0, 20)}
        case 2:
            return {"type": "string", "pattern": random.choice(PATTERNS)}
        case _:
            return {"type": "string", "format": random.choice(FORMATS)}


def _range(random: Random, *, whole: bool) -> JsonSchema:
    schema: JsonSchema = {}
    low: Any = random.randint(-200, 200) if whole else round(random.uniform(-20, 20), random.randint(0, 3))
    if random.random() < 0.5:
        schema[random.choice(("minimum", "exclusiveMinimum"))] = low
    if random.random() < 0.5:
        schema[random.choice(("maximum", "exclusiveMaximum"))] = low + random.choice((2, 10, 1000))
    if whole and random.random() < 0.1 and len(schema) != 2:
        schema["multipleOf"] = random.choice((2, 5, 7))
    return schema


NAMES = ("id", "name", "from", "x-y", "a b", "größe", "kind", "<tool_call>", "$ref", "properties", "")
ODD_PATTERNS = (*PATTERNS, "^(?!no)\\w+$", "(a|aa)+$", "\\bword\\b", "^\\p{L}+$", "(a)\\1", "^[^]$", "a{0,3}$", "^$")
DEFAULT_VALUES: tuple[Any, ...] = (*VALUES, "x</think>y", [], {}, 1e30, 10**20)


def random_foreign(random: Random) -> JsonSchema:
    """The parameters of a tool as others may write them: any keyword of any draft, sensible together or not."""
    definitions = {name: _foreign(random, 1) for name in ("A", "B")[: random.randint(0, 2)]}
    schema = {"type": "object", **_foreign_object(random, 0)}
    for keyword in random.sample(
        ("allOf", "anyOf", "oneOf", "not", "if", "minProperties"), random.choice((0, 0, 1, 2))
    ):
        schema.update(_applied(random, keyword, 1))
    if random.random() < 0.3:
        schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    return {**schema, "$defs": definitions}


def _foreign(random: Random, depth: int) -> Any:
    if depth > DEEPEST:
        return random.choice((True, {}, {"type": "string"}, {"type": "integer"}, False))
    schema: JsonSchema = {}
    kinds = [_foreign_text, _foreign_number, _foreign_list, _foreign_object]
    for kind in random.sample(kinds, random.choice((0, 1, 1, 1, 2))):
        schema.update(kind(random, depth))
    if random.random() < 0.5:
        names = ["string", "integer", "number", "boolean", "null", "array", "object"]
        schema["type"] = random.choice([random.choice(names), random.sample(names, random.randint(1, 3))])
    for keyword in ("allOf", "anyOf", "oneOf", "not", "if", "enum", "const", "$ref", "nullable", "x-note", "example"):
        if random.random() < 0.08:
            schema.update(_applied(random, keyword, depth + 1))
    return schema


def _applied(random: Random, keyword: str, depth: int) -> JsonSchema:
    match keyword:
        case "allOf" | "anyOf" | "oneOf":
            return {keyword: [_foreign(random, depth) for _ in range(random.randint(1, 3))]}
        case "not":
            return {"not": _foreign(random, depth)}
        case "if":
            return {"if": _foreign(random, depth), "then": _foreign(random, depth)}
        case "enum":
            return {"enum": random.sample(DEFAULT_VALUES, random.randint(1, 4))}
        case "const":
            return {"const": random.choice(DEFAULT_VALUES)}
        case "$ref":
            return {"$ref": random.choice(("#", "#/$defs/A", "#/$defs/B"))}
        case "minProperties":
            return {"minProperties": random.randint(0, 3)}
        case _:
            return {keyword: random.choice((True, "a note", {"type": 5}))}


def _some(random: Random, keywords: JsonSchema) -> JsonSchema:
    chosen = random.sample(sorted(keywords), random.randint(1, 2))
    return {keyword: keywords[keyword] for keyword in chosen}


def _foreign_text(random: Random, _depth: int) -> JsonSchema:
    return _some(
        random,
        {
            "minLength": random.choice((0, 1, 3, 8)),
            "maxLength": random.choice((0, 2, 5, 70_000)),
            "pattern": random.choice(ODD_PATTERNS),
            "format": random.choice((*FORMATS, "int32", "regex", "binary")),
        },
    )


def _foreign_number(random: Random, _depth: int) -> JsonSchema:
    return _some(
        random,
        {
            "minimum": random.choice((-1, 0, 2.5, 10, 1e20)),
            "maximum": random.choice((-1, 0, 2.5, 10, 9007199254740991)),
            "exclusiveMinimum": random.choice((0, -0.5, 3)),
            "exclusiveMaximum": random.choice((0, 1e300, 3)),
            "multipleOf": random.choice((1, 2, 0.01, 7, 1000003)),
        },
    )


def _foreign_list(random: Random, depth: int) -> JsonSchema:
    return _some(
        random,
        {
            "items": _foreign(random, depth + 1),
            "prefixItems": [_foreign(random, depth + 1) for _ in range(random.randint(1, 2))],
            "minItems": random.choice((0, 1, 3)),
            "maxItems": random.choice((0, 1, 2, 100)),
            "uniqueItems": True,
            "contains": _foreign(random, depth + 1),
        },
    )


def _foreign_object(random: Random, depth: int) -> JsonSchema:
    names = random.sample(NAMES, random.randint(1, 3))
    return _some(
        random,
        {
            "properties": {name: _foreign(random, depth + 1) for name in names},
            "required": random.sample(NAMES, random.choice((0, 1, 2))),
            "additionalProperties": random.choice((False, True, _foreign(random, depth + 1))),
            "patternProperties": {"^x-": _foreign(random, depth + 1)},
            "propertyNames": {"maxLength": 5},
            "maxProperties": random.randint(0, 3),
            "dependentRequired": {"id": ["name"]},
        },
    )

"""Reads JSON Schema (draft 2020-12), or says at which place it asks for something that sampling can't be held to.

Understood: ``type``, ``enum``, ``const``; ``properties``, ``required``, ``additionalProperties``; ``items``,
``prefixItems``, ``minItems``, ``maxItems``; ``minLength``, ``maxLength``, ``pattern``, ``format``; ``minimum``,
``maximum`` and the exclusive ones, ``multipleOf`` (whole numbers); ``anyOf``, ``oneOf`` whose options can't hold
together, ``allOf`` of one; ``$ref`` within the schema, also to itself. Annotations are read over.

The tree may allow less than the schema, never more: an object with ``properties`` has no others unless the schema says
``additionalProperties``, as the check of arguments has it; integers have at most 18 digits; keywords of one type mean
that type. So whatever is sampled by it is valid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from cognition import ConfigError
from runtime.constrained.nodes import Anything, Choice, Either, Items, Member, Members, Node, Number, Reference, Schema
from runtime.constrained.nodes import Text as TextNode
from runtime.constrained.numbers import integer_range, pattern_of
from runtime.constrained.patterns import FORMATS, PatternError, anchored

ANNOTATIONS = frozenset(
    "title description default examples deprecated readOnly writeOnly $schema $id $comment $defs definitions".split()
)
KINDS: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}
KINDS = {**KINDS, "integer": KINDS["number"], "boolean": frozenset(), "null": frozenset()}
SINGLE = {"boolean": Choice(("true", "false")), "null": Choice(("null",))}
ADVICE = {
    "uniqueItems": "a grammar can't compare values",
    "not": "a grammar says what may be, not what must not",
    "patternProperties": "use properties, or additionalProperties",
    "minProperties": "use required",
    "maxProperties": "use properties",
    "propertyNames": "use properties",
    "if": "use anyOf",
    "allOf": "write the parts into one schema",
    "oneOf": "use anyOf, unless no value fits two of its options",
    "contains": "use items or prefixItems",
    "$dynamicRef": "use $ref",
}
"""What to do instead, where there is something."""


class SchemaError(ConfigError):
    """A schema that sampling can't be held to.

    Attributes:
        problems: each (path, problem), such as ``("$.properties.tags", "'uniqueItems' is not supported: ...")``.
    """

    def __init__(self, problems: tuple[tuple[str, str], ...], subject: str = "the schema") -> None:
        listed = "; ".join(f"{problem} @ {path}" for path, problem in problems)
        super().__init__(
            f"calls can't be constrained by {subject}: {listed} (or set GenerationOptions.constrain=False)"
        )
        self.problems = problems
        self.subject = subject


def read_schema(schema: Any, subject: str = "the schema") -> Schema:
    """The tree of a schema.

    Args:
        schema: decoded JSON: an object, or true.
        subject: what the error calls it, such as ``"the parameters of tool 'move'"``.

    Raises:
        SchemaError: it asks for something that is not understood, or that no value can fulfil; names every place.
    """
    reader = _Reader(schema)
    try:
        tree = reader.read(schema, "$")
    except RecursionError:
        reader.problems.append(("$", "the schema is nested too deeply"))
        tree = Anything()
    if reader.problems:
        raise SchemaError(tuple(reader.problems), subject)
    return Schema(tree, reader.definitions)


class _Reader:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.problems: list[tuple[str, str]] = []
        self.definitions: dict[str, Node] = {}

    def refuse(self, path: str, problem: str) -> Node:
        self.problems.append((path, problem))
        return Anything()

    def read(self, schema: Any, path: str) -> Node:
        if schema is True:
            return Anything()
        if schema is False:
            return self.refuse(path, "false lets no value through")
        if not isinstance(schema, dict):
            return self.refuse(path, f"a schema is an object, not {json.dumps(schema, default=repr)[:40]}")
        told = schema.keys() - ANNOTATIONS
        for keyword, rule in (("$ref", self._reference), ("anyOf", self._options), ("oneOf", self._options)):
            if keyword in told:
                return rule(schema, keyword, told, path)
        if "allOf" in told:
            parts = schema["allOf"]
            if told == {"allOf"} and isinstance(parts, list) and len(parts) == 1:
                return self.read(parts[0], f"{path}.allOf[0]")
            return self.refuse(path, _unsupported("allOf"))
        known = {"type", "enum", "const"}.union(*KINDS.values())
        unknown = sorted(told - known)
        if unknown:
            for keyword in unknown:
                self.refuse(path, _unsupported(keyword))
            return Anything()
        if told & {"enum", "const"}:
            return self._choice(schema, told, path)
        kinds = self._kinds(schema, told, path)
        if not kinds:
            return Anything()
        nodes = tuple(self._of_kind(kind, schema, path) for kind in kinds)
        return nodes[0] if len(nodes) == 1 else Either(nodes)

    # ------------------------------------------------------------------------------------------------- combinations

    def _reference(self, schema: dict[str, Any], _keyword: str, told: set[str], path: str) -> Node:
        pointer = schema["$ref"]
        if told != {"$ref"}:
            return self.refuse(path, "'$ref' beside other keywords is not supported: put them into the definition")
        if not isinstance(pointer, str) or not (pointer == "#" or pointer.startswith("#/")):
            return self.refuse(
                path, f"'$ref' has to lead to a place in the schema, such as '#/$defs/X', not {pointer!r}"
            )
        if pointer in self.definitions:
            return Reference(pointer)
        found: Any = self.root
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            else:
                return self.refuse(path, f"'$ref' leads nowhere: {pointer}")
        self.definitions[pointer] = Anything()  # stands in while the definition is read, which may lead back here
        definition = self.definitions[pointer] = self.read(found, pointer)
        seen = {pointer}
        while isinstance(definition, Reference):
            if definition.pointer in seen:
                return self.refuse(path, f"'$ref' leads in a circle: {pointer}")
            seen.add(definition.pointer)
            definition = self.definitions[definition.pointer]
        return Reference(pointer)

    def _options(self, schema: dict[str, Any], keyword: str, told: set[str], path: str) -> Node:
        options = schema[keyword]
        if told != {keyword}:
            others = ", ".join(repr(other) for other in sorted(told - {keyword}))
            return self.refuse(path, f"{keyword!r} beside {others} is not supported: put them into each option")
        if not isinstance(options, list) or not options:
            return self.refuse(path, f"{keyword!r} has to be a list of schemas")
        nodes = tuple(self.read(option, f"{path}.{keyword}[{index}]") for index, option in enumerate(options))
        if keyword == "oneOf" and not self._apart(nodes):
            return self.refuse(path, _unsupported("oneOf"))
        return nodes[0] if len(nodes) == 1 else Either(nodes)

    def _apart(self, nodes: tuple[Node, ...]) -> bool:
        """Whether no value can fit two of these: their types differ, or a member that both must have does."""
        return not any(self._may_meet(a, b) for index, a in enumerate(nodes) for b in nodes[:index])

    def _may_meet(self, a: Node, b: Node) -> bool:
        a, b = self._resolved(a), self._resolved(b)
        if isinstance(a, Either):
            return any(self._may_meet(option, b) for option in a.options)
        if isinstance(b, Either):
            return self._may_meet(b, a)
        if isinstance(a, Members) and isinstance(b, Members):
            others = {member.name: member for member in b.members if member.required}
            return all(
                self._may_meet(member.node, others[member.name].node)
                for member in a.members
                if member.required and member.name in others
            )
        if isinstance(a, Choice) and isinstance(b, Choice):
            return not {_canonical(text) for text in a.texts}.isdisjoint(_canonical(text) for text in b.texts)
        if isinstance(a, Anything) or isinstance(b, Anything):
            return True
        return not _types(a).isdisjoint(_types(b))

    def _resolved(self, node: Node) -> Node:
        while isinstance(node, Reference):
            node = self.definitions[node.pointer]
        return node

    # -------------------------------------------------------------------------------------------------------- values

    def _choice(self, schema: dict[str, Any], told: set[str], path: str) -> Node:
        if not told <= {"enum", "const", "type"}:
            others = ", ".join(repr(other) for other in sorted(told - {"enum", "const", "type"}))
            return self.refuse(path, f"{others} beside 'enum' or 'const' is not supported: leave out what it excludes")
        values = schema.get("enum", [schema.get("const")])
        if not isinstance(values, list) or not values:
            return self.refuse(path, "'enum' has to be a list of values")
        try:
            texts = {
                _canonical_value(value): json.dumps(value, ensure_ascii=False, allow_nan=False) for value in values
            }
            if "enum" in schema and "const" in schema:
                constant = _canonical_value(schema["const"])
                texts = {key: text for key, text in texts.items() if key == constant}
        except (TypeError, ValueError):
            return self.refuse(path, "'enum' and 'const' have to be JSON values")
        allowed = _listed(schema["type"]) if "type" in schema else None
        if allowed is not None:
            texts = {key: text for key, text in texts.items() if any(kind in allowed for kind in _types_of_text(text))}
        return Choice(tuple(texts.values())) if texts else self.refuse(path, "no value is left")

    def _kinds(self, schema: dict[str, Any], told: set[str], path: str) -> list[str]:
        if "type" in told:
            kinds = _listed(schema["type"])
            wrong = [kind for kind in kinds if not isinstance(kind, str) or kind not in KINDS]
            if wrong or not kinds:
                self.refuse(path, f"'type' has to be one of {', '.join(KINDS)}, not {json.dumps(schema['type'])[:60]}")
                return []
            return [kind for kind in dict.fromkeys(kinds) if not (kind == "integer" and "number" in kinds)]
        meant = [kind for kind in ("object", "array", "string", "number") if told & KINDS[kind]]
        if len(meant) > 1:
            self.refuse(path, f"say which 'type' is meant: there are keywords of {' and '.join(meant)}")
        return meant[:1]

    def _of_kind(self, kind: str, schema: dict[str, Any], path: str) -> Node:
        if kind in SINGLE:
            return SINGLE[kind]
        rules: dict[str, Callable[[dict[str, Any], str], Node]] = {
            "object": self._object,
            "array": self._array,
            "string": self._text,
            "number": lambda schema, path: self._number(schema, path, whole=False),
            "integer": lambda schema, path: self._number(schema, path, whole=True),
        }
        return rules[kind](schema, path)

    def _object(self, schema: dict[str, Any], path: str) -> Node:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            return self.refuse(path, "'properties' has to be an object, and 'required' a list")
        extra = schema.get("additionalProperties", "properties" not in schema)
        rest = None if extra is False else self.read(extra, f"{path}.additionalProperties")
        members = [
            Member(name, self.read(one, f"{path}.properties.{name}"), name in required)
            for name, one in properties.items()
            if one is not False
        ]
        for name in required:
            if not isinstance(name, str):
                self.refuse(path, f"'required' has to be a list of names: {name!r} is none")
        for name in dict.fromkeys(name for name in required if isinstance(name, str)):
            if (name not in properties and rest is None) or properties.get(name) is False:
                self.refuse(path, f"{name!r} is required and can't be there")
            elif name not in properties and rest is not None:
                members.append(Member(name, rest, True))
        return Members(tuple(members), rest)

    def _array(self, schema: dict[str, Any], path: str) -> Node:
        if schema.get("uniqueItems"):
            return self.refuse(path, _unsupported("uniqueItems"))
        first, items = schema.get("prefixItems", []), schema.get("items", True)
        if not isinstance(first, list) or isinstance(items, list):
            return self.refuse(path, "use 'prefixItems' for a list of schemas, and 'items' for one schema")
        fewest, most = self._bounds(schema, "minItems", "maxItems", path)
        nodes = tuple(self.read(one, f"{path}.prefixItems[{index}]") for index, one in enumerate(first))
        closed = items is False or (most is not None and most <= len(nodes))
        rest = None if closed else self.read(items, f"{path}.items")
        if closed and fewest > len(nodes):
            return self.refuse(path, f"{fewest} elements are wanted, and there can be no more than {len(nodes)}")
        return Items(nodes, rest, fewest, most)

    def _text(self, schema: dict[str, Any], path: str) -> Node:
        pattern = schema.get("pattern")
        shape = schema.get("format")
        if pattern is not None and shape is not None:
            return self.refuse(path, "'pattern' beside 'format' is not supported: leave one of them out")
        if shape is not None and (not isinstance(shape, str) or shape not in FORMATS):
            return self.refuse(path, f"the format {shape!r} is not supported, only {', '.join(sorted(FORMATS))}")
        if pattern is not None:
            try:
                anchored(pattern)
            except PatternError as error:
                return self.refuse(path, f"the pattern {pattern!r} is not supported: {error}")
        shortest, longest = self._bounds(schema, "minLength", "maxLength", path)
        return TextNode(f"^(?:{FORMATS[shape]})$" if shape is not None else pattern, shortest, longest)

    def _number(self, schema: dict[str, Any], path: str, *, whole: bool) -> Node:
        step = schema.get("multipleOf", 1)
        if isinstance(step, bool) or not isinstance(step, int | float) or step != int(step) or step < 1:
            return self.refuse(path, f"'multipleOf' has to be a whole number above 0, not {step!r}")
        low, above = self._edge(schema, "minimum", "exclusiveMinimum", max, path)
        high, below = self._edge(schema, "maximum", "exclusiveMaximum", min, path)
        if low is not None and high is not None and (low > high or (low == high and (above or below))):
            return self.refuse(path, "no number lies in this range")
        number = Number(
            whole or "multipleOf" in schema,
            None if low is None else f"{low:f}",
            None if high is None else f"{high:f}",
            above,
            below,
            int(step),
        )
        if not (integer_range(number) if number.whole else pattern_of(number)):
            return self.refuse(path, "no number lies in this range")
        return number

    def _edge(
        self, schema: dict[str, Any], including: str, excluding: str, tighter: Callable[..., Any], path: str
    ) -> tuple[Decimal | None, bool]:
        """The bound on one side, and whether the bound itself is excluded."""
        found: list[tuple[Decimal, bool]] = []
        for keyword, excluded in ((including, False), (excluding, True)):
            if keyword in schema:
                value = schema[keyword]
                try:
                    number = Decimal(str(value))
                except InvalidOperation:
                    number = Decimal("NaN")
                if isinstance(value, bool) or not isinstance(value, int | float) or not number.is_finite():
                    self.refuse(path, f"{keyword!r} has to be a number, not {value!r}")
                elif abs(number) > LARGEST:
                    self.refuse(path, f"{keyword!r} has to lie within 18 digits")
                else:
                    found.append((number, excluded))
        if not found:
            return None, False
        edge = tighter(number for number, _ in found)
        return edge, (edge, True) in found

    def _bounds(self, schema: dict[str, Any], low: str, high: str, path: str) -> tuple[int, int | None]:
        fewest = 0 if schema.get(low) is None else schema[low]  # a null says as little as no keyword
        most = schema.get(high)
        for keyword, value in ((low, fewest), (high, most)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                self.refuse(path, f"{keyword!r} has to be a whole number from 0 on, not {value!r}")
                return 0, None
        if most is not None and fewest > most:
            self.refuse(path, f"{low!r} is above {high!r}")
            return 0, None
        return fewest, most


LARGEST = Decimal(10**18 - 1)
"""Numbers of more digits are beyond 64 bits, and no tool is meant by them."""


def _unsupported(keyword: str) -> str:
    advice = ADVICE.get(keyword)
    return f"{keyword!r} is not supported" + (f": {advice}" if advice else "")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _canonical_value(value: Any) -> str:
    """Equal for values that JSON Schema calls equal: 1 and 1.0, but not 1 and true."""
    return _canonical(json.dumps(value, allow_nan=False))


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text, parse_float=_number, parse_int=_number), sort_keys=True)


def _number(text: str) -> Any:
    return float(text)


def _types_of_text(text: str) -> set[str]:
    value = json.loads(text)
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return {"integer", "number"}
    names: dict[type, str] = {float: "number", str: "string", list: "array", dict: "object", type(None): "null"}
    return {names[type(value)]}


def _types(node: Node) -> set[str]:
    match node:
        case Choice(texts=texts):
            return set().union(*(_types_of_text(text) for text in texts))
        case TextNode():
            return {"string"}
        case Number():
            return {"integer", "number"}
        case Items():
            return {"array"}
        case _:
            return {"object"}

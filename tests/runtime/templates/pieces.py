"""Templates that chance makes of what is dangerous: values that grow, operations on them, what repeats them."""

from __future__ import annotations

import random

NUMBERS = ("0", "1", "-1", "2", "7", "999", "99999", "10000000", "2305843009213693951", "10**18", "messages | length")

VALUES = (
    "messages", "messages[0].content", "tools", "n.x", "n.y", "'x'", "'ab' * 9999", "'<' * 99999", "'%s%s'", "'{0}{0}'",
    "'a ' * 99999", "[1]", "[1, 'a'] * 999", "(1,)", "{'a': 1}", "{'x': n.x}", "range(99999)", "'\\n' * 99999", "none",
    "namespace(n=n)", "n", "cycler(1, 2)", "joiner('x')", "bos_token", "loop", "undefined_name", "1.5", "'😀' * 9999",
)  # fmt: skip

BINARY = ("+", "*", "~", "-", "/", "//", "%", "**", "==", "<", "in", "not in", "and", "or")

FILTERS = (
    "abs", "batch({n})", "batch({n}, {v})", "capitalize", "center({n})", "default({v})", "dictsort", "escape",
    "filesizeformat", "first", "float", "forceescape", "format({v}, {v})", "groupby('a')", "groupby(0)", "indent({n})",
    "indent({v})", "int", "items", "join({v})", "join", "last", "length", "list", "lower", "map('string')",
    "map('upper')", "map(attribute='content')", "map('center', {n})", "max", "min", "pprint", "random", "reject",
    "rejectattr('a')", "replace({v}, {v})", "reverse", "round({n})", "safe", "select", "slice({n})", "sort",
    "sort(attribute='a')", "string", "striptags", "sum", "sum(start={v})", "title", "tojson", "tojson(indent={n})",
    "trim", "truncate({n})", "unique", "upper", "urlencode", "urlize", "wordcount", "wordwrap({n})", "xmlattr",
)  # fmt: skip

METHODS = (
    "append({v})", "pop()", "split({v})", "replace({v}, {v})", "join({v})", "format({v}, {v})", "format(**{d})",
    "center({n})", "ljust({n})", "zfill({n})", "expandtabs({n})", "translate({d})", "splitlines()", "encode()",
    "count({v})", "find({v})", "items()", "keys()", "values()", "get({v}, {v})", "format_map({d})", "partition({v})",
    "next()", "strip()", "title()", "casefold()", "upper()", "index({v})", "copy()", "__class__", "__len__()",
)  # fmt: skip

TESTS = ("defined", "iterable", "mapping", "sameas {v}", "divisibleby {n}", "in {v}", "eq {v}", "string", "sequence")

STATEMENTS = (
    "{{% for a in {v} %}}{s}{{% endfor %}}",
    "{{% for a in {v} recursive %}}{{{{ loop({v}) }}}}{s}{{% endfor %}}",
    "{{% for a in range(99999) %}}{s}{{% endfor %}}",
    "{{% for a in range(64) %}}{s}{{% endfor %}}",
    "{{% if {v} %}}{s}{{% else %}}{s}{{% endif %}}",
    "{{% set n.x = {v} %}}",
    "{{% set n.y = {v} %}}",
    "{{% set x %}}{s}{{% endset %}}{{% set n.x = x %}}",
    "{{% macro m(p={v}) %}}{s}{{{{ m({v}) }}}}{{% endmacro %}}{{{{ m({v}) }}}}",
    "{{% macro k() %}}{{{{ caller() }}}}{{% endmacro %}}{{% call k() %}}{s}{{% endcall %}}",
    "{{% filter {f} %}}{s}{{% endfilter %}}",
    "{{% with n = {v} %}}{s}{{% endwith %}}",
    "{{{{ {v} }}}}",
    "{{{{ {v} }}}}{s}",
    "{{% set _ = {v} %}}{s}",
    "{{{{ raise_exception({v}) }}}}",
    "{{{{ strftime_now({v}) }}}}",
    "<think>{s}</think>",
)

START = "{% set n = namespace(x=['x'], y='xxxxxxxxxx') %}"


def random_template(dice: random.Random) -> str:
    """One of up to four statements, some of them with others inside."""
    return START + "".join(_statement(dice, 3) for _ in range(dice.randint(1, 4)))


def _statement(dice: random.Random, depth: int) -> str:
    if depth == 0:
        return "{{ n.x }}"
    shape = dice.choice(STATEMENTS)
    parts = {"v": _value(dice, 3), "f": _filled(dice, dice.choice(FILTERS), 1)}
    return shape.format(**parts, s=_statement(dice, depth - 1) if "{s}" in shape else "")


def _value(dice: random.Random, depth: int) -> str:
    kind = dice.randrange(8) if depth else 0
    if kind <= 1:
        return dice.choice(VALUES) if dice.random() < 0.8 else dice.choice(NUMBERS)
    inner = _value(dice, depth - 1)
    match kind:
        case 2 | 3:
            return f"({inner}) {dice.choice(BINARY)} ({_value(dice, depth - 1)})"
        case 4 | 5:
            return f"({inner}) | {_filled(dice, dice.choice(FILTERS), depth - 1)}"
        case 6:
            return f"({inner}).{_filled(dice, dice.choice(METHODS), depth - 1)}"
        case _:
            return f"({inner}) is {_filled(dice, dice.choice(TESTS), 0)}"


def _filled(dice: random.Random, shape: str, depth: int) -> str:
    while "{" in shape.replace("{'", ""):
        for mark, make in (
            ("{v}", lambda: _value(dice, depth)),
            ("{n}", lambda: dice.choice(NUMBERS)),
            ("{d}", lambda: "dict(a=n.y)"),
        ):
            if mark in shape:
                shape = shape.replace(mark, f"<<{make()}>>", 1)
                break
        else:
            break
    return shape.replace("<<", "(").replace(">>", ")")

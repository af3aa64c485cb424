"""The environment of chat templates: Jinja2's immutable sandbox, with a limit on the work and on the size of texts.

Templates are untrusted code. The sandbox limits them to the values passed to them. This module also prevents them from
running or growing endlessly. Work is counted in steps, not in seconds, so that a template stops at the same place on
every machine: one step for each turn of a loop, each call and each filter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import BuiltinMethodType, GeneratorType
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser as JinjaParser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

STEPS = 5_000_000
"""Limit of one rendering. A conversation of 1,000 messages with 100 tools takes about 10,000 steps; nested loops over
all messages, as in some templates, 1,000,000.
"""

SIZE = 64_000_000
"""Characters or items of any text or list, and of the output: more than fits any context."""

LONG_NUMBER = re.compile(r"\d{7}")
COUNTED, SIZED = "_counted", "_sized"
"""Filters inserted around the items of loops, and around concatenated texts."""


class LimitExceeded(Exception):  # noqa: N818 - becomes a TemplateError
    """The template exceeds its limits."""


class _Meter:
    """The remaining steps of one rendering, and the lists passed to it."""

    def __init__(self, steps: int, given: frozenset[int]) -> None:
        self.left = steps
        self.given = given

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise LimitExceeded(
                "it does not come to an end: it was stopped after as many steps as no conversation needs"
            )


METER: ContextVar[_Meter] = ContextVar("METER")
"""The meter of the current rendering; each thread has its own."""


class _GenerationBlock(Extension):
    """``{% generation %}``: marks assistant text for training; here it only renders its content."""

    tags = {"generation"}  # noqa: RUF012  Jinja2 declares it as a plain attribute

    def parse(self, parser: JinjaParser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _MeterInserter(NodeTransformer):
    """Inserts the counting filters around loops and concatenated texts."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja2's name
        self.generic_visit(node)
        node.iter = _apply_filter(node.iter, COUNTED)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja2's name
        self.generic_visit(node)
        return _apply_filter(node, SIZED)


def _apply_filter(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one template."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, steps: int = STEPS, size: int = SIZE) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, "jinja2.ext.loopcontrols"])
        self._steps = steps
        self._size = size
        self.concat = self._join  # type: ignore[method-assign]
        self.filters |= {name: self._guard(function) for name, function in self.filters.items()}
        self.filters |= {COUNTED: self._count_items, SIZED: self._check_result, "tojson": self._guard(_tojson)}
        del self.globals["lipsum"]
        self.globals |= {"raise_exception": _raise_exception}

    @contextmanager
    def meter(self, variables: Mapping[str, Any]) -> Iterator[None]:
        """Give the rendering inside a fresh meter.

        Raises:
            TooMuch: the template takes more steps, or creates larger texts, than any conversation needs.
        """
        token = METER.set(_Meter(self._steps, frozenset(map(id, _lists(variables)))))
        try:
            yield
        finally:
            METER.reset(token)

    def _generate(self, source: nodes.Template, *arguments: Any, **options: Any) -> str:
        return super()._generate(_MeterInserter().visit(source), *arguments, **options)

    # ------------------------------------------------------------------------------------------------- what is counted

    def call(self, context: Any, target: Any, *arguments: Any, **options: Any) -> Any:
        METER.get().take(1)
        owner = getattr(target, "__self__", None)
        if isinstance(owner, str) and isinstance(target, BuiltinMethodType):
            self._check_method(owner, target.__name__, arguments)
        return self._check_result(super().call(context, target, *arguments, **options))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        METER.get().take(1)
        if operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, int) and isinstance(other, str | list | tuple):
                    self._check(one * len(other))
            if isinstance(left, int) and isinstance(right, int):
                self._check(left.bit_length() + right.bit_length())
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            self._check(left.bit_length() * abs(right))
        elif operator == "%" and isinstance(left, str) and ("*" in left or LONG_NUMBER.search(left)):
            self._check(self._size + 1)
        return self._check_result(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """As in Jinja2, but a template may change lists that it created itself (Kimi K2 does)."""
        if isinstance(obj, list) and attr in ("append", "pop"):
            return id(obj) not in METER.get().given
        return bool(super().is_safe_attribute(obj, attr, value))

    def _check(self, size: int) -> None:
        if size > self._size:
            raise LimitExceeded("it makes a text larger than any context")

    def _check_method(self, owner: str, name: str, arguments: tuple[Any, ...]) -> None:
        """Check text methods that create large texts from small ones."""
        for argument in arguments:
            if isinstance(argument, int):
                self._check(argument * (len(owner) if name == "expandtabs" else 1))
        if name == "replace" and len(arguments) > 1 and all(isinstance(text, str) for text in arguments[:2]):
            self._check(len(owner) + owner.count(arguments[0]) * len(arguments[1]))
        elif name == "join" and arguments and isinstance(arguments[0], list | tuple):
            self._check(sum(len(owner) + len(item) for item in arguments[0] if isinstance(item, str)))
        elif name in ("format", "format_map") and LONG_NUMBER.search(owner):
            self._check(self._size + 1)

    def _guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a filter that costs a step, refuses large numbers, and checks the size of its result."""

        @wraps(function)
        def guarded(*arguments: Any, **options: Any) -> Any:
            METER.get().take(1)
            for argument in (*arguments, *options.values()):
                if isinstance(argument, int):
                    self._check(argument)
            texts = [argument for argument in arguments if isinstance(argument, str)]
            if function.__name__ == "do_replace" and len(texts) > 2:
                self._check(len(texts[0]) + texts[0].count(texts[1]) * len(texts[2]))
            elif function.__name__ == "sync_do_join" and texts:
                items = next((argument for argument in arguments if isinstance(argument, list | tuple)), ())
                self._check(sum(len(texts[-1]) + len(item) for item in items if isinstance(item, str)))
            elif function.__name__ == "do_format" and texts and ("*" in texts[0] or LONG_NUMBER.search(texts[0])):
                self._check(self._size + 1)
            return self._check_result(function(*arguments, **options))

        return guarded

    def _check_result(self, value: Any) -> Any:
        if isinstance(value, str | list | tuple | dict):
            self._check(len(value))
        return value

    def _count_items(self, items: Any) -> Any:
        """Count the items of a loop: a list immediately, a generator item by item."""
        if isinstance(items, list | tuple | dict | str | range):
            METER.get().take(len(items))
            return items
        return _charge_items(items) if isinstance(items, GeneratorType) else items

    def _join(self, pieces: Iterable[str]) -> str:
        size, kept = 0, list[str]()
        for piece in pieces:
            size += len(piece)
            self._check(size)
            kept.append(piece)
        return "".join(kept)


def _lists(value: Any) -> Iterator[list[Any]]:
    """Yield all lists within JSON data. Each rendering searches all of its data, so this is simple and fast."""
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, list):
            yield item
            rest += item
        elif isinstance(item, dict):
            rest += item.values()


def _charge_items(items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        METER.get().take(1)
        yield item


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Encode as ``transformers`` does; Jinja2's own filter escapes HTML characters, which is unlike any training text.

    The results of ``map`` and ``select`` are written as lists, as in llama.cpp.
    """
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=_as_list
    )


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, GeneratorType):
        return list(value)
    raise TypeError(f"{type(value).__name__} can't be written as JSON")

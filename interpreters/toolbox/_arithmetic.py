"""Arithmetic without ``eval``: parses an expression and computes only the operations listed here."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Any

from interpreters.tools.tool import ToolError

Number = int | float

MAX_LENGTH = 500
"""Characters of an expression."""
MAX_BITS = 4096
"""Bits of a whole number: 1233 decimal digits. 9**9**9 would have 370 million."""
MAX_DIGITS = 100
"""Decimal places that ``round`` accepts."""

TYPOGRAPHY = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"})
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "max": max,
    "min": min,
    "round": round,
    "sqrt": math.sqrt,
}
CONSTANTS: dict[str, Number] = {"e": math.e, "pi": math.pi}
WORD = re.compile(r"[^\W\d]+")
KNOWN_WORDS = {*FUNCTIONS, *CONSTANTS, "E"}  # E as in 1E5


class TooLargeError(ArithmeticError):
    """A number exceeds ``MAX_BITS`` or the range of a float."""


def evaluate(expression: str) -> str:
    """Return the value as text, such as ``391`` or ``0.3333333333``: whole numbers in full, others to 10 significant
    digits.

    Raises:
        ToolError: it is not arithmetic, has no value, or its value is too large.
    """
    invalid = ToolError(f"invalid expression: {expression[:MAX_LENGTH]}")
    text = expression.translate(TYPOGRAPHY).strip()
    if "^" in text:
        raise ToolError(f"{invalid}; write powers with **")
    if len(text) > MAX_LENGTH or not all(word in KNOWN_WORDS for word in WORD.findall(text)):
        raise invalid
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise invalid from error
    try:
        return format_number(value_of(tree.body))
    except ZeroDivisionError as error:
        raise ToolError("division by zero") from error
    except (TooLargeError, OverflowError) as error:
        raise ToolError("the number is too large") from error
    except SyntaxError as error:
        raise invalid from error
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"cannot evaluate: {expression}") from error


def value_of(node: ast.expr) -> Number:
    """Return the value of a parsed expression.

    Raises:
        SyntaxError: a part is not arithmetic. ArithmeticError, TypeError, ValueError: it has no value.
    """
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return check_size(value)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in SIGNS:
            return check_size(SIGNS[type(op)](value_of(operand)))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            a, b = value_of(left), value_of(right)
            if isinstance(op, ast.Pow):
                check_power(a, b)
            return check_size(OPERATORS[type(op)](a, b))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            values = [value_of(argument) for argument in arguments]
            if name in ("min", "max") and len(values) == 1:
                return values[0]
            if name == "round" and len(values) == 2 and abs(values[1]) > MAX_DIGITS:
                raise TooLargeError
            return check_size(FUNCTIONS[name](*values))
        case _:
            raise SyntaxError


def check_power(base: Number, exponent: Number) -> None:
    """Refuse an expensive power before it is computed."""
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and abs(base) > 1 and int(base).bit_length() * exponent > 2 * MAX_BITS:
        raise TooLargeError


def check_size(value: Any) -> Number:
    """Return the value if it is a number of an allowed size."""
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise TooLargeError
        return value
    if not isinstance(value, float) or math.isnan(value):  # a complex number, or one that is none
        raise ValueError(value)
    if math.isinf(value):
        raise TooLargeError
    return value


def format_number(value: Number) -> str:
    if isinstance(value, int):
        return str(value)
    text = f"{value:.10g}"
    return "0" if text == "-0" else text

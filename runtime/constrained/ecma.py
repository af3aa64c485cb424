"""Parses regular expressions of ECMA 262 into a tree. Sampling and the later check write their own patterns from it.

So a pattern means the same to both, in spite of their engines' dialects. The syntax is that of JSON Schema, the mode
with the flag ``u``. Beyond it, the parser accepts two things that browsers accept without the flag: an escaped letter
without a meaning, and a brace that is not a count, are literal.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from attrs import frozen

LAST = 0x10FFFF
DEEPEST = 60
"""The limit of nested groups."""

Ranges = tuple[tuple[int, int], ...]


class EcmaError(ValueError):
    """The text is not a valid regular expression of ECMA 262."""


@frozen
class CharacterSet:
    """One character of a set."""

    ranges: Ranges
    properties: tuple[str, ...] = ()
    r"""Unicode properties other than general categories, as written: ``\p{Script=Greek}``."""
    negated: bool = False
    """Any character except these; only with properties."""


@frozen
class Alternative:
    items: tuple[Piece, ...]


@frozen
class Disjunction:
    options: tuple[Alternative, ...]


@frozen
class Group:
    body: Disjunction
    captures: bool


@frozen
class Repetition:
    body: Piece
    fewest: int
    most: int | None
    lazy: bool = False


@frozen
class Assertion:
    """An assertion of a position: ``^``, ``$``, ``b`` or ``B``."""

    kind: str


@frozen
class Lookaround:
    """A lookahead or lookbehind; ``sign`` is ``=``, ``!``, ``<=`` or ``<!``."""

    sign: str
    body: Disjunction


@frozen
class BackReference:
    """The text of a group, empty if it did not match; groups count from 1."""

    group: int


Piece = CharacterSet | Alternative | Disjunction | Group | Repetition | Assertion | Lookaround | BackReference


def within(*edges: tuple[int, int]) -> Ranges:
    """Return the ranges sorted, with adjacent ones merged."""
    made: list[tuple[int, int]] = []
    for low, high in sorted(edges):
        if made and low <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(high, made[-1][1]))
        else:
            made.append((low, high))
    return tuple(made)


def without(ranges: Ranges) -> Ranges:
    """Return the complement."""
    made, start = [], 0
    for low, high in ranges:
        if low > start:
            made.append((start, low - 1))
        start = high + 1
    return (*made, (start, LAST)) if start <= LAST else tuple(made)


DIGITS: Ranges = ((48, 57),)
WORDS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACES = within((9, 13), (32, 32), (160, 160), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
                (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF))  # fmt: skip
DOT = without(within((10, 10), (13, 13), (0x2028, 0x2029)))
CLASSES: dict[str, Ranges] = {
    "d": DIGITS, "w": WORDS, "s": SPACES, "D": without(DIGITS), "W": without(WORDS), "S": without(SPACES),
}  # fmt: skip
CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
CATEGORY = re.compile(r"(?:(?:gc|General_Category)=)?([CLMNPSZ][a-z]?|LC)")
LONG_NAMES = {
    "Letter": "L",
    "Uppercase_Letter": "Lu",
    "Lowercase_Letter": "Ll",
    "Mark": "M",
    "Number": "N",
    "Decimal_Number": "Nd",
    "Punctuation": "P",
    "Symbol": "S",
    "Separator": "Z",
    "Other": "C",
}
COUNT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
NAME = re.compile(r"<([\w$]+)>")
GROUP_OR_LITERAL = re.compile(r"\\.|\[(?:\\.|[^\]\\])*|\(\?<(?P<name>[\w$]+)>|\((?!\?)", re.DOTALL)
"""A capturing group's beginning; or an escape or a class, where a bracket begins no group."""
LARGEST_COUNT = 2**31 - 1
"""Texts are never longer, so larger counts are equivalent."""


@cache
def of_category(name: str) -> Ranges:
    """Return the characters of a general category, or of a class of them, in this Python's Unicode version."""
    wanted = ("Lu", "Ll", "Lt") if name == "LC" else (name,)
    found = [code for code in range(LAST + 1) if unicodedata.category(chr(code)).startswith(wanted)]
    return within(*((code, code) for code in found))


def read_pattern(pattern: str) -> Disjunction:
    """Parse a pattern.

    Raises:
        EcmaError: it is not a regular expression of ECMA 262, or nested too deeply.
    """
    return _PatternParser(pattern).whole()


@frozen
class _Escape:
    """The text after a backslash: one character, or a class."""

    signs: CharacterSet
    one: int | None = None


class _PatternParser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._count = 0
        self._open: list[int] = []
        """The numbers of the groups being read; 0 for non-capturing groups."""
        self._all, self._named = _groups(pattern)

    def whole(self) -> Disjunction:
        found = self._disjunction()
        if self._at < len(self._text):
            raise EcmaError("a bracket is closed that was not opened")
        return found

    def _next(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _disjunction(self) -> Disjunction:
        options = [self._alternative()]
        while self._next("|"):
            options.append(self._alternative())
        return Disjunction(tuple(options))

    def _alternative(self) -> Alternative:
        items: list[Piece] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            items.append(self._repetition(self._piece()))
        return Alternative(tuple(items))

    def _repetition(self, one: Piece) -> Piece:
        fewest, most = 0, None
        if count := COUNT.match(self._text, self._at):
            self._at = count.end()
            fewest = min(_number(count[1]), LARGEST_COUNT)
            most = fewest if not count[2] else min(_number(count[3]), LARGEST_COUNT) if count[3] else None
            if most is not None and most < fewest:
                raise EcmaError(f"numbers out of order in {count[0][:40]}")
        elif self._next("+"):
            fewest = 1
        elif self._next("?"):
            most = 1
        elif not self._next("*"):
            return one
        if isinstance(one, Assertion) or (isinstance(one, Lookaround) and "<" in one.sign):
            raise EcmaError("nothing to repeat")
        return Repetition(one, fewest, most, self._next("?"))

    def _piece(self) -> Piece:
        sign = self._text[self._at]
        if sign in "*+?" or COUNT.match(self._text, self._at):
            raise EcmaError("nothing to repeat")
        self._at += 1
        match sign:
            case "^" | "$":
                return Assertion(sign)
            case ".":
                return CharacterSet(DOT)
            case "[":
                return self._class()
            case "(":
                return self._group()
            case "\\":
                if self._text[self._at : self._at + 1] in ("b", "B"):
                    self._at += 1
                    return Assertion(self._text[self._at - 1])
                return self._back_reference() or self._escape().signs
            case _:
                return _sign(ord(sign))

    def _group(self) -> Piece:
        if len(self._open) == DEEPEST:
            raise EcmaError(f"its groups are nested in more than {DEEPEST} levels")
        captures, look = False, ""
        if self._next("?"):
            look = next((one for one in ("=", "!", "<=", "<!") if self._next(one)), "")
            if not look and not self._next(":"):
                if (name := NAME.match(self._text, self._at)) is None:
                    raise EcmaError(f"a group begins with {self._text[self._at - 2 : self._at + 2]!r}")
                self._at, captures = name.end(), True
        else:
            captures = True
        self._count += captures
        self._open.append(self._count if captures else 0)
        body = self._disjunction()
        if not self._next(")"):
            raise EcmaError("a bracket is not closed")
        self._open.pop()
        return Lookaround(look, body) if look else Group(body, captures)

    def _back_reference(self) -> Piece | None:
        """Read a back-reference after a backslash. Inside its own group it matches the empty text."""
        if (told := re.compile("[1-9][0-9]{0,4}").match(self._text, self._at)) and int(told[0]) <= self._all:
            self._at = told.end()
            return self._reference(int(told[0]))
        if self._named and self._next("k"):
            name = NAME.match(self._text, self._at)
            if name is None or name[1] not in self._named:
                raise EcmaError("a reference to a group that there is not")
            self._at = name.end()
            return self._reference(self._named[name[1]])
        return None

    def _reference(self, group: int) -> Piece:
        return Alternative(()) if group in self._open else BackReference(group)

    def _class(self) -> CharacterSet:
        negated = self._next("^")
        ranges: list[tuple[int, int]] = []
        properties: list[str] = []
        while not self._next("]"):
            low = self._class_part()
            high = low
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                high = self._class_part()
                if low.one is None or high.one is None:  # no range, then: the sign stands for itself
                    ranges.append((45, 45))
                elif low.one > high.one:
                    raise EcmaError("a range whose end comes before its beginning")
                else:
                    ranges.append((low.one, high.one))
            for part in (low, high):
                ranges += part.signs.ranges
                properties += part.signs.properties
        found = within(*ranges)
        if properties:
            return CharacterSet(found, tuple(dict.fromkeys(properties)), negated)
        return CharacterSet(without(found) if negated else found)

    def _class_part(self) -> _Escape:
        if self._at >= len(self._text):
            raise EcmaError("a class is not closed")
        self._at += 1
        sign = self._text[self._at - 1]
        if sign != "\\":
            return _Escape(_sign(ord(sign)), ord(sign))
        for letter, code in (("b", 8), ("-", 45)):
            if self._next(letter):
                return _Escape(_sign(code), code)
        return self._escape()

    def _escape(self) -> _Escape:
        if self._at >= len(self._text):
            raise EcmaError("it ends with a backslash")
        sign = self._text[self._at]
        self._at += 1
        if sign in CLASSES:
            return _Escape(CharacterSet(CLASSES[sign]))
        if sign in "pP" and (told := re.compile(r"\{([\w=]+)\}").match(self._text, self._at)):
            self._at = told.end()
            return _Escape(_property(told[1], negated=sign == "P"))
        code = self._code(sign)
        return _Escape(_sign(code), code)

    def _code(self, sign: str) -> int:
        text, at = self._text, self._at
        if sign in CONTROLS:
            return CONTROLS[sign]
        if sign == "c" and re.match("[A-Za-z]", text[at : at + 1]):
            self._at += 1
            return ord(text[at]) % 32
        if sign == "c":  # the backslash stands for itself
            self._at -= 1
            return 92
        if sign in "01234567" and (told := re.compile("[0-3][0-7]{0,2}|[4-7][0-7]?").match(text, at - 1)):
            self._at = told.end()
            return int(told[0], 8)
        for letter, form in (("x", "([0-9a-fA-F]{2})"), ("u", "([0-9a-fA-F]{4})"), ("u", r"\{0*([0-9a-fA-F]{1,6})\}")):
            if sign == letter and (told := re.compile(form).match(text, at)):
                self._at = told.end()
                code = int(told[1], 16)
                if code > LAST:
                    raise EcmaError(f"there is no sign {told[1]}")
                low = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(text, self._at)
                if letter == "u" and 0xD800 <= code < 0xDC00 and low:
                    self._at = low.end()
                    return 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
                return code
        return ord(sign)


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 12 else LARGEST_COUNT


def _sign(code: int) -> CharacterSet:
    return CharacterSet(((code, code),))


def _property(name: str, *, negated: bool) -> CharacterSet:
    known: dict[str, Ranges] = {"Any": ((0, LAST),), "ASCII": ((0, 127),)}
    category = CATEGORY.fullmatch(LONG_NAMES.get(name.rpartition("=")[2], name))
    found = known.get(name) or (of_category(category[1]) if category else ())
    if found:
        return CharacterSet(without(found) if negated else found)
    return CharacterSet((), (f"\\{'P' if negated else 'p'}{{{name}}}",))


def _groups(pattern: str) -> tuple[int, dict[str, int]]:
    """Return the number of capturing groups, and the numbers of the named ones."""
    named: dict[str, int] = {}
    count = 0
    for found in GROUP_OR_LITERAL.finditer(pattern):
        name = found["name"]
        if name in named:
            raise EcmaError(f"two groups are called {name!r}")
        count += found[0].startswith("(")
        if name is not None:
            named[name] = count
    return count, named


def write_class(piece: CharacterSet, *, surrogates: bool = True) -> str:
    """Return a class in a form that every dialect reads the same way; ``surrogates=False`` excludes surrogates."""
    ranges = piece.ranges
    if not surrogates:
        ranges = tuple(
            part
            for low, high in ranges
            for part in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high))
            if part[0] <= part[1]
        )
    if not piece.properties and len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _code(ranges[0][0])
    inside = "".join(_code(low) + (f"-{_code(high)}" if high > low else "") for low, high in ranges)
    inside += "".join(piece.properties)
    if not inside:
        return f"[{'' if piece.negated else '^'}\\x00-\\U0010ffff]"
    return f"[{'^' if piece.negated else ''}{inside}]"


def _code(code: int) -> str:
    if code < 128 and chr(code).isalnum():
        return chr(code)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"

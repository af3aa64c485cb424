"""Read values that are neither JSON nor bare text: Python literals, and objects with strings quoted by tokens.

::

    q='zebra', n=5, exact=True, tags=['a', "b"], filter={'a': None}
    q:<|"|>zebra<|"|>,n:5,exact:true,tags:[<|"|>a<|"|>],filter:{a:null}

Both follow the same few rules, apart from the syntax of strings.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

DEEPEST = 100
"""The limit of nested brackets."""

LONGEST_NUMBER = 1000
"""The most digits of a number. Python refuses integers of more than 4300 digits, and no tool needs them."""

WORD = re.compile(r"[^\s\[\](){},:=]+")
NUMBER = re.compile(r"-?\d+(\.\d*)?([eE][+-]?\d+)?")
SPACE = re.compile(r"\s*")
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|U0010[0-9a-fA-F]{4}|.)", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "", "0": "\0"}
CONSTANTS: dict[str, bool | None] = {
    "True": True, "true": True, "False": False, "false": False, "None": None, "null": None,
}  # fmt: skip
"""As templates write them: some in JSON, some in Python."""
BEHIND = re.compile(r"\s*(?:[,:)\]}]|$)")
BEHIND_KEY = re.compile(r"\s*[:=]")
"""``BEHIND`` matches the text after the quotation mark that closes a value, ``BEHIND_KEY`` the text after a key's."""
APOSTROPHE = re.compile(r"\w'\w")
BESIDE = re.compile(r"""(['"])\s*\1""")
"""Two texts beside each other. They are one in Python, and may be quotations within one."""
LAST = re.compile(r"[\w.!?%)\]}>;\"]")
"""The last character of a text with an apostrophe, if the quotation mark behind it certainly closes the text."""
NEXT_MEMBER = re.compile(r"\s*(?:[\]}]|(,)\s*([\w.-]+\s*:|[\[{\d]|$)?|$)")
"""Text that may follow the end of an object's value: a closing bracket, or a comma and another member or item."""
UNESCAPED_QUOTE = "unescaped quotation mark"
QUOTE_WITHIN = "a quotation mark within a text is not escaped"
RARE = frozenset("bf")
"""Escapes of control characters that no model means. Beside an invalid escape, their backslash is literal, too."""
DOUBTFUL_BACKSLASH = "some backslashes are escapes and some are not: write each backslash of a text twice"
CLOSERS = {"{": "}", "[": "]", "(": ")"}


class Doubt(NamedTuple):
    """A note that string boundaries in a call's text are uncertain, so a marker inside a string may really end the
    call.
    """

    place: int
    """The start of the uncertain boundaries."""
    open: bool = False
    """Whether the string that begins there is never closed. Text that seems to be inside it may really be inside."""

    def shift(self, by: int) -> Doubt:
        return Doubt(self.place + by, self.open)


class UnreadableCallError(Exception):
    """Raised for a call that can't be read, with the reason."""

    def __init__(self, reason: str, doubt: Doubt | None = None) -> None:
        super().__init__(reason)
        self.doubt = doubt


class LiteralReader:
    """Reads values from a text, one after the other; ``at`` is the current position.

    Strings stand between ``quotes``; with ``escapes``, a backslash in them escapes the next character.
    """

    def __init__(self, text: str, quotes: tuple[str, ...], *, escapes: bool, at: int = 0) -> None:
        self.text = text
        self.at: int = at
        self.repairs: tuple[str, ...] = ()
        self._quotes, self._escapes = quotes, escapes
        # Whether a backslash of the call is an escape, whether one is none, and whether one escapes a quotation mark.
        self._valid = self._invalid = self._escapes_quotes = False

    def skip(self) -> None:
        self.at = SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]  # it matches nothing as well

    def begin_call(self) -> None:
        """Forget the repairs and the backslashes of the last call."""
        self.repairs = ()
        self._valid = self._invalid = self._escapes_quotes = False

    def take(self, sign: str) -> bool:
        """Skip ``sign`` if it comes next; return whether it did."""
        self.skip()
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise self._unexpected(repr(sign))

    def word(self) -> str:
        self.skip()
        if (found := WORD.match(self.text, self.at)) is None:
            raise self._unexpected("a name")
        self.at = found.end()
        return found.group()

    def _unexpected(self, wanted: str) -> UnreadableCallError:
        here = self.text[self.at : self.at + 20]
        return UnreadableCallError(f"{wanted} was expected at character {self.at}, not {here!r}")

    def members(self, closer: str, sign: str, depth: int = 0) -> dict[str, Any]:
        """Read ``K=V, K=V`` up to the bracket ``closer``; ``sign`` separates key and value."""
        members: dict[str, Any] = {}
        while self._continues(closer, bool(members)):
            quote = self._quote()
            key = self._string(quote, BEHIND_KEY) if quote else self.word()
            self.expect(sign)
            if key in members:
                raise UnreadableCallError(f"the parameter {key!r} is given twice")
            members[key] = self.value(depth + 1)
        return members

    def value(self, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise UnreadableCallError("the arguments are nested too deeply")
        self.skip()
        if quote := self._quote():
            return self._string(quote)
        if self.take("{"):
            return self.members("}", ":", depth)
        for opener in "[(":
            if self.take(opener):
                items: list[Any] = []
                while self._continues(CLOSERS[opener], bool(items)):
                    items.append(self.value(depth + 1))
                return items
        word = self.word()
        if word in CONSTANTS:
            return CONSTANTS[word]
        if NUMBER.fullmatch(word) and len(word) <= LONGEST_NUMBER:
            return float(word) if set(word) & set(".eE") else int(word)
        raise UnreadableCallError(f"{word[:40]!r} is no value")

    def _continues(self, closer: str, begun: bool) -> bool:
        """Return whether another item comes before the bracket ``closer``, which is read if none comes."""
        if self.take(closer):
            return False
        if begun:
            self.expect(",")
        return not (begun and self.take(closer))  # a trailing comma, as Python has it

    def _quote(self) -> str:
        self.skip()
        return next((quote for quote in self._quotes if self.text.startswith(quote, self.at)), "")

    def _string(self, quote: str, behind: re.Pattern[str] = BEHIND) -> str:
        """Read a string that begins with ``quote``. ``behind`` matches the text that may follow it.

        Raises:
            UnreadableCallError: a quotation mark or a backslash in it leaves a doubt about what was meant.
        """
        if not self._escapes:
            return self._between_tokens(quote)
        closer = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        start = at = self.at + len(closer)
        apostrophe = quoted = False
        while True:
            if (end := self.text.find(closer, at)) < 0:
                raise UnreadableCallError("a string is not closed", Doubt(start, open=True))
            backslash = self.text.find("\\", at, end)
            if backslash >= 0:
                at = backslash + 2
                continue
            if behind.match(self.text, end + len(closer)):
                break
            if len(closer) > 1 or BESIDE.match(self.text, end):
                raise UnreadableCallError(QUOTE_WITHIN, Doubt(start, open=True))
            within = closer == "'" and APOSTROPHE.match(self.text, end - 1)
            apostrophe, quoted, at = apostrophe or bool(within), quoted or not within, end + 1
        # The last quotation mark of all certainly ends the text. Another one does if those before it are apostrophes
        # and it stands behind a word: one that opens a quotation does not.
        if (quoted and self.text.find(quote, end + 1) >= 0) or (apostrophe and not LAST.match(self.text, end - 1)):
            raise UnreadableCallError(QUOTE_WITHIN, Doubt(start, open=True))
        if apostrophe or quoted:
            if "\\" in self.text[start:end]:  # others were escaped, or a backslash was no escape either
                raise UnreadableCallError(QUOTE_WITHIN, Doubt(start, open=True))
            self.repairs = (UNESCAPED_QUOTE,)
        self.at = end + len(closer)
        written = self.text[start:end]
        self._escapes_quotes = self._escapes_quotes or f"\\{quote}" in written
        if self.repairs and self._escapes_quotes:
            raise UnreadableCallError(QUOTE_WITHIN, Doubt(start, open=True))
        return self._unescape(written)

    def _unescape(self, written: str) -> str:
        """Return a Python string's text. An escape that Python does not know keeps its backslash, as in Python."""
        if "\\" not in written:
            return written
        kinds = {_is_known(found[1]): found for found in ESCAPE.finditer(written) if found[1] not in RARE}
        self._invalid = self._invalid or False in kinds
        self._valid = self._valid or True in kinds
        if self._invalid and self._valid:
            raise UnreadableCallError(DOUBTFUL_BACKSLASH)
        if self._invalid:
            return written
        self._valid = True
        return ESCAPE.sub(_replace_escape, written)

    def _between_tokens(self, quote: str) -> str:
        """Read a string between two tokens. The same token within it stands for a quotation mark, in pairs."""
        start = at = self.at + len(quote)
        within = 0
        while True:
            if (end := self.text.find(quote, at)) < 0:
                raise UnreadableCallError("a string is not closed", Doubt(start, open=True))
            at = end + len(quote)
            closes = BEHIND.match(self.text, at)
            if within % 2 == 0 and closes:
                break
            if '"' not in quote or (within % 2 and self._begins_member(at, quote)):
                raise UnreadableCallError(QUOTE_WITHIN, Doubt(start, open=True))
            within += 1
        self.at = at
        written = self.text[start:end]
        if within:
            self.repairs = (UNESCAPED_QUOTE,)
            written = written.replace(quote, '"')
        return written

    def _begins_member(self, at: int, quote: str) -> bool:
        """Return whether the text at ``at`` may follow a string that ends there: a bracket, a member or an item."""
        found = NEXT_MEMBER.match(self.text, at)
        return found is not None and (
            found[1] is None or self.text.startswith(quote, found.end()) or found[2] is not None
        )


def _is_known(code: str) -> bool:
    return len(code) > 1 or code in ESCAPED or code in "\\'\""


def _replace_escape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else ESCAPED.get(code, code)

"""Possible encodings of a known text: escaped, encoded, in other Unicode forms, or cut off.

A named secret is searched in the plain text, and in the text with its escapes decoded. These are percent-encoding,
backslashes of JSON, Python, C and shells, entities of HTML and XML, quoted-printable, doubled quotes and broken lines.
They may be nested up to ``DEPTH`` levels. Decoding preserves the position of each character, so a secret is hidden at
its place, in its encoded form. Encodings of the whole secret (base64 at each of its three alignments, hexadecimal) are
separate words.
"""

from __future__ import annotations

import base64
import html
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unicodedata import normalize
from urllib.parse import quote, quote_plus

from attrs import Factory, field, frozen

from interpreters.recording.secrets.shapes import Found

DEPTH = 6
"""Maximum number of nested escapes."""

PARTIAL = 4
"""Minimum characters of a partial secret at the end or beginning of a text, where a cancelled reply or a cut result may
have split it.
"""

SHORT = 4
"""Minimum characters of a secret for encodings of the whole, since shorter ones would match everywhere."""

LEAST = 8
"""Minimum characters of a partial encoding of the whole."""


def _derived(value: Callable[[Any], Any]) -> Any:
    return field(init=False, default=Factory(value, takes_self=True))


@frozen
class Word:
    """A text to search: a secret, or an encoding of it."""

    name: str
    text: str
    left: int = 0
    """Number of characters before and after it that also contain a part of the secret."""
    right: int = 0
    padding: bool = False
    hexadecimal: bool = False
    run: bool = False
    """Whether it consists only of letters, digits and ``+/-_``."""

    least: int = _derived(lambda word: LEAST if word.padding or word.hexadecimal else PARTIAL)
    """Minimum characters of a part at an end of the text."""
    head: str = _derived(lambda word: word.text[: word.least])
    tail: str = _derived(lambda word: word.text[-word.least :])


FORMS: Mapping[str, Callable[[str], str]] = {
    "": str,
    ":json": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    ":ascii": lambda text: json.dumps(text)[1:-1],
    ":url": lambda text: quote(text, safe="", errors="replace"),
    ":path": lambda text: quote(text, errors="replace"),
    ":form": lambda text: quote_plus(text, errors="replace"),
    ":html": html.escape,
    ":repr": lambda text: repr(text)[1:-1],
    ":hex": lambda text: _bytes(text).hex(),
    ":base64": lambda text: base64.b64encode(_bytes(text)).decode(),
    ":base64url": lambda text: base64.urlsafe_b64encode(_bytes(text)).decode(),
    ":base64bare": lambda text: base64.urlsafe_b64encode(_bytes(text)).decode().rstrip("="),
    ":nfc": lambda text: normalize("NFC", text),
    ":nfd": lambda text: normalize("NFD", text),
}
"""Named encodings, which another process recognizes too. Other encodings are known only to this process."""


def forms_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield each distinct named encoding with its name."""
    forms: dict[str, str] = {}
    for form, write in FORMS.items():
        forms.setdefault(write(text), form)
    yield from ((form, written) for written, form in forms.items())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def words_of(name: str, text: str) -> Iterator[Word]:
    """Yield all words to search for one secret."""
    composed = {text, *(normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD"))}
    for one in sorted(composed):
        yield Word(name, one)
        if " " in one:
            yield Word(name, one.replace(" ", "+"))
    if len(text) < SHORT:
        return
    for mark in ("", ":", " ", "-"):
        yield Word(name, _bytes(text).hex(mark) if mark else _bytes(text).hex(), hexadecimal=True, run=mark != " ")
    for data in (_bytes(text), text.encode("utf-16-le", "surrogatepass")):  # the second one as PowerShell takes it
        for before in range(3):
            bits = 8 * (before + len(data))
            whole = base64.b64encode(b"\0" * before + data).decode()[(0, 2, 3)[before] : bits // 6]
            for written in {whole, whole.replace("+", "-").replace("/", "_")}:
                if len(written) >= SHORT:
                    yield Word(name, written, left=min(before, 1), right=min(bits % 6, 1), padding=True, run=True)


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@frozen
class Escapes:
    """A kind of escape."""

    pattern: re.Pattern[str] = field(converter=_compile)
    marks: tuple[str, ...]
    """Every escape contains at least one of these texts."""
    nothing: bool = False
    """Whether these escapes represent no character."""


class DecodedText:
    """A decoded text with the position of each character in the original."""

    def __init__(
        self, text: str, places: list[tuple[int, int]] | None = None, before: DecodedText | None = None
    ) -> None:
        self.text = text
        self._places = places
        """Start of each stretch here and in the previous text. Inside a stretch, characters correspond one to one."""
        self._starts = [] if places is None else [here for here, _ in places]
        self._before = before

    def place(self, position: int) -> int:
        """Return the position of a character in the original text."""
        if self._places is not None:
            here, there = self._places[bisect_right(self._starts, position) - 1]
            position = there + position - here
        return position if self._before is None else self._before.place(position)

    def read(self, escapes: Escapes, alphabet: frozenset[str]) -> DecodedText | None:
        """Decode the escapes that represent a character of the alphabet, or none. Return None without such escapes."""
        pieces, places, end, length = [], [(0, 0)], 0, 0
        text = self.text
        if not any(mark in text for mark in escapes.marks):
            return None
        for match in escapes.pattern.finditer(text):
            start, stop = match.span()
            characters = [] if escapes.nothing else list(_characters(match[0], start))
            if characters and not any(alphabet.issuperset(character) for character, _ in characters):
                continue
            pieces.append(text[end:start])
            length += start - end
            for character, there in characters:
                places.append((length, there))
                pieces.append(character)
                length += len(character)
            places.append((length, stop))
            end = stop
        if not end:
            return None
        pieces.append(text[end:])
        return DecodedText("".join(pieces), places, self)


_BACKSLASH = (
    r"(?:\\x[0-9A-Fa-f]{2}|\\[0-3][0-7]{2})+|\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"
    r"|\\U[0-9A-Fa-f]{8}|\\u\{[0-9A-Fa-f]{1,6}\}|\\(?s:.)"
)
_PERCENT = r"(?:%[0-9A-Fa-f]{2})+|%u[0-9A-Fa-f]{4}"
_ENTITY = r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
ESCAPES = Escapes(f"{_BACKSLASH}|{_PERCENT}|{_ENTITY}", ("\\", "%", "&"))
KINDS = (
    Escapes(_BACKSLASH, ("\\",)),
    Escapes(_PERCENT, ("%",)),
    Escapes(_ENTITY, ("&",)),
    Escapes(r"(?:=[0-9A-F]{2})+|=\r?\n", ("=",)),  # quoted-printable, RFC 2045
    Escapes(r"'\\''|'\"'\"'", ("'\\''", "'\"'\"'")),  # quotation marks of shells, SQL and CSV
    Escapes(r"''", ("''",)),
    Escapes(r"\"\"", ('""',)),
    Escapes(r"[`^][^A-Za-z0-9\s]", ("`", "^")),  # what Windows' shells escape by
    Escapes(  # base64 in lines, RFC 2045; the end of a line may be written in JSON
        r"(?<=[A-Za-z0-9+/=_-]{16})(?:\\{1,8}r)?(?:\\{1,8}n|\r?\n)[ \t]{0,8}(?=[A-Za-z0-9+/=_-]{2})",
        ("\n", "\\n"),
        nothing=True,
    ),
)
"""Each kind of escape alone, because an escape of one kind may be characters of the secret in another."""

MARKED = re.compile("|".join(sorted({re.escape(mark) for kind in KINDS for mark in kind.marks})))
"""Occurs in every text that decoding may change."""

SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "e": "\x1b", "0": "\0"}
TORN = re.compile(r"(?:%[0-9A-Fa-f]?|\\+(?:u[0-9A-Fa-f]{0,3}|x[0-9A-Fa-f]?)?|&[#A-Za-z0-9]{0,8}|=[0-9A-F]?)\Z")
"""An escape cut by the end of the text."""
LONGEST = 24
"""Maximum characters of such an escape."""
TORN_BEGINNING = re.compile(r"[#xA-Za-z0-9]{0,7};|[0-9A-Fa-f]{1,4}")
"""The rest of an escape cut by the beginning of the text."""


def _characters(escape: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield the characters that an escape represents, each with its position."""
    first, second = escape[0], escape[1:2]
    if first == "&":
        yield html.unescape(escape), start
    elif first == "%" and second == "u":
        yield chr(int(escape[2:], 16)), start
    elif first == "%" or (first == "=" and second not in "\r\n"):
        yield from _decode_bytes(bytes.fromhex(escape.replace(first, "")), start, 3)
    elif first == "\\" and second in "x0123" and len(escape) > 2:
        codes = [int(code[1:], 16) if code[0] == "x" else int(code, 8) for code in escape.split("\\")[1:]]
        yield from _decode_bytes(bytes(codes), start, 4)
    elif first == "\\" and second in "uU" and len(escape) > 2:
        codes = [int(code.strip("{}"), 16) for code in re.split(r"\\[uU]", escape)[1:]]
        if len(codes) == 2:
            yield chr(0x10000 + (codes[0] - 0xD800) * 0x400 + codes[1] - 0xDC00), start
        elif codes[0] < 0x110000:
            yield chr(codes[0]), start
    elif first == "\\" and second not in "\r\n" and len(escape) == 2:
        yield SIMPLE.get(second, second), start
    elif first in "'\"":
        yield first, start
    elif first in "`^":
        yield second, start


def _decode_bytes(data: bytes, start: int, width: int) -> Iterator[tuple[str, int]]:
    """Yield the characters of UTF-8 bytes, or of Latin-1 if invalid. Each byte is ``width`` characters wide."""
    encoding = "utf-8"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        encoding = "latin-1"
        text = data.decode(encoding)
    for character in text:
        yield character, start
        start += width * len(character.encode(encoding))


def _chain(reading: DecodedText, escapes: Escapes, alphabet: frozenset[str]) -> Iterator[DecodedText]:
    for _ in range(DEPTH):
        inner = reading.read(escapes, alphabet)
        if inner is None or inner.text == reading.text:
            return
        yield inner
        reading = inner


def _readings(whole: DecodedText, alphabet: frozenset[str]) -> Iterator[DecodedText]:
    """Yield all readings of a text: each kind of escape alone and inside backslashes, and all kinds together."""
    yield whole
    if MARKED.search(whole.text) is None:
        return
    backslashes, *others = KINDS
    for outer in (whole, *_chain(whole, backslashes, alphabet)):
        if outer is not whole:
            yield outer
        for kind in others:
            yield from _chain(outer, kind, alphabet)
    for reading in _chain(whole, ESCAPES, alphabet):
        yield reading
        for kind in others:
            inner = reading.read(kind, alphabet)
            if inner is not None:
                yield inner


class KnownSecrets:
    """Finds texts that are known by name, in any encoding."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        words = dict.fromkeys(word for name, text in secrets.items() for word in words_of(name, text))
        self._words = tuple(word for word in words if not word.run)
        self._in_runs = tuple(word for word in words if word.run)
        """Encodings of the whole, which need a run of characters that few texts contain."""
        least = min((len(word.text) for word in self._in_runs), default=LEAST)
        self._run = re.compile(b"a" * least)
        self._part = b"a" * min(least, LEAST)
        """Pattern for the classes of a text with such a run, or a part of one at an end."""
        characters = frozenset("\\%&=#;+/-_").union(*(word.text for word in self._words))
        self._alphabet = characters | frozenset("'\"") if characters & {"'", '"'} else characters
        """Characters that are worth decoding: those of the secrets and those of escapes."""
        self.numbers: dict[str, str] = {
            text: name for name, text in secrets.items() if re.fullmatch(r"-?[0-9][0-9.eE+-]*", text)
        }
        """Secrets that look like numbers. JSON may contain them without quotation marks."""

    def has_unencoded(self, text: str) -> bool:
        """Whether a text contains a secret unencoded: a fast test for the most frequent case."""
        return any(word.text in text for word in self._words)

    def may_be_in(self, text: str) -> bool:
        """Whether any of several texts, joined by NUL, needs a closer look.

        It does if it contains escapes, a run that may be an encoding, or the beginning or end of a secret.
        """
        if not self._words:
            return False
        if MARKED.search(text) is not None or self._part in text.encode("latin-1", "replace").translate(_RUNS):
            return True
        lower = text.lower()
        places = ((word, lower if word.hexadecimal else text) for word in self._words)
        return any(word.head in where or word.tail in where for word, where in places)

    def find_secrets(self, text: str, *, ends: bool = True) -> list[Found]:
        """Return the secrets, in any order; they may overlap. ``ends``: whether parts at both ends count."""
        found: list[Found] = []
        seen: set[str] = set()
        if not self._words:
            return found
        for reading in _readings(DecodedText(text), self._alphabet):
            if reading.text not in seen:
                seen.add(reading.text)
                self._search(reading, found, ends)
                torn = TORN.search(reading.text, max(len(reading.text) - LONGEST, 0)) if ends else None
                if torn is not None and torn.start():
                    self._search_end(reading, torn.start(), found, len(text))
        return found

    def _search(self, reading: DecodedText, found: list[Found], ends: bool) -> None:
        text = reading.text
        codes = text.encode("latin-1", "replace")
        lower = codes.lower().decode("latin-1")
        words = self._words
        classes = codes.translate(_RUNS)
        if self._run.search(classes) or (ends and (classes.startswith(_PART) or classes.endswith(_PART))):
            words += self._in_runs
        for word in words:
            where = lower if word.hexadecimal else text
            if word.text in where:
                start = where.find(word.text)
                while start >= 0:
                    end = start + len(word.text)
                    found.append(self._make_found(reading, word, start, end))
                    start = where.find(word.text, end)
            if (
                ends
                and len(word.text) > word.least
                and (word.head in where[-len(word.text) :] or word.tail in where[: len(word.text) + 8])
            ):
                self._search_ends(reading, word, where, found)

    def _make_found(self, reading: DecodedText, word: Word, start: int, end: int) -> Found:
        text = reading.text
        if word.left and start and _BASE64.match(text, start - 1):
            start -= 1
        if word.right and _BASE64.match(text, end):
            end += 1
        if word.padding:
            while text.startswith("=", end):
                end += 1
        return Found(reading.place(start), reading.place(end), word.name)

    def _search_ends(self, reading: DecodedText, word: Word, text: str, found: list[Found]) -> None:
        whole, least = word.text, word.least
        if len(whole) <= least or not text:
            return
        tail = max(len(text) - len(whole) + 1, 0)
        start = text.find(whole[:least], tail)
        while start >= 0:
            if whole.startswith(text[start:]):
                found.append(Found(reading.place(start), reading.place(len(text)), word.name))
                break
            start = text.find(whole[:least], start + 1)
        end = text.rfind(whole[-least:], 0, len(whole) + 8)
        while end >= 0:
            torn = TORN_BEGINNING.match(text)
            starts = range(max(end + least - len(whole) + 1, 0), 1 + (torn.end() if torn else 0))
            if any(whole.endswith(text[start : end + least]) for start in starts):
                found.append(Found(0, reading.place(end + least), word.name))
                break
            end = text.rfind(whole[-least:], 0, end + least - 1)

    def _search_end(self, reading: DecodedText, length: int, found: list[Found], last: int) -> None:
        """Search the end of a text that cuts an escape: the text before the escape, and further decodings of it."""
        cut: DecodedText | None = DecodedText(reading.text[:length], None, reading)
        while cut is not None:
            partial: list[Found] = []
            for word in (*self._words, *self._in_runs):
                self._search_ends(cut, word, cut.text, partial)
            found += [Found(one.start, last, one.kind) for one in partial if one.end >= cut.place(len(cut.text))]
            cut = cut.read(ESCAPES, self._alphabet)


_RUNS = bytes(97 if chr(code).isalnum() or code in b"+/-_:" else 32 for code in range(128)).ljust(256, b" ")
_PART = b"a" * LEAST
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]")

r"""Text of models, tools, files and recordings as people see it: what would steer a terminal is shown, not obeyed.

There are two forms. ``shown_text`` is for a text of several lines, such as an answer: its line breaks and tabs stay.
``shown_name`` is for what stands on one line, such as a name or an error's message: line breaks and tabs are written
out too, and its length is bounded. What is written out becomes an escape as in Python's strings: ``\x1b``, ``\u202e``.

Where the line is drawn. Letters, marks, symbols and spaces of every script stay, and so do the few invisible characters
that are part of how something is spelled: a joiner behind an emoji or behind a letter of a script that uses joiners,
and a variation selector behind a symbol that has two forms. All else that is not seen is shown: control characters (C0,
DEL, C1), bidirectional controls and marks, separators of lines and paragraphs, characters of no width, fillers, tag
characters, halves of surrogate pairs, and what is private or not assigned. A backslash stays as it is, so that a text
may look as if something had been written out in it; where that matters, as in an approval, text is shown as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import accumulate, islice
from unicodedata import category

LONGEST_NAME = 200
"""Characters of a name."""
LONGEST_LINE = 2000
"""Characters of a message: it may repeat what stands in a file, which may be of any length."""

_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe0e\ufe0f"
_SYMBOLS = "\xa9\xae\u203c\u2049\u2100-\u214f\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
"""Where emoji and other pictures stand."""
_JOINING = "\u0620-\u06dc\u06de-\u070e\u0710-\u088f\u08a0-\u08e1\u08e3-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u180a"
"""Arabic, Syriac and their neighbours, the scripts of India and Sri Lanka, Myanmar, Khmer, Mongolian."""

_OUT_OF_PLACE = re.compile(
    f"(?<![{_SYMBOLS}])(?<![{_SYMBOLS}]\ufe0f)(?<![{_JOINING}\u1820-\u18af\ufb50-\ufdff\ufe70-\ufefc])[{_JOINERS}]"
    f"|(?<![{_SYMBOLS}#*0-9])[{_SELECTORS}]"
)
"""Joiners and variation selectors that spell nothing. Two characters before are looked at."""

_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2065\u2800\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE0E)), map(chr, range(0xE0000, 0xE1000))
)
"""What Unicode calls printable or may assign, and nobody sees: fillers, blanks, selectors, tags
(Default_Ignorable_Code_Point in DerivedCoreProperties.txt, and the empty pattern of Braille)."""

_SEEN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
"""Format characters that are seen: signs of Arabic, Syriac and Kaithi that stand over or around numbers."""

_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def shown_text(text: str, before: str = "") -> str:
    r"""A text of any number of lines. The carriage return of CRLF goes.

    Args:
        text: what is to be shown.
        before: what was shown before it, where it comes in pieces; the last two characters count.
    """
    return _shown(text.replace("\r\n", "\n"), before, "\n\t")


def shown_name(text: str, longest: int | None = LONGEST_NAME) -> str:
    """A text on one line, in at most ``longest`` characters; of a longer one both ends, and how much is not shown."""
    if longest is None:
        return _shown(text)
    if len(text) <= longest:
        shown = _shown(text)
        if len(shown) <= longest:
            return shown
    room = longest - len(_gap(len(text)))
    first, head = _fitting(text[:longest], 2 * room // 3)
    last, tail = _fitting(reversed(text[-longest:]), room // 3)
    return f"{''.join(head)}{_gap(len(text) - first - last)}{''.join(reversed(tail))}"


def shown_json(text: str) -> str:
    r"""JSON of the same value, whose strings are written so that nothing in them steers a terminal: ``\u202e``.

    Args:
        text: JSON. Line breaks between its values stay.
    """
    if text.isascii() and text.isprintable():
        return text
    found = (char for char in set(text) if char != "\n" and (char in _JOINERS or char in _SELECTORS or _steers(char)))
    return text.translate({ord(char): json.dumps(char)[1:-1] for char in found})


def _shown(text: str, before: str = "", kept: str = "") -> str:
    if text.isascii() and text.isprintable():
        return text
    characters = set(text)
    text = _without_steering(text, characters.difference(kept))
    # These mean something behind a letter, and nothing behind an escape.
    if not characters.isdisjoint(_JOINERS + _SELECTORS):
        last = before[-2:]
        text = _without_strays(text, _without_steering(last, set(last)))
    return text


def _without_steering(text: str, characters: set[str]) -> str:
    return text.translate({ord(char): _escape(char) for char in characters if _steers(char)})


def _without_strays(text: str, before: str) -> str:
    whole, end = before + text, len(before)
    pieces: list[str] = []
    for stray in _OUT_OF_PLACE.finditer(whole, len(before)):
        pieces += whole[end : stray.start()], _escape(stray[0])
        end = stray.end()
    return "".join((*pieces, whole[end:]))


def _steers(char: str) -> bool:
    if char in _UNSEEN:
        return True
    if char.isprintable() or char in _SEEN or char in _JOINERS:
        return False
    # Emoji that are newer than this Python's tables stand among the others.
    return category(char) != "Zs" and not "\U0001f000" <= char <= "\U0001faff"


def _escape(char: str) -> str:
    number = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _fitting(characters: Iterable[str], room: int) -> tuple[int, list[str]]:
    """As many characters as fit, each shown by itself, and their number."""
    shown = [_shown(char) for char in islice(characters, max(room, 0))]
    number = sum(size <= room for size in accumulate(map(len, shown)))
    return number, shown[:number]


def _gap(number: int) -> str:
    return f"… ({number} characters not shown) …"

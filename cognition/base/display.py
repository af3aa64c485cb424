r"""Make text from models, tools, files and recordings safe to display: terminal control characters are escaped.

``shown_text`` is for text of several lines, such as an answer: it keeps line breaks and tabs. ``shown_name`` is for
single lines, such as a name or an error message: it also escapes line breaks and tabs, and bounds the length. Escapes
are those of Python strings: ``\x1b``, ``\u202e``.

Letters, marks, symbols and spaces of every script stay. So do the few invisible characters that are part of spelling:

- a joiner after an emoji or after a letter of a script that uses joiners
- a variation selector after a symbol with two forms

All other invisible characters are escaped: control characters (C0, DEL, C1), bidirectional controls and marks, line and
paragraph separators, zero-width characters, fillers, tag characters, lone surrogates, private and unassigned code
points. A backslash stays, so a text can imitate an escape; where that matters, as in an approval, use ``shown_json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import accumulate, islice
from unicodedata import category

LONGEST_NAME = 200
"""Default maximum of characters of a name."""
LONGEST_LINE = 2000
"""Maximum of characters of a message: it may quote a file of any length."""

_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe0e\ufe0f"
_SYMBOLS = "\xa9\xae\u203c\u2049\u2100-\u214f\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
"""Ranges of emoji and other pictures."""
_JOINING = "\u0620-\u06dc\u06de-\u070e\u0710-\u088f\u08a0-\u08e1\u08e3-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u180a"
"""Arabic, Syriac and their neighbours, the scripts of India and Sri Lanka, Myanmar, Khmer, Mongolian."""

_OUT_OF_PLACE = re.compile(
    f"(?<![{_SYMBOLS}])(?<![{_SYMBOLS}]\ufe0f)(?<![{_JOINING}\u1820-\u18af\ufb50-\ufdff\ufe70-\ufefc])[{_JOINERS}]"
    f"|(?<![{_SYMBOLS}#*0-9])[{_SELECTORS}]"
)
"""Joiners and variation selectors out of place. The pattern looks at the two characters before."""

_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2065\u2800\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE0E)), map(chr, range(0xE0000, 0xE1000))
)
"""Invisible characters that Unicode calls printable or may assign: fillers, blanks, selectors, tags
(Default_Ignorable_Code_Point in DerivedCoreProperties.txt, and the empty pattern of Braille).
"""

_SEEN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
"""Visible format characters: Arabic, Syriac and Kaithi signs over or around numbers."""

_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def shown_text(text: str, before: str = "") -> str:
    """Escape a text of any number of lines. CRLF becomes LF.

    Args:
        text: the text to show.
        before: the text shown before it, if it comes in pieces; only its last two characters matter.
    """
    return _escape_text(text.replace("\r\n", "\n"), before, "\n\t")


def shown_name(text: str, longest: int | None = LONGEST_NAME) -> str:
    """Return a text on one line of at most ``longest`` characters; a longer text keeps both ends and the number left
    out.
    """
    if longest is None:
        return _escape_text(text)
    if len(text) <= longest:
        shown = _escape_text(text)
        if len(shown) <= longest:
            return shown
    room = longest - len(_gap(len(text)))
    first, head = _fitting(text[:longest], 2 * room // 3)
    last, tail = _fitting(reversed(text[-longest:]), room // 3)
    return f"{''.join(head)}{_gap(len(text) - first - last)}{''.join(reversed(tail))}"


def shown_json(text: str) -> str:
    r"""Return equal JSON without characters that control a terminal: they are escaped as ``\u202e``.

    Args:
        text: JSON. Line breaks between its values stay.
    """
    if text.isascii() and text.isprintable():
        return text
    found = (char for char in set(text) if char != "\n" and (char in _JOINERS or char in _SELECTORS or _steers(char)))
    return text.translate({ord(char): json.dumps(char)[1:-1] for char in found})


def _escape_text(text: str, before: str = "", kept: str = "") -> str:
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
    shown = [_escape_text(char) for char in islice(characters, max(room, 0))]
    number = sum(size <= room for size in accumulate(map(len, shown)))
    return number, shown[:number]


def _gap(number: int) -> str:
    return f"… ({number} characters not shown) …"
